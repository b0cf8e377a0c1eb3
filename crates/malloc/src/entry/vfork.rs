// SPDX-License-Identifier: MIT OR Apache-2.0
//! `vfork`: its child runs in the memory of the parent, of which other threads run on, and with the
//! parent's thread area, whose processor number the kernel does not keep up for the child. While
//! there is such a child no thread uses the fast path, and the child none of the slabs that work by
//! restartable sequences.

use crate::cache;
use crate::os::sys::set_errno;

extern "C" fn begin() {
    cache::begin_vfork();
}

/// In the parent, after the child has left its memory.
extern "C" fn end(result: isize) -> isize {
    cache::end_vfork();
    if result < 0 {
        set_errno(-result as i32);
        return -1;
    }
    result
}

/// POSIX.1-2001 `vfork`; on AArch64 `clone` with its two flags: there is no call of that name.
///
/// # Safety
/// As POSIX.1-2001 says; the child may allocate and free besides.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn vfork() -> libc::pid_t {
    // The return address waits in a register: the child overwrites the stack.
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "sub rsp, 8",
        "call {begin}",
        "add rsp, 8",
        "pop rdi",
        "mov eax, {number}",
        "syscall",
        "test rax, rax",
        "jne 2f",
        "jmp rdi",
        "2:",
        "push rdi",
        "push rax",
        "mov rdi, rax",
        "call {end}",
        "add rsp, 8",
        "ret",
        begin = sym begin,
        end = sym end,
        number = const libc::SYS_vfork,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "bl {begin}",
        "ldp x29, x30, [sp], #16",
        "mov x10, x30",
        "mov x0, {flags}",
        "mov x1, xzr",
        "mov x2, xzr",
        "mov x3, xzr",
        "mov x4, xzr",
        "mov x8, {number}",
        "svc #0",
        "mov x30, x10",
        "cbz x0, 2f",
        "b {end}",
        "2:",
        "ret",
        begin = sym begin,
        end = sym end,
        flags = const libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
        number = const libc::SYS_clone,
    );
}
