// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocating and freeing, as the C interface and the Rust allocator use it. Sizes are in bytes;
//! addresses are `usize`, 0 for none.

pub mod fork;
mod redzone;
pub mod start;

use crate::cache;
use crate::central;
use crate::central::freed;
use crate::heap::pageheap;
use crate::heap::pagemap::{self, COLD, GUARDED, HOLED, LARGE, NO_SPAN, PageEntry, SAMPLED};
use crate::heap::span;
use crate::os::lock::is_forking;
use crate::os::report::corrupt;
use crate::os::{panics, sys};
use crate::size_class::{
    MAX_SMALL_BYTES, MIN_ALIGN, TABLE, aligned_class_of, class_of, is_multiple, small_class_of,
};
use crate::units::{HUGE_BYTES, PAGE_BYTES, PAGE_SHIFT, pages_for};
use crate::watch::{observe, sparse, upkeep};

/// Memory of at least `bytes`, aligned to 16 bytes; 0 if there is none.
#[inline(always)]
pub fn allocate(bytes: usize) -> usize {
    match allocate_fast(bytes) {
        0 => allocate_slow(bytes),
        object => object,
    }
}

/// [`allocate`] as far as the slab of this CPU goes; 0 if [`allocate_slow`] is to be called.
#[inline(always)]
pub fn allocate_fast(bytes: usize) -> usize {
    let class = match small_class_of(bytes) {
        Some(class) => class,
        None if bytes <= MAX_SMALL_BYTES => class_of(bytes),
        None => return 0,
    };
    fast_pop(class, bytes)
}

/// An object from the slab of this CPU; 0 if that has none or a sample is due.
#[inline(always)]
fn fast_pop(class: usize, bytes: usize) -> usize {
    let object = cache::fast_pop(class, bytes);
    if object != 0 {
        // SAFETY: the slab gave it to nobody else.
        unsafe { freed::clear(object) };
    }
    object
}

/// [`allocate`] after the fast path failed.
#[cold]
#[inline(never)]
pub fn allocate_slow(bytes: usize) -> usize {
    if bytes <= MAX_SMALL_BYTES {
        return allocate_small_slow(class_of(bytes), bytes, MIN_ALIGN);
    }
    allocate_large(bytes, MIN_ALIGN, false).0
}

#[cold]
#[inline(never)]
fn allocate_small_slow(class: usize, bytes: usize, align: usize) -> usize {
    start::ensure();
    if observe::is_on()
        && let Some(address) = observe::allocate(bytes, align, allocate_sampled)
    {
        return address;
    }
    if start::guarded()
        && let Some(address) = crate::watch::guarded::allocate(bytes, align)
    {
        return address;
    }
    if start::checked() {
        return allocate_checked(bytes, align);
    }
    let object = pop_slow(class);
    if object != 0 {
        // SAFETY: the cache gave it to nobody else.
        unsafe { freed::clear(object) };
    }
    crate::watch::upkeep::tick();
    object
}

/// An object of a class whose slab is empty; 0 without memory.
fn pop_slow(class: usize) -> usize {
    let pop = || Some(cache::pop_slow(class)).filter(|&object| object != 0);
    upkeep::with_room(TABLE[class].pages.into(), pop).unwrap_or(0)
}

/// An object with a zone around it that shows what is written there.
fn allocate_checked(bytes: usize, align: usize) -> usize {
    let Some((class, lead)) = redzone::class_of(bytes, align) else {
        return allocate_large(bytes, align, false).0;
    };
    let slot = pop_slow(class);
    crate::watch::upkeep::tick();
    if slot == 0 {
        return 0;
    }
    let end = slot + TABLE[class].bytes as usize;
    // SAFETY: the cache gave the slot to nobody else.
    unsafe { redzone::begin(slot, slot + lead, bytes, end) };
    slot + lead
}

