// SPDX-License-Identifier: MIT OR Apache-2.0
//! What glibc offers to look at its heap and to tune it.

use crate::units::PAGE_BYTES;
use core::ffi::c_int;

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
        keepcost: sizes.backed_pages().saturating_sub(sizes.in_use_pages()) * PAGE_BYTES,
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
    crate::watch::stats::write(2, crate::watch::stats::StatsForm::Text);
}

/// glibc's `malloc_info`: an XML document on a stream.
///
/// # Safety
/// `stream` is an open stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 {
        return libc::EINVAL;
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
