// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restartable sequences in the area that glibc registers for every thread.
//!
//! A sequence reads the number of the CPU it runs on, works on that CPU's slab and ends in one
//! store. If the kernel interrupts it before that store - preemption, migration, a signal - it
//! continues at the abort handler, which starts over. So no lock and no atomic instruction is
//! needed. This file writes one field of the area, `rseq_cs`, which the ABI gives to the user code
//! that runs; the registration stays glibc's. (Linux `include/uapi/linux/rseq.h`, glibc 2.35 NEWS.)
//!
//! A slab is an array of 64-bit words. Word `class` is the header of that class: four 16-bit
//! numbers, of which three are used: current end of the stack, its begin and its limit, as word
//! indices into the slab.

use core::sync::atomic::AtomicPtr;

/// The header of one class in a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Index one above the top of the stack.
    pub current: u16,
    /// Index of the lowest slot.
    pub begin: u16,
    /// Index one above the highest slot that may be used at present.
    pub end: u16,
}

impl Header {
    /// The header as stored.
    pub const fn pack(self) -> u64 {
        self.current as u64 | (self.begin as u64) << 16 | (self.end as u64) << 32
    }

    /// The header from what is stored.
    pub const fn unpack(word: u64) -> Self {
        Header {
            current: word as u16,
            begin: (word >> 16) as u16,
            end: (word >> 32) as u16,
        }
    }
}

/// A slab of one CPU.
pub type Slab = u64;
/// Slabs by CPU number; null for a CPU without one. The CPU field of an area that is not registered
/// is -1 or -2, whose low 16 bits select the last entries, which stay null.
pub const MAX_CPUS: usize = 1 << 16;
/// The table of slabs.
pub type Slabs = [AtomicPtr<Slab>; MAX_CPUS];

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// Stored.
    Done,
    /// The stack is at its limit.
    Full,
    /// The word below is the same object: a double free, or chance.
    Suspect,
}

#[cfg(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(any(miri, feature = "models"))
))]
mod asm {
    use super::{Push, Slabs};
    use core::arch::asm;

    /// Pops an object of the class from the slab of this CPU; 0 if there is none.
    ///
    /// # Safety
    /// `offset` is the thread-pointer offset of a registered rseq area; slabs are valid or null.
    #[inline(always)]
    pub unsafe fn pop(offset: isize, slabs: &Slabs, class: usize) -> usize {
        let object: usize;
        // SAFETY: as the caller promises; the sequence ends in one store to the slab's header.
        unsafe {
            asm!(
                ".pushsection __rseq_cs, \"aw\", @progbits",
                ".balign 32",
                "77:",
                ".long 0, 0",
                ".quad 66f, 67f - 66f, 88f",
                ".popsection",
                "65:",
                "xor {object:e}, {object:e}",
                "lea {slab}, [rip + 77b]",
                "mov qword ptr fs:[{offset} + 8], {slab}",
                "66:",
                "movzx {current:e}, word ptr fs:[{offset} + 4]",
                "mov {slab}, qword ptr [{slabs} + {current} * 8]",
                "test {slab}, {slab}",
                "je 67f",
                "movzx {current:e}, word ptr [{slab} + {class} * 8]",
                "cmp {current:x}, word ptr [{slab} + {class} * 8 + 2]",
                "je 67f",
                "mov {object}, qword ptr [{slab} + {current} * 8 - 8]",
                "dec {current:e}",
                "mov word ptr [{slab} + {class} * 8], {current:x}",
                "67:",
                ".pushsection __rseq_failure, \"ax\", @progbits",
                ".byte 0x0f, 0xb9, 0x3d",
                ".long 0x53053053",
                "88:",
                "jmp 65b",
                ".popsection",
                offset = in(reg) offset,
                slabs = in(reg) slabs.as_ptr(),
                class = in(reg) class,
                object = out(reg) object,
                slab = out(reg) _,
                current = out(reg) _,
                options(nostack),
            );
        }
        object
    }

