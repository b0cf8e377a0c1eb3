// SPDX-License-Identifier: MIT OR Apache-2.0
//! The call stack of the calling thread, by the unwinder of libgcc.

use core::ffi::c_void;

/// Frames kept of a stack.
pub const DEPTH: usize = 32;

struct Walk<'a> {
    stack: &'a mut [usize; DEPTH],
    depth: usize,
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: extern "C" fn(*mut c_void, *mut c_void) -> i32,
        argument: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

extern "C" fn visit(context: *mut c_void, argument: *mut c_void) -> i32 {
    const CONTINUE: i32 = 0;
    const STOP: i32 = 4;
    // SAFETY: the argument is the walk of the caller.
    let walk = unsafe { &mut *argument.cast::<Walk<'_>>() };
    if walk.depth == DEPTH {
        return STOP;
    }
    // SAFETY: the context is the unwinder's.
    walk.stack[walk.depth] = unsafe { _Unwind_GetIP(context) };
    walk.depth += 1;
    CONTINUE
}

/// The return addresses of this thread, innermost first.
pub fn unwind(stack: &mut [usize; DEPTH]) -> u32 {
    let mut walk = Walk { stack, depth: 0 };
    // SAFETY: the callback takes what it is given; the unwinder is libgcc's.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
    walk.depth as u32
}
