// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few operating-system calls that the allocator itself needs, none of which allocates.

use core::ffi::CStr;

use crate::units::{GIB, HUGE_BYTES, NATIVE_BYTES};

/// The calling thread's errno.
pub fn errno() -> i32 {
    // SAFETY: the pointer is the calling thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's errno.
pub fn set_errno(value: i32) {
    // SAFETY: the pointer is the calling thread's own errno.
    unsafe { *libc::__errno_location() = value }
}

/// Maps `bytes` of zeroed private memory at an address that is a multiple of `align` (a power of
/// two, at least the native page size). Keeps errno. Up to 1 GiB the mapping is not charged
/// (`MAP_NORESERVE`) where the overcommit mode allows it.
pub fn map_aligned(hint: usize, bytes: usize, align: usize) -> Option<usize> {
    let saved = errno();
    let result = map_aligned_inner(hint, bytes, align);
    set_errno(saved);
    result
}

/// Larger mappings are not made ahead of need, and the system is to refuse them as it refuses them
/// to glibc: without `MAP_NORESERVE` a mapping above all memory and swap fails.
const UNCHARGED_BYTES: usize = GIB;

fn map_at(hint: usize, bytes: usize) -> Option<usize> {
    let uncharged = if bytes <= UNCHARGED_BYTES + HUGE_BYTES {
        libc::MAP_NORESERVE
    } else {
        0
    };
    // SAFETY: a fresh anonymous mapping without MAP_FIXED replaces nothing.
    let address = unsafe {
        libc::mmap(
            hint as *mut libc::c_void,
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | uncharged,
            -1,
            0,
        )
    };
    (address != libc::MAP_FAILED).then_some(address as usize)
}

/// An address below which the system would map next; 0 if it maps nothing. Keeps errno.
pub fn free_address() -> usize {
    let saved = errno();
    let address = map_at(0, NATIVE_BYTES).unwrap_or(0);
    unmap(address, if address == 0 { 0 } else { NATIVE_BYTES });
    set_errno(saved);
    address
}

fn map_aligned_inner(hint: usize, bytes: usize, align: usize) -> Option<usize> {
    let first = map_at(hint, bytes)?;
    if first.is_multiple_of(align) {
        return Some(first);
    }
    unmap(first, bytes);
    let padded = bytes.checked_add(align)?;
    let base = map_at(0, padded)?;
    let aligned = base.next_multiple_of(align);
    unmap(base, aligned - base);
    unmap(aligned + bytes, base + padded - aligned - bytes);
    Some(aligned)
}

/// Maps `bytes` of zeroed private memory from the pool of HugeTLB pages of the given size, aligned
/// to it; `None` if the pool has not enough. The pages are reserved, so that none can be missing
/// when the memory is touched. Keeps errno.
pub fn map_hugetlb(bytes: usize, page_shift: u32) -> Option<usize> {
    let saved = errno();
    let size_flag = (page_shift as i32) << libc::MAP_HUGE_SHIFT;
    // SAFETY: a fresh anonymous mapping without MAP_FIXED replaces nothing.
    let address = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | size_flag,
            -1,
            0,
        )
    };
    set_errno(saved);
    (address != libc::MAP_FAILED).then_some(address as usize)
}

/// Unmaps a range that [`map_aligned`] gave and that nothing uses.
pub fn unmap(address: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller owns the range and gives it up.
        unsafe { libc::munmap(address as *mut libc::c_void, bytes) };
    }
}

/// Makes a range accessible or not; true on success. Keeps errno.
pub fn protect(address: usize, bytes: usize, accessible: bool) -> bool {
    let saved = errno();
    let protection = if accessible {
        libc::PROT_READ | libc::PROT_WRITE
    } else {
        libc::PROT_NONE
    };
    // SAFETY: the callers pass ranges of the allocator's own mappings that hold no live object.
    let result = unsafe { libc::mprotect(address as *mut libc::c_void, bytes, protection) };
    set_errno(saved);
    result == 0
}

/// The bytes of a native page of this kernel: 16 or 64 KiB on some arm64 machines.
pub fn native_bytes() -> usize {
    if cfg!(miri) {
        return NATIVE_BYTES;
    }
    // SAFETY: no preconditions; 0 if the kernel did not tell.
    let bytes = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
    if bytes == 0 { NATIVE_BYTES } else { bytes }
}

