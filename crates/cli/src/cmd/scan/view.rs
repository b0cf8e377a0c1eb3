// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a scan as the machine-readable formats show it: schema `ample.scan/1`.

use super::pageblocks::{self, TypeRow};
use super::service::ServiceMemory;
use ample_host::{Scan, Who, ZoneCounters};
use ample_pfn::{
    BASE_PAGE_BYTES, Coverage, Culprit, Definition, DefinitionMetrics, DefinitionSize,
    GroupMetrics, Metrics, MetricsBuilder, Order, SizeList, SizeMetrics, SourceMetrics,
};
use serde::Serialize;
use std::collections::BTreeMap;

const SCHEMA: &str = "ample.scan/1";

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
    /// What each source spoils, and what it spoils alone; `null` when no page was read.
    pub culprits: Option<Vec<Culprit>>,
    /// Who holds the unmovable pages by name; `null` unless asked for with a reader that sees it.
    pub who: Option<Who>,
    /// The memory of the process, control group or file that was asked for.
    pub service: Option<ServiceMemory>,
    /// Per NUMA node.
    pub nodes: Vec<Group>,
    /// Per zone.
    pub zones: Vec<Group>,
    /// What lies in the pageblocks of each migratetype; `null` where the reader cannot see these.
    pub pageblocks: Option<Vec<TypeRow>>,
    /// Further blocks, without a type: memory that the kernel has not initialised yet.
    pub untyped_blocks: Option<u64>,
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
    /// Memory of the node or zone, in bytes, without holes.
    pub memory_bytes: Option<u64>,
    /// Bytes in free pages.
    pub free_bytes: u64,
    /// Per block size.
    pub sizes: Vec<Size>,
    /// Each definition of unmovable.
    pub definitions: Definitions,
    /// Who is unmovable; `null` when no page was read.
    pub sources: Option<Vec<SourceMetrics>>,
    /// Pages of each class.
    pub class_pages: Option<BTreeMap<String, u64>>,
}

/// Free memory at one block size, and the headline of definition K.
#[derive(Debug, Serialize)]
pub struct Size {
    /// Block size.
    pub size_bytes: u64,
    /// Aligned blocks with memory.
    pub blocks: Option<u64>,
    /// Aligned blocks without a hole.
    pub whole_blocks: Option<u64>,
    /// Aligned, wholly free blocks.
    pub free_blocks: Option<u64>,
    /// Bytes in such blocks ÷ free bytes.
    pub free_contiguity_ratio: Option<f64>,
    /// Upper bound under K.
    pub unmovable_ratio: Option<f64>,
    /// Lower bound under K.
    pub potential_ratio: Option<f64>,
}

impl From<SizeMetrics> for Size {
    fn from(size: SizeMetrics) -> Size {
        Size {
            size_bytes: size.size_bytes,
            blocks: Some(size.blocks),
            whole_blocks: Some(size.whole_blocks),
            free_blocks: Some(size.free_blocks),
            free_contiguity_ratio: size.free_contiguity_ratio,
            unmovable_ratio: size.unmovable_ratio,
            potential_ratio: size.potential_ratio,
        }
    }
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

impl Definitions {
    /// The metrics of one definition, if there are any.
    pub fn get(&self, definition: Definition) -> Option<&DefinitionMetrics> {
        match definition {
            Definition::K => self.k.as_ref(),
            Definition::P => self.p.as_ref(),
            Definition::O => self.o.as_ref(),
        }
    }
}

impl Group {
    /// The metrics of one definition at one block size, if there are any.
    pub fn at(&self, definition: Definition, size_bytes: u64) -> Option<&DefinitionSize> {
        let sizes = &self.definitions.get(definition)?.sizes;
        sizes.iter().find(|size| size.size_bytes == size_bytes)
    }

