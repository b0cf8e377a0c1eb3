// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sections about 64 GB servers under the shipped workloads, beside the paper's figures.

use super::simulate::WhatIf;
use super::verdict::unmovable_2m;
use crate::charts::Bars;
use ample_kit::statistics::Spread;
use ample_mm::{PolicyKind, RunResult};
use ample_pfn::{PageClass, Source, format_bytes};
use ample_report::Bar;
use ample_report::Section;
use ample_report::Unit;
use ample_report::{Align, Table};
use ample_report::{LineChart, Series};

/// Contiguitas figure 6, in the order networking, slab, file systems, page tables, other; the
/// two in the middle are read off as the rest (claim `ctg.sources`).
const PAPER_SOURCES: [(Source, Option<f64>); 5] = [
    (Source::Networking, Some(0.73)),
    (Source::Slab, Some(0.12)),
    (Source::FileSystems, None),
    (Source::PageTables, None),
    (Source::Other, Some(0.04)),
];
/// Claims `ctg.unmovable_linux` and `ctg.unmovable_contiguitas`: means over the workloads.
const PAPER_LINUX_MEAN: f64 = 0.31;
const PAPER_CONTIGUITAS_MEAN: f64 = 0.07;

pub(super) fn workloads(runs: &[RunResult]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for run in runs {
        if !names.contains(&run.workload.as_str()) {
            names.push(&run.workload);
        }
    }
    names
}

/// `64 GB servers`.
pub(super) fn servers_of(runs: &[RunResult]) -> String {
    let bytes = runs.first().map_or(0, |run| run.memory_bytes);
    format!("{}B servers", format_bytes(bytes))
}

pub(super) fn policies(runs: &[RunResult]) -> Vec<PolicyKind> {
    let present = |policy: &PolicyKind| runs.iter().any(|run| run.policy == *policy);
    PolicyKind::ALL.into_iter().filter(present).collect()
}

/// A bar of `value` over the runs of one policy that `keep` selects.
pub(super) fn bar(
    runs: &[RunResult],
    keep: &dyn Fn(&RunResult) -> bool,
    value: &dyn Fn(&RunResult) -> f64,
    paper: Option<f64>,
) -> Bar {
    let values = runs.iter().filter(|run| keep(run)).map(value);
    let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    let known = !values.is_empty();
    let spread = Spread::of(values);
    Bar {
        value: known.then_some(spread.mean),
        spread: (spread.min < spread.max).then_some((spread.min, spread.max)),
        paper,
    }
}

/// Figure 11.
pub(super) fn unmovable(whatif: &WhatIf) -> Section {
    let runs = &whatif.runs.servers;
    let policies = policies(runs);
    let value = |run: &RunResult| unmovable_2m(run);
    let title = "Unmovable 2 MB blocks per workload and policy";
    let mut bars = Bars::new(title, Unit::Percent);
    for workload in workloads(runs) {
        for &policy in &policies {
            let keep = |run: &RunResult| run.policy == policy && run.workload == workload;
            bars.put(workload, policy.name(), bar(runs, &keep, &value, None));
        }
    }
    for &policy in &policies {
        let paper = match policy {
            PolicyKind::Linux => Some(PAPER_LINUX_MEAN),
            PolicyKind::Contiguitas => Some(PAPER_CONTIGUITAS_MEAN),
            _ => None,
        };
        let all = bar(runs, &|run| run.policy == policy, &value, paper);
        bars.put("all (mean)", policy.name(), all);
    }
    Section::new(
        "fig11",
        &format!("{}: unmovable 2 MB blocks", servers_of(runs)),
    )
    .text(&format!(
        "Simulated. Share of 2 MB blocks with at least one unmovable page at the end of the \
             run (paper: figure 11; 19 to 42 % under Linux, at most 9 % under Contiguitas).{}",
        whatif.thinning()
    ))
    .figure(
        &bars.svg(),
        "Bars: mean over seeds; whiskers: smallest and largest. Linux was calibrated, the \
             other policies are predictions. Definition O.",
    )
}

/// Memory in blocks of a size without an unmovable page, at the end of a run.
fn potential_ratio(run: &RunResult, size_bytes: u64) -> f64 {
    let total = &run.metrics.total;
    let sizes = &total.o.as_ref().unwrap_or(&total.k).sizes;
    let size = sizes.iter().find(|size| size.size_bytes == size_bytes);
    size.and_then(|size| size.potential_ratio.low)
        .unwrap_or(0.0)
}

/// Figure 12.
pub(super) fn potential(whatif: &WhatIf) -> Section {
    let runs = &whatif.runs.servers;
    let policies = policies(runs);
    let sizes = [("2 MB", 2 << 20), ("32 MB", 32 << 20), ("1 GB", 1 << 30)];
    let mut bars = Bars::new(
        "Potential contiguity per block size and policy",
        Unit::Percent,
    )
    .up_to(1.0);
    for (label, size_bytes) in sizes {
        for &policy in &policies {
            let paper = (label == "1 GB" && policy == PolicyKind::Linux).then_some(0.0);
            let value = |run: &RunResult| potential_ratio(run, size_bytes);
            let bar = bar(runs, &|run| run.policy == policy, &value, paper);
            bars.put(label, policy.name(), bar);
        }
    }
    Section::new(
        "fig12",
        &format!("{}: what compaction could form", servers_of(runs)),
    )
    .text(
        "Simulated. Share of all memory in blocks without an unmovable page, mean over all \
             workloads (paper: figure 12; no 1 GB block under Linux, the whole movable region \
             under Contiguitas).",
    )
    .figure(
        &bars.svg(),
        "Whiskers: smallest and largest over workloads and seeds.",
    )
}

