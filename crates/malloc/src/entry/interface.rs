// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C interface: malloc and everything that glibc offers beside it.
//!
//! Semantics are those of ISO C, POSIX and glibc's manual: a failure sets `errno` to `ENOMEM` or
//! `EINVAL`, a size of zero gives a unique object, and no function touches `errno` otherwise.

use crate::front;
use crate::os::sys::set_errno;
use crate::units::PAGE_BYTES;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

const NATIVE_PAGE: usize = crate::units::NATIVE_BYTES;
/// Larger objects cannot be: pointer differences are signed (ISO C 6.5.6).
const MAX_BYTES: usize = isize::MAX as usize;

#[cold]
fn out_of_memory() -> *mut c_void {
    set_errno(libc::ENOMEM);
    null_mut()
}

#[inline(always)]
fn result(address: usize) -> *mut c_void {
    if address == 0 {
        return out_of_memory();
    }
    address as *mut c_void
}

/// ISO C `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    front::allocate_or(bytes, |bytes| malloc_slow(bytes)) as *mut c_void
}

#[cold]
#[inline(never)]
extern "C" fn malloc_slow(bytes: usize) -> usize {
    let address = front::allocate_slow(bytes);
    if address == 0 {
        set_errno(libc::ENOMEM);
    }
    address
}

/// ISO C `free`.
///
/// # Safety
/// As ISO C says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(object: *mut c_void) {
    // SAFETY: as the caller promises.
    unsafe { front::free(object as usize) }
}

/// Old SunOS name of `free`.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(object: *mut c_void) {
    // SAFETY: as the caller promises.
    unsafe { front::free(object as usize) }
}

/// ISO C23 `free_sized`.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(object: *mut c_void, _bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { front::free(object as usize) }
}

/// ISO C23 `free_aligned_sized`.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(object: *mut c_void, _align: usize, _bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { front::free(object as usize) }
}

/// ISO C `calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    match count.checked_mul(bytes) {
        Some(total) if total <= MAX_BYTES => result(front::allocate_zeroed(total)),
        _ => out_of_memory(),
    }
}

/// ISO C `realloc`; a size of zero frees the object, as in glibc.
///
/// # Safety
/// As ISO C says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(object: *mut c_void, bytes: usize) -> *mut c_void {
    if bytes == 0 && !object.is_null() {
        // SAFETY: as the caller promises.
        unsafe { front::free(object as usize) };
        return null_mut();
    }
    // SAFETY: as the caller promises.
    result(unsafe { front::reallocate(object as usize, bytes) })
}

/// BSD `reallocarray`.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    object: *mut c_void,
    count: usize,
    bytes: usize,
) -> *mut c_void {
    match count.checked_mul(bytes) {
        // SAFETY: as the caller promises.
        Some(total) => unsafe { realloc(object, total) },
        None => out_of_memory(),
    }
}

fn aligned(align: usize, bytes: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        set_errno(libc::EINVAL);
        return null_mut();
    }
    if bytes > MAX_BYTES - align {
        return out_of_memory();
    }
    result(front::allocate_aligned(bytes, align))
}

/// ISO C `aligned_alloc`; like glibc, without asking that the size be a multiple of the alignment.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    aligned(align, bytes)
}

/// Old name of `aligned_alloc`; like glibc, rounds the alignment up to a power of two.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, bytes: usize) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => aligned(align, bytes),
        None => {
            set_errno(libc::EINVAL);
            null_mut()
        }
    }
}

/// POSIX `posix_memalign`.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    out: *mut *mut c_void,
    align: usize,
    bytes: usize,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    if bytes > MAX_BYTES - align {
        return libc::ENOMEM;
    }
    let saved = crate::os::sys::errno();
    let address = front::allocate_aligned(bytes, align);
    set_errno(saved);
    if address == 0 {
        return libc::ENOMEM;
    }
    // SAFETY: as the caller promises.
    unsafe { *out = address as *mut c_void };
    0
}

/// Page-aligned memory.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(bytes: usize) -> *mut c_void {
    aligned(NATIVE_PAGE, bytes)
}

/// Page-aligned memory of whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    match bytes.checked_next_multiple_of(NATIVE_PAGE) {
        Some(bytes) => aligned(NATIVE_PAGE, bytes.max(NATIVE_PAGE)),
        None => out_of_memory(),
    }
}

/// The bytes that an object may use.
///
/// # Safety
/// The object is live or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(object: *mut c_void) -> usize {
    front::usable_bytes(object as usize)
}

/// Gives free memory back to the system, but for `keep` bytes; 1 if some was given back.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(keep: usize) -> c_int {
    crate::front::start::ensure();
    c_int::from(crate::watch::upkeep::trim(keep / PAGE_BYTES))
}

/// glibc's `struct mallinfo2` (`malloc.h`), sizes in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Mallinfo2 {
    /// Memory of the heap but for large objects.
    pub arena: usize,
    /// Free chunks: not counted here.
    pub ordblks: usize,
    /// Not used.
    pub smblks: usize,
    /// Large objects' hugepages.
    pub hblks: usize,
    /// Memory of large objects.
    pub hblkhd: usize,
    /// Not used.
    pub usmblks: usize,
    /// Not used.
    pub fsmblks: usize,
    /// Memory in use.
    pub uordblks: usize,
    /// Free memory.
    pub fordblks: usize,
    /// Free memory that could be given back.
    pub keepcost: usize,
}

