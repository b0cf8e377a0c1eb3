// SPDX-License-Identifier: MIT OR Apache-2.0
//! No bytes make the readers of foreign traces panic; compressed input is cut after a while.
#![no_main]

use ample_trace::Access;
use ample_trace::import::{champsim, drmemtrace, gem5, lackey, perf};
use libfuzzer_sys::fuzz_target;

const LIMIT: u32 = 100_000;

fuzz_target!(|bytes: &[u8]| {
    for reader in 0..5 {
        let mut left = LIMIT;
        let mut visit = |_: Access| {
            left -= 1;
            left > 0
        };
        let _ = match reader {
            0 => champsim(bytes, &mut visit),
            1 => lackey(bytes, &mut visit),
            2 => drmemtrace(bytes, &mut visit),
            3 => gem5(bytes, &mut visit),
            _ => perf(bytes, &mut visit),
        };
    }
});
