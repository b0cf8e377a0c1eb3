// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graph500: a Kronecker graph, and breadth-first search from random roots. Host arrays hold 32-bit
//! vertices; addresses are those of 64-bit ones, as in the reference code's compressed-row form.
//!
//! The first millions of accesses of a search over a large graph go to the long rows of its hubs
//! and tell little of the rest. So a search runs on the host first, and its accesses are those of
//! stretches spread evenly over all of it.

use super::kronecker::{EDGE_FACTOR, compress};
use super::micro::{IMAGE_STACK_BYTES, image_of};
use crate::{Access, Program, Recorder, Region, RegionLayout};
use ample_kit::random::SplitMix64;

/// Entries of a graph whose searches are recorded whole.
const WHOLE_ENTRIES: u64 = 1 << 26;
/// Stretches of a search over a larger one, a power of two, and the edges of each.
const STRETCHES: u64 = 1 << 10;
const STRETCH_EDGES: u64 = 1 << 13;

const CODE_BYTES: u64 = 256 << 10;
const DATA_BYTES: u64 = 64 << 10;

/// The program; the graph is built when it is made.
pub struct Graph500 {
    layout: RegionLayout,
    offsets: Vec<u64>,
    targets: Vec<u32>,
    base: Bases,
    rng: SplitMix64,
    /// The search that is being recorded, and the stretch that comes next.
    search: Search,
    next: usize,
}

/// A search that has been run.
#[derive(Default)]
struct Search {
    /// Vertices as they were found, the root first: the queue.
    order: Vec<u32>,
    /// In the order in which they are recorded.
    stretches: Vec<Stretch>,
}

/// A part of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    /// Place in the queue of its first vertex.
    at: usize,
    /// Edges of that vertex which come before the stretch: the row of a hub is longer than one.
    skipped: usize,
    /// Vertices found before it.
    found: usize,
    /// Edges that are looked at.
    edges: u64,
}

#[derive(Clone, Copy)]
struct Bases {
    offsets: u64,
    targets: u64,
    parent: u64,
    queue: u64,
}

impl Graph500 {
    /// A graph of `1 << scale` vertices and 16 times as many edges.
    pub fn new(scale: u32, seed: u64) -> Self {
        Graph500::with_edges(scale, EDGE_FACTOR << scale, seed)
    }

    /// A graph of about `bytes` bytes: the number of vertices is that power of two with which
    /// the edges a vertex are nearest to those of the benchmark.
    pub(super) fn of_bytes(bytes: u64, seed: u64) -> Self {
        let bytes = bytes.saturating_sub(CODE_BYTES + DATA_BYTES + IMAGE_STACK_BYTES);
        // Each vertex has two words in the rows, one in the tree and one in the queue; each edge
        // has a word at both ends.
        let whole = |scale: u32| (32 + 16 * EDGE_FACTOR) << scale;
        let scales = 8..32u32;
        let apart = |scale: &u32| whole(*scale).max(bytes) * 1000 / whole(*scale).min(bytes).max(1);
        let scale = scales.min_by_key(apart).unwrap_or(8);
        let edges = bytes.saturating_sub(32 << scale) / 16;
        Graph500::with_edges(scale, edges.max(1), seed)
    }

    fn with_edges(scale: u32, edges: u64, seed: u64) -> Self {
        let vertices = 1u64 << scale;
        let (offsets, targets) = compress(vertices, edges, scale, seed);
        let mut layout = RegionLayout::new();
        let base = Bases {
            offsets: layout.anonymous("xoff", (vertices + 1) * 16),
            targets: layout.anonymous("xadj", targets.len() as u64 * 8),
            parent: layout.anonymous("bfs_tree", vertices * 8),
            queue: layout.anonymous("vlist", vertices * 8),
        };
        image_of(&mut layout, CODE_BYTES, DATA_BYTES);
        Graph500 {
            layout,
            offsets,
            targets,
            base,
            rng: SplitMix64::scattered(seed ^ 1),
            search: Search::default(),
            next: 0,
        }
    }

