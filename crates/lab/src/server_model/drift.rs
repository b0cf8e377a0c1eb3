// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether unmovable blocks stay where they are after the first hour: the two halves of a long run
//! beside each other, by workload and over all of them.

use super::campaign::{Group, campaign, policies};
use super::{ServerExperiment, ServerParams, Spread};
use crate::charts::{bar_figure, of_spread};
use crate::experiment::{About, Experiment, Figure, Outcome, Progress};
use ample_mm::{PolicyKind, RunResult};
use ample_report::Unit;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// Samples before are the rise, which the paper's servers have in their first hour, too.
const RISE_S: f64 = 3600.0;
/// Name of the mean over workloads.
const ALL: &str = "mean";

/// A workload, or the mean of them, under a policy. Ratios are 2 MB blocks with an unmovable page
/// (O) ÷ all of them; spreads are over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriftRow {
    /// Name of the workload, or `mean`.
    pub workload: String,
    /// Policy it ran under.
    pub policy: PolicyKind,
    /// From the end of the first hour to the middle of the run.
    pub first_half: Spread,
    /// From the middle on.
    pub second_half: Spread,
    /// The second less the first of the same seed, in points of memory.
    pub drift_points: Spread,
}

/// The drift by policy and workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriftReport {
    /// The experiment as declared.
    pub experiment: ServerExperiment,
    /// Policy by workload, the mean last.
    pub rows: Vec<DriftRow>,
}

/// The course of a day.
pub struct Drift;

impl Experiment for Drift {
    type Parameters = ServerParams;
    type Outcome = DriftReport;

    fn run(params: &ServerParams, progress: Progress<'_>) -> Result<DriftReport> {
        let least_s = 4.0 * RISE_S;
        ensure!(
            params.duration_s >= least_s && params.sample_every_s <= RISE_S,
            "duration_s is {} and sample_every_s {}, but a drift needs at least {least_s} and a \
             sample each {RISE_S}",
            params.duration_s,
            params.sample_every_s
        );
        let groups = campaign(params, &policies(params), progress)?;
        let mut rows = Vec::new();
        for (place, &policy) in params.policies.iter().enumerate() {
            let own = groups.iter().filter(|group| group.policy_index == place);
            rows.extend(rows_of(policy, &own.collect::<Vec<_>>()));
        }
        Ok(DriftReport {
            experiment: ServerExperiment::of(params),
            rows,
        })
    }
}

/// The means of both halves.
fn halves(run: &RunResult) -> [f64; 2] {
    let middle_s = run.samples.last().map_or(0.0, |sample| sample.time_s) / 2.0;
    let mean = |from_s: f64, until_s: f64| {
        let within = |time_s| time_s > from_s && time_s <= until_s;
        let samples = run.samples.iter().filter(|sample| within(sample.time_s));
        Spread::of(samples.map(|sample| sample.unmovable_2m_ratio)).mean
    };
    [mean(RISE_S, middle_s), mean(middle_s, f64::INFINITY)]
}

fn rows_of(policy: PolicyKind, groups: &[&Group]) -> Vec<DriftRow> {
    let row = |workload: &str, halves: &[[f64; 2]]| DriftRow {
        workload: workload.to_string(),
        policy,
        first_half: Spread::of(halves.iter().map(|half| half[0])),
        second_half: Spread::of(halves.iter().map(|half| half[1])),
        drift_points: Spread::of(halves.iter().map(|half| 100.0 * (half[1] - half[0]))),
    };
    let mut rows = Vec::new();
    let mut sums: Vec<[f64; 2]> = Vec::new();
    for group in groups {
        let seeds: Vec<[f64; 2]> = group.runs.iter().map(halves).collect();
        sums.resize(seeds.len(), [0.0; 2]);
        for (sum, half) in sums.iter_mut().zip(&seeds) {
            *sum = [sum[0] + half[0], sum[1] + half[1]];
        }
        rows.push(row(&group.workload, &seeds));
    }
    if !groups.is_empty() {
        let count = groups.len() as f64;
        let means: Vec<[f64; 2]> = sums
            .iter()
            .map(|sum| sum.map(|half| half / count))
            .collect();
        rows.push(row(ALL, &means));
    }
    rows
}

impl Outcome for DriftReport {
    const SCHEMA: &'static str = "ample.drift/1";

    fn declare(&mut self, about: &About) {
        self.experiment.declare(about);
    }

    fn head(&self) -> Option<String> {
        Some(format!(
            "{}after the first hour: both halves of each run, and their difference by seed\n",
            self.experiment.head()?
        ))
    }

    fn figures(&self) -> Vec<Figure> {
        let bars = self.rows.iter().flat_map(|row| {
            let group = format!("{}, {}", row.workload, row.policy.name());
            [
                ("first half", &row.first_half),
                ("second half", &row.second_half),
            ]
            .map(|(half, spread)| (group.clone(), half, of_spread(spread, None)))
        });
        let title = "Unmovable 2 MB blocks, halves of a day";
        bar_figure("halves", title, Unit::Percent, bars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> ServerParams {
        ServerParams {
            memory_bytes: 64 << 20,
            duration_s: 4.0 * RISE_S,
            sample_every_s: 900.0,
            seeds: vec![1, 2],
            event_ratio: 0.1,
            workloads: vec!["web".into(), "ci".into()],
            policies: vec![PolicyKind::Linux],
            ..ServerParams::default()
        }
    }

    #[test]
    fn halves_are_of_the_samples_after_the_first_hour() {
        let groups = campaign(&params(), &policies(&params()), &|_| {}).expect("two groups");
        let run = &groups[0].runs[0];
        let ratio = |at: usize| run.samples[at].unmovable_2m_ratio;
        let times: Vec<f64> = run.samples.iter().map(|sample| sample.time_s).collect();
        let of = |from: f64, until: f64| {
            let own: Vec<f64> = (0..times.len())
                .filter(|&at| times[at] > from && times[at] <= until)
                .map(ratio)
                .collect();
            assert!(own.len() >= 4, "{times:?}");
            own.iter().sum::<f64>() / own.len() as f64
        };
        let [first, second] = halves(run);
        assert!((first - of(3600.0, 7200.0)).abs() < 1e-12);
        assert!((second - of(7200.0, 1e9)).abs() < 1e-12);
    }

    #[test]
    fn the_mean_of_workloads_is_taken_seed_by_seed() {
        let report = Drift::run(&params(), &|_| {}).expect("a report");
        let [web, ci, all] = &report.rows[..] else {
            panic!("{:?}", report.rows);
        };
        assert_eq!([&all.workload[..], &web.workload[..]], [ALL, "web"]);
        let mean = (web.drift_points.mean + ci.drift_points.mean) / 2.0;
        assert!((all.drift_points.mean - mean).abs() < 1e-9);
        assert!(all.drift_points.sd > 0.0 && all.drift_points.n == 2);
    }

    #[test]
    fn runs_that_are_too_short_to_drift_are_refused() {
        let short = ServerParams {
            duration_s: 3600.0,
            ..params()
        };
        let error = Drift::run(&short, &|_| {}).expect_err("short");
        assert!(error.to_string().contains("14400"), "{error}");
    }
}
