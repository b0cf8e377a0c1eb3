// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lines, pages and tables a strided chain uses.
//!
//! Node `i` is in page `i · stride`. Its line moves on by one from node to node and by one more
//! every 32 nodes, round the 64 places of a page: lines are spread evenly over the sets of a
//! first-level cache, and in frames in order over those of a larger one. A chain visits all nodes
//! in a fixed order, round and round: of a set with more pages than ways, LRU has lost each page
//! when the chain comes back to it. At strides of whole multiples of its sets all pages are in one
//! set of a TLB: a few nodes then miss it, all of whose lines and entries are near.

use ample_kit::random::SplitMix64;

/// Lines of a page.
const LINES: u64 = 64;

/// A strided chain without its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strided {
    pub(super) nodes: u64,
    /// 4 KB pages from one node to the next.
    pub(super) stride_pages: u64,
    /// Lines of a node that are loaded one after the other, as far from each other as they can be.
    pub(super) lines: u64,
}

impl Strided {
    /// Bytes from the first page to the last.
    pub(super) fn bytes(&self) -> u64 {
        self.nodes * self.stride_pages * 4096
    }

    /// Offset of a line of a node.
    fn offset(&self, node: u64, line: u64) -> u64 {
        let first = node + node / 32;
        node * self.stride_pages * 4096 + (first + line * (LINES / self.lines)) % LINES * 64
    }

    /// Offsets of the first line of each node, in order of address.
    pub(super) fn places(&self) -> Vec<u64> {
        (0..self.nodes).map(|node| self.offset(node, 0)).collect()
    }

    /// All offsets in the order in which the chain visits them: nodes in no order, so that no
    /// prefetcher knows the next, the lines of a node one after the other.
    pub(super) fn chain(&self, seed: u64) -> Vec<u64> {
        let mut random = SplitMix64::scattered(seed);
        let mut nodes: Vec<u64> = (0..self.nodes).collect();
        for at in (1..nodes.len()).rev() {
            nodes.swap(at, random.below(at as u64 + 1) as usize);
        }
        let lines = |&node: &u64| (0..self.lines).map(move |line| self.offset(node, line));
        nodes.iter().flat_map(lines).collect()
    }

