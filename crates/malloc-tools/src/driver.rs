// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's empirical driver (section 6.1) at the level of spans: arrivals are a Poisson
//! process, lifetimes are exponential with a mean that depends on the size, and the target of the
//! heap's size moves in a daily cycle with a one-time drop. By Little's law the mean number of live
//! spans of a size is its rate times its lifetime.

use crate::{exponential, span_pages};
use ample_kit::random::SplitMix64;
use ample_malloc::heap::trace::{Event, Kind};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Mean pages in use.
    pub target_pages: usize,
    /// Simulated time in seconds.
    pub duration_s: f64,
    /// Mean lifetime of a one-page span in seconds; longer spans live longer by the square root.
    pub lifetime_s: f64,
    /// Length of a cycle in seconds, over which the target swings by a quarter; 0 for none.
    pub cycle_s: f64,
    /// When the target drops to a third, in seconds.
    pub drop_at_s: Option<f64>,
    /// Seed of the sizes and lifetimes.
    pub seed: u64,
}

/// The events of a load, in time order.
pub fn generate(load: &Load) -> Vec<Event> {
    let mut random = SplitMix64::new(load.seed);
    let mut events = Vec::new();
    // Deaths in time order: time in nanoseconds, name, length.
    let mut deaths: BinaryHeap<Reverse<(u64, u64, u32)>> = BinaryHeap::new();
    let mean_pages = {
        let mut probe = SplitMix64::new(load.seed);
        let weighted = |pages: usize| pages as f64 * (pages as f64).sqrt();
        (0..20_000)
            .map(|_| weighted(span_pages(&mut probe)))
            .sum::<f64>()
            / 20_000.0
    };
    // Little: pages in use = rate * E[pages * lifetime(pages)].
    let base_rate = load.target_pages as f64 / (mean_pages * load.lifetime_s);
    let (mut time_s, mut name) = (0.0f64, 0u64);
    while time_s < load.duration_s {
        let mut factor = 1.0;
        if load.cycle_s > 0.0 {
            factor += 0.25 * (time_s / load.cycle_s * core::f64::consts::TAU).sin();
        }
        if load.drop_at_s.is_some_and(|drop_s| time_s >= drop_s) {
            factor /= 3.0;
        }
        time_s += exponential(&mut random, 1.0 / (base_rate * factor));
        let now_ns = (time_s * 1e9) as u64;
        while let Some(&Reverse((death_ns, dead, len))) = deaths.peek()
            && death_ns <= now_ns
        {
            deaths.pop();
            events.push(Event::plain(Kind::Delete, death_ns, dead, len));
        }
        let len = span_pages(&mut random) as u32;
        let life_s = exponential(&mut random, load.lifetime_s * f64::from(len).sqrt());
        name += 1;
        events.push(Event::plain(Kind::New, now_ns, name, len));
        deaths.push(Reverse((now_ns + (life_s * 1e9) as u64, name, len)));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_use_is_the_target_by_littles_law() {
        let load = Load {
            target_pages: 20_000,
            duration_s: 60.0,
            lifetime_s: 1.0,
            cycle_s: 0.0,
            drop_at_s: None,
            seed: 3,
        };
        let events = generate(&load);
        assert!(events.is_sorted_by_key(|event| event.time_ns));
        let (mut used, mut sum, mut count) = (0i64, 0i64, 0i64);
        for event in &events {
            let len = i64::from(event.len_pages);
            used += if event.kind == Kind::New { len } else { -len };
            assert!(used >= 0);
            if event.time_ns > 40_000_000_000 {
                sum += used;
                count += 1;
            }
        }
        let mean = sum as f64 / count as f64;
        assert!((mean / 20_000.0 - 1.0).abs() < 0.1, "{mean}");
        assert_eq!(
            generate(&load),
            events,
            "the same seed gives the same events"
        );
    }
}
