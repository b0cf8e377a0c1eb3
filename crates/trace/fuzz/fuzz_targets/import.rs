// SPDX-License-Identifier: MIT OR Apache-2.0
//! No bytes make the readers of ChampSim's and lackey's traces panic.
#![no_main]

mod some;

use ample_trace::import::{champsim, lackey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = champsim(bytes, some::accesses());
    let _ = lackey(bytes, some::accesses());
});
