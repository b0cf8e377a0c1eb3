// SPDX-License-Identifier: MIT OR Apache-2.0
//! The committed pages of `results/` are those that the committed data make.

use ample_report::results::Results;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn generated_files_are_those_of_the_data() {
    let results = Results::load(&root()).expect("the data are valid");
    for file in results.generated(&root()).expect("every selector fits") {
        let committed = std::fs::read_to_string(root().join(&file.path)).unwrap_or_default();
        let path = file.path.display();
        assert!(
            committed == file.text,
            "{path} differs from results/data; run `make results`"
        );
    }
}

#[test]
fn no_figure_of_a_result_that_is_gone_stays() {
    let results = Results::load(&root()).expect("the data are valid");
    let folder = root().join("results/figures");
    for entry in std::fs::read_dir(folder).expect("figures are committed") {
        let name = entry.expect("a directory entry").file_name();
        let name = name.to_string_lossy();
        let record = name.strip_suffix(".svg").and_then(|id| results.record(id));
        assert!(
            record.is_some_and(|record| record.figure.is_some()),
            "{name} belongs to nothing"
        );
    }
}

#[test]
fn index_fits_two_screens() {
    let index = std::fs::read_to_string(root().join("results/index.md")).expect("a page");
    assert!(
        index.lines().count() <= 100,
        "{} lines",
        index.lines().count()
    );
}
