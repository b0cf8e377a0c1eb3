// SPDX-License-Identifier: MIT OR Apache-2.0
//! The small readers of the fleet: dates, requests of a scrape, and what the agent remembers. What
//! they accept means what it says.
#![no_main]

use ample_fleet::agent::{LastScan, Served, answer_to};
use ample_fleet::dates::{date, parse_date};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let page = Served::default();
    page.set("secret\n".into());
    if let Some((head, body)) = answer_to(bytes, &page) {
        let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let gets = line.starts_with(b"GET ");
        let asked = (gets || line.starts_with(b"HEAD "))
            && line.windows(9).any(|nine| nine == b"/metrics " || nine == b"/metrics?");
        let good = head.starts_with("HTTP/1.1 200 ");
        assert_eq!(good && gets, &*body == "secret\n");
        assert!(asked || !good, "{:?}", bytes.escape_ascii().to_string());
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(seconds) = parse_date(text) {
        assert_eq!(date(seconds.div_euclid(86_400)), text);
    }
    if let Some(last) = LastScan::parse(text) {
        assert_eq!(LastScan::parse(&last.to_string()), Some(last));
    }
});
