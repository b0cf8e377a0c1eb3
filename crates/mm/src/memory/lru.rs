// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page cache on two LRU lists (`mm/swap.c`, `mm/vmscan.c`, 6.12).

use super::frames::Frames;
use super::list::List;
use super::prefetch::AHEAD;
use super::state::{FrameKind, FrameState};

/// The inactive and the active list, the page used last at the head.
///
/// Invariants: a page on a list is a used one whose state says which list and where; no page is
/// on both.
#[derive(Debug)]
pub(crate) struct Lru {
    inactive: List,
    active: List,
}

impl Lru {
    /// Two empty lists.
    pub(crate) const EMPTY: Lru = Lru {
        inactive: List::EMPTY,
        active: List::EMPTY,
    };

    /// Pages on both lists.
    pub(crate) fn len(&self) -> u32 {
        self.inactive.len() + self.active.len()
    }

    #[inline]
    fn list(&mut self, active: bool) -> &mut List {
        if active {
            &mut self.active
        } else {
            &mut self.inactive
        }
    }

    /// Puts a used page that is on no list, whose state is to be `state`, on the inactive list.
    #[inline]
    pub(crate) fn add(&mut self, frames: &mut Frames, pfn: u32, state: FrameState) {
        debug_assert!(
            state.kind() == FrameKind::Used && !state.on_lru(),
            "{pfn:#x}"
        );
        let place = self.inactive.push_head(frames, pfn);
        let state = state.with_lru(true).with_active(false);
        frames.set(pfn, state.at(place));
    }

    /// Takes a page off its list.
    pub(crate) fn remove(&mut self, frames: &mut Frames, pfn: u32) {
        let state = frames.get(pfn);
        debug_assert!(state.on_lru(), "frame {pfn:#x} is on no LRU list");
        self.list(state.active()).remove(state.place());
        frames.set(pfn, state.with_lru(false));
    }

    /// Marks a page as used again; the second use makes it active (`mark_page_accessed`).
    pub(crate) fn mark_used(&mut self, frames: &mut Frames, pfn: u32) {
        let state = frames.get(pfn);
        if !state.referenced() {
            frames.set(pfn, state.with_referenced(true));
        } else if !state.active() {
            self.activate(frames, pfn);
        }
    }

    /// Moves a page to the head of the active list; its use is forgotten.
    pub(crate) fn activate(&mut self, frames: &mut Frames, pfn: u32) {
        let state = frames.get(pfn);
        self.move_to(frames, pfn, state.with_referenced(false).with_active(true));
    }

    /// Moves a page to the head of its list.
    pub(crate) fn rotate(&mut self, frames: &mut Frames, pfn: u32) {
        self.move_to(frames, pfn, frames.get(pfn));
    }

    fn move_to(&mut self, frames: &mut Frames, pfn: u32, state: FrameState) {
        let old = frames.get(pfn);
        self.list(old.active()).remove(old.place());
        let place = self.list(state.active()).push_head(frames, pfn);
        frames.set(pfn, state.at(place));
    }

    /// The page that reclaim looks at next: the last of the inactive list, which first gets the
    /// last of the active one where that is longer.
    pub(crate) fn next_victim(&mut self, frames: &mut Frames) -> Option<u32> {
        if self.inactive.len() < self.active.len()
            && let Some(pfn) = self.active.tail()
        {
            let state = frames.get(pfn);
            self.move_to(frames, pfn, state.with_active(false).with_referenced(false));
        }
        self.inactive.tail()
    }

    /// The block whose state is `state` lies at `pfn` from now on; the state is not changed.
    pub(crate) fn relocate(&mut self, state: FrameState, pfn: u32) {
        self.list(state.active()).replace(state.place(), pfn);
    }

    /// Up to `count` pages from `pfn` on along its list: pages read together lie together there,
    /// as those of a file.
    pub(crate) fn file_of(&self, frames: &Frames, pfn: u32, count: u32) -> Vec<u32> {
        let state = frames.get(pfn);
        let list = if state.active() {
            &self.active
        } else {
            &self.inactive
        };
        let file = list.from(state.place()).map(|(_, pfn)| pfn);
        file.take(count as usize).collect()
    }

    /// Reads the frames at the tails, which reclaim looks at next.
    pub(crate) fn touch_tails(&self, frames: &Frames) {
        for list in [&self.inactive, &self.active] {
            frames.touch(list.near_tail(AHEAD as u32));
        }
    }

    /// Verifies the invariants; the number of pages on both lists.
    ///
    /// # Errors
    /// A sentence about the first violation.
    pub(crate) fn check(&self, frames: &Frames) -> Result<u64, String> {
        let mut pages = 0;
        for (active, list) in [(false, &self.inactive), (true, &self.active)] {
            let mut count = 0u32;
            for (place, pfn) in list.iter() {
                let state = frames.get(pfn);
                let listed = state.kind() == FrameKind::Used && state.on_lru();
                if !listed || state.active() != active || state.place() != place {
                    return Err(format!("frame {pfn:#x} is on a wrong LRU list"));
                }
                count += 1;
            }
            if count != list.len() {
                return Err(format!("an LRU list counts {}, has {count}", list.len()));
            }
            pages += u64::from(count);
        }
        Ok(pages)
    }
}
