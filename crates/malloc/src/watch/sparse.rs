// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects of 4 GiB and more begin with native pages, because a program may touch few of them.
//! Hugepages are asked for once what it has touched lies together: looked at in the rounds of
//! [`super::upkeep`], so that a program that makes no call meanwhile keeps native pages.

use crate::os::sys;
use crate::os::vm::Vm;
use crate::os::vm::real::RealVm;
use crate::units::{GIB, HUGE_BYTES, HUGE_SHIFT, HugeRange, NATIVE_BYTES};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Smaller objects are made of hugepages from the beginning.
pub const FROM_BYTES: usize = 4 * GIB;
/// Hugepages of an object that are looked at.
const SAMPLES: usize = 64;
/// A hugepage counts as full with so many native pages in memory: seven eighths.
const FULL_PAGES: usize = HUGE_BYTES / NATIVE_BYTES / 8 * 7;
/// Hugepages of an object that are rebuilt in one round.
const REBUILT: usize = 16;

/// An object that began with native pages. What it says is used for advice only, so a change while
/// it is looked at does no harm.
struct Object {
    /// Its first hugepage; 0 for no object.
    start: AtomicUsize,
    len: AtomicUsize,
    /// Hugepages from the first that need no rebuilding; none while the object is sparse.
    rebuilt: AtomicUsize,
}

/// More objects than these are made of hugepages from the beginning.
static OBJECTS: [Object; 16] = [const {
    Object {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        rebuilt: AtomicUsize::new(0),
    }
}; 16];
/// The rebuilding of an object that is sparse has not begun.
const SPARSE: usize = usize::MAX;

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Whether objects begin with native pages.
pub fn configure(enabled: bool) {
    ENABLED.store(enabled, Ordering::Relaxed);
}

/// A new object, on memory that nothing has touched.
pub fn begin(address: usize, bytes: usize) {
    if !ENABLED.load(Ordering::Relaxed) {
        return;
    }
    let range = HugeRange {
        start: address >> HUGE_SHIFT,
        len: bytes >> HUGE_SHIFT,
    };
    let claimed = OBJECTS.iter().find(|object| {
        let claim =
            object
                .start
                .compare_exchange(0, range.start, Ordering::Relaxed, Ordering::Relaxed);
        claim.is_ok()
    });
    let Some(object) = claimed else { return };
    object.rebuilt.store(SPARSE, Ordering::Relaxed);
    object.len.store(range.len, Ordering::Relaxed);
    if !RealVm::new().set_huge(range, false) {
        object.start.store(0, Ordering::Relaxed);
    }
}

/// The object is about to be freed: its memory is the heap's again.
pub fn end(address: usize) {
    let start = address >> HUGE_SHIFT;
    let ended = |object: &&Object| object.start.load(Ordering::Relaxed) == start;
    if let Some(object) = OBJECTS.iter().find(ended) {
        let len = object.len.load(Ordering::Relaxed);
        RealVm::new().set_huge(HugeRange { start, len }, true);
        object.start.store(0, Ordering::Relaxed);
    }
}

/// Whether there are such objects.
pub fn any() -> bool {
    let exists = |object: &Object| object.start.load(Ordering::Relaxed) != 0;
    OBJECTS.iter().any(exists)
}

/// Looks at all objects.
pub fn look() {
    OBJECTS.iter().for_each(Object::look);
}

fn resident(hugepage: usize) -> usize {
    sys::resident_pages(hugepage << HUGE_SHIFT)
}

impl Object {
    fn look(&self) {
        let start = self.start.load(Ordering::Relaxed);
        let len = self.len.load(Ordering::Relaxed);
        let rebuilt = self.rebuilt.load(Ordering::Relaxed);
        if start == 0 || rebuilt == len {
            return;
        }
        if rebuilt == SPARSE {
            if is_dense(start, len) && RealVm::new().set_huge(HugeRange { start, len }, true) {
                self.rebuilt.store(0, Ordering::Relaxed);
            }
            return;
        }
        let end = len.min(rebuilt + REBUILT);
        for hugepage in start + rebuilt..start + end {
            if resident(hugepage) >= FULL_PAGES {
                // Refused ones stay as they are.
                let _ = RealVm::new().collapse(hugepage << HUGE_SHIFT);
            }
        }
        self.rebuilt.store(end, Ordering::Relaxed);
    }
}

/// Whether most hugepages of which the program has touched anything are full.
fn is_dense(start: usize, len: usize) -> bool {
    let (mut touched, mut full) = (0, 0);
    for hugepage in (start..start + len).step_by(len.div_ceil(SAMPLES)) {
        let pages = resident(hugepage);
        touched += usize::from(pages > 0);
        full += usize::from(pages >= FULL_PAGES);
    }
    touched > 0 && full * 4 >= touched * 3
}
