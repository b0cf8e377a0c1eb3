// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HugeCache (paper section 4.3): empty hugepages that are still backed.
//!
//! Demand is the number of hugepages that the rest of the heap holds. Its minimum and maximum over
//! a sliding window of two seconds bound what is worth keeping: a limit that grows to their
//! difference when the cache could not serve a request, and shrinks back to it as the window moves
//! on. Anything above the limit is released at once. A program that oscillates is wrongly released
//! once, and then served from the cache.

use super::ranges::{Nodes, RangeSet};
use super::sizes::{Sum, sums};
use crate::units::HugeRange;

/// The window over which demand is watched, in nanoseconds.
pub const WINDOW_NS: u64 = 2_000_000_000;
const EPOCHS: usize = 16;
const EPOCH_NS: u64 = WINDOW_NS / EPOCHS as u64;

/// Minimum and maximum of a quantity over a sliding window.
#[derive(Clone, Copy)]
pub struct MinMax {
    min: [u32; EPOCHS],
    max: [u32; EPOCHS],
    epoch: u64,
    last: u32,
    /// How many times [`WINDOW_NS`] the window is longer.
    longer: u32,
}

impl MinMax {
    pub(super) const fn new() -> Self {
        MinMax {
            min: [0; EPOCHS],
            max: [0; EPOCHS],
            epoch: 0,
            last: 0,
            longer: 0,
        }
    }

    /// Makes the window so many times [`WINDOW_NS`]. To be called before anything is recorded.
    pub const fn set_windows(&mut self, windows: u32) {
        self.longer = windows.saturating_sub(1);
    }

    fn advance(&mut self, now_ns: u64) {
        let epoch = now_ns / (EPOCH_NS * (u64::from(self.longer) + 1));
        let steps = epoch.saturating_sub(self.epoch).min(EPOCHS as u64);
        for step in 0..steps {
            let slot = ((epoch - step) % EPOCHS as u64) as usize;
            self.min[slot] = self.last;
            self.max[slot] = self.last;
        }
        self.epoch = self.epoch.max(epoch);
    }

    /// The quantity is `value` from `now_ns` on.
    pub fn record(&mut self, now_ns: u64, value: usize) {
        self.advance(now_ns);
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        let slot = (self.epoch % EPOCHS as u64) as usize;
        self.min[slot] = self.min[slot].min(value);
        self.max[slot] = self.max[slot].max(value);
        self.last = value;
    }

    /// The maximum over the window that ends at `now_ns`.
    pub fn highest(&mut self, now_ns: u64) -> usize {
        self.advance(now_ns);
        self.max.iter().max().copied().unwrap_or(0) as usize
    }

    /// Maximum minus minimum over the window that ends at `now_ns`.
    pub fn swing(&mut self, now_ns: u64) -> usize {
        self.advance(now_ns);
        let max = self.max.iter().max().copied().unwrap_or(0);
        let min = self.min.iter().min().copied().unwrap_or(0);
        (max - min) as usize
    }
}

sums! {
    /// Counters of the cache since the start of the process.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CacheCounters {
        /// Requests served with backed hugepages.
        pub hits: u64,
        /// Requests that needed unbacked address space.
        pub misses: u64,
        /// Hugepages released because the limit was exceeded.
        pub overflow_hugepages: u64,
        /// Hugepages that were needed again within the window after a release: regret.
        pub regret_hugepages: u64,
    }
}

/// Backed, empty hugepages.
pub struct HugeCache {
    ranges: RangeSet,
    demand: MinMax,
    used: usize,
    limit: usize,
    min_limit: usize,
    released_at_ns: u64,
    released_recently: usize,
    counters: CacheCounters,
}

impl HugeCache {
    /// An empty cache that may always keep `min_limit` hugepages.
    pub const fn new(min_limit: usize) -> Self {
        HugeCache {
            ranges: RangeSet::new(),
            demand: MinMax::new(),
            used: 0,
            limit: min_limit,
            min_limit,
            released_at_ns: 0,
            released_recently: 0,
            counters: CacheCounters {
                hits: 0,
                misses: 0,
                overflow_hugepages: 0,
                regret_hugepages: 0,
            },
        }
    }

    /// Changes what may always be kept.
    pub fn set_min_limit(&mut self, hugepages: usize) {
        self.min_limit = hugepages;
        self.limit = self.limit.max(hugepages);
    }

    /// Makes the window of the demand so many times [`WINDOW_NS`]. To be called before the first
    /// request.
    pub const fn set_windows(&mut self, windows: u32) {
        self.demand.set_windows(windows);
    }

