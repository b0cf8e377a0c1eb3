// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wrong calls and wrong accesses, of which the allocator says what they were.

use super::{program, run};

/// Runs the program of misuse: it ends with one line that holds the text.
fn expect_explained(options: &str, kinds: &[(&str, &str)]) {
    let binary = program("misuse.c");
    for (kind, text) in kinds {
        let output = run(&binary, &[kind], options);
        let line = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{kind} was not noticed");
        assert!(
            line.contains(text) && line.lines().count() == 1,
            "{kind}: {line}"
        );
    }
}

#[test]
fn misuse_ends_the_program_with_one_clear_line() {
    // Once a second free was noticed only right after the first, or when the object had gone back
    // to its span; the object was handed out twice meanwhile, or another inside it.
    let kinds = [
        ("double", "double free"),
        ("double-aba", "double free"),
        ("double-later", "double free"),
        ("double-thread", "double free"),
        ("double-large", "invalid free"),
        ("interior", "inside an object"),
        ("interior-8", "inside an object"),
        ("interior-large", "invalid free"),
        ("stack", "invalid free"),
        ("global", "invalid free"),
        ("wild", "invalid free"),
    ];
    for options in ["", "rseq=0", "cpu_cache=4k", "check=1", "numa=2"] {
        expect_explained(options, &kinds);
    }
}

/// The mark of a free object goes with the memory that is given back inside its span.
#[test]
fn a_second_free_is_noticed_where_the_memory_has_gone() {
    for options in ["", "rseq=0", "numa=2"] {
        let kinds = ["double-hole", "double-refilled", "double-fetched"];
        expect_explained(options, &kinds.map(|kind| (kind, "double free")));
    }
    expect_explained("check=1", &[("double-hole", "free of")]);
}

#[test]
fn what_is_written_around_an_object_is_noticed_at_its_free() {
    let kinds = [
        ("write-over", "byte 100 of an object of 100 bytes"),
        ("write-under", "before an object"),
        ("write-over-realloc", "byte 100 of an object of 100 bytes"),
        ("write-under-realloc", "before an object"),
        ("write-over-aligned", "byte 100 of an object of 100 bytes"),
        ("write-under-aligned", "before an object"),
        ("write-under-large", "before an object"),
        ("write-under-huge", "before an object"),
        ("write-over-large", "byte 1000000 of an object"),
        ("write-over-huge", "byte 3000000 of an object"),
    ];
    for options in ["check=1", "check=1,rseq=0", "check=1,numa=2"] {
        expect_explained(options, &kinds);
    }
}

#[test]
fn accesses_to_guarded_objects_are_explained() {
    let kinds = [
        ("overrun", "beyond an object of 64 bytes"),
        ("underrun", "before an object of 64 bytes"),
        ("use-after-free", "after free"),
        ("double-guarded", "double free"),
        ("interior-guarded", "inside a guarded object"),
    ];
    expect_explained("guard=1,check=1", &kinds);
}
