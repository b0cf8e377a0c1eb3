// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holes in spans: native pages on which no live object lies go back to the system. Which hugepages
//! are worth it is decided in [`crate::heap::holes`].
//!
//! The spans of a hugepage are taken off their lists, so that nothing is handed out from them, and
//! back after the system calls, which are made without a lock. Objects that are freed meanwhile go
//! into their bitmaps as usual. An object that is handed out on a hole later finds zeroed memory.

use super::{CENTRAL, Spans, forget, freed, relink, unlink};
use crate::heap::ReleasePolicy;
use crate::heap::holes::{HoleRelease, HugeSpans};
use crate::heap::pageheap::{self, NativeMap};
use crate::heap::pagemap::{self, HOLED};
use crate::heap::span::{self, Span};
use crate::os::{numa, sys};
use crate::size_class::{CLASSES, TABLE};
use crate::units::{HUGE_PAGES_SHIFT, NATIVE_BYTES, NATIVES, PAGE_SHIFT, PAGES_PER_HUGE};

/// How much the making of holes may take in one round.
#[derive(Clone, Copy, Debug)]
pub struct HoleBudget {
    /// Hugepages that are looked at, at most.
    pub hugepages: usize,
    /// Time after which no further one is begun.
    pub slow_ns: u64,
    /// Whether everything that can go back does, in one turn, whatever the policy says.
    pub all: bool,
}

/// Spans in one step at most: what is noted of them lies on the stack.
const STEP_SPANS: usize = 64;

/// A span whose holes are being made.
#[derive(Clone, Copy)]
struct Taken {
    id: u32,
    class: usize,
    holes: u64,
}

/// Makes holes as far as the policy wants and the budget lets, and tells the page heaps how much of
/// the spans is free; native pages given back.
pub fn make_holes(budget: &HoleBudget, policy: &ReleasePolicy) -> usize {
    // On larger pages there are hardly any without an object.
    if sys::native_bytes() > NATIVE_BYTES {
        return 0;
    }
    let (start_ns, mut made) = (sys::now_ns(), 0);
    for node in 0..numa::nodes() {
        let wanted = if budget.all {
            usize::MAX
        } else {
            pageheap::wanted_holes(node, policy, free_bytes(node)).saturating_mul(NATIVES)
        };
        if budget.all {
            pageheap::first_spans(node);
        }
        let (mut left, mut here) = (budget.hugepages, 0);
        while here < wanted && left > 0 && sys::now_ns() - start_ns <= budget.slow_ns {
            let Some(spans) = pageheap::next_spans(node, budget.all) else {
                break;
            };
            left -= 1;
            let Some(natives) = release_in(node, &spans, policy, budget.all) else {
                break;
            };
            here += natives;
        }
        made += here;
    }
    made
}

/// Bytes of free objects in the spans of a node.
fn free_bytes(node: usize) -> usize {
    let free = |class: usize| CENTRAL[node][class].spans.lock().free as usize;
    (1..CLASSES)
        .map(|class| free(class) * TABLE[class].bytes as usize)
        .sum()
}

/// The size class of the page of a span; 0 if it is not one of a size class, or of cold objects.
fn class_at(page: usize, id: u32) -> usize {
    match pagemap::class_of(page) {
        HOLED => span::class_of_any(id),
        class if usize::from(class) < CLASSES => class.into(),
        _ => 0,
    }
}

/// Calls `visit` for each span on a hugepage, with the lock of its class.
fn for_spans(
    node: usize,
    spans: &HugeSpans,
    mut visit: impl FnMut(&mut Spans, usize, u32, &mut Span),
) {
    let first = spans.hugepage << HUGE_PAGES_SHIFT;
    let mut at = spans.used.find(0, true);
    while at < PAGES_PER_HUGE {
        let page = first + at;
        let id = pagemap::span_of(page);
        let class = if id == 0 { 0 } else { class_at(page, id) };
        let mut next = at + 1;
        if class != 0 {
            let mut all = CENTRAL[node][class].spans.lock();
            // Spans of the class come and go under its lock, in the pagemap too.
            if pagemap::span_of(page) == id && class_at(page, id) == class {
                // SAFETY: the span is live, of this class, whose lock is held.
                let span = unsafe { span::get(id) };
                next = span.page + span.pages as usize - first;
                visit(&mut all, class, id, span);
            }
        }
        at = spans.used.find(next.min(PAGES_PER_HUGE), true);
    }
}

/// The native pages of a span that are empty and no holes yet.
///
/// # Safety
/// The caller holds the lock of the span's class.
unsafe fn new_holes(span: &mut Span, class: usize, epoch: u16) -> u64 {
    if span.busy || span.free == 0 {
        return 0;
    }
    // SAFETY: as the caller promises.
    let (empty, (holes, noted)) = unsafe { (span.empty_natives(&TABLE[class]), span.holes()) };
    if noted == epoch {
        empty & !holes
    } else {
        empty
    }
}

/// Makes holes on a hugepage if the policy lets it be; native pages given back. `None` if the
/// system refuses.
fn release_in(node: usize, spans: &HugeSpans, policy: &ReleasePolicy, all: bool) -> Option<usize> {
    let mut natives = 0;
    for_spans(node, spans, |_, class, _, span| {
        // SAFETY: the lock of the class is held.
        natives += unsafe { new_holes(span, class, spans.epoch) }.count_ones() as usize;
    });
    let (mut made, mut more) = (0, true);
    while more {
        // What was begun is ended, whatever is left.
        let go_on = all || made > 0;
        let Some(release) = pageheap::begin_holes(node, spans, natives - made, policy, go_on)
        else {
            break;
        };
        let (now, full) = step(node, spans, &release)?;
        made += now;
        more = full && made < natives;
    }
    Some(made)
}

