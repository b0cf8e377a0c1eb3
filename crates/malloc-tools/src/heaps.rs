// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two page heaps under one load: the shipped one, and a heap of spans as TCMalloc had it before
//! Temeraire, which does not know hugepages. What the paper counts over a fleet (figures 13 and 15)
//! is counted on each: memory in use that lies on hugepages, memory held beyond what is in use.
//!
//! The span heap: best fit by length, then lowest address; free neighbours in the same state
//! merge; memory comes from the system a MiB at a time; release takes free spans in turn over
//! their lengths, wherever they lie. A hugepage is there when the first page of an unbacked
//! aligned 2 MiB is touched, and is gone when a part of it is given back.

use crate::driver::{Load, generate};
use ample_malloc::heap::trace::{Event, Kind};
use ample_malloc::heap::{HeapOptions, PageHeap, ReleasePolicy};
use ample_malloc::os::vm::Vm;
use ample_malloc::os::vm::fake::FakeVm;
use ample_malloc::units::{PAGE_BYTES, PAGES_PER_HUGE};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Between two rounds of release, in nanoseconds of the load.
const ROUND_NS: u64 = 250_000_000;
/// What the span heap asks of the system at once: 1 MiB.
const GROW_PAGES: usize = (1 << 20) / PAGE_BYTES;

/// One heap under a load, means over the second half of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeapRow {
    /// `spans` or `ample`.
    pub heap: &'static str,
    /// Whether it gives memory back periodically.
    pub release: bool,
    /// Seed of the load.
    pub seed: u64,
    /// Pages in use on hugepages ÷ pages in use.
    pub coverage: f64,
    /// Backed memory that is not in use ÷ memory in use.
    pub overhead: f64,
    /// Memory in use that the filler holds ÷ all in use; the span heap has none.
    pub filler_share: Option<f64>,
}

#[derive(Clone, Copy, Default)]
struct Block {
    resident: u16,
    huge: bool,
}

/// A page heap of spans.
#[derive(Default)]
struct SpanHeap {
    /// Free spans by length and start: backed, then given back.
    free: [BTreeSet<(usize, usize)>; 2],
    /// All free spans by start: length and state.
    by_start: BTreeMap<usize, (usize, usize)>,
    blocks: Vec<Block>,
    end: usize,
    used: usize,
    used_on: Vec<u16>,
    /// Where release goes on: spans shorter than this.
    cursor: usize,
}

const BACKED: usize = 0;
const GIVEN_BACK: usize = 1;

impl SpanHeap {
    fn insert(&mut self, mut start: usize, mut len: usize, state: usize) {
        let before = self.by_start.range(..start).next_back();
        if let Some((&other, &(other_len, other_state))) = before
            && other + other_len == start
            && other_state == state
        {
            self.remove(other);
            (start, len) = (other, len + other_len);
        }
        if let Some(&(other_len, other_state)) = self.by_start.get(&(start + len))
            && other_state == state
        {
            self.remove(start + len);
            len += other_len;
        }
        self.by_start.insert(start, (len, state));
        self.free[state].insert((len, start));
    }

    fn remove(&mut self, start: usize) -> (usize, usize) {
        let (len, state) = self.by_start.remove(&start).expect("a free span");
        self.free[state].remove(&(len, start));
        (len, state)
    }

    fn allocate(&mut self, len: usize) -> usize {
        let fit = |state: usize| self.free[state].range((len, 0)..).next().copied();
        let best = match (fit(BACKED), fit(GIVEN_BACK)) {
            (Some(backed), Some(other)) if other.0 < backed.0 => Some(other),
            (backed, other) => backed.or(other),
        };
        let Some((found, start)) = best else {
            let grown = len.div_ceil(GROW_PAGES) * GROW_PAGES;
            let start = self.end;
            self.end += grown;
            let blocks = self.end.div_ceil(PAGES_PER_HUGE);
            self.blocks.resize(blocks, Block::default());
            self.used_on.resize(blocks, 0);
            self.insert(start, grown, GIVEN_BACK);
            return self.allocate(len);
        };
        let (_, state) = self.remove(start);
        if found > len {
            self.insert(start + len, found - len, state);
        }
        for page in start..start + len {
            let block = &mut self.blocks[page / PAGES_PER_HUGE];
            if block.resident == 0 {
                *block = Block {
                    resident: PAGES_PER_HUGE as u16,
                    huge: true,
                };
            } else if state == GIVEN_BACK && !block.huge {
                block.resident = (block.resident + 1).min(PAGES_PER_HUGE as u16);
            }
            self.used_on[page / PAGES_PER_HUGE] += 1;
        }
        self.used += len;
        start
    }

