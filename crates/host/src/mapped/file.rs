// SPDX-License-Identifier: MIT OR Apache-2.0
//! The frames of a file in the page cache: mapped, asked which pages are there (`mincore`), and
//! only these touched, so that nothing is read from the disk.

use super::{Collector, MappedRange};
use crate::{HostError, Root};
use ample_pfn::BASE_PAGE_BYTES;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::path::Path;

/// Bytes of a file mapped at a time.
const WINDOW_BYTES: u64 = 1 << 30;

unsafe extern "C" {
    /// `mincore(2)`: bit 0 of each byte of `resident` says whether the page is in memory.
    fn mincore(start: *mut c_void, bytes: usize, resident: *mut u8) -> c_int;
}

/// Takes in the cached pages of the file at `path`.
pub(super) fn collect(path: &Path, collector: &mut Collector) -> Result<(), HostError> {
    let io = |error: std::io::Error| HostError::io(path, error);
    let file = File::open(path).map_err(io)?;
    let about = file.metadata().map_err(io)?;
    if !about.is_file() {
        return Err(io(std::io::Error::other("not a regular file")));
    }
    let pagemap = Root::live().open("proc/self/pagemap")?;
    for start in (0..about.len()).step_by(WINDOW_BYTES as usize) {
        let bytes = WINDOW_BYTES.min(about.len() - start) as usize;
        window(&file, start, bytes, &pagemap, collector).map_err(io)?;
    }
    Ok(())
}

fn window(
    file: &File,
    start: u64,
    bytes: usize,
    pagemap: &File,
    collector: &mut Collector,
) -> std::io::Result<()> {
    let null = std::ptr::null_mut();
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let map = unsafe { mmap(null, bytes, ProtFlags::READ, MapFlags::SHARED, file, start) }?;
    let range = MappedRange {
        start: map as u64,
        end: (map as u64 + bytes as u64).next_multiple_of(BASE_PAGE_BYTES),
    };
    let mut resident = vec![0u8; bytes.div_ceil(BASE_PAGE_BYTES as usize)];
    // SAFETY: the range is exactly the mapping above, and the vector has a byte for each page.
    let result = match unsafe { mincore(map, bytes, resident.as_mut_ptr()) } {
        0 => {
            populate(map, &resident);
            collector.mapping(pagemap, range)
        }
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: exactly the mapping made above; nothing refers to it any more.
    let _ = unsafe { munmap(map, bytes) };
    result
}

/// Fills in the page tables for the pages that are cached. Those that have left the cache, or the
/// file, meanwhile are no loss.
fn populate(map: *mut c_void, resident: &[u8]) {
    let mut at = 0;
    for run in resident.chunk_by(|a, b| a & 1 == b & 1) {
        if run[0] & 1 == 1 {
            let (start, bytes) = (
                at * BASE_PAGE_BYTES as usize,
                run.len() * BASE_PAGE_BYTES as usize,
            );
            // SAFETY: the range lies inside the mapping of the caller; populating for reading
            // changes nothing that it holds.
            let _ = unsafe { madvise(map.byte_add(start), bytes, Advice::LinuxPopulateRead) };
        }
        at += run.len();
    }
}
