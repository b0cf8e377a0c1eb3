// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restartable sequences on aarch64. They do what those on x86-64 do, but for the guess at the top
//! of the stack, which hides a wait that x86-64 has for its short chains of dependent loads.
//!
//! The order of memory accesses is weak here. What a sequence stores is read by threads that run on
//! the same CPU later, or by others after `membarrier` has ended all sequences there; both order
//! memory. A slab is published by a release, and reached through the pointer that was published.

use super::slab::Slabs;
use crate::os::glibc;
use core::arch::asm;

/// The address of the area of the calling thread.
///
/// # Safety
/// `offset` is the thread-pointer offset of an rseq area.
#[inline(always)]
unsafe fn area(offset: isize) -> usize {
    let thread: usize;
    // SAFETY: reads the thread pointer, which never changes while a thread runs.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) thread,
            options(nostack, pure, nomem, preserves_flags));
    }
    thread.wrapping_add_signed(offset)
}

/// One restartable sequence. It announces itself in the area's `rseq_cs`, finds the slab of the CPU
/// that it runs on and runs `sequence`, from label 66 to label 67; an interrupted one continues at
/// 88, which is marked by the signature that glibc registered, and starts over at 65. `before` sets
/// the result for a sequence that does nothing, `after` follows the store that commits it.
macro_rules! restartable {
    (
        $offset:expr, $slabs:expr;
        before: [$($before:literal),*],
        sequence: [$($sequence:literal),*],
        after: [$($after:literal),*],
        $($operands:tt)*
    ) => {
        asm!(
            ".pushsection __rseq_cs, \"aw\", %progbits",
            ".balign 32",
            "77:",
            ".word 0, 0",
            ".xword 66f, 67f - 66f, 88f",
            ".popsection",
            "65:",
            $($before,)*
            "adrp {slab}, 77b",
            "add {slab}, {slab}, :lo12:77b",
            "str {slab}, [{area}, #8]",
            "66:",
            "ldrh {current:w}, [{area}, #4]",
            "ldr {slab}, [{slabs}, {current}, lsl #3]",
            $($sequence,)*
            "67:",
            $($after,)*
            ".pushsection __rseq_failure, \"ax\", %progbits",
            ".inst 0xd428bc00",
            "88:",
            "b 65b",
            ".popsection",
            slab = out(reg) _,
            current = out(reg) _,
            area = in(reg) area($offset),
            slabs = in(reg) $slabs.as_ptr(),
            $($operands)*
            options(nostack),
        )
    };
}

