// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording with one property of its kernel memory taken away: what the property is worth is
//! the difference that it makes to a replay.

use super::ledger::Op;
use super::start::Start;
use ample_kit::random::SplitMix64;
use ample_pfn::{PageClass, is_movable};
use std::collections::HashMap;

/// What is different from the recording. Memory that moves stays as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing: the recording as it is.
    AsRecorded,
    /// Kernel blocks come as single pages, one after another, and are freed together.
    SinglePages,
    /// Reclaimable slab pages ask for blocks of the type of all other kernel pages.
    OneType,
    /// A free takes any of the live blocks of the same class and order, not the one recorded.
    AnyAge {
        /// Seed of the draws.
        seed: u64,
    },
    /// Kernel blocks that are freed sooner are left out.
    Lasting {
        /// The shortest life that stays, to the ticks of a replay (0.1 s).
        least_ns: u64,
    },
    /// Kernel blocks of these classes are left out; those of the snapshot stay until they are
    /// freed.
    Without(&'static [PageClass]),
}

impl Change {
    /// The steps of a whole recording with the change. `start` is what the recording began with,
    /// `blocks` the number of block numbers in `ops`.
    pub(super) fn apply(&self, ops: Vec<Op>, start: &Start, blocks: u32) -> Vec<Op> {
        if *self == Change::AsRecorded {
            return ops;
        }
        let mut changer = Changer {
            change: self,
            brief: self.brief(&ops),
            live: HashMap::new(),
            groups: HashMap::new(),
            random: SplitMix64::new(match self {
                Change::AnyAge { seed } => *seed,
                _ => 0,
            }),
            spare: Vec::new(),
            next: blocks,
            changed: Vec::with_capacity(ops.len()),
            pieces: Vec::new(),
        };
        for (block, (_, class)) in (0..).zip(start.used()) {
            changer.enter(block, class, 0, vec![block]);
        }
        for (at, op) in ops.into_iter().enumerate() {
            changer.step(at, op);
        }
        changer.changed
    }

    /// Places in `ops` of the kernel blocks that live too short a time.
    fn brief(&self, ops: &[Op]) -> Vec<bool> {
        let Change::Lasting { least_ns } = *self else {
            return Vec::new();
        };
        let mut brief = vec![false; ops.len()];
        let mut born = HashMap::new();
        let mut now_ns = 0;
        for (at, op) in ops.iter().enumerate() {
            match *op {
                Op::Alloc { block, class, .. } if !is_movable(class) => {
                    born.insert(block, (at, now_ns));
                }
                Op::Free { block, .. } => {
                    if let Some((at, since_ns)) = born.remove(&block) {
                        brief[at] = now_ns - since_ns < least_ns;
                    }
                }
                // Its parts are freed apart: it stays.
                Op::Split { block } => drop(born.remove(&block)),
                Op::Tick { elapsed_ns } => now_ns += elapsed_ns,
                Op::Alloc { .. } | Op::Piece { .. } | Op::Sample => {}
            }
        }
        brief
    }
}

/// A live block of the recording.
struct Live {
    class: PageClass,
    order: u8,
    /// The blocks that stand for it in the changed recording: none if it is left out.
    real: Vec<u32>,
    /// Its position in its group.
    at: usize,
}

struct Changer<'a> {
    change: &'a Change,
    brief: Vec<bool>,
    live: HashMap<u32, Live>,
    /// Live kernel blocks by class and order, in any order.
    groups: HashMap<(PageClass, u8), Vec<u32>>,
    random: SplitMix64,
    /// Block numbers of the changed recording that are free again, and the first never used.
    spare: Vec<u32>,
    next: u32,
    changed: Vec<Op>,
    /// What stands for the parts of the block that was split last, the next one last; its class.
    pieces: Vec<(PageClass, Vec<u32>)>,
}

