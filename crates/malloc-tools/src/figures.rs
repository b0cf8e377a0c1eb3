// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures 9 to 12 of Temeraire (OSDI 2021) with the shipped page heap over pretended memory, what
//! the paper says beside what comes out here.

use super::fill::{self, Policy};
use crate::heap::{HeapOptions, PageHeap};
use crate::units::{Density, PAGE_BYTES, PAGES_PER_HUGE};
use crate::vm::fake::FakeVm;
use std::collections::VecDeque;
use std::fmt::Write;

/// One figure beside the paper's.
#[derive(Clone, Debug)]
pub struct Row {
    /// What is measured.
    pub what: String,
    /// What the paper says; it prints few of these as numbers.
    pub paper: &'static str,
    /// What comes out here.
    pub here: f64,
    /// Unit of `here`.
    pub unit: &'static str,
}

/// A figure of the paper.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its number.
    pub number: u32,
    /// What it shows.
    pub title: &'static str,
    /// The numbers.
    pub rows: Vec<Row>,
}

/// Seed of all figures.
pub const SEED: u64 = 1;
const MIB_PAGES: usize = (1 << 20) / PAGE_BYTES;
const MS: u64 = 1_000_000;

fn heap(options: HeapOptions) -> Box<PageHeap<FakeVm>> {
    let mut heap = Box::new(PageHeap::new(FakeVm::default()));
    heap.configure(options);
    heap
}

fn new(heap: &mut PageHeap<FakeVm>, pages: usize) -> usize {
    heap.allocate(pages, Density::SPARSE)
        .expect("address space is pretended")
}

fn row(what: impl Into<String>, paper: &'static str, here: f64, unit: &'static str) -> Row {
    Row {
        what: what.into(),
        paper,
        here,
        unit,
    }
}

/// Figure 9: a program that takes and gives back a single hugepage, ten thousand times in 10 s.
pub fn drained_hugepage() -> Figure {
    let mut heap = heap(HeapOptions::default());
    for _ in 0..10_000 {
        let page = new(&mut heap, PAGES_PER_HUGE / 2);
        heap.free(page, PAGES_PER_HUGE / 2);
        heap.run_queued();
        heap.vm().advance_ns(MS);
    }
    let calls = heap.vm().unback_calls.get() as f64;
    let paper = "eager release: one each iteration, 10,000; the cache: none";
    Figure {
        number: 9,
        title: "a program that repeatedly drains one hugepage",
        rows: vec![row("releases in 10,000 iterations", paper, calls, "calls")],
    }
}

/// Figure 10: a demand that swings between 20 and 100 hugepages once a second.
pub fn saw_tooth() -> Figure {
    let (low, high, period_ms) = (20, 100, 1000);
    let mut heap = heap(HeapOptions::default());
    let mut live = VecDeque::new();
    let mut released = Vec::new();
    // A start at the top, long enough for the window to have seen nothing else.
    for second in 0..14u64 {
        let before = heap.vm().unback_bytes.get();
        for step_ms in (0..period_ms).step_by(10) {
            let phase = step_ms as f64 / period_ms as f64;
            let target = match second {
                0..4 => high,
                _ => high - ((high - low) as f64 * phase) as usize,
            };
            while live.len() < target {
                live.push_back(new(&mut heap, PAGES_PER_HUGE));
            }
            while live.len() > target {
                heap.free(live.pop_front().unwrap_or(0), PAGES_PER_HUGE);
                heap.run_queued();
            }
            heap.vm().advance_ns(10 * MS);
        }
        released.push((heap.vm().unback_bytes.get() - before) as f64 / 2_097_152.0);
    }
    let later = released[6..].iter().sum::<f64>() / (released.len() - 6) as f64;
    let sizes = heap.sizes();
    let held = (live.len() + sizes.cache_hugepages) as f64;
    Figure {
        number: 10,
        title: "the HugeCache under a saw-toothed demand of 20 to 100 hugepages",
        rows: vec![
            row(
                "released at the first drop",
                "tracked tightly",
                released[4],
                "hugepages",
            ),
            row(
                "released a period from the third on",
                "none",
                later,
                "hugepages",
            ),
            row(
                "kept at the end of a drop",
                "the peak demand",
                held,
                "hugepages",
            ),
        ],
    }
}

