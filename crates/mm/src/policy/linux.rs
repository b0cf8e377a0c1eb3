// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux 6.12: pageblocks have a type, and a type that runs out takes from another
//! (`mm/page_alloc.c`: `__rmqueue_claim`, `__rmqueue_steal`).

use super::decisions::Policy;

/// The stock memory manager, which decides as the defaults of [`Policy`] do.
#[derive(Debug)]
pub(crate) struct Linux;

impl Policy for Linux {}
