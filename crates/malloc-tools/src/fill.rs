// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's figure 11: how well policies of the filler follow demand through a drop.
//!
//! A model of hugepages with bitmaps runs any of the policies; the shipped filler runs the same
//! requests beside it. Demand rises to a target, is kept there by random replacement, drops to a
//! third at half time and is kept there. Empty hugepages are given back at once.

use crate::{index, span_pages};
use ample_kit::random::SplitMix64;
use ample_malloc::heap::bits::PageBits;
use ample_malloc::heap::{Filler, Trackers};
use ample_malloc::os::meta::Pool;
use ample_malloc::units::{Density, PAGES_PER_HUGE};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// How the hugepage for a span is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The shipped filler: lowest sufficient longest free range, then most allocations.
    Filler,
    /// The same rule in the model, to check the filler against.
    LongestThenAllocations,
    /// Lowest sufficient longest free range, then most used pages.
    LongestThenUsed,
    /// Most allocations first.
    Fullness,
    /// The lowest address that has room.
    FirstFit,
    /// The shortest sufficient gap of all hugepages.
    BestFit,
}

impl Policy {
    /// All policies with their names.
    pub const ALL: [(Policy, &'static str); 6] = [
        (Policy::Filler, "filler"),
        (Policy::LongestThenAllocations, "L then A"),
        (Policy::LongestThenUsed, "L then U"),
        (Policy::Fullness, "fullness"),
        (Policy::FirstFit, "first fit"),
        (Policy::BestFit, "best fit"),
    ];
}

/// The course of demand.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Pages in use before the drop.
    pub target_pages: usize,
    /// Steps after the rise; one replacement each. The drop comes in the middle.
    pub steps: usize,
    /// Seed of the order of calls.
    pub seed: u64,
}

/// Backed pages over pages in use, minus one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// Mean over the last fifth before the drop.
    pub before: f64,
    /// Mean over the last fifth of the whole run.
    pub after: f64,
    /// Highest at any step before the drop: slack.
    pub peak_before: f64,
}

/// One policy: medians of the overheads over seeds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PolicyRow {
    /// The policy, as [`Policy::ALL`] names it.
    pub policy: &'static str,
    /// Median of [`Overhead::before`].
    #[serde(rename = "overhead_before", serialize_with = "crate::four_digits")]
    pub before: f64,
    /// Median of [`Overhead::after`].
    #[serde(rename = "overhead_after", serialize_with = "crate::four_digits")]
    pub after: f64,
    /// Median of [`Overhead::peak_before`].
    #[serde(serialize_with = "crate::four_digits")]
    pub peak_before: f64,
}

#[derive(Clone, Copy, Default)]
struct Hugepage {
    used: PageBits,
    pages: usize,
    allocations: usize,
}

/// Hugepages by number.
#[derive(Default)]
pub(crate) struct Model {
    hugepages: BTreeMap<usize, Hugepage>,
    next: usize,
}

impl Model {
    fn allocate(&mut self, len: usize, policy: Policy) -> usize {
        let fits = |page: &Hugepage| page.used.longest_clear() >= len;
        let candidates = self.hugepages.iter().filter(|(_, page)| fits(page));
        let log2 = |count: usize| count.checked_ilog2().unwrap_or(0).min(7);
        let chosen = match policy {
            Policy::Filler | Policy::LongestThenAllocations => candidates
                .min_by_key(|(_, page)| (page.used.longest_clear(), 7 - log2(page.allocations))),
            Policy::LongestThenUsed => candidates
                .min_by_key(|(_, page)| (page.used.longest_clear(), PAGES_PER_HUGE - page.pages)),
            Policy::Fullness => candidates.max_by_key(|(_, page)| page.allocations),
            Policy::FirstFit => candidates.into_iter().next(),
            Policy::BestFit => candidates.min_by_key(|(_, page)| shortest_gap(&page.used, len)),
        };
        let number = chosen.map(|(&number, _)| number).unwrap_or_else(|| {
            self.next += 1;
            self.hugepages.insert(self.next, Hugepage::default());
            self.next
        });
        let page = self
            .hugepages
            .get_mut(&number)
            .expect("it was just found or made");
        let offset = page.used.best_fit(len).expect("it fits").0;
        page.used.set(offset, len);
        page.pages += len;
        page.allocations += 1;
        number * PAGES_PER_HUGE + offset
    }

    fn free(&mut self, page: usize, len: usize) {
        let number = page / PAGES_PER_HUGE;
        let hugepage = self.hugepages.get_mut(&number).expect("a live span");
        hugepage.used.clear(page % PAGES_PER_HUGE, len);
        hugepage.pages -= len;
        hugepage.allocations -= 1;
        if hugepage.pages == 0 {
            self.hugepages.remove(&number);
        }
    }
}

