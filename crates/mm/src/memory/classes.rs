// SPDX-License-Identifier: MIT OR Apache-2.0
//! The use of the frames of a pageblock, as the metrics want to know it.

use super::state::{FrameKind, FrameState};
use super::units::{BLOCK_ORDER, BLOCK_PAGES};
use super::zone::Zone;
use ample_pfn::{CLASS_COUNT, PageClass};

/// Sums that are kept apart.
const LANES: usize = 4;

impl Zone {
    /// The class of all frames of pageblock `b`, where one block holds them all: it is part of a
    /// 1 GB page or the second half of an order-10 block.
    fn whole_class(&self, b: u32) -> Option<PageClass> {
        if self.block(b).giga {
            return Some(PageClass::HugeTlb);
        }
        self.cover(b).map(|head| class_of(self.state(head)))
    }

    /// Pages of each class in pageblock `b`.
    pub(crate) fn class_counts(&self, b: u32) -> [u16; CLASS_COUNT] {
        let mut counts = [0; CLASS_COUNT];
        if let Some(class) = self.whole_class(b) {
            counts[class as usize] = BLOCK_PAGES as u16;
            return counts;
        }
        // Neighbours are mostly of one class: an addition to the same count waits for the one
        // before it, so that each of a few places in a line counts for itself.
        let mut uses = [[0u16; FrameState::USES]; LANES];
        self.heads_by_lane(b, |lane, state| {
            uses[lane % LANES][state.use_key()] += state.pages().min(BLOCK_PAGES) as u16;
        });
        let [mut all, others @ ..] = uses;
        for lane in &others {
            all.iter_mut()
                .zip(lane)
                .for_each(|(sum, pages)| *sum += pages);
        }
        for (key, &pages) in all.iter().enumerate().filter(|(_, pages)| **pages > 0) {
            counts[class_of(FrameState::of_use(key)) as usize] += pages;
        }
        counts
    }

    /// Classes of the 512 frames of pageblock `b`.
    pub(crate) fn classes(&self, b: u32, out: &mut [PageClass]) {
        assert_eq!(out.len(), BLOCK_PAGES as usize, "one class for each frame");
        if let Some(class) = self.whole_class(b) {
            out.fill(class);
            return;
        }
        let start = b << BLOCK_ORDER;
        self.heads(b, |pfn, state| {
            let from = (pfn - start) as usize;
            let to = (from + (1usize << state.order())).min(out.len());
            out[from..to].fill(class_of(state));
        });
    }

    /// Anonymous memory in 2 MB pages ÷ all anonymous memory; `None` without any.
    pub(crate) fn thp_coverage(&self) -> Option<f64> {
        let (mut huge, mut all) = (0u64, 0u64);
        for b in 0..self.block_count() {
            self.heads(b, |_, state| {
                if state.class() == PageClass::Anon {
                    let pages = 1u64 << state.order();
                    all += pages;
                    huge += if state.order() == BLOCK_ORDER {
                        pages
                    } else {
                        0
                    };
                }
            });
        }
        (all > 0).then(|| huge as f64 / all as f64)
    }
}

fn class_of(state: FrameState) -> PageClass {
    match state.kind() {
        FrameKind::Interior => PageClass::Hole,
        FrameKind::Fixed | FrameKind::Used => state.class(),
        FrameKind::Free | FrameKind::Isolated => PageClass::Free,
        FrameKind::Pcp => PageClass::FreePcp,
    }
}
