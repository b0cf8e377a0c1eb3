// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps over the migration hardware: table sizes, slices, hash functions, parallel slices, and
//! where the table is looked up. A memcached-like server runs on all cores.

use super::Service;
use super::traffic::{self, Way};
use crate::protocol::SliceHash;
use crate::timed::{BadParams, MemoryParams};
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Table sizes to try.
    pub table_entries: Vec<u8>,
    /// Slice counts to try, with the capacity of the whole last level kept.
    pub slices: Vec<u8>,
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
    /// Copying alone, mean; absent when no migration ended.
    pub copy_ns: Option<f64>,
    /// Throughput against the same machine without migrations.
    pub loss: f64,
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

fn variants(params: &Params) -> Vec<(String, MemoryParams)> {
    let base = MemoryParams::table1();
    let with = |what: String, change: &dyn Fn(&mut MemoryParams)| {
        let mut memory = base;
        change(&mut memory);
        (what, memory)
    };
    let mut all = vec![with("table 1".into(), &|_| {})];
    for &n in &params.table_entries {
        all.push(with(format!("{n} table entries"), &|m| {
            m.engine.table_entries = n
        }));
    }
    for &n in &params.slices {
        all.push(with(format!("{n} slices"), &|m| {
            m.slices = n;
            m.llc_slice.size_bytes = (16 << 20) / u32::from(n.max(1));
        }));
    }
    for hash in [
        SliceHash::Modulo,
        SliceHash::XorFold,
        SliceHash::Multiplicative,
        SliceHash::Page,
    ] {
        all.push(with(format!("hash {hash:?}"), &|m| m.hash = hash));
    }
    all.push(with("parallel slices".into(), &|m| {
        m.engine.parallel_slices = true
    }));
    all.push(with("no announcement".into(), &|m| {
        m.engine.announce = false
    }));
    all.push(with("table look-up in series, 1 cycle".into(), &|m| {
        m.engine.table_cycles = 1
    }));
    all.push(with("table look-up in series, 2 cycles".into(), &|m| {
        m.engine.table_cycles = 2
    }));
    all
}

/// Runs it.
///
/// # Errors
/// When a variant cannot be built, or a load returned a wrong value.
pub fn run(params: &Params) -> Result<Report, BadParams> {
    let mut report = Vec::new();
    let mut base_work = None;
    for (what, memory) in variants(params) {
        let traffic = traffic::Params {
            services: vec![Service::Memcached],
            rates_per_s: vec![params.rate_per_s],
            simulated_ms: params.simulated_ms,
            seeds: vec![params.seed],
            memory,
            ..traffic::Params::default()
        };
        let go = |way| {
            traffic::simulate(
                &traffic,
                Service::Memcached,
                way,
                params.rate_per_s,
                params.seed,
            )
        };
        let still = go(None)?;
        let base = *base_work.get_or_insert(still.work);
        for way in [Way::NonCacheable, Way::Cacheable] {
            let moved = go(Some(way))?;
            report.push(Variant {
                what: what.clone(),
                way,
                reached_per_s: moved.migrations as f64 / moved.seconds,
                copy_ns: moved.copy_ns,
                loss: 1.0 - moved.work as f64 / still.work as f64,
                still_work_ratio: still.work as f64 / base as f64,
            });
        }
    }
    Ok(Report {
        schema: "ample.hw-sweep/1",
        params: params.clone(),
        variants: report,
    })
}
