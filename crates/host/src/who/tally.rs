// SPDX-License-Identifier: MIT OR Apache-2.0
//! From pages with owners to blocks: what each owner spoils, and what it spoils alone.

use super::owners::{OwnerId, OwnerList, OwnerName};
use super::{OwnerCell, PageOwner, Who};
use crate::PageRuns;
use ample_pfn::{Order, PAGEBLOCK_ORDER, PageClass, Pfn, PfnRange};
use std::collections::{BTreeMap, HashMap};

const GIGA_ORDER: Order = Order(18);
/// Stretches of memory that are kept with their owners, at most.
const MAX_CELLS: u64 = 128 * 48;
/// Owners named for a stretch.
const OWNERS_PER_CELL: usize = 4;

/// Pages of each owner in the block that is being read, for one size of blocks.
struct Blocks {
    order: Order,
    block: u64,
    pages: BTreeMap<OwnerId, u32>,
}

impl Blocks {
    fn new(order: Order) -> Blocks {
        Blocks {
            order,
            block: u64::MAX,
            pages: BTreeMap::new(),
        }
    }

    /// Adds pages of a block; a block that they end is handed to `done`.
    fn add(&mut self, block: u64, owner: OwnerId, pages: u32, done: impl FnMut(&Blocks)) {
        if block != self.block {
            self.flush(done);
            self.block = block;
        }
        *self.pages.entry(owner).or_default() += pages;
    }

    fn flush(&mut self, mut done: impl FnMut(&Blocks)) {
        if !self.pages.is_empty() {
            done(self);
            self.pages.clear();
        }
    }
}

/// The owners of ascending ranges of one owner each, those that hold the most pages first.
pub fn ranked(list: &OwnerList, held: &[(PfnRange, OwnerId)], pages: &PageRuns) -> Who {
    let owner = |(name, age_seconds): &(OwnerName, Option<u64>)| PageOwner {
        kind: name.kind,
        name: name.name.clone(),
        cgroup: name.cgroup.clone(),
        age_seconds: *age_seconds,
        pages: 0,
        blocks_2m: 0,
        alone_2m: 0,
        blocks_1g: 0,
        alone_1g: 0,
    };
    let mut owners: Vec<PageOwner> = list.owners().iter().map(owner).collect();
    let mut tallied = tally(&mut owners, held, pages);
    let mut order: Vec<usize> = (0..owners.len())
        .filter(|&at| owners[at].pages > 0)
        .collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(owners[at].pages), at));
    let place: HashMap<usize, u32> = order.iter().copied().zip(0..).collect();
    let ranked = |owner: &mut u32| *owner = place[&(*owner as usize)];
    for cell in &mut tallied.cells {
        cell.most.iter_mut().for_each(|(owner, _)| ranked(owner));
    }
    for (_, owners) in &mut tallied.blocks {
        owners.iter_mut().for_each(ranked);
    }
    Who {
        owners: order.iter().map(|&at| owners[at].clone()).collect(),
        cell_pages: tallied.cell_pages,
        cells: tallied.cells,
        blocks: tallied.blocks,
        ..Who::default()
    }
}

/// Where owners were met, by their numbers before they are ranked.
struct Tallied {
    cell_pages: u64,
    cells: Vec<OwnerCell>,
    blocks: Vec<(Pfn, Vec<u32>)>,
}

/// Fills in the counts of `owners` from ascending ranges of one owner each.
fn tally(owners: &mut [PageOwner], held: &[(PfnRange, OwnerId)], pages: &PageRuns) -> Tallied {
    let mut tally = Tally {
        owners,
        cells: Vec::new(),
        blocks: Vec::new(),
        holes: [PAGEBLOCK_ORDER, GIGA_ORDER].map(|order| Holes::new(pages, order)),
    };
    let span = pages.span();
    let cell_pages = span.pages().div_ceil(MAX_CELLS).next_power_of_two();
    let cell_order = Order(cell_pages.ilog2().max(u32::from(PAGEBLOCK_ORDER.0)) as u8);
    let mut sizes = [PAGEBLOCK_ORDER, GIGA_ORDER, cell_order].map(Blocks::new);
    for (range, owner) in held {
        tally.owners[*owner as usize].pages += range.pages();
        for (index, size) in sizes.iter_mut().enumerate() {
            let (first, end) = (range.start.0, range.end.0);
            for block in first >> size.order.0..=(end - 1) >> size.order.0 {
                let (from, to) = (block << size.order.0, (block + 1) << size.order.0);
                let inside = (to.min(end) - from.max(first)) as u32;
                size.add(block, *owner, inside, |done| tally.count(index, done));
            }
        }
    }
    for (index, size) in sizes.iter_mut().enumerate() {
        size.flush(|done| tally.count(index, done));
    }
    Tallied {
        cell_pages: cell_order.pages(),
        cells: tally.cells,
        blocks: tally.blocks,
    }
}

