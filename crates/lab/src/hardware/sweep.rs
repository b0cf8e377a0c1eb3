// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps over the migration hardware: table sizes, slices, hash functions, sizes of mappings,
//! engines, back-off, and where the table is looked up. A memcached-like server runs on all cores.

use super::stats::{finite, parallel};
use super::traffic::{self, TrafficRun};
use super::{Service, Way};
use crate::charts::{Bars, plain};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_kit::statistics::{mean, mean_and_ci};
use ample_machine::multi::{EngineParams, MemoryParams, OsParams};
use ample_migration::protocol::SliceHash;
use ample_report::Unit;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SweepParams {
    /// Table sizes to try.
    pub table_entries: Vec<u8>,
    /// Slice counts to try, with the capacity of the whole last level kept.
    pub slices: Vec<u8>,
    /// Pages in one mapping of the NIC, moved together, to try.
    pub group_pages: Vec<u32>,
    /// Migrations a second asked for.
    pub rate_per_s: f64,
    /// Simulated time of each run.
    pub simulated_ms: f64,
    /// Each variant is run with each seed, and compared with no migrations under the same seed.
    pub seeds: Vec<u64>,
}

impl Default for SweepParams {
    fn default() -> Self {
        Self {
            table_entries: vec![1, 2, 4, 8, 16, 32, 64],
            slices: vec![1, 2, 4, 8, 16],
            group_pages: vec![2, 4, 16],
            rate_per_s: 1e6,
            simulated_ms: 0.5,
            seeds: vec![1, 2, 3],
        }
    }
}

/// One variant of the hardware; means over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HardwareVariant {
    /// What differs from table 1.
    pub what: String,
    /// Mover.
    pub way: Way,
    /// Migrations a second reached.
    pub reached_per_s: f64,
    /// Pages moved a second.
    pub pages_per_s: f64,
    /// Copying alone, mean; absent when no migration ended.
    pub copy_ns: Option<f64>,
    /// From the start to the freed source, mean.
    pub migration_ns: Option<f64>,
    /// Commands that met a full table, for each migration.
    pub refused_each: f64,
    /// Throughput against the same machine without migrations.
    pub loss: f64,
    /// Half width of its 95 % confidence interval (Student's t).
    pub loss_ci95: Option<f64>,
    /// Time of the machine lost for each page moved.
    pub lost_ns_per_page: Option<f64>,
    /// Work without migrations against table 1 without migrations.
    pub still_work_ratio: f64,
}

/// Results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepReport {
    /// Parameters.
    pub params: SweepParams,
    /// Variants.
    pub variants: Vec<HardwareVariant>,
}

/// A machine to try.
#[derive(Clone)]
struct Trial {
    what: String,
    memory: MemoryParams,
    os: OsParams,
    group_pages: u32,
}

fn trials(params: &SweepParams) -> Vec<Trial> {
    let base = Trial {
        what: "table 1".into(),
        memory: MemoryParams::table1(),
        os: OsParams::default(),
        group_pages: 1,
    };
    let with = |what: String, change: &dyn Fn(&mut Trial)| {
        let mut trial = base.clone();
        trial.what = what;
        change(&mut trial);
        trial
    };
    let mut all = vec![base.clone()];
    for &n in &params.table_entries {
        all.push(with(format!("{n} table entries"), &|t| {
            t.memory.engine.table_entries = n
        }));
    }
    for &n in &params.slices {
        all.push(with(format!("{n} slices"), &|t| {
            t.memory.slices = n;
            t.memory.llc_slice.bytes = (16 << 20) / u64::from(n.max(1));
        }));
    }
    for hash in [
        SliceHash::Modulo,
        SliceHash::XorFold,
        SliceHash::Multiplicative,
        SliceHash::Page,
    ] {
        all.push(with(format!("hash {hash:?}"), &|t| t.memory.hash = hash));
    }
    for &n in &params.group_pages {
        all.push(with(format!("{n} pages a mapping"), &|t| t.group_pages = n));
    }
    for (what, change) in ENGINES {
        all.push(with(what.into(), &|t| change(&mut t.memory.engine)));
    }
    all.push(with("full table: submit at every entry".into(), &|t| {
        t.os.table_full_backoff_cycles = 0
    }));
    for entries in [60_000.0, 100_000.0] {
        all.push(with(format!("{entries} kernel entries a second"), &|t| {
            t.os.kernel_entries_per_s = entries
        }));
    }
    all
}

