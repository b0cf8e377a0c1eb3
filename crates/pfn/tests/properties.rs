// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metrics against a second implementation that looks at every page of every block, written
//! straight from `docs/definitions.md` and sharing nothing with the crate's folding.

use ample_pfn::{
    Coverage, Definition, Layout, MetricsBuilder, Mobility, Order, PageClass, Pfn, PfnRange,
    SizeList, Zone,
};
use proptest::prelude::*;

const SIZES: [Order; 4] = [Order(0), Order(3), Order(9), Order(11)];

fn classes() -> impl Strategy<Value = Vec<PageClass>> {
    let class = (0u8..27).prop_map(|id| PageClass::from_u8(id).unwrap());
    let run = (class, 1usize..1500);
    proptest::collection::vec(run, 1..24).prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(class, pages)| std::iter::repeat_n(class, pages))
            .collect()
    })
}

/// All pages of the aligned block of `order` at `key`, holes where nothing was pushed.
fn block(start: u64, pages: &[PageClass], order: Order, key: u64) -> Vec<PageClass> {
    let first = key << order.0;
    (first..first + order.pages())
        .map(|pfn| {
            let index = pfn.checked_sub(start).map(|i| i as usize);
            index
                .and_then(|i| pages.get(i))
                .copied()
                .unwrap_or(PageClass::Hole)
        })
        .collect()
}

fn keys(start: u64, len: usize, order: Order) -> std::ops::RangeInclusive<u64> {
    start >> order.0..=(start + len as u64 - 1) >> order.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn folding_equals_looking_at_every_page(
        start in 0u64..5000,
        pages in classes(),
        cut in 1usize..4000,
    ) {
        let layout = Layout::single(Pfn(start), pages.len() as u64);
        let sizes = SizeList::new(SIZES.to_vec()).unwrap();
        let mut builder = MetricsBuilder::new(&layout, &sizes);
        for (index, chunk) in pages.chunks(cut).enumerate() {
            builder.push(Pfn(start + (index * cut) as u64), chunk);
        }
        let coverage = Coverage { ambiguous_free_pages: Some(0), owners: true };
        let metrics = builder.finish(&coverage);
        let mut by_runs = MetricsBuilder::new(&layout, &sizes);
        let mut pfn = Pfn(start);
        for run in pages.chunk_by(|a, b| a == b) {
            let end = Pfn(pfn.0 + run.len() as u64);
            by_runs.push_run(PfnRange::new(pfn, end), run[0]);
            pfn = end;
        }
        prop_assert_eq!(&by_runs.finish(&coverage), &metrics);
        let present = pages.iter().filter(|&&c| c != PageClass::Hole).count() as u64;
        let free = pages.iter().filter(|c| c.is_free()).count() as u64;
        prop_assert_eq!(metrics.total.memory_bytes, present * 4096);
        prop_assert_eq!(metrics.total.free_bytes, free * 4096);
        for (index, order) in SIZES.into_iter().enumerate() {
            let blocks: Vec<Vec<PageClass>> = keys(start, pages.len(), order)
                .map(|key| block(start, &pages, order, key))
                .filter(|b| b.iter().any(|&c| c != PageClass::Hole))
                .collect();
            let size = &metrics.total.sizes[index];
            prop_assert_eq!(size.blocks, blocks.len() as u64);
            let all_free = blocks.iter().filter(|b| b.iter().all(|c| c.is_mergeable_free()));
            prop_assert_eq!(size.free_blocks, all_free.count() as u64);
            for definition in Definition::ALL {
                let held = |b: &&Vec<PageClass>| {
                    b.iter().any(|c| c.verdict(definition) != Mobility::Movable)
                };
                let got = &metrics.total.definition(definition).unwrap().sizes[index];
                let unmovable = blocks.iter().filter(held).count() as u64;
                prop_assert_eq!(got.unmovable_blocks.high, unmovable);
                prop_assert_eq!(got.unmovable_blocks.low, unmovable, "budget 0 leaves no doubt");
                let formable = blocks.iter().filter(|b| !b.contains(&PageClass::Hole));
                let formable = formable.filter(|b| !held(b)).count() as u64;
                prop_assert_eq!(got.potential_blocks.low, formable);
            }
        }
    }

    /// The lower bound is the minimum over every way of declaring `budget` bare pages free.
    #[test]
    fn interval_is_tight(bare in proptest::collection::vec(0usize..4, 1..8), budget in 0u64..12) {
        let mut pages = vec![PageClass::Anon; bare.len() * 512];
        for (index, &count) in bare.iter().enumerate() {
            pages[index * 512..index * 512 + count].fill(PageClass::Bare);
        }
        let layout = Layout::single(Pfn(0), pages.len() as u64);
        let mut builder = MetricsBuilder::new(&layout, &SizeList::standard());
        builder.push(Pfn(0), &pages);
        let coverage = Coverage { ambiguous_free_pages: Some(budget), owners: false };
        let metrics = builder.finish(&coverage);
        let best = (0u32..1 << bare.len())
            .filter(|set| {
                let cost: usize =
                    bare.iter().enumerate().map(|(i, &n)| n * (set >> i & 1) as usize).sum();
                cost as u64 <= budget
            })
            .map(|set| {
                let left = |&(i, &n): &(usize, &usize)| n > 0 && set >> i & 1 == 0;
                bare.iter().enumerate().filter(left).count()
            })
            .min()
            .unwrap();
        let got = metrics.total.k.sizes[0].unmovable_blocks;
        prop_assert_eq!(got.low, best as u64);
        prop_assert_eq!(got.high, bare.iter().filter(|&&n| n > 0).count() as u64);
        prop_assert!(metrics.total.o.is_none());
    }

    /// Nodes and zones split the machine: their sums are the total's.
    #[test]
    fn groups_add_up(pages in classes(), cut in 1u64..20) {
        let len = pages.len() as u64;
        let middle = (cut * 512).min(len);
        let zone = |node, name: &str, from, to| Zone {
            node,
            name: name.into(),
            span: PfnRange::new(Pfn(from), Pfn(to)),
        };
        let zones = vec![zone(0, "DMA32", 0, middle), zone(1, "Normal", middle, len)];
        let layout = Layout::new(zones).unwrap();
        let mut builder = MetricsBuilder::new(&layout, &SizeList::standard());
        builder.push(Pfn(0), &pages);
        let m = builder.finish(&Coverage::exact());
        for groups in [&m.nodes, &m.zones] {
            let bytes: u64 = groups.iter().map(|g| g.memory_bytes).sum();
            prop_assert_eq!(bytes, m.total.memory_bytes);
            let blocks: u64 = groups.iter().map(|g| g.sizes[0].free_blocks).sum();
            prop_assert_eq!(blocks, m.total.sizes[0].free_blocks);
            let held: u64 = groups.iter().map(|g| g.k.unmovable_pages.high).sum();
            prop_assert_eq!(held, m.total.k.unmovable_pages.high);
        }
    }
}

