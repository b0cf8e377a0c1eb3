// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for the allocator's own metadata.
//!
//! Metadata never shares a page with user memory, comes from its own mappings and is never given
//! back, but for what is not in use yet. Tables are [`Pool`]s: items are named by 32-bit numbers
//! instead of pointers, which halves the size of every link and keeps the page heap free of raw
//! pointers.

use crate::os::lock::{ForkLock, Lock};
use crate::os::sys;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The first chunks stay small so that a small process pays for little.
const FIRST_CHUNK_BYTES: usize = 256 << 10;
/// Later chunks are whole hugepages: metadata is dense and hot, the best use of one.
const CHUNK_BYTES: usize = 2 << 20;
/// Chunks of a hugepage's size that stay native pages: a small heap begins a second one and touches
/// little of it.
const EARLY_CHUNKS: usize = 2;

struct Arena {
    next: usize,
    end: usize,
    /// From here to the end there was no memory when it was last given back.
    unbacked_from: usize,
}

/// The chunks of a hugepage's size that were mapped when the heap might yet stay small; 0 for none.
static EARLY: [AtomicUsize; EARLY_CHUNKS] = [const { AtomicUsize::new(0) }; EARLY_CHUNKS];
static ARENA: Lock<Arena> = Lock::new(Arena {
    next: 0,
    end: 0,
    unbacked_from: 0,
});
static MAPPED_BYTES: AtomicUsize = AtomicUsize::new(0);
static USED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Metadata in use and metadata mapped, in bytes.
pub fn usage_bytes() -> (usize, usize) {
    (
        USED_BYTES.load(Ordering::Relaxed),
        MAPPED_BYTES.load(Ordering::Relaxed),
    )
}

/// The lock to shut for a fork.
pub fn fork_lock() -> &'static dyn ForkLock {
    &ARENA
}

/// Zeroed memory that lives as long as the process, or `None` if the system has none.
pub fn allocate(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    let mut arena = ARENA.lock();
    let start = arena.next.next_multiple_of(align);
    if arena.next != 0 && start + bytes <= arena.end {
        arena.next = start + bytes;
        USED_BYTES.fetch_add(bytes, Ordering::Relaxed);
        return NonNull::new(start as *mut u8);
    }
    let mapped = MAPPED_BYTES.load(Ordering::Relaxed);
    let chunk = if mapped == 0 {
        FIRST_CHUNK_BYTES
    } else {
        CHUNK_BYTES
    };
    let exact = bytes.next_multiple_of(sys::native_bytes());
    let wanted = exact.max(chunk);
    let (base, size) = match map_chunk(wanted, mapped) {
        Some(base) => (base, wanted),
        // Near a limit of the address space the exact size may still be had.
        None => (map_chunk(exact, 0)?, exact),
    };
    MAPPED_BYTES.fetch_add(size, Ordering::Relaxed);
    USED_BYTES.fetch_add(bytes, Ordering::Relaxed);
    if size - bytes > arena.end - arena.next {
        arena.next = base + bytes;
        arena.end = base + size;
    }
    NonNull::new(base as *mut u8)
}

/// Gives back the memory of what is not used yet of the last chunk, which is a hugepage.
pub fn release_unused() {
    let (from, end) = {
        let mut arena = ARENA.lock();
        let from = arena.next.next_multiple_of(4096);
        if from >= arena.end || arena.unbacked_from == from {
            return;
        }
        let end = core::mem::replace(&mut arena.end, from);
        (from, end)
    };
    // Or khugepaged would fill it up again.
    sys::advise(from, end - from, libc::MADV_NOHUGEPAGE);
    sys::drop_memory(from, end - from);
    let mut arena = ARENA.lock();
    // Another thread may have begun a new chunk meanwhile: the address space is lost then.
    if arena.end == from {
        arena.end = end;
        arena.unbacked_from = from;
    }
}

/// Maps one chunk.
#[cfg(not(miri))]
fn map_chunk(bytes: usize, mapped: usize) -> Option<usize> {
    let align = if bytes >= CHUNK_BYTES {
        CHUNK_BYTES
    } else {
        4096
    };
    let base = sys::map_aligned(0, bytes, align)?;
    let early = EARLY.get(mapped / CHUNK_BYTES);
    if early.is_none() && bytes >= CHUNK_BYTES {
        sys::advise(base, bytes, libc::MADV_HUGEPAGE);
        return Some(base);
    }
    sys::advise(base, bytes, libc::MADV_NOHUGEPAGE);
    if let (Some(early), CHUNK_BYTES) = (early, bytes) {
        early.store(base, Ordering::Relaxed);
    }
    Some(base)
}

/// The addresses of the hugepages that begin metadata with native pages; 0 where there is none, and
/// from the second call on.
pub fn take_early_chunks() -> [usize; EARLY_CHUNKS] {
    EARLY
        .each_ref()
        .map(|chunk| chunk.swap(0, Ordering::Relaxed))
}

#[cfg(miri)]
fn map_chunk(bytes: usize, _mapped: usize) -> Option<usize> {
    let layout = std::alloc::Layout::from_size_align(bytes, 4096).ok()?;
    // SAFETY: the size is not zero.
    let base = unsafe { std::alloc::alloc_zeroed(layout) };
    (!base.is_null()).then(|| base.expose_provenance())
}

