// SPDX-License-Identifier: MIT OR Apache-2.0
//! Snapshots: what goes in comes out; what is damaged is refused with its place.

use ample_host::snapshot::{decode, encode, read, write};
use ample_host::{RunEncoder, Scan, ScanMeta, ZoneCounters};
use ample_pfn::{CLASS_COUNT, Coverage, Layout, PageClass, Pfn};
use proptest::prelude::*;

fn scan(classes: &[PageClass], start: u64, notes: Vec<String>) -> Scan {
    let layout = Layout::single(Pfn(start), classes.len() as u64);
    let mut encoder = RunEncoder::new(&layout);
    encoder.push(Pfn(start), classes);
    Scan {
        meta: ScanMeta {
            reader: "procfs".into(),
            coverage: Coverage {
                ambiguous_free_pages: Some(3),
                owners: false,
            },
            notes,
            kernel: "6.12.1".into(),
            hostname: None,
            unix_time_seconds: Some(1_700_000_000),
            uptime_seconds: None,
            duration_ns: 1,
            cpu_ns: 2,
            pageblocks: None,
            who: None,
            zones: vec![ZoneCounters {
                name: "Normal".into(),
                ..ZoneCounters::default()
            }],
            counters: [("MemFree_bytes".to_string(), 4096)].into(),
        },
        layout,
        pages: encoder.finish(),
    }
}

fn small() -> Scan {
    scan(
        &[PageClass::Slab, PageClass::Free, PageClass::Anon],
        5,
        vec!["a note".into()],
    )
}

proptest! {
    #[test]
    fn snapshots_round_trip(
        ids in prop::collection::vec(0..CLASS_COUNT as u8, 1..3000),
        start in 0u64..1 << 30,
        note in ".*",
    ) {
        let classes: Vec<PageClass> =
            ids.iter().map(|&id| PageClass::from_u8(id).expect("dense")).collect();
        let before = scan(&classes, start, vec![note]);
        let after = decode(&encode(&before).unwrap()).unwrap();
        prop_assert_eq!(before, after);
    }

    #[test]
    fn any_flipped_byte_is_noticed(at in 0usize..10_000, flip in 1u8..) {
        let mut bytes = encode(&small()).unwrap();
        let at = at % bytes.len();
        bytes[at] ^= flip;
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(decode(&bytes).is_err());
    }

    /// Past the checksum: a header and a description that lie are refused too.
    #[test]
    fn any_damage_with_a_valid_checksum_is_no_panic(at in 0usize..10_000, value in any::<u8>()) {
        let mut bytes = encode(&small()).unwrap();
        let content = bytes.len() - 4;
        bytes[at % content] = value;
        let crc = crc32(&bytes[..content]);
        bytes[content..].copy_from_slice(&crc.to_le_bytes());
        if let Ok(scan) = decode(&bytes) {
            prop_assert_eq!(scan.pages.expand().len() as u64, scan.layout.span().pages());
        }
    }
}

/// Independent of the one under test: bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    })
}

/// Found by the fuzzer: the length of such a zone wrapped around.
#[test]
fn a_zone_that_ends_before_it_starts_is_refused() {
    let mut bytes = encode(&small()).unwrap();
    let text = br#""start":5,"end":8"#;
    let at = (0..bytes.len() - text.len())
        .find(|&at| bytes[at..].starts_with(text))
        .expect("the zone of the description");
    bytes[at + text.len() - 1] = b'2';
    let content = bytes.len() - 4;
    let crc = crc32(&bytes[..content]);
    bytes[content..].copy_from_slice(&crc.to_le_bytes());
    let error = decode(&bytes).expect_err("no such zone").to_string();
    assert!(
        error.contains("ends at 2, before its start at 5"),
        "{error}"
    );
}

#[test]
fn every_truncation_is_refused_with_its_place() {
    let bytes = encode(&small()).unwrap();
    for length in 0..bytes.len() {
        let error = decode(&bytes[..length]).unwrap_err().to_string();
        assert!(error.contains("byte "), "{length}: {error}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let error = decode(&longer).unwrap_err().to_string();
    assert!(error.contains("bytes after its end"), "{error}");
}

#[test]
fn foreign_files_and_other_versions_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    std::fs::write(&path, "{\"schema\": \"something else\"}").unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("/x: byte 0 (magic)"), "{error}");
    let mut bytes = encode(&small()).unwrap();
    bytes[8] = 9;
    let error = decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("byte 8 (version): version 9"), "{error}");
    let error = read(&directory.path().join("none"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("none"), "{error}");
    assert!(read(std::path::Path::new("/dev/zero")).is_err());
}

#[test]
fn lengths_beyond_the_limits_are_refused_before_anything_is_allocated() {
    for (at, field) in [
        (12, "description length"),
        (16, "runs length"),
        (24, "compressed"),
    ] {
        let mut bytes = encode(&small()).unwrap();
        bytes[at..at + 4].fill(0xff);
        let error = decode(&bytes).unwrap_err().to_string();
        assert!(error.contains(field) && error.contains("limit"), "{error}");
    }
}

#[test]
fn a_file_round_trips() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("host.snap");
    write(&small(), &path).unwrap();
    assert_eq!(read(&path).unwrap(), small());
}