/// One step of that; the native pages given back, and whether there may be more. `None` if the
/// system refuses.
fn step(node: usize, spans: &HugeSpans, release: &HoleRelease) -> Option<(usize, bool)> {
    let (mut taken, mut count, mut map) = ([Taken::NONE; STEP_SPANS], 0, NativeMap::default());
    let mut natives = 0;
    for_spans(node, spans, |all, class, id, span| {
        if count == STEP_SPANS {
            return;
        }
        // SAFETY: the lock of the class is held.
        let holes = unsafe { new_holes(span, class, spans.epoch) };
        // SAFETY: as above.
        if holes != 0 && unsafe { span.may_have_holes() } {
            unlink(all, id, span);
            span.busy = true;
            map.add(span.page % PAGES_PER_HUGE, holes);
            taken[count] = Taken { id, class, holes };
            count += 1;
            natives += holes.count_ones() as usize;
        }
    });
    let succeeded = pageheap::end_holes(node, spans, release, &map, natives);
    let (mut empty, mut emptied) = ([0; STEP_SPANS], 0);
    for taken in &taken[..count] {
        if give_back(node, taken, succeeded, spans.epoch) {
            empty[emptied] = taken.id;
            emptied += 1;
        }
    }
    pageheap::end_step(node);
    pageheap::free_spans(&empty[..emptied], node);
    succeeded.then_some((natives, count == STEP_SPANS))
}

impl Taken {
    const NONE: Taken = Taken {
        id: 0,
        class: 0,
        holes: 0,
    };
}

/// Gives a span back to its list, with its holes; true if it has become empty meanwhile and is on
/// none.
fn give_back(node: usize, taken: &Taken, succeeded: bool, epoch: u16) -> bool {
    let info = &TABLE[taken.class];
    let mut spans = CENTRAL[node][taken.class].spans.lock();
    // SAFETY: a busy span stays, and the lock of its class is held.
    let span = unsafe { span::get(taken.id) };
    span.busy = false;
    // SAFETY: as above; there is room for holes since they were begun.
    unsafe {
        if succeeded {
            let (before, noted) = span.holes();
            let before = if noted == epoch { before } else { 0 };
            span.set_holes(before | taken.holes, epoch);
        }
        // Some calls may have succeeded.
        span.note_unmarked(info, taken.holes);
        note(span, taken.class, taken.id);
    }
    if span.free == info.objects {
        forget(&mut spans, span);
        spans.free -= u32::from(info.objects);
        return true;
    }
    relink(&mut spans, taken.id, span);
    false
}

/// Notes in the pagemap where free objects have no mark: a free there passes [`super::check`].
///
/// # Safety
/// The caller holds the lock of the span's class.
unsafe fn note(span: &Span, class: usize, id: u32) {
    // SAFETY: as the caller promises.
    let unmarked = unsafe { span.unmarked() };
    for index in 0..span.pages as usize {
        let holed = unmarked >> (index * NATIVES) & ((1 << NATIVES) - 1) != 0;
        let noted = if holed { HOLED } else { class as u8 };
        if pagemap::class_of(span.page + index) != noted {
            pagemap::set_page(span.page, index, noted, id);
        }
    }
}

/// Takes note that objects of a span are about to be handed out; whether they are to be marked
/// before by [`mark`]. `None`, with the objects free again, if they lie on holes that the hard
/// limit does not let be filled. The caller holds the lock of the class.
#[inline]
pub(super) fn refill(class: usize, id: u32, span: &mut Span, objects: &[usize]) -> Option<bool> {
    // SAFETY: as the caller promises.
    if unsafe { span.unmarked() } == 0 {
        return Some(false);
    }
    refill_holes(class, id, span, objects).then_some(true)
}

/// Marks objects free that no cache has yet and whose marks may have gone with their memory.
#[cold]
pub(super) fn mark(objects: &[usize]) {
    for &object in objects {
        // SAFETY: the caller has taken the objects out of their spans, and gives them to a cache
        // or to who takes the mark off.
        unsafe { freed::set(object) };
    }
}

#[cold]
fn refill_holes(class: usize, id: u32, span: &mut Span, objects: &[usize]) -> bool {
    // SAFETY: as the caller promises.
    let (holes, epoch) = unsafe { span.holes() };
    let (info, base) = (&TABLE[class], span.page << PAGE_SHIFT);
    let index = |object: usize| (object - base) / info.bytes as usize;
    let filled = objects.iter().fold(0, |all, &object| {
        all | span::natives_of(info, index(object))
    }) & holes;
    if filled != 0 && !pageheap::refill(span.page, filled.count_ones(), epoch) {
        let mut left = objects;
        while let Some(&object) = left.first() {
            // SAFETY: as the caller promises; the objects were taken from the span.
            let put = unsafe { span.marks(info, index(object)).put_run(info, left) };
            debug_assert!(put.is_ok());
            left = &left[put.unwrap_or(left.len())..];
        }
        return false;
    }
    // SAFETY: as the caller promises.
    unsafe {
        span.set_holes(holes & !filled, epoch);
        span.note_unmarked(info, 0);
        note(span, class, id);
    }
    true
}
