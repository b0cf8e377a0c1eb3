// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metrics as a long table, one value a row: what CSV and Parquet hold, and what thresholds
//! and OpenMetrics look values up in.

use super::view::{Group, View};
use ample_pfn::{Definition, Interval, RatioInterval};
use std::borrow::Cow;

/// One value of one metric. Columns that do not apply are `None`.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct MetricRow {
    /// NUMA node; `None` for the whole machine.
    pub node: Option<u32>,
    /// Zone; `None` for a node or the whole machine.
    pub zone: Option<String>,
    /// Name of the metric, with its unit.
    pub metric: Cow<'static, str>,
    /// Definition of unmovable.
    pub definition: Option<Definition>,
    /// Block size.
    pub size_bytes: Option<u64>,
    /// Source or page class.
    pub kind: Option<String>,
    /// Smallest value that fits the data.
    pub low: Option<f64>,
    /// Largest value that fits the data.
    pub high: Option<f64>,
}

/// Smallest and largest value that fit the data.
type Bounds = (Option<f64>, Option<f64>);

fn exact(value: Option<u64>) -> Bounds {
    same(value.map(|value| value as f64))
}

fn same(value: Option<f64>) -> Bounds {
    (value, value)
}

fn count(value: Interval) -> Bounds {
    (Some(value.low as f64), Some(value.high as f64))
}

fn ratio(value: RatioInterval) -> Bounds {
    (value.low, value.high)
}

impl MetricRow {
    /// The row with the value of a metric.
    fn with(&self, metric: &'static str, (low, high): Bounds) -> MetricRow {
        let metric = metric.into();
        MetricRow {
            metric,
            low,
            high,
            ..self.clone()
        }
    }

    /// Whether it is of the whole machine.
    pub fn of_machine(&self) -> bool {
        self.node.is_none() && self.zone.is_none()
    }
}

/// All rows of a scan: the machine, then nodes, then zones.
pub fn rows(view: &View) -> Vec<MetricRow> {
    let groups = std::iter::once(&view.total).chain(&view.nodes);
    groups.chain(&view.zones).flat_map(group_rows).collect()
}

fn group_rows(group: &Group) -> Vec<MetricRow> {
    let all = MetricRow {
        node: group.node,
        zone: group.zone.clone(),
        ..MetricRow::default()
    };
    let mut rows = vec![
        all.with("memory_bytes", exact(group.memory_bytes)),
        all.with("free_bytes", exact(Some(group.free_bytes))),
    ];
    for size in &group.sizes {
        let mut row = all.clone();
        row.size_bytes = Some(size.size_bytes);
        rows.extend([
            row.with("blocks", exact(size.blocks)),
            row.with("whole_blocks", exact(size.whole_blocks)),
            row.with("free_blocks", exact(size.free_blocks)),
            row.with("free_contiguity_ratio", same(size.free_contiguity_ratio)),
        ]);
    }
    for definition in Definition::ALL {
        let Some(metrics) = group.definitions.get(definition) else {
            continue;
        };
        let mut row = all.clone();
        row.definition = Some(definition);
        let inside = ratio(metrics.internal_fragmentation_ratio);
        rows.extend([
            row.with("unmovable_pages", count(metrics.unmovable_pages)),
            row.with("unmovable_page_ratio", ratio(metrics.unmovable_page_ratio)),
            row.with("internal_fragmentation_ratio", inside),
        ]);
        for size in &metrics.sizes {
            row.size_bytes = Some(size.size_bytes);
            rows.extend([
                row.with("unmovable_blocks", count(size.unmovable_blocks)),
                row.with("unmovable_ratio", ratio(size.unmovable_ratio)),
                row.with("potential_blocks", count(size.potential_blocks)),
                row.with("potential_ratio", ratio(size.potential_ratio)),
            ]);
        }
    }
    for source in group.sources.iter().flatten() {
        let mut row = all.clone();
        row.kind = Some(source.source.name().to_string());
        rows.push(row.with("source_pages", exact(Some(source.pages))));
        rows.push(row.with("source_blocks_2m", exact(Some(source.blocks_2m))));
    }
    for (class, &pages) in group.class_pages.iter().flatten() {
        let mut row = all.clone();
        row.kind = Some(class.clone());
        rows.push(row.with("class_pages", exact(Some(pages))));
    }
    rows
}
