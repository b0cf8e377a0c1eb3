// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens to the process as a whole: the library is loaded, threads begin, filters of system
//! calls are installed.

use core::ffi::{c_char, c_int, c_ulong, c_void};
use core::ptr::null_mut;

/// Prepares for threads, and starts the background thread if the options ask for it.
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
    crate::cache::register_fences();
    crate::watch::threads::start_background(create);
    // SAFETY: as the caller promises.
    unsafe { create(thread, attributes, routine, argument) }
}

/// Linux `prctl`: notes that the program begins to confine itself. A filter of system calls may
/// allow what glibc's malloc calls and nothing else.
///
/// # Safety
/// As prctl(2) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if matches!(option, libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_SECCOMP) {
        crate::cache::forbid_fences();
    }
    // SAFETY: as the caller promises.
    unsafe { libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) as c_int }
}

extern "C" fn note_call(number: isize, first: isize) {
    let option = first as c_int;
    if number == libc::SYS_seccomp as isize
        || matches!(option, libc::PR_SET_NO_NEW_PRIVS | libc::PR_SET_SECCOMP)
    {
        crate::cache::forbid_fences();
    }
}

extern "C" fn refused(result: isize) -> isize {
    crate::os::sys::set_errno(-result as i32);
    -1
}

/// Linux `syscall`, the other way to confine the program.
///
/// # Safety
/// As syscall(2) says.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    core::arch::naked_asm!(
        "cmp rdi, {prctl}",
        "je 3f",
        "cmp rdi, {seccomp}",
        "je 3f",
        "2:",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, qword ptr [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 4f",
        "ret",
        "3:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "call {note}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp 2b",
        "4:",
        "mov rdi, rax",
        "jmp {refused}",
        prctl = const libc::SYS_prctl,
        seccomp = const libc::SYS_seccomp,
        note = sym note_call,
        refused = sym refused,
    );
}

/// Linux `syscall`, the other way to confine the program.
///
/// # Safety
/// As syscall(2) says.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    core::arch::naked_asm!(
        "cmp x0, {prctl}",
        "b.eq 3f",
        "mov x8, {seccomp}",
        "cmp x0, x8",
        "b.eq 3f",
        "2:",
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc #0",
        "cmn x0, 4095",
        "b.cs {refused}",
        "ret",
        "3:",
        "stp x29, x30, [sp, #-80]!",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "str x6, [sp, #64]",
        "bl {note}",
        "ldr x6, [sp, #64]",
        "ldp x4, x5, [sp, #48]",
        "ldp x2, x3, [sp, #32]",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #80",
        "b 2b",
        prctl = const libc::SYS_prctl,
        seccomp = const libc::SYS_seccomp,
        note = sym note_call,
        refused = sym refused,
    );
}

/// Runs when the library is loaded: what may not happen during the first allocation.
extern "C" fn loaded() {
    crate::front::start::ensure();
    crate::watch::dump::loaded();
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
