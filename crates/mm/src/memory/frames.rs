// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frame table: 8 bytes a frame, plus 4 for each block that a pool, an LRU list or a free
//! list holds.
//!
//! Only the first frame of a block (free, per-CPU or used) carries a meaningful state; the
//! frames behind it keep whatever they had. That is sound because a buddy position is always
//! the head of some block (an aligned block that holds the buddy but not its partner would have
//! to be smaller), and it makes a huge page as cheap to allocate as a small one.

use super::prefetch::AHEAD;
use super::state::FrameState;
use ample_kit::random::Xoshiro256 as Rng;

/// Frames of one cache line: a frame and its buddies up to order 2.
const LINE: usize = 8;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([FrameState; LINE]);

/// The state of every frame.
#[derive(Clone, Debug)]
pub struct Frames {
    lines: Vec<Line>,
    count: u32,
}

impl Frames {
    /// A table of `count` frames, all inside nothing yet.
    pub fn new(count: u32) -> Frames {
        let lines = (count as usize).div_ceil(LINE);
        Frames {
            lines: vec![Line([FrameState::INTERIOR; LINE]); lines],
            count,
        }
    }

    /// Number of frames.
    pub fn len(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(crate) fn get(&self, pfn: u32) -> FrameState {
        self.lines[pfn as usize / LINE].0[pfn as usize % LINE]
    }

    /// The states of a cache line, where the block head `pfn` begins it and every block in it is a
    /// single page.
    #[inline]
    pub(crate) fn singles(&self, pfn: u32) -> Option<&[FrameState; LINE]> {
        let at = pfn as usize;
        let whole = at.is_multiple_of(LINE) && at + LINE <= self.count as usize;
        let line = whole.then(|| &self.lines[at / LINE].0)?;
        let single = line.iter().fold(true, |all, state| all & state.is_single());
        single.then_some(line)
    }

    /// First frame at or after `pfn` whose cache line holds the head of a free block; lines are
    /// tested eight states at once.
    #[inline]
    pub(crate) fn skip_to_free(&self, pfn: u32) -> u32 {
        if !(pfn as usize).is_multiple_of(LINE) {
            return pfn;
        }
        let none = |line: &Line| {
            let free = |state: &FrameState| state.is_free_head();
            !line.0.iter().fold(false, |any, state| any | free(state))
        };
        let lines = self.lines[pfn as usize / LINE..].iter();
        pfn + (lines.take_while(|line| none(line)).count() * LINE) as u32
    }

    #[inline]
    pub(crate) fn set(&mut self, pfn: u32, state: FrameState) {
        self.lines[pfn as usize / LINE].0[pfn as usize % LINE] = state;
    }

    /// Reads frames that will be needed soon, so that their cache misses overlap instead of
    /// following each other. Changes nothing.
    #[inline]
    pub(crate) fn touch(&self, pfns: impl Iterator<Item = u32>) {
        let mut seen = 0;
        for pfn in pfns {
            let line = self.lines.get(pfn as usize / LINE);
            seen ^= line.map_or(0, |line| line.0[0].bits());
        }
        std::hint::black_box(seen);
    }

    /// [`Frames::touch`] for the frames anywhere in memory that `rng` is about to pick.
    #[inline]
    pub(crate) fn touch_anywhere(&self, rng: &Rng) {
        let mut rng = rng.clone();
        let picks: [u32; 2 * AHEAD] = std::array::from_fn(|_| rng.below(self.count));
        self.touch(picks.into_iter());
    }
}