/// The worked examples of `docs/definitions.md`, number for number.
#[test]
fn worked_examples_of_the_specification() {
    // Four 2 MB blocks: free; movable with 12 free; 500 anon + 2 slab + 10 free; 3 bare + anon.
    let mut pages = vec![PageClass::Free; 512];
    pages.extend([PageClass::Anon; 500]);
    pages.extend([PageClass::Free; 12]);
    pages.extend([PageClass::Anon; 500]);
    pages.extend([PageClass::Slab; 2]);
    pages.extend([PageClass::Free; 10]);
    pages.extend([PageClass::Bare; 3]);
    pages.extend([PageClass::Anon; 509]);
    let layout = Layout::single(Pfn(0), 2048);
    let mut builder = MetricsBuilder::new(&layout, &SizeList::standard());
    builder.push(Pfn(0), &pages);
    let m = builder
        .finish(&Coverage {
            ambiguous_free_pages: Some(3),
            owners: false,
        })
        .total;
    assert_eq!(m.sizes[0].free_contiguity_ratio, Some(512.0 / 534.0));
    assert_eq!(m.sizes[1].free_contiguity_ratio, Some(0.0));
    let k = &m.k.sizes[0];
    assert_eq!(
        (k.unmovable_ratio.low, k.unmovable_ratio.high),
        (Some(0.25), Some(0.5))
    );
    assert_eq!(
        (k.potential_ratio.low, k.potential_ratio.high),
        (Some(0.5), Some(0.75))
    );
    assert_eq!(m.p.sizes[0].unmovable_ratio.low, Some(0.5));
    assert_eq!(m.k.sizes[1].potential_ratio.low, Some(0.5));
    assert_eq!(m.k.internal_fragmentation_ratio.high, Some(10.0 / 512.0));
    assert_eq!(m.k.internal_fragmentation_ratio.low, Some(10.0 / 1024.0));
    assert_eq!(m.k.unmovable_pages.low, 2);
    assert_eq!(m.k.unmovable_pages.high, 5);
}
