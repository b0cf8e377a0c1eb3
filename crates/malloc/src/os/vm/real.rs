// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's virtual memory: anonymous mappings and `madvise`.

use super::{HugeBacking, Refusal, Vm};
use crate::os::batch::Batch;
use crate::os::lock::Lock;
use crate::os::numa;
use crate::os::pagemap::PageMap;
use crate::os::sys;
use crate::units::{GIB, HUGE_BYTES, HUGE_SHIFT, HugeRange};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The first chunk of address space: the part of the heap that is kept in native pages until the
/// heap has shown that it is not small.
pub const FIRST_CHUNK_BYTES: usize = 4 << 20;
/// Every further chunk is a sixteenth of what there is. In a program that locks its memory as it is
/// mapped (`mlockall`) a chunk that is larger than need be is memory lost.
const GROWTH_SHIFT: u32 = 4;
const LAST_CHUNK_BYTES: usize = GIB;
/// So far below the mappings of the program, which Linux makes from the top down, a heap begins: it
/// grows downwards too, and stays in one mapping.
const DISTANCE_BYTES: usize = 64 * GIB;

/// `MADV_COLLAPSE`, Linux 6.1; not in all libc headers.
const MADV_COLLAPSE: i32 = 25;

/// How the heap asks for hugepages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugeMode {
    /// Ask for them once the heap has outgrown its first chunk.
    ByNeed,
    /// Ask for them from the first byte.
    Always,
    /// Leave the system's setting alone.
    System,
    /// Ask for native pages only.
    Never,
}

/// Virtual memory of this process.
pub struct RealVm {
    mode: HugeMode,
    /// Bytes reserved, and the lowest of the last chunk.
    reserved: usize,
    lowest: usize,
    first_chunk: usize,
    /// log2 of the size of HugeTLB pages to use; 0 for none.
    hugetlb_shift: u32,
    /// The NUMA node whose memory is asked for.
    node: usize,
}

/// Held while the tables of this module change: each node's heap has its own lock.
static RESERVING: Lock<()> = Lock::new(());

/// Bytes of address space reserved, for the statistics.
static RESERVED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes of address space that the heap reserved from the system.
pub fn reserved_bytes() -> usize {
    RESERVED_BYTES.load(Ordering::Relaxed)
}

/// A range on HugeTLB pages; start 0 for an unused note.
struct Note {
    start: AtomicUsize,
    bytes: AtomicUsize,
}

/// Chunks grow to 1 GiB, so these are enough for a heap that is larger than most pools; beyond them
/// the heap goes on with other memory. Written under [`RESERVING`], read without.
static HUGETLB: [Note; 128] = [const {
    Note {
        start: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
    }
}; 128];

fn free_note() -> Option<&'static Note> {
    HUGETLB
        .iter()
        .find(|note| note.start.load(Ordering::Relaxed) == 0)
}

/// Bytes of the heap that lie on HugeTLB pages.
pub fn hugetlb_bytes() -> usize {
    HUGETLB
        .iter()
        .map(|note| note.bytes.load(Ordering::Relaxed))
        .sum()
}

/// Whether an address lies on HugeTLB pages.
fn is_hugetlb(address: usize) -> bool {
    HUGETLB
        .iter()
        .map_while(|note| match note.start.load(Ordering::Acquire) {
            0 => None,
            start => Some((start, note.bytes.load(Ordering::Relaxed))),
        })
        .any(|(start, bytes)| address.wrapping_sub(start) < bytes)
}

/// Whether the heap asks for hugepages now: not by option, and not while it is small.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Hugepages that were begun with native pages, before the heap outgrew its first chunk.
static NATIVE: [AtomicUsize; FIRST_CHUNK_BYTES / HUGE_BYTES] =
    [const { AtomicUsize::new(0) }; FIRST_CHUNK_BYTES / HUGE_BYTES];
/// From this much memory in the heap on, they are worth a collapse.
const COLLAPSE_FROM_BYTES: usize = 64 << 20;

