// SPDX-License-Identifier: MIT OR Apache-2.0
//! Primary regions (Direct Segments, sections 3.2.1 and 3.2.2): which allocations of a program go
//! into the one range that a direct segment may map, and how the system provisions that segment:
//! the largest contiguous chunk there is, grown as more appears, cut back when memory is short.

use super::segment::Segment;
use crate::engine::Engine;
use crate::error::MapError;
use std::ops::Range;

/// Which requests go into the primary region when they say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Only those that ask for it.
    OptIn,
    /// Anonymous memory that can be read and written, unless it asks to stay out.
    OptOut,
}

/// A request for memory as the system's allocator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRequest {
    /// Length asked for.
    pub bytes: u64,
    /// Backed by no file.
    pub anonymous: bool,
    /// Can be read and written, all of it.
    pub read_write: bool,
    /// A flag of the caller: into the primary region, or out of it.
    pub wish: Option<bool>,
}

/// The primary region of one address space: reserved addresses, given out from the bottom.
#[derive(Clone, Debug)]
pub struct Primary {
    range: Range<u64>,
    next: u64,
    admission: Admission,
}

/// What provisioning came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provisioned {
    /// Bytes of the region that the segment maps now.
    pub segment_bytes: u64,
    /// Pages copied into the segment's frames.
    pub copied_pages: u64,
}

impl Primary {
    /// Reserves `bytes` of addresses from `base` on, both multiples of 4 KB.
    pub fn new(base: u64, bytes: u64, admission: Admission) -> Self {
        assert!(
            (base | bytes).is_multiple_of(4096),
            "primary regions hold whole pages"
        );
        Primary {
            range: base..base + bytes,
            next: base,
            admission,
        }
    }

    /// Whether a request belongs here. Uniform rights and no file are what a segment needs, so
    /// that no flag lets anything else in.
    pub fn admits(&self, request: &SegmentRequest) -> bool {
        let suitable = request.anonymous && request.read_write;
        suitable && request.wish.unwrap_or(self.admission == Admission::OptOut)
    }

    /// Serves a request: its range, or None where paging elsewhere has to serve it (not admitted,
    /// or the reserved addresses are used up).
    pub fn allocate(&mut self, request: &SegmentRequest) -> Option<Range<u64>> {
        let bytes = request.bytes.max(1).checked_next_multiple_of(4096)?;
        if !self.admits(request) || bytes > self.range.end - self.next {
            return None;
        }
        let start = self.next;
        self.next += bytes;
        Some(start..self.next)
    }

    /// The addresses given out so far: what a segment should map.
    pub fn used(&self) -> Range<u64> {
        self.range.start..self.next
    }

    /// Maps as much of the region as the largest run of frames allows by a segment; what is
    /// mapped there by pages is copied and its pages deleted. The rest stays paged. A region
    /// whose segment has been provisioned before grows instead.
    ///
    /// # Errors
    /// If a large page crosses the border of the segment.
    pub fn provision(&self, engine: &mut Engine) -> Result<Provisioned, MapError> {
        let used = self.used();
        if let Some(segment) = engine.space().segment_for(used.start) {
            return self.grow(engine, segment);
        }
        let (_, frames) = engine.space_and_frames();
        let bytes = (frames.longest_run() * 4096).min(used.end - used.start);
        let Some(pfn) = (bytes > 0)
            .then(|| frames.alloc_run(bytes / 4096))
            .flatten()
        else {
            return Ok(Provisioned::default());
        };
        let answer = set(
            engine,
            used.start,
            bytes,
            pfn,
            used.start..used.start + bytes,
        );
        if answer.is_err() {
            release(engine, pfn, bytes / 4096);
        }
        answer
    }

    /// Extends a segment over the frames behind it as far as they can be had.
    fn grow(&self, engine: &mut Engine, old: Segment) -> Result<Provisioned, MapError> {
        let used = self.used();
        let first = old.base.wrapping_add(old.offset) >> 12;
        let (_, frames) = engine.space_and_frames();
        let mut limit = old.limit;
        while limit < used.end && frames.alloc_at(first + ((limit - old.base) >> 12)) {
            limit += 4096;
        }
        let answer = set(engine, old.base, limit - old.base, first, old.limit..limit);
        if answer.is_err() {
            let taken = first + (old.bytes() >> 12);
            release(engine, taken, (limit - old.limit) >> 12);
        }
        answer
    }

    /// Reverts the region from `limit` on to paging on the same frames, so that it can be
    /// swapped; `limit` at its start gives the segment up.
    ///
    /// # Errors
    /// If there is no segment or `limit` does not lie in it.
    pub fn revert(&self, engine: &mut Engine, limit: u64) -> Result<(), MapError> {
        let (space, frames) = engine.space_and_frames();
        space.shrink_segment(limit, frames)?;
        engine.sync();
        Ok(())
    }
}

fn release(engine: &mut Engine, pfn: u64, frames: u64) {
    let (_, source) = engine.space_and_frames();
    (pfn..pfn + frames).for_each(|pfn| source.free(pfn, 0));
}

/// Sets the registers; the pages of `new`, the part that was paged, are copied.
fn set(
    engine: &mut Engine,
    base: u64,
    bytes: u64,
    pfn: u64,
    new: Range<u64>,
) -> Result<Provisioned, MapError> {
    let copied = engine.bytes_mapped_in(&new) / 4096;
    let (space, frames) = engine.space_and_frames();
    space.set_segment(base, bytes, pfn, frames)?;
    engine.os_cycles += copied * u64::from(engine.costs.copy_4k_cycles);
    engine.sync();
    Ok(Provisioned {
        segment_bytes: bytes,
        copied_pages: copied,
    })
}
