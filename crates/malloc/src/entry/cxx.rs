// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C++ operators new and delete, in all forms of C++17, by their mangled names (Itanium ABI).
//!
//! A program may replace some of them and rely on what the standard says of the others
//! (`[new.delete]`): the sized, array and nothrow forms call the plain ones. So these jump to
//! whatever definition of the plain form the dynamic linker found first. A failing form hands over
//! to the same form of the program's C++ library, which asks malloc once more, calls the
//! new-handler and throws.

use crate::front;
use crate::os::glibc::symbol;
use crate::size_class::MIN_ALIGN;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicU8, Ordering};

pub(super) type Object = *mut c_void;
pub(super) type NoThrow = *const c_void;

/// C++ libraries that a plugin may have loaded for itself, out of sight of `RTLD_NEXT`.
const LIBRARIES: [&CStr; 3] = [c"libstdc++.so.6", c"libc++abi.so.1", c"libc++.so.1"];

/// The C++ library's own definition of an operator; null without such a library.
#[cold]
fn next(name: &CStr) -> *mut c_void {
    let name: *const c_char = name.as_ptr();
    // SAFETY: lookups by name; a library is only asked for if it is loaded already.
    unsafe {
        let found = libc::dlsym(libc::RTLD_NEXT, name);
        if !found.is_null() {
            return found;
        }
        LIBRARIES
            .iter()
            .map(|library| libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD))
            .filter(|handle| !handle.is_null())
            .map(|handle| libc::dlsym(handle, name))
            .find(|found| !found.is_null())
            .unwrap_or(core::ptr::null_mut())
    }
}

/// What the C++ library makes of a request that failed here: an object after all, or an exception.
#[cold]
#[inline(never)]
pub(super) fn retry(name: &CStr, bytes: usize, align: usize) -> usize {
    let operator = next(name);
    if operator.is_null() {
        // A program without a C++ library cannot catch anything.
        crate::os::report::corrupt(format_args!(
            "operator new: out of memory for {bytes} bytes"
        ));
    }
    // SAFETY: the operators take a size and, where they have one, an alignment.
    let operator = unsafe {
        core::mem::transmute::<*mut c_void, extern "C-unwind" fn(usize, usize) -> usize>(operator)
    };
    operator(bytes, align)
}

#[cold]
#[inline(never)]
fn new_slow(bytes: usize) -> Object {
    let address = match front::allocate_slow(bytes) {
        0 => retry(c"_Znwm", bytes, 0),
        address => address,
    };
    address as Object
}

/// Which definition of a plain operator the program uses; found out at the first need.
pub(super) struct Plain {
    pub(super) resolved: fn() -> usize,
    known: AtomicU8,
}

impl Plain {
    const OWN: u8 = 1;
    const REPLACED: u8 = 2;

    /// Whether it is another than the one of this library.
    pub(super) fn is_replaced(&self) -> bool {
        match self.known.load(Ordering::Relaxed) {
            0 => self.find_out(),
            known => known == Self::REPLACED,
        }
    }

    #[cold]
    fn find_out(&self) -> bool {
        let object_of = |address: usize| {
            // SAFETY: zero is valid for a structure of pointers, and dladdr fills it.
            unsafe {
                let mut info: libc::Dl_info = core::mem::zeroed();
                libc::dladdr(address as *const c_void, &raw mut info);
                info.dli_fbase
            }
        };
        let own = object_of(new_slow as *const () as usize);
        let replaced = object_of((self.resolved)()) != own;
        let known = if replaced { Self::REPLACED } else { Self::OWN };
        self.known.store(known, Ordering::Relaxed);
        replaced
    }
}

/// A nothrow form: the plain forms `$plain` if they are ours, else the C++ library's, which calls
/// them and catches what they throw.
macro_rules! nothrow {
    ($name:literal, $plain:expr, $bytes:expr, $align:expr) => {{
        let mut address = 0;
        if !$plain.iter().any(|plain: &&Plain| plain.is_replaced()) {
            address = front::allocate_aligned($bytes, $align);
        }
        if address == 0 {
            address = new_nothrow_slow($name, $bytes, $align);
        }
        address as Object
    }};
}

#[cold]
#[inline(never)]
pub(super) fn new_nothrow_slow(name: &CStr, bytes: usize, align: usize) -> usize {
    if next(name).is_null() {
        return 0;
    }
    retry(name, bytes, align)
}