fn shortest_gap(used: &PageBits, len: usize) -> usize {
    let (mut from, mut shortest) = (0, usize::MAX);
    while let Some((start, run)) = used.clear_run(from) {
        if run >= len {
            shortest = shortest.min(run);
        }
        from = start + run;
    }
    shortest
}

/// The filler alone, its hugepages numbered from a counter.
pub(crate) struct Shipped {
    filler: Box<Filler>,
    trackers: Box<Trackers>,
    ids: HashMap<usize, u32>,
    next: usize,
}

impl Shipped {
    fn allocate(&mut self, len: usize) -> usize {
        let density = Density::SPARSE;
        if let Some(place) = self.filler.allocate(&mut self.trackers, len, density) {
            return place.page;
        }
        self.next += 1;
        let place = self
            .filler
            .contribute(&mut self.trackers, self.next, len, false, density)
            .expect("metadata memory");
        self.ids.insert(self.next, place.tracker);
        place.page
    }

    fn free(&mut self, page: usize, len: usize) {
        let id = self.ids[&(page / PAGES_PER_HUGE)];
        if self.filler.free(&mut self.trackers, id, page, len) {
            let (hugepage, _) = self.filler.retire(&mut self.trackers, id);
            self.ids.remove(&hugepage);
        }
    }
}

pub(crate) enum Heap {
    Model(Model, Policy),
    Shipped(Shipped),
}

impl Heap {
    pub(crate) fn new(policy: Policy) -> Heap {
        if policy != Policy::Filler {
            return Heap::Model(Model::default(), policy);
        }
        Heap::Shipped(Shipped {
            filler: Box::new(Filler::new()),
            trackers: Box::new(Pool::new()),
            ids: HashMap::new(),
            next: 0,
        })
    }

    pub(crate) fn allocate(&mut self, len: usize) -> usize {
        match self {
            Heap::Model(model, policy) => model.allocate(len, *policy),
            Heap::Shipped(shipped) => shipped.allocate(len),
        }
    }

    pub(crate) fn free(&mut self, page: usize, len: usize) {
        match self {
            Heap::Model(model, _) => model.free(page, len),
            Heap::Shipped(shipped) => shipped.free(page, len),
        }
    }

    pub(crate) fn backed_pages(&self) -> usize {
        let hugepages = match self {
            Heap::Model(model, _) => model.hugepages.len(),
            Heap::Shipped(shipped) => shipped.filler.sizes().hugepages,
        };
        hugepages * PAGES_PER_HUGE
    }
}

/// Runs one policy through the plan.
pub fn run(policy: Policy, plan: Plan) -> Overhead {
    let mut random = SplitMix64::new(plan.seed);
    let mut heap = Heap::new(policy);
    let mut live: Vec<(usize, usize)> = Vec::new();
    let mut used = 0;
    let mut overheads = Vec::with_capacity(plan.steps);
    for step in 0..plan.steps {
        let target = if step < plan.steps / 2 {
            plan.target_pages
        } else {
            plan.target_pages / 3
        };
        if step > 0 && !live.is_empty() {
            let (page, len) = live.swap_remove(index(&mut random, live.len()));
            heap.free(page, len);
            used -= len;
        }
        while used > target && !live.is_empty() {
            let (page, len) = live.swap_remove(index(&mut random, live.len()));
            heap.free(page, len);
            used -= len;
        }
        while used < target {
            let len = span_pages(&mut random);
            live.push((heap.allocate(len), len));
            used += len;
        }
        overheads.push(heap.backed_pages() as f64 / used as f64 - 1.0);
    }
    let half = &overheads[..plan.steps / 2];
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    Overhead {
        before: mean(&half[half.len() * 4 / 5..]),
        after: mean(&overheads[plan.steps * 4 / 5..]),
        peak_before: half.iter().copied().fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 300 MiB: below that a hugepage is a large share of the whole.
    const SMALL: Plan = Plan {
        target_pages: 38_400,
        steps: 60_000,
        seed: 7,
    };

    #[test]
    fn the_filler_does_what_the_model_of_its_rule_does() {
        // Not page by page: among equals the filler takes the most recent, the model the first.
        let shipped = run(Policy::Filler, SMALL);
        let model = run(Policy::LongestThenAllocations, SMALL);
        assert!(
            (shipped.before - model.before).abs() < 0.02,
            "{shipped:?} {model:?}"
        );
        assert!(
            (shipped.after - model.after).abs() < 0.03,
            "{shipped:?} {model:?}"
        );
    }

    #[test]
    fn best_fit_does_not_recover_from_a_drop_and_the_filler_does() {
        let shipped = run(Policy::Filler, SMALL);
        let best = run(Policy::BestFit, SMALL);
        assert!(shipped.after < best.after / 1.5, "{shipped:?} {best:?}");
        assert!(shipped.before < 0.1, "{shipped:?}");
    }
}
