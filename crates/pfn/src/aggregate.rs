// SPDX-License-Identifier: MIT OR Apache-2.0
//! From per-block tallies to the metrics. Specification: `docs/definitions.md`.

use crate::class::{CLASS_COUNT, Definition, PageClass, Source};
use crate::metrics::{
    Coverage, DefinitionMetrics, DefinitionSize, GroupMetrics, Interval, Metrics, RatioInterval,
    SizeMetrics, SourceMetrics, UnmovableSpread,
};
use crate::tally::{BlockTally, MetricsBuilder};
use crate::{BASE_PAGE_BYTES, Order, PAGEBLOCK_ORDER, Pfn};

impl Interval {
    fn over(self, denominator: u64) -> RatioInterval {
        RatioInterval {
            low: ratio(self.low, denominator),
            high: ratio(self.high, denominator),
        }
    }
}

fn ratio(numerator: u64, denominator: u64) -> Option<f64> {
    (denominator > 0).then(|| numerator as f64 / denominator as f64)
}

impl MetricsBuilder {
    /// Computes the metrics of everything pushed so far.
    pub fn finish(&self, coverage: &Coverage) -> Metrics {
        let zones = self.layout.zones();
        let total = self.total(coverage);
        let only = |keep: &dyn Fn(usize) -> bool| {
            let mut members: Vec<bool> = (0..zones.len()).map(keep).collect();
            members.push(false);
            self.group(&members, coverage)
        };
        let nodes = self.layout.nodes().into_iter().map(|node| {
            let group = only(&|index| zones[index].node == node);
            GroupMetrics {
                node: Some(node),
                ..group
            }
        });
        let by_zone = zones.iter().enumerate().map(|(zone_index, zone)| {
            let group = only(&|index| index == zone_index);
            GroupMetrics {
                node: Some(zone.node),
                zone: Some(zone.name.clone()),
                ..group
            }
        });
        Metrics {
            total,
            nodes: nodes.collect(),
            zones: by_zone.collect(),
        }
    }

    /// Computes the metrics of the whole machine alone.
    pub fn total(&self, coverage: &Coverage) -> GroupMetrics {
        self.group(&vec![true; self.layout.zones().len() + 1], coverage)
    }

    /// Metrics of the zones that `members` marks; its last entry stands for "in no zone".
    fn group(&self, members: &[bool], coverage: &Coverage) -> GroupMetrics {
        let mut classes = [0u64; CLASS_COUNT];
        for (zone, &member) in self.zone_classes.iter().zip(members) {
            if member {
                classes
                    .iter_mut()
                    .zip(zone)
                    .for_each(|(sum, pages)| *sum += pages);
            }
        }
        let pages_where = |keep: &dyn Fn(PageClass) -> bool| -> u64 {
            PageClass::all()
                .filter(|&c| keep(c))
                .map(|c| classes[c as usize])
                .sum()
        };
        let memory_pages = pages_where(&|class| class != PageClass::Hole);
        let free_pages = pages_where(&PageClass::is_free);
        let folds: Vec<(Order, Vec<Fold>)> = self
            .sizes
            .iter()
            .map(|&order| (order, self.fold(order, members)))
            .collect();
        let pageblocks = self.fold(PAGEBLOCK_ORDER, members);
        let define = |definition| {
            definition_metrics(definition, &folds, &pageblocks, memory_pages, coverage)
        };
        let k = define(Definition::K);
        let sizes = folds
            .iter()
            .zip(&k.sizes)
            .map(|((order, blocks), k_size)| size_metrics(*order, blocks, free_pages, k_size));
        GroupMetrics {
            node: None,
            zone: None,
            memory_bytes: memory_pages * BASE_PAGE_BYTES,
            free_bytes: free_pages * BASE_PAGE_BYTES,
            class_pages: PageClass::all()
                .filter(|&class| class != PageClass::Hole && classes[class as usize] > 0)
                .map(|class| (class.name().to_string(), classes[class as usize]))
                .collect(),
            sizes: sizes.collect(),
            p: define(Definition::P),
            o: coverage.owners.then(|| define(Definition::O)),
            k,
            sources: source_metrics(&classes, &pageblocks),
        }
    }

