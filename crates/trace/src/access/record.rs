// SPDX-License-Identifier: MIT OR Apache-2.0
//! One memory access, and the block-wise path from a program to its consumer.

use super::region::Region;
use std::ops::Range;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AccessKind {
    /// A data read.
    Load = 0,
    /// A data write.
    Store = 1,
    /// An instruction fetch from another 64-byte line than the one before.
    Fetch = 2,
}

/// One memory access of the simulated program: 16 bytes, so that a block stays in the L1 cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Virtual address, bytes.
    pub va: u64,
    /// Instructions without a memory operand executed since the previous access.
    pub gap: u16,
    /// How many loads and stores back (fetches do not count) the value was loaded that this
    /// address depends on; 0: on none.
    pub dep: u16,
    /// Load, store or fetch.
    pub kind: AccessKind,
    /// Bytes moved (1 to 64).
    pub bytes: u8,
    /// Hardware thread of the core that runs this access (0 or 1).
    pub thread: u8,
    /// Of the same instruction as the load or store before, whose gap counts for both.
    pub joined: bool,
}

impl Access {
    /// A load of 8 bytes that depends on no earlier load, after `gap` other instructions.
    #[inline]
    pub fn load(va: u64, gap: u16) -> Self {
        Access {
            va,
            gap,
            dep: 0,
            kind: AccessKind::Load,
            bytes: 8,
            thread: 0,
            joined: false,
        }
    }

    /// A store of 8 bytes after `gap` other instructions.
    #[inline]
    pub fn store(va: u64, gap: u16) -> Self {
        let kind = AccessKind::Store;
        Access {
            kind,
            ..Access::load(va, gap)
        }
    }

    /// An instruction fetch; it stands for no instruction of its own.
    #[inline]
    pub fn fetch(va: u64) -> Self {
        let (kind, bytes) = (AccessKind::Fetch, 64);
        Access {
            kind,
            bytes,
            ..Access::load(va, 0)
        }
    }

    /// The same access, its address taken from the value loaded `dep` accesses earlier.
    #[inline]
    pub fn after(self, dep: u16) -> Self {
        Access { dep, ..self }
    }

    /// Instructions this record stands for, its own included where no record before has it.
    #[inline]
    pub fn instructions(&self) -> u64 {
        u64::from(self.gap) + u64::from(self.kind != AccessKind::Fetch && !self.joined)
    }
}

/// A change of a program's address space, between two of its accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapChange {
    /// New memory; whatever was mapped there is gone.
    Mapped,
    /// Memory given back.
    Unmapped,
    /// Other rights.
    Protected,
}

/// Takes accesses in program order, a block at a time.
pub trait Consumer {
    /// Consumes one block; returns false to ask the program to stop.
    fn consume(&mut self, block: &[Access]) -> bool;

    /// Learns of a change of the address space `range` (bytes); recorded programs have them.
    fn remap(&mut self, change: MapChange, range: Range<u64>) {
        let _ = (change, range);
    }
}

impl<F: FnMut(&[Access]) -> bool> Consumer for F {
    fn consume(&mut self, block: &[Access]) -> bool {
        self(block)
    }
}

/// Accesses handed over at once.
pub const BLOCK: usize = 1024;

/// Gathers a program's accesses into blocks and stops the program after a budget of accesses.
pub struct Recorder<'a> {
    block: Box<[Access; BLOCK]>,
    /// How many of them are buffered: fewer than a block.
    used: usize,
    consumer: &'a mut dyn Consumer,
    left: u64,
    emitted: u64,
    stop: bool,
}

impl<'a> Recorder<'a> {
    /// A recorder that lets `budget` accesses through to `consumer`.
    pub fn new(consumer: &'a mut dyn Consumer, budget: u64) -> Self {
        Recorder {
            block: Box::new([Access::load(0, 0); BLOCK]),
            used: 0,
            consumer,
            left: budget,
            emitted: 0,
            stop: budget == 0,
        }
    }

    /// True once the budget is spent or the consumer asked to stop; programs test it in their
    /// outer loops and return.
    #[inline]
    pub fn done(&self) -> bool {
        self.stop
    }

    /// Appends one access; after the end of the budget it is dropped.
    #[inline]
    pub fn push(&mut self, access: Access) {
        // The remainder is the number itself, and needs no check.
        self.block[self.used % BLOCK] = access;
        self.used += 1;
        if self.used >= BLOCK {
            self.flush();
        }
    }

    /// Appends accesses one after another, as [`push`](Self::push) does each.
    #[inline]
    pub fn push_all<const N: usize>(&mut self, accesses: [Access; N]) {
        match self.block[self.used % BLOCK..].first_chunk_mut() {
            Some(room) => {
                *room = accesses;
                self.used += N;
                if self.used >= BLOCK {
                    self.flush();
                }
            }
            None => accesses.into_iter().for_each(|access| self.push(access)),
        }
    }

    /// Hands over what is buffered; called once more at the end of a run.
    #[cold]
    #[inline(never)]
    pub fn flush(&mut self) {
        let count = (self.used as u64).min(self.left) as usize;
        if count > 0 {
            self.emitted += count as u64;
            self.left -= count as u64;
            let more = self.consumer.consume(&self.block[..count]);
            self.stop = self.stop || !more || self.left == 0;
        }
        self.used = 0;
    }

    /// Accesses handed to the consumer so far.
    pub fn emitted(&self) -> u64 {
        self.emitted
    }
}

/// A source of accesses.
pub trait Program: Send {
    /// Name as used on the command line.
    fn name(&self) -> &str;
    /// The address space it lives in.
    fn regions(&self) -> &[Region];
    /// Runs the smallest piece of work after which the program can be left and gone on with.
    fn step(&mut self, recorder: &mut Recorder<'_>);
    /// Runs steps until the recorder is done. Calling it again goes on where the last call stopped.
    fn run(&mut self, recorder: &mut Recorder<'_>) {
        while !recorder.done() {
            self.step(recorder);
        }
    }
    /// Bytes of all regions.
    fn footprint_bytes(&self) -> u64 {
        self.regions().iter().map(|r| r.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_sixteen_bytes() {
        assert_eq!(size_of::<Access>(), 16);
    }

    /// Accesses appended together lie in the same blocks as if they were appended alone.
    #[test]
    fn accesses_come_alone_or_together() {
        let blocks = |together: bool| {
            let mut blocks = Vec::new();
            let mut keep = |block: &[Access]| {
                blocks.push(block.to_vec());
                blocks.len() < 4
            };
            let mut recorder = Recorder::new(&mut keep, 3500);
            let mut at = 0;
            while !recorder.done() {
                let three = [at, at + 1, at + 2].map(|va| Access::load(va, 0));
                match together {
                    true => recorder.push_all(three),
                    false => three.into_iter().for_each(|access| recorder.push(access)),
                }
                at += 3;
            }
            recorder.flush();
            blocks
        };
        assert_eq!(blocks(true), blocks(false));
        assert_eq!(blocks(true).iter().map(Vec::len).sum::<usize>(), 3500);
    }

    #[test]
    fn the_budget_is_kept_to_the_access() {
        let mut seen = 0u64;
        let mut count = |block: &[Access]| {
            seen += block.len() as u64;
            true
        };
        let mut recorder = Recorder::new(&mut count, 2500);
        while !recorder.done() {
            recorder.push(Access::load(0, 0));
        }
        recorder.flush();
        assert_eq!(recorder.emitted(), 2500);
        assert_eq!(seen, 2500);
    }
}
