// SPDX-License-Identifier: MIT OR Apache-2.0
//! The highest layer: what programs call. The C and C++ entry points exist with the feature
//! `preload` only, because they take the place of the C library's.

/// A function that does what another does with its first arguments, the one that the dynamic linker
/// found under that name: the program may have its own.
#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
macro_rules! forward {
    ($($(#[$doc:meta])* $name:ident => $to:literal;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As the standard of its language says.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            #[allow(non_snake_case, reason = "the names are the ABI's")]
            pub unsafe extern "C-unwind" fn $name() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!(concat!("jmp qword ptr [rip + ", $to, "@GOTPCREL]"));
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!(
                    concat!("adrp x16, :got:", $to),
                    concat!("ldr x16, [x16, :got_lo12:", $to, "]"),
                    "br x16"
                );
            }
        )*
    };
}

#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
use forward;

#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
pub mod cxx;
#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
pub mod glibc;
pub mod global;
#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
pub mod hot_cold;
#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
pub mod interface;
#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
pub mod own;
#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
pub mod process;
#[cfg(all(
    feature = "preload",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux",
    not(any(test, miri, feature = "models"))
))]
pub mod vfork;