/// Unmovable share over time, one figure a workload.
pub(super) fn over_time(whatif: &WhatIf) -> Section {
    let title = format!("{}: over time", servers_of(&whatif.runs.servers));
    let mut section = Section::new("time", &title).text(
        "Simulated, from a fresh boot. In the paper the unmovable share rises within the first \
         hour and then stays.",
    );
    for workload in workloads(&whatif.runs.servers) {
        let series = policies(&whatif.runs.servers)
            .into_iter()
            .map(|policy| curve(&whatif.runs.servers, workload, policy));
        let chart = LineChart {
            title: format!("Unmovable 2 MB blocks over time, {workload}"),
            series: series.collect(),
            x_unit: Unit::Seconds,
            y_unit: Unit::Percent,
            y_max: None,
        };
        section = section.figure(&chart.to_svg(), &format!("{workload}, definition O"));
    }
    section
}

fn curve(runs: &[RunResult], workload: &str, policy: PolicyKind) -> Series {
    let runs: Vec<&RunResult> = runs
        .iter()
        .filter(|run| run.workload == workload && run.policy == policy)
        .collect();
    let length = runs.iter().map(|run| run.samples.len()).min().unwrap_or(0);
    let at = |index: usize| -> Vec<f64> {
        runs.iter()
            .map(|run| run.samples[index].unmovable_2m_ratio)
            .collect()
    };
    let mut series = Series {
        name: policy.name().to_string(),
        points: Vec::new(),
        band: Vec::new(),
    };
    for index in 0..length {
        let spread = Spread::of(at(index));
        let time_s = runs[0].samples[index].time_s;
        series.points.push((time_s, spread.mean));
        series.band.push((spread.min, spread.max));
    }
    if runs.len() < 2 {
        series.band.clear();
    }
    series
}

/// Figure 6, as a check of the calibration.
pub(super) fn sources(whatif: &WhatIf) -> Section {
    let linux: Vec<&RunResult> = whatif
        .runs
        .servers
        .iter()
        .filter(|run| run.policy == PolicyKind::Linux)
        .collect();
    let mut table = Table::new(&[
        ("source", Align::Left),
        ("here", Align::Right),
        ("smallest", Align::Right),
        ("largest", Align::Right),
        ("paper", Align::Right),
    ]);
    for (source, paper) in PAPER_SOURCES {
        if linux.is_empty() {
            continue;
        }
        let share = Spread::of(linux.iter().map(|run| source_share(run, source)));
        let percent = |ratio| Unit::Percent.format(ratio);
        table.row(vec![
            source.title().to_string(),
            percent(share.mean),
            percent(share.min),
            percent(share.max),
            paper.map_or("–".into(), percent),
        ]);
    }
    let title = format!(
        "{}: who asks for unmovable pages",
        servers_of(&whatif.runs.servers)
    );
    Section::new("sources", &title)
        .text("Stock Linux at the end of the runs, share of unmovable pages (paper: figure 6).")
        .html(&table.to_html())
}

/// Share of a source among unmovable pages, reserved memory left out (it has no owner).
fn source_share(run: &RunResult, source: Source) -> f64 {
    let total = &run.metrics.total;
    let reserved = total
        .class_pages
        .get(PageClass::Reserved.name())
        .copied()
        .unwrap_or(0);
    let pages = |wanted: Source| -> u64 {
        let all = total
            .sources
            .iter()
            .filter(|s| s.source == wanted)
            .map(|s| s.pages);
        let pages: u64 = all.sum();
        if wanted == Source::Other {
            pages.saturating_sub(reserved)
        } else {
            pages
        }
    };
    let all: u64 = PAPER_SOURCES.iter().map(|&(source, _)| pages(source)).sum();
    pages(source) as f64 / all.max(1) as f64
}

/// What each mechanism is worth.
pub(super) fn ablation(whatif: &WhatIf) -> Section {
    let mut table = Table::new(&[
        ("Contiguitas", Align::Left),
        ("unmovable 2 MB", Align::Right),
        ("potential 1 GB", Align::Right),
        ("low region", Align::Right),
        ("free inside it", Align::Right),
        ("refused kernel requests", Align::Right),
        ("waiting for memory", Align::Right),
    ]);
    for (name, run) in &whatif.runs.ablation {
        let Some(last) = run.samples.last() else {
            continue;
        };
        let region = last.low_region_bytes.map_or("–".into(), |bytes| {
            Unit::Percent.format(bytes as f64 / run.memory_bytes.max(1) as f64)
        });
        let stall = (run.stall_unmovable_ns + run.stall_movable_ns) as f64 / 1e9;
        table.row(vec![
            name.clone(),
            Unit::Percent.format(last.unmovable_2m_ratio),
            Unit::Percent.format(last.potential_1g_ratio),
            region,
            Unit::Percent.format(last.internal_fragmentation_ratio),
            Unit::Count.format(run.counters.failed_unmovable as f64),
            Unit::Seconds.format(stall),
        ]);
    }
    let workload = whatif
        .runs
        .ablation
        .first()
        .map_or("", |(_, run)| run.workload.as_str());
    Section::new("ablation", "What each mechanism is worth")
        .text(&format!(
            "Simulated: a 64 GB server under {workload} with Contiguitas complete, then with one \
             mechanism switched off at a time (paper: 22 % of pages free inside the region)."
        ))
        .html(&table.to_html())
}
