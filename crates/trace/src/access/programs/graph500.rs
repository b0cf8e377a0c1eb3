// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graph500: a Kronecker graph, breadth-first search from random roots, and the validation of
//! each tree. Host arrays hold 32-bit vertices; addresses are those of 64-bit ones, as in the
//! reference code's compressed-row form.

use super::micro::image_of;
use crate::{Access, Program, Recorder, Region, RegionLayout};
use ample_kit::random::{SplitMix64, mix64};

/// The benchmark's Kronecker initiator and edge factor.
const A: f64 = 0.57;
const B: f64 = 0.19;
const C: f64 = 0.19;
const EDGE_FACTOR: u64 = 16;
const NO_PARENT: u32 = u32::MAX;

/// The program; the graph is built when it is made.
pub struct Graph500 {
    layout: RegionLayout,
    offsets: Vec<u64>,
    targets: Vec<u32>,
    base: Bases,
    rng: SplitMix64,
    /// Trees built and validated so far.
    pub validated_trees: u64,
}

#[derive(Clone, Copy)]
struct Bases {
    offsets: u64,
    targets: u64,
    parent: u64,
    queue: u64,
}

impl Graph500 {
    /// A graph of `1 << scale` vertices.
    pub fn new(scale: u32, seed: u64) -> Self {
        let vertices = 1u64 << scale;
        let (offsets, targets) = compress(vertices, scale, seed);
        let mut layout = RegionLayout::new();
        let base = Bases {
            offsets: layout.anonymous("xoff", (vertices + 1) * 16),
            targets: layout.anonymous("xadj", targets.len() as u64 * 8),
            parent: layout.anonymous("bfs_tree", vertices * 8),
            queue: layout.anonymous("vlist", vertices * 8),
        };
        image_of(&mut layout, 256 << 10, 64 << 10);
        Graph500 {
            layout,
            offsets,
            targets,
            base,
            rng: SplitMix64::scattered(seed ^ 1),
            validated_trees: 0,
        }
    }

    /// The benchmark's rules: the tree's edges are graph edges, each level one deeper than its
    /// parent, and every edge of the graph joins vertices at most one level apart.
    fn is_valid(&self, root: usize, parent: &[u32], order: &[u32]) -> bool {
        let mut level = vec![u32::MAX; parent.len()];
        level[root] = 0;
        for &v in &order[1..] {
            let up = parent[v as usize] as usize;
            let row = self.offsets[up] as usize..self.offsets[up + 1] as usize;
            if level[up] == u32::MAX || !self.targets[row].contains(&v) {
                return false;
            }
            level[v as usize] = level[up] + 1;
        }
        (0..parent.len()).all(|v| {
            let row = self.offsets[v] as usize..self.offsets[v + 1] as usize;
            self.targets[row].iter().all(|&w| {
                let (a, b) = (level[v], level[w as usize]);
                a == b || (a != u32::MAX && b != u32::MAX && a.abs_diff(b) == 1)
            })
        })
    }
}

/// Generates the edges twice (the generator is a function of the edge's number) and compresses
/// them without keeping an edge list.
fn compress(vertices: u64, scale: u32, seed: u64) -> (Vec<u64>, Vec<u32>) {
    let edges = vertices * EDGE_FACTOR;
    let mut offsets = vec![0u64; vertices as usize + 1];
    for number in 0..edges {
        let (a, b) = edge(number, scale, seed);
        if a != b {
            offsets[a as usize + 1] += 1;
            offsets[b as usize + 1] += 1;
        }
    }
    for v in 0..vertices as usize {
        offsets[v + 1] += offsets[v];
    }
    let mut fill: Vec<u64> = offsets[..vertices as usize].to_vec();
    let mut targets = vec![0u32; offsets[vertices as usize] as usize];
    for number in 0..edges {
        let (a, b) = edge(number, scale, seed);
        if a != b {
            for (from, to) in [(a, b), (b, a)] {
                targets[fill[from as usize] as usize] = to as u32;
                fill[from as usize] += 1;
            }
        }
    }
    (offsets, targets)
}

/// Edge `number` of the Kronecker graph, its vertices scrambled.
fn edge(number: u64, scale: u32, seed: u64) -> (u64, u64) {
    let (mut a, mut b) = (0u64, 0u64);
    let mut bits = 0u64;
    for level in 0..scale {
        if level % 4 == 0 {
            bits = mix64(seed ^ number << 6 ^ u64::from(level));
        }
        let u = (bits & 0xffff) as f64 / 65536.0;
        bits >>= 16;
        let (high_a, high_b) = match u {
            u if u < A => (0, 0),
            u if u < A + B => (0, 1),
            u if u < A + B + C => (1, 0),
            _ => (1, 1),
        };
        a = a << 1 | high_a;
        b = b << 1 | high_b;
    }
    (scramble(a, scale), scramble(b, scale))
}

/// A bijection of `0..1 << scale`, so that a vertex's number says nothing about its degree.
fn scramble(v: u64, scale: u32) -> u64 {
    let mask = (1u64 << scale) - 1;
    let half = scale / 2 + 1;
    let mut v = v;
    for _ in 0..2 {
        v = v.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        v ^= v >> half;
    }
    v
}

impl Program for Graph500 {
    fn name(&self) -> &str {
        "graph500"
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    /// One search, and the check of its tree.
    fn step(&mut self, recorder: &mut Recorder<'_>) {
        let vertices = self.offsets.len() - 1;
        let root = loop {
            let v = self.rng.below(vertices as u64) as usize;
            if self.offsets[v] != self.offsets[v + 1] {
                break v;
            }
        };
        let mut parent = vec![NO_PARENT; vertices];
        let mut queue: Vec<u32> = Vec::with_capacity(vertices);
        parent[root] = root as u32;
        queue.push(root as u32);
        let mut at = 0;
        let base = self.base;
        while at < queue.len() {
            if recorder.done() {
                return;
            }
            let v = queue[at] as usize;
            recorder.push(Access::load(base.queue + at as u64 * 8, 2));
            recorder.push(Access::load(base.offsets + v as u64 * 16, 1).after(1));
            recorder.push(Access::load(base.offsets + v as u64 * 16 + 8, 0).after(2));
            for k in self.offsets[v]..self.offsets[v + 1] {
                let w = self.targets[k as usize] as usize;
                recorder.push(Access::load(base.targets + k * 8, 2));
                recorder.push(Access::load(base.parent + w as u64 * 8, 2).after(1));
                if parent[w] == NO_PARENT {
                    parent[w] = v as u32;
                    recorder.push(Access::store(base.parent + w as u64 * 8, 1).after(2));
                    recorder.push(Access::store(base.queue + queue.len() as u64 * 8, 1));
                    queue.push(w as u32);
                }
            }
            at += 1;
        }
        assert!(
            self.is_valid(root, &parent, &queue),
            "a search tree is not valid"
        );
        self.validated_trees += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_valid_and_vertices_scrambled_one_to_one() {
        let mut seen = vec![false; 1 << 10];
        (0..1 << 10).for_each(|v| seen[scramble(v, 10) as usize] = true);
        assert!(seen.iter().all(|&s| s));
        let mut graph = Graph500::new(10, 3);
        let mut drop_all = |_: &[Access]| true;
        let mut recorder = Recorder::new(&mut drop_all, 400_000);
        graph.run(&mut recorder);
        assert!(
            graph.validated_trees >= 3,
            "{} trees",
            graph.validated_trees
        );
    }
}
