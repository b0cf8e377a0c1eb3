// SPDX-License-Identifier: MIT OR Apache-2.0
//! From per-block tallies to the metrics. Specification: `docs/definitions.md`.

use crate::class::{CLASS_COUNT, Definition, PageClass, Source};
use crate::metrics::{
    Coverage, DefinitionMetrics, DefinitionSize, GroupMetrics, Interval, Metrics, RatioInterval,
    SizeMetrics, SourceMetrics, UnmovableSpread,
};
use crate::tally::{BlockTally, MetricsBuilder};
use crate::{BASE_PAGE_BYTES, Order, PAGEBLOCK_ORDER};

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
        let folded = self.folded(members);
        let of_order = |order| {
            let of_order = folded.iter().find(|own| own.order == order);
            of_order.map_or(&[][..], |own| &own.blocks)
        };
        let pageblocks = of_order(PAGEBLOCK_ORDER);
        let folds: Vec<(Order, &[Fold])> = self
            .sizes
            .iter()
            .map(|&order| (order, of_order(order)))
            .collect();
        let define =
            |definition| definition_metrics(definition, &folds, pageblocks, memory_pages, coverage);
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
            sources: source_metrics(&classes, pageblocks),
        }
    }

    /// The blocks of every size and of pageblocks, ascending: those of the smallest are sums of the
    /// base blocks of the member zones, those of each other of the size before it.
    fn folded(&self, members: &[bool]) -> Vec<Folded> {
        let mut orders = self.sizes.clone();
        orders.push(PAGEBLOCK_ORDER);
        orders.sort_unstable();
        orders.dedup();
        let mut folded: Vec<Folded> = Vec::with_capacity(orders.len());
        for order in orders {
            let blocks = match folded.last() {
                None => joined(
                    self.base_folds(members),
                    self.base,
                    order,
                    self.blocks.len(),
                ),
                Some(last) => {
                    let blocks = last.blocks.iter().copied();
                    joined(blocks, last.order, order, last.blocks.len())
                }
            };
            folded.push(Folded { order, blocks });
        }
        folded
    }

    /// The base blocks of the member zones; blocks without any memory are left out. Pages of other
    /// zones count as holes.
    fn base_folds<'a>(&'a self, members: &'a [bool]) -> impl Iterator<Item = Fold> + 'a {
        let first = self.first.0 >> self.base.0;
        let of_members = move |(index, tally): (usize, &BlockTally)| {
            let zone = usize::from(tally.zone).min(members.len() - 1);
            let has_memory = u64::from(tally.hole) < self.base.pages();
            (members[zone] && has_memory).then(|| Fold::of(first + index as u64, tally, self.base))
        };
        self.blocks.iter().enumerate().filter_map(of_members)
    }
}

/// The aligned blocks of one order that have memory, ascending.
struct Folded {
    order: Order,
    blocks: Vec<Fold>,
}

/// Sums ascending blocks of order `from` into those of order `to`; there are `count` at most.
fn joined(folds: impl Iterator<Item = Fold>, from: Order, to: Order, count: usize) -> Vec<Fold> {
    let shift = to.0 - from.0;
    // What is needed at most when neighbours join: growing would move megabytes for each machine.
    let mut all: Vec<Fold> = Vec::with_capacity((count >> shift) + 2);
    for fold in folds {
        let number = fold.number >> shift;
        match all.last_mut() {
            Some(last) if last.number == number => last.add(&fold),
            _ => all.push(Fold { number, ..fold }),
        }
    }
    all
}

/// Sums over one aligned block of some order, in pages, of which [`Order::MAX`] has 2^28.
#[derive(Clone, Copy, Debug)]
struct Fold {
    /// Its first frame, in blocks of the order.
    number: u64,
    present: u32,
    mergeable_free: u32,
    free: u32,
    unmovable: [u32; 3],
    ambiguous: u32,
    sources: u8,
}

impl Fold {
    fn of(number: u64, tally: &BlockTally, base: Order) -> Fold {
        Fold {
            number,
            present: base.pages() as u32 - u32::from(tally.hole),
            mergeable_free: tally.mergeable_free.into(),
            free: tally.free.into(),
            unmovable: tally.unmovable.map(u32::from),
            ambiguous: tally.ambiguous.into(),
            sources: tally.sources,
        }
    }

    fn add(&mut self, other: &Fold) {
        self.present += other.present;
        self.mergeable_free += other.mergeable_free;
        self.free += other.free;
        for (sum, pages) in self.unmovable.iter_mut().zip(other.unmovable) {
            *sum += pages;
        }
        self.ambiguous += other.ambiguous;
        self.sources |= other.sources;
    }

    fn is_whole(&self, order: Order) -> bool {
        u64::from(self.present) == order.pages()
    }

    fn ambiguous_under(&self, definition: Definition) -> u32 {
        if definition == Definition::P {
            0
        } else {
            self.ambiguous
        }
    }