    /// Entries of a vertex's row.
    fn row(&self, v: u32) -> std::ops::Range<usize> {
        self.offsets[v as usize] as usize..self.offsets[v as usize + 1] as usize
    }

    /// Runs a search from a random vertex that has edges.
    fn search(&mut self) -> Search {
        let vertices = self.offsets.len() as u64 - 1;
        let root = loop {
            let v = self.rng.below(vertices) as u32;
            if !self.row(v).is_empty() {
                break v;
            }
        };
        let mut seen = vec![0u64; vertices.div_ceil(64) as usize];
        let mut order = Vec::with_capacity(vertices as usize);
        let mut meet = |v: u32, order: &mut Vec<u32>| {
            let (word, bit) = (v as usize / 64, 1 << (v % 64));
            if seen[word] & bit == 0 {
                seen[word] |= bit;
                order.push(v);
            }
        };
        meet(root, &mut order);
        // Every so many edges a stretch may begin.
        let entries = self.targets.len() as u64;
        let (apart, length) = match entries > WHOLE_ENTRIES {
            true => (entries / STRETCHES, STRETCH_EDGES),
            false => (u64::MAX, u64::MAX),
        };
        let (mut stretches, mut edges, mut next) = (Vec::new(), 0u64, 0u64);
        let mut at = 0;
        while at < order.len() {
            let row = self.row(order[at]);
            let end = edges + row.len() as u64;
            let mut from = row.start;
            while next < end {
                let skipped = (next - edges) as usize;
                for k in from..row.start + skipped {
                    meet(self.targets[k], &mut order);
                }
                from = row.start + skipped;
                stretches.push(Stretch {
                    at,
                    skipped,
                    found: order.len(),
                    edges: length,
                });
                next = next.saturating_add(apart);
            }
            for k in from..row.end {
                meet(self.targets[k], &mut order);
            }
            edges = end;
            at += 1;
        }
        Search {
            order,
            stretches: spread(stretches),
        }
    }

    /// The accesses of a stretch. Vertices are found in the order of the queue, so the next one of
    /// it is found where it is first met.
    fn record(&self, stretch: Stretch, recorder: &mut Recorder<'_>) {
        let (base, order) = (self.base, &self.search.order);
        let Stretch {
            mut at,
            skipped,
            mut found,
            edges,
        } = stretch;
        let mut looked = 0;
        while at < order.len() && looked < edges && !recorder.done() {
            let v = order[at];
            let mut row = self.row(v);
            if looked == 0 && skipped > 0 {
                row.start += skipped;
            } else {
                let entry = base.offsets + u64::from(v) * 16;
                recorder.push(Access::load(base.queue + at as u64 * 8, 2));
                recorder.push(Access::load(entry, 1).after(1));
                recorder.push(Access::load(entry + 8, 0).after(2));
            }
            row.end = row
                .end
                .min(row.start.saturating_add((edges - looked) as usize));
            looked += row.len() as u64;
            for k in row {
                let w = self.targets[k];
                let parent = base.parent + u64::from(w) * 8;
                recorder.push(Access::load(base.targets + k as u64 * 8, 2));
                recorder.push(Access::load(parent, 2).after(1));
                if order.get(found) == Some(&w) {
                    recorder.push(Access::store(parent, 1).after(2));
                    recorder.push(Access::store(base.queue + found as u64 * 8, 1));
                    found += 1;
                }
            }
            at += 1;
        }
    }
}

/// Stretches in an order of which every beginning is spread evenly over all of them: their numbers
/// with the bits reversed.
fn spread(stretches: Vec<Stretch>) -> Vec<Stretch> {
    let bits = stretches.len().next_power_of_two().trailing_zeros();
    let places = (0..1usize << bits).map(|n| n.reverse_bits() >> (usize::BITS - bits.max(1)));
    let some = places.filter_map(|place| stretches.get(place).copied());
    some.collect()
}

