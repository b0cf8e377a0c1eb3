// SPDX-License-Identifier: MIT OR Apache-2.0
//! The highest layer: what programs call. The C and C++ entry points exist with the feature
//! `preload` only, because they take the place of the C library's.

#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
pub mod cxx;
pub mod global;
#[cfg(all(feature = "preload", not(any(test, miri, feature = "models"))))]
pub mod interface;