    /// Tables of a level that the chain goes through: of level 1 those of 2 MB each.
    pub(super) fn tables(&self, level: u8) -> u64 {
        let shift = 9 * u32::from(level);
        let pages = (0..self.nodes).map(|node| (node * self.stride_pages) >> shift);
        let mut all: Vec<u64> = pages.collect();
        all.dedup();
        all.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_machine::MachineConfig;
    use ample_translate::{
        Engine, Geometry, IdealFrames, Intent, NoMemory, PageSize, PwcKind, TranslationStats,
        schemes,
    };
    use std::collections::{BTreeMap, BTreeSet};

    const BASE: u64 = 1 << 44;

    /// What an LRU array misses of pages that are visited in a fixed order, round and round: all
    /// those of each set that has more of them than ways.
    fn missed(pages: impl Iterator<Item = u64>, shape: Geometry) -> Vec<u64> {
        let sets = u64::from(shape.entries / shape.ways);
        let mut by_set: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for page in pages {
            by_set.entry(page % sets).or_default().push(page);
        }
        let ways = shape.ways as usize;
        let mut lost: Vec<u64> = by_set
            .into_values()
            .filter(|set| set.len() > ways)
            .flatten()
            .collect();
        lost.sort_unstable();
        lost
    }

    /// An engine of the hardware with the nodes' pages mapped; counts the fourth of four rounds.
    fn fourth_round(machine: &MachineConfig, chain: &Strided, order: &[u64]) -> TranslationStats {
        let frames = Box::new(IdealFrames::new(1 << 34));
        let mut engine = Engine::new(&machine.mmu, schemes::paging(), frames, 1).unwrap();
        for place in chain.places() {
            engine
                .premap((BASE + place) & !0xfff, 4096, PageSize::K4)
                .unwrap();
        }
        for round in 0..4 {
            if round == 3 {
                engine.mmu.stats = TranslationStats::default();
            }
            for offset in order {
                engine
                    .translate(BASE + offset, Intent::Read, 0, &mut NoMemory)
                    .unwrap();
            }
        }
        engine.mmu.stats.clone()
    }

    fn chain(nodes: u64, stride_pages: u64, lines: u64) -> Strided {
        Strided {
            nodes,
            stride_pages,
            lines,
        }
    }

    /// Both levels of both presets' TLBs, at strides that use all of their sets or a part.
    #[test]
    fn tlbs_miss_what_their_geometry_says() {
        for preset in ["zen4", "sapphire-rapids"] {
            let machine = MachineConfig::preset(preset).unwrap();
            let (first, second) = (machine.mmu.l1d[0].geometry, machine.mmu.l2[0].geometry);
            for nodes in [64, 72, 73, 96, 97, 1500, 2048, 2049, 3072, 3073, 4608] {
                for (stride, lines) in [(1, 1), (3, 1), (16, 1), (512, 1), (513, 1), (1, 8)] {
                    let chain = chain(nodes, stride, lines);
                    let stats = fourth_round(&machine, &chain, &chain.chain(nodes));
                    let pages = (0..nodes).map(|node| (BASE >> 12) + node * stride);
                    let left_first = missed(pages, first);
                    let walked = missed(left_first.iter().copied(), second);
                    let case = format!("{preset}, {chain:?}");
                    assert_eq!(stats.accesses, nodes * lines, "{case}");
                    assert_eq!(stats.l1d_misses, left_first.len() as u64, "{case}");
                    assert_eq!(stats.walks_data, walked.len() as u64, "{case}");
                    let hits = left_first.len() - walked.len();
                    assert_eq!(stats.l2_hits, hits as u64, "{case}");
                }
            }
        }
    }

    /// One cache for entries of all levels: while it has room for all of them each walk reads its
    /// leaf alone; beyond, in order of address, each table costs one more reference a round.
    #[test]
    fn walk_caches_miss_what_their_reach_says() {
        let mut machine = MachineConfig::preset("zen4").unwrap();
        for entries in [16, 64] {
            machine.mmu.pwc = PwcKind::Unified(Geometry::full(entries));
            for stride in [1, 5, 9, 17, 129, 513] {
                let chain = chain(4608, stride, 1);
                let tables = chain.tables(1);
                let above = chain.tables(2) + chain.tables(3);
                let stats = fourth_round(&machine, &chain, &chain.places());
                let case = format!("{entries} entries, {chain:?}");
                assert_eq!(stats.walks_data, 4608, "{case}");
                assert_eq!(stats.refs_by_level[1], 4608, "{case}");
                let fits = tables + above <= u64::from(entries);
                assert_eq!(
                    stats.refs_by_level[2],
                    if fits { 0 } else { tables },
                    "{case}"
                );
                assert_eq!(stats.refs_by_level[4], 0, "{case}");
            }
        }
    }

    #[test]
    fn a_chain_visits_every_line_once_and_lines_are_spread_over_all_sets() {
        let strided = chain(4608, 3, 1);
        let mut all = strided.chain(7);
        assert_ne!(all, strided.places());
        let mut sets = [0; 64];
        for offset in &all {
            sets[(offset / 64 % 64) as usize] += 1;
        }
        assert!(
            sets.iter().all(|&nodes| (68..=76).contains(&nodes)),
            "{sets:?}"
        );
        // In frames in order no two of 2,048 nodes share a set of 2,048.
        let set = |offset: &u64| offset / 64 % 2048;
        let sets: BTreeSet<u64> = chain(2048, 5, 1).places().iter().map(set).collect();
        assert_eq!(sets.len(), 2048);
        all.sort_unstable();
        assert_eq!(all, strided.places());
        let pairs = chain(100, 2, 8).chain(3);
        assert_eq!(pairs.len(), 800);
        assert!(
            pairs
                .chunks(8)
                .all(|node| node.iter().all(|at| at >> 12 == node[0] >> 12))
        );
        assert_eq!((strided.tables(1), strided.tables(2)), (27, 1));
    }
}
