// SPDX-License-Identifier: MIT OR Apache-2.0
//! Micro-benchmarks with closed-form behaviour: GUPS, pointer chase, stream.

use crate::{Access, Backing, Program, Recorder, Region, RegionLayout};
use ample_kit::random::{SplitMix64, mix64};

/// HPC Challenge RandomAccess: `table[r & mask] ^= r` for a stream of random `r`, 6 instructions
/// an update. Only addresses matter, so that any footprint costs no host memory.
pub struct Gups {
    layout: RegionLayout,
    base: u64,
    words: u64,
    rng: SplitMix64,
    read_only: bool,
}

/// Instructions besides the load and the store in one update of the table.
const GUPS_GAP: u16 = 4;

impl Gups {
    /// A table of `bytes` bytes, read and written.
    pub fn new(bytes: u64, seed: u64) -> Self {
        let mut layout = RegionLayout::new();
        let base = layout.anonymous("table", bytes);
        image_of(&mut layout, 64 << 10, 64 << 10);
        Gups {
            layout,
            base,
            words: bytes / 8,
            rng: SplitMix64::scattered(seed),
            read_only: false,
        }
    }

    /// The same with one load an update and no store: every access is to a random place.
    pub fn reads(bytes: u64, seed: u64) -> Self {
        Gups {
            read_only: true,
            ..Gups::new(bytes, seed)
        }
    }
}

/// Bytes of the stack that every program has.
pub(super) const IMAGE_STACK_BYTES: u64 = 128 << 10;

/// Code, static data and one stack, as every program has them.
pub(crate) fn image_of(layout: &mut RegionLayout, code_bytes: u64, static_bytes: u64) {
    layout.image("text", code_bytes, Backing::Code);
    layout.image("data", static_bytes, Backing::Static);
    layout.stack("stack", IMAGE_STACK_BYTES);
}

impl Program for Gups {
    fn name(&self) -> &str {
        "gups"
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    fn step(&mut self, recorder: &mut Recorder<'_>) {
        for _ in 0..256 {
            let va = self.base + self.rng.below(self.words) * 8;
            let load = Access::load(va, GUPS_GAP);
            match self.read_only {
                true => recorder.push(load),
                false => recorder.push_all([load, Access::store(va, 0)]),
            }
        }
    }
}

/// A pointer chase over one random cycle through all nodes: each load's address is the value of
/// the load before it.
pub struct PointerChase {
    layout: RegionLayout,
    base: u64,
    stride_bytes: u64,
    next: Successor,
    at: u64,
    gap: u16,
    /// Whether the lines of the nodes are spread over the sets of caches.
    spread: bool,
}

/// How the next node follows: one cycle through `0..n`, either a shuffled table or, for chains too
/// long to store, the full-period linear congruential generator over the next power of two; or
/// any node, uniformly.
enum Successor {
    Table(Vec<u32>),
    Lcg {
        nodes: u64,
        mask: u64,
        multiplier: u64,
        increment: u64,
    },
    Uniform {
        nodes: u64,
        rng: SplitMix64,
    },
}

impl PointerChase {
    /// Dependent loads of uniformly random nodes: of `W` pages, a TLB of `E` entries misses
    /// 1 − E/W whatever it replaces.
    pub fn uniform(bytes: u64, stride_bytes: u64, gap: u16, seed: u64) -> Self {
        let nodes = (bytes / stride_bytes).max(1);
        let next = Successor::Uniform {
            nodes,
            rng: SplitMix64::scattered(seed),
        };
        PointerChase::over(bytes, stride_bytes, gap, next)
    }

    /// The same with one line of each 4 KB page, each at a place of its own: translations miss TLBs
    /// while the lines still fit into a near cache.
    pub fn pages(bytes: u64, gap: u16, seed: u64) -> Self {
        PointerChase {
            spread: true,
            ..PointerChase::uniform(bytes, 4096, gap, seed)
        }
    }

    /// A chase through `bytes / stride_bytes` nodes with `gap` other instructions a hop.
    /// Up to 64 M nodes the cycle is a uniformly random one (Sattolo's shuffle).
    pub fn new(bytes: u64, stride_bytes: u64, gap: u16, seed: u64) -> Self {
        let nodes = (bytes / stride_bytes).max(1);
        let next = if nodes <= 1 << 26 {
            Successor::Table(random_cycle(nodes as u32, seed))
        } else {
            generated(nodes, seed)
        };
        PointerChase::over(bytes, stride_bytes, gap, next)
    }

