// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a store sends as a list, and addresses of stores: nothing panics or hangs, and what is
//! accepted means what it says.
#![no_main]

use ample_store::{SCHEME, StoreAddress, page_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((objects, _)) = page_of("scans", bytes) {
        for object in objects {
            assert!(!object.key.ends_with('/'));
            assert_eq!(object.address, format!("{SCHEME}scans/{}", object.key));
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(address) = StoreAddress::parse(text) {
        let again = format!("{SCHEME}{}/{}", address.bucket, address.key);
        assert_eq!(StoreAddress::parse(&again).expect("it was one"), address);
        assert!(!address.key.split('/').any(|part| part == ".." || part == "."));
    }
});
