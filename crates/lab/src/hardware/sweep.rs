// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps over the migration hardware: table sizes, slices, hash functions, sizes of mappings,
//! engines, back-off, and where the table is looked up. A memcached-like server runs on all cores.

use super::stats::{mean_of, pairs, parallel, with_ci};
use super::traffic::{self, Setting, TrafficRun};
use super::{Service, Way};
use crate::charts::{bar_figure, name_of, plain};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_kit::statistics::mean;
use ample_machine::multi::{EngineParams, MemoryParams, OsParams};
use ample_migration::protocol::SliceHash;
use ample_report::Unit;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

/// One variant of the hardware; means over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HardwareVariant {
    /// What differs from table 1.
    pub what: String,
    /// Design of the hardware that moves pages.
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

/// What `hw-sweep` gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepReport {
    /// As run.
    pub params: SweepParams,
    /// Each variant with each design.
    pub variants: Vec<HardwareVariant>,
}

/// A machine to try.
#[derive(Clone)]
struct Trial {
    what: String,
    setting: Setting,
}

fn trials(params: &SweepParams) -> Vec<Trial> {
    let setting = Setting {
        simulated_ms: params.simulated_ms,
        group_pages: 1,
        memory: MemoryParams::table1(),
        os: OsParams::default(),
    };
    let what = "table 1".into();
    let mut all = vec![Trial { what, setting }];
    let mut with = |what: String, change: &dyn Fn(&mut Setting)| {
        let mut setting = setting;
        change(&mut setting);
        all.push(Trial { what, setting });
    };
    for &n in &params.table_entries {
        with(format!("{n} table entries"), &|s| {
            s.memory.engine.table_entries = n
        });
    }
    for &n in &params.slices {
        with(format!("{n} slices"), &|s| {
            s.memory.slices = n;
            s.memory.llc_slice.bytes = (16 << 20) / u64::from(n.max(1));
        });
    }
    for hash in [
        SliceHash::Modulo,
        SliceHash::XorFold,
        SliceHash::Multiplicative,
        SliceHash::Page,
    ] {
        with(format!("hash {hash:?}"), &|s| s.memory.hash = hash);
    }
    for &n in &params.group_pages {
        with(format!("{n} pages a mapping"), &|s| s.group_pages = n);
    }
    for (what, change) in ENGINES {
        with(what.into(), &|s| change(&mut s.memory.engine));
    }
    with("full table: submit at every entry".into(), &|s| {
        s.os.table_full_backoff_cycles = 0
    });
    for entries in [60_000.0, 100_000.0] {
        with(format!("{entries} kernel entries a second"), &|s| {
            s.os.kernel_entries_per_s = entries
        });
    }
    all
}

