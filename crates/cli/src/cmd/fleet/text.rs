// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fleet for people: tables on a terminal, figures on a page. "Paper" is Contiguitas §2.4–2.5,
//! tens of thousands of 64 GB servers.

use super::hosts::HostScan;
use super::study::{Bounds, Study, ends, free_contiguity_of};
use ample_kit::statistics::{Distribution, Summary};
use ample_pfn::{Definition, format_bytes};
use ample_report::{LineChart, Page, Section, Series, Table, Unit};
use std::fmt::Write;

/// Share of servers without a free block, by block size (§2.4).
const PAPER_WITHOUT: [(u64, &str); 3] = [(2 << 20, "23 %"), (32 << 20, "59 %"), (1 << 30, "all")];
/// Median share of unmovable 2 MB blocks (§2.5).
const PAPER_UNMOVABLE_2M: &str = "34 %";
/// Median share of unmovable 4 KB pages (§2.5).
const PAPER_PAGES: &str = "7.6 %";
/// Shares by source (figure 6), where the text names them.
const PAPER_SOURCES: [(&str, &str); 2] = [("networking", "73 %"), ("slab", "12 %")];
/// Correlation of uptime with free 2 MB pages (§2.4).
const PAPER_CORRELATION: &str = "0.00286";

const HEADS: &str = ">p10 | >p25 | >median | >p75 | >p90 | >paper";

fn table(first: &str) -> Table {
    Table::headed(&format!("{first} | {HEADS}"))
}

fn percent(value: f64) -> String {
    Unit::Percent.format(value)
}

fn spread(summary: &Summary) -> [f64; 5] {
    [
        summary.p10,
        summary.p25,
        summary.median,
        summary.p75,
        summary.p90,
    ]
}

fn cells(summary: Option<&Summary>) -> Vec<String> {
    summary.map_or(vec!["–".to_string(); 5], |summary| {
        spread(summary).map(percent).to_vec()
    })
}

/// Quantiles of an interval: `a-b` where the ends differ.
fn bounds_cells(bounds: &Bounds) -> Vec<String> {
    match (&bounds.low, &bounds.high) {
        (Some(low), Some(high)) => (spread(low).into_iter().zip(spread(high)))
            .map(|(low, high)| match (percent(low), percent(high)) {
                (low, high) if low == high => low,
                (low, high) => format!("{}-{high}", low.trim_end_matches(" %")),
            })
            .collect(),
        _ => cells(None),
    }
}

fn paper(table: &[(u64, &str)], size_bytes: u64) -> String {
    let found = table.iter().find(|(size, _)| *size == size_bytes);
    found.map_or("–".into(), |(_, text)| (*text).into())
}

fn contiguity_table(study: &Study) -> Table {
    let mut table = table("block | >hosts | >without one");
    for row in &study.free_contiguity {
        let hosts = row.ratio.as_ref().map_or(0, |summary| summary.hosts);
        let without = row.hosts_without_a_block_ratio.map_or("–".into(), percent);
        let mut line = vec![format_bytes(row.size_bytes), hosts.to_string(), without];
        line.extend(cells(row.ratio.as_ref()));
        line.push(match paper(&PAPER_WITHOUT, row.size_bytes).as_str() {
            "–" => "–".into(),
            share => format!("{share} without"),
        });
        table.row(line);
    }
    table
}

fn unmovable_table(study: &Study) -> Table {
    let mut table = table("block | by");
    for row in &study.unmovable {
        for (letter, bounds) in &row.definitions {
            let mut line = vec![format_bytes(row.size_bytes), (*letter).into()];
            line.extend(bounds_cells(bounds));
            let known = row.size_bytes == 2 << 20;
            line.push(if known { PAPER_UNMOVABLE_2M } else { "–" }.into());
            table.row(line);
        }
    }
    for (letter, bounds) in &study.unmovable_page_ratio {
        let mut line = vec!["4K pages".into(), (*letter).into()];
        line.extend(bounds_cells(bounds));
        line.push(PAPER_PAGES.into());
        table.row(line);
    }
    table
}

fn sources_table(study: &Study) -> Option<Table> {
    let sources = study.sources_ratio.as_ref()?;
    let mut table = Table::headed("source | >here | >paper");
    for (name, share) in sources {
        let paper = PAPER_SOURCES.iter().find(|(source, _)| source == name);
        let paper = paper.map_or("–", |(_, text)| text);
        table.row(vec![(*name).into(), percent(*share), paper.into()]);
    }
    Some(table)
}