    fn free(&mut self, start: usize, len: usize) {
        for page in start..start + len {
            self.used_on[page / PAGES_PER_HUGE] -= 1;
        }
        self.used -= len;
        self.insert(start, len, BACKED);
    }

    /// Gives back free spans of at least so many pages in all, one of each length in turn.
    fn release(&mut self, pages: usize) {
        let mut released = 0;
        while released < pages {
            let shorter = self.free[BACKED].range(..(self.cursor, 0)).next_back();
            let Some(&(len, start)) = shorter.or_else(|| self.free[BACKED].last()) else {
                break;
            };
            self.cursor = len;
            self.remove(start);
            for page in start..start + len {
                let block = &mut self.blocks[page / PAGES_PER_HUGE];
                block.huge = false;
                block.resident = block.resident.saturating_sub(1);
            }
            self.insert(start, len, GIVEN_BACK);
            released += len;
        }
    }

    fn coverage(&self) -> f64 {
        let on = self.blocks.iter().zip(&self.used_on);
        let covered: usize = on
            .filter(|(b, _)| b.huge)
            .map(|(_, used)| usize::from(*used))
            .sum();
        covered as f64 / self.used.max(1) as f64
    }

    fn overhead(&self) -> f64 {
        let resident: usize = self.blocks.iter().map(|b| usize::from(b.resident)).sum();
        resident as f64 / self.used.max(1) as f64 - 1.0
    }
}

/// What a load does with a heap.
trait Heap {
    fn allocate(&mut self, event: &Event) -> usize;
    fn free(&mut self, page: usize, len: usize);
    /// Time is so late now.
    fn advance(&mut self, _now_ns: u64) {}
    /// A round of release.
    fn release(&mut self);
    /// Coverage, overhead, and the filler's share.
    fn sizes(&self) -> [f64; 3];
}

/// The span heap, and the share of the memory in use that it gives back a second.
impl Heap for (SpanHeap, f64) {
    fn allocate(&mut self, event: &Event) -> usize {
        self.0.allocate(event.len_pages as usize)
    }

    fn free(&mut self, page: usize, len: usize) {
        self.0.free(page, len);
    }

    fn release(&mut self) {
        let share = self.1 * ROUND_NS as f64 / 1e9;
        self.0.release((self.0.used as f64 * share) as usize);
    }

    fn sizes(&self) -> [f64; 3] {
        [self.0.coverage(), self.0.overhead(), 0.0]
    }
}

/// The shipped heap, and whether it gives empty broken hugepages back.
impl Heap for (Box<PageHeap<FakeVm>>, bool) {
    fn allocate(&mut self, event: &Event) -> usize {
        self.0
            .allocate(event.len_pages as usize, event.density)
            .expect("address space is pretended")
    }

    fn free(&mut self, page: usize, len: usize) {
        self.0.free(page, len);
        if self.1 {
            self.0.run_queued();
        }
    }

    fn advance(&mut self, now_ns: u64) {
        let vm = self.0.vm();
        vm.now_ns.set(now_ns.max(vm.now_ns()));
    }

    fn release(&mut self) {
        let policy = ReleasePolicy::default();
        self.0.age();
        let excess = self.0.excess_pages(&policy);
        self.0.release(excess, &policy);
    }

    fn sizes(&self) -> [f64; 3] {
        let sizes = self.0.sizes();
        let used = sizes.used_pages.max(1) as f64;
        [
            1.0 - sizes.filler.broken_used_pages as f64 / used,
            sizes.backed_pages() as f64 / used - 1.0,
            sizes.filler.used() as f64 / used,
        ]
    }
}

