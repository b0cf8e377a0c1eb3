// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks that compaction passes over because it has been there (`PB_migrate_skip`,
//! `mm/compaction.c`, 6.12). A block that the free scanner has gone through is no source either
//! until the marks are forgotten, so that a pass from the middle of the zone leaves the next one
//! little.

/// The marks of all pageblocks.
#[derive(Debug)]
pub(crate) struct SkipMarks {
    /// None where nobody looks at them.
    marked: Vec<bool>,
    /// The scanners of a direct compaction have met: kswapd is to forget the marks when it sleeps.
    flush: bool,
}

impl SkipMarks {
    /// Of so many blocks; none of them is ever marked if compaction does not keep marks.
    pub(crate) fn new(blocks: u32, kept: bool) -> SkipMarks {
        SkipMarks {
            marked: vec![false; if kept { blocks as usize } else { 0 }],
            flush: false,
        }
    }

    /// Whether block `b` is passed over (`isolation_suitable`).
    pub(crate) fn passes(&self, b: u32) -> bool {
        self.marked.get(b as usize) == Some(&true)
    }

    /// Block `b` was looked at to its end (`update_pageblock_skip`), or no page of it could be
    /// moved.
    pub(crate) fn mark(&mut self, b: u32) {
        if let Some(mark) = self.marked.get_mut(b as usize) {
            *mark = true;
        }
    }

    /// Block `b` was left in the middle.
    pub(crate) fn unmark(&mut self, b: u32) {
        if let Some(mark) = self.marked.get_mut(b as usize) {
            *mark = false;
        }
    }

    /// The scanners of a direct compaction have met (`compact_blockskip_flush`).
    pub(crate) fn note_met(&mut self) {
        self.flush = true;
    }

    /// kswapd goes to sleep (`reset_isolation_suitable`).
    pub(crate) fn forget_if_met(&mut self) {
        if std::mem::take(&mut self.flush) {
            self.forget();
        }
    }

    /// Compaction is tried again after the longest time without.
    pub(crate) fn forget(&mut self) {
        self.marked.fill(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_forgotten_when_kswapd_sleeps_after_the_scanners_met() {
        let mut marks = SkipMarks::new(4, true);
        marks.mark(2);
        marks.forget_if_met();
        assert!(marks.passes(2) && !marks.passes(1) && !marks.passes(9));
        marks.note_met();
        marks.forget_if_met();
        assert!(!marks.passes(2));
        let mut none = SkipMarks::new(4, false);
        none.mark(2);
        assert!(!none.passes(2));
    }
}
