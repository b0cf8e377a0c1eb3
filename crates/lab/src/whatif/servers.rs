// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sections about 64 GB servers under the shipped workloads, beside the paper's figures.

use super::WhatIf;
use super::machine::source_name;
use super::verdict::unmovable_2m;
use ample_mm::{PolicyKind, RunResult};
use ample_pfn::{PageClass, Source, format_bytes};
use ample_report::Section;
use ample_report::Unit;
use ample_report::{Align, Table};
use ample_report::{Bar, BarChart, BarGroup};
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

/// Mean and extremes of one quantity over runs; `None` without runs.
fn statistics(values: &[f64]) -> Option<(f64, (f64, f64))> {
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some((mean, (low, high)))
}

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
    let statistics = statistics(&values);
    Bar {
        value: statistics.map(|s| s.0),
        spread: statistics.map(|s| s.1).filter(|(low, high)| low < high),
        paper,
    }
}

pub(super) fn names(policies: &[PolicyKind]) -> Vec<String> {
    policies
        .iter()
        .map(|policy| policy.name().to_string())
        .collect()
}

/// Figure 11.
pub(super) fn unmovable(whatif: &WhatIf) -> Section {
    let runs = &whatif.servers;
    let policies = policies(runs);
    let value = |run: &RunResult| unmovable_2m(run);
    let mut groups: Vec<BarGroup> = Vec::new();
    for workload in workloads(runs) {
        let bars = policies.iter().map(|&policy| {
            bar(
                runs,
                &|run| run.policy == policy && run.workload == workload,
                &value,
                None,
            )
        });
        groups.push(BarGroup {
            label: workload.to_string(),
            bars: bars.collect(),
        });
    }
    let paper = |policy| match policy {
        PolicyKind::Linux => Some(PAPER_LINUX_MEAN),
        PolicyKind::Contiguitas => Some(PAPER_CONTIGUITAS_MEAN),
        _ => None,
    };
    let bars = policies
        .iter()
        .map(|&p| bar(runs, &|run| run.policy == p, &value, paper(p)));
    groups.push(BarGroup {
        label: "all (mean)".into(),
        bars: bars.collect(),
    });
    let chart = BarChart {
        title: "Unmovable 2 MB blocks per workload and policy".into(),
        series: names(&policies),
        groups,
        unit: Unit::Percent,
        max: None,
    };
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
        &chart.to_svg(),
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
    let runs = &whatif.servers;
    let policies = policies(runs);
    let sizes = [("2 MB", 2 << 20), ("32 MB", 32 << 20), ("1 GB", 1 << 30)];
    let groups = sizes.iter().map(|&(label, size_bytes)| BarGroup {
        label: label.to_string(),
        bars: policies
            .iter()
            .map(|&policy| {
                let paper = (label == "1 GB" && policy == PolicyKind::Linux).then_some(0.0);
                let value = |run: &RunResult| potential_ratio(run, size_bytes);
                bar(runs, &|run| run.policy == policy, &value, paper)
            })
            .collect(),
    });
    let chart = BarChart {
        title: "Potential contiguity per block size and policy".into(),
        series: names(&policies),
        groups: groups.collect(),
        unit: Unit::Percent,
        max: Some(1.0),
    };
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
        &chart.to_svg(),
        "Whiskers: smallest and largest over workloads and seeds.",
    )
}

/// Unmovable share over time, one figure a workload.
pub(super) fn over_time(whatif: &WhatIf) -> Section {
    let title = format!("{}: over time", servers_of(&whatif.servers));
    let mut section = Section::new("time", &title).text(
        "Simulated, from a fresh boot. In the paper the unmovable share rises within the first \
         hour and then stays.",
    );
    for workload in workloads(&whatif.servers) {
        let series = policies(&whatif.servers)
            .into_iter()
            .map(|policy| curve(&whatif.servers, workload, policy));
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
        if let Some((mean, band)) = statistics(&at(index)) {
            series.points.push((runs[0].samples[index].time_s, mean));
            series.band.push(band);
        }
    }
    if runs.len() < 2 {
        series.band.clear();
    }
    series
}

/// Figure 6, as a check of the calibration.
pub(super) fn sources(whatif: &WhatIf) -> Section {
    let linux: Vec<&RunResult> = whatif
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
        let shares: Vec<f64> = linux.iter().map(|run| source_share(run, source)).collect();
        let Some((mean, (low, high))) = statistics(&shares) else {
            continue;
        };
        let percent = |ratio| Unit::Percent.format(ratio);
        table.row(vec![
            source_name(source).to_string(),
            percent(mean),
            percent(low),
            percent(high),
            paper.map_or("–".into(), percent),
        ]);
    }
    let title = format!(
        "{}: who asks for unmovable pages",
        servers_of(&whatif.servers)
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
    for (name, run) in &whatif.ablation {
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