impl Changer<'_> {
    fn number(&mut self) -> u32 {
        self.spare.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    fn enter(&mut self, block: u32, class: PageClass, order: u8, real: Vec<u32>) {
        let group = self.groups.entry((class, order)).or_default();
        let at = group.len();
        group.push(block);
        let live = Live {
            class,
            order,
            real,
            at,
        };
        self.live.insert(block, live);
    }

    fn leave(&mut self, block: u32) -> Option<Live> {
        let live = self.live.remove(&block)?;
        let group = self.groups.entry((live.class, live.order)).or_default();
        group.swap_remove(live.at);
        if let Some(moved) = group.get(live.at) {
            self.live
                .entry(*moved)
                .and_modify(|other| other.at = live.at);
        }
        Some(live)
    }

    fn step(&mut self, at: usize, op: Op) {
        match op {
            Op::Alloc { .. } => self.alloc(at, op),
            Op::Free { block, cpu } => self.free(block, cpu),
            Op::Split { block } => self.split(block),
            Op::Piece { block } => {
                if let Some((class, real)) = self.pieces.pop() {
                    self.enter(block, class, 0, real);
                }
            }
            Op::Tick { .. } | Op::Sample => self.changed.push(op),
        }
    }

    /// Whether the block that is asked for at `at` is left out.
    fn leaves_out(&self, at: usize, class: PageClass) -> bool {
        match self.change {
            Change::Lasting { .. } => self.brief[at],
            Change::Without(classes) => classes.contains(&class),
            _ => false,
        }
    }

    fn alloc(&mut self, at: usize, op: Op) {
        let Op::Alloc {
            block,
            cpu,
            order,
            class,
            atomic,
            light,
        } = op
        else {
            return;
        };
        let kernel = !is_movable(class);
        let (count, part) = match self.change {
            _ if kernel && self.leaves_out(at, class) => (0, order),
            Change::SinglePages if kernel => (1 << order, 0),
            _ => (1, order),
        };
        let asked = match (self.change, class) {
            (Change::OneType, PageClass::SlabReclaimable) => PageClass::Slab,
            _ => class,
        };
        let real: Vec<u32> = (0..count).map(|_| self.number()).collect();
        self.changed.extend(real.iter().map(|&block| Op::Alloc {
            block,
            cpu,
            order: part,
            class: asked,
            atomic,
            light,
        }));
        self.enter(block, class, order, real);
    }

    fn free(&mut self, block: u32, cpu: u16) {
        if matches!(self.change, Change::AnyAge { .. }) {
            self.draw(block);
        }
        let Some(gone) = self.leave(block) else {
            return;
        };
        for block in gone.real {
            self.changed.push(Op::Free { block, cpu });
            self.spare.push(block);
        }
    }

    /// Lets the kernel block change places with any of its class and order.
    fn draw(&mut self, block: u32) {
        let kernel = self.live.get_mut(&block);
        let Some(live) = kernel.filter(|live| !is_movable(live.class)) else {
            return;
        };
        let group = &self.groups[&(live.class, live.order)];
        let other = group[self.random.below(group.len() as u64) as usize];
        if other == block {
            return;
        }
        let mut real = std::mem::take(&mut live.real);
        if let Some(drawn) = self.live.get_mut(&other) {
            std::mem::swap(&mut drawn.real, &mut real);
        }
        self.live.entry(block).and_modify(|live| live.real = real);
    }

    fn split(&mut self, block: u32) {
        self.pieces.clear();
        let Some(whole) = self.leave(block) else {
            return;
        };
        let pages = 1usize << whole.order;
        let mut parts: Vec<Vec<u32>> = match whole.real[..] {
            [] => vec![Vec::new(); pages],
            [one] if pages > 1 => {
                self.changed.push(Op::Split { block: one });
                let mut parts = vec![vec![one]];
                for _ in 1..pages {
                    let block = self.number();
                    self.changed.push(Op::Piece { block });
                    parts.push(vec![block]);
                }
                parts
            }
            _ => whole.real.into_iter().map(|page| vec![page]).collect(),
        };
        let rest = parts.split_off(1);
        self.enter(block, whole.class, 0, parts.remove(0));
        let pieces = rest.into_iter().rev().map(|part| (whole.class, part));
        self.pieces.extend(pieces);
    }
}

#[cfg(test)]
mod tests;
