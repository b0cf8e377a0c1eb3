// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text as a workload: refused, or run for a few seconds.
#![no_main]

use ample_mm::{Config, PolicyKind, Workload, run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(workload) = Workload::parse(text, "fuzz") {
        if workload.process.iter().map(|p| p.count).sum::<u32>() > 64 {
            return;
        }
        let config = Config {
            memory_bytes: 64 << 20,
            ..Config::new(PolicyKind::Contiguitas)
        };
        let result = run(&config, &workload, 3.0, 1.0, &|_| {});
        result.expect("64 MB are enough for a server");
    }
});
