// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statics reached without the global offset table, through which the compiler goes for each in a
//! shared library: one load less on the fast paths.

/// `&$name`, a static of the type `$type`.
macro_rules! near {
    ($name:path: $type:ty) => {{
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let address: *const $type;
            // SAFETY: computes the address of a static.
            unsafe {
                core::arch::asm!(
                    "lea {address}, [rip + {name}]",
                    address = out(reg) address,
                    name = sym $name,
                    options(nostack, pure, nomem, preserves_flags),
                );
                &*address
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            let address: &'static $type = &$name;
            address
        }
    }};
}

/// A relaxed load of `$name`, an atomic static of 64 bits, as the integer `$type`.
macro_rules! near_load {
    ($name:path: $type:ty) => {{
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let value: $type;
            // SAFETY: a relaxed load of an aligned word.
            unsafe {
                core::arch::asm!(
                    "mov {value}, qword ptr [rip + {name}]",
                    value = out(reg) value,
                    name = sym $name,
                    options(nostack, readonly, preserves_flags),
                );
            }
            value
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            let value: $type = $name.load(core::sync::atomic::Ordering::Relaxed);
            value
        }
    }};
}

pub(crate) use {near, near_load};
