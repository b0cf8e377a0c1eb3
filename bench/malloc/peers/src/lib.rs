// SPDX-License-Identifier: MIT OR Apache-2.0
//! google/tcmalloc (through libtcmalloc-sys) as a shared library that can be preloaded.
use core::ffi::c_void;
extern crate libtcmalloc_sys;
unsafe extern "C" {
    fn TCMallocInternalMalloc(n: usize) -> *mut c_void;
    fn TCMallocInternalFree(p: *mut c_void);
    fn TCMallocInternalCalloc(n: usize, s: usize) -> *mut c_void;
    fn TCMallocInternalRealloc(p: *mut c_void, s: usize) -> *mut c_void;
    fn TCMallocInternalMemalign(a: usize, s: usize) -> *mut c_void;
    fn TCMallocInternalAlignedAlloc(a: usize, s: usize) -> *mut c_void;
    fn TCMallocInternalPosixMemalign(p: *mut *mut c_void, a: usize, s: usize) -> i32;
    fn TCMallocInternalMallocSize(p: *mut c_void) -> usize;
}
macro_rules! forward { ($($name:ident($($a:ident: $t:ty),*) -> $r:ty = $to:ident;)*) => { $(
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn $name($($a: $t),*) -> $r {
        unsafe { $to($($a),*) }
    }
)* } }
forward! {
    malloc(n: usize) -> *mut c_void = TCMallocInternalMalloc;
    free(p: *mut c_void) -> () = TCMallocInternalFree;
    calloc(n: usize, s: usize) -> *mut c_void = TCMallocInternalCalloc;
    realloc(p: *mut c_void, s: usize) -> *mut c_void = TCMallocInternalRealloc;
    memalign(a: usize, s: usize) -> *mut c_void = TCMallocInternalMemalign;
    aligned_alloc(a: usize, s: usize) -> *mut c_void = TCMallocInternalAlignedAlloc;
    posix_memalign(p: *mut *mut c_void, a: usize, s: usize) -> i32 = TCMallocInternalPosixMemalign;
    malloc_usable_size(p: *mut c_void) -> usize = TCMallocInternalMallocSize;
    _Znwm(n: usize) -> *mut c_void = TCMallocInternalMalloc;
    _Znam(n: usize) -> *mut c_void = TCMallocInternalMalloc;
    _ZdlPv(p: *mut c_void) -> () = TCMallocInternalFree;
    _ZdaPv(p: *mut c_void) -> () = TCMallocInternalFree;
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZdlPvm(p: *mut c_void, _: usize) {
    unsafe { TCMallocInternalFree(p) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZdaPvm(p: *mut c_void, _: usize) {
    unsafe { TCMallocInternalFree(p) }
}
