// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures 9 to 12 of Temeraire (OSDI 2021) with the shipped page heap over pretended memory, what
//! the paper says beside what comes out here.

use crate::fill::{self, Policy};
use ample_malloc::heap::{HeapOptions, PageHeap};
use ample_malloc::os::vm::fake::FakeVm;
use ample_malloc::units::{Density, HUGE_BYTES, PAGE_BYTES, PAGES_PER_HUGE};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt::Write;

/// The releases of a program that takes and gives back one hugepage (figure 9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrainedHugepage {
    /// How often the hugepage is taken and given back.
    pub iterations: u64,
    /// System calls that gave memory back.
    pub releases: u64,
}

/// The HugeCache under a demand that falls from 100 to 20 hugepages once a second (figure 10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SawTooth {
    /// Hugepages released while demand falls for the first time.
    pub released_at_first_drop: f64,
    /// Hugepages released a period from the third period on, mean.
    pub released_a_period_later: f64,
    /// Hugepages in use and in the cache at the end.
    pub held_at_the_end: f64,
}

/// Strategies of the HugeFiller when demand drops to a third (figure 11).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Strategies {
    /// Demand before the drop, in MiB.
    pub demand_mib: usize,
    /// One row a strategy.
    pub rows: Vec<Strategy>,
}

/// The overhead of one strategy: backed over used memory, minus one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Strategy {
    /// Its name, as [`Policy::ALL`] has it.
    pub name: String,
    /// Before the drop, mean over the last fifth.
    pub before: f64,
    /// After the drop, mean over the last fifth.
    pub after: f64,
    /// The highest before the drop.
    pub peak_before: f64,
}

/// Slack of a program that asks for 1.1 MiB only, as a share of its backed memory (figure 12).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slack {
    /// With whole hugepages.
    pub without_regions: f64,
    /// With regions of 1 GiB.
    pub with_regions: f64,
}

/// The result of one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "figure", rename_all = "snake_case")]
pub enum Figure {
    /// Figure 9.
    DrainedHugepage(DrainedHugepage),
    /// Figure 10.
    SawTooth(SawTooth),
    /// Figure 11.
    Strategies(Strategies),
    /// Figure 12.
    Slack(Slack),
}

/// One number of a figure beside the paper's.
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
pub fn drained_hugepage() -> DrainedHugepage {
    let iterations = 10_000;
    let mut heap = heap(HeapOptions::default());
    for _ in 0..iterations {
        let page = new(&mut heap, PAGES_PER_HUGE / 2);
        heap.free(page, PAGES_PER_HUGE / 2);
        heap.run_queued();
        heap.vm().advance_ns(MS);
    }
    DrainedHugepage {
        iterations,
        releases: heap.vm().unback_calls.get(),
    }
}

/// Figure 10: a demand that swings between 20 and 100 hugepages once a second.
pub fn saw_tooth() -> SawTooth {
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
    SawTooth {
        released_at_first_drop: released[4],
        released_a_period_later: released[6..].iter().sum::<f64>() / (released.len() - 6) as f64,
        held_at_the_end: (live.len() + heap.sizes().cache_hugepages) as f64,
    }
}

