// SPDX-License-Identifier: MIT OR Apache-2.0
//! No text makes the reader of `ample fleet simulate` panic or hang; what it accepts are servers
//! within the bounds of the model.
#![no_main]

use ample_lab::server_model::drawn_fleet::DrawnFleet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // A workload is a name or a path; none but names are looked up here.
    if text.contains('/') || text.contains("\\u") {
        return;
    }
    let Ok(fleet) = DrawnFleet::parse(text) else { return };
    for number in 0..fleet.servers().min(3) {
        let server = fleet.server(number);
        assert_eq!(server.number, number);
        assert!(server.uptime_h > 0.0 && server.uptime_h <= 2160.0, "{}", server.uptime_h);
    }
});
