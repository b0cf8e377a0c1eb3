// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures 9 to 12 of Temeraire (OSDI 2021) with the shipped page heap over pretended memory, what
//! the paper says beside what comes out here.

use crate::fill::{self, Policy};
use ample_malloc::heap::{HeapOptions, PageHeap};
use ample_malloc::os::vm::fake::FakeVm;
use ample_malloc::units::{Density, HUGE_BYTES, PAGE_BYTES, PAGES_PER_HUGE};
use serde::Serialize;
use serde_json::json;
use std::collections::VecDeque;
use std::fmt::Write;

/// One number of a figure beside the paper's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What is measured.
    pub what: String,
    /// What the paper says; it prints few of these as numbers.
    pub paper: &'static str,
    /// What comes out here.
    #[serde(serialize_with = "crate::four_digits")]
    pub here: f64,
    /// Unit of `here`.
    pub unit: &'static str,
}

/// The numbers of one figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its number in the paper.
    #[serde(rename = "figure")]
    pub number: u32,
    /// What it shows.
    pub title: &'static str,
    /// Its numbers beside the paper's.
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
fn drained_hugepage() -> Figure {
    let iterations = 10_000;
    let mut heap = heap(HeapOptions::default());
    for _ in 0..iterations {
        let page = new(&mut heap, PAGES_PER_HUGE / 2);
        heap.free(page, PAGES_PER_HUGE / 2);
        heap.run_queued();
        heap.vm().advance_ns(MS);
    }
    let row = row(
        "releases in 10,000 iterations",
        "eager release: one each iteration, 10,000; the cache: none",
        heap.vm().unback_calls.get() as f64,
        "calls",
    );
    Figure {
        number: 9,
        title: "a program that repeatedly drains one hugepage",
        rows: vec![row],
    }
}

/// Figure 10: a demand that swings between 20 and 100 hugepages once a second.
fn saw_tooth() -> Figure {
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
        released.push((heap.vm().unback_bytes.get() - before) as f64 / HUGE_BYTES as f64);
    }
    let later = released[6..].iter().sum::<f64>() / (released.len() - 6) as f64;
    let kept = (live.len() + heap.sizes().cache_hugepages) as f64;
    let rows = [
        ("released at the first drop", "tracked tightly", released[4]),
        ("released a period from the third on", "none", later),
        ("kept at the end of a drop", "the peak demand", kept),
    ];
    Figure {
        number: 10,
        title: "the HugeCache under a saw-toothed demand of 20 to 100 hugepages",
        rows: rows
            .map(|(what, paper, here)| row(what, paper, here, "hugepages"))
            .into(),
    }
}

/// Figure 11: strategies of the filler when a demand of `demand_mib` drops to a third.
fn strategies(demand_mib: usize) -> Figure {
    let target_pages = demand_mib * MIB_PAGES;
    let plan = fill::Plan {
        target_pages,
        steps: target_pages * 2,
        seed: SEED,
    };
    let row = |(policy, name): (Policy, &str)| {
        let paper = match policy {
            Policy::Filler | Policy::LongestThenAllocations => "close to the demand, the best",
            Policy::Fullness => "close to the demand, second",
            Policy::BestFit => "near 100 %",
            _ => "-",
        };
        let what = format!("{name}: overhead after the drop");
        row(what, paper, fill::run(policy, plan).after * 100.0, "%")
    };
    Figure {
        number: 11,
        title: "strategies of the HugeFiller, demand drops to a third",
        rows: Policy::ALL.map(row).into(),
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
fn slack() -> Figure {
    let cases = [
        ("without regions, of the memory", "45 %", false),
        ("with regions, of the memory", "about 0.1 %", true),
    ];
    Figure {
        number: 12,
        title: "slack of a program that asks for 1.1 MiB only",
        rows: cases
            .map(|(what, paper, regions)| row(what, paper, only_large(regions) * 100.0, "%"))
            .into(),
    }
}

/// The figures there are, by their numbers in the paper.
pub const NUMBERS: [u32; 4] = [9, 10, 11, 12];

/// Runs the figure of a number; `None` if there is no such figure. `demand_mib` is the demand of
/// figure 11.
pub fn run(number: u32, demand_mib: usize) -> Option<Figure> {
    Some(match number {
        9 => drained_hugepage(),
        10 => saw_tooth(),
        11 => strategies(demand_mib),
        12 => slack(),
        _ => return None,
    })
}

/// The figures as a table.
pub fn text(figures: &[Figure]) -> String {
    let mut out = String::from("Simulated: the shipped page heap over pretended memory.\n");
    for figure in figures {
        let (number, title) = (figure.number, figure.title);
        let _ = writeln!(out, "\nTemeraire figure {number}: {title}");
        for row in &figure.rows {
            let here = format!("{:.1} {}", row.here, row.unit);
            let (what, paper) = (&row.what, row.paper);
            let _ = writeln!(out, "  {what:<40} here {here:<18} paper {paper}");
        }
    }
    out
}

/// The figures as one JSON object, schema `ample.malloc-figures/1`.
pub fn json(figures: &[Figure]) -> String {
    let schema = "ample.malloc-figures/1";
    json!({"schema": schema, "seed": SEED, "figures": figures}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<const N: usize>(figure: &Figure) -> [f64; N] {
        let here: Vec<f64> = figure.rows.iter().map(|row| row.here).collect();
        here.try_into().expect("so many rows")
    }

    #[test]
    fn one_hugepage_in_a_loop_costs_no_call() {
        assert_eq!(numbers(&drained_hugepage()), [0.0]);
    }

    #[test]
    fn the_first_drop_is_released_and_the_pattern_is_kept() {
        let figure = saw_tooth();
        let [first, later, kept] = numbers(&figure);
        assert!(first >= 40.0 && later <= 1.0 && kept >= 95.0, "{figure:?}");
    }

    #[test]
    fn regions_remove_the_slack() {
        let figure = slack();
        let [without, with] = numbers(&figure);
        assert!((without - 45.0).abs() < 1.0 && with <= 2.0, "{figure:?}");
    }

    #[test]
    fn json_names_each_figure_once() {
        let all = [9, 12].map(|number| run(number, 0).expect("a figure of the paper"));
        let text = json(&all);
        assert_eq!(text.matches("\"figure\":").count(), 2);
        let read: serde_json::Value = serde_json::from_str(&text).expect("its own text");
        assert_eq!(read["figures"][1]["figure"], 12);
    }
}
