// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report for a person: head, map, tables, bars, notes.

use super::map::Map;
use super::pageblocks::{self, TypeRow};
use super::style::{Colour, Style, duration, wrap};
use super::view::View;
use super::who;
use ample_host::{Scan, printable};
use ample_pfn::{
    Culprit, Definition, DefinitionMetrics, DefinitionSize, GroupMetrics, Metrics, MetricsBuilder,
    RatioInterval, SourceMetrics, format_bytes,
};
use ample_report::Table;
use std::fmt::Write;

/// The whole report.
pub fn render(scan: &Scan, builder: &MetricsBuilder, style: &Style) -> String {
    let metrics = builder.finish(&scan.meta.coverage);
    let mut text = head(scan, &metrics.total, style);
    let mut section = |title: &str, body: String| {
        let _ = write!(text, "\n{}\n{body}", style.paint(Colour::Strong, title));
    };
    section(
        "Memory by address, unmovable as in K",
        Map::new(builder, style.columns).render(style),
    );
    section(
        "Contiguity by block size",
        sizes(&metrics.total, style.columns),
    );
    section("Nodes and zones, 2 MB blocks", zones(&metrics));
    let types = scan
        .meta
        .pageblocks
        .as_ref()
        .and_then(|runs| pageblocks::rows(runs, builder));
    if let Some(rows) = types {
        let untyped = pageblocks::untyped_blocks(&rows, &metrics.total);
        section(
            "Pageblocks (2 MB) by migratetype",
            migratetypes(&rows, untyped),
        );
    }
    section(
        "Unmovable pages by source",
        sources(&metrics.total.sources, &builder.culprits(), style),
    );
    if let Some(owners) = &scan.meta.who {
        section("Who holds unmovable memory", who::render(owners, style));
    }
    section("Notes", notes(scan, style));
    text
}

/// The report when pages may not be looked at: what the free lists say.
pub fn render_free_lists(view: &View) -> String {
    let mut table = Table::headed(">block | >free | >of free");
    for size in &view.total.sizes {
        table.row(vec![
            format_bytes(size.size_bytes),
            size.free_blocks
                .map_or("-".into(), |blocks| blocks.to_string()),
            percent(size.free_contiguity_ratio),
        ]);
    }
    let free = format_bytes(view.total.free_bytes);
    let mut zones = Table::headed(">node | zone | >free | >of free in 2 MB");
    for zone in &view.zones {
        let pageblock = zone.sizes.iter().find(|size| size.size_bytes == 2 << 20);
        zones.row(vec![
            zone.node.map_or(String::new(), |node| node.to_string()),
            zone.zone.clone().unwrap_or_default(),
            format_bytes(zone.free_bytes),
            percent(pageblock.and_then(|size| size.free_contiguity_ratio)),
        ]);
    }
    format!(
        "Linux {}, {free} free in the free lists\n\nFree contiguity by block size\n{}\n\
         Zones\n{}",
        view.kernel,
        table.to_text(),
        zones.to_text(),
    )
}

fn head(scan: &Scan, total: &GroupMetrics, style: &Style) -> String {
    let meta = &scan.meta;
    let host = meta.hostname.as_deref().unwrap_or("unknown host");
    let uptime = meta
        .uptime_seconds
        .map_or(String::new(), |s| format!(", up {}", duration(s)));
    let title = style.paint(
        Colour::Strong,
        &printable(&format!("{host}, Linux {}{uptime}", meta.kernel)),
    );
    let share = 100.0 * total.free_bytes as f64 / (total.memory_bytes.max(1)) as f64;
    format!(
        "{title}\n{} of memory, {} free ({share:.0} %), read by {} in {:.0} ms\n",
        format_bytes(total.memory_bytes),
        format_bytes(total.free_bytes),
        printable(&meta.reader),
        meta.duration_ns as f64 / 1e6,
    )
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or("-".into(), |ratio| format!("{:.1} %", 100.0 * ratio))
}

/// `4.4 %`, or `4.4-22.4 %` where the data leave an interval.
fn percent_interval(ratio: RatioInterval) -> String {
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) if format!("{:.1}", 100.0 * (high - low)) != "0.0" => {
            format!("{:.1}-{:.1} %", 100.0 * low, 100.0 * high)
        }
        (_, high) => percent(high),
    }
}

/// The definitions that this scan has.
fn definitions(group: &GroupMetrics) -> Vec<(Definition, &DefinitionMetrics)> {
    let all = Definition::ALL.into_iter();
    all.filter_map(|definition| Some((definition, group.definition(definition)?)))
        .collect()
}

/// The table by block size, in two parts where one would be too wide.
pub fn sizes(total: &GroupMetrics, columns: usize) -> String {
    let unmovable = Share {
        name: "unmovable",
        of: |size| size.unmovable_ratio,
    };
    let potential = Share {
        name: "potential",
        of: |size| size.potential_ratio,
    };
    let whole = sizes_table(total, &[&unmovable, &potential]);
    if whole.lines().all(|line| line.chars().count() <= columns) {
        return whole;
    }
    sizes_table(total, &[&unmovable]) + "\n" + &sizes_table(total, &[&potential])
}

