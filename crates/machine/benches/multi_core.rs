// SPDX-License-Identifier: MIT OR Apache-2.0
//! Speed of the timed memory system on one thread: instructions of eight loaded cores a second,
//! by wall time and by processor time (which other work on the machine does not change).
//!
//! `cargo bench -p ample-machine`

use ample_machine::multi::{MemoryParams, OsParams};
use ample_machine::multi::{Server, Service, Way};
use std::time::Instant;

const ROUNDS: u64 = 5;
const CYCLES: u64 = 1_000_000;

/// Nanoseconds this thread has run, as Linux counts them.
fn processor_ns() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Million instructions a second: by wall time, by processor time.
fn round(service: Service, rate_per_s: f64, seed: u64) -> (f64, Option<f64>) {
    let memory = MemoryParams::table1();
    let machine = Server::machine(service, &memory, OsParams::default(), 1, seed);
    let mut machine = machine.expect("table 1 is valid");
    machine.run_until(100_000);
    let before = machine.work();
    let (wall, processor) = (Instant::now(), processor_ns());
    let interval = (memory.clock_ghz * 1e9 / rate_per_s) as u64;
    let mut now = 100_000;
    while now < 100_000 + CYCLES {
        machine.requests.push((0, Way::NonCacheable.mover()));
        now += interval;
        machine.run_until(now);
    }
    let millions = (machine.work() - before) as f64 / 1e6;
    assert_eq!(machine.memory.wrong_values(), 0, "seed {seed}");
    let ran = processor.zip(processor_ns()).map(|(a, b)| (b - a) / 1e9);
    (
        millions / wall.elapsed().as_secs_f64(),
        ran.filter(|s| *s > 0.0).map(|s| millions / s),
    )
}

fn show(name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    if let (Some(min), Some(max)) = (values.first(), values.last()) {
        let median = values[values.len() / 2];
        println!("{name:<28} {median:>6.1} {min:>6.1} {max:>6.1}");
    }
}

fn main() {
    println!("million simulated instructions a second, one host thread, 8 cores loaded");
    println!("{:<28} {:>6} {:>6} {:>6}", "", "median", "min", "max");
    for service in [Service::Nginx, Service::Memcached] {
        for rate_per_s in [1e3, 1e5] {
            let rounds: Vec<_> = (1..=ROUNDS)
                .map(|seed| round(service, rate_per_s, seed))
                .collect();
            let name = format!("{service:?}, {rate_per_s:.0} moves/s").to_lowercase();
            let wall = rounds.iter().map(|r| r.0).collect();
            show(&format!("{name}, wall"), wall);
            let processor = rounds.iter().filter_map(|r| r.1).collect();
            show(&format!("{name}, cpu"), processor);
        }
    }
}
