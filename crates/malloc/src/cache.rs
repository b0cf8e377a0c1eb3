// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caches of free objects in front of the central free lists: one slab per CPU, used through
//! restartable sequences; where the C library has registered none, slabs under locks that threads
//! are spread over.

mod all;

pub use all::{drain, for_each_sizes, fork_done, fork_prepare, holds};

use crate::central;
use crate::lock::{Guard, Lock};
use crate::meta;
use crate::rseq::{self, Header, MAX_CPUS, Push, Slabs};
use crate::size_class::{CLASSES, MAX_BATCH, TABLE};
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Slot words of all classes together.
pub(crate) const SLOTS: usize = {
    let (mut sum, mut class) = (0, 1);
    while class < CLASSES {
        sum += TABLE[class].slots as usize;
        class += 1;
    }
    sum
};
/// Words before the slots: one header per class, rounded up.
pub(crate) const HEADERS: usize = 128;
/// Memory that one CPU's slab may hold, in bytes, unless the options say otherwise.
pub const DEFAULT_BYTES: usize = 3 << 19;
/// Slabs that threads share where there are no restartable sequences.
const SHARDS: usize = 32;

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
    /// Requests that found the slab empty, and frees that found it full.
    underflows: AtomicU64,
    overflows: AtomicU64,
    /// Misses at the last look: an idle slab is one without new ones.
    seen: AtomicU64,
    cpu: AtomicU32,
    next: AtomicPtr<CpuSlab>,
}

/// Slabs by CPU, null for CPUs that have none or whose slab is parked.
static SLABS: Slabs = [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CPUS];
/// Thread-pointer offset of the rseq area for the fast path; 0 turns the fast path off.
static FAST_OFFSET: AtomicIsize = AtomicIsize::new(0);
/// The same for the slow path; 0 if there are no restartable sequences.
static OFFSET: AtomicIsize = AtomicIsize::new(0);
/// Guards the list of slabs, their creation and their parking.
static ADMIN: Lock<()> = Lock::new(());
static SLAB_LIST: AtomicPtr<CpuSlab> = AtomicPtr::new(core::ptr::null_mut());
static MAX_BYTES: AtomicUsize = AtomicUsize::new(DEFAULT_BYTES);

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

/// Turns restartable sequences on if the C library registered them and the kernel can fence them.
/// Called once.
pub fn start(max_bytes: usize, allow_rseq: bool, fast: bool) {
    MAX_BYTES.store(max_bytes, Ordering::Relaxed);
    if !allow_rseq {
        return;
    }
    let Some(offset) = rseq::glibc_area() else {
        return;
    };
    if membarrier(MEMBARRIER_REGISTER_RSEQ, 0, 0) {
        OFFSET.store(offset, Ordering::Release);
        set_fast(fast);
    }
}

/// Turns the fast path on or off: off sends every call through the slow path, where it is sampled
/// or checked.
pub fn set_fast(on: bool) {
    FAST_OFFSET.store(
        if on {
            OFFSET.load(Ordering::Acquire)
        } else {
            0
        },
        Ordering::Release,
    );
}

/// Whether per-CPU caches with restartable sequences are in use.
pub fn uses_rseq() -> bool {
    OFFSET.load(Ordering::Relaxed) != 0
}

/// `membarrier` commands (Linux 5.10, `include/uapi/linux/membarrier.h`).
const MEMBARRIER_RSEQ: i32 = 1 << 7;
const MEMBARRIER_REGISTER_RSEQ: i32 = 1 << 8;
const MEMBARRIER_FLAG_CPU: u32 = 1;

fn membarrier(command: i32, flags: u32, cpu: u32) -> bool {
    let saved = crate::sys::errno();
    // SAFETY: the call has no effect on memory contents.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) };
    crate::sys::set_errno(saved);
    result == 0
}

/// Pops from the slab of this CPU if the fast path is on; 0 otherwise.
#[inline(always)]
pub fn fast_pop(class: usize) -> usize {
    let offset = fast_offset();
    if offset == 0 {
        return 0;
    }
    // SAFETY: the offset is that of the registered area, slabs are never freed.
    unsafe { rseq::pop(offset, slabs(), class) }
}