type Change = (&'static str, fn(&mut EngineParams));

const ENGINES: [Change; 6] = [
    ("parallel slices", |e| e.parallel_slices = true),
    ("2 lines on their way", |e| e.copy_window_lines = 2),
    ("fetch the page at installation", |e| {
        e.fetch_at_install = true
    }),
    ("no announcement", |e| e.announce = false),
    ("table look-up in series, 1 cycle", |e| e.table_cycles = 1),
    ("table look-up in series, 2 cycles", |e| e.table_cycles = 2),
];

/// Trials that differ in nothing that matters while nothing moves: they share a past.
struct Class {
    traffic: traffic::TrafficParams,
    /// Places in the list of trials.
    members: Vec<usize>,
}

/// The engine of a trial, as far as it matters without migrations.
fn idle(trial: &Trial) -> MemoryParams {
    let base = MemoryParams::table1().engine;
    MemoryParams {
        engine: EngineParams {
            table_cycles: trial.memory.engine.table_cycles,
            ..base
        },
        ..trial.memory
    }
}

fn classes(params: &SweepParams, trials: &[Trial]) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for (place, trial) in trials.iter().enumerate() {
        let memory = idle(trial);
        let same = classes.iter_mut().find(|class| {
            let t = &class.traffic;
            (t.memory, t.os, t.group_pages) == (memory, trial.os, trial.group_pages)
        });
        if let Some(class) = same {
            class.members.push(place);
            continue;
        }
        let traffic = traffic::TrafficParams {
            simulated_ms: params.simulated_ms,
            memory,
            os: trial.os,
            group_pages: trial.group_pages,
            ..traffic::TrafficParams::default()
        };
        let members = vec![place];
        classes.push(Class { traffic, members });
    }
    classes
}

/// For each member of a class its three runs: still, and each design.
fn try_out(
    params: &SweepParams,
    class: &Class,
    trials: &[Trial],
    seed: u64,
) -> Result<Vec<[TrafficRun; 3]>> {
    let past = traffic::warmed(&class.traffic, Service::Memcached, seed)?;
    let still = traffic::go_on(&class.traffic, past.clone(), None)?;
    let member = |&place: &usize| {
        let traffic = traffic::TrafficParams {
            memory: trials[place].memory,
            ..class.traffic.clone()
        };
        let go = |way| traffic::go_on(&traffic, past.clone(), Some((way, params.rate_per_s)));
        Ok([still, go(Way::NonCacheable)?, go(Way::Cacheable)?])
    };
    class.members.iter().map(member).collect()
}

/// One variant and design from its runs, one a seed; `base` is table 1 without migrations.
fn variant(
    trial: &Trial,
    way: Way,
    place: usize,
    runs: &[[TrafficRun; 3]],
    base: f64,
) -> HardwareVariant {
    let group = f64::from(trial.group_pages);
    let over = |value: &dyn Fn(&TrafficRun) -> f64| {
        runs.iter().map(|run| value(&run[place])).sum::<f64>() / runs.len() as f64
    };
    let known = |value: fn(&TrafficRun) -> Option<f64>| {
        mean(runs.iter().filter_map(|run| value(&run[place])))
    };
    let losses = |run: &[TrafficRun; 3]| 1.0 - run[place].work as f64 / run[0].work as f64;
    let (loss, loss_ci95) = mean_and_ci(&runs.iter().map(losses).collect::<Vec<f64>>());
    let reached_per_s = over(&|run| run.migrations as f64 / run.seconds);
    let pages_per_s = reached_per_s * group;
    let still = runs.iter().map(|run| run[0].work as f64).sum::<f64>() / runs.len() as f64;
    HardwareVariant {
        what: trial.what.clone(),
        way,
        reached_per_s,
        pages_per_s,
        copy_ns: known(|run| run.copy_ns),
        migration_ns: known(|run| run.migration_ns),
        refused_each: over(&|run| run.refused as f64 / run.migrations.max(1) as f64),
        loss,
        loss_ci95: finite(loss_ci95),
        lost_ns_per_page: (pages_per_s > 0.0).then(|| loss * 1e9 / pages_per_s),
        still_work_ratio: still / base,
    }
}

