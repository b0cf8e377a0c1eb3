// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much each headline of the server model hangs on each number that was fitted: all workloads
//! again with one of them smaller, and again with it greater.

use super::campaign::{Group, campaign_of, policies, workloads};
use super::{ServerExperiment, ServerParams, Spread, steady};
use crate::charts::tornado;
use crate::experiment::{About, Experiment, Figure, Outcome, Progress};
use ample_mm::{PolicyKind, RunResult, Sample, Workload};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// A change is to `1 / FACTOR` and to `FACTOR` of what was fitted.
pub(crate) const FACTOR: f64 = 1.25;

/// A kind of number of a workload that was fitted on stock Linux, and how a factor changes it.
pub(crate) type Fitted = (&'static str, fn(&mut Workload, f64));

/// All of them, in the order of `docs/server-model.md`.
pub(crate) const FITTED: [Fitted; 10] = [
    ("kernel memory", |w, f| *w = w.clone().with_kernel(f, 1.0)),
    ("height of bursts", |w, f| {
        *w = w.clone().with_kernel(1.0, f)
    }),
    ("length of bursts", |w, f| {
        w.kernel.iter_mut().for_each(|s| s.burst_s *= f)
    }),
    ("height of waves", |w, f| {
        w.kernel
            .iter_mut()
            .for_each(|s| s.wave_ratio = (s.wave_ratio * f).min(1.0));
    }),
    ("churn of kernel memory", |w, f| {
        w.kernel.iter_mut().for_each(|s| s.churn_per_hour *= f)
    }),
    ("churn of user memory", |w, f| {
        w.process.iter_mut().for_each(|p| p.churn_per_hour *= f)
    }),
    ("time between restarts", |w, f| {
        w.process.iter_mut().for_each(|p| p.restart_s *= f)
    }),
    ("faults of 2 MB", |w, f| {
        w.process
            .iter_mut()
            .for_each(|p| p.huge_ratio = (p.huge_ratio * f).min(1.0));
    }),
    ("files read", |w, f| w.cache.read_per_hour *= f),
    ("files deleted", |w, f| w.cache.drop_per_hour *= f),
];

/// A quantity of the samples of a run.
type Metric = fn(&Sample) -> f64;

/// The headlines: what they are called, and where they are in a sample.
const HEADLINES: [(&str, Metric); 4] = [
    ("unmovable pages", |s| s.unmovable_page_ratio),
    ("unmovable 2 MB blocks", |s| s.unmovable_2m_ratio),
    ("free inside them", |s| s.internal_fragmentation_ratio),
    ("1 GB blocks possible", |s| s.potential_1g_ratio),
];

/// A headline under a policy, and what a fitted number changes of it; means over the workloads,
/// spreads over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SensitivityRow {
    pub policy: PolicyKind,
    /// The headline that changes: a share of pages, of blocks or of memory.
    pub quantity: String,
    /// The number of the workloads that changes.
    pub fitted: String,
    /// The headline as fitted.
    pub value: Spread,
    /// With the number ÷ 1.25, less that, of the same seed.
    pub less: Spread,
    /// With the number × 1.25, less that, of the same seed.
    pub more: Spread,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SensitivityReport {
    /// The experiment as declared.
    pub experiment: ServerExperiment,
    /// Policy by headline by number.
    pub rows: Vec<SensitivityRow>,
}

/// The server model's headlines with each fitted number changed.
pub struct FittedNumbers;

impl Experiment for FittedNumbers {
    type Parameters = ServerParams;
    type Outcome = SensitivityReport;

    fn run(params: &ServerParams, progress: Progress<'_>) -> Result<SensitivityReport> {
        let fitted = workloads(params)?;
        ensure!(
            !params.policies.is_empty(),
            "no policy given; an experiment needs at least one"
        );
        let mut all = fitted.clone();
        for (_, scale) in &FITTED {
            for factor in [1.0 / FACTOR, FACTOR] {
                all.extend(fitted.iter().cloned().map(|mut workload| {
                    scale(&mut workload, factor);
                    workload
                }));
            }
        }
        let groups = campaign_of(params, &all, &policies(params), progress)?;
        // An early end leaves out groups, and with them the places of those that follow.
        let whole = groups.len() == all.len() * params.policies.len();
        let rows = if whole { rows(params, &groups) } else { vec![] };
        Ok(SensitivityReport {
            rows,
            experiment: ServerExperiment::of(params),
        })
    }
}

fn rows(params: &ServerParams, groups: &[Group]) -> Vec<SensitivityRow> {
    let mut rows = Vec::new();
    let per_change = params.workloads.len() * params.policies.len();
    for (place, &policy) in params.policies.iter().enumerate() {
        for (quantity, metric) in HEADLINES {
            // Change 0 is none; then two of each number.
            let seeds = |change: usize| {
                let own = groups[change * per_change..(change + 1) * per_change].iter();
                let own = own.filter(|group| group.policy_index == place);
                over_workloads(&own.collect::<Vec<_>>(), metric)
            };
            let value = seeds(0);
            let against = |change: usize| {
                let pairs = seeds(change).into_iter().zip(&value);
                Spread::of(pairs.map(|(changed, fitted)| changed - fitted))
            };
            rows.extend(
                FITTED
                    .iter()
                    .enumerate()
                    .map(|(index, (name, _))| SensitivityRow {
                        policy,
                        quantity: quantity.into(),
                        fitted: (*name).into(),
                        value: Spread::of(value.iter().copied()),
                        less: against(1 + 2 * index),
                        more: against(2 + 2 * index),
                    }),
            );
        }
    }
    rows
}

/// The mean over workloads of the steady state of a metric, for each seed.
fn over_workloads(groups: &[&Group], metric: Metric) -> Vec<f64> {
    let seeds = groups.iter().map(|group| group.runs.len()).min();
    let mean = |seed: usize| {
        let runs = groups.iter().map(|group| &group.runs[seed]);
        let sum: f64 = runs.map(|run: &RunResult| steady(run, metric)).sum();
        sum / groups.len() as f64
    };
    (0..seeds.unwrap_or(0)).map(mean).collect()
}

impl Outcome for SensitivityReport {
    const SCHEMA: &'static str = "ample.server-sensitivity/1";

    fn declare(&mut self, about: &About) {
        self.experiment.declare(about);
    }

    fn head(&self) -> Option<String> {
        let each = "each fitted number ÷ 1.25 and × 1.25; changes against the same seed";
        Some(format!("{}{each}\n", self.experiment.head()?))
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for &policy in &self.experiment.params.policies {
            for (quantity, _) in HEADLINES {
                let own = (self.rows.iter())
                    .filter(|row| row.policy == policy && row.quantity == quantity)
                    .map(|row| (&row.fitted[..], row.value, row.less, row.more));
                let title = format!("{}: {quantity}, by what was fitted", policy.name());
                let name = format!("{}-{}", policy.name(), quantity.replace(' ', "-"));
                figures.extend(tornado(&name, &title, own));
            }
        }
        figures
    }
}
