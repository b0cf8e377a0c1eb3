// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restartable sequences on x86-64.
//!
//! Each sequence announces itself in the area's `rseq_cs` and runs from label 66 to label 67; an
//! interrupted one continues at 88, which is marked by the signature that glibc registered, and
//! starts over at 65.

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

/// Pops up to `max` objects of the class into `out`, top first; how many.
///
/// # Safety
/// As for [`pop`]; `out` has room for `max` words.
pub unsafe fn pop_many(
    offset: isize,
    slabs: &Slabs,
    class: usize,
    out: *mut usize,
    max: usize,
) -> usize {
    let count: usize;
    // SAFETY: as the caller promises; the sequence ends in one store to the slab's header, and
    // what it wrote to `out` before an abort is written again.
    unsafe {
        asm!(
            ".pushsection __rseq_cs, \"aw\", @progbits",
            ".balign 32",
            "77:",
            ".long 0, 0",
            ".quad 66f, 67f - 66f, 88f",
            ".popsection",
            "65:",
            "xor {count:e}, {count:e}",
            "lea {slab}, [rip + 77b]",
            "mov qword ptr fs:[{offset} + 8], {slab}",
            "66:",
            "movzx {current:e}, word ptr fs:[{offset} + 4]",
            "mov {slab}, qword ptr [{slabs} + {current} * 8]",
            "test {slab}, {slab}",
            "je 67f",
            "movzx {current:e}, word ptr [{slab} + {class} * 8]",
            "movzx {count:e}, word ptr [{slab} + {class} * 8 + 2]",
            "neg {count}",
            "add {count}, {current}",
            "cmp {count}, {max}",
            "cmova {count}, {max}",
            "test {count}, {count}",
            "je 67f",
            "lea {slots}, [{slab} + {current} * 8 - 8]",
            "sub {current}, {count}",
            "xor {index:e}, {index:e}",
            "64:",
            "mov {object}, qword ptr [{slots}]",
            "mov qword ptr [{out} + {index} * 8], {object}",
            "sub {slots}, 8",
            "inc {index}",
            "cmp {index}, {count}",
            "jne 64b",
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
            out = in(reg) out,
            max = in(reg) max,
            count = out(reg) count,
            slab = out(reg) _,
            current = out(reg) _,
            slots = out(reg) _,
            index = out(reg) _,
            object = out(reg) _,
            options(nostack),
        );
    }
    count
}

/// Pushes the last objects of `objects` on the slab of this CPU, the last one first, as many as
/// its limit allows; how many. None of them may be in the slab.
///
/// # Safety
/// As for [`pop`].
pub unsafe fn push_many(offset: isize, slabs: &Slabs, class: usize, objects: &[usize]) -> usize {
    let count: usize;
    let end = objects.as_ptr_range().end;
    // SAFETY: as the caller promises; the sequence ends in one store to the slab's header. The
    // slots that are written before are above the top of the stack, where nobody reads.
    unsafe {
        asm!(
            ".pushsection __rseq_cs, \"aw\", @progbits",
            ".balign 32",
            "77:",
            ".long 0, 0",
            ".quad 66f, 67f - 66f, 88f",
            ".popsection",
            "65:",
            "xor {count:e}, {count:e}",
            "lea {slab}, [rip + 77b]",
            "mov qword ptr fs:[{offset} + 8], {slab}",
            "66:",
            "movzx {current:e}, word ptr fs:[{offset} + 4]",
            "mov {slab}, qword ptr [{slabs} + {current} * 8]",
            "test {slab}, {slab}",
            "je 67f",
            "movzx {current:e}, word ptr [{slab} + {class} * 8]",
            "movzx {count:e}, word ptr [{slab} + {class} * 8 + 4]",
            "sub {count}, {current}",
            "cmp {count}, {max}",
            "cmova {count}, {max}",
            "test {count}, {count}",
            "je 67f",
            "lea {slots}, [{slab} + {current} * 8]",
            "add {current}, {count}",
            "xor {index:e}, {index:e}",
            "64:",
            "mov {object}, qword ptr [{end} + {index} * 8 - 8]",
            "mov qword ptr [{slots}], {object}",
            "add {slots}, 8",
            "dec {index}",
            "mov {object}, {index}",
            "add {object}, {count}",
            "jne 64b",
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
            end = in(reg) end,
            max = in(reg) objects.len(),
            count = out(reg) count,
            slab = out(reg) _,
            current = out(reg) _,
            slots = out(reg) _,
            index = out(reg) _,
            object = out(reg) _,
            options(nostack),
        );
    }
    count
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