    fn over(bytes: u64, stride_bytes: u64, gap: u16, next: Successor) -> Self {
        let mut layout = RegionLayout::new();
        let base = layout.anonymous("nodes", bytes);
        image_of(&mut layout, 64 << 10, 64 << 10);
        PointerChase {
            layout,
            base,
            stride_bytes,
            next,
            at: 0,
            gap,
            spread: false,
        }
    }

    fn hop(&mut self) -> u64 {
        match &mut self.next {
            Successor::Uniform { nodes, rng } => rng.below(*nodes),
            Successor::Table(table) => {
                self.at = u64::from(table[self.at as usize]);
                self.at
            }
            Successor::Lcg {
                nodes,
                mask,
                multiplier,
                increment,
            } => loop {
                self.at = self.at.wrapping_mul(*multiplier).wrapping_add(*increment) & *mask;
                // The low bits of such a generator are regular; swapping halves hides that.
                let bits = mask.count_ones();
                let node = (self.at >> (bits / 2) | self.at << (bits - bits / 2)) & *mask;
                // What is left out of a cycle leaves a cycle.
                if node < *nodes {
                    break node;
                }
            },
        }
    }
}

/// The chain of a generator whose period is the next power of two.
fn generated(nodes: u64, seed: u64) -> Successor {
    Successor::Lcg {
        nodes,
        mask: nodes.next_power_of_two() - 1,
        multiplier: (mix64(seed) & !7) | 5,
        increment: mix64(!seed) | 1,
    }
}

/// Sattolo's shuffle: a uniformly random permutation that is a single cycle.
fn random_cycle(nodes: u32, seed: u64) -> Vec<u32> {
    let mut rng = SplitMix64::scattered(seed);
    let mut next: Vec<u32> = (0..nodes).collect();
    for i in (1..nodes as usize).rev() {
        next.swap(i, rng.below(i as u64) as usize);
    }
    next
}

impl Program for PointerChase {
    fn name(&self) -> &str {
        "chase"
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    fn step(&mut self, recorder: &mut Recorder<'_>) {
        for _ in 0..256 {
            let node = self.hop();
            let va = self.base + node * self.stride_bytes;
            let line = match self.spread {
                true => mix64(node) % (self.stride_bytes / 64),
                false => 0,
            };
            recorder.push(Access::load(va + 64 * line, self.gap).after(1));
        }
    }
}

/// STREAM copy: `b[i] = a[i]`, 8 bytes a step.
pub struct Stream {
    layout: RegionLayout,
    source: u64,
    target: u64,
    words: u64,
    at: u64,
}

impl Stream {
    /// Two arrays of `bytes / 2` each.
    pub fn new(bytes: u64) -> Self {
        let mut layout = RegionLayout::new();
        let source = layout.anonymous("a", bytes / 2);
        let target = layout.anonymous("b", bytes / 2);
        image_of(&mut layout, 64 << 10, 64 << 10);
        Stream {
            layout,
            source,
            target,
            words: bytes / 16,
            at: 0,
        }
    }
}

impl Program for Stream {
    fn name(&self) -> &str {
        "stream"
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    fn step(&mut self, recorder: &mut Recorder<'_>) {
        for _ in 0..256 {
            let load = Access::load(self.source + self.at * 8, 1);
            let store = Access::store(self.target + self.at * 8, 1);
            recorder.push_all([load, store]);
            self.at += 1;
            if self.at == self.words {
                self.at = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chase_visits_every_node_once_a_round() {
        let mut chase = PointerChase::new(64 * 1000, 64, 0, 3);
        let mut seen = vec![false; 1000];
        let mut collect = |block: &[Access]| {
            for access in block {
                let node = ((access.va - crate::access::region::PRIMARY_BASE) / 64) as usize;
                assert!(!seen[node], "node {node} twice in one round");
                seen[node] = true;
            }
            true
        };
        let mut recorder = Recorder::new(&mut collect, 1000);
        chase.run(&mut recorder);
        recorder.flush();
        assert!(seen.iter().all(|&s| s));
    }

    /// A chain that is too long for a table: the same by its generator, of which nodes are left out
    /// that are not there.
    #[test]
    fn a_chain_without_a_table_is_one_cycle_too() {
        for nodes in [1000, 1024, 1500] {
            let mut chase = PointerChase::new(64 * nodes, 64, 0, 3);
            chase.next = generated(nodes, 3);
            let mut seen = vec![false; nodes as usize];
            for _ in 0..nodes {
                let node = chase.hop() as usize;
                assert!(!seen[node], "node {node} of {nodes} twice in one round");
                seen[node] = true;
            }
        }
    }
}
