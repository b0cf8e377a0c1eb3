// SPDX-License-Identifier: MIT OR Apache-2.0
//! The study of a fleet: what the queries say together. Contiguitas §2.4 and §2.5, figures 4 to 6.

mod cdf;
mod explained;

use crate::engine::FleetEngine;
use crate::place::Unusable;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use explained::explained;

pub use cdf::{Cdf, HostSpread, Quantiles};
pub use explained::Explained;

/// Both ends of a ratio that may be an interval on each host.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Bounds {
    /// Of the smallest values that fit the data.
    pub low: HostSpread,
    /// Of the largest values that fit the data.
    pub high: HostSpread,
}

/// Hosts with a property, of those that were asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Hosts with the property.
    pub hosts: u64,
    /// Hosts that were asked.
    pub of: u64,
}

impl Share {
    /// As a ratio; `None` of nothing.
    pub fn ratio(self) -> Option<f64> {
        (self.of > 0).then(|| self.hosts as f64 / self.of as f64)
    }
}

/// SizeKey of a ratio: block size in bytes and definition.
pub type SizeKey = (u64, String);

/// Rows that count nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What is wrong with them.
    pub problem: String,
    /// How many there are.
    pub row_count: u64,
    /// Hosts that they are from.
    pub hosts: u64,
    /// One of these.
    pub example: Option<String>,
}

/// One of the worst hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstHost {
    /// Its place, from 1.
    pub host_rank: u64,
    /// The host's name.
    pub host: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// What it is for.
    pub role: Option<String>,
    /// Where it stands.
    pub rack: Option<String>,
    /// How long it is up.
    pub uptime_seconds: Option<u64>,
    /// Memory of the host, without holes.
    pub memory_bytes: u64,
    /// Memory in free pages.
    pub free_bytes: u64,
    /// 2 MB blocks.
    pub blocks: u64,
    /// Free 2 MB blocks.
    pub free_blocks: u64,
    /// 2 MB blocks with an unmovable page (K, upper end).
    pub unmovable_blocks_high: u64,
    /// Unmovable 4 KB pages (K, upper end).
    pub unmovable_pages: Option<u64>,
    /// 1 GB blocks without an unmovable page (K, lower end).
    pub potential_blocks_1g: Option<u64>,
    /// Its sources, those with most pages first.
    #[serde(default)]
    pub sources: Vec<WorstSource>,
}

/// A source of unmovable pages of one of the worst hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstSource {
    /// Place of the host.
    #[serde(skip_serializing)]
    pub host_rank: u64,
    /// Name of the source.
    pub source: String,
    /// Unmovable pages of the source.
    pub pages: u64,
    /// 2 MB blocks with such pages.
    pub blocks_2m: Option<u64>,
}

/// Pearson's coefficients with uptime; `null` for fewer than three hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Correlation {
    /// Hosts that tell their uptime.
    pub hosts: u64,
    /// With free 2 MB blocks ÷ blocks.
    pub free_2m: Option<f64>,
    /// With unmovable 2 MB blocks ÷ blocks (K, upper end).
    pub unmovable_2m: Option<f64>,
}

/// All scans that count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllScans {
    /// How many scans count.
    pub scan_count: Option<u64>,
    /// How many hosts they are from.
    pub hosts: u64,
    /// Time of the first, in seconds since 1970.
    pub first_seconds: Option<u64>,
    /// Time of the last.
    pub last_seconds: Option<u64>,
    /// Host names whose memory changes by more than a hundredth between scans.
    pub hosts_of_two_sizes: Option<u64>,
    /// One of these.
    pub example_of_two_sizes: Option<String>,
}

/// Hosts that look wrong, and count all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubtful {
    /// How many there are.
    pub hosts: u64,
    /// One of them.
    pub example: Option<String>,
}

/// The scans of a day.
#[derive(Clone, Debug, Serialize)]
pub struct Day {
    /// How many scans there are.
    pub scans: u64,
    /// Over scans; its hosts, and what they say about a larger fleet, are hosts.
    #[serde(flatten)]
    pub spread: HostSpread,
}

