// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page heap under random orders of calls.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn spans_are_disjoint(spans: &BTreeMap<usize, usize>) -> bool {
    spans
        .iter()
        .zip(spans.iter().skip(1))
        .all(|(low, high)| low.0 + low.1 <= *high.0)
}

#[derive(Clone, Debug)]
enum Step {
    New { len: usize, dense: bool },
    Aligned { len: usize, align_log2: u32 },
    Delete { pick: usize },
    Grow { pick: usize, more: usize },
    Shrink { pick: usize, by: usize },
    Move { pick: usize },
    Release { pages: usize },
    HalfRelease { pages: usize },
    EndRelease { succeeded: bool },
    Collapse { succeeded: bool },
    Look { native: u64 },
    Wait { ns: u64 },
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 1..9usize,
        4 => 9..140usize,
        2 => 129..256usize,
        1 => 256..3000usize,
        1 => Just(512usize),
        1 => 131_000..131_200usize,
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (lengths(), any::<bool>()).prop_map(|(len, dense)| Step::New {
            len,
            dense: dense && len == 1,
        }),
        1 => (lengths(), 0..11u32).prop_map(|(len, align_log2)| Step::Aligned { len, align_log2 }),
        7 => any::<usize>().prop_map(|pick| Step::Delete { pick }),
        1 => (any::<usize>(), 1..40usize).prop_map(|(pick, more)| Step::Grow { pick, more }),
        2 => (any::<usize>(), 1..2000usize).prop_map(|(pick, by)| Step::Shrink { pick, by }),
        1 => any::<usize>().prop_map(|pick| Step::Move { pick }),
        1 => (1..2000usize).prop_map(|pages| Step::Release { pages }),
        1 => (1..2000usize).prop_map(|pages| Step::HalfRelease { pages }),
        1 => any::<bool>().prop_map(|succeeded| Step::EndRelease { succeeded }),
        1 => any::<bool>().prop_map(|succeeded| Step::Collapse { succeeded }),
        1 => any::<u64>().prop_map(|native| Step::Look { native }),
        1 => (0..1_500_000_000u64).prop_map(|ns| Step::Wait { ns }),
    ]
}

/// A heap, the spans it should hold, and releases that were begun and not ended.
struct World {
    heap: Box<PageHeap<FakeVm>>,
    spans: BTreeMap<usize, usize>,
    pending: Vec<Release>,
}