fn head(study: &Study) -> String {
    let mut text = format!("{} hosts", study.hosts);
    if let Some(memory) = &study.memory_bytes {
        let _ = write!(
            text,
            ", {} in the median",
            format_bytes(memory.median as u64 >> 20 << 20)
        );
    }
    if let Some(uptime) = &study.uptime_seconds {
        let _ = write!(
            text,
            ", up {} in the median",
            Unit::Seconds.format(uptime.median)
        );
    }
    for (count, what) in [
        (
            study.superseded_scans,
            "earlier scans of the same hosts left out",
        ),
        (study.skipped.len(), "files skipped"),
    ] {
        if count > 0 {
            let _ = write!(text, "; {count} {what}");
        }
    }
    text
}

fn correlation_line(study: &Study) -> String {
    let coefficient =
        |value: Option<f64>| value.map_or("not defined".into(), |value| format!("{value:.3}"));
    let correlation = &study.correlation_with_uptime;
    format!(
        "Correlation with uptime over {} hosts: free 2M blocks {} (paper {PAPER_CORRELATION}), \
         unmovable share of 2M blocks {}.",
        correlation.hosts,
        coefficient(correlation.free_blocks_2m),
        coefficient(correlation.unmovable_ratio_2m),
    )
}

fn contiguity_caption(study: &Study) -> String {
    format!(
        "Free memory in wholly free blocks, of hosts with at least {} free",
        format_bytes(study.min_free_bytes)
    )
}

/// For a terminal.
pub fn text(study: &Study) -> String {
    let mut out = format!("{}\n\n", head(study));
    let _ = write!(
        out,
        "{}\n{}",
        contiguity_caption(study),
        contiguity_table(study).to_text()
    );
    let _ = write!(
        out,
        "\nUnmovable blocks, of all blocks\n{}",
        unmovable_table(study).to_text()
    );
    if let Some(table) = sources_table(study) {
        let _ = write!(
            out,
            "\nWho the unmovable pages belong to\n{}",
            table.to_text()
        );
    }
    let _ = writeln!(out, "\n{}", correlation_line(study));
    out
}

/// The steps with the ends of the axis, 0 and 100 %, so that figures compare at a glance.
fn from_end_to_end(mut steps: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if !steps.is_empty() {
        steps.insert(0, (0.0, 0.0));
        steps.push((1.0, 1.0));
    }
    steps
}

fn chart(title: &str, lines: Vec<(String, Distribution)>) -> String {
    let series = lines.into_iter().map(|(name, values)| Series {
        name,
        points: from_end_to_end(values.steps()),
        band: Vec::new(),
    });
    LineChart {
        title: title.into(),
        series: series.filter(|series| !series.points.is_empty()).collect(),
        x_title: "share of memory or of blocks".into(),
        x_unit: Unit::Percent,
        y_title: "hosts with at most that much".into(),
        y_unit: Unit::Percent,
        y_max: Some(1.0),
    }
    .to_svg()
}

/// For a browser: the distributions drawn.
pub fn page(study: &Study, hosts: &[HostScan]) -> Page {
    let free = (study.free_contiguity.iter()).map(|row| {
        let values = free_contiguity_of(hosts, row.size_bytes, study.min_free_bytes);
        (format_bytes(row.size_bytes), values)
    });
    let unmovable = Definition::ALL.map(|definition| {
        let values = ends(hosts, "unmovable_ratio", definition, Some(2 << 20), true);
        (definition.name().to_string(), values)
    });
    let mut page = Page::new("A fleet's memory", &head(study));
    page.push(
        Section::new("free", "Free contiguity")
            .figure(
                &chart("Share of hosts against free contiguity", free.collect()),
                &format!(
                    "{} (across) against the share of hosts (up).",
                    contiguity_caption(study)
                ),
            )
            .html(&contiguity_table(study).to_html()),
    );
    page.push(
        Section::new("unmovable", "Unmovable memory")
            .figure(
                &chart("Share of hosts against unmovable blocks", unmovable.into()),
                "2 MB blocks with an unmovable page (across), by definition, against the share of \
                 hosts (up); upper ends where the data leave an interval.",
            )
            .html(&unmovable_table(study).to_html()),
    );
    if let Some(table) = sources_table(study) {
        page.push(Section::new("sources", "Sources").html(&table.to_html()));
    }
    page.push(Section::new("uptime", "Uptime").text(&correlation_line(study)));
    page
}
