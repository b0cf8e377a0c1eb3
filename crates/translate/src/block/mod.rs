// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks of accesses in no time, as functional runs make them. Where plain paging is all there
//! is, a batch of them goes through the hardware array by array, so that what an array does is one
//! short loop and the reads of page-table entries are on their way side by side:
//!
//! 1. [`Batch::gather`]: the accesses that a TLB has to be asked for;
//! 2. [`Batch::resolve`]: their leaf entries, from the page table;
//! 3. [`lane`]: first level, second level, page-walk caches.
//!
//! An array's state depends on the order of what is asked of it, and of nothing else: other arrays
//! and memory take no time. What the second step finds out of the ordinary (a fault, a bit to be
//! set, a size that the first level cuts down) ends the batch before the third step begins, and the
//! engine does that access by itself.

mod batch;
mod lane;
mod tally;

use crate::engine::{BadAccess, Engine, Intent};
use crate::walk::port::NoMemory;
use batch::Batch;
use std::hint::black_box;
use tally::Tally;

/// Accesses whose page-table entries are read ahead at once by the engine's own way.
const AHEAD: usize = 32;

/// Of so many heads one has to miss the first level. Hits alone are as quick one by one, so that
/// after a batch of hits, as after one of which little was ordinary, the engine takes some of what
/// follows before the next is tried.
const FEW_MISSES: u32 = 32;

impl Engine {
    /// Translates a block of accesses in their order, as [`translate`](Self::translate) would with
    /// [`NoMemory`], of which `of` gives address and intent. `far` says that many of them walk, so
    /// that reading entries ahead pays.
    ///
    /// # Errors
    /// The first access that faults and that no range of memory answers for, by its number in the
    /// block; those before it are translated.
    pub fn translate_block<A>(
        &mut self,
        block: &[A],
        of: impl Fn(&A) -> (u64, Intent) + Copy,
        far: bool,
    ) -> Result<(), (usize, BadAccess)> {
        if !self.is_bare() {
            return self.one_by_one(block, of, far);
        }
        let mut tally = Tally::default();
        let done = self.by_batches(block, of, &mut tally);
        tally.add_to(&mut self.mmu);
        done
    }

    /// Batches as long as they pay, and the engine in between.
    fn by_batches<A>(
        &mut self,
        block: &[A],
        of: impl Fn(&A) -> (u64, Intent) + Copy,
        tally: &mut Tally,
    ) -> Result<(), (usize, BadAccess)> {
        let (mut at, mut batch) = (0, Batch::new());
        while at < block.len() {
            batch.gather(&block[at..], of);
            let gathered = batch.accesses;
            let space = &self.spaces[self.current];
            let writes = |number: usize| of(&block[at + number]).1 == Intent::Write;
            let whole = batch.resolve(space, &self.mmu, writes);
            let missed = lane::run(&mut self.mmu, space, &batch, tally);
            let done = &block[at..at + batch.accesses];
            let fetches = match batch.fetches {
                0 => 0,
                _ => done.iter().filter(|a| of(a).1 == Intent::Fetch).count(),
            };
            tally.accesses += (done.len() - fetches) as u64;
            tally.fetches += fetches as u64;
            at += done.len();
            let heads = batch.heads().count_ones();
            let few = done.len() * 4 < gathered || missed * FEW_MISSES < heads;
            self.alone = if few {
                (self.alone * 2).clamp(512, 1024)
            } else {
                0
            };
            let alone = self.alone.max(usize::from(!whole));
            let singles = &block[at..block.len().min(at + alone)];
            self.one_by_one(singles, of, false)
                .map_err(|(number, bad)| (at + number, bad))?;
            at += singles.len();
        }
        Ok(())
    }

    /// The engine's own way through a block.
    fn one_by_one<A>(
        &mut self,
        block: &[A],
        of: impl Fn(&A) -> (u64, Intent) + Copy,
        far: bool,
    ) -> Result<(), (usize, BadAccess)> {
        for (number, chunk) in block.chunks(AHEAD).enumerate() {
            if far {
                let mut digest = 0;
                let addresses = chunk.iter().map(|access| of(access).0);
                self.read_ahead(addresses, |_, pa| digest ^= pa);
                black_box(digest);
            }
            for (at, access) in chunk.iter().enumerate() {
                let (va, intent) = of(access);
                self.translate(va, intent, 0, &mut NoMemory)
                    .map_err(|bad| (number * AHEAD + at, bad))?;
            }
        }
        Ok(())
    }
}
