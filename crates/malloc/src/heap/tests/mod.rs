// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page heap as a whole, over pretended memory.

mod holes;
mod native;
mod orders;

use super::*;
use crate::os::vm::fake::FakeVm;
use crate::units::{HUGE_BYTES, PAGE_SHIFT};

const MIB_PAGES: usize = (1 << 20) / PAGE_BYTES;

fn heap() -> Box<PageHeap<FakeVm>> {
    let mut heap = Box::new(PageHeap::new(FakeVm::default()));
    heap.configure(HeapOptions::default());
    heap
}

#[test]
fn a_heap_of_64_gib_costs_only_its_metadata() {
    let mut heap = heap();
    let target = (64 << 30) / PAGE_BYTES;
    let (mut spans, mut used, mut random) = (Vec::new(), 0, 1u64);
    while used < target {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let len = 1 + (random >> 33) as usize % 64;
        spans.push((heap.allocate(len, Density::SPARSE).unwrap(), len));
        used += len;
    }
    let sizes = heap.sizes();
    assert_eq!(sizes.used_pages, used);
    assert!(sizes.filler.hugepages <= used.div_ceil(PAGES_PER_HUGE) * 102 / 100);
    for (page, len) in spans {
        heap.free(page, len);
    }
    heap.run_queued();
    assert_eq!(heap.sizes().used_pages, 0);
    assert!(heap.sizes().cache_hugepages <= heap.sizes().cache_limit_hugepages);
}

#[test]
fn donated_tails_do_not_grow_the_heap_by_a_hugepage_each() {
    // Paper section 4.4: 100 MiB and a page, then one page that stays, over and over.
    let mut heap = heap();
    for _ in 0..200 {
        let large = heap.allocate(100 * MIB_PAGES + 1, Density::SPARSE).unwrap();
        heap.allocate(1, Density::SPARSE).unwrap();
        heap.free(large, 100 * MIB_PAGES + 1);
        heap.run_queued();
    }
    assert_eq!(heap.sizes().filler.used(), 200);
    assert!(
        heap.sizes().filler.hugepages <= 2,
        "{}",
        heap.sizes().filler.hugepages
    );
}

#[test]
fn what_is_free_among_dense_spans_serves_sparse_ones_in_a_heap_of_moderate_size() {
    let mut heap = heap();
    let dense: Vec<usize> = (0..40 * PAGES_PER_HUGE)
        .map(|_| heap.allocate(1, Density::DENSE).unwrap())
        .collect();
    let hugepages = heap.sizes().filler.hugepages;
    dense.iter().step_by(2).for_each(|&page| heap.free(page, 1));
    for _ in 0..4 * PAGES_PER_HUGE {
        heap.allocate(1, Density::SPARSE).unwrap();
    }
    assert_eq!(heap.sizes().filler.hugepages, hugepages);
}

#[test]
fn routing_is_that_of_figure_7() {
    let mut heap = heap();
    heap.allocate(SMALL_PAGES, Density::SPARSE).unwrap();
    assert_eq!(heap.sizes().filler.hugepages, 1, "1 MiB is the filler's");
    let tail = 4 * MIB_PAGES + MIB_PAGES / 2;
    let large = heap.allocate(tail, Density::SPARSE).unwrap();
    assert_eq!(heap.sizes().large_pages, 4 * MIB_PAGES);
    assert_eq!(
        heap.sizes().slack_pages,
        MIB_PAGES * 3 / 2,
        "4.5 MiB donates 1.5 MiB"
    );
    let small = heap.allocate(SMALL_PAGES + 1, Density::SPARSE).unwrap();
    assert_eq!(
        small,
        large + tail,
        "below 2 MiB the tail of another span is used first"
    );
    heap.free(large, tail);
    assert_eq!(heap.sizes().slack_pages, 0);
    assert_eq!(
        heap.sizes().filler.hugepages,
        2,
        "the tail stays behind for its tenant"
    );
    let huge = heap.allocate(HUGE_SPAN_PAGES + 1, Density::SPARSE).unwrap();
    assert_eq!(
        heap.sizes().slack_pages,
        0,
        "from 1 GiB on nothing is donated"
    );
    heap.free(huge, HUGE_SPAN_PAGES + 1);
    heap.free(small, SMALL_PAGES + 1);
    assert_eq!(heap.sizes().filler.hugepages, 1);
}

