// SPDX-License-Identifier: MIT OR Apache-2.0
//! A study for people: its sentences and tables. "Paper" is Contiguitas §2.4 and §2.5, tens of
//! thousands of 64 GB servers, whose scan is definition P.

use super::dates::date;
use ample_fleet::study::{Bounds, HostSpread, Quantiles, Study, WorstHost};
use ample_pfn::format_bytes;
use ample_report::{Table, Unit};
use std::fmt::Write;

/// Share of servers without a free block, by block size (§2.4).
const PAPER_WITHOUT: [(u64, &str); 3] = [(2 << 20, "23 %"), (32 << 20, "59 %"), (1 << 30, "all")];
/// Shares by source (figure 6), where the text names them.
const PAPER_SOURCES: [(&str, &str); 2] = [("networking", "73 %"), ("slab", "12 %")];
/// Correlation of uptime with free 2 MB pages (§2.4).
const PAPER_CORRELATION: &str = "0.00286";
const HEADS: &str = ">p10 | >p25 | >median | >p75 | >p90";
const PAGE: u64 = 4096;
const TWO_MB: u64 = 2 << 20;
const ONE_GB: u64 = 1 << 30;

pub(super) fn percent(ratio: f64) -> String {
    Unit::Percent.format(ratio)
}

fn cells(quantiles: Option<&Quantiles>) -> Vec<String> {
    let five = |q: &Quantiles| [q.p10, q.p25, q.median, q.p75, q.p90].map(percent).to_vec();
    quantiles.map_or(vec!["–".to_string(); 5], five)
}

/// Quantiles of an interval: `a-b` where the ends differ.
fn bounds_cells(bounds: &Bounds) -> Vec<String> {
    let ends = [&bounds.low, &bounds.high].map(|end| cells(end.quantiles.as_ref()));
    let [low, high] = ends;
    let both = low
        .into_iter()
        .zip(high)
        .map(|(low, high)| match low == high {
            true => low,
            false => format!("{}-{high}", low.trim_end_matches(" %")),
        });
    both.collect()
}

fn size_name(size_bytes: u64) -> String {
    match size_bytes {
        PAGE => "4K pages".into(),
        size => format_bytes(size),
    }
}

/// The answer in one or two sentences.
pub fn verdict(study: &Study) -> String {
    let key = |size| (size, "K".to_string());
    let mut text = match study
        .unmovable
        .get(&key(TWO_MB))
        .and_then(|own| own.high.quantiles)
    {
        Some(blocks) => format!(
            "Half of {} hosts have unmovable memory in {} or more of their 2 MB blocks",
            blocks.hosts,
            percent(blocks.median)
        ),
        None => format!("{} hosts", study.scans.hosts),
    };
    let pages = study
        .unmovable
        .get(&key(PAGE))
        .and_then(|own| own.high.quantiles);
    if let Some(pages) = pages {
        let _ = write!(
            text,
            ", though only {} of their pages are unmovable",
            percent(pages.median)
        );
    }
    text.push('.');
    if let Some(none) = study.without_potential.get(&key(ONE_GB)) {
        let _ = write!(
            text,
            " {} of {} cannot form a single 1 GB page, however much they move.",
            none.hosts, none.of
        );
    }
    text
}

/// What was read, in one line.
pub fn head(study: &Study) -> String {
    let scans = &study.scans;
    let mut text = format!(
        "{} scans of {} hosts",
        scans.scan_count.unwrap_or(0),
        scans.hosts
    );
    if let (Some(first), Some(last)) = (scans.first_seconds, scans.last_seconds) {
        let [first, last] = [first, last].map(|seconds| date(seconds as i64 / 86_400));
        let _ = match first == last {
            true => write!(text, ", {first}"),
            false => write!(text, ", {first} to {last}"),
        };
    }
    if let Some(mib) = median_of(study.memory_mib.iter()) {
        let _ = write!(text, ", {} in the median", format_bytes(mib << 20));
    }
    text
}

fn median_of<'a>(counts: impl Iterator<Item = (&'a u64, &'a u64)> + Clone) -> Option<u64> {
    let all: u64 = counts.clone().map(|(_, hosts)| hosts).sum();
    let mut below = 0;
    let mut at = counts.skip_while(move |(_, hosts)| {
        below += **hosts;
        2 * below < all
    });
    at.next().map(|(value, _)| *value)
}

