// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas §2.4 and §2.5: a fleet of simulated servers under each policy, every server looked
//! at once, at an uptime of its own: free blocks, unmovable memory, correlation with uptime.

use self::quantities::quantities;
use super::drawn_fleet::{DrawnFleet, DrawnServer, fleet_text};
use crate::charts::{line, lines};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_kit::statistics::Distribution;
use ample_mm::PolicyKind;
use ample_pfn::{DefinitionMetrics, GroupMetrics, Source};
use ample_report::Unit;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod quantities;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetParams {
    /// A shipped fleet, or the file of one.
    pub fleet: String,
    /// The first so many of its servers.
    pub servers: u32,
    /// Memory of a server ÷ its memory in the fleet.
    pub memory_ratio: f64,
    /// Memory managers that the servers run under.
    pub policies: Vec<PolicyKind>,
    /// A server is young up to this uptime, hours.
    pub young_h: f64,
    /// Servers with less free memory are left out of free blocks, as a share of their memory (the
    /// paper: 1 GB of 64 GB).
    pub least_free_ratio: f64,
}

/// One server when it was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetServer {
    /// Its memory manager.
    pub policy: PolicyKind,
    /// Its place in the fleet, from 0.
    pub number: u32,
    /// The history that it is a look at, from 0.
    pub history: u32,
    /// What it is for.
    pub role: String,
    /// Simulated hours since boot.
    pub uptime_h: f64,
    /// Free memory ÷ memory.
    pub free_ratio: f64,
    /// Free blocks of 2 MB, aligned and whole.
    pub free_blocks_2m: u64,
    /// Free blocks of 32 MB.
    pub free_blocks_32m: u64,
    /// Free blocks of 1 GB.
    pub free_blocks_1g: u64,
    /// Free memory in free blocks of 2 MB ÷ free memory.
    pub free_contiguity_2m: f64,
    /// 2 MB blocks with an unmovable page ÷ all, definition P.
    pub unmovable_2m_ratio_p: f64,
    /// The same, definition O.
    pub unmovable_2m_ratio: f64,
    /// Unmovable 4 KB pages ÷ all, definition P.
    pub unmovable_page_ratio: f64,
    /// 32 MB blocks without unmovable memory, definition O.
    pub potential_blocks_32m: u64,
    /// 1 GB blocks without unmovable memory, definition O.
    pub potential_blocks_1g: u64,
    /// Networking's share of unmovable pages.
    pub networking_ratio: f64,
    /// Slab's share of unmovable pages.
    pub slab_ratio: f64,
}

/// One figure of the fleet, under each policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetQuantity {
    /// What it says.
    pub quantity: String,
    /// The paper's value.
    pub paper: Option<f64>,
    /// Ours by policy; none where no server counts or nothing varies.
    pub under: BTreeMap<String, Option<f64>>,
    /// 95 % intervals of ours, from fleets whose histories are drawn from those of this one; none
    /// for what the histories have in common.
    pub interval_95: BTreeMap<String, Option<[f64; 2]>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fleet {
    pub params: FleetParams,
    pub quantities: Vec<FleetQuantity>,
    pub servers: Vec<FleetServer>,
}

/// Figures 4 and 5 of Contiguitas.
pub struct FleetModel;

impl Experiment for FleetModel {
    type Parameters = FleetParams;
    type Outcome = Fleet;