/// A span of its own; the address, and whether the memory is known to be zero.
#[cold]
#[inline(never)]
fn allocate_large(bytes: usize, align: usize, sampled: bool) -> (usize, bool) {
    start::ensure();
    if !sampled
        && observe::is_on()
        && let Some(address) = observe::allocate(bytes, align, allocate_sampled)
    {
        return (address, false);
    }
    let checked = start::checked() && !sampled;
    let (lead, needed) = if checked {
        redzone::large_slot(bytes, align)
    } else {
        (0, bytes.max(1))
    };
    let Some(len) = pages_for(needed) else {
        return (0, false);
    };
    let class = if sampled { SAMPLED } else { LARGE };
    let request = || pageheap::new_large(len, align.div_ceil(PAGE_BYTES), class);
    let large = upkeep::with_room(len, request);
    let (address, zeroed) = large.map_or((0, false), |large| (large.address, large.zeroed));
    if checked && address != 0 {
        let end = address + (len << PAGE_SHIFT);
        // SAFETY: the span is new.
        unsafe { redzone::begin(address, address + lead, bytes, end) };
    }
    if zeroed && bytes >= sparse::FROM_BYTES {
        sparse::begin(address, bytes);
    }
    crate::watch::upkeep::tick();
    match address {
        0 => (0, false),
        span => (span + lead, zeroed),
    }
}

/// An object in a span of its own that is noted in the heap profile.
fn allocate_sampled(bytes: usize, align: usize) -> usize {
    allocate_large(bytes, align, true).0
}

/// Memory whose address is a multiple of `align`, a power of two.
#[inline]
pub fn allocate_aligned(bytes: usize, align: usize) -> usize {
    if align <= MIN_ALIGN {
        return allocate(bytes);
    }
    if let Some(class) = aligned_class_of(bytes, align) {
        let object = fast_pop(class, bytes);
        if object != 0 {
            return object;
        }
        return allocate_small_slow(class, bytes, align);
    }
    if align > 1 << 40 {
        return 0;
    }
    allocate_large(bytes, align, false).0
}

/// Memory of the same kind that the program does not expect to use often: small objects lie apart
/// from all others.
#[cold]
pub fn allocate_cold(bytes: usize, align: usize) -> usize {
    start::ensure();
    let class = aligned_class_of(bytes, align.max(MIN_ALIGN));
    // A fork has shut the lists in use at that time.
    let Some(class) = class.filter(|_| !start::checked() && !is_forking()) else {
        return allocate_aligned(bytes, align);
    };
    if observe::is_on()
        && let Some(address) = observe::allocate(bytes, align, allocate_sampled)
    {
        return address;
    }
    let take = || Some(central::take_cold(class)).filter(|&object| object != 0);
    let object = upkeep::with_room(TABLE[class].pages.into(), take).unwrap_or(0);
    if object != 0 {
        // SAFETY: the list gave it to nobody else.
        unsafe { freed::clear(object) };
    }
    upkeep::tick();
    object
}

/// Zeroed memory.
#[inline]
pub fn allocate_zeroed(bytes: usize) -> usize {
    if bytes <= MAX_SMALL_BYTES {
        let address = allocate(bytes);
        if address != 0 {
            // SAFETY: the object is new and has at least `bytes` bytes.
            unsafe { core::ptr::write_bytes(address as *mut u8, 0, bytes) };
        }
        return address;
    }
    let (address, zeroed) = allocate_large(bytes, MIN_ALIGN, false);
    if address != 0 && !zeroed {
        // SAFETY: as above.
        unsafe { core::ptr::write_bytes(address as *mut u8, 0, bytes) };
    }
    address
}

/// Frees an object; 0 is allowed.
///
/// # Safety
/// The object is live and not used after this. (Most violations are noticed and end the process.)
#[inline(always)]
pub unsafe fn free(address: usize) {
    match pagemap::entry_in_window(address >> PAGE_SHIFT) {
        Some(entry) => free_noted(address, entry),
        None => free_outside(address),
    }
}

