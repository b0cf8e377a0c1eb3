// SPDX-License-Identifier: MIT OR Apache-2.0
//! No bytes make the readers of foreign traces panic; compressed input is cut after a while.
#![no_main]

use ample_trace::import::{champsim, lackey};
use libfuzzer_sys::fuzz_target;

const LIMIT: u32 = 100_000;

fuzz_target!(|bytes: &[u8]| {
    for foreign in [true, false] {
        let mut left = LIMIT;
        let mut visit = |_| {
            left -= 1;
            left > 0
        };
        let _ = if foreign { champsim(bytes, &mut visit) } else { lackey(bytes, &mut visit) };
    }
});