/// Figure 11: strategies of the filler when demand drops to a third.
pub fn strategies(mib: usize) -> Figure {
    let target_pages = mib * MIB_PAGES;
    let plan = fill::Plan {
        target_pages,
        steps: target_pages * 2,
        seed: SEED,
    };
    let mut rows = Vec::new();
    for (policy, name) in Policy::ALL {
        let paper = match policy {
            Policy::Filler | Policy::LongestThenAllocations => "close to the demand, the best",
            Policy::Fullness => "close to the demand, second",
            Policy::BestFit => "near 100 %",
            _ => "-",
        };
        let overhead = fill::run(policy, plan);
        let what = format!("{name}: overhead after the drop");
        rows.push(row(what, paper, overhead.after * 100.0, "%"));
    }
    Figure {
        number: 11,
        title: "strategies of the HugeFiller, demand drops to a third",
        rows,
    }
}

/// Pages backed and in use after a loop over 1.1 MiB spans, and bytes of slack over bytes used.
fn only_large(regions: bool) -> f64 {
    let mut heap = heap(HeapOptions {
        regions,
        ..HeapOptions::default()
    });
    let len = MIB_PAGES * 11 / 10;
    let mut live = VecDeque::new();
    for round in 0..20_000 {
        if round >= 4_000 {
            heap.free(live.pop_front().unwrap_or(0), len);
            heap.run_queued();
        }
        live.push_back(new(&mut heap, len));
        heap.vm().advance_ns(MS);
    }
    let sizes = heap.sizes();
    let backed = sizes.backed_pages() - sizes.cache_hugepages * PAGES_PER_HUGE;
    1.0 - sizes.used_pages as f64 / backed as f64
}

/// Figure 12: a program that asks for nothing but 1.1 MiB.
pub fn slack() -> Figure {
    Figure {
        number: 12,
        title: "slack of a program that asks for 1.1 MiB only",
        rows: vec![
            row(
                "without regions, of the memory",
                "45 %",
                only_large(false) * 100.0,
                "%",
            ),
            row(
                "with regions, of the memory",
                "about 0.1 %",
                only_large(true) * 100.0,
                "%",
            ),
        ],
    }
}

/// One figure, or all; `None` if there is no such figure. `mib` is the demand of figure 11.
pub fn figures(number: Option<u32>, mib: usize) -> Option<Vec<Figure>> {
    Some(match number {
        None => vec![drained_hugepage(), saw_tooth(), strategies(mib), slack()],
        Some(9) => vec![drained_hugepage()],
        Some(10) => vec![saw_tooth()],
        Some(11) => vec![strategies(mib)],
        Some(12) => vec![slack()],
        Some(_) => return None,
    })
}

/// The figures as a table.
pub fn text(figures: &[Figure]) -> String {
    let mut out = String::from("Simulated: the shipped page heap over pretended memory.\n");
    for figure in figures {
        let _ = writeln!(
            out,
            "\nTemeraire figure {}: {}",
            figure.number, figure.title
        );
        for row in &figure.rows {
            let here = format!("{:.1} {}", row.here, row.unit);
            let _ = writeln!(
                out,
                "  {:<40} here {here:<18} paper {}",
                row.what, row.paper
            );
        }
    }
    out
}

/// The figures as one JSON object, schema `ample.malloc-figures/1`.
pub fn json(figures: &[Figure]) -> String {
    let mut out = format!("{{\"schema\":\"ample.malloc-figures/1\",\"seed\":{SEED},\"figures\":[");
    for (index, figure) in figures.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let (number, title) = (figure.number, figure.title);
        let _ = write!(
            out,
            "{comma}{{\"figure\":{number},\"title\":\"{title}\",\"rows\":["
        );
        for (index, row) in figure.rows.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(
                out,
                "{comma}{{\"what\":\"{}\",\"paper\":\"{}\",\"here\":{:.4},\"unit\":\"{}\"}}",
                row.what, row.paper, row.here, row.unit
            );
        }
        out.push_str("]}");
    }
    out.push_str("]}\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hugepage_in_a_loop_costs_no_call() {
        assert_eq!(drained_hugepage().rows[0].here, 0.0);
    }

    #[test]
    fn the_first_drop_is_released_and_the_pattern_is_kept() {
        let rows = saw_tooth().rows;
        assert!(rows[0].here >= 40.0, "{rows:?}");
        assert!(rows[1].here <= 1.0, "{rows:?}");
        assert!(rows[2].here >= 95.0, "{rows:?}");
    }

    #[test]
    fn regions_remove_the_slack() {
        let rows = slack().rows;
        assert!((rows[0].here - 45.0).abs() < 1.0, "{rows:?}");
        assert!(rows[1].here <= 2.0, "{rows:?}");
    }

    #[test]
    fn json_names_each_figure_once() {
        let all = [drained_hugepage(), slack()];
        let text = json(&all);
        assert_eq!(text.matches("\"figure\":").count(), 2);
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
