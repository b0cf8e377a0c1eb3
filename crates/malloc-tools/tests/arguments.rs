// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `ample-malloc`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};

fn told(arguments: &[&OsStr]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ample-malloc"))
        .args(arguments)
        // No library: what is preloaded is not the subject.
        .env("AMPLE_MALLOC_LIB", "/dev/null")
        .output()
        .expect("the program starts")
}

#[test]
fn a_command_may_have_arguments_that_are_not_text() {
    let name = OsStr::from_bytes(b"a\xffb");
    let words = ["run", "--", "printf", "%s"].map(OsStr::new);
    let output = told(&[&words[..], &[name]].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"a\xffb");
    let output = told(&[OsStr::new("stats"), name]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn help_is_told_behind_every_command() {
    for words in [&["run", "--help"][..], &["stats", "-h"], &["--help"], &[]] {
        let words: Vec<_> = words.iter().map(OsStr::new).collect();
        let output = told(&words);
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("--options LIST"));
    }
    let output = told(&[OsStr::new("run")]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
