// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes as a page-event trace: read, and replayed if they are one.
#![no_main]

use ample_mm::replay::{read_trace, replay};
use ample_mm::{Config, PolicyKind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(trace) = read_trace(bytes, "fuzz") {
        for kind in [PolicyKind::Linux, PolicyKind::Contiguitas] {
            let config = Config {
                memory_bytes: 64 << 20,
                ..Config::new(kind)
            };
            replay(&trace, &config).expect("64 MB are enough for a server");
        }
    }
});