    /// Backed hugepages in the cache.
    pub const fn hugepages(&self) -> usize {
        self.ranges.total()
    }

    /// Hugepages that the rest of the heap holds.
    pub const fn used_hugepages(&self) -> usize {
        self.used
    }

    /// The most that may be kept at present, in hugepages.
    pub const fn limit_hugepages(&self) -> usize {
        self.limit
    }

    /// Counters since the start.
    pub const fn counters(&self) -> CacheCounters {
        self.counters
    }

    /// Takes `len` backed hugepages, or counts a miss: the caller then turns to the HugeAllocator
    /// and the demand grows all the same.
    pub fn take(&mut self, nodes: &mut Nodes, now_ns: u64, len: usize) -> Option<HugeRange> {
        let found = self.ranges.take(nodes, len);
        self.used += len;
        self.demand.record(now_ns, self.used);
        if found.is_some() {
            self.counters.hits += 1;
        } else {
            self.counters.misses += 1;
            if now_ns.saturating_sub(self.released_at_ns) <= WINDOW_NS {
                let regret = self.released_recently.min(len);
                self.released_recently -= regret;
                self.counters.regret_hugepages += regret as u64;
            }
            self.limit = self.limit.max(self.demand.swing(now_ns));
        }
        found.map(|start| HugeRange { start, len })
    }

    /// Corrects the demand after a request for which there was no address space.
    pub fn forget(&mut self, now_ns: u64, len: usize) {
        self.used -= len;
        self.demand.record(now_ns, self.used);
    }

    /// Counts hugepages that the rest of the heap now holds without having gone through the cache.
    pub fn adopt(&mut self, now_ns: u64, len: usize) {
        self.used += len;
        self.demand.record(now_ns, self.used);
    }

    /// Takes back hugepages that are still backed. The ones that could not be kept for lack of
    /// metadata memory are given back to the caller, to be released.
    #[must_use]
    pub fn put(&mut self, nodes: &mut Nodes, now_ns: u64, range: HugeRange) -> Option<HugeRange> {
        self.used -= range.len;
        self.demand.record(now_ns, self.used);
        (!self.ranges.insert(nodes, range.start, range.len)).then_some(range)
    }

    /// Counts hugepages that the rest of the heap gave back unbacked.
    pub fn put_unbacked(&mut self, now_ns: u64, len: usize) {
        self.used -= len;
        self.demand.record(now_ns, self.used);
    }

    /// Puts back hugepages that could not be released after all.
    #[must_use]
    pub fn put_failed(&mut self, nodes: &mut Nodes, range: HugeRange) -> bool {
        self.ranges.insert(nodes, range.start, range.len)
    }

    /// Lets the limit follow the window, and takes out one range above the limit, if any.
    pub fn overflow(&mut self, nodes: &mut Nodes, now_ns: u64) -> Option<HugeRange> {
        let swing = self.demand.swing(now_ns);
        self.limit = self.limit.min(swing.max(self.min_limit));
        let excess = self.ranges.total().saturating_sub(self.limit);
        if excess == 0 {
            return None;
        }
        let range = self.release(nodes, now_ns, excess)?;
        self.counters.overflow_hugepages += range.len as u64;
        Some(range)
    }

