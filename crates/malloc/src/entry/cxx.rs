// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C++ operators new and delete, in all forms of C++17, by their mangled names (Itanium ABI).
//!
//! A failing throwing form calls the new-handler while there is one and then throws
//! `std::bad_alloc` through the program's own libstdc++, if it has one.

use crate::front;
use core::ffi::{c_char, c_void};

fn symbol(name: &core::ffi::CStr) -> *mut c_void {
    let name: *const c_char = name.as_ptr();
    // SAFETY: a lookup by name.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name) }
}

/// Calls the program's new-handler; false if it has none.
fn call_new_handler() -> bool {
    let get = symbol(c"_ZSt15get_new_handlerv");
    if get.is_null() {
        return false;
    }
    // SAFETY: libstdc++'s function of this name has this signature.
    let handler = unsafe {
        let get = core::mem::transmute::<*mut c_void, extern "C" fn() -> *const c_void>(get);
        get()
    };
    if handler.is_null() {
        return false;
    }
    // SAFETY: a new-handler takes and returns nothing; it may throw.
    unsafe {
        let handler = core::mem::transmute::<*const c_void, extern "C-unwind" fn()>(handler);
        handler();
    }
    true
}

#[cold]
#[inline(never)]
extern "C-unwind" fn retry(bytes: usize, align: usize, throws: bool) -> *mut c_void {
    while call_new_handler() {
        let address = front::allocate_aligned(bytes, align);
        if address != 0 {
            return address as *mut c_void;
        }
    }
    if throws {
        let throw = symbol(c"_ZSt17__throw_bad_allocv");
        if !throw.is_null() {
            // SAFETY: libstdc++'s function of this name has this signature and does not return.
            unsafe {
                let throw = core::mem::transmute::<*mut c_void, extern "C-unwind" fn() -> !>(throw);
                throw()
            }
        }
        // A program without libstdc++ cannot catch anything.
        crate::os::report::corrupt(format_args!(
            "operator new: out of memory for {bytes} bytes"
        ));
    }
    core::ptr::null_mut()
}

#[inline(always)]
fn new(bytes: usize) -> *mut c_void {
    front::allocate_or(bytes, new_slow) as *mut c_void
}

#[cold]
#[inline(never)]
fn new_slow(bytes: usize) -> usize {
    let address = front::allocate_slow(bytes);
    if address == 0 {
        return retry(bytes, crate::size_class::MIN_ALIGN, true) as usize;
    }
    address
}

#[inline(always)]
fn new_nothrow(bytes: usize, align: usize) -> *mut c_void {
    let address = front::allocate_aligned(bytes, align);
    if address == 0 {
        return retry(bytes, align, false);
    }
    address as *mut c_void
}

#[inline(always)]
fn new_aligned(bytes: usize, align: usize) -> *mut c_void {
    let address = front::allocate_aligned(bytes, align);
    if address == 0 {
        return retry(bytes, align, true);
    }
    address as *mut c_void
}

macro_rules! operators {
    ($(
        $(#[$doc:meta])*
        $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? => $body:expr;
    )*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As the C++ standard says (`[new.delete]`).
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the names are the ABI's")]
            pub unsafe extern "C-unwind" fn $name($($argument: $kind),*) $(-> $result)? {
                $body
            }
        )*
    };
}

type Object = *mut c_void;
type NoThrow = *const c_void;

#[inline(always)]
fn delete(object: Object) {
    // SAFETY: the operators' callers promise that the object is live.
    unsafe { front::free(object as usize) }
}

operators! {
    /// `operator new(size_t)`.
    _Znwm(bytes: usize) -> Object => new(bytes);
    /// `operator new[](size_t)`.
    _Znam(bytes: usize) -> Object => new(bytes);
    /// `operator new(size_t, nothrow)`.
    _ZnwmRKSt9nothrow_t(bytes: usize, _n: NoThrow) -> Object => new_nothrow(bytes, 16);
    /// `operator new[](size_t, nothrow)`.
    _ZnamRKSt9nothrow_t(bytes: usize, _n: NoThrow) -> Object => new_nothrow(bytes, 16);
    /// `operator new(size_t, align_val_t)`.
    _ZnwmSt11align_val_t(bytes: usize, align: usize) -> Object => new_aligned(bytes, align);
    /// `operator new[](size_t, align_val_t)`.
    _ZnamSt11align_val_t(bytes: usize, align: usize) -> Object => new_aligned(bytes, align);
    /// `operator new(size_t, align_val_t, nothrow)`.
    _ZnwmSt11align_val_tRKSt9nothrow_t(bytes: usize, align: usize, _n: NoThrow) -> Object =>
        new_nothrow(bytes, align);
    /// `operator new[](size_t, align_val_t, nothrow)`.
    _ZnamSt11align_val_tRKSt9nothrow_t(bytes: usize, align: usize, _n: NoThrow) -> Object =>
        new_nothrow(bytes, align);
    /// `operator delete(void*)`.
    _ZdlPv(object: Object) => delete(object);
    /// `operator delete[](void*)`.
    _ZdaPv(object: Object) => delete(object);
    /// `operator delete(void*, nothrow)`.
    _ZdlPvRKSt9nothrow_t(object: Object, _n: NoThrow) => delete(object);
    /// `operator delete[](void*, nothrow)`.
    _ZdaPvRKSt9nothrow_t(object: Object, _n: NoThrow) => delete(object);
    /// `operator delete(void*, size_t)`.
    _ZdlPvm(object: Object, _bytes: usize) => delete(object);
    /// `operator delete[](void*, size_t)`.
    _ZdaPvm(object: Object, _bytes: usize) => delete(object);
    /// `operator delete(void*, align_val_t)`.
    _ZdlPvSt11align_val_t(object: Object, _align: usize) => delete(object);
    /// `operator delete[](void*, align_val_t)`.
    _ZdaPvSt11align_val_t(object: Object, _align: usize) => delete(object);
    /// `operator delete(void*, align_val_t, nothrow)`.
    _ZdlPvSt11align_val_tRKSt9nothrow_t(object: Object, _align: usize, _n: NoThrow) =>
        delete(object);
    /// `operator delete[](void*, align_val_t, nothrow)`.
    _ZdaPvSt11align_val_tRKSt9nothrow_t(object: Object, _align: usize, _n: NoThrow) =>
        delete(object);
    /// `operator delete(void*, size_t, align_val_t)`.
    _ZdlPvmSt11align_val_t(object: Object, _bytes: usize, _align: usize) => delete(object);
    /// `operator delete[](void*, size_t, align_val_t)`.
    _ZdaPvmSt11align_val_t(object: Object, _bytes: usize, _align: usize) => delete(object);
}
