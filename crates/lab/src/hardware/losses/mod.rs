// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas §5.3, performance at 100 and 1,000 migrations a second.
//!
//! At such rates a run long enough to see a loss of a tenth of a per cent would take hours, and
//! all but a thousandth of it would be spent between migrations. Instead one run without
//! migrations is followed for a long time. At random moments it is cloned: one clone for each
//! mover migrates one buffer page, the run itself does not, and both go on for a window. The
//! difference in work is the loss of one migration; rate times that is the loss at the rate, as
//! long as windows do not overlap (at 1,000/s they are a tenth of the time apart).
//!
//! Shown, not assumed: the effect of a migration is over before its window ends (its last third
//! is reported alone, and every migration must have ended); windows start from a past without
//! migrations, and successive ones are not correlated; a clone that loses 50 cycles on one core
//! and does not migrate (the placebo) shows what chance alone does.

mod windows;

use super::stats::{group, mean_of, pairs, parallel, with_ci};
use super::{Service, Way};
use crate::charts::{bar_figure, name_of, with_interval};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_kit::statistics::{lag_1_correlation, mean};
use ample_machine::multi::{MemoryParams, OsParams};
use ample_report::Unit;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use windows::{Event, one_seed};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossParams {
    /// Servers at full load.
    pub services: Vec<Service>,
    /// Ways to move a page; each gets a clone of every window.
    pub ways: Vec<Way>,
    /// Migrations a second for which the loss is given.
    pub rates_per_s: Vec<f64>,
    /// Migrations simulated for each seed.
    pub events: u32,
    /// Time observed after the start of each migration.
    pub window_us: f64,
    /// Simulated before the first window.
    pub warm_up_us: f64,
    /// Seeds; the confidence interval is over their means.
    pub seeds: Vec<u64>,
    /// Cores, caches, DRAM and copy engine.
    #[serde(default = "MemoryParams::table1")]
    pub memory: MemoryParams,
    /// Costs of the operating system.
    #[serde(default)]
    pub os: OsParams,
}

impl LossParams {
    /// What the clones of each window do: one a mover, then the placebo.
    fn futures(&self) -> impl Iterator<Item = Option<Way>> {
        self.ways.iter().copied().map(Some).chain([None])
    }

    fn check(&self) -> Result<()> {
        let lists = [
            self.services.len(),
            self.seeds.len(),
            self.rates_per_s.len(),
        ];
        ensure!(
            !lists.contains(&0),
            "services, seeds, rates_per_s: must not be empty"
        );
        ensure!(
            self.events > 0,
            "events: 0; at least one migration is needed"
        );
        let times = [self.window_us, self.warm_up_us];
        ensure!(
            times.iter().all(|t| (1.0..=1e6).contains(t)),
            "window_us, warm_up_us: must be from 1 to 1,000,000"
        );
        for &rate in &self.rates_per_s {
            ensure!(
                rate > 0.0 && rate * self.window_us <= 1e6,
                "rates_per_s: {rate}: windows of {} µs overlap; see hw-traffic for such rates",
                self.window_us
            );
        }
        Ok(())
    }
}

/// One server and mover; `way` is absent for the placebo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossRow {
    /// Server at full load.
    pub service: Service,
    /// Way to move the page.
    pub way: Option<Way>,
    /// Migrations simulated, over all seeds.
    pub migrations: usize,
    /// Time of the whole machine lost for one migration, mean over the seeds' means.
    pub lost_ns: f64,
    /// Half width of the 95 % confidence interval of `lost_ns` over seeds (Student's t).
    pub lost_ns_ci95: Option<f64>,
    /// The same for the last third of the windows alone: nothing if the effect is over.
    pub late_lost_ns: f64,
    /// See `late_lost_ns`.
    pub late_lost_ns_ci95: Option<f64>,
    /// Correlation of each window's loss with that of the one before, mean over seeds.
    pub lag_1_correlation: f64,
    /// From the start of a migration to the freed source, mean.
    pub migration_ns: Option<f64>,
    /// Core time waited for the page under migration, all cores, mean of a migration.
    pub blocked_ns: f64,
}

/// The loss at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Server at full load.
    pub service: Service,
    /// Way to move the page.
    pub way: Way,
    /// Migrations a second.
    pub rate_per_s: f64,
    /// Loss of throughput.
    pub loss: f64,
    /// Half width of its 95 % confidence interval.
    pub loss_ci95: Option<f64>,
    /// What the paper gives, where it does.
    pub paper_loss: Option<f64>,
}

/// What `hw-losses` gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossReport {
    /// Parameters, seeds among them.
    pub params: LossParams,
    /// Loss at each rate.
    pub losses: Vec<Loss>,
    /// What it comes from.
    pub rows: Vec<LossRow>,
    /// Instructions simulated.
    pub instructions: u64,
}

