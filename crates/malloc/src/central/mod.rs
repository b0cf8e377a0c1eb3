// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shared for one size class by all CPUs, or by those of a NUMA node where the options ask
//! for that: the transfer cache, a short array of free objects on their way from one CPU to
//! another, and the central free list of all spans of the class.
//!
//! Objects that the program calls cold have a row of lists of their own, on the first node, and no
//! slabs: their spans lie on hugepages of their own, and a free finds them by what is noted of the
//! page.
//!
//! Objects are taken from the spans with the fewest free objects, so that the others drain and
//! their pages return to the page heap.

mod drain;
pub mod freed;
mod holes;
mod nodes;
mod wrong;

pub use drain::drain_transfer;
pub use holes::{HoleBudget, make_holes};
use wrong::{double_free, gone, inside};

use crate::heap::pageheap;
use crate::heap::pagemap;
use crate::heap::span::{self, SpanMarks};
use crate::os::lock::{ForkLock, Lock};
use crate::os::numa::{self, MAX_NODES};
use crate::size_class::{CLASSES, MAX_BATCH, TABLE};
use crate::units::PAGE_SHIFT;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Lists of spans by the logarithm of their free objects.
const LISTS: usize = 10;
const TRANSFER_SLOTS: usize = 2 * MAX_BATCH;

struct Spans {
    heads: [u32; LISTS],
    count: u32,
    /// Free objects in all spans.
    free: u32,
}

struct Transfer {
    count: u16,
    /// The fewest objects since the last look: those nobody needed.
    low: u16,
    objects: [usize; TRANSFER_SLOTS],
}

/// The shared state of one class on one node.
#[repr(align(64))]
pub struct Central {
    spans: Lock<Spans>,
    transfer: Lock<Transfer>,
    /// Batches that came from and went to other CPUs without touching a span.
    transfer_hits: AtomicU64,
}

/// The row of cold objects.
const COLD_ROW: usize = MAX_NODES;
/// Whether there ever was one: the row is not touched before.
static COLD_USED: AtomicBool = AtomicBool::new(false);
/// Taken for the first use, and shut for a fork, which knows the rows in use by it.
static COLD_FORK: Lock<()> = Lock::new(());

static CENTRAL: [[Central; CLASSES]; MAX_NODES + 1] = [const {
    [const {
        Central {
            spans: Lock::new(Spans {
                heads: [0; LISTS],
                count: 0,
                free: 0,
            }),
            transfer: Lock::new(Transfer {
                count: 0,
                low: 0,
                objects: [0; TRANSFER_SLOTS],
            }),
            transfer_hits: AtomicU64::new(0),
        }
    }; CLASSES]
}; MAX_NODES + 1];

/// The rows in use: one for each node, then that of cold objects.
fn rows() -> impl DoubleEndedIterator<Item = usize> {
    let cold = COLD_USED.load(Ordering::Acquire).then_some(COLD_ROW);
    (0..numa::nodes()).chain(cold)
}

/// The shared state of all classes, by row in use.
fn all() -> impl DoubleEndedIterator<Item = &'static Central> {
    rows().flat_map(|row| &CENTRAL[row])
}

/// The row of an object, by what is noted of its page.
fn row_of(object: usize) -> usize {
    let page = object >> PAGE_SHIFT;
    if pagemap::class_of(page) == pagemap::COLD {
        COLD_ROW
    } else {
        pagemap::node_of(page)
    }
}

/// The node that a row has its spans from.
const fn node_of_row(row: usize) -> usize {
    if row == COLD_ROW { 0 } else { row }
}

/// Sizes of one class's shared state.
#[derive(Clone, Copy, Debug, Default)]
pub struct CentralSizes {
    /// Spans of the class.
    pub spans: usize,
    /// Free objects in its spans.
    pub free_objects: usize,
    /// Free objects in its transfer cache.
    pub transfer_objects: usize,
    /// Batches served by the transfer cache.
    pub transfer_hits: u64,
}

/// Sizes of the shared state of a class, of all nodes together.
pub fn sizes(class: usize) -> CentralSizes {
    let mut sizes = CentralSizes::default();
    for central in rows().map(|row| &CENTRAL[row][class]) {
        {
            let spans = central.spans.lock();
            sizes.spans += spans.count as usize;
            sizes.free_objects += spans.free as usize;
        }
        sizes.transfer_objects += usize::from(central.transfer.lock().count);
        sizes.transfer_hits += central.transfer_hits.load(Ordering::Relaxed);
    }
    sizes
}

/// Whether nobody holds a lock of a class.
pub fn is_free() -> bool {
    all().all(|central| central.transfer.is_free() && central.spans.is_free())
}

/// Takes the locks of all classes before fork.
pub fn fork_prepare() {
    // A cold row that is first used while the fork is prepared would be opened and not shut.
    COLD_FORK.shut();
    for central in all() {
        central.transfer.shut();
        central.spans.shut();
    }
}