/// Types for which a block of zero bytes is a valid value.
///
/// # Safety
/// The all-zero bit pattern is valid, and dropping does nothing.
pub unsafe trait Zeroed {}

/// An item that can be on its pool's list of free items.
pub trait Linked {
    /// The word that links free items. The item is free whenever the pool uses it.
    fn free_link(&mut self) -> &mut u32;
}

/// Items per chunk of a pool.
const CHUNK_ITEMS: usize = 512;

/// A table of items named by numbers from 1; 0 names no item.
///
/// Items never move. `CHUNKS` bounds the table to `CHUNKS * 512` items; the table of chunks
/// is zero memory, of which a small process touches one page.
pub struct Pool<T, const CHUNKS: usize> {
    chunks: [AtomicPtr<T>; CHUNKS],
    /// Items ever handed out, and so the largest number in use.
    count: u32,
    free_head: u32,
    live: u32,
    marker: PhantomData<T>,
}

impl<T: Zeroed + Linked, const CHUNKS: usize> Default for Pool<T, CHUNKS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Zeroed + Linked, const CHUNKS: usize> Pool<T, CHUNKS> {
    /// An empty table.
    pub const fn new() -> Self {
        Pool {
            chunks: [const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNKS],
            count: 0,
            free_head: 0,
            live: 0,
            marker: PhantomData,
        }
    }

    /// Items in use.
    pub const fn live(&self) -> usize {
        self.live as usize
    }

    /// The largest number ever handed out.
    pub const fn last_id(&self) -> u32 {
        self.count
    }

    /// A new item, its memory zero or as the item was freed; `None` if there is no memory.
    pub fn allocate(&mut self) -> Option<u32> {
        if self.free_head != 0 {
            let id = self.free_head;
            self.free_head = core::mem::take(self[id].free_link());
            self.live += 1;
            return Some(id);
        }
        let index = self.count as usize;
        if index.is_multiple_of(CHUNK_ITEMS) {
            let slot = self.chunks.get(index / CHUNK_ITEMS)?;
            let bytes = size_of::<T>() * CHUNK_ITEMS;
            let chunk = allocate(bytes, align_of::<T>().max(64))?;
            slot.store(chunk.as_ptr().cast(), Ordering::Release);
        }
        self.count += 1;
        self.live += 1;
        Some(self.count)
    }

    /// Gives an item back.
    pub fn free(&mut self, id: u32) {
        *self[id].free_link() = self.free_head;
        self.free_head = id;
        self.live -= 1;
    }

    /// The address of an item that was handed out.
    #[inline]
    pub fn pointer(&self, id: u32) -> *mut T {
        let index = id.wrapping_sub(1) as usize;
        let chunk = self.chunks[index / CHUNK_ITEMS].load(Ordering::Acquire);
        assert!(
            !chunk.is_null(),
            "ample-malloc: item {id} was never handed out"
        );
        // SAFETY: the chunk holds CHUNK_ITEMS items and the offset is below that.
        unsafe { chunk.add(index % CHUNK_ITEMS) }
    }
}

impl<T: Zeroed + Linked, const CHUNKS: usize> core::ops::Index<u32> for Pool<T, CHUNKS> {
    type Output = T;
    #[inline]
    fn index(&self, id: u32) -> &T {
        // SAFETY: the item exists, is initialised (zeroed), and the pool is borrowed.
        unsafe { &*self.pointer(id) }
    }
}

impl<T: Zeroed + Linked, const CHUNKS: usize> core::ops::IndexMut<u32> for Pool<T, CHUNKS> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        // SAFETY: the item exists, is initialised (zeroed), and the pool is borrowed mutably.
        unsafe { &mut *self.pointer(id) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Item(u64, u32);
    // SAFETY: integers.
    unsafe impl Zeroed for Item {}
    impl Linked for Item {
        fn free_link(&mut self) -> &mut u32 {
            &mut self.1
        }
    }

    #[test]
    fn numbers_are_reused_and_items_stay_in_place() {
        let mut pool: Pool<Item, 8> = Pool::new();
        let ids: Vec<u32> = (0..1500).map(|_| pool.allocate().unwrap()).collect();
        for &id in &ids {
            assert_eq!(pool[id].0, 0);
            pool[id].0 = u64::from(id);
        }
        assert!(ids.iter().all(|&id| pool[id].0 == u64::from(id)));
        let place = pool.pointer(700);
        pool.free(700);
        assert_eq!(pool.live(), 1499);
        assert_eq!(pool.allocate(), Some(700));
        assert_eq!(pool.pointer(700), place);
    }

    #[test]
    fn a_full_table_says_so() {
        let mut pool: Pool<Item, 1> = Pool::new();
        for _ in 0..CHUNK_ITEMS {
            assert!(pool.allocate().is_some());
        }
        assert!(pool.allocate().is_none());
    }

    #[test]
    fn memory_is_zero_and_aligned() {
        for align in [8, 64, 4096] {
            let block = allocate(1000, align).unwrap();
            assert!(block.as_ptr().addr().is_multiple_of(align));
            // SAFETY: the block has 1000 bytes.
            let bytes = unsafe { core::slice::from_raw_parts(block.as_ptr(), 1000) };
            assert!(bytes.iter().all(|&byte| byte == 0));
        }
    }
}
