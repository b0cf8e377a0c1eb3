// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hugepages that the system has mapped with native pages: found, used last, released first and
//! rebuilt.

use super::*;
use crate::heap::rebuild::LOOKS;

/// Lets the heap look at all of its hugepages.
fn look(heap: &mut PageHeap<FakeVm>) {
    while let Some(look) = heap.begin_look() {
        let found = look.run(heap.vm());
        heap.end_look(&look, &found);
    }
}

/// A heap of so many hugepages with a free half each, of which those with odd numbers turn out to
/// be native; the pages in use.
fn half_full(hugepages: usize) -> (Box<PageHeap<FakeVm>>, Vec<usize>) {
    let mut heap = heap();
    let spans: Vec<usize> = (0..4 * hugepages)
        .map(|_| heap.allocate(64, Density::SPARSE).unwrap())
        .collect();
    let odd = spans.iter().map(|page| page / PAGES_PER_HUGE);
    heap.vm()
        .native
        .borrow_mut()
        .extend(odd.filter(|n| n % 2 == 1));
    look(&mut heap);
    let (freed, kept): (Vec<_>, Vec<_>) = spans
        .into_iter()
        .partition(|page| page % PAGES_PER_HUGE >= PAGES_PER_HUGE / 2);
    freed.into_iter().for_each(|page| heap.free(page, 64));
    (heap, kept)
}

fn native(heap: &PageHeap<FakeVm>, page: usize) -> bool {
    heap.vm().native.borrow().contains(&(page / PAGES_PER_HUGE))
}

#[test]
fn spans_go_to_native_hugepages_last() {
    let (mut heap, _) = half_full(3 * LOOKS);
    assert_eq!(heap.sizes().filler.native_hugepages, 3 * LOOKS / 2);
    let placed: Vec<bool> = (0..6 * LOOKS)
        .map(|_| {
            let page = heap.allocate(64, Density::SPARSE).unwrap();
            native(&heap, page)
        })
        .collect();
    assert_eq!(heap.sizes().filler.hugepages, 3 * LOOKS, "no new one");
    let (whole, rest) = placed.split_at(3 * LOOKS);
    assert!(whole.iter().all(|native| !native) && rest.iter().all(|&native| native));
}

#[test]
fn what_is_free_on_native_hugepages_goes_back_first_and_at_any_floor() {
    let (mut heap, kept) = half_full(8);
    let policy = ReleasePolicy {
        huge_floor_percent: 100,
        ..ReleasePolicy::default()
    };
    assert_eq!(heap.release(usize::MAX, &policy), 4 * PAGES_PER_HUGE / 2);
    let sizes = heap.sizes().filler;
    assert_eq!((sizes.native_hugepages, sizes.broken_hugepages), (0, 4));
    let marked = heap.vm().native_hugepages.get();
    assert_eq!(marked, 4, "khugepaged is not to fill them up");
    let broken = |&&page: &&usize| heap.is_broken(page);
    assert!(kept.iter().filter(broken).all(|&page| native(&heap, page)));
}

#[test]
fn native_hugepages_are_rebuilt_the_fullest_first_while_the_system_has_some() {
    let (mut heap, kept) = half_full(8);
    let full = heap.allocate(64, Density::SPARSE).unwrap();
    heap.vm().native.borrow_mut().insert(full / PAGES_PER_HUGE);
    look(&mut heap);
    heap.vm().refuse.set(true);
    let step = heap.begin_collapse().expect("five are native");
    assert_eq!(step.address / HUGE_BYTES, full / PAGES_PER_HUGE);
    assert!(step.run(heap.vm()).is_err());
    heap.end_collapse(step, false);
    let marked = heap.vm().native_hugepages.get();
    assert_eq!(marked, 0, "khugepaged may rebuild it");
    heap.vm().refuse.set(false);
    heap.vm().advance_ns(100_000_000_000);
    while let Some(step) = heap.begin_collapse() {
        step.run(heap.vm()).expect("hugepages are there");
        heap.end_collapse(step, true);
    }
    assert!(kept.iter().all(|&page| !heap.is_broken(page)));
    let sizes = heap.sizes();
    assert_eq!((sizes.rebuilds.collapsed, sizes.rebuilds.refused), (5, 1));
    assert_eq!(sizes.filler.native_hugepages, 0);
}

#[test]
fn what_the_system_rebuilds_by_itself_counts_as_whole_again() {
    let (mut heap, kept) = half_full(8);
    heap.vm().native.borrow_mut().clear();
    look(&mut heap);
    assert!(kept.iter().all(|&page| !heap.is_broken(page)));
    let sizes = heap.sizes();
    assert_eq!(sizes.filler.native_hugepages, 0);
    let rebuilds = sizes.rebuilds;
    assert_eq!((rebuilds.found_native, rebuilds.found_whole), (4, 4));
}

/// On a machine without hugepages one that was given back would come back as native pages, one
/// fault each.
#[test]
fn an_empty_native_hugepage_goes_to_the_cache() {
    let (mut heap, kept) = half_full(2);
    kept.into_iter().for_each(|page| heap.free(page, 64));
    assert!(!heap.has_queued());
    assert_eq!(heap.sizes().cache_hugepages, 2);
    assert_eq!(heap.sizes().filler, FillerSizes::default());
}

#[test]
fn a_hugepage_that_has_changed_hands_since_the_look_is_left_alone() {
    let (mut heap, kept) = half_full(2);
    heap.vm().native.borrow_mut().clear();
    let step = heap.begin_look().expect("two hugepages");
    let found = step.run(heap.vm());
    kept.into_iter().for_each(|page| heap.free(page, 64));
    heap.allocate(256 + 64, Density::SPARSE).unwrap();
    heap.end_look(&step, &found);
    assert_eq!(heap.sizes().rebuilds.found_whole, 0);
}
