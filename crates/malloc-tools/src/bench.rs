// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time of the page heap's `New` and `Delete`, and of what a release does under the heap's lock, in
//! a heap of a given size.

use crate::{index, span_pages};
use ample_kit::random::SplitMix64;
use ample_malloc::heap::{HeapOptions, PageHeap, ReleasePolicy};
use ample_malloc::os::vm::fake::FakeVm;
use ample_malloc::units::{Density, GIB, PAGE_BYTES};
use std::time::Instant;

/// Median times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// `New` of a span.
    pub new_ns: f64,
    /// `Delete` of a span.
    pub delete_ns: f64,
    /// A step of a release that breaks a hugepage, system calls apart.
    pub release_ns: f64,
    /// The longest of 99 in 100 such steps.
    pub release_p99_ns: f64,
}

/// Steps of a release that are timed.
const RELEASES: usize = 1000;

/// Calls timed together, because reading the clock takes as long as a call.
const BATCH: usize = 64;

/// Fills a heap to `gib` GiB, then times random replacement.
pub fn page_heap(gib: usize, calls: usize, seed: u64) -> Times {
    let mut heap = Box::new(PageHeap::new(FakeVm::default()));
    heap.configure(HeapOptions::default());
    let mut random = SplitMix64::new(seed);
    let mut live = Vec::new();
    let mut used = 0;
    while used < gib * (GIB / PAGE_BYTES) {
        let len = span_pages(&mut random);
        let page = heap
            .allocate(len, Density::SPARSE)
            .expect("address space is pretended");
        live.push((page, len));
        used += len;
    }
    let (mut new_ns, mut delete_ns) = (Vec::new(), Vec::new());
    for _ in 0..calls / BATCH {
        let picked: Vec<(usize, usize)> = (0..BATCH)
            .map(|_| live.swap_remove(index(&mut random, live.len())))
            .collect();
        let start = Instant::now();
        for &(page, len) in &picked {
            heap.free(page, len);
        }
        delete_ns.push(start.elapsed().as_nanos() as f64 / BATCH as f64);
        heap.run_queued();
        let lengths: Vec<usize> = picked.iter().map(|span| span.1).collect();
        let mut made = Vec::with_capacity(BATCH);
        let start = Instant::now();
        for &len in &lengths {
            made.push((heap.allocate(len, Density::SPARSE).expect("as above"), len));
        }
        new_ns.push(start.elapsed().as_nanos() as f64 / BATCH as f64);
        live.append(&mut made);
    }
    // Half of what is used, anywhere.
    for _ in 0..live.len() / 2 {
        let (page, len) = live.swap_remove(index(&mut random, live.len()));
        heap.free(page, len);
    }
    heap.run_queued();
    let policy = ReleasePolicy {
        huge_floor_percent: 0,
        ..ReleasePolicy::DEFAULT
    };
    let mut release_ns = Vec::new();
    while release_ns.len() < RELEASES {
        let start = Instant::now();
        let Some(step) = heap.begin_release(usize::MAX, &policy) else {
            break;
        };
        heap.end_release(step, true);
        release_ns.push(start.elapsed().as_nanos() as f64);
    }
    Times {
        new_ns: quantile(&mut new_ns, 0.5),
        delete_ns: quantile(&mut delete_ns, 0.5),
        release_ns: quantile(&mut release_ns, 0.5),
        release_p99_ns: quantile(&mut release_ns, 0.99),
    }
}

fn quantile(times: &mut [f64], share: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    times[((times.len() - 1) as f64 * share) as usize]
}
