// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replay of a recorded page-heap trace over pretended memory.

use ample_malloc::heap::trace::{Event, Kind, MAGIC, RECORD_BYTES};
use ample_malloc::heap::{HeapOptions, PageHeap, ReleasePolicy};
use ample_malloc::os::vm::Vm;
use ample_malloc::os::vm::fake::FakeVm;
use ample_malloc::units::PAGE_BYTES;
use serde::Serialize;
use std::collections::HashMap;
use std::io::{self, Read};

/// Between two rounds of release, in nanoseconds of the trace.
const ROUND_NS: u64 = 250_000_000;

/// What a replay found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Events replayed.
    pub events: u64,
    /// Frees of spans that the trace does not show being made.
    pub unknown: u64,
    /// Length of the trace in nanoseconds.
    pub duration_ns: u64,
    /// Highest use and highest backed memory, in bytes.
    pub peak_used_bytes: usize,
    /// See `peak_used_bytes`.
    pub peak_backed_bytes: usize,
    /// Backed over used, averaged over the events.
    #[serde(serialize_with = "crate::four_digits")]
    pub mean_overhead: f64,
    /// Use and backed memory at the end, in bytes.
    pub end_used_bytes: usize,
    /// See `end_used_bytes`.
    pub end_backed_bytes: usize,
    /// Calls to the system that would have been made to give memory back.
    pub unback_calls: u64,
    /// Hugepages that are broken at the end.
    pub broken_hugepages: usize,
    /// Regions at the end.
    pub regions: usize,
}

/// Reads all events.
///
/// # Errors
/// If reading fails, the file does not begin as a trace, or a record is damaged.
pub fn read_events(mut source: impl Read) -> io::Result<Vec<Event>> {
    let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    let records = bytes
        .strip_prefix(MAGIC)
        .ok_or_else(|| bad("not a page-heap trace: it does not begin with AMPLEPH1".into()))?;
    let (records, rest) = records.as_chunks::<RECORD_BYTES>();
    if !rest.is_empty() {
        return Err(bad(format!(
            "the last record is cut off after {} bytes",
            rest.len()
        )));
    }
    records
        .iter()
        .enumerate()
        .map(|(index, record)| {
            Event::decode(record).ok_or_else(|| bad(format!("record {index} is damaged")))
        })
        .collect()
}

/// Replays events with the given options.
pub fn replay(events: &[Event], options: HeapOptions, policy: &ReleasePolicy) -> Outcome {
    let mut heap = Box::new(PageHeap::new(FakeVm::default()));
    heap.configure(options);
    let mut spans: HashMap<u64, (usize, usize)> = HashMap::new();
    let mut outcome = Outcome::default();
    let start_ns = events.first().map_or(0, |event| event.time_ns);
    let (mut next_round_ns, mut overhead, mut samples) = (start_ns + ROUND_NS, 0.0, 0u64);
    for event in events {
        heap.vm().now_ns.set(event.time_ns.max(heap.vm().now_ns()));
        while event.time_ns >= next_round_ns {
            heap.age();
            let excess = heap.excess_pages(policy);
            heap.release(excess, policy);
            next_round_ns = (next_round_ns + ROUND_NS).max(event.time_ns.saturating_sub(ROUND_NS));
        }
        apply(&mut heap, &mut spans, event, &mut outcome.unknown);
        heap.run_queued();
        let sizes = heap.sizes();
        outcome.peak_used_bytes = outcome.peak_used_bytes.max(sizes.used_pages * PAGE_BYTES);
        outcome.peak_backed_bytes = outcome
            .peak_backed_bytes
            .max(sizes.backed_pages() * PAGE_BYTES);
        if sizes.used_pages > 0 {
            overhead += sizes.backed_pages() as f64 / sizes.used_pages as f64 - 1.0;
            samples += 1;
        }
        outcome.events += 1;
        outcome.duration_ns = event.time_ns.saturating_sub(start_ns);
    }
    outcome.mean_overhead = if samples == 0 {
        0.0
    } else {
        overhead / samples as f64
    };
    let end = heap.sizes();
    outcome.end_used_bytes = end.used_pages * PAGE_BYTES;
    outcome.end_backed_bytes = end.backed_pages() * PAGE_BYTES;
    outcome.unback_calls = heap.vm().unback_calls.get();
    outcome.broken_hugepages = end.filler.broken_hugepages;
    outcome.regions = end.regions;
    outcome
}

fn apply(
    heap: &mut PageHeap<FakeVm>,
    spans: &mut HashMap<u64, (usize, usize)>,
    event: &Event,
    unknown: &mut u64,
) {
    let len = event.len_pages as usize;
    match event.kind {
        Kind::New => {
            let align = 1usize << event.align_log2.min(34);
            let Some(page) = heap.allocate_aligned(len, align, event.density) else {
                return;
            };
            if let Some((page, len)) = spans.insert(event.page, (page, len)) {
                // The trace reuses the name without a delete: the old span is gone.
                heap.free(page, len);
            }
        }
        Kind::Delete => match spans.remove(&event.page) {
            Some((page, len)) => heap.free(page, len),
            None => *unknown += 1,
        },
        Kind::Grow => match spans.get_mut(&event.page) {
            Some(span) if len > span.1 && heap.grow(span.0, span.1, len) => span.1 = len,
            Some(_) => {}
            None => *unknown += 1,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn file(events: &[Event]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        events.iter().for_each(|event| bytes.extend(event.encode()));
        bytes
    }

    #[test]
    fn a_trace_is_replayed_to_its_end() {
        let events = [
            Event::plain(Kind::New, 0, 10, 100),
            Event::plain(Kind::New, 1_000_000_000, 200, 300),
            Event::plain(Kind::Delete, 2_000_000_000, 10, 100),
            Event::plain(Kind::Delete, 3_000_000_000, 77, 1),
        ];
        let read = read_events(&file(&events)[..]).unwrap();
        assert_eq!(read, events);
        let outcome = replay(&read, HeapOptions::default(), &ReleasePolicy::default());
        assert_eq!((outcome.events, outcome.unknown), (4, 1));
        assert_eq!(outcome.peak_used_bytes, 400 * PAGE_BYTES);
        assert_eq!(outcome.end_used_bytes, 300 * PAGE_BYTES);
        assert_eq!(outcome.duration_ns, 3_000_000_000);
    }

    #[test]
    fn damaged_files_are_refused_with_a_reason() {
        let good = file(&[Event::plain(Kind::New, 0, 1, 1)]);
        assert!(read_events(&b"something"[..]).is_err());
        assert!(read_events(&good[..good.len() - 1]).is_err());
        let mut bad = good.clone();
        bad[8 + 16] = 9;
        assert!(
            read_events(&bad[..])
                .unwrap_err()
                .to_string()
                .contains("record 0")
        );
    }
}
