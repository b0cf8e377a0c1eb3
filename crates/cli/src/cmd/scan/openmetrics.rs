// SPDX-License-Identifier: MIT OR Apache-2.0
//! OpenMetrics text, for example for the textfile collector of a node exporter.
//!
//! The whole machine has every value; zones have the headline of definition K only, so that a
//! host stays below 200 series. Those of zones are families of their own, so that a sum over a
//! family counts no page twice.

use super::rows::{MetricRow, rows};
use super::view::View;
use crate::cmd::exposition::Exposition;
use ample_pfn::Definition;

/// Gauges of the long table: name, metric there, factor, help.
const FAMILIES: [(&str, &str, f64, &str); 7] = [
    (
        "memory_bytes",
        "memory_bytes",
        1.0,
        "Memory, holes excluded.",
    ),
    ("free_bytes", "free_bytes", 1.0, "Free memory."),
    (
        "free_contiguity_ratio",
        "free_contiguity_ratio",
        1.0,
        "Free bytes in aligned, wholly free blocks of this size over all free bytes.",
    ),
    (
        "unmovable_ratio",
        "unmovable_ratio",
        1.0,
        "Blocks with an unmovable page over all blocks, by definition; bounds of the interval.",
    ),
    (
        "potential_ratio",
        "potential_ratio",
        1.0,
        "Bytes in whole blocks without an unmovable page over all bytes, by definition.",
    ),
    (
        "source_bytes",
        "source_pages",
        4096.0,
        "Unmovable memory by who asked for it.",
    ),
    (
        "source_blocks",
        "source_blocks_2m",
        1.0,
        "2 MB blocks that hold unmovable memory of this source.",
    ),
];

/// The whole exposition.
pub fn render(view: &View) -> Vec<u8> {
    let mut out = Exposition::default();
    families(view, &mut out);
    out.end().into_bytes()
}

/// Everything of a scan.
pub fn families(view: &View, out: &mut Exposition) {
    let rows = rows(view);
    for (name, metric, factor, help) in FAMILIES {
        let rows = || rows.iter().filter(|row| row.metric == metric);
        out.gauge(name, help);
        for row in rows().filter(|row| row.of_machine()) {
            sample_row(out, row, factor);
        }
        let of_zone = |row: &&MetricRow| row.zone.is_some() && row.kind.is_none();
        let mut zones = rows().filter(of_zone).peekable();
        if zones.peek().is_some() {
            out.gauge(&format!("zone_{name}"), &format!("{help} Of a zone."));
        }
        for row in zones {
            sample_row(out, row, factor);
        }
    }
    let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
    out.gauge("scan_duration_seconds", "How long the scan took.");
    out.sample(&[], seconds(view.duration_ns));
    out.gauge("scan_cpu_seconds", "Processor time of the scan.");
    out.sample(&[], seconds(view.cpu_ns));
    out.gauge(
        "scan_reader",
        "1, with the reader and the kernel as labels.",
    );
    let labels = [
        ("reader", view.reader.clone()),
        ("kernel", view.kernel.clone()),
    ];
    out.sample(&labels, Some(1.0));
}

/// The samples of a row: of the machine everything, of a zone what no definition or K says, the
/// worse bound only.
fn sample_row(out: &mut Exposition, row: &MetricRow, factor: f64) {
    let machine = row.of_machine();
    let place = [
        ("node", row.node.map(|node| node.to_string())),
        ("zone", row.zone.clone()),
        ("definition", row.definition.map(|own| own.name().into())),
        ("size_bytes", row.size_bytes.map(|bytes| bytes.to_string())),
        ("source", row.kind.clone()),
    ];
    let labels = place.into_iter();
    let mut labels: Vec<_> = labels
        .filter_map(|(key, value)| Some((key, value?)))
        .collect();
    let bounds = [("low", row.low), ("high", row.high)];
    match row.definition {
        None => out.sample(&labels, row.low.map(|value| value * factor)),
        Some(definition) if machine || definition == Definition::K => {
            let worse = usize::from(row.metric == "unmovable_ratio");
            for (bound, value) in &bounds[if machine { 0..2 } else { worse..worse + 1 }] {
                labels.push(("bound", bound.to_string()));
                out.sample(&labels, *value);
                labels.pop();
            }
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::View;
    use super::*;
    use ample_host::ZoneCounters;
    use ample_pfn::SizeList;

    #[test]
    fn the_exposition_is_well_formed_and_ends() {
        let zone = ZoneCounters {
            name: "No\"rmal".into(),
            free_blocks: vec![1; 11],
            ..ZoneCounters::default()
        };
        let view = View::of_free_lists(vec![zone], "6.12".into(), &SizeList::standard());
        let text = String::from_utf8(render(&view)).unwrap();
        assert!(text.ends_with("\n# EOF\n"));
        assert!(text.contains("# UNIT ample_free_bytes bytes\n"));
        assert!(
            text.contains("zone=\"No\\\"rmal\",size_bytes=\"2097152\"} 0."),
            "{text}"
        );
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.starts_with("ample_"), "{line}");
            assert!(
                line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(),
                "{line}"
            );
        }
    }
}