    /// Takes out one range of at most `len` hugepages to be released.
    pub fn release(&mut self, nodes: &mut Nodes, now_ns: u64, len: usize) -> Option<HugeRange> {
        let (start, len) = self.ranges.take_last(nodes, len)?;
        if now_ns.saturating_sub(self.released_at_ns) > WINDOW_NS {
            self.released_recently = 0;
        }
        self.released_at_ns = now_ns;
        self.released_recently += len;
        Some(HugeRange { start, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A cache over an address space that never ends; returns hugepages released.
    struct World {
        nodes: Box<Nodes>,
        cache: HugeCache,
        unbacked: usize,
        now_ns: u64,
        released: usize,
    }

    impl World {
        fn new(min_limit: usize) -> Self {
            World {
                nodes: Box::new(Nodes::new()),
                cache: HugeCache::new(min_limit),
                unbacked: 1 << 20,
                now_ns: 1,
                released: 0,
            }
        }

        fn take(&mut self, len: usize) -> HugeRange {
            self.cache
                .take(&mut self.nodes, self.now_ns, len)
                .unwrap_or_else(|| {
                    self.unbacked += len + 1;
                    HugeRange {
                        start: self.unbacked - len,
                        len,
                    }
                })
        }

        fn put(&mut self, range: HugeRange) {
            assert!(
                self.cache
                    .put(&mut self.nodes, self.now_ns, range)
                    .is_none()
            );
            while let Some(range) = self.cache.overflow(&mut self.nodes, self.now_ns) {
                self.released += range.len;
            }
        }
    }

    #[test]
    fn the_first_drop_of_a_saw_tooth_is_released_and_the_later_ones_are_kept() {
        // Paper figure 10 in small: demand swings between 10 and 110 hugepages every 200 ms.
        let mut world = World::new(0);
        let base: Vec<HugeRange> = (0..10).map(|_| world.take(1)).collect();
        world.now_ns += 2 * WINDOW_NS;
        let mut released_by_period = Vec::new();
        for _ in 0..12 {
            let before = world.released;
            let peak: Vec<HugeRange> = (0..100).map(|_| world.take(1)).collect();
            world.now_ns += WINDOW_NS / 20;
            peak.into_iter().for_each(|range| world.put(range));
            world.now_ns += WINDOW_NS / 20;
            released_by_period.push(world.released - before);
        }
        // The growth of the first period is itself a swing, which the limit already allows.
        assert!(
            released_by_period[2..]
                .iter()
                .all(|&released| released == 0)
        );
        assert_eq!(base.len(), 10);
        // After the swinging stops, the window empties the cache with the next return.
        world.now_ns += 2 * WINDOW_NS;
        let range = world.take(1);
        world.put(range);
        assert!(world.cache.hugepages() <= 1, "{}", world.cache.hugepages());
    }

    /// The longer window was that of the spans only: hugepages that became empty went back after
    /// two seconds.
    #[test]
    fn a_longer_window_keeps_what_a_later_wave_needs() {
        for (windows, kept) in [(1, false), (30, true)] {
            let mut world = World::new(0);
            world.cache.set_windows(windows);
            world.now_ns += 1 << 40;
            for _ in 0..6 {
                let wave: Vec<HugeRange> = (0..100).map(|_| world.take(1)).collect();
                wave.into_iter().for_each(|range| world.put(range));
                world.now_ns += 5_000_000_000;
                // The rounds of upkeep look at the cache meanwhile.
                let range = world.take(1);
                world.put(range);
            }
            assert_eq!(world.cache.hugepages() >= 100, kept, "{windows}");
        }
    }

    #[test]
    fn a_loop_over_one_hugepage_never_releases_it() {
        // Paper figure 9.
        let mut world = World::new(1);
        for _ in 0..10_000 {
            let range = world.take(1);
            world.now_ns += 10_000_000;
            world.put(range);
        }
        assert_eq!(world.released, 0);
    }

    proptest! {
        #[test]
        fn never_above_the_limit_and_never_lost(
            steps in prop::collection::vec((any::<bool>(), 1..9usize, 0..900_000_000u64), 1..150),
        ) {
            let mut world = World::new(3);
            let mut live: Vec<HugeRange> = Vec::new();
            for (take, len, wait_ns) in steps {
                world.now_ns += wait_ns;
                if take || live.is_empty() {
                    live.push(world.take(len));
                } else {
                    let range = live.remove(len % live.len());
                    world.put(range);
                    prop_assert!(world.cache.hugepages() <= world.cache.limit_hugepages());
                }
                let used: usize = live.iter().map(|range| range.len).sum();
                prop_assert_eq!(world.cache.used_hugepages(), used);
            }
        }

        #[test]
        fn min_max_is_that_of_the_window(
            steps in prop::collection::vec((0..50usize, 0..700_000_000u64), 1..60),
        ) {
            let mut tracker = MinMax::new();
            let mut history = vec![(0u64, 0usize)];
            let mut now = 0;
            for (value, wait_ns) in steps {
                now += wait_ns;
                tracker.record(now, value);
                history.push((now, value));
                // Epochs make the window between 15/16 and 16/16 of its nominal length.
                let from = (now / EPOCH_NS).saturating_sub(EPOCHS as u64 - 1) * EPOCH_NS;
                let standing = history.iter().rev().find(|step| step.0 < from).map(|step| step.1);
                let values = history.iter().filter(|step| step.0 >= from).map(|step| step.1);
                let values: Vec<usize> = values.chain(standing).collect();
                let swing = values.iter().max().unwrap() - values.iter().min().unwrap();
                prop_assert_eq!(tracker.swing(now), swing);
            }
        }
    }
}