/// What does not count, one line each.
pub fn left_out(study: &Study) -> Vec<String> {
    let mut lines = Vec::new();
    if !study.unusable.is_empty() {
        lines.push(format!("{} files could not be used", study.unusable.len()));
    }
    for problem in &study.problems {
        let example = problem.example.as_deref().unwrap_or("without a name");
        lines.push(format!(
            "{} rows of {} hosts do not count: {} (first: {example})",
            problem.row_count, problem.hosts, problem.problem
        ));
    }
    if study.hosts_with_copies > 0 {
        lines.push(format!(
            "{} hosts delivered their latest scan more than once; the worse values count",
            study.hosts_with_copies
        ));
    }
    if let Some(count) = study.scans.hosts_of_two_sizes.filter(|&count| count > 0) {
        lines.push(format!(
            "{count} host names may stand for several machines: their memory changes between \
             scans (first: {})",
            study.scans.example_of_two_sizes.as_deref().unwrap_or("?")
        ));
    }
    lines
}

/// Figure 4.
pub fn free_table(study: &Study) -> Table {
    let mut table = Table::headed(&format!("block | >hosts | >without one | >paper | {HEADS}"));
    for (&size, spread) in study
        .free_contiguity
        .iter()
        .filter(|(size, _)| **size > PAGE)
    {
        let without = study
            .without_free
            .get(&size)
            .and_then(|share| share.ratio());
        let paper = PAPER_WITHOUT.iter().find(|(own, _)| *own == size);
        let mut line = vec![
            size_name(size),
            spread.cdf.hosts.to_string(),
            without.map_or("–".into(), percent),
            paper.map_or("–", |(_, text)| text).into(),
        ];
        line.extend(cells(spread.quantiles.as_ref()));
        table.row(line);
    }
    table
}

/// Figure 5; the paper's medians stand beside the definition that they were made by.
pub fn unmovable_table(study: &Study) -> Table {
    let mut table = Table::headed(&format!("block | by | {HEADS} | >paper's median"));
    for ((size, definition), bounds) in &study.unmovable {
        let mut line = vec![size_name(*size), definition.clone()];
        line.extend(bounds_cells(bounds));
        let paper = match (*size, definition.as_str()) {
            (TWO_MB, "P") => "34 %",
            (PAGE, "P") => "7.6 %",
            _ => "–",
        };
        line.push(paper.into());
        table.row(line);
    }
    table
}

/// What compaction could still make.
pub fn potential_table(study: &Study) -> Table {
    let mut table = Table::headed(&format!("block | by | >without one | {HEADS}"));
    for (key, bounds) in study.potential.iter().filter(|((size, _), _)| *size > PAGE) {
        let without = study
            .without_potential
            .get(key)
            .and_then(|share| share.ratio());
        let mut line = vec![
            size_name(key.0),
            key.1.clone(),
            without.map_or("–".into(), percent),
        ];
        line.extend(bounds_cells(bounds));
        table.row(line);
    }
    table
}

/// Figure 6; `None` where no scan names a source.
pub fn sources_table(study: &Study) -> Option<Table> {
    let all: u64 = study.sources.values().sum();
    if all == 0 {
        return None;
    }
    let mut table = Table::headed("source | >here | >paper");
    for (name, pages) in &study.sources {
        let paper = PAPER_SOURCES.iter().find(|(source, _)| source == name);
        let share = percent(*pages as f64 / all as f64);
        table.row(vec![
            name.clone(),
            share,
            paper.map_or("–", |(_, text)| text).into(),
        ]);
    }
    Some(table)
}

/// Unmovable 2 MB blocks by kernel, role and rack, the largest median first; of racks the worst
/// ten.
pub fn groups_table(study: &Study) -> Option<Table> {
    let mut table = Table::headed(&format!("by | name | >hosts | {HEADS}"));
    let mut any = false;
    for dimension in ["kernel", "role", "rack"] {
        let own = |((found, _), _): &(&(String, String), &HostSpread)| found == dimension;
        let mut groups: Vec<_> = study.groups.iter().filter(own).collect();
        let median =
            |spread: &HostSpread| spread.quantiles.map_or(0.0, |quantiles| quantiles.median);
        groups.sort_by(|a, b| median(b.1).total_cmp(&median(a.1)).then(a.0.cmp(b.0)));
        for ((_, name), spread) in groups.into_iter().take(10) {
            let mut line = vec![dimension.into(), name.clone(), spread.cdf.hosts.to_string()];
            line.extend(cells(spread.quantiles.as_ref()));
            table.row(line);
            any = true;
        }
    }
    any.then_some(table)
}