    /// Pushes an object of the class on the slab of this CPU.
    ///
    /// # Safety
    /// As for [`pop`].
    #[inline(always)]
    pub unsafe fn push(offset: isize, slabs: &Slabs, class: usize, object: usize) -> Push {
        let result: u32;
        // SAFETY: as the caller promises; the sequence ends in one store to the slab's header. The
        // slot that is written before is above the top of the stack, where nobody reads.
        unsafe {
            asm!(
                ".pushsection __rseq_cs, \"aw\", @progbits",
                ".balign 32",
                "77:",
                ".long 0, 0",
                ".quad 66f, 67f - 66f, 88f",
                ".popsection",
                "65:",
                "mov {result:e}, 1",
                "lea {slab}, [rip + 77b]",
                "mov qword ptr fs:[{offset} + 8], {slab}",
                "66:",
                "movzx {current:e}, word ptr fs:[{offset} + 4]",
                "mov {slab}, qword ptr [{slabs} + {current} * 8]",
                "test {slab}, {slab}",
                "je 68f",
                "movzx {current:e}, word ptr [{slab} + {class} * 8]",
                "cmp {current:x}, word ptr [{slab} + {class} * 8 + 4]",
                "je 68f",
                "cmp qword ptr [{slab} + {current} * 8 - 8], {object}",
                "je 87f",
                "mov qword ptr [{slab} + {current} * 8], {object}",
                "inc {current:e}",
                "mov word ptr [{slab} + {class} * 8], {current:x}",
                "67:",
                "xor {result:e}, {result:e}",
                "68:",
                ".pushsection __rseq_failure, \"ax\", @progbits",
                "87:",
                "mov {result:e}, 2",
                "jmp 68b",
                ".byte 0x0f, 0xb9, 0x3d",
                ".long 0x53053053",
                "88:",
                "jmp 65b",
                ".popsection",
                offset = in(reg) offset,
                slabs = in(reg) slabs.as_ptr(),
                class = in(reg) class,
                object = in(reg) object,
                result = out(reg) result,
                slab = out(reg) _,
                current = out(reg) _,
                options(nostack),
            );
        }
        match result {
            0 => Push::Done,
            1 => Push::Full,
            _ => Push::Suspect,
        }
    }

    /// Replaces the header of the class, if this CPU's slab is `expected` and the header `old`.
    ///
    /// # Safety
    /// As for [`pop`].
    pub unsafe fn replace_header(
        offset: isize,
        slabs: &Slabs,
        expected: *mut u64,
        class: usize,
        old: u64,
        new: u64,
    ) -> bool {
        let failed: u32;
        // SAFETY: as the caller promises; the sequence ends in one store to the slab's header.
        unsafe {
            asm!(
                ".pushsection __rseq_cs, \"aw\", @progbits",
                ".balign 32",
                "77:",
                ".long 0, 0",
                ".quad 66f, 67f - 66f, 88f",
                ".popsection",
                "65:",
                "mov {failed:e}, 1",
                "lea {slab}, [rip + 77b]",
                "mov qword ptr fs:[{offset} + 8], {slab}",
                "66:",
                "movzx {slab:e}, word ptr fs:[{offset} + 4]",
                "mov {slab}, qword ptr [{slabs} + {slab} * 8]",
                "cmp {slab}, {expected}",
                "jne 68f",
                "cmp qword ptr [{slab} + {class} * 8], {old}",
                "jne 68f",
                "mov qword ptr [{slab} + {class} * 8], {new}",
                "67:",
                "xor {failed:e}, {failed:e}",
                "68:",
                ".pushsection __rseq_failure, \"ax\", @progbits",
                ".byte 0x0f, 0xb9, 0x3d",
                ".long 0x53053053",
                "88:",
                "jmp 65b",
                ".popsection",
                offset = in(reg) offset,
                slabs = in(reg) slabs.as_ptr(),
                expected = in(reg) expected,
                class = in(reg) class,
                old = in(reg) old,
                new = in(reg) new,
                failed = out(reg) failed,
                slab = out(reg) _,
                options(nostack),
            );
        }
        failed == 0
    }

    /// The CPU number in the area of this thread: negative if it is not registered.
    ///
    /// # Safety
    /// `offset` is the thread-pointer offset of an rseq area.
    pub unsafe fn cpu(offset: isize) -> i32 {
        let cpu: i32;
        // SAFETY: reads one aligned word of the area.
        unsafe {
            asm!(
                "mov {cpu:e}, dword ptr fs:[{offset} + 4]",
                offset = in(reg) offset,
                cpu = out(reg) cpu,
                options(nostack, readonly, preserves_flags),
            );
        }
        cpu
    }

    /// The thread-pointer offset of glibc's area, if there is one of a usable size.
    pub fn glibc_area() -> Option<isize> {
        let (offset, size): (*const isize, *const u32);
        // SAFETY: loads two addresses from the global offset table; null for a symbol that the C
        // library does not have.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                ".weak __rseq_size",
                "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
                "mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]",
                offset = out(reg) offset,
                size = out(reg) size,
                options(nostack, pure, readonly, preserves_flags),
            );
        }
        if offset.is_null() || size.is_null() {
            return None;
        }
        // SAFETY: both are constants of the C library, set before any constructor runs.
        let (offset, size) = unsafe { (*offset, *size) };
        // SAFETY: a size other than zero says that the area exists.
        (size >= 20 && unsafe { cpu(offset) } >= 0).then_some(offset)
    }
}