    /// Sums the base blocks of the member zones into aligned blocks of `order`; blocks without
    /// any memory are left out. Pages of other zones count as holes.
    fn fold(&self, order: Order, members: &[bool]) -> Vec<Fold> {
        let mut folds: Vec<Fold> = Vec::new();
        let mut current: Option<(u64, Fold)> = None;
        for (index, tally) in self.blocks.iter().enumerate() {
            let zone = usize::from(tally.zone).min(members.len() - 1);
            if !members[zone] || u64::from(tally.hole) == self.base.pages() {
                continue;
            }
            let pfn = Pfn(self.first.0 + ((index as u64) << self.base.0));
            let key = pfn.0 >> order.0;
            match &mut current {
                Some((at, fold)) if *at == key => fold.add(tally, self.base),
                _ => {
                    folds.extend(current.take().map(|(_, fold)| fold));
                    let mut fold = Fold {
                        pages: order.pages(),
                        ..Fold::default()
                    };
                    fold.add(tally, self.base);
                    current = Some((key, fold));
                }
            }
        }
        folds.extend(current.map(|(_, fold)| fold));
        folds
    }
}

/// Sums over one aligned block of some order, in pages.
#[derive(Clone, Copy, Debug, Default)]
struct Fold {
    pages: u64,
    present: u64,
    mergeable_free: u64,
    free: u64,
    unmovable: [u64; 3],
    ambiguous: u64,
    sources: u8,
}

impl Fold {
    fn add(&mut self, tally: &BlockTally, base: Order) {
        self.present += base.pages() - u64::from(tally.hole);
        self.mergeable_free += u64::from(tally.mergeable_free);
        self.free += u64::from(tally.free);
        for (sum, &pages) in self.unmovable.iter_mut().zip(&tally.unmovable) {
            *sum += u64::from(pages);
        }
        self.ambiguous += u64::from(tally.ambiguous);
        self.sources |= tally.sources;
    }

    fn is_whole(&self) -> bool {
        self.present == self.pages
    }

    fn ambiguous_under(&self, definition: Definition) -> u64 {
        if definition == Definition::P {
            0
        } else {
            self.ambiguous
        }
    }

    /// Certainly unmovable, and possibly unmovable, pages.
    fn bounds(&self, definition: Definition) -> (u64, u64) {
        let low = self.unmovable[definition as usize];
        (low, low + self.ambiguous_under(definition))
    }
}

fn size_metrics(order: Order, blocks: &[Fold], free_pages: u64, k: &DefinitionSize) -> SizeMetrics {
    let free_blocks = blocks
        .iter()
        .filter(|b| b.mergeable_free == b.pages)
        .count() as u64;
    SizeMetrics {
        size_bytes: order.bytes(),
        blocks: blocks.len() as u64,
        whole_blocks: blocks.iter().filter(|b| b.is_whole()).count() as u64,
        free_blocks,
        free_contiguity_ratio: ratio(free_blocks * order.pages(), free_pages),
        unmovable_ratio: k.unmovable_ratio.high,
        potential_ratio: k.potential_ratio.low,
    }
}

fn definition_metrics(
    definition: Definition,
    folds: &[(Order, Vec<Fold>)],
    pageblocks: &[Fold],
    memory_pages: u64,
    coverage: &Coverage,
) -> DefinitionMetrics {
    let budget = coverage.ambiguous_free_pages.unwrap_or(u64::MAX);
    let certain: u64 = pageblocks.iter().map(|b| b.bounds(definition).0).sum();
    let ambiguous: u64 = pageblocks
        .iter()
        .map(|b| b.ambiguous_under(definition))
        .sum();
    let unmovable_pages = Interval {
        low: certain + ambiguous.saturating_sub(budget),
        high: certain + ambiguous,
    };
    let sizes = folds.iter().map(|(order, blocks)| {
        let unmovable_blocks = polluted(blocks.iter(), definition, budget);
        let whole = blocks.iter().filter(|b| b.is_whole());
        let whole_blocks = whole.clone().count() as u64;
        let spoiled = polluted(whole, definition, budget);
        let potential_blocks = Interval {
            low: whole_blocks - spoiled.high,
            high: whole_blocks - spoiled.low,
        };
        let in_pages = |blocks: u64| blocks * order.pages();
        DefinitionSize {
            size_bytes: order.bytes(),
            unmovable_blocks,
            unmovable_ratio: unmovable_blocks.over(blocks.len() as u64),
            potential_blocks,
            potential_ratio: RatioInterval {
                low: ratio(in_pages(potential_blocks.low), memory_pages),
                high: ratio(in_pages(potential_blocks.high), memory_pages),
            },
        }
    });
    DefinitionMetrics {
        unmovable_pages,
        unmovable_page_ratio: unmovable_pages.over(memory_pages),
        sizes: sizes.collect(),
        internal_fragmentation_ratio: internal_fragmentation(pageblocks, definition),
        spread: spread(pageblocks, definition),
    }
}

