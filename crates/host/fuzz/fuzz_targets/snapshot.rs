// SPDX-License-Identifier: MIT OR Apache-2.0
//! No bytes make the snapshot reader panic, hang or allocate without bound; what it accepts, it
//! writes back to something equal.
//!
//! The input is read three times: as a whole file; as a file that only lacks its checksum; and,
//! because nothing random gets through a decompressor, as a description and runs with a NUL
//! between, from which a file is made that is right in all lengths and sums.
#![no_main]

use ample_host::Scan;
use ample_host::snapshot::{SnapshotError, decode, encode};
use libfuzzer_sys::fuzz_target;

/// Machines wider than this (16 GB) are read, but not expanded page by page.
const EXPANDED_PAGES: u64 = 4 << 20;

fuzz_target!(|bytes: &[u8]| {
    let _ = decode(bytes);
    check(decode(&sealed(bytes.to_vec())));
    if let Some(nul) = bytes.iter().position(|&byte| byte == 0) {
        check(decode(&assembled(&bytes[..nul], &bytes[nul + 1..])));
    }
});

fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&file);
    file.extend_from_slice(&crc.to_le_bytes());
    file
}

fn assembled(description: &[u8], runs: &[u8]) -> Vec<u8> {
    let stored = zstd::bulk::compress(runs, 1).expect("memory for a few bytes");
    let mut file = b"AMPLSNAP\x01\0\0\0".to_vec();
    file.extend((description.len() as u32).to_le_bytes());
    file.extend((runs.len() as u64).to_le_bytes());
    file.extend((stored.len() as u64).to_le_bytes());
    file.extend(description);
    file.extend(stored);
    sealed(file)
}

fn check(read: Result<Scan, SnapshotError>) {
    let Ok(scan) = read else { return };
    let span = scan.layout.span().pages();
    assert_eq!(scan.pages.iter().map(|(range, _)| range.pages()).sum::<u64>(), span);
    if span <= EXPANDED_PAGES {
        assert_eq!(scan.pages.expand().len() as u64, span);
    }
    let again = encode(&scan).expect("what was read can be written");
    assert_eq!(decode(&again).expect("what was written can be read"), scan);
}