/// [`free`] beyond the window: in a heap above 32 GiB.
#[inline(never)]
extern "C" fn free_outside(address: usize) {
    free_noted(address, pagemap::entry_outside(address >> PAGE_SHIFT));
}

#[inline(always)]
fn free_noted(address: usize, entry: PageEntry) {
    let class = entry.class();
    if is_multiple(class, entry.offset(address)) {
        // SAFETY: an object of the class begins here, which the caller gives up; it is marked
        // before a cache may hand it out again.
        unsafe {
            if freed::set(address) {
                if cache::fast_push(class.into(), address) {
                    return;
                }
                freed::clear(address);
            }
        }
    }
    free_slow(address, entry);
}

#[cold]
#[inline(never)]
extern "C" fn free_slow(address: usize, entry: PageEntry) {
    if address == 0 {
        return;
    }
    match entry.class() {
        NO_SPAN if panics::bytes_from(address).is_some() => return,
        NO_SPAN => invalid(address),
        class @ (LARGE | SAMPLED) => free_large(address, class),
        GUARDED => crate::watch::guarded::free(address),
        COLD => free_cold(address, entry.offset(address)),
        HOLED => free_beside_holes(address, entry.offset(address)),
        class => free_small(address, class.into(), entry.offset(address)),
    }
    crate::watch::upkeep::tick();
}

// Inline although it is long: every free that misses its slab passes here.
#[inline(always)]
fn free_small(mut address: usize, class: usize, mut offset: usize) {
    if start::checked() {
        let (slot, _) = redzone::small(address, class, offset);
        offset -= address - slot;
        address = slot;
    }
    let begins = TABLE[class].object_at(offset).is_some();
    // SAFETY: an object begins there, which the caller gives up.
    let unmarked = begins && unsafe { freed::set(address) };
    if start::checked() || !unmarked {
        cache::check(class, address);
    }
    cache::push_slow(class, address);
}

/// Frees an object on a page of which a part was given back: no mark shows whether it is free.
#[cold]
#[inline(never)]
fn free_beside_holes(address: usize, offset: usize) {
    let class = span_class(address);
    if !start::checked() {
        central::check(class, address, false);
    }
    free_small(address, class, offset);
}

/// The size class of a live object, as its span knows it.
fn span_class(address: usize) -> usize {
    span::class_of(pagemap::span_of(address >> PAGE_SHIFT))
}

fn free_cold(address: usize, offset: usize) {
    let class = span_class(address);
    let begins = TABLE[class].object_at(offset).is_some();
    // SAFETY: an object begins there, which the caller gives up.
    if !begins || !unsafe { freed::set(address) } {
        central::check(class, address, false);
    }
    central::put_cold(class, address);
}

#[cold]
fn invalid(address: usize) -> ! {
    corrupt(format_args!(
        "invalid free of {address:#x}: freed before, or never allocated by this allocator"
    ))
}

/// Takes a large object out of the pagemap; its first page and its span.
fn take_out(address: usize) -> (usize, u32) {
    let page = address >> PAGE_SHIFT;
    sparse::end(page << PAGE_SHIFT);
    let id = pagemap::span_of(page);
    pagemap::set(page, NO_SPAN, 0);
    (page, id)
}

fn free_large(address: usize, class: u8) {
    if class == LARGE && start::checked() {
        redzone::large(address);
    } else if !address.is_multiple_of(PAGE_BYTES) {
        corrupt(format_args!(
            "invalid free of {address:#x}: inside a large object"
        ));
    }
    if class == SAMPLED {
        observe::forget(address);
    }
    let (page, id) = take_out(address);
    pageheap::free_large(page, id, false);
}

