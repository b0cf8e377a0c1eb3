// SPDX-License-Identifier: MIT OR Apache-2.0
//! No bytes make the reader of DynamoRIO's memtraces panic.
#![no_main]

mod some;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = ample_trace::import::drmemtrace(bytes, some::accesses());
});