/// Gives the locks back after fork.
///
/// # Safety
/// [`fork_prepare`] was called.
pub unsafe fn fork_done() {
    for central in all().rev() {
        // SAFETY: as the caller promises.
        unsafe {
            central.spans.open();
            central.transfer.open();
        }
    }
    // SAFETY: as above.
    unsafe { COLD_FORK.open() };
}

/// The most objects that the transfer cache of a class may hold: two batches, but at most 32 KiB;
/// what lies there holds its spans fast.
fn transfer_limit(class: usize) -> usize {
    let info = &TABLE[class];
    (2 * usize::from(info.batch))
        .min(TRANSFER_SLOTS)
        .min((32 << 10) / info.bytes as usize)
}

/// A cold object of a class; 0 only if the system refuses memory.
pub fn take_cold(class: usize) -> usize {
    if !COLD_USED.load(Ordering::Acquire) {
        let _fork = COLD_FORK.lock();
        COLD_USED.store(true, Ordering::Release);
    }
    let mut one = [0];
    take(class, COLD_ROW, &mut one);
    one[0]
}

/// Gives a cold object back.
pub fn put_cold(class: usize, object: usize) {
    put_on(class, COLD_ROW, &[object]);
}

/// Takes up to `out.len()` objects of a node; fewer, or none, only if the system refuses memory.
pub fn take(class: usize, row: usize, out: &mut [usize]) -> usize {
    let central = &CENTRAL[row][class];
    let mut count;
    {
        let mut transfer = central.transfer.lock();
        let held = usize::from(transfer.count);
        count = held.min(out.len());
        out[..count].copy_from_slice(&transfer.objects[held - count..held]);
        transfer.count -= count as u16;
        transfer.low = transfer.low.min(transfer.count);
    }
    if count > 0 {
        central.transfer_hits.fetch_add(1, Ordering::Relaxed);
        return count;
    }
    let mut unmarked = false;
    let mut spans = central.spans.lock();
    while count < out.len() {
        let id = match spans.heads.iter().find(|&&head| head != 0) {
            Some(&id) => id,
            None => match add_span(&mut spans, class, row) {
                Some(id) => id,
                None => break,
            },
        };
        // SAFETY: the span is on a list of this class, whose lock is held.
        let span = unsafe { span::get(id) };
        // SAFETY: as above.
        let taken = unsafe { span.take(&mut out[count..], TABLE[class].bytes as usize) };
        let Some(marks) = holes::refill(class, id, span, &out[count..count + taken]) else {
            break;
        };
        unmarked |= marks;
        count += taken;
        spans.free -= taken as u32;
        relink(&mut spans, id, span);
    }
    drop(spans);
    if unmarked {
        holes::mark(&out[..count]);
    }
    count
}

/// Gives objects of a class back for other CPUs to take.
pub fn put(class: usize, objects: &[usize]) {
    nodes::split(objects, |node, objects| put_on(class, node, objects));
}

/// Gives objects of a class back that nobody waits for: straight to their spans, which the transfer
/// cache would keep in use.
pub fn put_away(class: usize, objects: &[usize]) {
    nodes::split(objects, |node, objects| put_in_spans(class, node, objects));
}

fn put_on(class: usize, row: usize, mut objects: &[usize]) {
    let central = &CENTRAL[row][class];
    {
        let mut transfer = central.transfer.lock();
        let room = transfer_limit(class).saturating_sub(transfer.count.into());
        let (kept, rest) = objects.split_at(room.min(objects.len()));
        let count = usize::from(transfer.count);
        transfer.objects[count..count + kept.len()].copy_from_slice(kept);
        transfer.count += kept.len() as u16;
        objects = rest;
    }
    if !objects.is_empty() {
        put_in_spans(class, row, objects);
    }
}

/// Gives objects of a row back to their spans, and spans that become empty to the page heap.
fn put_in_spans(class: usize, row: usize, objects: &[usize]) {
    for objects in objects.chunks(MAX_BATCH) {
        let mut touched = [0; MAX_BATCH];
        let mut spans = CENTRAL[row][class].spans.lock();
        let touched = &mut touched[..];
        let count = mark_free(class, objects, touched);
        let empty = settle(&mut spans, class, &mut touched[..count]);
        spans.free += objects.len() as u32;
        spans.free -= (empty * usize::from(TABLE[class].objects)) as u32;
        drop(spans);
        pageheap::free_spans(&touched[..empty], node_of_row(row));
    }
}

