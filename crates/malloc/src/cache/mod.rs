// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caches of free objects in front of the central free lists: one slab per CPU, used through
//! restartable sequences; where the C library has registered none, slabs under locks that threads
//! are spread over.

mod all;
mod fence;
mod local;
pub mod rseq;
mod vfork;

pub use all::{
    check, count_down_from, drain, for_each_sizes, fork_child, fork_done, fork_prepare, is_free,
    look_soon, objects_of,
};
pub use fence::{allowed as unconfined, forbid as forbid_fences, register as register_fences};
pub use local::{count_down, drain_unused, look_later, pop_slow, push_slow};
pub use vfork::{begin as begin_vfork, end as end_vfork, restore as restore_fast};

use crate::near::{near, near_load};
use crate::os::lock::Lock;
use crate::os::meta;
use crate::os::numa::MAX_CPUS;
use crate::size_class::{CLASSES, TABLE};
use core::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use rseq::{Header, Slabs};

/// Slot words of all classes together.
const SLOTS: usize = {
    let (mut sum, mut class) = (0, 1);
    while class < CLASSES {
        sum += TABLE[class].slots as usize;
        class += 1;
    }
    sum
};
/// Words before the slots: one header and one guess at the top of the stack per class.
const HEADERS: usize = 2 * rseq::TOPS;
/// Memory that one CPU's slab may hold, in bytes, unless the options say otherwise.
pub const DEFAULT_BYTES: usize = 3 << 19;
/// Slabs that threads share where there are no restartable sequences.
const SHARDS: usize = 64;

/// First slot of each class.
const BEGIN: [u16; CLASSES] = {
    let mut begin = [0; CLASSES];
    let (mut at, mut class) = (HEADERS, 1);
    while class < CLASSES {
        begin[class] = at as u16;
        at += TABLE[class].slots as usize;
        class += 1;
    }
    begin
};

/// The slab of one CPU.
#[repr(C)]
struct CpuSlab {
    words: [AtomicU64; HEADERS + SLOTS],
    /// Bytes that the limits of all classes add up to.
    limit_bytes: AtomicUsize,
    /// Where the search for capacity to take from other classes goes on.
    steal_at: AtomicU32,
    /// Ends of the stacks at the last sweep, and the misses so far: a class whose stack ends where
    /// it did is not in use.
    swept: [AtomicU16; CLASSES],
    swept_at: AtomicU64,
    /// Requests that found the slab empty, and frees that found it full.
    underflows: AtomicU64,
    overflows: AtomicU64,
    /// Misses and the countdown at the last look, and whether that was set anew since after it had
    /// moved: an idle slab is one where nothing of it has changed.
    seen: AtomicU64,
    seen_left: AtomicU64,
    moved: AtomicBool,
    /// Whether a shared slab has served a call since the last look: its countdown tells of others.
    served: AtomicBool,
    /// Where the countdown began, and whether it is one to a sample.
    begun: AtomicU64,
    for_samples: AtomicBool,
    /// So many allocations more come by the slow path: see [`look_soon`].
    looks: AtomicU32,
    cpu: AtomicU32,
    /// NUMA node that it is filled from.
    node: AtomicU32,
    next: AtomicPtr<CpuSlab>,
}