macro_rules! plain {
    ($($name:ident: $symbol:literal;)*) => {$(
        pub(super) static $name: Plain = Plain {
            resolved: || symbol!($symbol),
            known: AtomicU8::new(0),
        };
    )*};
}

plain! {
    NEW: "_Znwm";
    NEW_ARRAY: "_Znam";
    NEW_ALIGNED: "_ZnwmSt11align_val_t";
    NEW_ALIGNED_ARRAY: "_ZnamSt11align_val_t";
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

#[inline(always)]
fn delete(object: Object) {
    // SAFETY: the operators' callers promise that the object is live.
    unsafe { front::free(object as usize) }
}

operators! {
    /// `operator new(size_t)`.
    _Znwm(bytes: usize) -> Object => match front::allocate_fast(bytes) {
        0 => new_slow(bytes),
        object => object as Object,
    };
    /// `operator new(size_t, align_val_t)`.
    _ZnwmSt11align_val_t(bytes: usize, align: usize) -> Object =>
        match front::allocate_aligned(bytes, align) {
            0 => retry(c"_ZnwmSt11align_val_t", bytes, align) as Object,
            address => address as Object,
        };
    /// `operator new(size_t, nothrow)`.
    _ZnwmRKSt9nothrow_t(bytes: usize, _n: NoThrow) -> Object =>
        nothrow!(c"_ZnwmRKSt9nothrow_t", [&NEW], bytes, MIN_ALIGN);
    /// `operator new[](size_t, nothrow)`.
    _ZnamRKSt9nothrow_t(bytes: usize, _n: NoThrow) -> Object =>
        nothrow!(c"_ZnamRKSt9nothrow_t", [&NEW, &NEW_ARRAY], bytes, MIN_ALIGN);
    /// `operator new(size_t, align_val_t, nothrow)`.
    _ZnwmSt11align_val_tRKSt9nothrow_t(bytes: usize, align: usize, _n: NoThrow) -> Object =>
        nothrow!(c"_ZnwmSt11align_val_tRKSt9nothrow_t", [&NEW_ALIGNED], bytes, align);
    /// `operator new[](size_t, align_val_t, nothrow)`.
    _ZnamSt11align_val_tRKSt9nothrow_t(bytes: usize, align: usize, _n: NoThrow) -> Object =>
        nothrow!(
            c"_ZnamSt11align_val_tRKSt9nothrow_t",
            [&NEW_ALIGNED, &NEW_ALIGNED_ARRAY],
            bytes,
            align
        );
    /// `operator delete(void*)`.
    _ZdlPv(object: Object) => delete(object);
    /// `operator delete(void*, align_val_t)`.
    _ZdlPvSt11align_val_t(object: Object, _align: usize) => delete(object);
}

super::forward! {
    /// `operator new[](size_t)`.
    _Znam => "_Znwm";
    /// `operator new[](size_t, align_val_t)`.
    _ZnamSt11align_val_t => "_ZnwmSt11align_val_t";
    /// `operator delete[](void*)`.
    _ZdaPv => "_ZdlPv";
    /// `operator delete(void*, size_t)`.
    _ZdlPvm => "_ZdlPv";
    /// `operator delete[](void*, size_t)`.
    _ZdaPvm => "_ZdaPv";
    /// `operator delete(void*, nothrow)`.
    _ZdlPvRKSt9nothrow_t => "_ZdlPv";
    /// `operator delete[](void*, nothrow)`.
    _ZdaPvRKSt9nothrow_t => "_ZdaPv";
    /// `operator delete[](void*, align_val_t)`.
    _ZdaPvSt11align_val_t => "_ZdlPvSt11align_val_t";
    /// `operator delete(void*, size_t, align_val_t)`.
    _ZdlPvmSt11align_val_t => "_ZdlPvSt11align_val_t";
    /// `operator delete[](void*, size_t, align_val_t)`.
    _ZdaPvmSt11align_val_t => "_ZdaPvSt11align_val_t";
    /// `operator delete(void*, align_val_t, nothrow)`.
    _ZdlPvSt11align_val_tRKSt9nothrow_t => "_ZdlPvSt11align_val_t";
    /// `operator delete[](void*, align_val_t, nothrow)`.
    _ZdaPvSt11align_val_tRKSt9nothrow_t => "_ZdaPvSt11align_val_t";
}