    fn run(params: &FleetParams, progress: Progress<'_>) -> Result<Fleet> {
        ensure!(!params.policies.is_empty(), "policies lists none");
        let text = fleet_text(&params.fleet)?;
        let read = || DrawnFleet::parse(&text)?.scaled(params.memory_ratio);
        let mut fleet = read().with_context(|| params.fleet.clone())?;
        ensure!(
            (1..=fleet.servers()).contains(&params.servers),
            "servers is {}, but the fleet has {}",
            params.servers,
            fleet.servers()
        );
        let numbers: Vec<u32> = (0..params.servers).collect();
        let mut servers = Vec::new();
        for (at, &policy) in params.policies.iter().enumerate() {
            fleet = fleet.under(policy);
            let told = |share: f64| progress((at as f64 + share) / params.policies.len() as f64);
            servers.extend(fleet.run(&numbers, &told, |server, metrics| {
                Ok(FleetServer::of(policy, server, metrics))
            })?);
        }
        Ok(Fleet {
            params: params.clone(),
            quantities: quantities(params, &servers),
            servers,
        })
    }
}

impl FleetServer {
    fn of(policy: PolicyKind, server: &DrawnServer, found: &GroupMetrics) -> FleetServer {
        let free_blocks = |bytes: u64| {
            let size = found.sizes.iter().find(|size| size.size_bytes == bytes);
            size.map_or(0, |size| size.free_blocks)
        };
        let owners = found.o.as_ref().unwrap_or(&found.k);
        let potential = |bytes: u64| {
            let size = owners.sizes.iter().find(|size| size.size_bytes == bytes);
            size.map_or(0, |size| size.potential_blocks.low)
        };
        let blocks = |definition: &DefinitionMetrics| {
            let smallest = definition.sizes.first();
            smallest.and_then(|size| size.unmovable_ratio.high)
        };
        let source = |wanted: Source| {
            let held = found.sources.iter().find(|held| held.source == wanted);
            held.and_then(|held| held.ratio).unwrap_or(0.0)
        };
        let in_blocks = free_blocks(2 << 20) * (2 << 20);
        FleetServer {
            policy,
            number: server.number,
            history: server.history,
            role: server.role.clone(),
            uptime_h: server.uptime_h,
            free_ratio: found.free_bytes as f64 / found.memory_bytes as f64,
            free_blocks_2m: free_blocks(2 << 20),
            free_blocks_32m: free_blocks(32 << 20),
            free_blocks_1g: free_blocks(1 << 30),
            free_contiguity_2m: in_blocks as f64 / found.free_bytes.max(1) as f64,
            unmovable_2m_ratio_p: blocks(&found.p).unwrap_or(0.0),
            unmovable_2m_ratio: blocks(owners).unwrap_or(0.0),
            unmovable_page_ratio: found.p.unmovable_page_ratio.high.unwrap_or(0.0),
            potential_blocks_32m: potential(32 << 20),
            potential_blocks_1g: potential(1 << 30),
            networking_ratio: source(Source::Networking),
            slab_ratio: source(Source::Slab),
        }
    }
}

/// The points of a cumulative distribution, per cent.
fn cumulative(servers: &[&FleetServer], value: fn(&FleetServer) -> f64) -> Vec<(f64, f64)> {
    let steps = Distribution::of(servers.iter().map(|server| value(server))).steps();
    let percent = steps.into_iter().map(|(x, y)| (x * 100.0, y * 100.0));
    percent.collect()
}

impl Outcome for Fleet {
    const SCHEMA: &'static str = "ample.fleet-model/2";

    fn figures(&self) -> Vec<Figure> {
        let title = "Servers (%) with at most so much (%) of their free memory in 2 MB blocks, \
                     and of their 2 MB blocks unmovable";
        let mut series = Vec::new();
        for policy in &self.params.policies {
            let own = self
                .servers
                .iter()
                .filter(|server| server.policy == *policy);
            let own: Vec<&FleetServer> = own.collect();
            let mut put = |what: &str, value: fn(&FleetServer) -> f64| {
                series.push(line(
                    &format!("{}: {what}", policy.name()),
                    cumulative(&own, value),
                ));
            };
            put("free in 2 MB blocks", |s| s.free_contiguity_2m);
            put("unmovable 2 MB blocks", |s| s.unmovable_2m_ratio);
        }
        let axes = [
            ("per cent of memory", Unit::Count),
            ("per cent of servers", Unit::Count),
        ];
        let svg = lines(title, axes, series).to_svg();
        vec![Figure::new("fleet-model", title, svg)]
    }
}

