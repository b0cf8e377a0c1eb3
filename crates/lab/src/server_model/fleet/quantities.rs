// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of a fleet, beside the paper's.

use super::{FleetParams, FleetQuantity, FleetServer};
use ample_kit::random::SplitMix64;
use ample_kit::statistics::{Distribution, intraclass, pearson};
use std::collections::BTreeMap;

/// How a figure is worked out from servers.
pub(super) type Worked<'a> = Box<dyn Fn(&[&FleetServer]) -> Option<f64> + 'a>;
/// A figure over servers: what it says, the paper's value, how it is worked out.
type Asked<'a> = (&'static str, Option<f64>, Worked<'a>);

/// Fleets that are drawn for an interval.
const DRAWN_FLEETS: u32 = 1000;

/// All figures of the servers, under each policy.
pub(super) fn quantities(params: &FleetParams, servers: &[FleetServer]) -> Vec<FleetQuantity> {
    let mut drawn = about_free_blocks(params.least_free_ratio);
    drawn.extend(about_unmovable_memory());
    drawn.extend(about_uptime(params.young_h));
    let row = |(quantity, paper, of): &Asked<'_>, is_drawn: bool| {
        let mut row = FleetQuantity {
            quantity: (*quantity).into(),
            paper: *paper,
            under: BTreeMap::new(),
            interval_95: BTreeMap::new(),
        };
        for policy in &params.policies {
            let own = servers.iter().filter(|server| server.policy == *policy);
            let own: Vec<&FleetServer> = own.collect();
            let interval = is_drawn.then(|| interval_95(&own, of)).flatten();
            row.interval_95.insert(policy.name().into(), interval);
            row.under.insert(policy.name().into(), of(&own));
        }
        row
    };
    let histories = about_histories();
    let histories = histories.iter().map(|asked| row(asked, false));
    drawn
        .iter()
        .map(|asked| row(asked, true))
        .chain(histories)
        .collect()
}

/// The ends of the middle 95 % of a figure over fleets of as many histories, each drawn from these
/// with its servers. Servers of one history are alike, so they are drawn together. `None` of fewer
/// than two histories.
pub(super) fn interval_95(servers: &[&FleetServer], of: &Worked<'_>) -> Option<[f64; 2]> {
    let mut histories: BTreeMap<u32, Vec<&FleetServer>> = BTreeMap::new();
    for server in servers {
        histories.entry(server.history).or_default().push(server);
    }
    let histories: Vec<Vec<&FleetServer>> = histories.into_values().collect();
    let count = histories.len();
    (count > 1).then_some(())?;
    let mut random = SplitMix64::new(1);
    let fleets = (0..DRAWN_FLEETS).filter_map(|_| {
        let drawn = (0..count).map(|_| &histories[random.below(count as u64) as usize]);
        of(&drawn.flatten().copied().collect::<Vec<_>>())
    });
    let found = Distribution::of(fleets);
    Some([found.quantile(0.025)?, found.quantile(0.975)?])
}

/// Servers with enough free memory, and those of them without a free block (§2.4, figure 4).
fn about_free_blocks<'a>(least_free_ratio: f64) -> Vec<Asked<'a>> {
    let over = move |servers: &[&FleetServer], blocks: fn(&FleetServer) -> u64| {
        let counted = servers.iter().filter(|s| s.free_ratio >= least_free_ratio);
        Distribution::of(counted.map(|server| blocks(server) as f64))
    };
    let none = move |blocks: fn(&FleetServer) -> u64| -> Worked<'a> {
        Box::new(move |servers| over(servers, blocks).share(|blocks| blocks == 0.0))
    };
    let with_free = move |servers: &[&FleetServer]| {
        let counted = over(servers, |server| server.free_blocks_2m).summary();
        Some(counted.map_or(0.0, |counted| counted.hosts as f64))
    };
    vec![
        ("servers with free memory", None, Box::new(with_free)),
        (
            "of them without a free 2 MB block",
            Some(0.23),
            none(|s| s.free_blocks_2m),
        ),
        (
            "without a free 32 MB block",
            Some(0.59),
            none(|s| s.free_blocks_32m),
        ),
        (
            "without a free 1 GB block",
            Some(0.9),
            none(|s| s.free_blocks_1g),
        ),
    ]
}

