// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of a fleet: Contiguitas §2.4 and §2.5 on other hosts.

use super::hosts::{Found, HostScan};
use ample_kit::statistics::{Distribution, Summary, pearson};
use ample_pfn::{Definition, Order, SizeList, Source};
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything that is told about a fleet; absent data is `null`.
#[derive(Debug, Serialize)]
pub struct Study {
    schema: &'static str,
    /// Hosts that count.
    pub hosts: usize,
    /// Earlier scans of hosts that count.
    pub superseded_scans: usize,
    /// Files that could not be used.
    pub skipped: Vec<Skipped>,
    /// Memory of a host.
    pub memory_bytes: Option<Summary>,
    /// Uptime of a host.
    pub uptime_seconds: Option<Summary>,
    /// Hosts with less free memory are left out of `free_contiguity`.
    pub min_free_bytes: u64,
    /// Free bytes in wholly free blocks ÷ free bytes, by block size (figure 4).
    pub free_contiguity: Vec<FreeContiguity>,
    /// Unmovable blocks ÷ blocks, by block size and definition (figure 5).
    pub unmovable: Vec<ByDefinition>,
    /// Bytes in blocks without an unmovable page ÷ all bytes.
    pub potential: Vec<ByDefinition>,
    /// Unmovable 4 KB pages ÷ pages, by definition.
    pub unmovable_page_ratio: BTreeMap<&'static str, Bounds>,
    /// Free pages inside unmovable 2 MB blocks ÷ their pages, by definition.
    pub internal_fragmentation_ratio: BTreeMap<&'static str, Bounds>,
    /// Share of all unmovable pages of the fleet by source (figure 6).
    pub sources_ratio: Option<BTreeMap<&'static str, f64>>,
    /// Pearson's coefficient with uptime.
    pub correlation_with_uptime: Correlation,
}

/// A file that could not be used.
#[derive(Debug, Serialize)]
pub struct Skipped {
    /// Where it is.
    pub file: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Free contiguity at one block size.
#[derive(Debug, Serialize)]
pub struct FreeContiguity {
    /// Block size.
    pub size_bytes: u64,
    /// Share of hosts without a single free block of this size.
    pub hosts_without_a_block_ratio: Option<f64>,
    /// Over hosts.
    pub ratio: Option<Summary>,
}

/// A ratio at one block size.
#[derive(Debug, Serialize)]
pub struct ByDefinition {
    /// Block size.
    pub size_bytes: u64,
    /// By letter of the definition.
    pub definitions: BTreeMap<&'static str, Bounds>,
}

/// A ratio that may be an interval on each host: distributions of both ends.
#[derive(Debug, Serialize)]
pub struct Bounds {
    /// Of the smallest values that fit the data.
    pub low: Option<Summary>,
    /// Of the largest values that fit the data.
    pub high: Option<Summary>,
}

/// Pearson's coefficient with uptime; `null` for fewer than three hosts.
#[derive(Debug, Serialize)]
pub struct Correlation {
    /// Hosts that tell their uptime.
    pub hosts: usize,
    /// Free 2 MB blocks.
    pub free_blocks_2m: Option<f64>,
    /// Unmovable 2 MB blocks ÷ blocks, definition K, upper end.
    pub unmovable_ratio_2m: Option<f64>,
}

const TWO_MB: u64 = 2 << 20;

impl Study {
    /// The figures of these hosts.
    pub fn of(found: &Found, sizes: &SizeList, min_free_bytes: u64) -> Study {
        let hosts = &found.hosts;
        let exact = |metric: &'static str| {
            Distribution::of(hosts.iter().filter_map(|host| host.exact(metric, None))).summary()
        };
        let sizes: Vec<u64> = sizes
            .orders()
            .iter()
            .map(|order: &Order| order.bytes())
            .collect();
        let by_size = |metric: &'static str| {
            let at = |&size_bytes: &u64| ByDefinition {
                size_bytes,
                definitions: by_definition(hosts, metric, Some(size_bytes)),
            };
            sizes.iter().map(at).collect()
        };
        Study {
            schema: "ample.fleet/1",
            hosts: hosts.len(),
            superseded_scans: found.superseded,
            skipped: (found.skipped.iter())
                .map(|(file, reason)| Skipped {
                    file: file.display().to_string(),
                    reason: reason.clone(),
                })
                .collect(),
            memory_bytes: exact("memory_bytes"),
            uptime_seconds: uptimes(hosts).summary(),
            min_free_bytes,
            free_contiguity: (sizes.iter())
                .map(|&size| free_contiguity(hosts, size, min_free_bytes))
                .collect(),
            unmovable: by_size("unmovable_ratio"),
            potential: by_size("potential_ratio"),
            unmovable_page_ratio: by_definition(hosts, "unmovable_page_ratio", None),
            internal_fragmentation_ratio: by_definition(
                hosts,
                "internal_fragmentation_ratio",
                None,
            ),
            sources_ratio: sources(hosts),
            correlation_with_uptime: correlation(hosts),
        }
    }
}