/// Everything that is told about a fleet.
#[derive(Clone, Debug, Default)]
pub struct Study {
    /// All scans that count.
    pub scans: AllScans,
    /// Files that do not count.
    pub unusable: Vec<Unusable>,
    /// Rows that do not count.
    pub problems: Vec<Problem>,
    /// Memory in MiB, and how many hosts have that much.
    pub memory_mib: BTreeMap<u64, u64>,
    /// Hosts whose latest scan was delivered more than once.
    pub hosts_with_copies: u64,
    /// Host names whose time of boot goes back between scans: a clock that was set back, or several
    /// machines.
    pub boots_go_back: Doubtful,
    /// Hosts whose latest scan is a week older than the newest of the fleet.
    pub silent: Doubtful,
    /// Free bytes in wholly free blocks ÷ free bytes, by block size (figure 4).
    pub free_contiguity: BTreeMap<u64, HostSpread>,
    /// Hosts without one free block of that size.
    pub without_free: BTreeMap<u64, Share>,
    /// Unmovable blocks ÷ blocks (figure 5); at 4 KB, pages.
    pub unmovable: BTreeMap<SizeKey, Bounds>,
    /// Bytes in blocks without an unmovable page ÷ all bytes.
    pub potential: BTreeMap<SizeKey, Bounds>,
    /// Hosts that cannot form one such block, whatever they move (lower end).
    pub without_potential: BTreeMap<SizeKey, Share>,
    /// Free pages in unmovable 2 MB blocks ÷ the pages of these, upper end, by definition.
    pub internal_free: BTreeMap<String, HostSpread>,
    /// Unmovable pages of the fleet by source (figure 6).
    pub sources: BTreeMap<String, u64>,
    /// Share of a host's unmovable pages that belong to a source, by source.
    pub source_shares: BTreeMap<String, HostSpread>,
    /// With uptime.
    pub correlation: Correlation,
    /// How much of the differences in unmovable 2 MB blocks kernel, role and rack explain; `None`
    /// where that is not defined.
    pub explained: BTreeMap<String, Option<Explained>>,
    /// Unmovable 2 MB blocks (K, upper end) by kernel, role and rack.
    pub groups: BTreeMap<(String, String), HostSpread>,
    /// The worst hosts.
    pub worst: Vec<WorstHost>,
    /// Unmovable 2 MB blocks (K, upper end) of all scans of a day, by days since 1970.
    pub days: BTreeMap<i64, Day>,
    /// Change of a host's share of unmovable 2 MB blocks, in thousandths of its blocks, from its
    /// first to its last scan within the dates; how many hosts.
    pub drift: HostSpread,
}

/// A row of a histogram; which fields it has depends on the query.
#[derive(Deserialize)]
struct Bucket {
    #[serde(default)]
    size_bytes: u64,
    #[serde(default)]
    definition: String,
    #[serde(default)]
    bound: String,
    #[serde(alias = "permille_change")]
    permille: i64,
    #[serde(alias = "scan_count")]
    hosts: u64,
    #[serde(default)]
    hosts_without: u64,
    #[serde(default)]
    day: i64,
    #[serde(default)]
    dimension: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    source: String,
}

fn gather<K: Ord>(
    buckets: &[Bucket],
    key: impl Fn(&Bucket) -> Option<K>,
) -> BTreeMap<K, HostSpread> {
    let mut found: BTreeMap<K, Cdf> = BTreeMap::new();
    for bucket in buckets {
        if let Some(key) = key(bucket) {
            found
                .entry(key)
                .or_default()
                .add(bucket.permille, bucket.hosts);
        }
    }
    let spreads = found.into_iter().map(|(key, cdf)| (key, cdf.into()));
    spreads.collect()
}

fn bounds(buckets: &[Bucket]) -> BTreeMap<SizeKey, Bounds> {
    let end = |end: &'static str| {
        gather(buckets, |bucket| {
            (bucket.bound == end).then(|| (bucket.size_bytes, bucket.definition.clone()))
        })
    };
    let mut high = end("high");
    let ends = end("low").into_iter().map(|(key, low)| {
        let high = high.remove(&key).unwrap_or_default();
        (key, Bounds { low, high })
    });
    ends.collect()
}

fn without<K: Ord>(buckets: &[Bucket], key: impl Fn(&Bucket) -> Option<K>) -> BTreeMap<K, Share> {
    let mut found: BTreeMap<K, Share> = BTreeMap::new();
    for bucket in buckets {
        if let Some(key) = key(bucket) {
            let share = found.entry(key).or_default();
            share.hosts += bucket.hosts_without;
            share.of += bucket.hosts;
        }
    }
    found
}

impl Study {
    /// Reads the results of all queries.
    ///
    /// # Errors
    /// When a query has not been run, or its columns are others.
    pub fn of(engine: &FleetEngine, unusable: Vec<Unusable>) -> Result<Study> {
        let free: Vec<Bucket> = engine.rows("free_contiguity")?;
        let potential: Vec<Bucket> = engine.rows("potential")?;
        let mut study = Study {
            scans: engine.rows("scans_in_all")?.pop().unwrap_or_default(),
            unusable,
            problems: problems(engine)?,
            free_contiguity: gather(&free, |bucket| Some(bucket.size_bytes)),
            without_free: without(&free, |bucket| Some(bucket.size_bytes)),
            unmovable: bounds(&engine.rows::<Bucket>("unmovable")?),
            without_potential: without(&potential, |bucket| {
                (bucket.bound == "low").then(|| (bucket.size_bytes, bucket.definition.clone()))
            }),
            potential: bounds(&potential),
            internal_free: gather(&engine.rows::<Bucket>("internal_free")?, |bucket| {
                Some(bucket.definition.clone())
            }),
            groups: gather(&engine.rows::<Bucket>("groups")?, |bucket| {
                Some((bucket.dimension.clone(), bucket.name.clone()))
            }),
            worst: engine.rows("worst")?,
            days: days(engine)?,
            source_shares: gather(&engine.rows::<Bucket>("source_shares")?, |bucket| {
                Some(bucket.source.clone())
            }),
            correlation: correlation(engine)?,
            boots_go_back: engine.rows("boots")?.pop().unwrap_or_default(),
            silent: engine.rows("silent")?.pop().unwrap_or_default(),
            ..Study::default()
        };
        let drift = gather(&engine.rows::<Bucket>("drift")?, |_| Some(()));
        study.drift = drift.into_values().next().unwrap_or_default();
        for dimension in ["kernel", "role", "rack"] {
            let own = study.groups.iter().filter(|((own, _), _)| own == dimension);
            let own = explained(own.map(|(_, spread)| &spread.cdf));
            study.explained.insert(dimension.into(), own);
        }
        study.read_sources(engine)?;
        Ok(study)
    }