impl Program for Graph500 {
    fn name(&self) -> &str {
        "graph500"
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    /// One stretch of a search.
    fn step(&mut self, recorder: &mut Recorder<'_>) {
        if self.next == self.search.stretches.len() {
            self.search = self.search();
            self.next = 0;
        }
        self.record(self.search.stretches[self.next], recorder);
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AccessKind;

    /// The accesses of a whole search are those of a search: parents that the stores name make a
    /// tree by the benchmark's rules. Its edges are edges of the graph, each level is one deeper
    /// than its parent, and every edge of the graph joins vertices at most one level apart.
    #[test]
    fn the_tree_that_is_stored_is_valid() {
        let mut graph = Graph500::new(10, 3);
        for _ in 0..3 {
            graph.search = graph.search();
            assert_eq!(graph.search.stretches.len(), 1);
            let mut seen = Vec::new();
            let mut keep = |block: &[Access]| {
                seen.extend_from_slice(block);
                true
            };
            let mut recorder = Recorder::new(&mut keep, u64::MAX);
            graph.record(graph.search.stretches[0], &mut recorder);
            recorder.flush();
            let root = graph.search.order[0];
            let mut level = vec![u32::MAX; 1 << 10];
            level[root as usize] = 0;
            let mut at = root;
            for access in &seen {
                let vertex = |base: u64, bytes: u64| {
                    let place = access.va.checked_sub(base)? / bytes;
                    (place < 1 << 10).then_some(place as usize)
                };
                if let Some(v) = vertex(graph.base.offsets, 16) {
                    at = v as u32;
                } else if let (AccessKind::Store, Some(w)) =
                    (access.kind, vertex(graph.base.parent, 8))
                {
                    assert_eq!(level[w], u32::MAX, "{w} is found twice");
                    assert!(graph.targets[graph.row(at)].contains(&(w as u32)));
                    level[w] = level[at as usize] + 1;
                }
            }
            for v in 0..1u32 << 10 {
                for &w in &graph.targets[graph.row(v)] {
                    let (a, b) = (level[v as usize], level[w as usize]);
                    assert!(a == b || a.abs_diff(b) == 1, "{v} at {a}, {w} at {b}");
                }
            }
        }
    }

    /// Stretches are cut out of the whole search, from the middle of rows too, and any beginning of
    /// them is spread evenly.
    #[test]
    fn stretches_are_parts_of_the_search() {
        let mut graph = Graph500::new(12, 5);
        graph.search = graph.search();
        let accesses = |stretch: Stretch| {
            let mut seen = Vec::new();
            let mut keep = |block: &[Access]| {
                seen.extend_from_slice(block);
                true
            };
            let mut recorder = Recorder::new(&mut keep, u64::MAX);
            graph.record(stretch, &mut recorder);
            recorder.flush();
            seen
        };
        let whole = accesses(graph.search.stretches[0]);
        let mut found = 1;
        let mut parts = Vec::new();
        for at in 0..graph.search.order.len() {
            let row = graph.row(graph.search.order[at]);
            let half = row.len() / 2;
            for (skipped, edges) in [(0, half), (half, row.len() - half)] {
                if edges == 0 {
                    continue;
                }
                let part = accesses(Stretch {
                    at,
                    skipped,
                    found,
                    edges: edges as u64,
                });
                found += part.iter().filter(|a| a.kind == AccessKind::Store).count() / 2;
                parts.extend(part);
            }
        }
        let plain = |seen: &[Access]| -> Vec<u64> {
            let targets = graph.base.targets..graph.base.parent + (8 << 12);
            let inside = seen.iter().filter(|access| targets.contains(&access.va));
            inside.map(|access| access.va).collect()
        };
        assert_eq!(plain(&parts), plain(&whole));
        let of = |at: usize| Stretch {
            at,
            skipped: 0,
            found: 0,
            edges: 1,
        };
        let order: Vec<usize> = spread((0..8).map(of).collect())
            .iter()
            .map(|s| s.at)
            .collect();
        assert_eq!(order, [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(spread(vec![of(3)]), [of(3)]);
        assert_eq!(spread((0..5).map(of).collect()).len(), 5);
    }
}