struct Tally<'a> {
    owners: &'a mut [PageOwner],
    cells: Vec<OwnerCell>,
    blocks: Vec<(Pfn, Vec<u32>)>,
    holes: [Holes; 2],
}

impl Tally<'_> {
    /// Counts a block of 2 MB, of 1 GB, or a cell.
    fn count(&mut self, index: usize, blocks: &Blocks) {
        if index == 2 {
            return self.cell(blocks);
        }
        if self.holes[index].contains(blocks.block) {
            return;
        }
        let alone = u64::from(blocks.pages.len() == 1);
        if index == 0 {
            let first = Pfn(blocks.block << blocks.order.0);
            self.blocks
                .push((first, blocks.pages.keys().copied().collect()));
        }
        for &owner in blocks.pages.keys() {
            let owner = &mut self.owners[owner as usize];
            let (held, spoiled) = match index {
                0 => (&mut owner.blocks_2m, &mut owner.alone_2m),
                _ => (&mut owner.blocks_1g, &mut owner.alone_1g),
            };
            *held += 1;
            *spoiled += alone;
        }
    }

    fn cell(&mut self, blocks: &Blocks) {
        let mut most: Vec<(u32, u32)> = blocks.pages.iter().map(|(&own, &n)| (own, n)).collect();
        most.sort_by_key(|&(owner, pages)| (std::cmp::Reverse(pages), owner));
        most.truncate(OWNERS_PER_CELL);
        let start_pfn = blocks.block << blocks.order.0;
        self.cells.push(OwnerCell { start_pfn, most });
    }
}

/// Blocks with a hole, ascending.
struct Holes {
    order: Order,
    span: PfnRange,
    blocks: Vec<(u64, u64)>,
}

impl Holes {
    fn new(pages: &PageRuns, order: Order) -> Holes {
        let holes = pages.iter().filter(|(_, class)| *class == PageClass::Hole);
        let blocks =
            holes.map(|(range, _)| (range.start.0 >> order.0, (range.end.0 - 1) >> order.0));
        Holes {
            order,
            span: pages.span(),
            blocks: blocks.collect(),
        }
    }

    fn contains(&self, block: u64) -> bool {
        let (from, to) = (block << self.order.0, (block + 1) << self.order.0);
        let after = self.blocks.partition_point(|&(_, last)| last < block);
        let inside = self
            .blocks
            .get(after)
            .is_some_and(|&(first, _)| first <= block);
        inside || from < self.span.start.0 || to > self.span.end.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunEncoder;
    use crate::who::OwnerKind;
    use ample_pfn::Layout;

    fn owner(name: &str) -> PageOwner {
        PageOwner {
            kind: OwnerKind::Slab,
            name: name.into(),
            cgroup: None,
            age_seconds: None,
            pages: 0,
            blocks_2m: 0,
            alone_2m: 0,
            blocks_1g: 0,
            alone_1g: 0,
        }
    }

    /// Two GBs, the second with a hole at its end: the counts are those of `ample_pfn::Culprit`.
    #[test]
    fn a_block_belongs_to_whoever_spoils_it_alone() {
        let mut encoder = RunEncoder::new(&Layout::single(Pfn(0), 2 << 18));
        encoder.push(Pfn(0), &vec![PageClass::Free; (2 << 18) - 8]);
        let pages = encoder.finish();
        let mut owners = [owner("a"), owner("b")];
        let range = |start, end| PfnRange::new(Pfn(start), Pfn(end));
        let held = [
            (range(0, 1), 0),
            (range(510, 515), 1),
            (range((1 << 18) + 1, (1 << 18) + 2), 0),
            (range((2 << 18) - 20, (2 << 18) - 10), 0),
        ];
        let Tallied {
            cell_pages,
            cells,
            blocks,
        } = tally(&mut owners, &held, &pages);
        let counts = owners.map(|o| (o.pages, o.blocks_2m, o.alone_2m, o.blocks_1g, o.alone_1g));
        assert_eq!(counts, [(12, 2, 1, 1, 0), (5, 2, 1, 1, 0)]);
        assert_eq!(cell_pages, 512);
        // The block with the hole does not count.
        let expected = [
            (Pfn(0), vec![0, 1]),
            (Pfn(512), vec![1]),
            (Pfn(1 << 18), vec![0]),
        ];
        assert_eq!(blocks, expected);
        assert_eq!(cells.len(), 4);
        assert_eq!(cells[0].most, [(1, 2), (0, 1)]);
        assert_eq!(cells[3].start_pfn, (2 << 18) - 512);
    }
}
