// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a recording shows: the traffic that a workload is fitted to.

use super::KernelReplay;
use super::error::ReplayError;
use super::ledger::{Ledger, Op};
use super::start::Start;
use crate::workload::{Lifetimes, Observed, PageStream, StreamOrigin};
use ample_pfn::{CLASS_COUNT, PageClass};
use ample_trace::pages::{EventKind, PageEvent, Traced};
use std::collections::HashMap;

const NS_PER_SECOND: f64 = 1e9;
const NS_PER_MS: u64 = 1_000_000;
/// Values of the course of a short recording; a long one has one a second.
const COURSE_VALUES: u64 = 128;
const LONGEST_STEP_NS: u64 = 1_000_000_000;

impl KernelReplay {
    /// What the kernel of a machine that held the pages of `start` was seen to do.
    ///
    /// # Errors
    /// [`ReplayError`] when the file cannot be read again.
    pub fn observed(&self, start: &Start) -> Result<Observed, ReplayError> {
        let survey = self.survey();
        let length_ns = survey.duration_ns();
        let mut reader = self.reader()?;
        let mut ledger = Ledger::starting_from(start);
        let step_ns = (length_ns / COURSE_VALUES).clamp(1, LONGEST_STEP_NS);
        let mut tally = Tally::new(start, survey.start_ns, step_ns);
        let mut ops = Vec::new();
        while let Some(event) = reader.next_event()? {
            let now_ns = ledger.advance(&event);
            ops.clear();
            ledger.apply(&event, &mut ops);
            tally.count(&event, now_ns, &ops);
        }
        tally.course_until(survey.end_ns);
        Ok(tally.finish(length_ns as f64 / NS_PER_SECOND))
    }
}

/// A live block.
#[derive(Clone, Copy, Debug)]
struct Living {
    stream: u32,
    pages: u64,
    since_ns: u64,
}

/// Counts of streams, and the live blocks by their number.
struct Tally {
    before_pages: [u64; CLASS_COUNT],
    streams: Vec<PageStream>,
    by_request: HashMap<(u8, u8, u32, u8), u32>,
    living: Vec<Option<Living>>,
    start_ns: u64,
    step_ns: u64,
    kernel_pages: f64,
    course: Vec<f64>,
}

impl Tally {
    fn new(start: &Start, start_ns: u64, step_ns: u64) -> Tally {
        let mut tally = Tally {
            before_pages: [0; CLASS_COUNT],
            streams: Vec::new(),
            by_request: HashMap::new(),
            living: Vec::new(),
            start_ns,
            step_ns,
            kernel_pages: 0.0,
            course: Vec::new(),
        };
        for class in PageClass::all() {
            tally.stream(StreamOrigin::Before(class));
        }
        for &class in start.classes() {
            tally.before_pages[class as usize] += 1;
        }
        for (_, class) in start.used() {
            tally.living.push(Some(Living {
                stream: class as u32,
                pages: 1,
                since_ns: start_ns,
            }));
        }
        tally
    }

    fn stream(&mut self, origin: StreamOrigin) -> u32 {
        self.streams.push(PageStream {
            origin,
            allocated_pages: 0,
            freed_pages: 0,
            lifetimes_pages: Lifetimes::default(),
        });
        self.streams.len() as u32 - 1
    }

    fn request(&mut self, traced: Traced) -> u32 {
        let key = (
            traced.order,
            traced.migratetype,
            traced.gfp.0,
            traced.task as u8,
        );
        match self.by_request.get(&key) {
            Some(&stream) => stream,
            None => {
                let stream = self.stream(StreamOrigin::Request(traced));
                self.by_request.insert(key, stream);
                stream
            }
        }
    }

    fn put(&mut self, block: u32, living: Living) {
        let index = block as usize;
        if index >= self.living.len() {
            self.living.resize(index + 1, None);
        }
        self.living[index] = Some(living);
    }

    fn count(&mut self, event: &PageEvent, now_ns: u64, ops: &[Op]) {
        self.course_until(now_ns);
        // A page of the block that was split last.
        let mut split: Option<Living> = None;
        for &op in ops {
            match op {
                Op::Alloc { block, order, .. } => {
                    let EventKind::Alloc(traced) = event.kind else {
                        continue;
                    };
                    let stream = self.request(traced);
                    let pages = 1 << order;
                    self.streams[stream as usize].allocated_pages += pages;
                    self.grow(stream, pages as f64);
                    self.put(
                        block,
                        Living {
                            stream,
                            pages,
                            since_ns: now_ns,
                        },
                    );
                }
                Op::Free { block, .. } => self.free(block, now_ns),
                Op::Split { block } => {
                    let whole = self.living.get_mut(block as usize);
                    split = whole.and_then(Option::as_mut).map(|whole| {
                        whole.pages = 1;
                        *whole
                    });
                }
                Op::Piece { block } => {
                    if let Some(page) = split {
                        self.put(block, page);
                    }
                }
                Op::Tick { .. } | Op::Sample => {}
            }
        }
    }

    fn free(&mut self, block: u32, now_ns: u64) {
        let Some(living) = self.living.get_mut(block as usize).and_then(Option::take) else {
            return;
        };
        let lived_ms = now_ns.saturating_sub(living.since_ns) / NS_PER_MS;
        let stream = &mut self.streams[living.stream as usize];
        let bucket = (u64::BITS - lived_ms.leading_zeros()) as usize;
        stream.lifetimes_pages[bucket.min(31)] += living.pages;
        stream.freed_pages += living.pages;
        self.grow(living.stream, -(living.pages as f64));
    }

    fn grow(&mut self, stream: u32, pages: f64) {
        if self.streams[stream as usize].is_kernel() {
            self.kernel_pages += pages;
        }
    }

    /// One value a step up to now.
    fn course_until(&mut self, now_ns: u64) {
        let steps = now_ns.saturating_sub(self.start_ns) / self.step_ns;
        while (self.course.len() as u64) < steps {
            self.course.push(self.kernel_pages);
        }
    }

    fn finish(self, seconds: f64) -> Observed {
        let seen = |stream: &PageStream| stream.allocated_pages + stream.freed_pages > 0;
        Observed {
            seconds,
            before_pages: self.before_pages,
            streams: self.streams.into_iter().filter(seen).collect(),
            kernel_change_pages: self.course,
        }
    }
}