/// Pops an object of the class from the slab of this CPU, and takes `bytes` off the slab's
/// countdown; 0 if there is no object or the countdown is below zero.
///
/// # Safety
/// `offset` is the thread-pointer offset of a registered rseq area; slabs are valid or null.
#[inline(always)]
pub unsafe fn pop(offset: isize, slabs: &Slabs, class: usize, bytes: usize) -> usize {
    let object: usize;
    // SAFETY: as the caller promises; the sequence ends in one store to the slab's header.
    unsafe {
        restartable!(
            offset, slabs;
            before: ["mov {object}, xzr"],
            sequence: [
                "cbz {slab}, 67f",
                "add {header}, {slab}, {class}, lsl #3",
                "ldrh {current:w}, [{header}]",
                "ldrh {other:w}, [{header}, #6]",
                "cmp {current:w}, {other:w}",
                "b.eq 67f",
                "ldr {other}, [{slab}]",
                "subs {other}, {other}, {bytes}",
                "str {other}, [{slab}]",
                "b.mi 67f",
                "sub {current:w}, {current:w}, #1",
                "ldr {object}, [{slab}, {current}, lsl #3]",
                "strh {current:w}, [{header}]"
            ],
            after: [],
            class = in(reg) class,
            bytes = in(reg) bytes,
            object = out(reg) object,
            header = out(reg) _,
            other = out(reg) _,
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
    let full: u32;
    // SAFETY: as the caller promises; the sequence ends in one store to the slab's header. The
    // slot that is written before is above the top of the stack, where nobody reads.
    unsafe {
        restartable!(
            offset, slabs;
            before: ["mov {full:w}, #1"],
            sequence: [
                "cbz {slab}, 68f",
                "add {header}, {slab}, {class}, lsl #3",
                "ldrh {current:w}, [{header}]",
                "ldrh {full:w}, [{header}, #4]",
                "cmp {current:w}, {full:w}",
                "mov {full:w}, #1",
                "b.eq 68f",
                "str {object}, [{slab}, {current}, lsl #3]",
                "add {current:w}, {current:w}, #1",
                "strh {current:w}, [{header}]"
            ],
            after: ["mov {full:w}, wzr", "68:"],
            class = in(reg) class,
            object = in(reg) object,
            header = out(reg) _,
            full = out(reg) full,
        );
    }
    full == 0
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
            offset, slabs;
            before: ["mov {count}, xzr"],
            sequence: [
                "cbz {slab}, 67f",
                "add {header}, {slab}, {class}, lsl #3",
                "ldrh {current:w}, [{header}]",
                "ldrh {count:w}, [{header}, #6]",
                "sub {count}, {current}, {count}",
                "cmp {count}, {max}",
                "csel {count}, {max}, {count}, hi",
                "cbz {count}, 67f",
                "add {slab}, {slab}, {current}, lsl #3",
                "sub {current}, {current}, {count}",
                "mov {index}, xzr",
                "64:",
                "ldr {object}, [{slab}, #-8]!",
                "str {object}, [{out}, {index}, lsl #3]",
                "add {index}, {index}, #1",
                "cmp {index}, {count}",
                "b.ne 64b",
                "strh {current:w}, [{header}]"
            ],
            after: [],
            class = in(reg) class,
            out = in(reg) out,
            max = in(reg) max,
            count = out(reg) count,
            header = out(reg) _,
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
            offset, slabs;
            before: ["mov {count}, xzr"],
            sequence: [
                "cbz {slab}, 67f",
                "add {header}, {slab}, {class}, lsl #3",
                "ldrh {current:w}, [{header}]",
                "ldrh {count:w}, [{header}, #4]",
                "sub {count}, {count}, {current}",
                "cmp {count}, {max}",
                "csel {count}, {max}, {count}, hi",
                "cbz {count}, 67f",
                "add {slab}, {slab}, {current}, lsl #3",
                "add {current}, {current}, {count}",
                "mov {from}, {end}",
                "mov {left}, {count}",
                "64:",
                "ldr {object}, [{from}, #-8]!",
                "str {object}, [{slab}], #8",
                "subs {left}, {left}, #1",
                "b.ne 64b",
                "strh {current:w}, [{header}]"
            ],
            after: [],
            class = in(reg) class,
            end = in(reg) end,
            max = in(reg) objects.len(),
            count = out(reg) count,
            header = out(reg) _,
            from = out(reg) _,
            left = out(reg) _,
            object = out(reg) _,
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
            offset, slabs;
            before: ["mov {failed:w}, #1"],
            sequence: [
                "cmp {slab}, {expected}",
                "b.ne 68f",
                "ldr {current}, [{slab}, {class}, lsl #3]",
                "cmp {current}, {old}",
                "b.ne 68f",
                "str {new}, [{slab}, {class}, lsl #3]"
            ],
            after: ["mov {failed:w}, wzr", "68:"],
            class = in(reg) class,
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
        asm!("ldr {cpu:w}, [{area}, #4]", area = in(reg) area(offset), cpu = out(reg) cpu,
            options(nostack, readonly, preserves_flags));
    }
    cpu
}

/// The thread-pointer offset of glibc's area, if there is one of a usable size.
pub fn glibc_area() -> Option<isize> {
    // SAFETY: the area exists.
    glibc::rseq_offset().filter(|&offset| unsafe { cpu(offset) } >= 0)
}
