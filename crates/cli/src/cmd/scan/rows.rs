// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metrics as a long table, one value a row: what CSV and Parquet hold.

use super::view::{Group, View};
use ample_pfn::{Definition, Interval, RatioInterval};

/// One value of one metric. Columns that do not apply are `None`.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct MetricRow {
    /// NUMA node; `None` for the whole machine.
    pub node: Option<u32>,
    /// Zone; `None` for a node or the whole machine.
    pub zone: Option<String>,
    /// Name of the metric, with its unit.
    pub metric: &'static str,
    /// K, P or O.
    pub definition: Option<&'static str>,
    /// Block size.
    pub size_bytes: Option<u64>,
    /// Source or page class.
    pub kind: Option<String>,
    /// Smallest value that fits the data.
    pub low: Option<f64>,
    /// Largest value that fits the data.
    pub high: Option<f64>,
}

/// Letters of the definitions.
pub const LETTERS: [(Definition, &str); 3] = [
    (Definition::K, "K"),
    (Definition::P, "P"),
    (Definition::O, "O"),
];

/// All rows of a scan: the machine, then nodes, then zones.
pub fn rows(view: &View) -> Vec<MetricRow> {
    let mut rows = Vec::new();
    for group in std::iter::once(&view.total)
        .chain(&view.nodes)
        .chain(&view.zones)
    {
        Collector {
            group,
            rows: &mut rows,
        }
        .group();
    }
    rows
}

struct Collector<'a> {
    group: &'a Group,
    rows: &'a mut Vec<MetricRow>,
}

impl Collector<'_> {
    fn push(&mut self, metric: &'static str, low: Option<f64>, high: Option<f64>, row: MetricRow) {
        let (node, zone) = (self.group.node, self.group.zone.clone());
        self.rows.push(MetricRow {
            node,
            zone,
            metric,
            low,
            high,
            ..row
        });
    }

    fn exact(&mut self, metric: &'static str, value: Option<f64>, row: MetricRow) {
        self.push(metric, value, value, row);
    }

    fn count(&mut self, metric: &'static str, value: Interval, row: MetricRow) {
        self.push(metric, Some(value.low as f64), Some(value.high as f64), row);
    }

    fn ratio(&mut self, metric: &'static str, value: RatioInterval, row: MetricRow) {
        self.push(metric, value.low, value.high, row);
    }

    fn group(&mut self) {
        let group = self.group;
        let number = |value: u64| Some(value as f64);
        self.exact(
            "memory_bytes",
            group.memory_bytes.and_then(number),
            MetricRow::default(),
        );
        self.exact("free_bytes", number(group.free_bytes), MetricRow::default());
        for size in &group.sizes {
            let row = MetricRow {
                size_bytes: Some(size.size_bytes),
                ..MetricRow::default()
            };
            self.exact("blocks", size.blocks.and_then(number), row.clone());
            self.exact(
                "whole_blocks",
                size.whole_blocks.and_then(number),
                row.clone(),
            );
            self.exact(
                "free_blocks",
                size.free_blocks.and_then(number),
                row.clone(),
            );
            self.exact("free_contiguity_ratio", size.free_contiguity_ratio, row);
        }
        for (definition, letter) in LETTERS {
            self.definition(definition, letter);
        }
        for source in group.sources.iter().flatten() {
            let kind = Some(source.source.name().to_string());
            let row = MetricRow {
                kind,
                ..MetricRow::default()
            };
            self.exact("source_pages", number(source.pages), row.clone());
            self.exact("source_blocks_2m", number(source.blocks_2m), row);
        }
        for (class, &pages) in group.class_pages.iter().flatten() {
            let row = MetricRow {
                kind: Some(class.clone()),
                ..MetricRow::default()
            };
            self.exact("class_pages", number(pages), row);
        }
    }

    fn definition(&mut self, definition: Definition, letter: &'static str) {
        let Some(metrics) = self.group.definitions.get(definition) else {
            return;
        };
        let row = MetricRow {
            definition: Some(letter),
            ..MetricRow::default()
        };
        self.count("unmovable_pages", metrics.unmovable_pages, row.clone());
        self.ratio(
            "unmovable_page_ratio",
            metrics.unmovable_page_ratio,
            row.clone(),
        );
        let inside = metrics.internal_fragmentation_ratio;
        self.ratio("internal_fragmentation_ratio", inside, row.clone());
        for size in &metrics.sizes {
            let row = MetricRow {
                size_bytes: Some(size.size_bytes),
                ..row.clone()
            };
            self.count("unmovable_blocks", size.unmovable_blocks, row.clone());
            self.ratio("unmovable_ratio", size.unmovable_ratio, row.clone());
            self.count("potential_blocks", size.potential_blocks, row.clone());
            self.ratio("potential_ratio", size.potential_ratio, row);
        }
    }
}