/// A share that each definition has at each block size.
struct Share {
    name: &'static str,
    of: fn(&DefinitionSize) -> RatioInterval,
}

fn sizes_table(total: &GroupMetrics, shares: &[&Share]) -> String {
    let definitions = definitions(total);
    let mut headings = ">block | >blocks | >free | >of free".to_string();
    for share in shares {
        for (definition, _) in &definitions {
            let _ = write!(headings, " | >{} {}", share.name, definition.name());
        }
    }
    let mut table = Table::headed(&headings);
    for (index, size) in total.sizes.iter().enumerate() {
        let mut row = vec![
            format_bytes(size.size_bytes),
            size.blocks.to_string(),
            size.free_blocks.to_string(),
            percent(size.free_contiguity_ratio),
        ];
        for share in shares {
            let metrics = definitions.iter();
            let ratios = metrics.map(|(_, metrics)| (share.of)(&metrics.sizes[index]));
            row.extend(ratios.map(percent_interval));
        }
        table.row(row);
    }
    table.to_text()
}

fn zones(metrics: &Metrics) -> String {
    let mut table = Table::headed(
        ">node | zone | >memory | >free | >of free | >unmovable K | >potential K | >free inside",
    );
    let several_nodes = metrics.nodes.len() > 1;
    for group in metrics
        .nodes
        .iter()
        .filter(|_| several_nodes)
        .chain(&metrics.zones)
    {
        let pageblock = group
            .k
            .sizes
            .iter()
            .zip(&group.sizes)
            .find(|(k, _)| k.size_bytes == 2 << 20);
        table.row(vec![
            group.node.map_or(String::new(), |node| node.to_string()),
            group.zone.clone().unwrap_or_else(|| "all".into()),
            format_bytes(group.memory_bytes),
            format_bytes(group.free_bytes),
            percent(pageblock.and_then(|(_, size)| size.free_contiguity_ratio)),
            pageblock.map_or("-".into(), |(k, _)| percent_interval(k.unmovable_ratio)),
            pageblock.map_or("-".into(), |(k, _)| percent_interval(k.potential_ratio)),
            percent_interval(group.k.internal_fragmentation_ratio),
        ]);
    }
    table.to_text()
}

fn migratetypes(rows: &[TypeRow], untyped: u64) -> String {
    let mut table = Table::headed("migratetype | >blocks | >free | >with unmovable pages | >share");
    for row in rows {
        table.row(vec![
            pageblocks::name(row.migratetype).to_string(),
            row.blocks.to_string(),
            row.free_blocks.to_string(),
            row.unmovable_blocks.to_string(),
            percent(Some(row.unmovable_blocks as f64 / row.blocks as f64)),
        ]);
    }
    let mut text = table.to_text();
    if untyped > 0 {
        let _ = writeln!(
            text,
            "{untyped} more blocks have no type yet: the kernel has not initialised their memory"
        );
    }
    text
}

fn sources(sources: &[SourceMetrics], culprits: &[Culprit], style: &Style) -> String {
    let widest = sources
        .iter()
        .filter_map(|source| source.ratio)
        .fold(0.0, f64::max);
    let room = style.columns.saturating_sub(65).clamp(8, 60) as f64;
    let glyph = if style.unicode { "█" } else { "#" };
    let mut text = String::new();
    for (source, culprit) in sources.iter().zip(culprits) {
        debug_assert_eq!(source.source, culprit.source);
        let ratio = source.ratio.unwrap_or(0.0);
        let cells = if widest > 0.0 {
            (ratio / widest * room).round() as usize
        } else {
            0
        };
        let bar = glyph.repeat(cells);
        let pad = " ".repeat(room as usize - cells.min(room as usize));
        let _ = writeln!(
            text,
            "{:<13} {}{pad} {:>8} {:>9} in {} blocks, {} alone",
            source.source.name().replace('_', " "),
            style.paint(Colour::Polluted, &bar),
            percent(source.ratio),
            format_bytes(source.pages * 4096),
            source.blocks_2m,
            culprit.alone_2m,
        );
    }
    text
}

fn notes(scan: &Scan, style: &Style) -> String {
    let mut lines = vec![
        "of free: share of the free memory that lies in wholly free blocks of this size. \
         potential: share of all memory that a perfect compaction could form. \
         free inside: share of the blocks that hold an unmovable page that is free."
            .to_string(),
        "alone: blocks that hold unmovable pages of no other source and are won back when it goes."
            .to_string(),
        "K: what the kernel cannot move. P: by page flags, pages free in per-CPU lists count. \
         O: by owner (absent unless owners are known). a-b: the data leave an interval."
            .to_string(),
    ];
    lines.extend(scan.meta.notes.iter().cloned());
    let wrapped = lines.iter().map(|line| wrap(line, style.columns.min(100)));
    wrapped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_collapse_when_they_say_nothing() {
        let interval = |low, high| {
            percent_interval(RatioInterval {
                low: Some(low),
                high: Some(high),
            })
        };
        assert_eq!(interval(0.044, 0.224), "4.4-22.4 %");
        assert_eq!(interval(0.5, 0.5), "50.0 %");
        assert_eq!(
            percent_interval(RatioInterval {
                low: None,
                high: None
            }),
            "-"
        );
    }
}
