// SPDX-License-Identifier: MIT OR Apache-2.0
//! No bytes make the trace reader panic, hang or allocate without bound.
//!
//! The input is read as a file, and, because nothing random gets through a decompressor, as the
//! header and the raw records of one block with a NUL between, from which a file is made that is
//! right in all lengths and sums. The records' first byte says how many there are.
#![no_main]

use ample_trace::{TraceReader, TraceWriter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    if let Some(nul) = bytes.iter().position(|&byte| byte == 0)
        && let Some((&records, raw)) = bytes[nul + 1..].split_first()
    {
        read(&assembled(&bytes[..nul], u32::from(records), raw));
    }
});

fn assembled(header: &[u8], records: u32, raw: &[u8]) -> Vec<u8> {
    let stored = zstd::bulk::compress(raw, 1).expect("memory for a few bytes");
    let mut file = b"AMPLTRC1".to_vec();
    file.extend((header.len() as u32).to_le_bytes());
    file.extend(header);
    file.extend(crc32fast::hash(header).to_le_bytes());
    for word in [records, raw.len() as u32, stored.len() as u32, crc32fast::hash(raw)] {
        file.extend(word.to_le_bytes());
    }
    file.extend(stored);
    file.extend(0u32.to_le_bytes());
    file.extend(u64::from(records).to_le_bytes());
    file
}

/// What is read to its end can be written and read again.
fn read(bytes: &[u8]) {
    let Ok(mut reader) = TraceReader::new(bytes) else { return };
    let mut writer = TraceWriter::new(Vec::new(), &reader.header).expect("writing to memory");
    let (mut block, mut all) = (Vec::new(), Vec::new());
    loop {
        match reader.next_block(&mut block) {
            Ok(true) => all.extend_from_slice(&block),
            Ok(false) => break,
            Err(_) => return,
        }
    }
    for access in &all {
        writer.push(access).expect("writing to memory");
    }
    let (records, _) = writer.finish().expect("writing to memory");
    assert_eq!(records, all.len() as u64);
}
