// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the C library tells of itself by symbols, some of which older ones and others lack.

/// The address that the dynamic linker found for a symbol, from the global offset table. With
/// `weak` in front 0 if there is none, else the library is not loaded.
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux",
    not(miri)
))]
macro_rules! symbol {
    (weak $name:literal) => {
        $crate::os::glibc::symbol!(@load concat!(".weak ", $name), $name)
    };
    ($name:literal) => {
        $crate::os::glibc::symbol!(@load "", $name)
    };
    (@load $directive:expr, $name:literal) => {{
        let address: usize;
        // SAFETY: loads an address from the global offset table.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                $directive,
                concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address,
                options(nostack, pure, readonly, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!(
                $directive,
                concat!("adrp {0}, :got:", $name),
                concat!("ldr {0}, [{0}, :got_lo12:", $name, "]"),
                out(reg) address,
                options(nostack, pure, readonly, preserves_flags),
            );
        }
        address
    }};
}

#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux",
    not(miri)
))]
pub(crate) use symbol;

#[cfg(any(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    not(target_os = "linux"),
    miri
))]
macro_rules! symbol {
    (weak $name:literal) => {
        0usize
    };
}

/// The byte that is not 0 while the process has one thread (glibc 2.32).
pub fn single_threaded() -> Option<u8> {
    let flag = symbol!(weak "__libc_single_threaded") as *const u8;
    // SAFETY: a byte of the C library.
    (!flag.is_null()).then(|| unsafe { flag.read_volatile() })
}

/// The thread-pointer offset of the area that is registered for restartable sequences (glibc 2.35),
/// if it is of a usable size: a size other than zero says that it exists.
pub fn rseq_offset() -> Option<isize> {
    let offset = symbol!(weak "__rseq_offset") as *const isize;
    let size = symbol!(weak "__rseq_size") as *const u32;
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: both are constants of the C library, set before any constructor runs.
    let (offset, size) = unsafe { (*offset, *size) };
    (size >= 20).then_some(offset)
}