/// Restartable sequences for the model checker: a sequence that was interrupted starts over, so
/// each is one step, before which the thread may move to another CPU.
#[cfg(feature = "models")]
mod asm {
    use super::{Header, Push, Slabs};
    use crate::models;
    use core::sync::atomic::{AtomicU64, Ordering};

    /// The slab of the CPU that the calling thread is on now; `None` without one.
    unsafe fn slab<'a>(slabs: &Slabs) -> Option<(*mut u64, &'a [AtomicU64])> {
        models::move_thread();
        let slab = slabs[models::cpu() as usize].load(Ordering::Acquire);
        if slab.is_null() {
            return None;
        }
        // SAFETY: slabs are arrays of at least this many atomic words and are never freed.
        let words = unsafe { core::slice::from_raw_parts(slab.cast(), models::SLAB_WORDS) };
        Some((slab, words))
    }

    /// Pops an object of the class from the slab of this CPU; 0 if there is none.
    ///
    /// # Safety
    /// Slabs are valid or null.
    pub unsafe fn pop(_offset: isize, slabs: &Slabs, class: usize) -> usize {
        // SAFETY: as the caller promises.
        let Some((_, words)) = (unsafe { slab(slabs) }) else {
            return 0;
        };
        let mut header = Header::unpack(words[class].load(Ordering::Relaxed));
        if header.current == header.begin {
            return 0;
        }
        header.current -= 1;
        words[class].store(header.pack(), Ordering::Relaxed);
        words[usize::from(header.current)].load(Ordering::Relaxed) as usize
    }

    /// Pushes an object of the class on the slab of this CPU.
    ///
    /// # Safety
    /// As for [`pop`].
    pub unsafe fn push(_offset: isize, slabs: &Slabs, class: usize, object: usize) -> Push {
        // SAFETY: as the caller promises.
        let Some((_, words)) = (unsafe { slab(slabs) }) else {
            return Push::Full;
        };
        let mut header = Header::unpack(words[class].load(Ordering::Relaxed));
        if header.current == header.end {
            return Push::Full;
        }
        let current = usize::from(header.current);
        if words[current - 1].load(Ordering::Relaxed) == object as u64 {
            return Push::Suspect;
        }
        words[current].store(object as u64, Ordering::Relaxed);
        header.current += 1;
        words[class].store(header.pack(), Ordering::Relaxed);
        Push::Done
    }

    /// Replaces the header of the class, if this CPU's slab is `expected` and the header `old`.
    ///
    /// # Safety
    /// As for [`pop`].
    pub unsafe fn replace_header(
        _offset: isize,
        slabs: &Slabs,
        expected: *mut u64,
        class: usize,
        old: u64,
        new: u64,
    ) -> bool {
        // SAFETY: as the caller promises.
        match unsafe { slab(slabs) } {
            Some((slab, words)) if slab == expected => words[class]
                .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok(),
            _ => false,
        }
    }

    /// The CPU of the calling thread.
    ///
    /// # Safety
    /// None needed.
    pub unsafe fn cpu(_offset: isize) -> i32 {
        models::move_thread();
        models::cpu()
    }

    /// An area, if the model has one.
    pub fn glibc_area() -> Option<isize> {
        Some(1)
    }
}

#[cfg(not(any(
    all(target_arch = "x86_64", target_os = "linux", not(miri)),
    feature = "models"
)))]
mod asm {
    use super::{Push, Slabs};

    /// Without an implementation for this machine nothing is ever popped.
    ///
    /// # Safety
    /// None needed.
    #[inline(always)]
    pub unsafe fn pop(_offset: isize, _slabs: &Slabs, _class: usize) -> usize {
        0
    }

    /// Without an implementation for this machine every stack is full.
    ///
    /// # Safety
    /// None needed.
    #[inline(always)]
    pub unsafe fn push(_offset: isize, _slabs: &Slabs, _class: usize, _object: usize) -> Push {
        Push::Full
    }

    /// Never succeeds.
    ///
    /// # Safety
    /// None needed.
    pub unsafe fn replace_header(
        _offset: isize,
        _slabs: &Slabs,
        _expected: *mut u64,
        _class: usize,
        _old: u64,
        _new: u64,
    ) -> bool {
        false
    }

    /// No CPU.
    ///
    /// # Safety
    /// None needed.
    pub unsafe fn cpu(_offset: isize) -> i32 {
        -1
    }

    /// No area.
    pub fn glibc_area() -> Option<isize> {
        None
    }
}

pub use asm::{cpu, glibc_area, pop, push, replace_header};