    fn read_sources(&mut self, engine: &FleetEngine) -> Result<()> {
        #[derive(Deserialize)]
        struct Memory {
            memory_mib: u64,
            hosts: u64,
            hosts_with_copies: u64,
        }
        #[derive(Deserialize)]
        struct OfSource {
            source: String,
            pages: u64,
        }
        for row in engine.rows::<Memory>("memory")? {
            self.memory_mib.insert(row.memory_mib, row.hosts);
            self.hosts_with_copies += row.hosts_with_copies;
        }
        for row in engine.rows::<OfSource>("sources")? {
            self.sources.insert(row.source, row.pages);
        }
        for source in engine.rows::<WorstSource>("worst_sources")? {
            let mut hosts = self.worst.iter_mut();
            if let Some(host) = hosts.find(|host| host.host_rank == source.host_rank) {
                host.sources.push(source);
            }
        }
        Ok(())
    }
}

/// Rows that count nowhere: by themselves, and beside the memory of their hosts.
fn problems(engine: &FleetEngine) -> Result<Vec<Problem>> {
    let mut problems: Vec<Problem> = engine.rows("problems")?;
    problems.extend(engine.rows::<Problem>("misfits")?);
    Ok(problems)
}

fn days(engine: &FleetEngine) -> Result<BTreeMap<i64, Day>> {
    #[derive(Deserialize)]
    struct Hosts {
        day: i64,
        hosts: u64,
    }
    let mut spreads = gather(&engine.rows::<Bucket>("days")?, |bucket| Some(bucket.day));
    let mut days = BTreeMap::new();
    for Hosts { day, hosts } in engine.rows("day_hosts")? {
        if let Some(spread) = spreads.remove(&day) {
            let scans = spread.cdf.hosts;
            let spread = spread.of_hosts(hosts);
            days.insert(day, Day { scans, spread });
        }
    }
    Ok(days)
}

fn correlation(engine: &FleetEngine) -> Result<Correlation> {
    #[derive(Deserialize)]
    struct Sums {
        hosts: u64,
        x: Option<i64>,
        xx: Option<i64>,
        f: Option<i64>,
        ff: Option<i64>,
        xf: Option<i64>,
        u: Option<i64>,
        uu: Option<i64>,
        xu: Option<i64>,
    }
    let Some(sums) = engine.rows::<Sums>("uptime")?.pop() else {
        return Ok(Correlation::default());
    };
    let with = |y: Option<i64>, yy: Option<i64>, xy: Option<i64>| {
        pearson(sums.hosts, sums.x?, y?, sums.xx?, yy?, xy?)
    };
    Ok(Correlation {
        hosts: sums.hosts,
        free_2m: with(sums.f, sums.ff, sums.xf),
        unmovable_2m: with(sums.u, sums.uu, sums.xu),
    })
}

/// Pearson's coefficient from whole sums; `None` for fewer than three pairs or a constant side.
fn pearson(n: u64, x: i64, y: i64, xx: i64, yy: i64, xy: i64) -> Option<f64> {
    if n < 3 {
        return None;
    }
    let wide = |of: i64, a: i64, b: i64| {
        (i128::from(n) * i128::from(of) - i128::from(a) * i128::from(b)) as f64
    };
    let (xx, yy, xy) = (wide(xx, x, x), wide(yy, y, y), wide(xy, x, y));
    (xx > 0.0 && yy > 0.0).then(|| (xy / (xx.sqrt() * yy.sqrt())).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pearson_from_sums_is_pearson_of_pairs() {
        let pairs = [(1.0, 2.0), (2.0, 1.0), (5.0, 9.0), (7.0, 3.0)];
        let sum = |f: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|&(x, y)| f(x, y)).sum::<f64>();
        let [x, y] = [sum(&|x, _| x), sum(&|_, y| y)];
        let [xx, yy, xy] = [sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y)];
        let [x, y, xx, yy, xy] = [x, y, xx, yy, xy].map(|sum| sum as i64);
        let own = pearson(4, x, y, xx, yy, xy).unwrap();
        let other = ample_kit::statistics::pearson(&pairs).unwrap();
        assert!((own - other).abs() < 1e-12, "{own} {other}");
    }
}
