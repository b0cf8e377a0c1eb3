// SPDX-License-Identifier: MIT OR Apache-2.0
//! OpenMetrics text, for example for the textfile collector of a node exporter.
//!
//! The whole machine has every value; zones have the headline of definition K only, so that a
//! host stays below 200 series.

use super::rows::LETTERS;
use super::view::{Group, View};
use ample_pfn::Definition;
use std::fmt::Write;

/// The exposition, ending with `# EOF`.
pub fn render(view: &View) -> Vec<u8> {
    let mut out = Exposition::default();
    let groups: Vec<&Group> = std::iter::once(&view.total).chain(&view.zones).collect();
    out.family("memory_bytes", "Memory, holes excluded.");
    for group in &groups {
        out.sample(group, &[], group.memory_bytes.map(|bytes| bytes as f64));
    }
    out.family("free_bytes", "Free memory.");
    for group in &groups {
        out.sample(group, &[], Some(group.free_bytes as f64));
    }
    out.family(
        "free_contiguity_ratio",
        "Free bytes in aligned, wholly free blocks of this size over all free bytes.",
    );
    for group in &groups {
        for size in &group.sizes {
            let labels = [("size_bytes", size.size_bytes.to_string())];
            out.sample(group, &labels, size.free_contiguity_ratio);
        }
    }
    per_definition(&mut out, view);
    sources(&mut out, view);
    out.family("scan_duration_seconds", "How long the scan took.");
    out.sample(&view.total, &[], view.duration_ns.map(|ns| ns as f64 / 1e9));
    out.family("scan_cpu_seconds", "Processor time of the scan.");
    out.sample(&view.total, &[], view.cpu_ns.map(|ns| ns as f64 / 1e9));
    out.family(
        "scan_reader",
        "1, with the reader and the kernel as labels.",
    );
    let labels = [
        ("reader", view.reader.clone()),
        ("kernel", view.kernel.clone()),
    ];
    out.sample(&view.total, &labels, Some(1.0));
    out.text.push_str("# EOF\n");
    out.text.into_bytes()
}

fn per_definition(out: &mut Exposition, view: &View) {
    out.family(
        "unmovable_ratio",
        "Blocks with an unmovable page over all blocks, by definition; bounds of the interval.",
    );
    for size in view.total.sizes.iter().map(|size| size.size_bytes) {
        for (definition, letter) in LETTERS {
            let Some(at) = view.total.at(definition, size) else {
                continue;
            };
            let ratio = at.unmovable_ratio;
            out.bounds(&view.total, letter, size, ratio.low, ratio.high);
        }
        for zone in &view.zones {
            let high = zone
                .at(Definition::K, size)
                .and_then(|at| at.unmovable_ratio.high);
            out.sample(zone, &bound_labels("K", size, "high"), high);
        }
    }
    out.family(
        "potential_ratio",
        "Bytes in whole blocks without an unmovable page over all bytes, by definition.",
    );
    for size in view.total.sizes.iter().map(|size| size.size_bytes) {
        for (definition, letter) in LETTERS {
            let Some(at) = view.total.at(definition, size) else {
                continue;
            };
            let ratio = at.potential_ratio;
            out.bounds(&view.total, letter, size, ratio.low, ratio.high);
        }
        for zone in &view.zones {
            let low = zone
                .at(Definition::K, size)
                .and_then(|at| at.potential_ratio.low);
            out.sample(zone, &bound_labels("K", size, "low"), low);
        }
    }
}

fn sources(out: &mut Exposition, view: &View) {
    let sources = view.total.sources.as_deref().unwrap_or_default();
    out.family("source_bytes", "Unmovable memory by who asked for it.");
    for source in sources {
        let labels = [("source", source.source.name().to_string())];
        out.sample(&view.total, &labels, Some((source.pages * 4096) as f64));
    }
    out.family(
        "source_blocks",
        "2 MB blocks that hold unmovable memory of this source.",
    );
    for source in sources {
        let labels = [("source", source.source.name().to_string())];
        out.sample(&view.total, &labels, Some(source.blocks_2m as f64));
    }
}

fn bound_labels(letter: &str, size: u64, bound: &str) -> [(&'static str, String); 3] {
    [
        ("definition", letter.to_string()),
        ("size_bytes", size.to_string()),
        ("bound", bound.to_string()),
    ]
}

#[derive(Default)]
struct Exposition {
    text: String,
    family: String,
}

impl Exposition {
    /// Starts a gauge family; the unit is what follows the last underscore, where it is one.
    fn family(&mut self, name: &str, help: &str) {
        self.family = format!("ample_{name}");
        let family = &self.family;
        let _ = writeln!(self.text, "# TYPE {family} gauge");
        if let Some(unit) = name
            .rsplit('_')
            .next()
            .filter(|unit| ["bytes", "ratio", "seconds"].contains(unit))
        {
            let _ = writeln!(self.text, "# UNIT {family} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {family} {help}");
    }

    /// Both bounds, or one sample when they are the same number.
    fn bounds(
        &mut self,
        group: &Group,
        letter: &str,
        size: u64,
        low: Option<f64>,
        high: Option<f64>,
    ) {
        self.sample(group, &bound_labels(letter, size, "low"), low);
        self.sample(group, &bound_labels(letter, size, "high"), high);
    }

    /// One sample; absent values leave no line.
    fn sample(&mut self, group: &Group, labels: &[(&'static str, String)], value: Option<f64>) {
        let Some(value) = value else { return };
        let place = [
            ("node", group.node.map(|node| node.to_string())),
            ("zone", group.zone.clone()),
        ];
        let place = place
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        let all = place.chain(labels.iter().cloned());
        let all: Vec<String> = all
            .map(|(key, value)| format!("{key}=\"{}\"", escape(&value)))
            .collect();
        let braces = if all.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", all.join(","))
        };
        let _ = writeln!(self.text, "{}{braces} {value}", self.family);
    }
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
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