impl World {
    fn picked(&self, pick: usize) -> Option<(usize, usize)> {
        let index = pick.checked_rem(self.spans.len())?;
        self.spans
            .iter()
            .nth(index)
            .map(|(&page, &len)| (page, len))
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::New { len, dense } => {
                let density = if dense {
                    Density::DENSE
                } else {
                    Density::SPARSE
                };
                let page = self
                    .heap
                    .allocate(len, density)
                    .expect("plenty of address space");
                assert!(self.spans.insert(page, len).is_none());
            }
            Step::Aligned { len, align_log2 } => {
                let align = 1 << align_log2;
                let page = self
                    .heap
                    .allocate_aligned(len, align, Density::SPARSE)
                    .unwrap();
                assert!(page.is_multiple_of(align));
                assert!(self.spans.insert(page, len).is_none());
            }
            Step::Delete { pick } => {
                if let Some((page, len)) = self.picked(pick) {
                    self.spans.remove(&page);
                    self.heap.free(page, len);
                }
            }
            Step::Grow { pick, more } => {
                if let Some((page, len)) = self.picked(pick)
                    && self.heap.grow(page, len, len + more)
                {
                    self.spans.insert(page, len + more);
                }
            }
            Step::Shrink { pick, by } => {
                if let Some((page, len)) = self.picked(pick)
                    && by < len
                    && self.heap.shrink(page, len, len - by)
                {
                    self.spans.insert(page, len - by);
                }
            }
            Step::Move { pick } => {
                if let Some((page, len)) = self.picked(pick)
                    && self.heap.is_whole(page, len)
                {
                    self.spans.remove(&page);
                    self.heap.free_moved(page, len);
                }
            }
            step => self.release_step(step),
        }
    }

    /// The steps that take no span and give none.
    fn release_step(&mut self, step: Step) {
        let policy = ReleasePolicy {
            huge_floor_percent: 0,
            ..ReleasePolicy::default()
        };
        match step {
            Step::Release { pages } => {
                self.heap.release(pages, &policy);
            }
            Step::HalfRelease { pages } => {
                self.pending.extend(self.heap.begin_release(pages, &policy));
            }
            Step::EndRelease { succeeded } => {
                if let Some(release) = self.pending.pop() {
                    self.heap.end_release(release, succeeded);
                }
            }
            Step::Collapse { succeeded } => {
                if let Some(collapse) = self.heap.begin_collapse() {
                    self.heap.end_collapse(collapse, succeeded);
                }
            }
            Step::Look { native } => {
                // The system maps some hugepages otherwise from now on.
                let touched = self.spans.keys().map(|page| page / PAGES_PER_HUGE);
                let chosen = touched.filter(|hugepage| native >> (hugepage % 64) & 1 == 1);
                *self.heap.vm().native.borrow_mut() = chosen.collect();
                while let Some(look) = self.heap.begin_look() {
                    let found = look.run(self.heap.vm());
                    self.heap.end_look(&look, &found);
                }
            }
            Step::Wait { ns } => {
                self.heap.vm().advance_ns(ns);
                self.heap.age();
            }
            step => unreachable!("{step:?} takes or gives a span"),
        }
    }

    fn check(&self) {
        assert!(spans_are_disjoint(&self.spans));
        let used: usize = self.spans.values().sum();
        let sizes = self.heap.sizes();
        assert_eq!(sizes.used_pages, used);
        for release in &self.pending {
            if let Release::Part(_, hugepage, pages, _) = release {
                for (&page, &len) in &self.spans {
                    for page in page..page + len {
                        let inside = page / PAGES_PER_HUGE == *hugepage;
                        assert!(!inside || pages.count_in(page % PAGES_PER_HUGE, 1) == 0);
                    }
                }
            }
        }
        let filler = sizes.filler;
        assert!(filler.broken_used_pages <= filler.used());
        assert!(filler.broken_hugepages + filler.native_hugepages <= filler.hugepages);
        assert!(filler.released_pages + filler.used() <= filler.hugepages * PAGES_PER_HUGE);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]
    #[test]
    fn spans_never_overlap_and_everything_comes_back(
        script in prop::collection::vec(steps(), 1..250),
        refuse in any::<bool>(),
    ) {
        let mut world = World { heap: heap(), spans: BTreeMap::new(), pending: Vec::new() };
        world.heap.vm().refuse.set(refuse);
        for step in script {
            world.step(step);
            world.check();
        }
        while let Some((&page, &len)) = world.spans.iter().next() {
            world.spans.remove(&page);
            world.heap.free(page, len);
        }
        for release in core::mem::take(&mut world.pending) {
            world.heap.end_release(release, true);
        }
        world.heap.vm().advance_ns(2 * WINDOW_NS);
        world.heap.release(usize::MAX, &ReleasePolicy::default());
        world.heap.run_queued();
        let sizes = world.heap.sizes();
        prop_assert_eq!(sizes.used_pages, 0);
        prop_assert_eq!(sizes.filler, FillerSizes::default());
        prop_assert_eq!((sizes.large_pages, sizes.slack_pages), (0, 0));
        if !refuse {
            prop_assert_eq!(sizes.backed_pages(), 0);
            let held = sizes.regions * REGION_HUGEPAGES;
            prop_assert_eq!(sizes.free_hugepages + held, sizes.reserved_hugepages);
        }
    }
}
