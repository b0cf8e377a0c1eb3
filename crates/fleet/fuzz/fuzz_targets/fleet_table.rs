// SPDX-License-Identifier: MIT OR Apache-2.0
//! No bytes make the reader of tables panic, hang or allocate without bound. It hands on as many
//! rows as it said, and a file that keeps the sum of what was written is believed only with it.
//! The Parquet library panics over some files; the reader makes an error of that.
#![no_main]

use ample_fleet::{FleetRow, RowDigest, TableFile, encode};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: let_the_library_panic(), |bytes: &[u8]| {
    check(bytes.to_vec());
    // A table that is right but for one byte: random bytes seldom get through a footer.
    if let [first, second, flip, rest @ ..] = bytes {
        let mut whole = encode(&[rows(rest)]).expect("a few rows");
        let at = usize::from(u16::from_le_bytes([*first, *second])) % whole.len();
        whole[at] ^= flip;
        match check(whole) {
            Some(digest) => assert_eq!(digest, RowDigest::of(&rows(rest)), "at {at}"),
            None => assert_ne!(*flip, 0, "what was written is read"),
        }
    }
});

/// The fuzzer ends at every panic before it can be caught: only at those of our code. Another that
/// nobody catches still ends it.
fn let_the_library_panic() {
    let fatal = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let foreign = panic.location().is_some_and(|at| at.file().contains("/registry/src/"));
        if !foreign {
            fatal(panic);
        }
    }));
}

fn check(bytes: Vec<u8>) -> Option<RowDigest> {
    let table = TableFile::open(Bytes::from(bytes)).ok()?;
    let (said, mut found) = (table.rows, 0);
    let digest = table.read(&mut |batch| {
        found += batch.num_rows() as u64;
        Ok(())
    });
    let digest = digest.ok()?;
    assert_eq!(found, said);
    Some(digest)
}

/// Rows with names and numbers from the bytes; at least one.
fn rows(bytes: &[u8]) -> Vec<FleetRow> {
    let row = |bytes: &[u8]| FleetRow {
        kind: Some("size".into()),
        host: bytes.first().map(|first| format!("host{first}")),
        role: std::str::from_utf8(bytes).ok().map(Into::into),
        blocks: bytes.get(1).map(|&byte| i64::from(byte) << (byte % 50)),
        ..FleetRow::default()
    };
    let some = bytes.chunks(8).take(100).map(row).collect::<Vec<_>>();
    if some.is_empty() { vec![row(&[])] } else { some }
}