/// Pushes on the slab of this CPU if the fast path is on; false if it was not done.
#[inline(always)]
pub fn fast_push(class: usize, object: usize) -> bool {
    let offset = fast_offset();
    if offset == 0 {
        return false;
    }
    // SAFETY: as for `fast_pop`.
    unsafe { rseq::push(offset, slabs(), class, object) == Push::Done }
}

/// `FAST_OFFSET`. The compiler would reach it through the global offset table, one load more.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn fast_offset() -> isize {
    let offset;
    // SAFETY: a relaxed load of an aligned word.
    unsafe {
        core::arch::asm!(
            "mov {offset}, qword ptr [rip + {word}]",
            offset = out(reg) offset,
            word = sym FAST_OFFSET,
            options(nostack, readonly, preserves_flags),
        );
    }
    offset
}

/// `&SLABS`, without the detour over the global offset table.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn slabs() -> &'static Slabs {
    let slabs: *const Slabs;
    // SAFETY: computes an address.
    unsafe {
        core::arch::asm!(
            "lea {slabs}, [rip + {table}]",
            slabs = out(reg) slabs,
            table = sym SLABS,
            options(nostack, pure, nomem, preserves_flags),
        );
    }
    // SAFETY: the address of a static.
    unsafe { &*slabs }
}

#[inline(always)]
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn fast_offset() -> isize {
    FAST_OFFSET.load(Ordering::Relaxed)
}

#[inline(always)]
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn slabs() -> &'static Slabs {
    &SLABS
}

impl CpuSlab {
    fn create(cpu: usize) -> Option<&'static CpuSlab> {
        let memory = meta::allocate(size_of::<CpuSlab>(), 4096)?;
        // SAFETY: zeroed memory of the right size and alignment, which is never freed; all fields
        // are atomics, for which zero is valid.
        let slab: &CpuSlab = unsafe { memory.cast().as_ref() };
        for (class, &begin) in BEGIN.iter().enumerate().skip(1) {
            let header = Header {
                current: begin,
                begin,
                end: begin,
            };
            slab.words[class].store(header.pack(), Ordering::Relaxed);
        }
        slab.cpu.store(cpu as u32, Ordering::Relaxed);
        Some(slab)
    }

    fn header(&self, class: usize) -> Header {
        Header::unpack(self.words[class].load(Ordering::Acquire))
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
        crate::lock::model_step();
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

    /// Pushes on a slab that nobody else can reach.
    fn push_owned(&self, class: usize, object: usize) -> Push {
        let mut header = self.header(class);
        if header.current == header.end {
            return Push::Full;
        }
        let top = self.words[usize::from(header.current) - 1].load(Ordering::Relaxed);
        if header.current > header.begin && top as usize == object {
            return Push::Suspect;
        }
        self.words[usize::from(header.current)].store(object as u64, Ordering::Relaxed);
        header.current += 1;
        self.words[class].store(header.pack(), Ordering::Release);
        Push::Done
    }
}

/// The slab that the calling thread works on at present: its CPU's, or a shared one under its lock.
enum Local {
    Cpu {
        offset: isize,
        slab: &'static CpuSlab,
    },
    Shared {
        slab: &'static CpuSlab,
        _guard: Guard<'static, Shard>,
    },
}

impl Local {
    /// The slab, created if need be; `None` without memory.
    fn get() -> Option<Local> {
        let offset = OFFSET.load(Ordering::Acquire);
        if offset != 0 {
            // SAFETY: the offset is that of the registered area.
            let cpu = unsafe { rseq::cpu(offset) };
            if cpu >= 0 {
                return Some(Local::Cpu {
                    offset,
                    slab: Self::of_cpu(cpu as usize)?,
                });
            }
        }
        let shard = shard_of_thread();
        let mut guard = SHARD[shard].lock();
        if guard.0.is_null() {
            guard.0 = CpuSlab::create(shard)?.pointer().cast();
        }
        // SAFETY: slabs are never freed.
        let slab = unsafe { &*guard.0 };
        Some(Local::Shared {
            slab,
            _guard: guard,
        })
    }

