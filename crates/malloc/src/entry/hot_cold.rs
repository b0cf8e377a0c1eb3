// SPDX-License-Identifier: MIT OR Apache-2.0
//! `operator new` with a hint how often the object will be used, and the forms that return the
//! usable size: extensions of google/tcmalloc, which LLVM emits for programs with a memory profile.

use super::cxx::{
    NEW, NEW_ALIGNED, NEW_ALIGNED_ARRAY, NEW_ARRAY, NoThrow, Object, Plain, new_nothrow_slow, retry,
};
use crate::front;
use crate::size_class::MIN_ALIGN;
use core::ffi::CStr;

/// LLVM's hint for what is not cold is 128, that for cold 1.
const NOT_COLD: u8 = 128;

/// A C++ form: the plain forms it stands on, the one that has its arguments last, and its name.
struct Form {
    plain: &'static [&'static Plain],
    name: &'static CStr,
    nothrow: &'static CStr,
}

static ONE: Form = Form {
    plain: &[&NEW],
    name: c"_Znwm",
    nothrow: c"_ZnwmRKSt9nothrow_t",
};
static ARRAY: Form = Form {
    plain: &[&NEW, &NEW_ARRAY],
    name: c"_Znam",
    nothrow: c"_ZnamRKSt9nothrow_t",
};
static ALIGNED: Form = Form {
    plain: &[&NEW_ALIGNED],
    name: c"_ZnwmSt11align_val_t",
    nothrow: c"_ZnwmSt11align_val_tRKSt9nothrow_t",
};
static ALIGNED_ARRAY: Form = Form {
    plain: &[&NEW_ALIGNED, &NEW_ALIGNED_ARRAY],
    name: c"_ZnamSt11align_val_t",
    nothrow: c"_ZnamSt11align_val_tRKSt9nothrow_t",
};

impl Form {
    fn is_replaced(&self) -> bool {
        self.plain.iter().any(|plain| plain.is_replaced())
    }

    /// An object, or what the C++ library throws.
    fn make(&self, bytes: usize, align: usize, hint: u8) -> usize {
        if hint >= NOT_COLD || self.is_replaced() {
            let last = self.plain[self.plain.len() - 1];
            // SAFETY: the plain forms take a size and, where they have one, an alignment.
            let operator = unsafe {
                core::mem::transmute::<usize, extern "C-unwind" fn(usize, usize) -> usize>((last
                    .resolved)(
                ))
            };
            return operator(bytes, align);
        }
        match front::allocate_cold(bytes, align) {
            0 => retry(self.name, bytes, align),
            address => address,
        }
    }

    /// An object or 0.
    fn try_make(&self, bytes: usize, align: usize, hint: u8) -> usize {
        let mut address = 0;
        if !self.is_replaced() {
            address = if hint < NOT_COLD {
                front::allocate_cold(bytes, align)
            } else {
                front::allocate_aligned(bytes, align)
            };
        }
        match address {
            0 => new_nothrow_slow(self.nothrow, bytes, align),
            address => address,
        }
    }
}

/// An object and the bytes that it may use.
#[repr(C)]
pub struct SizedObject {
    object: Object,
    bytes: usize,
}

fn sized(form: &Form, bytes: usize, align: usize, hint: u8) -> SizedObject {
    let address = form.make(bytes, align, hint);
    let usable = if form.is_replaced() {
        bytes
    } else {
        front::usable_bytes(address)
    };
    SizedObject {
        object: address as Object,
        bytes: usable,
    }
}

macro_rules! hinted {
    ($(
        $(#[$doc:meta])*
        $name:ident($($argument:ident: $kind:ty),*) -> $result:ty => $body:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The alignment is a power of two.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the names are the ABI's")]
        pub unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> $result {
            $body
        }
    )*};
}

hinted! {
    /// `operator new(size_t, __hot_cold_t)`.
    _Znwm12__hot_cold_t(bytes: usize, hint: u8) -> Object =>
        ONE.make(bytes, MIN_ALIGN, hint) as Object;
    /// `operator new[](size_t, __hot_cold_t)`.
    _Znam12__hot_cold_t(bytes: usize, hint: u8) -> Object =>
        ARRAY.make(bytes, MIN_ALIGN, hint) as Object;
    /// `operator new(size_t, align_val_t, __hot_cold_t)`.
    _ZnwmSt11align_val_t12__hot_cold_t(bytes: usize, align: usize, hint: u8) -> Object =>
        ALIGNED.make(bytes, align, hint) as Object;
    /// `operator new[](size_t, align_val_t, __hot_cold_t)`.
    _ZnamSt11align_val_t12__hot_cold_t(bytes: usize, align: usize, hint: u8) -> Object =>
        ALIGNED_ARRAY.make(bytes, align, hint) as Object;
    /// `operator new(size_t, nothrow, __hot_cold_t)`.
    _ZnwmRKSt9nothrow_t12__hot_cold_t(bytes: usize, _n: NoThrow, hint: u8) -> Object =>
        ONE.try_make(bytes, MIN_ALIGN, hint) as Object;
    /// `operator new[](size_t, nothrow, __hot_cold_t)`.
    _ZnamRKSt9nothrow_t12__hot_cold_t(bytes: usize, _n: NoThrow, hint: u8) -> Object =>
        ARRAY.try_make(bytes, MIN_ALIGN, hint) as Object;
    /// `operator new(size_t, align_val_t, nothrow, __hot_cold_t)`.
    _ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t(
        bytes: usize, align: usize, _n: NoThrow, hint: u8
    ) -> Object => ALIGNED.try_make(bytes, align, hint) as Object;
    /// `operator new[](size_t, align_val_t, nothrow, __hot_cold_t)`.
    _ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t(
        bytes: usize, align: usize, _n: NoThrow, hint: u8
    ) -> Object => ALIGNED_ARRAY.try_make(bytes, align, hint) as Object;
    /// An object with its usable size.
    __size_returning_new(bytes: usize) -> SizedObject => sized(&ONE, bytes, MIN_ALIGN, NOT_COLD);
    /// The same with a hint.
    __size_returning_new_hot_cold(bytes: usize, hint: u8) -> SizedObject =>
        sized(&ONE, bytes, MIN_ALIGN, hint);
    /// The same with an alignment.
    __size_returning_new_aligned(bytes: usize, align: usize) -> SizedObject =>
        sized(&ALIGNED, bytes, align, NOT_COLD);
    /// The same with both.
    __size_returning_new_aligned_hot_cold(bytes: usize, align: usize, hint: u8) -> SizedObject =>
        sized(&ALIGNED, bytes, align, hint);
}