/// glibc's `mallinfo2`.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> Mallinfo2 {
    crate::front::start::ensure();
    let sizes = crate::heap::pageheap::sizes();
    let in_use = crate::watch::stats::bytes_in_use();
    let large = sizes.large_pages * PAGE_BYTES;
    let backed = sizes.backed_pages() * PAGE_BYTES;
    Mallinfo2 {
        arena: backed.saturating_sub(large),
        hblks: sizes.large_pages / crate::units::PAGES_PER_HUGE,
        hblkhd: large,
        uordblks: in_use,
        fordblks: backed.saturating_sub(in_use),
        keepcost: sizes.backed_pages().saturating_sub(sizes.used_pages) * PAGE_BYTES,
        ..Mallinfo2::default()
    }
}

/// glibc's `struct mallinfo`: the same in 32 bits, cut where a size does not fit.
#[repr(C)]
pub struct Mallinfo([c_int; 10]);

/// glibc's `mallinfo`.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> Mallinfo {
    let info = mallinfo2();
    let cut = |bytes: usize| c_int::try_from(bytes).unwrap_or(c_int::MAX);
    let Mallinfo2 {
        arena,
        hblks,
        hblkhd,
        uordblks,
        fordblks,
        keepcost,
        ..
    } = info;
    Mallinfo(
        [
            arena, 0, 0, hblks, hblkhd, 0, 0, uordblks, fordblks, keepcost,
        ]
        .map(cut),
    )
}

/// glibc's `mallopt`: `M_TRIM_THRESHOLD` sets what is kept of free memory; the parameters that have
/// no meaning here are accepted; unknown ones give 0.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: c_int, value: c_int) -> c_int {
    const M_TRIM_THRESHOLD: c_int = -1;
    match parameter {
        M_TRIM_THRESHOLD if value >= 0 => {
            crate::front::start::ensure();
            crate::watch::upkeep::set_keep_pages(value as usize / PAGE_BYTES);
            1
        }
        // M_ARENA_MAX (-8) to M_TRIM_THRESHOLD (-1), and M_MXFAST (1).
        -8..=-1 | 1 => 1,
        _ => 0,
    }
}

/// glibc's `malloc_stats`: statistics on stderr.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    crate::front::start::ensure();
    crate::watch::stats::write_text(2);
}

/// glibc's `malloc_info`: an XML document on a stream.
///
/// # Safety
/// `stream` is an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    let info = mallinfo2();
    let mut line = crate::os::report::Line::new();
    let _ = core::fmt::Write::write_fmt(
        &mut line,
        format_args!(
            "<malloc version=\"1\">\n<total type=\"rest\" count=\"0\" size=\"{}\"/>\n\
             <total type=\"mmap\" count=\"{}\" size=\"{}\"/>\n\
             <system type=\"current\" size=\"{}\"/>\n</malloc>\n",
            info.fordblks,
            info.hblks,
            info.hblkhd,
            info.arena + info.hblkhd
        ),
    );
    let bytes = line.as_bytes();
    // SAFETY: as the caller promises.
    let written = unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream) };
    if written == bytes.len() { 0 } else { -1 }
}

/// Writes the statistics to a file descriptor, as text or as one JSON object.
#[unsafe(no_mangle)]
pub extern "C" fn ample_malloc_stats(fd: c_int, json: c_int) {
    crate::front::start::ensure();
    crate::watch::dump::write(fd, json != 0);
}

/// Writes the heap profile to a file descriptor, in the text format of pprof.
#[unsafe(no_mangle)]
pub extern "C" fn ample_malloc_profile(fd: c_int) {
    crate::front::start::ensure();
    crate::watch::observe::write_profile(fd);
}

/// Gives up to `bytes` of free memory back to the system, breaking hugepages if need be; the bytes
/// given back.
#[unsafe(no_mangle)]
pub extern "C" fn ample_malloc_release(bytes: usize) -> usize {
    crate::front::start::ensure();
    crate::watch::upkeep::release(bytes / PAGE_BYTES) * PAGE_BYTES
}

/// Whether the address belongs to a live object of this allocator, as far as can be seen.
#[unsafe(no_mangle)]
pub extern "C" fn ample_malloc_owns(object: *const c_void) -> c_int {
    c_int::from(front::owns(object as usize))
}

/// Starts the background thread beside the first thread of the program.
///
/// # Safety
/// As POSIX says of `pthread_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    routine: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    use core::sync::atomic::{AtomicPtr, Ordering};
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let mut real = REAL.load(Ordering::Relaxed);
    if real.is_null() {
        let name: *const c_char = c"pthread_create".as_ptr();
        // SAFETY: a lookup by name.
        real = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
        if real.is_null() {
            return libc::EAGAIN;
        }
        REAL.store(real, Ordering::Relaxed);
    }
    // SAFETY: the C library's function of this name has this signature.
    let create =
        unsafe { core::mem::transmute::<*mut c_void, crate::watch::threads::Create>(real) };
    crate::front::start::ensure();
    crate::watch::threads::start_background(create);
    // SAFETY: as the caller promises.
    unsafe { create(thread, attributes, routine, argument) }
}

/// Runs when the library is loaded: what may not happen during the first allocation.
extern "C" fn loaded() {
    crate::front::start::ensure();
    crate::watch::dump::loaded();
    catch_own_panics();
}

/// A panic of the allocator itself (a broken invariant) may hold its locks, so that the usual
/// message, which allocates, would hang: it is one line and the end. The hook holds nothing, not
/// even the one before it, and so takes no memory: a program that allocates nothing has no heap.
fn catch_own_panics() {
    std::panic::set_hook(Box::new(|info| {
        let own = |place: &std::panic::Location<'_>| place.file().contains("malloc/src/");
        if info.location().is_some_and(own) {
            crate::os::report::corrupt(format_args!("internal error, please report: {info}"));
        }
        crate::os::report::warn(format_args!("{info}"));
    }));
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
