// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process's page heaps, one for each NUMA node if the options ask for that and else one: spans
//! for the central free lists and large objects, the pagemap that describes them, and the release
//! of memory without the lock.

mod holes;
mod rebuild;

pub use holes::{
    NativeMap, begin_holes, end_holes, end_step, first_spans, fork_announce, next_spans, refill,
    wanted_holes,
};
pub use rebuild::{CollapseBudget, collapse, look, waits};

use crate::heap::eager;
use crate::heap::limit;
use crate::heap::pagemap;
use crate::heap::span;
use crate::heap::trace::{self, Kind};
use crate::heap::{HeapOptions, HeapSizes, PageHeap, ReleasePolicy, Sum};
use crate::os::lock::{ForkLock, Guard, Lock};
use crate::os::meta;
use crate::os::numa::{self, MAX_NODES};
use crate::os::sys::Idle;
use crate::os::vm::Vm;
use crate::os::vm::real::{HugeMode, RealVm};
use crate::size_class::TABLE;
use crate::units::{Density, HUGE_BYTES, HugeRange, PAGE_SHIFT, PAGES_PER_HUGE};

/// The heap with what belongs to it.
pub struct Pages {
    /// The page heap proper.
    pub heap: PageHeap<RealVm>,
    /// The recording of its calls, if one is running.
    pub trace: trace::Recorder,
    /// Steps begun under the lock whose system calls are made without it at present.
    steps_under_way: u32,
    /// A fork is being prepared: no step may begin.
    forking: bool,
    /// How memory goes back at once; not at all while a background thread sees to it.
    eager: Option<AtOnce>,
}

static PAGES: [Lock<Pages>; MAX_NODES] = [const {
    Lock::new(Pages {
        heap: PageHeap::new(RealVm::new()),
        trace: trace::Recorder::off(),
        steps_under_way: 0,
        forking: false,
        eager: None,
    })
}; MAX_NODES];

/// How memory goes back in the call that frees it.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce {
    /// What stays.
    pub policy: ReleasePolicy,
    /// Tells the time that [`PageHeap::note_idle`] takes; called without locks.
    pub idle: fn() -> Option<Idle>,
}

/// For the system calls of steps, which need neither lock nor state.
const CALLS: RealVm = RealVm::new();
/// A large object, as it was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Large {
    /// First byte of the span.
    pub address: usize,
    /// Whether its memory is known to be zero.
    pub zeroed: bool,
}

/// The heap of the first node, locked: the only one that is recorded.
pub fn lock() -> Guard<'static, Pages> {
    PAGES[0].lock()
}

/// The heaps in use.
fn heaps() -> &'static [Lock<Pages>] {
    &PAGES[..numa::nodes()]
}

/// Takes the locks before fork, each at a moment when no step of a release or collapse is under
/// way: its thread does not exist in the child, which could never end the step and would lose the
/// memory.
pub fn fork_prepare() {
    heaps().iter().for_each(shut_quiet);
}

fn shut_quiet(heap: &Lock<Pages>) {
    loop {
        heap.shut();
        // SAFETY: the lock is held.
        let pages = unsafe { &mut *heap.value_pointer() };
        pages.forking = true;
        if pages.steps_under_way == 0 {
            return;
        }
        // SAFETY: it was taken above, and `pages` is not used any more.
        unsafe { heap.open() };
        crate::os::lock::pause();
    }
}

/// Gives the locks back after fork.
///
/// # Safety
/// [`fork_prepare`] was called.
pub unsafe fn fork_done() {
    for heap in heaps().iter().rev() {
        // SAFETY: as the caller promises, the lock is held.
        unsafe {
            (*heap.value_pointer()).forking = false;
            heap.open();
        }
    }
}

/// Whether no step of a release or collapse is under way; the caller holds the locks by
/// [`fork_prepare`].
#[cfg(feature = "models")]
pub fn is_quiet() -> bool {
    // SAFETY: as the caller promises.
    let quiet = |heap: &Lock<Pages>| unsafe { (*heap.value_pointer()).steps_under_way == 0 };
    heaps().iter().all(quiet)
}

/// Whether nobody holds the lock of a heap.
pub fn is_free() -> bool {
    heaps().iter().all(Lock::is_free)
}

/// Applies options before the first allocation.
pub fn configure(mode: HugeMode, hugetlb_shift: u32, options: HeapOptions) {
    for (node, heap) in heaps().iter().enumerate() {
        let mut pages = heap.lock();
        let vm = pages.heap.vm_mut();
        vm.set_hugetlb(hugetlb_shift);
        vm.set_node(node);
        // Only the first heap begins small.
        vm.set_mode(match mode {
            HugeMode::ByNeed if node > 0 => HugeMode::Always,
            mode => mode,
        });
        pages.heap.configure(options);
    }
}

