// SPDX-License-Identifier: MIT OR Apache-2.0
//! Native pages that go back inside spans in use, over pretended memory.

use super::*;
use crate::units::NATIVES;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A span: its length in pages, its holes, and the epoch they are noted with.
type Spans = BTreeMap<usize, (usize, usize, u16)>;

fn free(heap: &mut PageHeap<FakeVm>, spans: &mut Spans, page: usize) {
    let (len, holes, epoch) = spans.remove(&page).expect("a live span");
    if holes > 0 {
        heap.fill_holes(page, holes as u32, epoch);
    }
    heap.free(page, len);
}

/// Makes holes of a part of what the spans of the next hugepage have; whether there was one.
fn make_holes(
    heap: &mut PageHeap<FakeVm>,
    spans: &mut Spans,
    policy: &ReleasePolicy,
    all: bool,
    part: usize,
) -> bool {
    let Some(huge) = heap.next_spans() else {
        return false;
    };
    let here: Vec<usize> = spans
        .keys()
        .copied()
        .filter(|page| page / PAGES_PER_HUGE == huge.hugepage)
        .collect();
    let held = |&(_, holes, epoch): &(usize, usize, u16)| {
        if epoch == huge.epoch { holes } else { 0 }
    };
    let more = |span: &(usize, usize, u16)| (span.0 * NATIVES - held(span)) * part / 8;
    let natives = here.iter().map(|page| more(&spans[page])).sum();
    let Some(release) = heap.begin_holes(&huge, natives, policy, all) else {
        return true;
    };
    let succeeded = !heap.vm().refuse.get();
    heap.end_holes(&release, natives, succeeded);
    for page in here {
        let span = spans.get_mut(&page).expect("a live span");
        if succeeded {
            *span = (span.0, held(span) + more(span), huge.epoch);
        }
    }
    true
}

fn check(heap: &PageHeap<FakeVm>, spans: &Spans) {
    let sizes = heap.sizes();
    let epoch = |page: usize| match heap.map.get(page >> HUGE_PAGES_SHIFT) {
        Owner::Filler(id) => heap.trackers[id].epoch,
        _ => 0,
    };
    let held = |(&page, span): (&usize, &(usize, usize, u16))| match span.2 == epoch(page) {
        true => span.1,
        false => 0,
    };
    let holes: usize = spans.iter().map(held).sum();
    assert_eq!(sizes.filler.hole_natives, holes);
    assert_eq!(sizes.backed_pages(), heap.backed_pages());
    assert!(sizes.in_use_pages() <= sizes.backed_pages());
    assert!(sizes.filler.hole_pages() <= sizes.filler.broken_used_pages);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]
    #[test]
    fn holes_are_accounted_for_whatever_happens(
        script in prop::collection::vec((0..9u8, 1..9usize, any::<prop::sample::Index>()), 1..300),
        refuse in any::<bool>(),
    ) {
        let (mut heap, mut spans) = (heap(), Spans::new());
        let policy = ReleasePolicy { huge_floor_percent: 0, ..ReleasePolicy::DEFAULT };
        heap.vm().refuse.set(refuse);
        for (kind, number, pick) in script {
            let live = Vec::from_iter(spans.keys().copied());
            let picked = (!live.is_empty()).then(|| *pick.get(&live));
            match (kind, picked) {
                (0..3, _) => for _ in 0..8 * number {
                    let page = heap.allocate(number, Density::DENSE).expect("pretended");
                    prop_assert!(spans.insert(page, (number, 0, 0)).is_none());
                },
                (3, Some(page)) => free(&mut heap, &mut spans, page),
                (4, Some(page)) => {
                    let (_, holes, epoch) = spans.get_mut(&page).expect("a live span");
                    let filled = (*holes).min(number);
                    if filled > 0 {
                        heap.refill(page, filled as u32, *epoch);
                        *holes -= filled;
                    }
                }
                (5, _) => {
                    let succeeded = number % 4 > 0;
                    heap.vm().advance_ns(100_000_000_000);
                    if let Some(collapse) = heap.begin_collapse() {
                        heap.end_collapse(collapse, succeeded);
                    }
                }
                (6, _) => {
                    heap.release(number, &policy);
                }
                _ => {
                    make_holes(&mut heap, &mut spans, &policy, number % 2 == 0, number);
                }
            }
            check(&heap, &spans);
        }
        while let Some((&page, _)) = spans.iter().next() {
            free(&mut heap, &mut spans, page);
            check(&heap, &spans);
        }
        heap.run_queued();
        prop_assert_eq!(heap.sizes().used_pages, 0);
        prop_assert_eq!(heap.sizes().filler, FillerSizes::default());
    }
}

/// A heap of 64 hugepages of spans of 8 pages, which have had so many eighths of their native pages
/// free for long; what is backed, and what of it is on whole hugepages, after all rounds.
fn left_of_64(part: usize) -> (usize, usize) {
    let (mut heap, mut spans) = (heap(), Spans::new());
    for _ in 0..64 * PAGES_PER_HUGE / 8 {
        let page = heap.allocate(8, Density::DENSE).expect("pretended");
        spans.insert(page, (8, 0, 0));
    }
    let policy = ReleasePolicy::DEFAULT;
    for _ in 0..400 {
        heap.vm().advance_ns(250_000_000);
        let all = 64 * HUGE_BYTES;
        if heap.wanted_holes(&policy, all * part / 8) == 0 {
            continue;
        }
        if !make_holes(&mut heap, &mut spans, &policy, false, part) {
            heap.begin_turn();
        }
        check(&heap, &spans);
    }
    let sizes = heap.sizes();
    let whole = sizes.filler.used() - sizes.filler.broken_used_pages;
    (sizes.backed_pages(), whole)
}

#[test]
fn hugepages_are_broken_as_far_as_the_policy_lets_them_be() {
    // Little is free: nothing is done.
    let all = 64 * PAGES_PER_HUGE;
    assert_eq!(left_of_64(2), (all, all));
    // Half is free: half of what stays is on whole hugepages.
    let (backed, whole) = left_of_64(4);
    assert!(backed < all * 3 / 4, "{backed}");
    assert!(whole * 100 >= backed * 48, "{whole} of {backed}");
    // An eighth is live: no hugepage is worth it.
    let (backed, whole) = left_of_64(7);
    assert!(backed <= all / 4, "{backed} with {whole} whole");
}

/// The first seconds after a drop belong to the next rise.
#[test]
fn nothing_goes_back_within_the_lasting_window() {
    let mut heap = heap();
    for _ in 0..64 * PAGES_PER_HUGE / 8 {
        heap.allocate(8, Density::DENSE).expect("pretended");
    }
    let all = 64 * HUGE_BYTES;
    assert_eq!(heap.wanted_holes(&ReleasePolicy::DEFAULT, 0), 0);
    for _ in 0..14 * 4 {
        assert_eq!(heap.wanted_holes(&ReleasePolicy::DEFAULT, all / 8 * 7), 0);
        heap.vm().advance_ns(250_000_000);
    }
    heap.vm().advance_ns(4_000_000_000);
    assert!(heap.wanted_holes(&ReleasePolicy::DEFAULT, all / 8 * 7) > 0);
}
