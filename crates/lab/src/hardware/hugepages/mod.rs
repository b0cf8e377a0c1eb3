// SPDX-License-Identifier: MIT OR Apache-2.0
//! The multi-core of the memory system with the translation hardware of table 1 on each core:
//! what 2 MB pages are worth to a memcached-like server (Contiguitas §5.3: about 7 %), with and
//! without migrations of its network buffers.
//!
//! TLBs and page-walk caches are those of the translation crate, entry for entry; the walker
//! reads page-table lines through the coherent caches. All cores share the page tables. An entry
//! counts as present from the start of its walk, walks of one core may overlap.

mod paged;

use super::stats::{mean_of, pairs, with_ci};
use super::{Requests, Way};
use crate::charts::{bar_figure, with_interval};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::progress::Steps;
use crate::stop;
use ample_report::Unit;
use ample_translate::PageSize;
use anyhow::{Result, ensure};
use paged::{HugePageRun, simulate};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Servers, tables and rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HugePageParams {
    /// Memory that the server looks things up in, GB.
    pub table_gb: Vec<f64>,
    /// What its requests are like: each of these with each table.
    pub servers: Vec<RequestAssumption>,
    /// Migrations of network buffers a second beside it; 0 for none.
    pub rates_per_s: Vec<f64>,
    /// Who moves them.
    pub way: Way,
    /// Simulated before the measured part.
    pub warm_up_us: f64,
    /// Measured after the warm-up.
    pub measured_us: f64,
    /// Seeds; intervals are over them.
    pub seeds: Vec<u64>,
}

impl HugePageParams {
    fn check(&self) -> Result<()> {
        ensure!(!self.seeds.is_empty(), "seeds: at least one is needed");
        let times = [self.warm_up_us, self.measured_us];
        ensure!(
            times.iter().all(|t| (1.0..=1e6).contains(t)),
            "warm_up_us and measured_us must be from 1 to 1,000,000"
        );
        for table_gb in &self.table_gb {
            ensure!(
                (0.001..=32.0).contains(table_gb),
                "table_gb = {table_gb}: must be from 0.001 to 32"
            );
        }
        for &rate_per_s in &self.rates_per_s {
            ensure!(
                (0.0..=1e6).contains(&rate_per_s),
                "rates_per_s: {rate_per_s} is not from 0 to 1,000,000"
            );
            ensure!(
                rate_per_s == 0.0 || rate_per_s * self.measured_us >= 1e6,
                "rates_per_s: at {rate_per_s} not one page moves in {} µs; measure longer",
                self.measured_us
            );
        }
        for server in &self.servers {
            let (name, requests) = (&server.name, &server.requests);
            ensure!(
                (0.0..=2.0).contains(&requests.key_skew),
                "server '{name}': key_skew = {}: must be from 0 to 2",
                requests.key_skew
            );
            ensure!(
                (0.0..=0.95).contains(&requests.kernel_share),
                "server '{name}': kernel_share = {}: must be from 0 to 0.95",
                requests.kernel_share
            );
        }
        Ok(())
    }
}

/// What the requests of a server are like, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestAssumption {
    /// Name in the result.
    pub name: String,
    /// Where it differs from the plain server.
    #[serde(flatten)]
    pub requests: Requests,
}

/// One server, table size and rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HugePageRow {
    /// Name of the server.
    pub server: String,
    /// Memory looked up in.
    pub table_gb: f64,
    /// Migrations a second.
    pub rate_per_s: f64,
    /// Throughput with 2 MB pages over that with 4 KB pages, less 1.
    pub gain: f64,
    /// Half width of its 95 % confidence interval over seeds.
    pub gain_ci95: Option<f64>,
    /// Instructions a cycle and core with 4 KB pages.
    pub ipc_4k: f64,
    /// The same with 2 MB pages.
    pub ipc_2m: f64,
    /// Page walks for a thousand instructions, 4 KB pages.
    pub walks_per_1000_4k: f64,
    /// The same, 2 MB pages.
    pub walks_per_1000_2m: f64,
    /// Page-table lines read for a walk, 4 KB pages.
    pub reads_per_walk_4k: f64,
    /// Cycles of walks ÷ cycles of the cores, 4 KB pages; walks that overlap all count.
    pub walk_cycles_ratio_4k: f64,
    /// The paper's gain.
    pub paper_gain: f64,
}

/// What `hw-hugepages` gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HugePageReport {
    /// HugePageParams, seeds among them.
    pub parameters: HugePageParams,
    /// Each server with each table and rate.
    pub rows: Vec<HugePageRow>,
}