type Change = (&'static str, fn(&mut EngineParams));

const ENGINES: [Change; 9] = [
    ("parallel slices", |e| e.parallel_slices = true),
    ("2 lines on their way", |e| e.copy_window_lines = 2),
    ("fetch the page at installation", |e| {
        e.fetch_at_install = true
    }),
    ("no announcement", |e| e.announce = false),
    ("no MSHR entries for marks", |e| e.mark_entries = 0),
    ("15 MSHR entries for marks", |e| e.mark_entries = 15),
    ("marks beside the MSHRs", |e| e.marks_apart = true),
    ("table look-up in series, 1 cycle", |e| e.table_cycles = 1),
    ("table look-up in series, 2 cycles", |e| e.table_cycles = 2),
];

/// Trials that differ in nothing that matters while nothing moves: they share a past.
struct Class {
    setting: Setting,
    /// Places in the list of trials.
    members: Vec<usize>,
}

/// A trial's setting with the engine of table 1, as far as that matters without migrations.
fn idle(trial: &Trial) -> Setting {
    let mut setting = trial.setting;
    setting.memory.engine = EngineParams {
        table_cycles: setting.memory.engine.table_cycles,
        ..MemoryParams::table1().engine
    };
    setting
}

fn classes(trials: &[Trial]) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for (place, trial) in trials.iter().enumerate() {
        let setting = idle(trial);
        match classes.iter_mut().find(|class| class.setting == setting) {
            Some(class) => class.members.push(place),
            None => classes.push(Class {
                setting,
                members: vec![place],
            }),
        }
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
    let past = traffic::warmed(&class.setting, Service::Memcached, seed)?;
    let still = traffic::go_on(&class.setting, past.clone(), None)?;
    let member = |&place: &usize| {
        let setting = &trials[place].setting;
        let go = |way| traffic::go_on(setting, past.clone(), Some((way, params.rate_per_s)));
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
    let moved: Vec<TrafficRun> = runs.iter().map(|run| run[place]).collect();
    let known = |value: fn(&TrafficRun) -> Option<f64>| mean(moved.iter().filter_map(value));
    let losses: Vec<f64> = runs
        .iter()
        .map(|run| run[place].loss_against(&run[0]))
        .collect();
    let (loss, loss_ci95) = with_ci(&losses);
    let reached_per_s = mean_of(&moved, TrafficRun::reached_per_s);
    let pages_per_s = reached_per_s * f64::from(trial.setting.group_pages);
    HardwareVariant {
        what: trial.what.clone(),
        way,
        reached_per_s,
        pages_per_s,
        copy_ns: known(|run| run.copy_ns),
        migration_ns: known(|run| run.migration_ns),
        refused_each: mean_of(&moved, TrafficRun::refused_each),
        loss,
        loss_ci95,
        lost_ns_per_page: (pages_per_s > 0.0).then(|| loss * 1e9 / pages_per_s),
        still_work_ratio: still_work(runs) / base,
    }
}

/// Work without migrations, mean over the seeds.
fn still_work(runs: &[[TrafficRun; 3]]) -> f64 {
    mean_of(runs, |run| run[0].work as f64)
}

/// Variants of the migration hardware.
pub struct Sweep;

impl Experiment for Sweep {
    type Parameters = SweepParams;
    type Outcome = SweepReport;

    fn run(params: &SweepParams, progress: Progress<'_>) -> Result<SweepReport> {
        ensure!(!params.seeds.is_empty(), "seeds: must not be empty");
        let trials = trials(params);
        let classes = classes(&trials);
        let of_class: Vec<&Class> = classes.iter().collect();
        let jobs = pairs(&of_class, &params.seeds);
        let outcomes = parallel(&jobs, progress, |&(class, seed)| {
            try_out(params, class, &trials, seed)
        })?;
        let mut runs: Vec<Vec<[TrafficRun; 3]>> = vec![Vec::new(); trials.len()];
        for ((class, _), outcomes) in jobs.iter().zip(outcomes) {
            for (&place, outcome) in class.members.iter().zip(outcomes.into_iter().flatten()) {
                runs[place].push(outcome);
            }
        }
        let base = still_work(&runs[0]);
        // After an early end: the variants that all seeds have run, if the first one is among them.
        let complete = |runs: &Vec<_>| runs.len() == params.seeds.len();
        let known = trials.iter().zip(&runs);
        let known = known.filter(|(_, all)| complete(&runs[0]) && complete(all));
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
        let bar = |row: &HardwareVariant| {
            let bar = row.copy_ns.map_or_else(Default::default, plain);
            (row.what.clone(), name_of(&row.way), bar)
        };
        let title = "Variants of the migration hardware: copy of a page, ns";
        bar_figure("copy", title, Unit::Count, self.variants.iter().map(bar))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> SweepParams {
        crate::shipped_parameters("hw-sweep", true).expect("shipped")
    }

    #[test]
    fn a_shared_past_changes_nothing() {
        let params = small();
        let trials = trials(&params);
        let classes = classes(&trials);
        assert!(classes.len() < trials.len());
        let members: usize = classes.iter().map(|class| class.members.len()).sum();
        assert_eq!(members, trials.len());
        let class = &classes[0];
        let shared = try_out(&params, class, &trials, 1).expect("runs");
        let place = class.members.iter().position(|&place| place == 1);
        let Trial { what, setting } = &trials[1];
        assert_eq!(what, "2 table entries");
        let past = traffic::warmed(setting, Service::Memcached, 1).expect("warms up");
        let moving = Some((Way::Cacheable, params.rate_per_s));
        let alone = traffic::go_on(setting, past, moving).expect("runs");
        assert_eq!(place.map(|place| shared[place][2]), Some(alone));
    }

    #[test]
    fn seeds_are_needed() {
        let mut params = small();
        params.seeds.clear();
        let error = Sweep::run(&params, &|_| {}).expect_err("refused");
        assert!(error.to_string().contains("seeds"), "{error}");
    }
}