/// Makes hugepages of what a heap began with that is large: `heap_bytes` have memory. To be called
/// without locks.
pub fn collapse_beginning(heap_bytes: impl FnOnce() -> usize) {
    if NATIVE[0].load(Ordering::Relaxed) == 0 || heap_bytes() < COLLAPSE_FROM_BYTES {
        return;
    }
    let heap = NATIVE
        .iter()
        .map(|hugepage| hugepage.swap(0, Ordering::Relaxed));
    for address in heap.chain(crate::os::meta::take_early_chunks()) {
        if address != 0 {
            sys::advise(address, HUGE_BYTES, libc::MADV_HUGEPAGE);
            sys::advise(address, HUGE_BYTES, MADV_COLLAPSE);
        }
    }
}

impl RealVm {
    /// Nothing reserved yet.
    pub const fn new() -> Self {
        RealVm {
            mode: HugeMode::ByNeed,
            reserved: 0,
            lowest: 0,
            first_chunk: 0,
            hugetlb_shift: 0,
            node: 0,
        }
    }

    /// Takes memory from this node. Before the first reservation.
    pub const fn set_node(&mut self, node: usize) {
        self.node = node;
    }

    /// Asks for HugeTLB pages of this size (log2); 0 for none. Before the first reservation.
    pub fn set_hugetlb(&mut self, shift: u32) {
        self.hugetlb_shift = shift;
    }

    /// A chunk from the HugeTLB pool: as large as a usual one if the pool has so much, else as
    /// small as possible. After the first refusal the pool is not asked again.
    fn reserve_hugetlb(&mut self, bytes: usize, min_bytes: usize) -> Option<HugeRange> {
        let shift = self.hugetlb_shift;
        let page_bytes = 1 << shift;
        for wanted in [bytes, min_bytes] {
            let wanted = wanted.next_multiple_of(page_bytes);
            let address = free_note().zip(sys::map_hugetlb(wanted, shift));
            if let Some((note, address)) = address {
                note.bytes.store(wanted, Ordering::Relaxed);
                note.start.store(address, Ordering::Release);
                numa::bind(address, wanted, self.node);
                RESERVED_BYTES.fetch_add(wanted, Ordering::Relaxed);
                return Some(HugeRange {
                    start: address >> HUGE_SHIFT,
                    len: wanted >> HUGE_SHIFT,
                });
            }
        }
        self.hugetlb_shift = 0;
        None
    }

    /// Chooses how hugepages are asked for; to be called before the first reservation.
    pub fn set_mode(&mut self, mode: HugeMode) {
        self.mode = mode;
    }

    /// How hugepages are asked for.
    pub const fn mode(&self) -> HugeMode {
        self.mode
    }

    fn advise_chunk(&self, address: usize, bytes: usize, first: bool) {
        match self.mode {
            HugeMode::System => {}
            HugeMode::Never => {
                sys::advise(address, bytes, libc::MADV_NOHUGEPAGE);
            }
            HugeMode::ByNeed if first => {
                sys::advise(address, bytes, libc::MADV_NOHUGEPAGE);
            }
            HugeMode::ByNeed | HugeMode::Always => {
                ASKED.store(true, Ordering::Relaxed);
                sys::advise(address, bytes, libc::MADV_HUGEPAGE);
            }
        }
    }
}

impl Default for RealVm {
    fn default() -> Self {
        Self::new()
    }
}

