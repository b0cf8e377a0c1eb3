// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of a study. "Paper" is Contiguitas §2.4 and §2.5, tens of thousands of 64 GB servers,
//! whose scan is definition P.

use super::text::{PAGE, TWO_MB, percent, reason, shown};
use ample_fleet::study::{Bounds, HostSpread, Quantiles, Study};
use ample_pfn::format_bytes;
use ample_report::{Table, Unit};

/// Share of servers without a free block, by block size (§2.4).
const PAPER_WITHOUT: [(u64, &str); 3] = [(2 << 20, "23 %"), (32 << 20, "59 %"), (1 << 30, "all")];
/// Shares by source (figure 6), where the text names them.
const PAPER_SOURCES: [(&str, &str); 2] = [("networking", "73 %"), ("slab", "12 %")];
/// Groups of a dimension that are shown.
const MOST_GROUPS: usize = 10;
const HEADS: &str = ">p10 | >p25 | >median | >p75 | >p90";

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
        let mut line = vec![size_name(*size), shown(definition)];
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
            shown(&key.1),
            without.map_or("–".into(), percent),
        ];
        line.extend(bounds_cells(bounds));
        table.row(line);
    }
    table
}

/// Figure 6: of the fleet's pages, and of each host's; `None` where no scan names a source.
pub fn sources_table(study: &Study) -> Option<Table> {
    let all: u64 = study.sources.values().sum();
    if all == 0 {
        return None;
    }
    let mut table = Table::headed(&format!("source | >here | >paper | {HEADS}"));
    for (name, pages) in &study.sources {
        let paper = PAPER_SOURCES.iter().find(|(source, _)| source == name);
        let share = percent(*pages as f64 / all as f64);
        let mut line = vec![
            shown(name),
            share,
            paper.map_or("–", |(_, text)| text).into(),
        ];
        let spread = study.source_shares.get(name);
        line.extend(cells(spread.and_then(|spread| spread.quantiles.as_ref())));
        table.row(line);
    }
    Some(table)
}

/// Unmovable 2 MB blocks by kernel, role and rack, the largest median first; of each the worst ten.
pub fn groups_table(study: &Study) -> Option<Table> {
    let mut table = Table::headed(&format!("by | name | >hosts | {HEADS}"));
    let mut any = false;
    for dimension in ["kernel", "role", "rack"] {
        let own = |((found, _), _): &(&(String, String), &HostSpread)| found == dimension;
        let mut groups: Vec<_> = study.groups.iter().filter(own).collect();
        let median =
            |spread: &HostSpread| spread.quantiles.map_or(0.0, |quantiles| quantiles.median);
        groups.sort_by(|a, b| median(b.1).total_cmp(&median(a.1)).then(a.0.cmp(b.0)));
        let more = groups.len().saturating_sub(MOST_GROUPS);
        for ((_, name), spread) in groups.into_iter().take(MOST_GROUPS) {
            let mut line = vec![dimension.into(), shown(name), spread.cdf.hosts.to_string()];
            line.extend(cells(spread.quantiles.as_ref()));
            table.row(line);
            any = true;
        }
        if more > 0 {
            let mut line = vec![dimension.into(), format!("and {more} more"), String::new()];
            line.extend(cells(None));
            table.row(line);
        }
    }
    any.then_some(table)
}

/// The worst hosts.
pub fn worst_table(study: &Study) -> Table {
    let mut table = Table::headed("host | why | >memory | >up | kernel | role | rack");
    let or_dash = |text: &Option<String>| text.as_deref().map_or("–".into(), shown);
    for host in &study.worst {
        let up = host
            .uptime_seconds
            .map(|seconds| Unit::Seconds.format(seconds as f64));
        table.row(vec![
            shown(&host.host),
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