/// Runs the loop of paper figure 12 on 1.1 MiB spans; backed pages over pages in use at the end.
fn backed_over_used(regions: bool) -> f64 {
    let mut heap = heap();
    heap.configure(HeapOptions {
        regions,
        ..HeapOptions::default()
    });
    let len = MIB_PAGES * 11 / 10;
    let mut live = std::collections::VecDeque::new();
    for round in 0..20_000 {
        if round >= 4_000 {
            heap.free(live.pop_front().unwrap(), len);
            heap.run_queued();
        }
        live.push_back(heap.allocate(len, Density::SPARSE).unwrap());
        heap.vm().advance_ns(1_000_000);
    }
    let cached = heap.sizes().cache_hugepages * PAGES_PER_HUGE;
    (heap.sizes().backed_pages() - cached) as f64 / heap.sizes().used_pages as f64
}

#[test]
fn regions_remove_the_slack_of_spans_just_above_a_mebibyte() {
    let without = backed_over_used(false);
    let with = backed_over_used(true);
    assert!(without > 1.7, "half of each hugepage is slack: {without}");
    assert!(with <= 1.02, "bar of the project: {with}");
}

#[test]
fn a_loop_over_one_span_makes_no_system_call() {
    let mut heap = heap();
    for _ in 0..1000 {
        let page = heap.allocate(64, Density::SPARSE).unwrap();
        heap.free(page, 64);
        heap.run_queued();
        heap.vm().advance_ns(100_000_000);
    }
    assert_eq!(heap.vm().unback_calls.get(), 0);
}

#[test]
fn release_breaks_only_what_the_floor_allows() {
    let mut heap = heap();
    let pages: Vec<usize> = (0..400 * PAGES_PER_HUGE)
        .map(|_| heap.allocate(1, Density::SPARSE).unwrap())
        .collect();
    // One hugepage in two keeps a tenth of its pages, the other keeps all.
    for (index, &page) in pages.iter().enumerate() {
        if (page / PAGES_PER_HUGE).is_multiple_of(2) && index % 10 != 0 {
            heap.free(page, 1);
        }
    }
    let policy = ReleasePolicy {
        huge_floor_percent: 98,
        ..ReleasePolicy::default()
    };
    heap.release(usize::MAX, &policy);
    let sizes = heap.sizes();
    assert!(sizes.filler.broken_hugepages > 0);
    let share = sizes.filler.broken_used_pages as f64 / sizes.backed_pages() as f64;
    assert!(share <= 0.02, "{share}");
    let none = ReleasePolicy {
        huge_floor_percent: 100,
        ..policy
    };
    let broken = heap.sizes().filler.broken_hugepages;
    heap.release(usize::MAX, &none);
    assert_eq!(heap.sizes().filler.broken_hugepages, broken);
    heap.release(
        usize::MAX,
        &ReleasePolicy {
            huge_floor_percent: 0,
            ..policy
        },
    );
    assert_eq!(heap.sizes().filler.free_backed_pages(), 0);
    assert_eq!(heap.sizes().subreleased_bytes, heap.vm().unback_bytes.get());
}