/// Variants of the migration hardware.
pub struct Sweep;

impl Experiment for Sweep {
    type Parameters = SweepParams;
    type Outcome = SweepReport;

    fn run(params: &SweepParams, progress: Progress<'_>) -> Result<SweepReport> {
        ensure!(!params.seeds.is_empty(), "seeds: must not be empty");
        let trials = trials(params);
        let classes = classes(params, &trials);
        let with_seeds = |class| params.seeds.iter().map(move |&seed| (class, seed));
        let jobs: Vec<(&Class, u64)> = classes.iter().flat_map(with_seeds).collect();
        let outcomes = parallel(&jobs, progress, |&(class, seed)| {
            try_out(params, class, &trials, seed)
        })?;
        let mut runs: Vec<Vec<[TrafficRun; 3]>> = vec![Vec::new(); trials.len()];
        for ((class, _), outcomes) in jobs.iter().zip(outcomes) {
            for (&place, outcome) in class.members.iter().zip(outcomes.into_iter().flatten()) {
                runs[place].push(outcome);
            }
        }
        let base = runs.first().map_or(&[][..], Vec::as_slice);
        let base = base.iter().map(|run| run[0].work as f64).sum::<f64>() / base.len() as f64;
        // After an early end: the variants that all seeds have run, if the first one is among them.
        let seeds = params.seeds.len();
        let complete = |runs: &&Vec<_>| runs.len() == seeds;
        let base_known = runs.first().is_some_and(|runs| complete(&runs));
        let known = trials
            .iter()
            .zip(&runs)
            .filter(|(_, runs)| base_known && complete(runs));
        let variants = known.flat_map(|(trial, runs)| {
            let designs = [(Way::NonCacheable, 1), (Way::Cacheable, 2)];
            designs.map(|(way, place)| variant(trial, way, place, runs, base))
        });
        Ok(SweepReport {
            params: params.clone(),
            variants: variants.collect(),
        })
    }
}

impl Outcome for SweepReport {
    const SCHEMA: &'static str = "ample.hw-sweep/1";

    fn figures(&self) -> Vec<Figure> {
        let title = "Variants of the migration hardware: copy of a page, ns";
        let mut bars = Bars::new(title, Unit::Count);
        for row in &self.variants {
            let bar = row.copy_ns.map_or_else(Default::default, plain);
            bars.put(&row.what, row.way.name(), bar);
        }
        vec![Figure::new("copy", title, bars.svg())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> SweepParams {
        SweepParams {
            table_entries: vec![2],
            slices: vec![4],
            group_pages: vec![2],
            simulated_ms: 0.02,
            seeds: vec![1],
            ..SweepParams::default()
        }
    }

    #[test]
    fn a_shared_past_changes_nothing() {
        let params = small();
        let trials = trials(&params);
        let classes = classes(&params, &trials);
        assert!(classes.len() < trials.len());
        let members: usize = classes.iter().map(|class| class.members.len()).sum();
        assert_eq!(members, trials.len());
        let class = &classes[0];
        let shared = try_out(&params, class, &trials, 1).expect("runs");
        let place = class.members.iter().position(|&place| place == 1);
        let trial = &trials[1];
        assert_eq!(trial.what, "2 table entries");
        let alone = traffic::TrafficParams {
            memory: trial.memory,
            os: trial.os,
            simulated_ms: params.simulated_ms,
            ..traffic::TrafficParams::default()
        };
        let past = traffic::warmed(&alone, Service::Memcached, 1).expect("warms up");
        let moving = Some((Way::Cacheable, params.rate_per_s));
        let alone = traffic::go_on(&alone, past, moving).expect("runs");
        assert_eq!(place.map(|place| shared[place][2]), Some(alone));
    }

    #[test]
    fn seeds_are_needed() {
        let mut params = small();
        params.seeds.clear();
        let error = Sweep::run(&params, &|_| {})
            .expect_err("refused")
            .to_string();
        assert!(error.contains("seeds"), "{error}");
    }
}
