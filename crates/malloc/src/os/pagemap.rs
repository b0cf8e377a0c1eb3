// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel tells of how it maps memory, and of what it could: `/proc/self/pagemap`, the
//! buddy allocator's free blocks, the setting of transparent hugepages. Nothing here allocates.

use crate::os::sys;

/// Log2 of the native pages of a hugepage.
const HUGE_ORDER: usize = 9;

/// `PAGEMAP_SCAN`, Linux 6.7: `_IOWR('f', 16, struct pm_scan_arg)` (`include/uapi/linux/fs.h`).
const PAGEMAP_SCAN: libc::Ioctl = 0xC060_6610_u32 as libc::Ioctl;
/// Mapped as a hugepage.
const PAGE_IS_HUGE: u64 = 1 << 6;

/// `struct pm_scan_arg`.
#[repr(C)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `/proc/self/pagemap`, open.
pub struct PageMap {
    fd: i32,
}

impl PageMap {
    /// Opens the file; `None` without it. Keeps errno.
    pub fn open() -> Option<PageMap> {
        let saved = sys::errno();
        let (name, flags) = (c"/proc/self/pagemap", libc::O_RDONLY | libc::O_CLOEXEC);
        // SAFETY: a C string.
        let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name.as_ptr(), flags) };
        sys::set_errno(saved);
        let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
        Some(PageMap { fd })
    }

    /// Whether a page of the range is mapped as a hugepage; `None` before Linux 6.7. Keeps errno.
    pub fn has_huge(&self, address: usize, bytes: usize) -> Option<bool> {
        let mut region = [0u64; 3];
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            flags: 0,
            start: address as u64,
            end: (address + bytes) as u64,
            walk_end: 0,
            vec: region.as_mut_ptr() as u64,
            vec_len: 1,
            max_pages: 0,
            category_inverted: 0,
            category_mask: PAGE_IS_HUGE,
            category_anyof_mask: 0,
            return_mask: PAGE_IS_HUGE,
        };
        let saved = sys::errno();
        // SAFETY: the kernel reads the argument, and writes its `walk_end` and one region.
        let found = unsafe { libc::ioctl(self.fd, PAGEMAP_SCAN, &raw mut argument) };
        sys::set_errno(saved);
        (found >= 0).then_some(found > 0)
    }
}

impl Drop for PageMap {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this object's own.
        unsafe { libc::syscall(libc::SYS_close, self.fd) };
    }
}

/// Whether the system gives hugepages to who asks: not where an administrator has turned them off,
/// which a collapse would not heed.
pub fn allows_hugepages() -> bool {
    let mut text = [0; 64];
    let name = c"/sys/kernel/mm/transparent_hugepage/enabled";
    sys::read_file(name, &mut text).is_some_and(|setting| !setting.contains("[never]"))
}

/// Free blocks of a hugepage's size in all zones; none without `/proc/buddyinfo`.
pub fn free_hugepages() -> usize {
    let mut text = [0; 4096];
    sys::read_file(c"/proc/buddyinfo", &mut text).map_or(0, blocks)
}

/// Blocks of a hugepage's size in the text of `/proc/buddyinfo`: `Node 0, zone Normal`, then the
/// number of free blocks of each order.
fn blocks(text: &str) -> usize {
    let in_zone = |line: &str| {
        let orders = line.split_ascii_whitespace().skip(4).enumerate();
        let large = orders.skip(HUGE_ORDER);
        large
            .filter_map(|(order, count)| Some(count.parse::<usize>().ok()? << (order - HUGE_ORDER)))
            .sum::<usize>()
    };
    text.lines().map(in_zone).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_hugepage_and_above_are_counted() {
        let text = "Node 0, zone      DMA      1 0 0 0 1 1 1 0     1      1      3\n\
                    Node 0, zone   Normal    995 5 2 9 7 5 3 1     1      2      0\n";
        assert_eq!(blocks(text), 1 + 2 * 3 + 2);
        assert_eq!((blocks(""), blocks("Node 0, zone")), (0, 0));
    }
}