#[test]
fn a_small_heap_left_by_a_burst_keeps_no_more_free_than_in_use() {
    let mut heap = heap();
    let pages: Vec<usize> = (0..64 * MIB_PAGES)
        .map(|_| heap.allocate(1, Density::SPARSE).unwrap())
        .collect();
    // Four mebibytes stay, an eighth of a mebibyte on every hugepage.
    for (_, &page) in pages.iter().enumerate().filter(|(at, _)| at % 16 != 0) {
        heap.free(page, 1);
    }
    heap.vm().advance_ns(2 * WINDOW_NS);
    let policy = ReleasePolicy::DEFAULT;
    let excess = heap.excess_pages(&policy);
    heap.release(excess, &policy);
    let sizes = heap.sizes();
    assert_eq!(sizes.used_pages, 4 * MIB_PAGES);
    // Rounded up to the hugepage that was not worth breaking any more.
    let backed = sizes.backed_pages();
    assert!(backed <= 8 * MIB_PAGES + PAGES_PER_HUGE, "{backed} pages");
}

/// A heap of `mib` MiB on hugepages of which each is `used_of_8` eighths full, now and for long.
fn partly_filled(heap: &mut PageHeap<FakeVm>, mib: usize, used_of_8: usize) {
    let pages: Vec<usize> = (0..mib * MIB_PAGES / 4)
        .map(|_| heap.allocate(4, Density::SPARSE).unwrap())
        .collect();
    let freed = pages
        .into_iter()
        .filter(|page| page % PAGES_PER_HUGE >= PAGES_PER_HUGE / 8 * used_of_8);
    heap.excess_pages(&ReleasePolicy::DEFAULT);
    freed.for_each(|page| heap.free(page, 4));
    heap.vm().advance_ns(2 * WINDOW_NS);
}

#[test]
fn a_busy_heap_keeps_what_one_after_a_burst_gives_back() {
    let policy = ReleasePolicy::DEFAULT;
    let mut heap = heap();
    partly_filled(&mut heap, 128, 5);
    assert!(heap.excess_pages(&policy) > 0, "60 % more than 80 MiB");
    // Too long for the holes of 96 pages: two on a hugepage, 24 MiB in 32 MiB.
    for _ in 0..32 {
        heap.allocate(97, Density::SPARSE).unwrap();
    }
    heap.vm().advance_ns(2 * WINDOW_NS);
    let free = heap.sizes().backed_pages() - heap.used_pages;
    assert!(free * 100 > heap.used_pages * 50);
    assert_eq!(heap.excess_pages(&policy), 0, "53 % more than 104 MiB");
}

/// What was free for minutes stayed, if only hugepages that are half empty held it.
#[test]
fn what_is_free_for_long_goes_back_at_the_price_of_hugepages() {
    let policy = ReleasePolicy::DEFAULT;
    let mut heap = heap();
    partly_filled(&mut heap, 256, 3);
    let broken_after = |heap: &mut PageHeap<FakeVm>, seconds: u64| {
        for _ in 0..4 * seconds {
            heap.vm().advance_ns(250_000_000);
            let excess = heap.excess_pages(&policy);
            heap.release(excess, &policy);
        }
        heap.sizes().filler.broken_hugepages
    };
    // A hundred and twenty-eight hugepages, each with 96 of 256 pages in use.
    let soon = broken_after(&mut heap, 15);
    assert!((5..40).contains(&soon), "{soon} hugepages after 15 s");
    let later = broken_after(&mut heap, 10);
    let sizes = heap.sizes();
    assert!(later > 60, "{later} hugepages after 25 s");
    assert!(2 * sizes.filler.broken_used_pages <= sizes.backed_pages());
    assert!(sizes.backed_pages() * 10 <= sizes.used_pages * 16);
}

#[test]
fn a_longer_window_keeps_what_the_next_wave_needs() {
    for (window_s, excess) in [(2, true), (60, false)] {
        let mut heap = heap();
        heap.configure(HeapOptions {
            window_s,
            ..HeapOptions::DEFAULT
        });
        partly_filled(&mut heap, 256, 1);
        let free = heap.excess_pages(&ReleasePolicy::DEFAULT) > 0;
        assert_eq!(free, excess, "{window_s} s, 4 s after the drop");
        heap.vm().advance_ns(60_000_000_000);
        assert!(heap.excess_pages(&ReleasePolicy::DEFAULT) > 0);
    }
}

