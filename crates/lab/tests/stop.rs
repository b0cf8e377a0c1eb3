// SPDX-License-Identifier: MIT OR Apache-2.0
//! An early end at full size: every simulated experiment gives what it has, marked partial.

use ample_lab::ALL;
use ample_lab::experiment::Request;
use ample_lab::files::setting;
use ample_lab::stop::flag;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Programs whose data would fill the memory of a machine that runs tests.
const SMALLER: [&str; 2] = ["directseg", "segments"];

#[test]
fn every_simulated_experiment_ends_early_with_what_it_has() {
    let listed = ALL.iter().filter(|experiment| {
        let about = experiment.about();
        about.needs.is_empty() && !about.measured
    });
    for experiment in listed {
        let id = experiment.about().id.as_str();
        let mut request = Request::default();
        if SMALLER.contains(&id) {
            request.set = vec![setting("scale=quick").expect("a setting")];
        }
        let prepared = experiment.prepare(&request).expect("shipped parameters");
        let asked_after = Duration::from_millis(300);
        let started = Instant::now();
        let asking = std::thread::spawn(move || {
            std::thread::sleep(asked_after);
            flag().store(true, Ordering::Relaxed);
        });
        let result = prepared.run(&|_| {});
        let whole = started.elapsed();
        asking.join().expect("no panic");
        flag().store(false, Ordering::Relaxed);
        let took = whole.saturating_sub(asked_after);
        println!("{id}: ended {:.2} s after it was asked", took.as_secs_f64());
        let result = result.unwrap_or_else(|error| panic!("{id}: {error:#}"));
        // A few are done before they can be asked.
        assert!(result.partial || whole < 2 * asked_after, "{id}");
        let again = experiment.read_back(&result.json).expect("reads back");
        assert_eq!(again.json, result.json, "{id}");
    }
}
