// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a running kernel allocates pages for, how many, and how long they live.

use ample_pfn::PageClass;

/// Buckets of lifetimes: bucket 0 is below a millisecond, bucket `n` from 2^(n−1) ms to 2^n ms.
pub const LIFETIME_BUCKETS: usize = 32;

/// Where pages come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TrafficOrigin {
    /// They were there when the recording began, and in this use.
    Before(PageClass),
    /// They were allocated since.
    Request {
        /// Names of the flags, joined by `|` as the tracepoint prints them.
        gfp: String,
        /// Order of the request.
        order: u8,
        /// Migratetype of the request: 0 unmovable, 1 movable, 2 reclaimable.
        migratetype: u8,
    },
}

/// One kind of pages, counted since the recording began. Estimates: a share of the pages is
/// followed, and each stands for its like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficCounts {
    /// Where they come from.
    pub origin: TrafficOrigin,
    /// Pages allocated; 0 for those that were there before.
    pub allocated_pages: u64,
    /// Of these, the pages freed.
    pub freed_pages: u64,
    /// The pages freed, by how long they had lived; of those that were there before, since the
    /// recording began.
    pub lifetimes_pages: [u64; LIFETIME_BUCKETS],
}