/// The bytes that the object may use; 0 for address 0.
#[inline]
pub fn usable_bytes(address: usize) -> usize {
    match pagemap::class_of(address >> PAGE_SHIFT) {
        NO_SPAN if address == 0 => 0,
        NO_SPAN => corrupt(format_args!(
            "size asked of {address:#x}, which was freed or never allocated by this allocator"
        )),
        LARGE if start::checked() => redzone::large(address),
        LARGE | SAMPLED => pageheap::large_pages(address) << PAGE_SHIFT,
        COLD => TABLE[span_class(address)].bytes as usize,
        HOLED if !start::checked() => TABLE[span_class(address)].bytes as usize,
        class @ ..GUARDED if start::checked() => {
            let offset = pagemap::entry(address >> PAGE_SHIFT).offset(address);
            let class = match class {
                HOLED => span_class(address),
                class => class.into(),
            };
            redzone::small(address, class, offset).1
        }
        GUARDED => crate::watch::guarded::usable_bytes(address),
        class => TABLE[usize::from(class)].bytes as usize,
    }
}

/// Whether the object is one that this allocator made and is live, as far as can be seen.
pub fn owns(address: usize) -> bool {
    pagemap::class_of(address >> PAGE_SHIFT) != NO_SPAN
}

/// From this size on the memory of an object that grows is moved, not its contents.
const MOVE_FROM_BYTES: usize = 4 << 20;

/// Moves a large object to a larger new one and frees it; false if its memory cannot be moved.
fn move_large(old: usize, new: usize) -> bool {
    let movable = pageheap::movable_bytes(old);
    if movable == 0
        || pagemap::class_of(new >> PAGE_SHIFT) != LARGE
        || pageheap::movable_bytes(new) < movable
        || crate::os::vm::real::hugetlb_bytes() > 0
    {
        return false;
    }
    sys::move_memory(old, new, movable, HUGE_BYTES);
    let rest = usable_bytes(old) - movable;
    let (from, to) = ((old + movable) as *const u8, (new + movable) as *mut u8);
    // SAFETY: both objects have at least so many bytes, and are distinct.
    unsafe { core::ptr::copy_nonoverlapping(from, to, rest) };
    let (page, id) = take_out(old);
    pageheap::free_large(page, id, true);
    crate::watch::upkeep::tick();
    true
}

/// Moves an object to `bytes` bytes, in place where possible; 0, with the object unchanged, if
/// there is no memory.
///
/// # Safety
/// `address` is 0 or a live object, which the caller gives up unless the result is 0.
pub unsafe fn reallocate(address: usize, bytes: usize) -> usize {
    if address == 0 {
        return allocate(bytes);
    }
    let old_bytes = usable_bytes(address);
    let checked = start::checked();
    // In place while the object fits and would not leave more than half unused.
    if !checked && bytes <= old_bytes && (bytes >= old_bytes / 2 || old_bytes <= 32) {
        return address;
    }
    if bytes < old_bytes {
        sparse::end(address);
    }
    let large =
        !checked && bytes > MAX_SMALL_BYTES && pagemap::class_of(address >> PAGE_SHIFT) == LARGE;
    if large
        && let Some(len) = pages_for(bytes)
        && pageheap::resize_large(address, len)
    {
        return address;
    }
    // Who grows an object once will grow it again: a quarter of room makes the copies few.
    let mut new = 0;
    if bytes > old_bytes && old_bytes >= 128 {
        new = allocate(bytes.max(old_bytes + old_bytes / 4));
    }
    if new == 0 {
        new = allocate(bytes);
    }
    if new == 0 {
        // A smaller object can stay where it is.
        return if bytes <= old_bytes { address } else { 0 };
    }
    if large && bytes > old_bytes && old_bytes >= MOVE_FROM_BYTES && move_large(address, new) {
        return new;
    }
    let copied = old_bytes.min(bytes);
    // SAFETY: both objects have at least the copied bytes, and the new one is distinct.
    unsafe {
        core::ptr::copy_nonoverlapping(address as *const u8, new as *mut u8, copied);
        free(address);
    }
    new
}