/// Marks objects free in their spans, which stay on the lists they are on; how many spans there
/// are, and which in `touched`. The caller holds the lock of the class.
fn mark_free(class: usize, objects: &[usize], touched: &mut [u32]) -> usize {
    let info = &TABLE[class];
    // Neighbours in a batch often come from two spans by turns.
    let (mut marks, mut before, mut count) = (SpanMarks::NONE, SpanMarks::NONE, 0);
    let mut left = objects;
    while let Some(&object) = left.first() {
        core::mem::swap(&mut marks, &mut before);
        if !marks.hold(object) {
            let (id, span, index) = locate(class, object);
            if !span.touched {
                span.touched = true;
                touched[count] = id;
                count += 1;
            }
            // SAFETY: the caller holds the lock of the class.
            marks = unsafe { span::marks_of(id, info, index) };
        }
        // SAFETY: as above.
        match unsafe { marks.put_run(info, left) } {
            Ok(run) => left = &left[run..],
            Err(at) => {
                locate(class, left[at]);
                double_free(class, left[at])
            }
        }
    }
    count
}

/// Moves spans to the lists where they belong now. Those that are empty are on none afterwards, and
/// the first of `touched`; how many.
fn settle(spans: &mut Spans, class: usize, touched: &mut [u32]) -> usize {
    let mut empty = 0;
    for at in 0..touched.len() {
        let id = touched[at];
        // SAFETY: a span of this class, whose lock the caller holds.
        let span = unsafe { span::get(id) };
        span.touched = false;
        if span.busy {
            continue;
        }
        if span.free == TABLE[class].objects {
            unlink(spans, id, span);
            forget(spans, span);
            touched[empty] = id;
            empty += 1;
        } else {
            relink(spans, id, span);
        }
    }
    empty
}

/// Takes an empty span out of the pagemap, so that nobody comes to it any more but the caller.
fn forget(spans: &mut Spans, span: &span::Span) {
    spans.count -= 1;
    pagemap::set_all(span.page, span.pages as usize, pagemap::NO_SPAN, 0);
}

/// Ends the process if `object` is not the start of an object of the class, or lies free in a
/// CPU's slab (`cached`, which the layer above knows), in the transfer cache or in its span.
pub fn check(class: usize, object: usize, cached: bool) {
    let central = &CENTRAL[row_of(object)][class];
    let cached = cached || {
        let transfer = central.transfer.lock();
        transfer.objects[..usize::from(transfer.count)].contains(&object)
    };
    let _spans = central.spans.lock();
    let (_, span, index) = locate(class, object);
    // SAFETY: the lock of the class is held; the index was checked.
    if cached || unsafe { span.is_free(index) } {
        double_free(class, object);
    }
}

/// The span of an object and its index there. The caller holds the lock of the class.
#[inline(always)]
fn locate<'a>(class: usize, object: usize) -> (u32, &'a mut span::Span, usize) {
    let id = pagemap::span_of(object >> PAGE_SHIFT);
    if id == 0 || span::class_of(id) != class {
        gone(object);
    }
    // SAFETY: the page belongs to a span of this class, whose lock is held.
    let span = unsafe { span::get(id) };
    match TABLE[class].object_at(object - (span.page << PAGE_SHIFT)) {
        Some(index) => (id, span, index),
        None => inside(class, object),
    }
}

/// The list of a span with `free` objects free: exact logarithm, so fullest spans come first.
fn list_of(free: u16) -> u8 {
    match free.checked_ilog2() {
        Some(log2) => (log2 as u8).min(LISTS as u8 - 1),
        None => span::UNLISTED,
    }
}

/// Moves a span to the list where it belongs, if it is not there.
#[inline]
fn relink(spans: &mut Spans, id: u32, span: &mut span::Span) {
    let list = list_of(span.free);
    if span.list == list {
        return;
    }
    unlink(spans, id, span);
    if list == span::UNLISTED {
        return;
    }
    let head = spans.heads[usize::from(list)];
    span.list = list;
    span.next = head;
    span.previous = 0;
    if head != 0 {
        // SAFETY: the head is on a list of this class, whose lock the caller holds, and is not
        // `span`, which is on none.
        unsafe { span::get(head) }.previous = id;
    }
    spans.heads[usize::from(list)] = id;
}

/// Takes a span off its list, if it is on one.
fn unlink(spans: &mut Spans, id: u32, span: &mut span::Span) {
    if span.list == span::UNLISTED {
        return;
    }
    let (next, previous) = (span.next, span.previous);
    if next != 0 {
        // SAFETY: neighbours on the list of a class whose lock the caller holds.
        unsafe { span::get(next) }.previous = previous;
    }
    if previous != 0 {
        // SAFETY: as above.
        unsafe { span::get(previous) }.next = next;
    } else {
        debug_assert_eq!(spans.heads[usize::from(span.list)], id);
        spans.heads[usize::from(span.list)] = next;
    }
    span.list = span::UNLISTED;
}

fn add_span(spans: &mut Spans, class: usize, row: usize) -> Option<u32> {
    let id = pageheap::new_span(class, node_of_row(row), row == COLD_ROW)?;
    // SAFETY: the span is new, and the lock of its class is held.
    let span = unsafe { span::get(id) };
    spans.count += 1;
    spans.free += u32::from(span.free);
    relink(spans, id, span);
    Some(id)
}

#[cfg(all(test, not(any(miri, feature = "models"))))]
mod tests;
