// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects of a recording in the shipped size classes and page heap, over pretended memory,
//! those that are called short-lived apart. As in the allocator, an object comes from the span of
//! its class with the fewest free ones, by powers of 2; there are no caches in front.

use super::predict::small_class;
use super::recording::{AllocationRun, Object};
use ample_malloc::heap::{HeapOptions, PageHeap, ReleasePolicy};
use ample_malloc::os::vm::Vm;
use ample_malloc::os::vm::fake::FakeVm;
use ample_malloc::size_class::TABLE;
use ample_malloc::units::{Density, PAGE_BYTES, pages_for};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Between two rounds of release, which are also the samples, in nanoseconds of the recording.
const ROUND_NS: u64 = 250_000_000;
/// Rounds after the last call: 20 s, longer than any window of the release policy.
const LAST_ROUNDS: u64 = 80;

/// What objects that are called short-lived have of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Nothing: the shipped allocator.
    Nothing,
    /// Spans, among those of other objects.
    Spans,
    /// Spans and the hugepages below them, as cold objects have.
    Hugepages,
}

impl Apart {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Apart::Nothing => "nothing",
            Apart::Spans => "spans",
            Apart::Hugepages => "hugepages",
        }
    }
}

/// Memory over a run and 20 s after it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ApartRow {
    /// Most memory that the program asked for and had, MiB.
    #[serde(serialize_with = "crate::four_digits")]
    pub peak_live_mib: f64,
    /// Most memory behind the heap ÷ `peak_live_mib`.
    #[serde(serialize_with = "crate::four_digits")]
    pub peak_backed: f64,
    /// Means over the run: memory behind the heap ÷ what the program had.
    #[serde(serialize_with = "crate::four_digits")]
    pub mean_backed: f64,
    /// Means over the run: what the program had on whole hugepages ÷ all that it had.
    #[serde(serialize_with = "crate::four_digits")]
    pub coverage: f64,
    /// What the program had at the end ÷ at its peak.
    #[serde(serialize_with = "crate::four_digits")]
    pub end_live: f64,
    /// 20 s after the end: memory behind the heap ÷ what the program has; none if it has nothing.
    pub end_backed: Option<f64>,
    /// 20 s after the end: what it has on whole hugepages ÷ all that it has.
    pub end_coverage: Option<f64>,
}

/// A span with its free objects; one of a large object has none.
struct Span {
    page: usize,
    pages: usize,
    class: usize,
    short: bool,
    free: Vec<u16>,
    live_bytes: u64,
    /// Where it is listed: by the logarithm of its free objects, then the latest first.
    listed: Option<(u32, Reverse<u64>)>,
}

/// Where an object lies.
type Place = (u32, u16);

/// Spans with free objects: see [`Span::listed`], then the number of the span.
type SpanList = BTreeSet<(u32, Reverse<u64>, u32)>;

struct Model {
    heap: Box<PageHeap<FakeVm>>,
    apart: Apart,
    spans: Vec<Span>,
    /// Numbers of spans that may be used again.
    unused: Vec<u32>,
    /// Spans with free objects, by class and kind.
    lists: Vec<[SpanList; 2]>,
    listings: u64,
    live_bytes: u64,
}

impl Model {
    fn new(apart: Apart) -> Model {
        let mut heap = Box::new(PageHeap::new(FakeVm::default()));
        heap.configure(HeapOptions::default());
        Model {
            heap,
            apart,
            spans: Vec::new(),
            unused: Vec::new(),
            lists: TABLE.iter().map(|_| Default::default()).collect(),
            listings: 0,
            live_bytes: 0,
        }
    }

    /// A new span, listed nowhere.
    fn add_span(&mut self, pages: usize, class: usize, short: bool, objects: u16) -> u32 {
        let density = match self.apart {
            Apart::Hugepages if short => Density::COLD,
            _ => Density::of(objects.into()),
        };
        let page = self.heap.allocate(pages, density);
        let span = Span {
            page: page.expect("address space is pretended"),
            pages,
            class,
            short,
            free: (0..objects).rev().collect(),
            live_bytes: 0,
            listed: None,
        };
        if let Some(id) = self.unused.pop() {
            self.spans[id as usize] = span;
            return id;
        }
        self.spans.push(span);
        self.spans.len() as u32 - 1
    }

    /// Lists a span where it belongs now.
    fn list(&mut self, id: u32) {
        let span = &mut self.spans[id as usize];
        let level = span.free.len().checked_ilog2();
        if span.listed.map(|listed| listed.0) == level {
            return;
        }
        let lists = &mut self.lists[span.class][usize::from(span.short)];
        if let Some((level, stamp)) = span.listed.take() {
            lists.remove(&(level, stamp, id));
        }
        if let Some(level) = level {
            self.listings += 1;
            let stamp = Reverse(self.listings);
            lists.insert((level, stamp, id));
            span.listed = Some((level, stamp));
        }
    }

