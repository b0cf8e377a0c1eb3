// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a scan as the machine-readable formats show it: schema `ample.scan/1`.

use ample_host::{Scan, ZoneCounters};
use ample_pfn::{
    Coverage, DefinitionMetrics, GroupMetrics, Metrics, MetricsBuilder, SizeMetrics, SourceMetrics,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything about one scan; absent data is `null`.
#[derive(Debug, Serialize)]
pub struct View {
    schema: &'static str,
    /// Name of the reader.
    pub reader: String,
    /// Kernel release.
    pub kernel: String,
    /// Host name.
    pub hostname: Option<String>,
    /// Start of the scan.
    pub unix_time_seconds: Option<u64>,
    /// Uptime of the machine.
    pub uptime_seconds: Option<u64>,
    /// Duration of the reading.
    pub duration_ns: Option<u64>,
    /// Processor time of the reading.
    pub cpu_ns: Option<u64>,
    /// What the reader could tell; `null` when no page was read.
    pub coverage: Option<Coverage>,
    /// What a user should know.
    pub notes: Vec<String>,
    /// The whole machine.
    #[serde(flatten)]
    pub total: Group,
    /// Per NUMA node.
    pub nodes: Vec<Group>,
    /// Per zone.
    pub zones: Vec<Group>,
    /// Watermarks and free lists of each zone, as the kernel counts them.
    pub zone_counters: Vec<ZoneCounters>,
}

/// The machine, a node or a zone.
#[derive(Debug, Serialize)]
pub struct Group {
    /// NUMA node, for a node or zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Zone name, for a zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Free bytes.
    pub free_bytes: u64,
    /// Per block size.
    pub sizes: Vec<SizeMetrics>,
    /// Each definition of unmovable.
    pub definitions: Definitions,
    /// Who is unmovable; `null` when no page was read.
    pub sources: Option<Vec<SourceMetrics>>,
    /// Pages of each class.
    pub class_pages: Option<BTreeMap<String, u64>>,
}

/// The definitions by their letters.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub struct Definitions {
    /// What the kernel cannot move.
    pub k: Option<DefinitionMetrics>,
    /// What page flags say.
    pub p: Option<DefinitionMetrics>,
    /// What owners asked for.
    pub o: Option<DefinitionMetrics>,
}

impl From<GroupMetrics> for Group {
    fn from(group: GroupMetrics) -> Group {
        Group {
            node: group.node,
            zone: group.zone,
            memory_bytes: Some(group.memory_bytes),
            free_bytes: group.free_bytes,
            sizes: group.sizes,
            definitions: Definitions {
                k: Some(group.k),
                p: Some(group.p),
                o: group.o,
            },
            sources: Some(group.sources),
            class_pages: Some(group.class_pages),
        }
    }
}

impl View {
    /// The view of a scan whose pages are in `builder`.
    pub fn new(scan: &Scan, builder: &MetricsBuilder) -> View {
        let meta = &scan.meta;
        let Metrics {
            total,
            nodes,
            zones,
        } = builder.finish(&meta.coverage);
        View {
            schema: "ample.scan/1",
            reader: meta.reader.clone(),
            kernel: meta.kernel.clone(),
            hostname: meta.hostname.clone(),
            unix_time_seconds: meta.unix_time_seconds,
            uptime_seconds: meta.uptime_seconds,
            duration_ns: Some(meta.duration_ns),
            cpu_ns: Some(meta.cpu_ns),
            coverage: Some(meta.coverage),
            notes: meta.notes.clone(),
            total: total.into(),
            nodes: nodes.into_iter().map(Group::from).collect(),
            zones: zones.into_iter().map(Group::from).collect(),
            zone_counters: meta.zones.clone(),
        }
    }
}
