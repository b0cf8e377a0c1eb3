// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics at exit of programs that have closed their stderr.

use super::{program, run};
use std::path::Path;

#[test]
fn statistics_reach_stderr_though_the_program_has_closed_it() {
    let binary = program("closed_stderr.c");
    for options in ["stats=1", "stats=1,rseq=0"] {
        let output = run(&binary, &[], options);
        assert!(output.status.success(), "{output:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.lines().count() > 10, "{options}: {errors}");
    }
}

#[test]
fn statistics_never_go_into_a_file_of_the_program() {
    let binary = program("closed_stderr.c");
    let name = format!("precious.{}", std::process::id());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let path = file.to_str().expect("text");
    let output = run(&binary, &[path], "stats=1");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read(&file).expect("the file"), b"precious");
    std::fs::remove_file(&file).expect("it is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.lines().count() > 10, "{errors}");
}
