// SPDX-License-Identifier: MIT OR Apache-2.0
//! Irregular kernels after SPEC CPU: network-simplex pricing (mcf) and a discrete-event simulation
//! (omnetpp).

use super::micro::{IMAGE_STACK_BYTES, image_of};
use crate::{Access, Program, Recorder, Region, RegionLayout};
use ample_kit::random::SplitMix64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// mcf-like: sweeps over arcs, the potentials of both ends looked up; the best arc enters the
/// spanning tree and potentials change along a path to the root.
pub struct Mcf {
    layout: RegionLayout,
    arcs: Vec<(u32, u32, i32)>,
    potential: Vec<i64>,
    parent: Vec<u32>,
    arc_base: u64,
    node_base: u64,
    at: usize,
    /// Pivots made.
    pub pivots: u64,
}

/// Arcs a node.
const ARCS: u64 = 8;
const ARC_BYTES: u64 = 64;
const NODE_BYTES: u64 = 128;
/// Bytes of the code, and of the static data.
const IMAGE_BYTES: u64 = 64 << 10;
/// Arcs looked at before the best of them enters.
const PRICING_GROUP: usize = 300;

impl Mcf {
    /// A network of about `bytes` bytes.
    pub(super) fn of_bytes(bytes: u64, seed: u64) -> Self {
        let data = bytes.saturating_sub(2 * IMAGE_BYTES + IMAGE_STACK_BYTES);
        Mcf::new((data / (ARCS * ARC_BYTES + NODE_BYTES)) as u32, seed)
    }

    /// A network of `nodes` nodes and eight times as many arcs.
    pub fn new(nodes: u32, seed: u64) -> Self {
        let mut rng = SplitMix64::scattered(seed);
        let mut node = || rng.below(u64::from(nodes)) as u32;
        let arcs: Vec<_> = (0..u64::from(nodes) * ARCS)
            .map(|i| (node(), node(), (i * 7919 % 2000) as i32 - 1000))
            .collect();
        let parent = (0..nodes)
            .map(|n| if n == 0 { 0 } else { (n - 1) / 2 })
            .collect();
        let mut layout = RegionLayout::new();
        let arc_base = layout.anonymous("arcs", arcs.len() as u64 * ARC_BYTES);
        let node_base = layout.anonymous("nodes", u64::from(nodes) * NODE_BYTES);
        image_of(&mut layout, IMAGE_BYTES, IMAGE_BYTES);
        let potential = vec![0; nodes as usize];
        Mcf {
            layout,
            arcs,
            potential,
            parent,
            arc_base,
            node_base,
            at: 0,
            pivots: 0,
        }
    }
}

impl Program for Mcf {
    fn name(&self) -> &str {
        "mcf"
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    fn step(&mut self, recorder: &mut Recorder<'_>) {
        let mut best = (0i64, 0usize);
        for _ in 0..PRICING_GROUP {
            // The sweep strides through the arcs as the original's groups do.
            self.at = (self.at + 37) % self.arcs.len();
            let (tail, head, cost) = self.arcs[self.at];
            recorder.push(Access::load(self.arc_base + self.at as u64 * ARC_BYTES, 3));
            recorder.push(Access::load(self.node_base + u64::from(tail) * NODE_BYTES, 2).after(1));
            recorder.push(Access::load(self.node_base + u64::from(head) * NODE_BYTES, 3).after(2));
            let reduced =
                i64::from(cost) - self.potential[tail as usize] + self.potential[head as usize];
            if reduced < best.0 {
                best = (reduced, self.at);
            }
        }
        let mut node = self.arcs[best.1].1;
        while node != 0 {
            let va = self.node_base + u64::from(node) * NODE_BYTES;
            recorder.push(Access::load(va + 8, 4).after(2));
            recorder.push(Access::store(va, 2));
            self.potential[node as usize] -= best.0;
            node = self.parent[node as usize];
        }
        self.pivots += 1;
    }
}

/// omnetpp-like: a future-event heap, and messages and modules scattered over the heap.
pub struct Omnetpp {
    layout: RegionLayout,
    events: BinaryHeap<Reverse<(u64, u32)>>,
    rng: SplitMix64,
    modules: u64,
    heap_base: u64,
    message_base: u64,
    module_base: u64,
    last_time: u64,
}

const EVENT_BYTES: u64 = 8;
const MESSAGE_BYTES: u64 = 192;
const MODULE_BYTES: u64 = 1024;
const CODE_BYTES: u64 = 2 << 20;
const DATA_BYTES: u64 = 256 << 10;

impl Omnetpp {
    /// A network of about `bytes` bytes, four messages a module.
    pub(super) fn of_bytes(bytes: u64, seed: u64) -> Self {
        let data = bytes.saturating_sub(CODE_BYTES + DATA_BYTES + IMAGE_STACK_BYTES);
        let messages = data / (EVENT_BYTES + MESSAGE_BYTES + MODULE_BYTES / 4);
        Omnetpp::new(messages as u32, messages / 4, seed)
    }

    /// `messages` messages under way between `modules` modules.
    pub fn new(messages: u32, modules: u64, seed: u64) -> Self {
        let mut rng = SplitMix64::scattered(seed);
        let events = (0..messages)
            .map(|m| Reverse((rng.below(1_000_000), m)))
            .collect::<BinaryHeap<_>>();
        let mut layout = RegionLayout::new();
        let heap_base = layout.anonymous("event heap", u64::from(messages) * EVENT_BYTES);
        let message_base = layout.anonymous("messages", u64::from(messages) * MESSAGE_BYTES);
        let module_base = layout.anonymous("modules", modules * MODULE_BYTES);
        image_of(&mut layout, CODE_BYTES, DATA_BYTES);
        Omnetpp {
            layout,
            events,
            rng,
            modules,
            heap_base,
            message_base,
            module_base,
            last_time: 0,
        }
    }
}

impl Program for Omnetpp {
    fn name(&self) -> &str {
        "omnetpp"
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    fn step(&mut self, recorder: &mut Recorder<'_>) {
        let Some(Reverse((time, message))) = self.events.pop() else {
            return;
        };
        assert!(time >= self.last_time, "events come in order of time");
        self.last_time = time;
        // Sifting down: two children compared on each level.
        let mut at = 1u64;
        while at < self.events.len() as u64 {
            recorder.push(Access::load(self.heap_base + at * 8, 3));
            recorder.push(Access::store(self.heap_base + at / 2 * 8, 2));
            at = at * 2 + self.rng.below(2);
        }
        let body = self.message_base + u64::from(message) * MESSAGE_BYTES;
        let module = self.module_base + self.rng.below(self.modules) * MODULE_BYTES;
        for field in [0, 64, 128] {
            recorder.push(Access::load(body + field, 6).after(1));
        }
        for field in 0..6 {
            recorder.push(Access::load(module + field * 96, 10));
        }
        recorder.push(Access::store(module + 512, 8));
        recorder.push(Access::store(body + 8, 4));
        let delay = 1 + self.rng.below(1_000_000);
        self.events.push(Reverse((time + delay, message)));
        let mut at = self.events.len() as u64;
        // Sifting up ends soon for a random key.
        for _ in 0..2 {
            recorder.push(Access::load(self.heap_base + at / 2 * 8, 3));
            at /= 2;
        }
    }
}