    fn of_cpu(cpu: usize) -> Option<&'static CpuSlab> {
        let entry = SLABS.get(cpu)?;
        let mut slab = entry.load(Ordering::Acquire);
        if slab.is_null() {
            let _admin = ADMIN.lock();
            slab = entry.load(Ordering::Acquire);
            if slab.is_null() {
                let created = CpuSlab::create(cpu)?;
                created
                    .next
                    .store(SLAB_LIST.load(Ordering::Relaxed), Ordering::Relaxed);
                slab = created.pointer();
                SLAB_LIST.store(slab.cast(), Ordering::Release);
                entry.store(slab, Ordering::Release);
            }
        }
        // SAFETY: slabs are never freed.
        Some(unsafe { &*slab.cast::<CpuSlab>() })
    }

    fn slab(&self) -> &'static CpuSlab {
        match self {
            Local::Cpu { slab, .. } | Local::Shared { slab, .. } => slab,
        }
    }

    fn pop(&self, class: usize) -> usize {
        match self {
            // SAFETY: the offset is that of the registered area, slabs are never freed.
            Local::Cpu { offset, .. } => unsafe { rseq::pop(*offset, &SLABS, class) },
            Local::Shared { slab, .. } => slab.pop_owned(class),
        }
    }

    fn push(&self, class: usize, object: usize) -> Push {
        match self {
            // SAFETY: as for `pop`.
            Local::Cpu { offset, .. } => unsafe { rseq::push(*offset, &SLABS, class, object) },
            Local::Shared { slab, .. } => slab.push_owned(class, object),
        }
    }

    /// Pops objects, top first, until `out` is full or none is left; how many.
    fn pop_many(&self, class: usize, out: &mut [usize]) -> usize {
        match self {
            Local::Cpu { offset, .. } => {
                let (first, max) = (out.as_mut_ptr(), out.len());
                // SAFETY: as for `pop`; the pointer and the length are those of `out`.
                unsafe { rseq::pop_many(*offset, &SLABS, class, first, max) }
            }
            Local::Shared { slab, .. } => slab.pop_many_owned(class, out),
        }
    }

    /// Pushes the last of the objects, which are in no slab, last first; how many.
    fn push_many(&self, class: usize, objects: &[usize]) -> usize {
        match self {
            // SAFETY: as for `pop`.
            Local::Cpu { offset, .. } => unsafe {
                rseq::push_many(*offset, &SLABS, class, objects)
            },
            Local::Shared { slab, .. } => {
                let fits = |object: &&usize| slab.push_owned(class, **object) == Push::Done;
                objects.iter().rev().take_while(fits).count()
            }
        }
    }

    fn replace_header(&self, class: usize, old: Header, new: Header) -> bool {
        match self {
            Local::Cpu { offset, slab } => {
                let (old, new) = (old.pack(), new.pack());
                // SAFETY: as for `pop`.
                unsafe { rseq::replace_header(*offset, &SLABS, slab.pointer(), class, old, new) }
            }
            Local::Shared { slab, .. } => {
                slab.words[class].store(new.pack(), Ordering::Release);
                true
            }
        }
    }

    /// Raises the limit of a class by up to a batch, within the slab's memory.
    fn grow(&self, class: usize) {
        let slab = self.slab();
        let info = &TABLE[class];
        let old = slab.header(class);
        let room = info.slots - (old.end - old.begin);
        let more = room.min(info.batch);
        let bytes = usize::from(more) * info.bytes as usize;
        if more == 0 {
            return;
        }
        let max = MAX_BYTES.load(Ordering::Relaxed);
        let held = slab.limit_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if held > max && !self.steal(class, held - max) {
            slab.limit_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return;
        }
        if !self.replace_header(
            class,
            old,
            Header {
                end: old.end + more,
                ..old
            },
        ) {
            slab.limit_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Lowers the limits of other classes until `bytes` are free; false if that took too long.
    fn steal(&self, for_class: usize, bytes: usize) -> bool {
        let slab = self.slab();
        let mut found = 0;
        for _ in 0..CLASSES {
            let class = 1 + slab.steal_at.fetch_add(1, Ordering::Relaxed) as usize % (CLASSES - 1);
            if class == for_class {
                continue;
            }
            let size = TABLE[class].bytes as usize;
            let old = slab.header(class);
            if old.end == old.begin {
                continue;
            }
            if old.end == old.current {
                self.evict(class, (old.end - old.begin).div_ceil(2).into());
            }
            let old = slab.header(class);
            let unused = old.end - old.current;
            let new = Header {
                end: old.end - unused,
                ..old
            };
            if unused > 0 && self.replace_header(class, old, new) {
                let freed = usize::from(unused) * size;
                slab.limit_bytes.fetch_sub(freed, Ordering::Relaxed);
                found += freed;
                if found >= bytes {
                    return true;
                }
            }
        }
        false
    }

    /// Moves up to `count` objects of a class to the central free list.
    fn evict(&self, class: usize, count: usize) {
        let mut objects = [0; MAX_BATCH];
        let taken = self.pop_many(class, &mut objects[..count.min(MAX_BATCH)]);
        central::put(class, &objects[..taken]);
    }
}

fn shard_of_thread() -> usize {
    // The threads of a model are coroutines of one thread.
    #[cfg(feature = "models")]
    let thread = crate::models::thread() << 6;
    // SAFETY: no preconditions.
    #[cfg(not(feature = "models"))]
    let thread = unsafe { libc::pthread_self() } as usize;
    (thread >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - SHARDS.ilog2())
}

/// An object of the class: from the slab or, with a batch for the slab, from the central free list;
/// 0 if the system refuses memory.
#[cold]
#[inline(never)]
pub fn pop_slow(class: usize) -> usize {
    let Some(local) = Local::get() else {
        let mut one = [0];
        central::take(class, &mut one);
        return one[0];
    };
    let object = local.pop(class);
    if object != 0 {
        return object;
    }
    let slab = local.slab();
    slab.underflows.fetch_add(1, Ordering::Relaxed);
    let header = slab.header(class);
    // A slow start: as much as the class was allowed to hold so far, so that a small process does
    // not fetch what it never needs.
    let held = usize::from(header.end - header.begin).max(1);
    let wanted = held.min(TABLE[class].batch.into()) + 1;
    let mut objects = [0; MAX_BATCH + 1];
    let count = central::take(class, &mut objects[..wanted]);
    if count == 0 {
        return 0;
    }
    local.grow(class);
    // The lowest address is used first.
    let kept = local.push_many(class, &objects[1..count]);
    if kept + 1 < count {
        central::put(class, &objects[1..count - kept]);
    }
    objects[0]
}

/// Takes an object back: on the slab or, with a batch of the slab, to the central free list.
#[cold]
#[inline(never)]
pub fn push_slow(class: usize, object: usize) {
    let Some(local) = Local::get() else {
        central::put(class, &[object]);
        return;
    };
    match local.push(class, object) {
        Push::Done => return,
        Push::Suspect if is_cached(&local, class, object) => {
            let bytes = TABLE[class].bytes;
            crate::report::corrupt(format_args!("double free of {object:#x} ({bytes} bytes)"));
        }
        Push::Suspect => {
            central::put(class, &[object]);
            return;
        }
        Push::Full => {}
    }
    local.slab().overflows.fetch_add(1, Ordering::Relaxed);
    local.grow(class);
    if local.push(class, object) == Push::Done {
        return;
    }
    let batch = usize::from(TABLE[class].batch);
    let mut objects = [0; MAX_BATCH];
    objects[0] = object;
    let count = 1 + local.pop_many(class, &mut objects[1..batch]);
    central::put(class, &objects[..count]);
}

/// Whether the object is the one that was freed last on this CPU. (The word below the lowest slot
/// belongs to another class and may hold anything.)
fn is_cached(local: &Local, class: usize, object: usize) -> bool {
    let slab = local.slab();
    let header = slab.header(class);
    header.current > header.begin
        && slab.words[usize::from(header.current) - 1].load(Ordering::Relaxed) == object as u64
}
