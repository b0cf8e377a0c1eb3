// SPDX-License-Identifier: MIT OR Apache-2.0
//! No bytes make the trace reader panic, hang or allocate without bound.
#![no_main]

use ample_trace::TraceReader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mut reader) = TraceReader::new(bytes) {
        let mut block = Vec::new();
        while let Ok(true) = reader.next_block(&mut block) {}
    }
});
