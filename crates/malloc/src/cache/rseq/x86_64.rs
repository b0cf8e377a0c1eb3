// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restartable sequences on x86-64.

use super::slab::{Slabs, TOPS};
use crate::os::glibc;
use core::arch::asm;

/// One restartable sequence. It announces itself in the area's `rseq_cs`, finds the slab of the CPU
/// that it runs on and runs `sequence`, from label 66 to label 67; an interrupted one continues at
/// 88, which is marked by the signature that glibc registered, and starts over at 65. `before` sets
/// the result for a sequence that does nothing, `after` follows the store that commits it, `aside`
/// holds rare branches, which are not restarted.
macro_rules! restartable {
    (
        $offset:expr, $slabs:expr, $class:expr;
        before: [$($before:literal),*],
        sequence: [$($sequence:literal),*],
        after: [$($after:literal),*],
        aside: [$($aside:literal),*],
        $($operands:tt)*
    ) => {
        asm!(
            ".pushsection __rseq_cs, \"aw\", @progbits",
            ".balign 32",
            "77:",
            ".long 0, 0",
            ".quad 66f, 67f - 66f, 88f",
            ".popsection",
            "65:",
            $($before,)*
            "lea {slab}, [rip + 77b]",
            "mov qword ptr fs:[{offset} + 8], {slab}",
            "66:",
            "movzx {current:e}, word ptr fs:[{offset} + 4]",
            "mov {slab}, qword ptr [{slabs} + {current} * 8]",
            $($sequence,)*
            "67:",
            $($after,)*
            ".pushsection __rseq_failure, \"ax\", @progbits",
            $($aside,)*
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "88:",
            "jmp 65b",
            ".popsection",
            slab = out(reg) _,
            current = out(reg) _,
            offset = in(reg) $offset,
            slabs = in(reg) $slabs.as_ptr(),
            class = in(reg) $class,
            $($operands)*
            options(nostack),
        )
    };
}

/// Pops an object of the class from the slab of this CPU, and takes `bytes` off the slab's
/// countdown; 0 if there is no object or the countdown is below zero.
///
/// The object comes from the word of the class among [`TOPS`] and is compared with the slot, where
/// it also lies: what follows the call need not wait until the height of the stack has come back
/// from the store of the call before, and the slot after that.
///
/// # Safety
/// `offset` is the thread-pointer offset of a registered rseq area; slabs are valid or null.
#[inline(always)]
pub unsafe fn pop(offset: isize, slabs: &Slabs, class: usize, bytes: usize) -> usize {
    let object: usize;
    // SAFETY: as the caller promises; the sequence ends in one store to the slab's header. What it
    // writes among the tops, also aside, where another thread may work on the slab, is a guess.
    unsafe {
        restartable!(
            offset, slabs, class;
            before: ["xor {object:e}, {object:e}"],
            sequence: [
                "test {slab}, {slab}",
                "je 67f",
                "movzx {current:e}, word ptr [{slab} + {class} * 8]",
                "cmp {current:x}, word ptr [{slab} + {class} * 8 + 6]",
                "je 67f",
                "sub qword ptr [{slab}], {bytes}",
                "js 67f",
                "mov {object}, qword ptr [{slab} + {class} * 8 + {tops}]",
                "cmp {object}, qword ptr [{slab} + {current} * 8 - 8]",
                "jne 87f",
                "mov {below}, qword ptr [{slab} + {current} * 8 - 16]",
                "mov qword ptr [{slab} + {class} * 8 + {tops}], {below}",
                "dec {current:e}",
                "mov word ptr [{slab} + {class} * 8], {current:x}"
            ],
            after: [],
            aside: [
                "87:",
                "mov {object}, qword ptr [{slab} + {current} * 8 - 8]",
                "mov qword ptr [{slab} + {class} * 8 + {tops}], {object}",
                "jmp 65b"
            ],
            tops = const TOPS * 8,
            bytes = in(reg) bytes,
            object = out(reg) object,
            below = out(reg) _,
        );
    }
    object
}

/// Pushes an object of the class on the slab of this CPU; false if that is full.
///
/// # Safety
/// As for [`pop`].
#[inline(always)]
pub unsafe fn push(offset: isize, slabs: &Slabs, class: usize, object: usize) -> bool {
    // SAFETY: as the caller promises; the sequence ends in one store to the slab's header. The
    // slot that is written before is above the top of the stack, where nobody reads.
    unsafe {
        restartable!(
            offset, slabs, class;
            before: [],
            sequence: [
                "test {slab}, {slab}",
                "je {full}",
                "movzx {current:e}, word ptr [{slab} + {class} * 8]",
                "cmp {current:x}, word ptr [{slab} + {class} * 8 + 4]",
                "je {full}",
                "mov qword ptr [{slab} + {current} * 8], {object}",
                "mov qword ptr [{slab} + {class} * 8 + {tops}], {object}",
                "inc {current:e}",
                "mov word ptr [{slab} + {class} * 8], {current:x}"
            ],
            after: [],
            aside: [],
            tops = const TOPS * 8,
            object = in(reg) object,
            full = label { return false },
        );
    }
    true
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
        restartable!(
            offset, slabs, class;
            before: ["xor {count:e}, {count:e}"],
            sequence: [
                "test {slab}, {slab}",
                "je 67f",
                "movzx {current:e}, word ptr [{slab} + {class} * 8]",
                "movzx {count:e}, word ptr [{slab} + {class} * 8 + 6]",
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
                "mov {object}, qword ptr [{slots}]",
                "mov qword ptr [{slab} + {class} * 8 + {tops}], {object}",
                "mov word ptr [{slab} + {class} * 8], {current:x}"
            ],
            after: [],
            aside: [],
            tops = const TOPS * 8,
            out = in(reg) out,
            max = in(reg) max,
            count = out(reg) count,
            slots = out(reg) _,
            index = out(reg) _,
            object = out(reg) _,
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
        restartable!(
            offset, slabs, class;
            before: ["xor {count:e}, {count:e}"],
            sequence: [
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
                "lea {left}, [{index} + {count}]",
                "test {left}, {left}",
                "jne 64b",
                "mov qword ptr [{slab} + {class} * 8 + {tops}], {object}",
                "mov word ptr [{slab} + {class} * 8], {current:x}"
            ],
            after: [],
            aside: [],
            tops = const TOPS * 8,
            end = in(reg) end,
            max = in(reg) objects.len(),
            count = out(reg) count,
            slots = out(reg) _,
            index = out(reg) _,
            object = out(reg) _,
            left = out(reg) _,
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
        restartable!(
            offset, slabs, class;
            before: ["mov {failed:e}, 1"],
            sequence: [
                "cmp {slab}, {expected}",
                "jne 68f",
                "cmp qword ptr [{slab} + {class} * 8], {old}",
                "jne 68f",
                "mov qword ptr [{slab} + {class} * 8], {new}"
            ],
            after: ["xor {failed:e}, {failed:e}", "68:"],
            aside: [],
            expected = in(reg) expected,
            old = in(reg) old,
            new = in(reg) new,
            failed = out(reg) failed,
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
    // SAFETY: the area exists.
    glibc::rseq_offset().filter(|&offset| unsafe { cpu(offset) } >= 0)
}
