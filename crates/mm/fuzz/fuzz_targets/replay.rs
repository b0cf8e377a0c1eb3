// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any bytes are a recording or an error, never a panic; what can be read can be replayed.
#![no_main]

use ample_mm::replay::{KernelReplay, ReplayOptions};
use ample_mm::{Config, PolicyKind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let options = ReplayOptions {
        max_unreadable_ratio: 1.0,
        samples: 2,
        ..ReplayOptions::default()
    };
    let Ok(replay) = KernelReplay::from_bytes(data.to_vec(), "fuzz", options) else {
        return;
    };
    let mut config = Config::new(PolicyKind::Contiguitas);
    config.memory_bytes = 64 << 20;
    let result = replay.run(&[config], &|_| {});
    assert!(result.is_ok(), "{result:?}");
});
