// SPDX-License-Identifier: MIT OR Apache-2.0
//! A study for people: its sentences.

use super::tables::{free_table, groups_table, potential_table, sources_table, unmovable_table};
use ample_fleet::dates::date;
use ample_fleet::study::{Doubtful, Explained, Study, WorstHost};
use ample_pfn::format_bytes;
use ample_report::{Table, Unit};
use std::fmt::Write;

pub(super) use ample_store::plain;

/// Correlation of uptime with free 2 MB pages (§2.4).
const PAPER_CORRELATION: &str = "0.00286";
/// Letters of a name that are shown.
const LONGEST_NAME: usize = 128;
pub(super) const PAGE: u64 = 4096;
pub(super) const TWO_MB: u64 = 2 << 20;
const ONE_GB: u64 = 1 << 30;

pub(super) fn percent(ratio: f64) -> String {
    Unit::Percent.format(ratio)
}

/// A name, plain and not longer than a line.
pub(super) fn shown(name: &str) -> String {
    plain(&name.chars().take(LONGEST_NAME).collect::<String>())
}

/// So many of a thing whose name takes an s.
pub(super) fn counted(count: u64, name: &str) -> String {
    match count {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    }
}

/// The answer in one or two sentences.
pub fn verdict(study: &Study) -> String {
    let key = |size| (size, "K".to_string());
    let median = |size| study.unmovable.get(&key(size))?.high.quantiles;
    let (blocks, pages) = (median(TWO_MB), median(PAGE));
    let one = study.scans.hosts == 1;
    let their = if one { "its" } else { "their" };
    let mut text = match blocks {
        Some(blocks) if one => format!(
            "This host has unmovable memory in {} of its 2 MB blocks",
            percent(blocks.median)
        ),
        Some(blocks) => format!(
            "Half of {} hosts have unmovable memory in {} or more of their 2 MB blocks",
            blocks.hosts,
            percent(blocks.median)
        ),
        None => counted(study.scans.hosts, "host"),
    };
    if let Some(pages) = pages {
        let share = percent(pages.median);
        let _ = write!(text, ", though only {share} of {their} pages are unmovable");
    }
    text.push('.');
    let _ = match study.without_potential.get(&key(ONE_GB)) {
        Some(none) if one && none.hosts == 0 => Ok(()),
        Some(_) if one => write!(
            text,
            " It cannot form a single 1 GB page, however much it moves."
        ),
        Some(none) => write!(
            text,
            " {} of {} cannot form a single 1 GB page, however much they move.",
            none.hosts, none.of
        ),
        None => Ok(()),
    };
    text
}

/// What was read, in one line.
pub fn head(study: &Study) -> String {
    let scans = &study.scans;
    let mut text = format!(
        "{} of {}",
        counted(scans.scan_count.unwrap_or(0), "scan"),
        counted(scans.hosts, "host")
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
        let files = counted(study.unusable.len() as u64, "file");
        lines.push(format!("{files} could not be used"));
    }
    for problem in &study.problems {
        let example = problem.example.as_deref().unwrap_or("without a name");
        let example = shown(example);
        lines.push(format!(
            "{} of {} left out: {} (first: {example})",
            counted(problem.row_count, "row"),
            counted(problem.hosts, "host"),
            problem.problem
        ));
    }
    if study.hosts_with_copies > 0 {
        lines.push(format!(
            "{} with more than one copy of the latest scan; that with more unmovable memory counts",
            counted(study.hosts_with_copies, "host")
        ));
    }
    if let Some(count) = study.scans.hosts_of_two_sizes.filter(|&count| count > 0) {
        lines.push(format!(
            "{} with another size of memory from scan to scan: several machines of one name? \
             (first: {})",
            counted(count, "host name"),
            shown(study.scans.example_of_two_sizes.as_deref().unwrap_or("?"))
        ));
    }
    lines.extend(doubt(
        &study.boots_go_back,
        "host name",
        "with an earlier boot by a later scan: a clock that was set back, or several machines of \
         one name",
    ));
    lines.extend(doubt(
        &study.silent,
        "host",
        "without a scan within a week of the fleet's newest; the latest one counts",
    ));
    lines
}

fn doubt(own: &Doubtful, name: &str, what: &str) -> Option<String> {
    let example = shown(own.example.as_deref().unwrap_or("?"));
    (own.hosts > 0).then(|| format!("{} {what} (first: {example})", counted(own.hosts, name)))
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
        let _ = write!(text, "; {share} of these are {}", shown(&most.source));
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
        (host.kernel.as_ref()).map(|kernel| format!("Linux {}", shown(kernel))),
        host.role.as_deref().map(shown),
        host.rack.as_deref().map(shown),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// With uptime, in a sentence.
pub fn correlation_line(study: &Study) -> String {
    let own = &study.correlation;
    let coefficient =
        |value: Option<f64>| value.map_or("not defined".into(), |r| format!("{r:.3}"));
    format!(
        "Correlation with uptime over {}: free 2M blocks {} (paper {PAPER_CORRELATION}), \
         unmovable 2M blocks {}.",
        counted(own.hosts, "host"),
        coefficient(own.free_2m),
        coefficient(own.unmovable_2m),
    )
}

/// What a host's kernel, role and rack explain, in a sentence; `None` where no dimension has two
/// groups.
pub fn explained_line(study: &Study) -> Option<String> {
    let part = |(dimension, own): (&String, &Option<Explained>)| {
        let own = own.as_ref()?;
        Some(format!(
            "{dimension} {} ({} groups; {} by chance)",
            percent(own.variance_ratio),
            own.groups,
            percent(own.by_chance_ratio)
        ))
    };
    let parts: Vec<String> = study.explained.iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| {
        format!(
            "Of the variance of unmovable 2M blocks over hosts is explained by: {}.",
            parts.join(", ")
        )
    })
}

/// How sure the distributions are, in a sentence; `None` of no host.
pub fn band_line(study: &Study) -> Option<String> {
    let blocks = study.unmovable.get(&(TWO_MB, "K".to_string()))?;
    let half = blocks.high.quantiles?.half_width;
    Some(format!(
        "Were these hosts drawn from a larger fleet, its distributions would be within {:.1} \
         points of hosts of these (95 %, whole curves).",
        100.0 * half
    ))
}

/// Change over time, in a sentence; `None` where no host was scanned twice within the dates.
pub fn drift_line(study: &Study) -> Option<String> {
    let drift = study.drift.quantiles?;
    let points = |ratio: f64| format!("{:+.1}", 100.0 * ratio);
    Some(format!(
        "From first to last scan of {} the share of unmovable 2M blocks changes by {} points \
         in the median; a tenth of the hosts by {} or less, a tenth by {} or more.",
        counted(drift.hosts, "host"),
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
        let _ = writeln!(out, "{}: {}", shown(&host.host), reason(host));
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
    let more = [explained_line(study), drift_line(study), band_line(study)];
    for line in more.into_iter().flatten() {
        let _ = writeln!(out, "{line}");
    }
    out
}

/// What is said where dates were asked for, and no host has two scans between them.
pub fn no_drift_line(study: &Study) -> Option<&'static str> {
    let told = study.drift.quantiles.is_some();
    (!told).then_some("No host has two scans between the dates: nothing is said of drift.")
}
