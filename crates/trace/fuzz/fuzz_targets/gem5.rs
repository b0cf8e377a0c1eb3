// SPDX-License-Identifier: MIT OR Apache-2.0
//! No bytes make the reader of gem5's packet and elastic traces panic.
#![no_main]

mod some;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = ample_trace::import::gem5(bytes, some::accesses());
});
