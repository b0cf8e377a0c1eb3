// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a core does on a miss and with a message (mark, refusal, miss-status entry, fill) stands
//! once, in `protocol`: the checker explores the transitions that the timed system takes.
//!
//! The compiler keeps most of it: outside `protocol` no cached line can be filled, probed or
//! evicted, no miss or request made, no mark set, since all of these are private to it. What is
//! left is text: nobody else may ask for a copy, or answer a home or the front end.

use std::fs;
use std::path::{Path, PathBuf};

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder of the tree");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Lines in which a core's message is made. A pattern ends in `..` or `=>`.
fn second_core_sides(text: &str) -> Vec<usize> {
    let made = |line: &str| {
        let line = line.trim();
        let kinds = ["RequestKind::GetShared", "RequestKind::GetModified"];
        let kind = kinds
            .iter()
            .any(|kind| line.contains(&format!("kind: {kind}")));
        let answers = [
            "Message::Unblock {",
            "Message::Marked(",
            "Message::Unmarked(",
        ];
        let answered = line.contains("send(") && answers.iter().any(|a| line.contains(a));
        kind || answered
    };
    let lines = (1..).zip(text.lines());
    lines
        .filter(|(_, line)| made(line))
        .map(|(n, _)| n)
        .collect()
}

#[test]
fn no_other_file_plays_a_core() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("crates/");
    let mut files = Vec::new();
    rust_files(crates, &mut files);
    let protocol = crates.join("migration/src/protocol");
    let own = Path::new(file!()).file_name();
    let mut machine = 0;
    for file in files.iter().filter(|file| file.file_name() != own) {
        let text = fs::read_to_string(file).expect("text");
        machine += usize::from(text.contains("CoreSide<Arrays"));
        let found = second_core_sides(&text);
        let here = file.starts_with(&protocol);
        assert!(
            here || found.is_empty(),
            "{}:{found:?}: a core's messages are made by CoreSide of ample-migration only",
            file.display()
        );
    }
    assert!(machine > 0, "the timed system runs CoreSide");
}

#[test]
fn a_second_core_side_is_noticed() {
    let planted = "fn miss() {\n    let r = LineRequest {\n        kind: RequestKind::GetShared,";
    assert_eq!(second_core_sides(planted), [3]);
}