#[test]
fn use_has_dropped_when_most_is_free_and_not_before() {
    let mut heap = heap();
    let policy = ReleasePolicy::DEFAULT;
    let pages: Vec<usize> = (0..4096)
        .map(|_| heap.allocate(4, Density::SPARSE).unwrap())
        .collect();
    assert!(!heap.has_dropped(&policy));
    // Every hugepage keeps some spans, so that nothing becomes empty.
    let (kept, freed): (Vec<usize>, Vec<usize>) = pages
        .into_iter()
        .partition(|page| page % PAGES_PER_HUGE < PAGES_PER_HUGE * 5 / 8);
    freed.into_iter().for_each(|page| heap.free(page, 4));
    assert!(
        !heap.has_dropped(&policy),
        "3 of 8 free: 60 % of what is used"
    );
    let more = kept
        .into_iter()
        .filter(|page| page % PAGES_PER_HUGE >= PAGES_PER_HUGE / 2);
    more.for_each(|page| heap.free(page, 4));
    assert!(
        heap.has_dropped(&policy),
        "half free: 100 % of what is used"
    );
}

#[test]
fn a_broken_hugepage_is_used_last_rebuilt_when_full_and_released_when_empty() {
    let mut heap = heap();
    let spans: Vec<usize> = (0..4)
        .map(|_| heap.allocate(64, Density::SPARSE).unwrap())
        .collect();
    heap.free(spans[1], 64);
    heap.free(spans[3], 64);
    let all = ReleasePolicy {
        huge_floor_percent: 0,
        ..ReleasePolicy::default()
    };
    assert_eq!(heap.release(usize::MAX, &all), 128);
    assert!(heap.is_broken(spans[0]));
    let native = heap.vm().native_hugepages.get();
    assert_eq!(native, 1, "khugepaged is not to fill it up");
    assert!(
        heap.begin_collapse().is_none(),
        "half full is not worth a rebuild"
    );
    let again: Vec<usize> = (0..2)
        .map(|_| heap.allocate(64, Density::SPARSE).unwrap())
        .collect();
    assert_eq!(
        heap.sizes().filler.hugepages,
        1,
        "before another hugepage is taken, it is used"
    );
    heap.vm().advance_ns(1_000_000_000);
    let collapse = heap.begin_collapse().expect("full");
    assert_eq!(collapse.address, spans[0] << PAGE_SHIFT);
    assert_eq!(collapse.address % HUGE_BYTES, 0);
    assert_eq!(collapse.run(heap.vm()), Ok(()));
    heap.end_collapse(collapse, true);
    assert!(!heap.is_broken(spans[0]));
    heap.free(again[0], 64);
    heap.release(usize::MAX, &all);
    for page in [spans[0], spans[2], again[1]] {
        heap.free(page, 64);
    }
    assert!(
        heap.has_queued(),
        "an empty broken hugepage does not go to the cache"
    );
    heap.run_queued();
    assert_eq!(heap.sizes().backed_pages(), 0);
    assert_eq!(heap.vm().native_hugepages.get(), 0);
}

#[test]
fn refusals_of_the_system_lose_nothing() {
    let mut heap = heap();
    heap.vm_mut().left_hugepages = 3;
    let first = heap.allocate(512, Density::SPARSE).unwrap();
    assert!(heap.allocate(512, Density::SPARSE).is_none());
    assert!(heap.allocate_aligned(256, 512, Density::SPARSE).is_none());
    let small = heap.allocate(8, Density::SPARSE).unwrap();
    heap.free(first, 512);
    heap.free(small, 8);
    assert_eq!(heap.sizes().used_pages, 0);
}