/// Slabs by CPU, null for CPUs that have none or whose slab is parked.
static SLABS: Slabs = [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CPUS];
/// Thread-pointer offset of the rseq area for the fast path; 0 turns the fast path off.
pub(crate) static FAST_OFFSET: AtomicIsize = AtomicIsize::new(0);
/// Whether the fast path is on while there is no child of `vfork`: checked calls take the slow
/// path.
static WANTS_FAST: AtomicBool = AtomicBool::new(false);
/// The same as [`FAST_OFFSET`] for the slow path; 0 if there are no restartable sequences.
static OFFSET: AtomicIsize = AtomicIsize::new(0);
/// Guards the list of slabs, their creation and their parking.
static ADMIN: Lock<()> = Lock::new(());
static SLAB_LIST: AtomicPtr<CpuSlab> = AtomicPtr::new(core::ptr::null_mut());
static MAX_BYTES: AtomicUsize = AtomicUsize::new(DEFAULT_BYTES);
/// A countdown that no program ends.
const OUT_OF_REACH: u64 = 1 << 62;
/// Bytes from a round of upkeep to the first slow call that looks whether another is due.
const FIRST_BYTES: u64 = 512;
/// Bytes to the next look after a miss, at most: more than what eight misses bring of small
/// objects, so that a program that keeps missing looks no more often.
const AFTER_MISS_BYTES: u64 = 256 << 10;
/// Allocations of a CPU that look, each, once [`look_soon`] was called: more than what a program
/// still does before it waits.
const LOOKS: u32 = 64;
/// Each further look of a CPU before that round comes so many times later.
const LATER: u64 = 8;
/// Where the countdown of a new slab begins.
static COUNTDOWN: AtomicU64 = AtomicU64::new(FIRST_BYTES);

/// On lines of its own: locks of 16 bytes in a row made threads of different shards wait for each
/// other's lines.
#[repr(align(128))]
struct Shard(*mut CpuSlab);
// SAFETY: the slab is reached only through the shard's lock.
unsafe impl Send for Shard {}
static SHARD: [Lock<Shard>; SHARDS] = [const { Lock::new(Shard(core::ptr::null_mut())) }; SHARDS];

/// Sizes of one slab.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlabSizes {
    /// CPU, or number of the shared slab.
    pub index: usize,
    /// Free objects in the slab, in bytes.
    pub bytes: usize,
    /// Sum of the limits, in bytes.
    pub limit_bytes: usize,
    /// Requests that found the slab empty.
    pub underflows: u64,
    /// Frees that found the slab full.
    pub overflows: u64,
}

/// Turns restartable sequences on if the C library registered them. Called once.
pub fn start(max_bytes: usize, allow_rseq: bool, fast: bool) {
    MAX_BYTES.store(max_bytes, Ordering::Relaxed);
    if !allow_rseq {
        return;
    }
    let Some(offset) = rseq::glibc_area() else {
        return;
    };
    OFFSET.store(offset, Ordering::Release);
    WANTS_FAST.store(fast, Ordering::Relaxed);
    set_fast(fast);
}

/// Turns the fast path on or off: off sends every call through the slow path.
fn set_fast(on: bool) {
    let offset = if on {
        OFFSET.load(Ordering::Acquire)
    } else {
        0
    };
    FAST_OFFSET.store(offset, Ordering::Release);
}

/// Whether per-CPU caches with restartable sequences are in use.
pub fn uses_rseq() -> bool {
    OFFSET.load(Ordering::Relaxed) != 0
}

/// Pops an object for a request of `bytes` from the slab of this CPU if the fast path is on; 0
/// otherwise, and when a sample is due.
#[inline(always)]
pub fn fast_pop(class: usize, bytes: usize) -> usize {
    let offset = near_load!(FAST_OFFSET: isize);
    if offset == 0 {
        return 0;
    }
    let slabs = near!(SLABS: Slabs);
    // SAFETY: the offset is that of the registered area, slabs are never freed.
    unsafe { rseq::pop(offset, slabs, class, bytes) }
}

/// Pushes on the slab of this CPU if the fast path is on; false if it was not done.
#[inline(always)]
pub fn fast_push(class: usize, object: usize) -> bool {
    let offset = near_load!(FAST_OFFSET: isize);
    if offset == 0 {
        return false;
    }
    let slabs = near!(SLABS: Slabs);
    // SAFETY: as for `fast_pop`.
    unsafe { rseq::push(offset, slabs, class, object) }
}