/// Why a host is among the worst.
pub fn reason(host: &WorstHost) -> String {
    let blocks = host.unmovable_blocks_high as f64 / host.blocks.max(1) as f64;
    let mut text = format!(
        "{} of its 2 MB blocks hold unmovable memory",
        percent(blocks)
    );
    if let Some(pages) = host.unmovable_pages {
        let pages = pages as f64 * PAGE as f64 / host.memory_bytes.max(1) as f64;
        let _ = write!(text, ", but {} of its pages are unmovable", percent(pages));
    }
    let all: u64 = host.sources.iter().map(|source| source.pages).sum();
    if let Some(most) = host.sources.first() {
        let share = percent(most.pages as f64 / all.max(1) as f64);
        let _ = write!(text, "; {share} of these are {}", most.source);
        if let Some(blocks) = most.blocks_2m {
            let _ = write!(text, ", in {blocks} blocks");
        }
    }
    if host.potential_blocks_1g == Some(0) {
        text.push_str("; no 1 GB page can be formed");
    }
    text
}

/// What a host is, in a line.
fn machine(host: &WorstHost) -> String {
    let up = (host.uptime_seconds).map(|seconds| Unit::Seconds.format(seconds as f64));
    let parts = [
        Some(format_bytes(host.memory_bytes >> 20 << 20)),
        up.map(|up| format!("up {up}")),
        host.kernel.as_ref().map(|kernel| format!("Linux {kernel}")),
        host.role.clone(),
        host.rack.clone(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The worst hosts.
pub fn worst_table(study: &Study) -> Table {
    let mut table = Table::headed("host | why | >memory | >up | kernel | role | rack");
    let or_dash = |text: &Option<String>| text.clone().unwrap_or("–".into());
    for host in &study.worst {
        let up = host
            .uptime_seconds
            .map(|seconds| Unit::Seconds.format(seconds as f64));
        table.row(vec![
            host.host.clone(),
            reason(host),
            format_bytes(host.memory_bytes >> 20 << 20),
            up.unwrap_or("–".into()),
            or_dash(&host.kernel),
            or_dash(&host.role),
            or_dash(&host.rack),
        ]);
    }
    table
}

/// With uptime, in a sentence.
pub fn correlation_line(study: &Study) -> String {
    let own = &study.correlation;
    let coefficient =
        |value: Option<f64>| value.map_or("not defined".into(), |r| format!("{r:.3}"));
    format!(
        "Correlation with uptime over {} hosts: free 2M blocks {} (paper {PAPER_CORRELATION}), \
         unmovable 2M blocks {}.",
        own.hosts,
        coefficient(own.free_2m),
        coefficient(own.unmovable_2m),
    )
}

/// Change over time, in a sentence; `None` where no host was scanned twice.
pub fn drift_line(study: &Study) -> Option<String> {
    let drift = study.drift.quantiles?;
    let points = |ratio: f64| format!("{:+.1}", 100.0 * ratio);
    Some(format!(
        "From first to last scan of {} hosts the share of unmovable 2M blocks changes by {} points \
         in the median; a tenth of the hosts by {} or less, a tenth by {} or more.",
        drift.hosts,
        points(drift.median),
        points(drift.p10),
        points(drift.p90)
    ))
}

/// For a terminal.
pub fn text(study: &Study) -> String {
    let mut out = format!("{}\n{}\n", verdict(study), head(study));
    for line in left_out(study) {
        let _ = writeln!(out, "{line}");
    }
    out.push_str("\nWorst hosts: most 2 MB blocks with unmovable memory\n");
    for host in &study.worst {
        let _ = writeln!(out, "{}: {}", host.host, reason(host));
        let _ = writeln!(out, "    {}", machine(host));
    }
    let mut part = |title: &str, table: &Table| {
        let _ = write!(out, "\n{title}\n{}", table.to_text());
    };
    part("Unmovable blocks, of all blocks", &unmovable_table(study));
    part(
        "Memory in blocks without unmovable pages, of all memory",
        &potential_table(study),
    );
    part(
        "Free memory in wholly free blocks, of free memory",
        &free_table(study),
    );
    if let Some(table) = sources_table(study) {
        part("Who the unmovable pages belong to", &table);
    }
    if let Some(table) = groups_table(study) {
        part("Unmovable 2 MB blocks by kernel, role and rack", &table);
    }
    let _ = writeln!(out, "\n{}", correlation_line(study));
    if let Some(line) = drift_line(study) {
        let _ = writeln!(out, "{line}");
    }
    out
}