fn row(service: Service, way: Option<Way>, place: usize, seeds: &[Vec<Vec<Event>>]) -> LossRow {
    let per_seed = |f: &dyn Fn(&Event) -> f64| -> Vec<Vec<f64>> {
        let events = |seed: &Vec<Vec<Event>>| seed.iter().map(|e| f(&e[place])).collect();
        seeds.iter().map(events).collect()
    };
    let over_seeds = |values: &[Vec<f64>]| {
        let means: Vec<f64> = values.iter().map(|v| mean_of(v, |v| *v)).collect();
        with_ci(&means)
    };
    let lost = per_seed(&|e| e.lost_ns);
    let (lost_ns, lost_ns_ci95) = over_seeds(&lost);
    let (late_lost_ns, late_lost_ns_ci95) = over_seeds(&per_seed(&|e| e.late_lost_ns));
    let events = || seeds.iter().flatten().map(|events| events[place]);
    LossRow {
        service,
        way,
        migrations: match way {
            Some(_) => seeds.iter().map(Vec::len).sum(),
            None => 0,
        },
        lost_ns,
        lost_ns_ci95,
        late_lost_ns,
        late_lost_ns_ci95,
        lag_1_correlation: mean_of(&lost, |v| lag_1_correlation(v)),
        migration_ns: mean(events().filter_map(|e| e.migration_ns)),
        blocked_ns: mean(events().map(|e| e.blocked_ns)).unwrap_or(0.0),
    }
}

/// Contiguitas §5.3: nothing at 100/s; at 1,000/s 0.2 % (NGINX) and 0.3 % (memcached) without
/// caching, nothing with.
fn paper(service: Service, way: Way, rate_per_s: f64) -> Option<f64> {
    match (way, service, rate_per_s) {
        (Way::NonCacheable | Way::Cacheable, _, 100.0) => Some(0.0),
        (Way::Cacheable, _, 1000.0) => Some(0.0),
        (Way::NonCacheable, Service::Nginx, 1000.0) => Some(0.002),
        (Way::NonCacheable, Service::Memcached, 1000.0) => Some(0.003),
        _ => None,
    }
}

/// Loss at the paper’s rates of migrations.
pub struct Losses;

impl Experiment for Losses {
    type Parameters = LossParams;
    type Outcome = LossReport;

    fn run(params: &LossParams, progress: Progress<'_>) -> Result<LossReport> {
        params.check()?;
        let jobs = pairs(&params.services, &params.seeds);
        let results = parallel(&jobs, progress, |&(service, seed)| {
            one_seed(params, service, seed)
        })?;
        let instructions = results.iter().flatten().map(|r| r.1).sum();
        let (mut rows, mut losses) = (Vec::new(), Vec::new());
        let services = params.services.iter();
        for (&service, seeds) in services.zip(results.chunks(params.seeds.len())) {
            let seeds = seeds.iter().map(|r| Some(r.as_ref()?.0.clone()));
            let Some(seeds) = seeds.collect::<Option<Vec<_>>>() else {
                continue;
            };
            for (place, way) in params.futures().enumerate() {
                let row = row(service, way, place, &seeds);
                for &rate_per_s in &params.rates_per_s {
                    losses.extend(way.map(|way| Loss {
                        service,
                        way,
                        rate_per_s,
                        loss: row.lost_ns * rate_per_s * 1e-9,
                        loss_ci95: row.lost_ns_ci95.map(|half| half * rate_per_s * 1e-9),
                        paper_loss: paper(service, way, rate_per_s),
                    }));
                }
                rows.push(row);
            }
        }
        Ok(LossReport {
            params: params.clone(),
            losses,
            rows,
            instructions,
        })
    }
}

impl Outcome for LossReport {
    const SCHEMA: &'static str = "ample.hw-losses/1";

    fn figures(&self) -> Vec<Figure> {
        let bar = |row: &Loss| {
            let bar = with_interval(row.loss, row.loss_ci95, row.paper_loss);
            (group(row.service, row.rate_per_s), name_of(&row.way), bar)
        };
        let title = "Throughput lost at the paper’s rates of migrations";
        bar_figure("losses", title, Unit::Percent, self.losses.iter().map(bar))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> LossParams {
        LossParams {
            services: vec![Service::Memcached],
            ways: vec![Way::NonCacheable, Way::Software],
            window_us: 130.0,
            ..crate::shipped_parameters("hw-losses", true).expect("shipped")
        }
    }

    #[test]
    fn same_bytes_with_any_number_of_threads() {
        let run_on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let report = pool
                .expect("threads")
                .install(|| Losses::run(&small(), &|_| {}));
            format!("{:?}", report.expect("runs"))
        };
        assert_eq!(run_on(1), run_on(3));
    }

    #[test]
    fn overlapping_windows_are_refused() {
        let mut params = small();
        params.rates_per_s = vec![1e5];
        let error = Losses::run(&params, &|_| {}).unwrap_err().to_string();
        assert!(error.contains("overlap"), "{error}");
        params.rates_per_s = vec![100.0];
        params.window_us = 5.0;
        let error = Losses::run(&params, &|_| {}).unwrap_err().to_string();
        assert!(error.contains("had not ended"), "{error}");
    }
}