/// Bounds of the number of blocks that hold an unmovable page when at most `budget` ambiguous
/// pages are free. The lower bound is exact: to clear most blocks, clear the cheapest first.
fn polluted<'a>(
    blocks: impl Iterator<Item = &'a Fold>,
    definition: Definition,
    budget: u64,
) -> Interval {
    let mut certain = 0;
    let mut doubtful: Vec<u64> = Vec::new();
    for block in blocks {
        match block.bounds(definition) {
            (0, 0) => {}
            (0, ambiguous) => doubtful.push(ambiguous),
            _ => certain += 1,
        }
    }
    doubtful.sort_unstable();
    let mut left = budget;
    let cleared = doubtful.iter().take_while(|&&pages| {
        let fits = pages <= left;
        left = left.saturating_sub(pages);
        fits
    });
    let cleared = cleared.count() as u64;
    let doubtful = doubtful.len() as u64;
    Interval {
        low: certain + doubtful - cleared,
        high: certain + doubtful,
    }
}

/// Evaluated once with all ambiguous pages movable and once with all unmovable.
fn internal_fragmentation(pageblocks: &[Fold], definition: Definition) -> RatioInterval {
    let share = |held: &dyn Fn(&Fold) -> bool| {
        let (free, pages) = pageblocks
            .iter()
            .filter(|block| held(block))
            .fold((0, 0), |(free, pages), b| {
                (free + b.free, pages + b.present)
            });
        ratio(free, pages)
    };
    let a = share(&|block| block.bounds(definition).0 > 0);
    let b = share(&|block| block.bounds(definition).1 > 0);
    match (a, b) {
        (Some(a), Some(b)) => RatioInterval {
            low: Some(a.min(b)),
            high: Some(a.max(b)),
        },
        (one, other) => RatioInterval {
            low: one.or(other),
            high: one.or(other),
        },
    }
}

fn spread(pageblocks: &[Fold], definition: Definition) -> UnmovableSpread {
    let held = pageblocks.iter().map(|block| block.bounds(definition).1);
    let mut held: Vec<u64> = held.filter(|&pages| pages > 0).collect();
    held.sort_unstable();
    // Nearest-rank percentile: the smallest value with at least `percent` of all at or below.
    let at = |percent: usize| {
        let rank = (held.len() * percent).div_ceil(100).max(1);
        held.get(rank - 1).copied().unwrap_or(0)
    };
    UnmovableSpread {
        p10_pages: at(10),
        p50_pages: at(50),
        p90_pages: at(90),
        max_pages: at(100),
    }
}

fn source_metrics(classes: &[u64; CLASS_COUNT], pageblocks: &[Fold]) -> Vec<SourceMetrics> {
    let pages_of = |source| -> u64 {
        PageClass::all()
            .filter(|c| c.source() == source)
            .map(|c| classes[c as usize])
            .sum()
    };
    let all: u64 = Source::ALL.iter().map(|&source| pages_of(source)).sum();
    let metrics = Source::ALL
        .iter()
        .enumerate()
        .map(|(bit, &source)| SourceMetrics {
            source,
            pages: pages_of(source),
            ratio: ratio(pages_of(source), all),
            blocks_2m: pageblocks
                .iter()
                .filter(|b| b.sources >> bit & 1 == 1)
                .count() as u64,
        });
    metrics.collect()
}