/// Sizes of the parts of all heaps together.
pub fn sizes() -> HeapSizes {
    let mut sum = HeapSizes::default();
    (0..numa::nodes()).for_each(|node| sum.include(&sizes_of(node)));
    sum
}

/// Sizes of the parts of a node's heap.
pub fn sizes_of(node: usize) -> HeapSizes {
    PAGES[node].lock().heap.sizes()
}

/// A new span for a size class on a node, of cold objects or of others; `None` if the system
/// refuses memory.
pub fn new_span(class: usize, node: usize, cold: bool) -> Option<u32> {
    let info = &TABLE[class];
    let len = usize::from(info.pages);
    let (density, noted) = if cold {
        (Density::COLD, pagemap::COLD)
    } else {
        (info.density(), class as u8)
    };
    let mut pages = PAGES[node].lock();
    let page = pages.allocate(len, 1, density)?;
    let id = if pagemap::prepare(page, len, node) {
        span::create(page, len, class as u8, info.objects.into())
    } else {
        None
    };
    let Some(id) = id else {
        pages.free(page, len);
        return None;
    };
    pagemap::set_all(page, len, noted, id);
    Some(id)
}

/// Gives spans of a size class and a node back that hold no object any more, are on no list and not
/// in the pagemap.
pub fn free_spans(ids: &[u32], node: usize) {
    if ids.is_empty() {
        return;
    }
    let mut pages = PAGES[node].lock();
    for &id in ids {
        // SAFETY: the caller took the span off its lists and out of the pagemap, so it is the only
        // one that knows it.
        let (span, holes, epoch) = unsafe {
            let span = span::get(id);
            let (holes, epoch) = span.holes();
            (span, holes, epoch)
        };
        if holes != 0 {
            pages.heap.fill_holes(span.page, holes.count_ones(), epoch);
        }
        pages.free(span.page, span.pages as usize);
    }
    finish(pages, node);
    span::destroy(ids);
}

/// A large object of `len` pages on the caller's node whose address is a multiple of `align` pages;
/// `class` tells what to note in the pagemap.
pub fn new_large(len: usize, align: usize, class: u8) -> Option<Large> {
    let node = numa::current();
    let mut pages = PAGES[node].lock();
    let page = pages.allocate(len, align, Density::SPARSE)?;
    let zeroed = pages.heap.last_is_zero();
    let with_gaps = pages.heap.last_with_gaps();
    let id = if pagemap::prepare(page, len, node) {
        span::create(page, len, 0, 0)
    } else {
        None
    };
    let Some(id) = id else {
        pages.free(page, len);
        return None;
    };
    drop(pages);
    if let Some(start) = with_gaps {
        CALLS.set_huge(HugeRange { start, len: 1 }, false);
    }
    pagemap::set(page, class, id);
    Some(Large {
        address: page << PAGE_SHIFT,
        zeroed,
    })
}

/// The pages of the large object at `address`.
///
/// The caller owns the object.
pub fn large_pages(address: usize) -> usize {
    let id = pagemap::span_of(address >> PAGE_SHIFT);
    // SAFETY: the owner of the object is the only one to touch its span.
    unsafe { span::get(id) }.pages as usize
}

/// Frees a large object, whose page the caller has already taken out of the pagemap; `moved` if the
/// first [`movable_bytes`] of it have been moved away.
pub fn free_large(page: usize, id: u32, moved: bool) {
    // SAFETY: the caller removed the page's entry, so it is the only one that knows the span.
    let len = unsafe { span::get(id) }.pages as usize;
    span::destroy(&[id]);
    let node = pagemap::node_of(page);
    let mut pages = PAGES[node].lock();
    pages.note(Kind::Delete, page, len);
    if moved {
        pages.heap.free_moved(page, len);
    } else {
        pages.heap.free(page, len);
    }
    finish(pages, node);
}

/// Makes a large object longer or shorter where it lies; false if it has to stay as it is.
pub fn resize_large(address: usize, new_len: usize) -> bool {
    let page = address >> PAGE_SHIFT;
    // SAFETY: the owner of the object is the only one to touch its span.
    let span = unsafe { span::get(pagemap::span_of(page)) };
    let (len, node) = (span.pages as usize, pagemap::node_of(page));
    let mut pages = PAGES[node].lock();
    let grows = new_len > len;
    if new_len == len
        || !(grows && pages.heap.grow(page, len, new_len)
            || !grows && pages.heap.shrink(page, len, new_len))
    {
        return false;
    }
    if grows {
        if !pages.stays_in_limit() && pages.heap.shrink(page, new_len, len) {
            return false;
        }
        pages.note(Kind::Grow, page, new_len);
    }
    span.pages = new_len as u32;
    finish(pages, node);
    true
}