#[cfg(test)]
mod tests {
    use super::quantities::{Worked, interval_95, of_one_history, separate};
    use super::*;

    fn small() -> FleetParams {
        FleetParams {
            servers: 8,
            memory_ratio: 1.0 / 256.0,
            ..crate::shipped_parameters("fleet-model", true).expect("shipped")
        }
    }

    #[test]
    fn the_same_fleet_on_any_number_of_threads() {
        let params = small();
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.expect("threads")
                .install(|| FleetModel::run(&params, &|_| ()).expect("runs"))
        };
        let fleet = on(1);
        assert_eq!(fleet, on(2));
        assert_eq!(fleet.servers.len(), 16);
        assert!(
            fleet
                .servers
                .iter()
                .all(|server| server.unmovable_2m_ratio > 0.0)
        );
        let median = &fleet.quantities[6];
        assert_eq!(median.quantity, "unmovable 2 MB blocks, O, median");
        assert!(
            median.under["contiguitas"] < median.under["linux"],
            "{median:?}"
        );
    }

    #[test]
    fn what_the_fleet_does_not_have_is_refused() {
        for (params, told) in [
            (
                FleetParams {
                    servers: 0,
                    ..small()
                },
                "servers is 0",
            ),
            (
                FleetParams {
                    servers: 201,
                    ..small()
                },
                "the fleet has 200",
            ),
            (
                FleetParams {
                    policies: Vec::new(),
                    ..small()
                },
                "lists none",
            ),
            (
                FleetParams {
                    fleet: "nothing".into(),
                    ..small()
                },
                "calibrated, mixed",
            ),
            (
                FleetParams {
                    memory_ratio: f64::NAN,
                    ..small()
                },
                "memory_gb",
            ),
        ] {
            let error = FleetModel::run(&params, &|_| ()).expect_err("refused");
            assert!(format!("{error:#}").contains(told), "{told}: {error:#}");
        }
    }

    #[test]
    fn looks_that_agree_are_worth_one_server() {
        let params = small();
        let fleet = FleetModel::run(&params, &|_| ()).expect("runs");
        let mut own: Vec<FleetServer> = fleet.servers[..8].to_vec();
        for server in &mut own {
            server.unmovable_2m_ratio_p = f64::from(server.history);
        }
        let servers: Vec<&FleetServer> = own.iter().collect();
        assert_eq!(of_one_history(&servers), Some(1.0));
        assert_eq!(separate(&servers), Some(2.0));
        let alone: Vec<&FleetServer> = own.iter().step_by(4).collect();
        assert_eq!(separate(&alone), Some(2.0));
    }

    /// Histories are drawn whole: looks at one history tell no more than one of them.
    #[test]
    fn an_interval_is_that_of_the_histories() {
        let fleet = FleetModel::run(&small(), &|_| ()).expect("runs");
        let median = &fleet.quantities[6];
        let [low, high] = median.interval_95["linux"].expect("two histories");
        let found = median.under["linux"].expect("a median");
        assert!(low <= found && found <= high && low < high, "{median:?}");
        let shared = fleet.quantities.last().expect("quantities");
        assert_eq!(shared.interval_95["linux"], None);
        let mut own: Vec<FleetServer> = fleet.servers[..8].to_vec();
        own.iter_mut()
            .for_each(|server| server.uptime_h = f64::from(server.history));
        let mean: Worked<'_> = Box::new(|servers| {
            ample_kit::statistics::mean(servers.iter().map(|server| server.uptime_h))
        });
        let all: Vec<&FleetServer> = own.iter().collect();
        assert_eq!(interval_95(&all, &mean), Some([0.0, 1.0]));
        assert_eq!(interval_95(&all[..4], &mean), None);
    }
}