    /// What the free lists alone say: exact for free memory up to the largest order that the
    /// buddy allocator keeps, silent about everything else.
    fn from_free_lists(zones: &[&ZoneCounters], sizes: &SizeList) -> Group {
        let pages_from = |first: usize| -> u64 {
            let zone_pages = |zone: &&ZoneCounters| -> u64 {
                let lists = zone.free_blocks.iter().enumerate().skip(first);
                lists.map(|(order, &blocks)| blocks << order).sum()
            };
            zones.iter().map(zone_pages).sum()
        };
        let largest = zones
            .iter()
            .map(|zone| zone.free_blocks.len())
            .max()
            .unwrap_or(0);
        let free_pages = pages_from(0);
        let size = |order: &Order| {
            let known = usize::from(order.0) < largest;
            let pages = pages_from(usize::from(order.0));
            Size {
                size_bytes: order.bytes(),
                blocks: None,
                whole_blocks: None,
                free_blocks: known.then_some(pages >> order.0),
                free_contiguity_ratio: (known && free_pages > 0)
                    .then(|| pages as f64 / free_pages as f64),
                unmovable_ratio: None,
                potential_ratio: None,
            }
        };
        Group {
            node: None,
            zone: None,
            memory_bytes: None,
            free_bytes: free_pages * BASE_PAGE_BYTES,
            sizes: sizes.orders().iter().map(size).collect(),
            definitions: Definitions::default(),
            sources: None,
            class_pages: None,
        }
    }
}

impl From<GroupMetrics> for Group {
    fn from(group: GroupMetrics) -> Group {
        Group {
            node: group.node,
            zone: group.zone,
            memory_bytes: Some(group.memory_bytes),
            free_bytes: group.free_bytes,
            sizes: group.sizes.into_iter().map(Size::from).collect(),
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
        let runs = meta.pageblocks.as_ref();
        let pageblocks = runs.and_then(|runs| pageblocks::rows(runs, builder));
        let untyped = |rows: &Vec<TypeRow>| pageblocks::untyped_blocks(rows, &total);
        View {
            schema: SCHEMA,
            untyped_blocks: pageblocks.as_ref().map(untyped),
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
            culprits: Some(builder.culprits()),
            who: meta.who.clone(),
            service: None,
            nodes: nodes.into_iter().map(Group::from).collect(),
            zones: zones.into_iter().map(Group::from).collect(),
            pageblocks,
            zone_counters: meta.zones.clone(),
        }
    }

    /// The view of a machine whose pages may not be read: free lists only.
    pub fn of_free_lists(zones: Vec<ZoneCounters>, kernel: String, sizes: &SizeList) -> View {
        let by_zone = |zone: &ZoneCounters| Group {
            node: Some(zone.node),
            zone: Some(zone.name.clone()),
            ..Group::from_free_lists(&[zone], sizes)
        };
        View {
            schema: SCHEMA,
            reader: "buddyinfo".into(),
            kernel,
            hostname: None,
            unix_time_seconds: None,
            uptime_seconds: None,
            duration_ns: None,
            cpu_ns: None,
            coverage: None,
            notes: vec!["free lists only: without root no page can be looked at".into()],
            total: Group::from_free_lists(&zones.iter().collect::<Vec<_>>(), sizes),
            culprits: None,
            who: None,
            service: None,
            nodes: Vec::new(),
            zones: zones.iter().map(by_zone).collect(),
            pageblocks: None,
            untyped_blocks: None,
            zone_counters: zones,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_lists_answer_for_free_memory_only() {
        let zone = ZoneCounters {
            free_blocks: vec![4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3],
            ..ZoneCounters::default()
        };
        let view = View::of_free_lists(vec![zone], "6.12".into(), &SizeList::standard());
        let sizes = &view.total.sizes;
        let free = 4 + 512 + 3 * 1024;
        assert_eq!(view.total.free_bytes, free * 4096);
        assert_eq!(sizes[0].free_blocks, Some(7));
        assert_eq!(
            sizes[0].free_contiguity_ratio,
            Some((free - 4) as f64 / free as f64)
        );
        assert_eq!(sizes[1].free_blocks, Some(3));
        assert_eq!(sizes[3].free_blocks, None);
        let json = serde_json::to_value(&view).unwrap();
        assert!(json["definitions"]["K"].is_null());
        assert!(json["sizes"][0]["unmovable_ratio"].is_null());
    }
}