/// Runs a load on a heap, with release or without; the means of the sizes.
fn run(load: &Load, heap: &mut impl Heap, release: bool) -> [f64; 3] {
    let mut live: HashMap<u64, usize> = HashMap::new();
    let (mut sums, mut rounds) = ([0.0; 3], 0.0f64);
    let mut round_ns = ROUND_NS;
    for event in generate(load) {
        heap.advance(event.time_ns);
        while event.time_ns >= round_ns {
            if release {
                heap.release();
            }
            if round_ns as f64 > load.duration_s / 2.0 * 1e9 {
                rounds += 1.0;
                for (sum, size) in sums.iter_mut().zip(heap.sizes()) {
                    *sum += size;
                }
            }
            round_ns += ROUND_NS;
        }
        if event.kind == Kind::New {
            live.insert(event.page, heap.allocate(&event));
        } else if let Some(start) = live.remove(&event.page) {
            heap.free(start, event.len_pages as usize);
        }
    }
    sums.map(|sum| crate::rounded(sum / rounds.max(1.0), 6))
}

/// Runs the span heap: `release_per_s` is the share of memory in use that it gives back a second.
pub fn spans(load: &Load, release_per_s: Option<f64>) -> HeapRow {
    let mut heap = (SpanHeap::default(), release_per_s.unwrap_or(0.0));
    let [coverage, overhead, _] = run(load, &mut heap, release_per_s.is_some());
    HeapRow {
        heap: "spans",
        release: release_per_s.is_some(),
        seed: load.seed,
        coverage,
        overhead,
        filler_share: None,
    }
}

/// Runs the shipped heap with its own policy of release, or without any.
pub fn shipped(load: &Load, release: bool) -> HeapRow {
    let mut heap = (Box::new(PageHeap::new(FakeVm::default())), release);
    heap.0.configure(HeapOptions::default());
    let [coverage, overhead, filler_share] = run(load, &mut heap, release);
    HeapRow {
        heap: "ample",
        release,
        seed: load.seed,
        coverage,
        overhead,
        filler_share: Some(filler_share),
    }
}

/// Both heaps with and without release, over seeds, as one JSON object, schema
/// `ample.malloc-heaps/1`: a load of so many pages whose demand swings by a quarter and drops to a
/// third at half time. The span heap gives back this share of the memory in use a second.
pub fn json(target_pages: usize, seeds: u64, release_per_s: f64) -> String {
    let mut rows = Vec::new();
    for seed in 1..=seeds {
        let load = Load {
            target_pages,
            duration_s: 120.0,
            lifetime_s: 5.0,
            cycle_s: 40.0,
            drop_at_s: Some(60.0),
            seed,
        };
        for release in [false, true] {
            rows.push(spans(&load, release.then_some(release_per_s)));
            rows.push(shipped(&load, release));
        }
    }
    let schema = "ample.malloc-heaps/1";
    json!({"schema": schema, "target_pages": target_pages, "rows": rows}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(seed: u64) -> Load {
        Load {
            target_pages: 20_000,
            duration_s: 40.0,
            lifetime_s: 2.0,
            cycle_s: 20.0,
            drop_at_s: None,
            seed,
        }
    }

    #[test]
    fn a_span_heap_loses_no_page_and_merges_its_neighbours() {
        let mut heap = SpanHeap::default();
        let spans: Vec<usize> = (1..60).map(|len| heap.allocate(len)).collect();
        let mut taken: Vec<(usize, usize)> = spans.iter().copied().zip(1..60).collect();
        taken.sort_unstable();
        assert!(
            taken
                .windows(2)
                .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0)
        );
        for (start, len) in taken {
            heap.free(start, len);
        }
        assert_eq!(heap.used, 0);
        assert!(heap.used_on.iter().all(|&used| used == 0));
        let free: usize = heap.by_start.values().map(|span| span.0).sum();
        assert_eq!(free, heap.end);
        heap.release(heap.end);
        assert!(heap.free[BACKED].is_empty());
        assert_eq!(heap.by_start.len(), 1, "one span of all memory");
    }

    #[test]
    fn without_release_every_page_stays_on_its_hugepage() {
        let row = spans(&load(1), None);
        assert_eq!(row.coverage, 1.0);
        assert!(row.overhead > 0.0);
    }

    #[test]
    fn release_breaks_fewer_hugepages_of_the_shipped_heap() {
        let (old, new) = (spans(&load(2), Some(0.1)), shipped(&load(2), true));
        assert!(new.coverage > old.coverage, "{old:?} {new:?}");
        assert_eq!(
            spans(&load(2), Some(0.1)),
            old,
            "the same seed, the same row"
        );
    }
}