    fn allocate(&mut self, object: &Object, short: bool) -> Place {
        self.live_bytes += object.bytes;
        let Some(class) = small_class(object) else {
            let pages = pages_for(object.bytes as usize).expect("the reader refuses such sizes");
            let id = self.add_span(pages, 0, false, 0);
            self.spans[id as usize].live_bytes = object.bytes;
            return (id, 0);
        };
        let short = short && self.apart != Apart::Nothing;
        let first = self.lists[class][usize::from(short)].first();
        let id = first.map(|listed| listed.2).unwrap_or_else(|| {
            let info = &TABLE[class];
            self.add_span(info.pages.into(), class, short, info.objects)
        });
        let span = &mut self.spans[id as usize];
        let slot = span.free.pop().expect("it has free objects");
        span.live_bytes += object.bytes;
        self.list(id);
        (id, slot)
    }

    fn free(&mut self, object: &Object, (id, slot): Place) {
        self.live_bytes -= object.bytes;
        let span = &mut self.spans[id as usize];
        span.live_bytes -= object.bytes;
        let large = span.class == 0;
        if !large {
            span.free.push(slot);
        }
        if large || span.free.len() == usize::from(TABLE[span.class].objects) {
            let (page, pages) = (span.page, span.pages);
            span.free = Vec::new();
            self.list(id);
            self.unused.push(id);
            self.heap.free(page, pages);
            self.heap.run_queued();
        } else {
            self.list(id);
        }
    }

    fn backed_bytes(&self) -> usize {
        self.heap.sizes().backed_pages() * PAGE_BYTES
    }

    /// What lies on whole hugepages, in bytes.
    fn covered_bytes(&self) -> u64 {
        let whole = |span: &&Span| span.live_bytes > 0 && !self.heap.is_broken(span.page);
        let spans = self.spans.iter().filter(whole);
        spans.map(|span| span.live_bytes).sum()
    }

    /// Time is so late now.
    fn advance(&self, time_ns: u64) {
        let vm = self.heap.vm();
        vm.now_ns.set(time_ns.max(vm.now_ns()));
    }

    /// A round of release at this time.
    fn release(&mut self, time_ns: u64) {
        self.advance(time_ns);
        let policy = ReleasePolicy::default();
        self.heap.age();
        let excess = self.heap.excess_pages(&policy);
        self.heap.release(excess, &policy);
    }
}

fn share(part: f64, of: f64) -> f64 {
    part / of.max(1.0)
}

/// Places all objects of a recording; `short` says for each whether it is called short-lived.
pub fn replay(recording: &AllocationRun, short: &[bool], apart: Apart) -> ApartRow {
    let mut model = Model::new(apart);
    let mut places: Vec<Place> = vec![(0, 0); recording.objects.len()];
    let (mut round_ns, mut peak_backed) = (ROUND_NS, 0);
    // Live, backed, covered.
    let mut sums = [0.0; 3];
    for call in &recording.calls {
        while call.time_ns >= round_ns {
            model.release(round_ns);
            let sizes = [
                model.live_bytes as f64,
                model.backed_bytes() as f64,
                model.covered_bytes() as f64,
            ];
            sums.iter_mut()
                .zip(sizes)
                .for_each(|(sum, size)| *sum += size);
            round_ns += ROUND_NS;
        }
        model.advance(call.time_ns);
        let number = call.object as usize;
        let object = &recording.objects[number];
        if call.frees {
            model.free(object, places[number]);
        } else {
            places[number] = model.allocate(object, short[number]);
            peak_backed = peak_backed.max(model.backed_bytes());
        }
    }
    for round in 0..LAST_ROUNDS {
        model.release(round_ns + round * ROUND_NS);
    }
    let (live, peak_live) = (model.live_bytes as f64, recording.peak_live_bytes() as f64);
    let end = |part: f64| (live > peak_live / 100.0).then(|| crate::rounded(part / live, 4));
    ApartRow {
        peak_live_mib: peak_live / 1_048_576.0,
        peak_backed: share(peak_backed as f64, peak_live),
        mean_backed: share(sums[1], sums[0]),
        coverage: share(sums[2], sums[0]),
        end_live: share(live, peak_live),
        end_backed: end(model.backed_bytes() as f64),
        end_coverage: end(model.covered_bytes() as f64),
    }
}
