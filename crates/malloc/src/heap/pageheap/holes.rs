// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holes in the spans of the process's heaps: see [`crate::heap::holes`]. Which native pages hold
//! no live object is the affair of the layer above, which owns the spans.

use super::{CALLS, PAGES, heaps};
use crate::heap::holes::{HoleRelease, HugeSpans};
use crate::heap::{ReleasePolicy, limit, pagemap};
use crate::os::lock::{ForkLock, pause};
use crate::os::vm::Vm;
use crate::units::{HUGE_BYTES, HugeRange, NATIVE_BYTES, NATIVES, PAGES_PER_HUGE};

const WORDS: usize = NATIVES * PAGES_PER_HUGE / 64;

/// One bit for each native page of a hugepage.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeMap([u64; WORDS]);

impl NativeMap {
    /// Adds the native pages of a span that begins `page` pages into the hugepage.
    pub fn add(&mut self, page: usize, natives: u64) {
        let (word, shift) = (page * NATIVES / 64, page * NATIVES % 64);
        self.0[word] |= natives << shift;
        if shift > 0 && natives >> (64 - shift) != 0 {
            self.0[word + 1] |= natives >> (64 - shift);
        }
    }

    /// Whether a native page is in it.
    const fn has(&self, native: usize) -> bool {
        self.0[native / 64] >> (native % 64) & 1 == 1
    }

    /// Gives the pages of a hugepage back; true if the system took them all.
    fn unback(&self, hugepage: usize) -> bool {
        let mut at = 0;
        CALLS.unback_all(&mut core::iter::from_fn(|| {
            let start = (at..WORDS * 64).find(|&native| self.has(native))?;
            at = (start..WORDS * 64)
                .find(|&native| !self.has(native))
                .unwrap_or(WORDS * 64);
            let address = hugepage * HUGE_BYTES + start * NATIVE_BYTES;
            Some((address, (at - start) * NATIVE_BYTES))
        }))
    }
}

/// Keeps further steps from being begun and waits for those under way, before the first lock that
/// one of them may still need is shut for a fork.
pub fn fork_announce() {
    for heap in heaps() {
        loop {
            heap.shut();
            // SAFETY: the lock is held.
            let pages = unsafe { &mut *heap.value_pointer() };
            pages.forking = true;
            let quiet = pages.steps_under_way == 0;
            // SAFETY: it was taken above, and `pages` is not used any more.
            unsafe { heap.open() };
            if quiet {
                break;
            }
            pause();
        }
    }
}

/// See [`crate::heap::PageHeap::wanted_holes`].
pub fn wanted_holes(node: usize, policy: &ReleasePolicy, free_bytes: usize) -> usize {
    PAGES[node].lock().heap.wanted_holes(policy, free_bytes)
}

/// Begins with the first hugepage of a node.
pub fn first_spans(node: usize) {
    PAGES[node].lock().heap.begin_spans();
}

/// The next hugepage of a node in turn. After the last one a new turn begins, in which fuller ones
/// may be broken, if there are any; with `all` there is one turn.
pub fn next_spans(node: usize, all: bool) -> Option<HugeSpans> {
    let heap = &mut PAGES[node].lock().heap;
    heap.next_spans().or_else(|| {
        if all || !heap.begin_turn() {
            return None;
        }
        heap.next_spans()
    })
}

/// Begins to make holes: see [`crate::heap::PageHeap::begin_holes`]. To be ended by [`end_holes`]
/// and, once the spans are the layer above's again, by [`end_step`].
pub fn begin_holes(
    node: usize,
    spans: &HugeSpans,
    natives: usize,
    policy: &ReleasePolicy,
    all: bool,
) -> Option<HoleRelease> {
    PAGES[node]
        .lock()
        .begin(|heap| heap.begin_holes(spans, natives, policy, all))
}

/// Makes the holes, of which there are so many; false if the system refused.
pub fn end_holes(
    node: usize,
    spans: &HugeSpans,
    release: &HoleRelease,
    natives: &NativeMap,
    count: usize,
) -> bool {
    // What was empty may have been handed out since it was counted.
    let nothing = count == 0 && release.free.count() == 0;
    let mut natives = *natives;
    let used = release.free.inverted();
    let mut from = 0;
    while let Some((start, len)) = used.clear_run(from) {
        (start..start + len).for_each(|page| natives.add(page, (1 << NATIVES) - 1));
        from = start + len;
    }
    if release.mark && !nothing {
        // Or khugepaged would fill it up again.
        let (start, len) = (spans.hugepage, 1);
        CALLS.set_huge(HugeRange { start, len }, false);
    }
    let succeeded = natives.unback(spans.hugepage);
    let heap = &mut PAGES[node].lock().heap;
    heap.end_holes(release, count, succeeded);
    succeeded
}

/// Ends a step: nothing is under way any more that a fork would have to wait for.
pub fn end_step(node: usize) {
    PAGES[node].lock().end(|_| ());
}

/// Takes note that objects are handed out on so many holes of a span; false, with nothing changed,
/// if the hard limit does not allow it.
pub fn refill(page: usize, natives: u32, epoch: u16) -> bool {
    let mut pages = PAGES[pagemap::node_of(page)].lock();
    let more = (natives as usize).div_ceil(NATIVES);
    if !limit::allows(pages.heap.backed_pages().saturating_add(more)) {
        return false;
    }
    pages.heap.refill(page, natives, epoch);
    // Notes the size for the soft limit.
    pages.stays_in_limit();
    true
}