/// Gives the memory of a range back, which is zero afterwards; true on success. Where the kernel's
/// pages are larger, it would drop all of those in which the range begins or ends: there the range
/// is overwritten. Keeps errno.
pub fn drop_memory(address: usize, bytes: usize) -> bool {
    let (page, end) = (native_bytes(), address + bytes);
    let (first, last) = (address.next_multiple_of(page), end & !(page - 1));
    if first < last && !advise(first, last - first, libc::MADV_DONTNEED) {
        return false;
    }
    let edges = if first < last {
        [address..first, last..end]
    } else {
        [address..end, end..end]
    };
    for edge in edges {
        // SAFETY: the callers own the range, and no live object lies there.
        unsafe { core::ptr::write_bytes(edge.start as *mut u8, 0, edge.len()) };
    }
    true
}

/// `madvise`; true on success. Keeps errno.
pub fn advise(address: usize, bytes: usize, advice: i32) -> bool {
    try_advise(address, bytes, advice).is_ok()
}

/// The same. Keeps errno.
///
/// # Errors
/// What errno would be.
pub fn try_advise(address: usize, bytes: usize, advice: i32) -> Result<(), i32> {
    let saved = errno();
    // SAFETY: the callers pass ranges of the allocator's own mappings, and advice that either
    // keeps the contents or drops the contents of pages that hold no live object.
    let result = match unsafe { libc::madvise(address as *mut libc::c_void, bytes, advice) } {
        0 => Ok(()),
        _ => Err(errno()),
    };
    set_errno(saved);
    result
}

/// How many times 4 KiB of a hugepage are in memory. Keeps errno.
pub fn resident_pages(address: usize) -> usize {
    let saved = errno();
    let mut resident = [0u8; HUGE_BYTES / NATIVE_BYTES];
    // SAFETY: the kernel writes one byte for each page, of 4 KiB at least.
    unsafe {
        libc::mincore(
            address as *mut libc::c_void,
            HUGE_BYTES,
            resident.as_mut_ptr(),
        )
    };
    set_errno(saved);
    let pages: usize = resident.iter().map(|&page| usize::from(page & 1)).sum();
    pages * (native_bytes() / NATIVE_BYTES)
}

/// Linux 5.7, `include/uapi/linux/mman.h`.
const MREMAP_DONTUNMAP: i32 = 4;

/// Moves the memory of a range of private anonymous mappings to another, of which the memory is
/// dropped. The old range stays mapped, without memory. False, with nothing changed, if the system
/// refuses; [`errno`] says why.
fn move_range(from: usize, to: usize, bytes: usize) -> bool {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | MREMAP_DONTUNMAP;
    // SAFETY: the callers own both ranges; what lies in the new one is not used.
    let moved = unsafe {
        libc::mremap(
            from as *mut libc::c_void,
            bytes,
            bytes,
            flags,
            to as *mut libc::c_void,
        )
    };
    moved != libc::MAP_FAILED
}

/// Moves `bytes`, a multiple of `unit`, from one range of the allocator's own memory to another
/// that does not overlap it. The old range is without memory afterwards. What the system does
/// not move is copied. Keeps errno.
pub fn move_memory(from: usize, to: usize, bytes: usize, unit: usize) {
    let saved = errno();
    if bytes > 0 && !move_range(from, to, bytes) {
        // The kernel moves no more than one mapping at a time, and does not say where it ends.
        if errno() == libc::EFAULT && bytes > unit {
            let half = bytes / 2 / unit * unit;
            move_memory(from, to, half, unit);
            move_memory(from + half, to + half, bytes - half, unit);
        } else {
            // SAFETY: two ranges of so many bytes, which the caller owns; the old one is given up.
            unsafe {
                core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes);
            }
            if !drop_memory(from, bytes) {
                // Locked memory. Whoever gets it next takes it for zero.
                // SAFETY: as above.
                unsafe { core::ptr::write_bytes(from as *mut u8, 0, bytes) };
            }
        }
    }
    set_errno(saved);
}

