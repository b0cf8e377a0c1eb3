// SPDX-License-Identifier: MIT OR Apache-2.0
//! No bytes make the snapshot reader panic, hang or allocate without bound; what it accepts, it
//! writes back to something equal.
#![no_main]

use ample_host::snapshot::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = decode(bytes);
    // Behind the checksum lies the rest of the reader.
    let mut sealed = bytes.to_vec();
    sealed.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    if let Ok(scan) = decode(&sealed) {
        let again = encode(&scan).expect("what was read can be written");
        assert_eq!(decode(&again).expect("what was written can be read"), scan);
    }
});
