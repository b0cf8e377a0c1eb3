// SPDX-License-Identifier: MIT OR Apache-2.0
//! What takes the accesses of a foreign trace.

use ample_trace::Access;

/// Takes so many accesses and then no more: a few compressed bytes can be many accesses.
pub fn accesses() -> impl FnMut(Access) -> bool {
    let mut left = 100_000;
    move |_| {
        left -= 1;
        left > 0
    }
}