/// The bytes at the start of a large object that may be moved by moving its memory: hugepages of
/// its own, before any that it shares. The caller owns the object.
pub fn movable_bytes(address: usize) -> usize {
    let page = address >> PAGE_SHIFT;
    let len = large_pages(address);
    let whole = PAGES[pagemap::node_of(page)]
        .lock()
        .heap
        .is_whole(page, len);
    if whole {
        len / PAGES_PER_HUGE * HUGE_BYTES
    } else {
        0
    }
}

impl Pages {
    /// Begins a step whose system calls are made without the lock, unless a fork is prepared.
    fn begin<T>(&mut self, step: impl FnOnce(&mut PageHeap<RealVm>) -> Option<T>) -> Option<T> {
        if self.forking {
            return None;
        }
        let step = step(&mut self.heap)?;
        self.steps_under_way += 1;
        Some(step)
    }

    /// Ends a step that [`Pages::begin`] gave.
    fn end(&mut self, step: impl FnOnce(&mut PageHeap<RealVm>)) {
        step(&mut self.heap);
        self.steps_under_way -= 1;
    }

    fn allocate(&mut self, len: usize, align: usize, density: Density) -> Option<usize> {
        if !limit::allows(self.heap.in_use_pages().saturating_add(len)) {
            return None;
        }
        let page = self.heap.allocate_aligned(len, align, density)?;
        if !self.stays_in_limit() {
            self.heap.free(page, len);
            return None;
        }
        if self.trace.is_on() {
            let now_ns = self.heap.vm().now_ns();
            self.trace.allocate(now_ns, page, len, align, density);
        }
        Some(page)
    }

    /// Whether the heap, which has grown, is within the hard limit.
    fn stays_in_limit(&self) -> bool {
        let backed = self.heap.backed_pages();
        limit::note(backed, self.heap.in_use_pages());
        limit::allows(backed)
    }

    fn free(&mut self, page: usize, len: usize) {
        self.note(Kind::Delete, page, len);
        self.heap.free(page, len);
    }

    fn note(&mut self, kind: Kind, page: usize, len: usize) {
        if self.trace.is_on() {
            let now_ns = self.heap.vm().now_ns();
            self.trace.note(kind, now_ns, page, len);
        }
    }
}

/// Lets the heaps give memory back in the call that frees it, or not.
pub fn set_eager(at_once: Option<AtOnce>) {
    for heap in heaps() {
        heap.lock().eager = at_once;
    }
}

/// Gives the lock of a node's heap back and releases what the last call made superfluous.
fn finish(mut pages: Guard<'static, Pages>, node: usize) {
    while let Some(release) = pages.begin(PageHeap::begin_queued) {
        drop(pages);
        let succeeded = release.run(&CALLS);
        pages = PAGES[node].lock();
        pages.end(|heap| heap.end_release(release, succeeded));
    }
    let Some(AtOnce { policy, idle }) = pages.eager else {
        return;
    };
    if pages.heap.superfluous(&policy).is_none() {
        return;
    }
    if pages.heap.asks_idle() {
        drop(pages);
        let idle = idle();
        pages = PAGES[node].lock();
        pages.heap.note_idle(idle);
    }
    let excess = pages.heap.eager_pages(&policy);
    drop(pages);
    release_from(&PAGES[node], excess, &policy);
    eager::note_left();
}

/// Whether the use of a heap has dropped: see [`PageHeap::has_dropped`].
pub fn has_dropped(policy: &ReleasePolicy) -> bool {
    heaps()
        .iter()
        .any(|heap| heap.lock().heap.has_dropped(policy))
}

/// Lets the caches age and releases up to `limit` of the pages that the policy, which each heap is
/// held to, calls excess; pages released.
pub fn release_excess(policy: &ReleasePolicy, limit: usize) -> usize {
    let mut released = 0;
    for (node, heap) in heaps().iter().enumerate() {
        let mut pages = heap.lock();
        pages.heap.age();
        let excess = pages.heap.excess_pages(policy);
        finish(pages, node);
        let left = limit.saturating_sub(released);
        released += release_from(heap, excess.min(left), policy);
    }
    released
}

/// Releases up to `wanted` free pages; pages released.
pub fn release(wanted: usize, policy: &ReleasePolicy) -> usize {
    let mut released = 0;
    for heap in heaps() {
        released += release_from(heap, wanted.saturating_sub(released), policy);
    }
    released
}

fn release_from(heap: &Lock<Pages>, wanted: usize, policy: &ReleasePolicy) -> usize {
    let mut released = 0;
    while released < wanted {
        let left = wanted - released;
        let step = heap.lock().begin(|heap| heap.begin_release(left, policy));
        let Some(step) = step else { break };
        let succeeded = step.run(&CALLS);
        heap.lock().end(|heap| heap.end_release(step, succeeded));
        if !succeeded {
            break;
        }
        released += step.bytes() >> PAGE_SHIFT;
    }
    if released > 0 {
        meta::release_unused();
    }
    released
}