fn uptimes(hosts: &[HostScan]) -> Distribution {
    let seconds = hosts.iter().filter_map(|host| host.uptime_seconds);
    Distribution::of(seconds.map(|seconds| seconds as f64))
}

/// Free contiguity of the hosts with enough free memory, at one block size.
pub fn free_contiguity_of(
    hosts: &[HostScan],
    size_bytes: u64,
    min_free_bytes: u64,
) -> Distribution {
    let counts = |host: &&HostScan| {
        let free = host.exact("free_bytes", None);
        free.is_some_and(|free| free >= min_free_bytes as f64)
    };
    let ratio = |host: &HostScan| host.exact("free_contiguity_ratio", Some(size_bytes));
    Distribution::of(hosts.iter().filter(counts).filter_map(ratio))
}

/// A ratio of the hosts under one definition at one block size: lower or upper ends.
pub fn ends(
    hosts: &[HostScan],
    metric: &str,
    definition: Definition,
    size_bytes: Option<u64>,
    upper: bool,
) -> Distribution {
    let end = |host: &HostScan| {
        let (low, high) = host.interval(metric, Some(definition), size_bytes)?;
        Some(if upper { high } else { low })
    };
    Distribution::of(hosts.iter().filter_map(end))
}

fn free_contiguity(hosts: &[HostScan], size_bytes: u64, min_free_bytes: u64) -> FreeContiguity {
    let ratios = free_contiguity_of(hosts, size_bytes, min_free_bytes);
    FreeContiguity {
        size_bytes,
        hosts_without_a_block_ratio: ratios.share(|ratio| ratio <= 0.0),
        ratio: ratios.summary(),
    }
}

fn by_definition(
    hosts: &[HostScan],
    metric: &str,
    size_bytes: Option<u64>,
) -> BTreeMap<&'static str, Bounds> {
    let mut all = BTreeMap::new();
    for definition in Definition::ALL {
        let bounds = Bounds {
            low: ends(hosts, metric, definition, size_bytes, false).summary(),
            high: ends(hosts, metric, definition, size_bytes, true).summary(),
        };
        if bounds.low.is_some() {
            all.insert(definition.name(), bounds);
        }
    }
    all
}

fn sources(hosts: &[HostScan]) -> Option<BTreeMap<&'static str, f64>> {
    let mut pages: BTreeMap<&'static str, f64> = BTreeMap::new();
    for (name, count) in hosts.iter().flat_map(HostScan::sources) {
        if let Some(source) = Source::ALL.iter().find(|source| source.name() == name) {
            *pages.entry(source.name()).or_default() += count;
        }
    }
    let all: f64 = pages.values().sum();
    pages.values_mut().for_each(|count| *count /= all);
    (all > 0.0).then_some(pages)
}

fn correlation(hosts: &[HostScan]) -> Correlation {
    let with = |value: &dyn Fn(&HostScan) -> Option<f64>| -> Vec<(f64, f64)> {
        let pair = |host: &HostScan| Some((host.uptime_seconds? as f64, value(host)?));
        hosts.iter().filter_map(pair).collect()
    };
    let free = with(&|host| host.exact("free_blocks", Some(TWO_MB)));
    let unmovable = with(&|host| {
        Some(
            host.interval("unmovable_ratio", Some(Definition::K), Some(TWO_MB))?
                .1,
        )
    });
    Correlation {
        hosts: free.len(),
        free_blocks_2m: pearson(&free),
        unmovable_ratio_2m: pearson(&unmovable),
    }
}