impl Vm for RealVm {
    fn reserve(&mut self, min_hugepages: usize) -> Option<HugeRange> {
        let _reserving = RESERVING.lock();
        let first = self.reserved == 0;
        let min_bytes = min_hugepages.checked_mul(HUGE_BYTES)?;
        if self.hugetlb_shift != 0 {
            // The pool is asked rarely: as many bytes again as there are.
            let bytes = self.reserved.clamp(FIRST_CHUNK_BYTES, LAST_CHUNK_BYTES);
            if let Some(range) = self.reserve_hugetlb(bytes.max(min_bytes), min_bytes) {
                self.reserved += range.bytes();
                return Some(range);
            }
        }
        let next = if first {
            self.lowest = sys::free_address().saturating_sub(DISTANCE_BYTES * (self.node + 1));
            FIRST_CHUNK_BYTES
        } else {
            (self.reserved >> GROWTH_SHIFT).next_multiple_of(HUGE_BYTES)
        };
        let wanted = next.min(LAST_CHUNK_BYTES).max(min_bytes);
        // Limits of the address space and strict overcommit may allow the least only.
        let (address, bytes) = [wanted, min_bytes].into_iter().find_map(|bytes| {
            let hint = self.lowest.saturating_sub(bytes) & !(HUGE_BYTES - 1);
            Some((sys::map_aligned(hint, bytes, HUGE_BYTES)?, bytes))
        })?;
        numa::bind(address, bytes, self.node);
        // A first request that is large does not show a small heap.
        let small = first && bytes == FIRST_CHUNK_BYTES;
        self.advise_chunk(address, bytes, small);
        if small {
            self.first_chunk = address;
        } else if self.first_chunk != 0 && self.mode == HugeMode::ByNeed {
            sys::advise(self.first_chunk, FIRST_CHUNK_BYTES, libc::MADV_HUGEPAGE);
            NATIVE[0].store(self.first_chunk, Ordering::Relaxed);
            NATIVE[1].store(self.first_chunk + HUGE_BYTES, Ordering::Relaxed);
            self.first_chunk = 0;
        }
        self.lowest = address;
        self.reserved += bytes;
        RESERVED_BYTES.fetch_add(bytes, Ordering::Relaxed);
        Some(HugeRange {
            start: address >> HUGE_SHIFT,
            len: bytes >> HUGE_SHIFT,
        })
    }

    fn unback(&self, address: usize, bytes: usize) -> bool {
        crate::os::lock::model_step();
        // A HugeTLB page that went back to the pool might not be there when it is touched again,
        // which would end the program.
        if is_hugetlb(address) {
            return false;
        }
        sys::drop_memory(address, bytes)
    }

    fn unback_all(&self, ranges: &mut dyn Iterator<Item = (usize, usize)>) -> bool {
        crate::os::lock::model_step();
        let (mut batch, mut allowed) = (Batch::new(), true);
        for (address, bytes) in ranges {
            // As in `unback`.
            if is_hugetlb(address) {
                allowed = false;
            } else {
                batch.add(address, bytes);
            }
        }
        batch.end() && allowed
    }

    fn set_huge(&self, range: HugeRange, huge: bool) -> bool {
        let advice = if huge {
            libc::MADV_HUGEPAGE
        } else {
            libc::MADV_NOHUGEPAGE
        };
        ASKED.load(Ordering::Relaxed) && sys::advise(range.address(), range.bytes(), advice)
    }

    fn collapse(&self, address: usize) -> Result<(), Refusal> {
        // What each error means: madvise_collapse_errno of Linux 6.12, mm/khugepaged.c.
        sys::try_advise(address, HUGE_BYTES, MADV_COLLAPSE).map_err(|errno| match errno {
            libc::ENOMEM | libc::EBUSY => Refusal::NoHugepage,
            libc::EAGAIN => Refusal::Busy,
            _ => Refusal::Unfit,
        })
    }

    fn look(&self, hugepages: &[usize], found: &mut [Option<HugeBacking>]) {
        if !ASKED.load(Ordering::Relaxed) {
            return;
        }
        let Some(pagemap) = PageMap::open() else {
            return;
        };
        for (hugepage, found) in hugepages.iter().zip(found) {
            let address = hugepage << HUGE_SHIFT;
            *found = pagemap
                .has_huge(address, HUGE_BYTES)
                .map(|huge| match huge {
                    true => HugeBacking::Huge,
                    false => HugeBacking::Native(sys::resident_pages(address)),
                });
        }
    }

    fn now_ns(&self) -> u64 {
        sys::now_ns()
    }
}
