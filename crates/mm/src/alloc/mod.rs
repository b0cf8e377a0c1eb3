// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocation (`mm/page_alloc.c`, 6.12).

pub(crate) mod costly;
pub(crate) mod fallback;
pub(crate) mod page;
pub(crate) mod request;

pub use request::AllocRequest;