/// Figure 11: strategies of the filler when a demand of `demand_mib` drops to a third.
pub fn strategies(demand_mib: usize) -> Strategies {
    let target_pages = demand_mib * MIB_PAGES;
    let plan = fill::Plan {
        target_pages,
        steps: target_pages * 2,
        seed: SEED,
    };
    let row = |(policy, name): (Policy, &str)| {
        let overhead = fill::run(policy, plan);
        Strategy {
            name: name.into(),
            before: overhead.before,
            after: overhead.after,
            peak_before: overhead.peak_before,
        }
    };
    Strategies {
        demand_mib,
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
pub fn slack() -> Slack {
    Slack {
        without_regions: only_large(false),
        with_regions: only_large(true),
    }
}

/// The figures there are, by their numbers in the paper.
pub const NUMBERS: [u32; 4] = [9, 10, 11, 12];

/// Runs the figure of a number; `None` if there is no such figure. `demand_mib` is the demand of
/// figure 11.
pub fn run(number: u32, demand_mib: usize) -> Option<Figure> {
    Some(match number {
        9 => Figure::DrainedHugepage(drained_hugepage()),
        10 => Figure::SawTooth(saw_tooth()),
        11 => Figure::Strategies(strategies(demand_mib)),
        12 => Figure::Slack(slack()),
        _ => return None,
    })
}

impl Figure {
    /// Its number in the paper.
    pub const fn number(&self) -> u32 {
        match self {
            Figure::DrainedHugepage(_) => 9,
            Figure::SawTooth(_) => 10,
            Figure::Strategies(_) => 11,
            Figure::Slack(_) => 12,
        }
    }

    /// What it shows.
    pub const fn title(&self) -> &'static str {
        match self {
            Figure::DrainedHugepage(_) => "a program that repeatedly drains one hugepage",
            Figure::SawTooth(_) => {
                "the HugeCache under a saw-toothed demand of 20 to 100 hugepages"
            }
            Figure::Strategies(_) => "strategies of the HugeFiller, demand drops to a third",
            Figure::Slack(_) => "slack of a program that asks for 1.1 MiB only",
        }
    }

    /// Its numbers beside the paper's.
    pub fn rows(&self) -> Vec<Row> {
        match self {
            Figure::DrainedHugepage(figure) => vec![row(
                "releases in 10,000 iterations",
                "eager release: one each iteration, 10,000; the cache: none",
                figure.releases as f64,
                "calls",
            )],
            Figure::SawTooth(figure) => [
                (
                    "released at the first drop",
                    "tracked tightly",
                    figure.released_at_first_drop,
                ),
                (
                    "released a period from the third on",
                    "none",
                    figure.released_a_period_later,
                ),
                (
                    "kept at the end of a drop",
                    "the peak demand",
                    figure.held_at_the_end,
                ),
            ]
            .map(|(what, paper, here)| row(what, paper, here, "hugepages"))
            .into(),
            Figure::Strategies(figure) => figure.rows.iter().map(Strategy::row).collect(),
            Figure::Slack(figure) => vec![
                row(
                    "without regions, of the memory",
                    "45 %",
                    figure.without_regions * 100.0,
                    "%",
                ),
                row(
                    "with regions, of the memory",
                    "about 0.1 %",
                    figure.with_regions * 100.0,
                    "%",
                ),
            ],
        }
    }
}

impl Strategy {
    fn row(&self) -> Row {
        let paper = match self.name.as_str() {
            "filler" | "L then A" => "close to the demand, the best",
            "fullness" => "close to the demand, second",
            "best fit" => "near 100 %",
            _ => "-",
        };
        let what = format!("{}: overhead after the drop", self.name);
        row(what, paper, self.after * 100.0, "%")
    }
}

/// The figures as a table.
pub fn text(figures: &[Figure]) -> String {
    let mut out = String::from("Simulated: the shipped page heap over pretended memory.\n");
    for figure in figures {
        let _ = writeln!(
            out,
            "\nTemeraire figure {}: {}",
            figure.number(),
            figure.title()
        );
        for row in figure.rows() {
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
        let (number, title) = (figure.number(), figure.title());
        let _ = write!(
            out,
            "{comma}{{\"figure\":{number},\"title\":\"{title}\",\"rows\":["
        );
        for (index, row) in figure.rows().iter().enumerate() {
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
        assert_eq!(drained_hugepage().releases, 0);
    }

    #[test]
    fn the_first_drop_is_released_and_the_pattern_is_kept() {
        let figure = saw_tooth();
        assert!(figure.released_at_first_drop >= 40.0, "{figure:?}");
        assert!(figure.released_a_period_later <= 1.0, "{figure:?}");
        assert!(figure.held_at_the_end >= 95.0, "{figure:?}");
    }

    #[test]
    fn regions_remove_the_slack() {
        let figure = slack();
        assert!((figure.without_regions - 0.45).abs() < 0.01, "{figure:?}");
        assert!(figure.with_regions <= 0.02, "{figure:?}");
    }

    #[test]
    fn json_names_each_figure_once() {
        let all = [9, 12].map(|number| run(number, 0).expect("a figure of the paper"));
        assert_eq!(all.each_ref().map(Figure::number), [9, 12]);
        let text = json(&all);
        assert_eq!(text.matches("\"figure\":").count(), 2);
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }

    #[test]
    fn a_result_is_read_back_as_it_was_written() {
        let figure = run(12, 0).expect("a figure of the paper");
        let text = serde_json::to_string(&figure).expect("numbers");
        assert_eq!(
            serde_json::from_str::<Figure>(&text).expect("its own text"),
            figure
        );
    }
}