impl CpuSlab {
    fn create(cpu: usize, node: usize) -> Option<&'static CpuSlab> {
        let memory = meta::allocate(size_of::<CpuSlab>(), 4096)?;
        // SAFETY: zeroed memory of the right size and alignment, which is never freed; all fields
        // are atomics, for which zero is valid.
        let slab: &CpuSlab = unsafe { memory.cast().as_ref() };
        slab.begin_countdown(COUNTDOWN.load(Ordering::Relaxed));
        for (class, &begin) in BEGIN.iter().enumerate().skip(1) {
            let header = Header {
                current: begin,
                begin,
                end: begin,
                credit: 0,
            };
            slab.words[class].store(header.pack(), Ordering::Relaxed);
        }
        slab.cpu.store(cpu as u32, Ordering::Relaxed);
        slab.node.store(node as u32, Ordering::Relaxed);
        Some(slab)
    }

    fn header(&self, class: usize) -> Header {
        Header::unpack(self.words[class].load(Ordering::Acquire))
    }

    fn node(&self) -> usize {
        self.node.load(Ordering::Relaxed) as usize
    }

    /// Begins the countdown of bytes on the fast path. A thread inside a sequence on that CPU may
    /// undo it.
    fn begin_countdown(&self, bytes: u64) {
        let left = self.words[0].load(Ordering::Relaxed);
        if self.seen_left.swap(bytes, Ordering::Relaxed) != left {
            self.moved.store(true, Ordering::Relaxed);
        }
        self.begun.store(bytes, Ordering::Relaxed);
        self.words[0].store(bytes, Ordering::Relaxed);
    }

    /// Whether nobody has allocated or missed here since the last call.
    fn was_idle(&self) -> bool {
        let (misses, left) = (self.misses(), self.words[0].load(Ordering::Relaxed));
        let missed = self.seen.swap(misses, Ordering::Relaxed) != misses;
        let taken = self.seen_left.swap(left, Ordering::Relaxed) != left;
        let moved = self.moved.swap(false, Ordering::Relaxed);
        !(missed || taken || moved)
    }

    /// The same of a shared slab, where frees count too.
    fn was_idle_shared(&self) -> bool {
        !self.served.swap(false, Ordering::Relaxed)
    }

    /// Requests and frees so far that the slab could not serve.
    fn misses(&self) -> u64 {
        self.underflows.load(Ordering::Relaxed) + self.overflows.load(Ordering::Relaxed)
    }

    fn pointer(&self) -> *mut u64 {
        core::ptr::from_ref(self).cast::<u64>().cast_mut()
    }

    fn sizes(&self) -> SlabSizes {
        let held = |class: usize| {
            let header = self.header(class);
            usize::from(header.current - header.begin) * TABLE[class].bytes as usize
        };
        SlabSizes {
            index: self.cpu.load(Ordering::Relaxed) as usize,
            bytes: (1..CLASSES).map(held).sum(),
            limit_bytes: self.limit_bytes.load(Ordering::Relaxed),
            underflows: self.underflows.load(Ordering::Relaxed),
            overflows: self.overflows.load(Ordering::Relaxed),
        }
    }

    /// Pops from a slab that nobody else can reach.
    fn pop_owned(&self, class: usize) -> usize {
        let mut header = self.header(class);
        if header.current == header.begin {
            return 0;
        }
        header.current -= 1;
        crate::os::lock::model_step();
        self.words[class].store(header.pack(), Ordering::Release);
        self.words[usize::from(header.current)].load(Ordering::Relaxed) as usize
    }

    /// Pops until `out` is full or the class empty, from a slab that nobody else can reach.
    fn pop_many_owned(&self, class: usize, out: &mut [usize]) -> usize {
        for (count, object) in out.iter_mut().enumerate() {
            *object = self.pop_owned(class);
            if *object == 0 {
                return count;
            }
        }
        out.len()
    }

    /// Gives up all objects in a slab that nobody else can reach.
    fn forget_all(&self) {
        for class in 1..CLASSES {
            let header = self.header(class);
            let empty = Header {
                current: header.begin,
                ..header
            };
            self.words[class].store(empty.pack(), Ordering::Release);
        }
    }

    /// Pushes on a slab that nobody else can reach; false if that is full.
    fn push_owned(&self, class: usize, object: usize) -> bool {
        let mut header = self.header(class);
        if header.current == header.end {
            return false;
        }
        self.words[usize::from(header.current)].store(object as u64, Ordering::Relaxed);
        header.current += 1;
        self.words[class].store(header.pack(), Ordering::Release);
        true
    }
}