fn row(
    parameters: &HugePageParams,
    server: &RequestAssumption,
    table_gb: f64,
    rate_per_s: f64,
) -> Result<HugePageRow> {
    let jobs = pairs(&parameters.seeds, &[PageSize::K4, PageSize::M2]);
    let one = |&(seed, size): &(u64, PageSize)| {
        let point = (table_gb, rate_per_s);
        simulate(parameters, server.requests, point, seed, size)
    };
    let runs: Vec<HugePageRun> = jobs.par_iter().map(one).collect::<Result<_>>()?;
    let of =
        |place: usize| -> Vec<HugePageRun> { runs.chunks(2).map(|pair| pair[place]).collect() };
    let (small, large) = (of(0), of(1));
    let gains = large.iter().zip(&small).map(|(m, k)| m.ipc / k.ipc - 1.0);
    let (gain, gain_ci95) = with_ci(&gains.collect::<Vec<f64>>());
    Ok(HugePageRow {
        server: server.name.clone(),
        table_gb,
        rate_per_s,
        gain,
        gain_ci95,
        ipc_4k: mean_of(&small, |o| o.ipc),
        ipc_2m: mean_of(&large, |o| o.ipc),
        walks_per_1000_4k: mean_of(&small, |o| o.walks_per_1000),
        walks_per_1000_2m: mean_of(&large, |o| o.walks_per_1000),
        reads_per_walk_4k: mean_of(&small, |o| o.reads_per_walk),
        walk_cycles_ratio_4k: mean_of(&small, |o| o.walk_cycles_ratio),
        paper_gain: 0.07,
    })
}

/// memcached with 2 MB pages gained.
pub struct HugePages;

impl Experiment for HugePages {
    type Parameters = HugePageParams;
    type Outcome = HugePageReport;

    fn run(parameters: &HugePageParams, progress: Progress<'_>) -> Result<HugePageReport> {
        let p = parameters;
        p.check()?;
        let points = p.servers.len() * p.table_gb.len() * p.rates_per_s.len();
        let steps = Steps::new(progress, points);
        let mut rows = Vec::new();
        for server in &p.servers {
            for &table_gb in &p.table_gb {
                for &rate_per_s in &p.rates_per_s {
                    let row = stop::until_stopped(|| row(p, server, table_gb, rate_per_s));
                    rows.extend(row.transpose()?);
                    steps.step();
                }
            }
        }
        Ok(HugePageReport {
            parameters: parameters.clone(),
            rows,
        })
    }
}

impl Outcome for HugePageReport {
    const SCHEMA: &'static str = "ample.hw-hugepages/1";

    fn figures(&self) -> Vec<Figure> {
        let bar = |row: &HugePageRow| {
            let rate = Unit::Count.format(row.rate_per_s);
            let series = format!("{} GB, {rate} migrations/s", row.table_gb);
            let bar = with_interval(row.gain, row.gain_ci95, Some(row.paper_gain));
            (row.server.clone(), series, bar)
        };
        let title = "memcached: throughput gained with 2 MB pages";
        bar_figure("gain", title, Unit::Percent, self.rows.iter().map(bar))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(table_gb: f64) -> HugePageParams {
        HugePageParams {
            table_gb: vec![table_gb],
            servers: vec![RequestAssumption {
                name: "plain".into(),
                requests: Requests::default(),
            }],
            rates_per_s: vec![0.0],
            way: Way::Cacheable,
            // The cores' own data and the buffers are cold at first.
            warm_up_us: 100.0,
            measured_us: 100.0,
            seeds: vec![1],
        }
    }

    #[test]
    fn large_pages_need_fewer_walks_and_never_lose() {
        let report = HugePages::run(&small(0.25), &|_| {}).expect("runs");
        let row = &report.rows[0];
        assert!(
            row.walks_per_1000_4k > 10.0 * row.walks_per_1000_2m,
            "{row:?}"
        );
        assert!(row.gain > 0.0, "{row:?}");
        assert!((1.0..=4.0).contains(&row.reads_per_walk_4k), "{row:?}");
    }

    #[test]
    fn items_in_one_page_and_a_kernel_with_large_pages_leave_less_to_gain() {
        let gain = |requests: Requests| {
            let mut parameters = small(0.25);
            parameters.servers[0].requests = requests;
            let report = HugePages::run(&parameters, &|_| {}).expect("runs");
            report.rows[0].gain
        };
        let plain = Requests::default();
        let gains = [
            gain(plain),
            gain(Requests {
                item_in_one_page: true,
                ..plain
            }),
            gain(Requests {
                kernel_share: 0.7,
                ..plain
            }),
        ];
        assert!(gains[1] < gains[0] && gains[2] < gains[0], "{gains:?}");
        let mut wrong = small(0.25);
        wrong.servers[0].requests.kernel_share = 1.0;
        let error = HugePages::run(&wrong, &|_| {}).unwrap_err().to_string();
        assert!(error.contains("kernel_share"), "{error}");
    }

    #[test]
    fn buffers_move_and_no_load_is_wrong() {
        let mut parameters = small(0.01);
        parameters.rates_per_s = vec![1e5];
        for way in [Way::NonCacheable, Way::Software] {
            parameters.way = way;
            HugePages::run(&parameters, &|_| {}).expect("no wrong value");
        }
        parameters.rates_per_s = vec![1000.0];
        let error = HugePages::run(&parameters, &|_| {})
            .unwrap_err()
            .to_string();
        assert!(error.contains("measure longer"), "{error}");
        parameters.table_gb = vec![-1.0];
        let error = HugePages::run(&parameters, &|_| {}).unwrap_err();
        assert!(error.to_string().contains("table_gb"), "{error}");
    }
}