/// `MPOL_PREFERRED` (`include/uapi/linux/mempolicy.h`).
const MPOL_PREFERRED: i32 = 1;

/// Asks for memory of a NUMA node in a range that has none yet; true on success. Keeps errno.
pub fn prefer_node(address: usize, bytes: usize, node: u32) -> bool {
    let mut mask = [0u64; 16];
    let Some(word) = mask.get_mut(node as usize / 64) else {
        return false;
    };
    *word = 1 << (node % 64);
    let saved = errno();
    // SAFETY: the policy of a range changes no contents. The kernel reads one bit less than it is
    // told of, all of them in the mask.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            address,
            bytes,
            MPOL_PREFERRED,
            mask.as_ptr(),
            size_of_val(&mask) * 8,
            0,
        )
    };
    set_errno(saved);
    result == 0
}

/// The beginning of a file, as much as one call puts into the buffer; `None` if it cannot be read.
/// Keeps errno, and is no cancellation point.
pub fn read_bytes<'a>(name: &CStr, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
    let saved = errno();
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: a C string, and a buffer of the given length.
    let len = unsafe {
        let fd = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name.as_ptr(), flags, 0);
        let len = libc::syscall(libc::SYS_read, fd, bytes.as_mut_ptr(), bytes.len());
        if fd >= 0 {
            libc::syscall(libc::SYS_close, fd);
        }
        len
    };
    set_errno(saved);
    bytes.get(..usize::try_from(len).ok()?)
}

/// [`read_bytes`] of a file that is text.
pub fn read_file<'a>(name: &CStr, text: &'a mut [u8]) -> Option<&'a str> {
    core::str::from_utf8(read_bytes(name, text)?).ok()
}

/// Monotonic time in nanoseconds, from the coarse clock (a few nanoseconds to read; it moves once
/// a timer tick, which is exact enough for windows of seconds).
pub fn now_ns() -> u64 {
    read_clock_ns(libc::CLOCK_MONOTONIC_COARSE)
}

fn read_clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The time that one processor of a process was idle since some moment, as one of its threads sees
/// it; that of another thread is not to be compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// The thread that was asked.
    pub thread: usize,
    /// In nanoseconds. It falls while several processors are busy.
    pub idle_ns: i64,
}

/// Time in which the process neither ran, on any processor, nor the calling thread waited for one.
/// `None` if the system does not tell. Several system calls.
pub fn idle() -> Option<Idle> {
    let mut waited_ns = waited_for_processor_ns()?;
    // If the thread has to wait between the calls, they do not belong together.
    for _ in 0..4 {
        let now_ns = read_clock_ns(libc::CLOCK_MONOTONIC) as i64;
        let ran_ns = read_clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) as i64;
        let waited_before_ns = core::mem::replace(&mut waited_ns, waited_for_processor_ns()?);
        if waited_before_ns == waited_ns {
            // SAFETY: no preconditions.
            let thread = unsafe { libc::pthread_self() } as usize;
            let idle_ns = now_ns - ran_ns - waited_ns;
            return Some(Idle { thread, idle_ns });
        }
    }
    None
}

fn waited_for_processor_ns() -> Option<i64> {
    let mut text = [0; 64];
    // Time on a processor, time waiting for one, times on one: proc(5).
    let text = read_file(c"/proc/thread-self/schedstat", &mut text)?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// With pages of 16 KiB what lay beside a range was dropped with it.
    #[test]
    fn memory_is_dropped_to_the_byte() {
        let page = native_bytes();
        for (start, len) in [
            (0, page),
            (100, 3 * page),
            (100, 50),
            (page - 1, 2),
            (page, 0),
        ] {
            let base = map_aligned(0, 4 * page, page).unwrap();
            let bytes = base as *mut u8;
            // SAFETY: four pages of the test's own.
            let bytes = unsafe {
                core::ptr::write_bytes(bytes, 7, 4 * page);
                assert!(drop_memory(base + start, len));
                core::slice::from_raw_parts(bytes, 4 * page)
            };
            for (at, &byte) in bytes.iter().enumerate() {
                let dropped = (start..start + len).contains(&at);
                assert_eq!(byte, if dropped { 0 } else { 7 }, "byte {at}");
            }
            unmap(base, 4 * page);
        }
    }
}
