// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who has to go to win a block back: the sources that spoil a block alone.

use crate::{BlockTally, MetricsBuilder, Order, PAGEBLOCK_ORDER, Pfn, Source};
use serde::Serialize;

const GIGA_ORDER: Order = Order(18);

/// What one source of unmovable pages spoils, in aligned blocks without a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Culprit {
    /// Who asked for the pages.
    pub source: Source,
    /// 2 MB blocks that hold a page of it.
    pub blocks_2m: u64,
    /// 2 MB blocks that hold pages of no other source: they are won back when it goes.
    pub alone_2m: u64,
    /// 1 GB blocks that hold a page of it.
    pub blocks_1g: u64,
    /// 1 GB blocks that hold pages of no other source.
    pub alone_1g: u64,
}

impl MetricsBuilder {
    /// What each source spoils, in the order of [`Source::ALL`].
    pub fn culprits(&self) -> Vec<Culprit> {
        let (first, base, blocks) = self.blocks();
        let small = sources(first, base, blocks, PAGEBLOCK_ORDER);
        let giga = sources(first, base, blocks, GIGA_ORDER);
        let culprit = |(bit, &source): (usize, &Source)| {
            let own = 1u8 << bit;
            let with = |all: &[u8]| all.iter().filter(|&bits| bits & own != 0).count() as u64;
            let alone = |all: &[u8]| all.iter().filter(|&&bits| bits == own).count() as u64;
            Culprit {
                source,
                blocks_2m: with(&small),
                alone_2m: alone(&small),
                blocks_1g: with(&giga),
                alone_1g: alone(&giga),
            }
        };
        Source::ALL.iter().enumerate().map(culprit).collect()
    }
}

/// The sources in each aligned block of an order that has no hole: bit `i` stands for
/// `Source::ALL[i]`.
fn sources(first: Pfn, base: Order, blocks: &[BlockTally], order: Order) -> Vec<u8> {
    debug_assert!(base <= order, "base blocks are pageblocks or smaller");
    let together = 1usize << (order.0 - base.0);
    let start = (first.0 >> base.0) as usize;
    let unaligned = start.next_multiple_of(together) - start;
    let aligned = blocks.get(unaligned..).unwrap_or_default();
    let whole = aligned
        .chunks_exact(together)
        .filter(|block| block.iter().all(|part| part.hole == 0));
    whole
        .map(|block| block.iter().fold(0, |bits, part| bits | part.sources))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, PageClass, SizeList};

    #[test]
    fn a_block_belongs_to_whoever_spoils_it_alone() {
        // A block before the first whole GB, then two GBs, the second with a hole at its end.
        let start = (1 << 18) - 512;
        let layout = Layout::single(Pfn(start), 512 + (2 << 18));
        let mut pages = vec![PageClass::Free; 512 + (2 << 18) - 8];
        pages[0] = PageClass::Slab;
        pages[512] = PageClass::Slab;
        pages[512 + 511] = PageClass::Network;
        pages[1024] = PageClass::Network;
        pages[512 + (1 << 18)] = PageClass::PageTable;
        let mut builder = MetricsBuilder::new(&layout, &SizeList::standard());
        builder.push(Pfn(start), &pages);
        let of = |source| {
            let all = builder.culprits();
            let found = all.into_iter().find(|own| own.source == source);
            found.map(|own| (own.blocks_2m, own.alone_2m, own.blocks_1g, own.alone_1g))
        };
        assert_eq!(of(Source::Slab), Some((2, 1, 1, 0)));
        assert_eq!(of(Source::Networking), Some((2, 1, 1, 0)));
        assert_eq!(of(Source::PageTables), Some((1, 1, 0, 0)));
        assert_eq!(of(Source::Other), Some((0, 0, 0, 0)));
    }
}
