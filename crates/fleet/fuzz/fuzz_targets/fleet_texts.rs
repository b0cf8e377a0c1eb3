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
    if let Some((status, body)) = answer_to(bytes, &page) {
        let asked = bytes.starts_with(b"GET /metrics ") || bytes.starts_with(b"GET /metrics?");
        assert_eq!(status == "200 OK", &*body == "secret\n");
        assert!(asked || status != "200 OK", "{:?}", bytes.escape_ascii().to_string());
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(seconds) = parse_date(text) {
        assert_eq!(date(seconds.div_euclid(86_400)), text);
    }
    if let Some(last) = LastScan::parse(text) {
        assert_eq!(LastScan::parse(&last.to_string()), Some(last));
    }
});