/// Quantiles over servers, and servers without a sound block (§2.5, figures 5 and 6).
fn about_unmovable_memory<'a>() -> Vec<Asked<'a>> {
    let at = |share: f64, value: fn(&FleetServer) -> f64| -> Worked<'a> {
        Box::new(move |servers| {
            Distribution::of(servers.iter().map(|server| value(server))).quantile(share)
        })
    };
    let none = |blocks: fn(&FleetServer) -> u64| -> Worked<'a> {
        Box::new(move |servers| {
            let blocks = servers.iter().map(|server| blocks(server) as f64);
            Distribution::of(blocks).share(|blocks| blocks == 0.0)
        })
    };
    let blocks_o: fn(&FleetServer) -> f64 = |s| s.unmovable_2m_ratio;
    vec![
        (
            "unmovable 2 MB blocks, P, median",
            Some(0.34),
            at(0.5, |s| s.unmovable_2m_ratio_p),
        ),
        (
            "unmovable 2 MB blocks, O, 10th percentile",
            None,
            at(0.1, blocks_o),
        ),
        ("unmovable 2 MB blocks, O, median", None, at(0.5, blocks_o)),
        (
            "unmovable 2 MB blocks, O, 90th percentile",
            None,
            at(0.9, blocks_o),
        ),
        (
            "unmovable 4 KB pages, P, median",
            Some(0.076),
            at(0.5, |s| s.unmovable_page_ratio),
        ),
        (
            "no 32 MB block without unmovable memory, O",
            None,
            none(|s| s.potential_blocks_32m),
        ),
        (
            "no 1 GB block without unmovable memory, O",
            None,
            none(|s| s.potential_blocks_1g),
        ),
        (
            "networking, of unmovable pages, median",
            Some(0.73),
            at(0.5, |s| s.networking_ratio),
        ),
        (
            "slab, of unmovable pages, median",
            Some(0.12),
            at(0.5, |s| s.slab_ratio),
        ),
    ]
}

/// What uptime says.
fn about_uptime<'a>(young_h: f64) -> Vec<Asked<'a>> {
    let young = move |servers: &[&FleetServer]| {
        let young = servers.iter().filter(|server| server.uptime_h <= young_h);
        uptime_r(&young.copied().collect::<Vec<_>>())
    };
    vec![
        (
            "uptime and free 2 MB blocks, |r|",
            Some(0.00286),
            Box::new(uptime_r),
        ),
        (
            "the same of young servers, |r|",
            Some(0.16),
            Box::new(young),
        ),
    ]
}

/// What servers of one history have in common.
fn about_histories<'a>() -> Vec<Asked<'a>> {
    vec![
        (
            "servers of one history, correlation of P",
            None,
            Box::new(of_one_history),
        ),
        (
            "separate servers that tell as much",
            None,
            Box::new(separate),
        ),
    ]
}

/// Correlation of uptime and free 2 MB blocks, without its sign.
fn uptime_r(servers: &[&FleetServer]) -> Option<f64> {
    let pairs = servers
        .iter()
        .map(|server| (server.uptime_h, server.free_blocks_2m as f64));
    pearson(&pairs.collect::<Vec<_>>()).map(f64::abs)
}

/// Unmovable 2 MB blocks of the servers of each history.
fn by_history(servers: &[&FleetServer]) -> Vec<Vec<f64>> {
    let mut histories: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for server in servers {
        let history = histories.entry(server.history).or_default();
        history.push(server.unmovable_2m_ratio_p);
    }
    histories.into_values().collect()
}

pub(super) fn of_one_history(servers: &[&FleetServer]) -> Option<f64> {
    intraclass(&by_history(servers))
}

/// Separate servers whose mean varies as much as that of these, which share histories (Kish's
/// design effect).
pub(super) fn separate(servers: &[&FleetServer]) -> Option<f64> {
    let histories = by_history(servers);
    let squares: usize = histories
        .iter()
        .map(|looks| looks.len() * looks.len())
        .sum();
    let count = servers.len() as f64;
    let looks = squares as f64 / count;
    match intraclass(&histories) {
        Some(r) => Some(count / (1.0 + (looks - 1.0) * r.max(0.0))),
        None => (squares == servers.len()).then_some(count),
    }
}
