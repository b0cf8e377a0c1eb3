// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers meet arbitrary bytes: errors, never panics. (Fuzz targets go on where this stops.)

use ample_trace::TraceReader;
use ample_trace::import::{champsim, drmemtrace, gem5, lackey, perf};
use proptest::prelude::*;

fn some_magic() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        Just(b"AMPLTRC1".to_vec()),
        Just(vec![0x1f, 0x8b, 8]),
        Just(vec![0xfd, b'7', b'z', b'X', b'Z', 0]),
        Just(b" L 12,8\n".to_vec()),
        Just(b"PK\x03\x04".to_vec()),
        Just([&b"\x19\0\0\0\x05"[..], &[0; 7]].concat()),
        Just(b"gem5\x02\x18\x01".to_vec()),
        Just(b"# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL\n".to_vec()),
    ]
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(
        start in some_magic(),
        rest in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let bytes = [start, rest].concat();
        let mut left = 10_000;
        let mut visit = |_| {
            left -= 1;
            left > 0
        };
        let _ = champsim(bytes.as_slice(), &mut visit);
        let _ = lackey(bytes.as_slice(), &mut visit);
        let _ = drmemtrace(bytes.as_slice(), &mut visit);
        let _ = gem5(bytes.as_slice(), &mut visit);
        let _ = perf(bytes.as_slice(), &mut visit);
        if let Ok(mut reader) = TraceReader::new(bytes.as_slice()) {
            let mut block = Vec::new();
            while let Ok(true) = reader.next_block(&mut block) {}
        }
    }
}
