// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first pass over a recording: what is in it, and how large its machine may have been.

use ample_pfn::BASE_PAGE_BYTES;
use ample_trace::pages::{EventKind, PageEvent, ReadCounts};
use std::collections::BTreeMap;

/// Frames count as far when at most one event in so many names them...
const FAR_EVENTS: u64 = 1000;
/// ...and all others lie within this part of the memory up to the last of them.
const NEAR_PART: u64 = 16;

/// What a first pass over a recording found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// What was on its lines.
    pub counts: ReadCounts,
    /// First and last time of its clock.
    pub start_ns: u64,
    /// See `start_ns`.
    pub end_ns: u64,
    /// Frames up to the last one named.
    pub span_pages: u64,
    /// CPUs up to the last one named.
    pub cpus: usize,
    /// Events by the highest bit of the last frame they name: how many, and the frames up to it.
    by_height: BTreeMap<u32, (u64, u64)>,
}

/// Few events that name frames far beyond those of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarFrames {
    /// Events that name them.
    pub events: u64,
    /// Events in all.
    pub of_events: u64,
    /// A memory size up to the last frame that the others name.
    pub near_bytes: u64,
}

impl Survey {
    /// Takes note of one more event.
    pub(super) fn note(&mut self, event: &PageEvent) {
        if self.by_height.is_empty() {
            (self.start_ns, self.end_ns) = (event.time_ns, event.time_ns);
        }
        self.end_ns = self.end_ns.max(event.time_ns);
        self.cpus = self.cpus.max(usize::from(event.cpu) + 1);
        let pages = match event.kind {
            EventKind::Alloc(traced) => 1 << traced.order,
            EventKind::Free { order } => 1 << order,
            _ => 1,
        };
        let span = event.pfn + pages;
        self.span_pages = self.span_pages.max(span);
        let height = self.by_height.entry(span.ilog2()).or_default();
        *height = (height.0 + 1, height.1.max(span));
    }

    /// A memory size for the servers when the recording's machine is not known: up to the last
    /// frame named, in steps of 128 MB. Holes in the machine's memory map make it too large.
    pub fn memory_bytes(&self) -> u64 {
        memory_bytes(self.span_pages)
    }

    /// Whether the last frames named are so far from all others, and in so few events, that they
    /// may be damage: a digit too many makes a server of a terabyte.
    pub fn far_frames(&self) -> Option<FarFrames> {
        let of_events = self.by_height.values().map(|(events, _)| events).sum();
        let mut far = 0;
        for (events, span_pages) in self.by_height.values().rev() {
            if far * FAR_EVENTS > of_events {
                return None;
            }
            if span_pages * NEAR_PART <= self.span_pages {
                return Some(FarFrames {
                    events: far,
                    of_events,
                    near_bytes: memory_bytes(*span_pages),
                });
            }
            far += events;
        }
        None
    }

    /// Time between the first and the last event.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// Memory of so many frames, in steps of 128 MB.
fn memory_bytes(span_pages: u64) -> u64 {
    (span_pages * BASE_PAGE_BYTES).next_multiple_of(128 << 20)
}