    /// Certainly unmovable, and possibly unmovable, pages.
    fn bounds(&self, definition: Definition) -> (u32, u32) {
        let low = self.unmovable[definition as usize];
        (low, low + self.ambiguous_under(definition))
    }
}

fn size_metrics(order: Order, blocks: &[Fold], free_pages: u64, k: &DefinitionSize) -> SizeMetrics {
    let is_free = |block: &&Fold| u64::from(block.mergeable_free) == order.pages();
    let free_blocks = blocks.iter().filter(is_free).count() as u64;
    let whole = |block: &&Fold| block.is_whole(order);
    SizeMetrics {
        size_bytes: order.bytes(),
        blocks: blocks.len() as u64,
        whole_blocks: blocks.iter().filter(whole).count() as u64,
        free_blocks,
        free_contiguity_ratio: ratio(free_blocks * order.pages(), free_pages),
        unmovable_ratio: k.unmovable_ratio.high,
        potential_ratio: k.potential_ratio.low,
    }
}

fn definition_metrics(
    definition: Definition,
    folds: &[(Order, &[Fold])],
    pageblocks: &[Fold],
    memory_pages: u64,
    coverage: &Coverage,
) -> DefinitionMetrics {
    let budget = coverage.ambiguous_free_pages.unwrap_or(u64::MAX);
    let (mut certain, mut ambiguous) = (0, 0);
    for block in pageblocks {
        certain += u64::from(block.unmovable[definition as usize]);
        ambiguous += u64::from(block.ambiguous_under(definition));
    }
    let unmovable_pages = Interval {
        low: certain + ambiguous.saturating_sub(budget),
        high: certain + ambiguous,
    };
    let sizes = folds
        .iter()
        .map(|&(order, blocks)| definition_size(definition, order, blocks, memory_pages, budget));
    DefinitionMetrics {
        unmovable_pages,
        unmovable_page_ratio: unmovable_pages.over(memory_pages),
        sizes: sizes.collect(),
        internal_fragmentation_ratio: internal_fragmentation(pageblocks, definition),
        spread: spread(pageblocks, definition),
    }
}

fn definition_size(
    definition: Definition,
    order: Order,
    blocks: &[Fold],
    memory_pages: u64,
    budget: u64,
) -> DefinitionSize {
    let (mut all, mut whole) = (Pollution::default(), Pollution::default());
    let mut whole_blocks = 0;
    for block in blocks {
        let bounds = block.bounds(definition);
        all.add(bounds);
        if block.is_whole(order) {
            whole_blocks += 1;
            whole.add(bounds);
        }
    }
    let (unmovable_blocks, spoiled) = (all.blocks(budget), whole.blocks(budget));
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
}

/// Blocks that hold an unmovable page, and for those that perhaps do, how many pages decide it.
#[derive(Default)]
struct Pollution {
    certain: u64,
    doubtful: Vec<u32>,
}

impl Pollution {
    fn add(&mut self, bounds: (u32, u32)) {
        match bounds {
            (0, 0) => {}
            (0, ambiguous) => self.doubtful.push(ambiguous),
            _ => self.certain += 1,
        }
    }

    /// Bounds of the number of blocks that hold an unmovable page when at most `budget` ambiguous
    /// pages are free. The lower bound is exact: to clear most blocks, clear the cheapest first.
    fn blocks(mut self, budget: u64) -> Interval {
        self.doubtful.sort_unstable();
        let mut left = budget;
        let cleared = self.doubtful.iter().take_while(|&&pages| {
            let fits = u64::from(pages) <= left;
            left = left.saturating_sub(pages.into());
            fits
        });
        let cleared = cleared.count() as u64;
        let doubtful = self.doubtful.len() as u64;
        Interval {
            low: self.certain + doubtful - cleared,
            high: self.certain + doubtful,
        }
    }
}

/// Evaluated once with all ambiguous pages movable and once with all unmovable.
fn internal_fragmentation(pageblocks: &[Fold], definition: Definition) -> RatioInterval {
    // Free and all pages of blocks that certainly, and that possibly, hold an unmovable page.
    let (mut certain, mut possible) = ((0, 0), (0, 0));
    for block in pageblocks {
        let (low, high) = block.bounds(definition);
        for (held, sums) in [(low, &mut certain), (high, &mut possible)] {
            if held > 0 {
                sums.0 += u64::from(block.free);
                sums.1 += u64::from(block.present);
            }
        }
    }
    let a = ratio(certain.0, certain.1);
    let b = ratio(possible.0, possible.1);
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
    let mut held: Vec<u32> = held.filter(|&pages| pages > 0).collect();
    held.sort_unstable();
    // Nearest-rank percentile: the smallest value with at least `percent` of all at or below.
    let at = |percent: usize| {
        let rank = (held.len() * percent).div_ceil(100).max(1);
        held.get(rank - 1).copied().map_or(0, u64::from)
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
