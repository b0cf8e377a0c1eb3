// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps over the migration hardware: table sizes, slices, hash functions, sizes of mappings,
//! engines, back-off, and where the table is looked up. A memcached-like server runs on all cores.

use super::stats::parallel;
use super::traffic::{self, Outcome};
use super::{Service, Way};
use crate::protocol::SliceHash;
use crate::timed::{BadParams, EngineParams, MemoryParams, OsParams};
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
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
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            table_entries: vec![1, 2, 4, 8, 16, 32, 64],
            slices: vec![1, 2, 4, 8, 16],
            group_pages: vec![2, 4, 16],
            rate_per_s: 1e6,
            simulated_ms: 0.5,
            seed: 1,
        }
    }
}

/// One variant of the hardware.
#[derive(Clone, Debug, Serialize)]
pub struct Variant {
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
    /// Time of the machine lost for each page moved.
    pub lost_ns_per_page: Option<f64>,
    /// Work without migrations against table 1 without migrations.
    pub still_work_ratio: f64,
}

/// Results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Format of this object.
    pub schema: &'static str,
    /// Parameters.
    pub params: Params,
    /// Variants.
    pub variants: Vec<Variant>,
}

/// A machine to try.
#[derive(Clone)]
struct Trial {
    what: String,
    memory: MemoryParams,
    os: OsParams,
    group_pages: u32,
}

fn trials(params: &Params) -> Vec<Trial> {
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
            t.memory.llc_slice.size_bytes = (16 << 20) / u32::from(n.max(1));
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

/// The three runs of a trial: still, and each design.
fn try_out(params: &Params, trial: &Trial) -> Result<[Outcome; 3], BadParams> {
    let traffic = traffic::Params {
        services: vec![Service::Memcached],
        rates_per_s: vec![params.rate_per_s],
        simulated_ms: params.simulated_ms,
        seeds: vec![params.seed],
        memory: trial.memory,
        os: trial.os,
        group_pages: trial.group_pages,
        ..traffic::Params::default()
    };
    let go = |way| {
        let service = Service::Memcached;
        traffic::simulate(&traffic, service, way, params.rate_per_s, params.seed)
    };
    let [plain, cacheable] = [Way::NonCacheable, Way::Cacheable].map(Some);
    Ok([go(None)?, go(plain)?, go(cacheable)?])
}

/// Runs it.
///
/// # Errors
/// When a variant cannot be built, or a load returned a wrong value.
pub fn run(params: &Params) -> Result<Report, BadParams> {
    let trials = trials(params);
    let outcomes = parallel(&trials, |trial| try_out(params, trial))?;
    let base = outcomes.first().map_or(1, |first| first[0].work) as f64;
    let mut variants = Vec::new();
    for (trial, [still, plain, cacheable]) in trials.iter().zip(outcomes) {
        for (way, moved) in [(Way::NonCacheable, plain), (Way::Cacheable, cacheable)] {
            let loss = 1.0 - moved.work as f64 / still.work as f64;
            let pages = moved.migrations as f64 * f64::from(trial.group_pages);
            variants.push(Variant {
                what: trial.what.clone(),
                way,
                reached_per_s: moved.migrations as f64 / moved.seconds,
                pages_per_s: pages / moved.seconds,
                copy_ns: moved.copy_ns,
                migration_ns: moved.migration_ns,
                refused_each: moved.refused as f64 / moved.migrations.max(1) as f64,
                loss,
                lost_ns_per_page: (pages > 0.0).then(|| loss * moved.seconds * 1e9 / pages),
                still_work_ratio: still.work as f64 / base,
            });
        }
    }
    Ok(Report {
        schema: "ample.hw-sweep/1",
        params: params.clone(),
        variants,
    })
}
