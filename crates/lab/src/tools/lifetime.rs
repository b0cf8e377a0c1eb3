// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether it pays to predict lifetimes by allocation site (`ample-malloc lifetimes`): what the
//! prediction is worth in memory and hugepages, beside a prediction by size and an oracle.

use super::written_by;
use crate::charts::{bar_figure, plain};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::needs::source_tree;
use crate::progress::Steps;
use ample_report::Unit;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Recordings and what is learned from them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifetimeParams {
    /// Recordings, below the root of the source tree.
    pub folder: String,
    /// At most so many thousand calls of each recording.
    pub kcalls: u32,
    /// An object is short-lived if it is freed before so much more is allocated, in percent of the
    /// most memory in use in training.
    pub short_percents: Vec<u32>,
    /// A place makes short-lived objects if so much of its memory was, percent.
    pub sure_percent: u32,
}

/// One way to place the objects of a program, as `ample-malloc` gives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LifetimeRun {
    /// Program that was recorded.
    pub program: String,
    /// `none`, `size`, `site` or `oracle`.
    pub predictor: String,
    /// What short-lived objects have of their own: `nothing`, `spans` or `hugepages`.
    pub apart: String,
    /// Places in the code that allocate small objects.
    pub sites: u32,
    /// Memory asked for at places that training saw ÷ all.
    pub seen: f64,
    /// Short-lived memory ÷ all.
    pub short: f64,
    /// Of what is called short-lived, what was.
    pub precision: Option<f64>,
    /// Of what was short-lived, what is called so.
    pub recall: f64,
    /// Most memory that the program had, MiB.
    pub peak_live_mib: f64,
    /// Most memory behind the heap ÷ that.
    pub peak_backed: f64,
    /// Memory behind the heap ÷ what the program had, over the run.
    pub mean_backed: f64,
    /// What the program had on whole hugepages ÷ all that it had, over the run.
    pub coverage: f64,
    /// What the program had at the end ÷ at its peak.
    pub end_live: f64,
    /// Memory behind the heap ÷ what the program had, 20 s after the end.
    pub end_backed: Option<f64>,
    /// What it had on whole hugepages ÷ all, 20 s after the end.
    pub end_coverage: Option<f64>,
}

#[derive(Default, Deserialize)]
struct LifetimeRuns {
    rows: Vec<LifetimeRun>,
}

/// A program, or the geometric mean of all; ratios are memory behind the heap ÷ that of the shipped
/// allocator, with short-lived objects on hugepages of their own unless it says spans.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LifetimeRow {
    /// Program, or `geometric mean`.
    pub program: String,
    /// What counts as short-lived: [`LifetimeParams::short_percents`].
    pub short_percent: u32,
    /// Short-lived memory ÷ all.
    pub short: Option<f64>,
    /// Memory asked for at places that training saw ÷ all.
    pub seen: Option<f64>,
    /// Of what is called short-lived by site, what was.
    pub precision: Option<f64>,
    /// Of what was short-lived, what is called so by site.
    pub recall: Option<f64>,
    /// Memory behind the shipped heap ÷ what the program had, over the run.
    pub shipped: Option<f64>,
    /// By size.
    pub size: f64,
    /// By site, spans apart.
    pub site_spans: f64,
    /// By site.
    pub site: f64,
    /// By the oracle.
    pub oracle: f64,
    /// Memory on whole hugepages of the shipped heap ÷ all, over the run.
    pub shipped_coverage: Option<f64>,
    /// The same by site.
    pub site_coverage: Option<f64>,
    /// 20 s after the end, by site.
    pub end_site: Option<f64>,
    /// 20 s after the end, by the oracle.
    pub end_oracle: Option<f64>,
}

/// What prediction is worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LifetimeReport {
    /// By what counts as short-lived, then by program, the mean last.
    pub rows: Vec<LifetimeRow>,
    /// Each way, for the first of [`LifetimeParams::short_percents`].
    pub runs: Vec<LifetimeRun>,
}

/// Lifetime prediction.
pub struct Lifetime;

impl Experiment for Lifetime {
    type Parameters = LifetimeParams;
    type Outcome = LifetimeReport;

    fn run(params: &LifetimeParams, progress: Progress<'_>) -> Result<LifetimeReport> {
        let root = source_tree().context("the recordings lie in the source tree")?;
        let folder = root.join(&params.folder);
        let folder = folder.to_str().context("the folder's name is no text")?;
        let steps = Steps::new(progress, params.short_percents.len());
        let (mut rows, mut runs) = (Vec::new(), Vec::new());
        for &percent in &params.short_percents {
            let numbers = [params.kcalls, percent, params.sure_percent].map(|n| n.to_string());
            let [kcalls, short, sure] = &numbers;
            let args = [
                "lifetimes",
                folder,
                "--kcalls",
                kcalls,
                "--short-percent",
                short,
                "--sure-percent",
                sure,
            ];
            let told: LifetimeRuns = written_by("ample-malloc", &args, 0)?;
            rows.extend(compared(&told.rows, percent)?);
            if runs.is_empty() {
                runs = told.rows;
            }
            steps.step();
        }
        Ok(LifetimeReport { rows, runs })
    }
}

/// A row for each program, and their mean.
fn compared(runs: &[LifetimeRun], short_percent: u32) -> Result<Vec<LifetimeRow>> {
    let mut rows = Vec::new();
    for shipped in runs.iter().filter(|run| run.predictor == "none") {
        let way = |predictor: &str, apart: &str| {
            let is_it = |run: &&LifetimeRun| {
                (&run.program, &*run.predictor, &*run.apart) == (&shipped.program, predictor, apart)
            };
            let told = || format!("{}: no run by {predictor}, {apart}", shipped.program);
            runs.iter().find(is_it).with_context(told)
        };
        let site = way("site", "hugepages")?;
        let oracle = way("oracle", "hugepages")?;
        let ratio = |run: &LifetimeRun| run.mean_backed / shipped.mean_backed;
        let end = |run: &LifetimeRun| Some(run.end_backed? / shipped.end_backed?);
        rows.push(LifetimeRow {
            program: shipped.program.clone(),
            short_percent,
            short: Some(site.short),
            seen: Some(site.seen),
            precision: site.precision,
            recall: Some(site.recall),
            shipped: Some(shipped.mean_backed),
            size: ratio(way("size", "hugepages")?),
            site_spans: ratio(way("site", "spans")?),
            site: ratio(site),
            oracle: ratio(oracle),
            shipped_coverage: Some(shipped.coverage),
            site_coverage: Some(site.coverage),
            end_site: end(site),
            end_oracle: end(oracle),
        });
    }
    let mean = |value: fn(&LifetimeRow) -> Option<f64>| {
        let logs: Vec<f64> = rows.iter().filter_map(value).map(f64::ln).collect();
        ample_kit::statistics::mean(logs).map(f64::exp)
    };
    let of_all = |value: fn(&LifetimeRow) -> Option<f64>| mean(value).unwrap_or(f64::NAN);
    let last = LifetimeRow {
        program: "geometric mean".into(),
        short_percent,
        size: of_all(|row| Some(row.size)),
        site_spans: of_all(|row| Some(row.site_spans)),
        site: of_all(|row| Some(row.site)),
        oracle: of_all(|row| Some(row.oracle)),
        end_site: mean(|row| row.end_site),
        end_oracle: mean(|row| row.end_oracle),
        ..LifetimeRow::default()
    };
    if !rows.is_empty() {
        rows.push(last);
    }
    Ok(rows)
}

impl Outcome for LifetimeReport {
    const SCHEMA: &'static str = "ample.lifetime/1";

    fn figures(&self) -> Vec<Figure> {
        let first = self.rows.first().map(|row| row.short_percent);
        let rows = self
            .rows
            .iter()
            .filter(|row| Some(row.short_percent) == first);
        let bars = rows.flat_map(|row| {
            [
                ("by size", row.size),
                ("by site", row.site),
                ("oracle", row.oracle),
            ]
            .map(|(who, ratio)| (&row.program, who, plain(ratio - 1.0)))
        });
        let title = "Memory held, short-lived objects apart, against the shipped allocator";
        bar_figure("lifetime", title, Unit::Percent, bars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(predictor: &str, apart: &str, mean_backed: f64) -> LifetimeRun {
        LifetimeRun {
            program: "toy".into(),
            predictor: predictor.into(),
            apart: apart.into(),
            sites: 2,
            seen: 1.0,
            short: 0.5,
            precision: Some(0.9),
            recall: 0.8,
            peak_live_mib: 1.0,
            peak_backed: 1.0,
            mean_backed,
            coverage: 1.0,
            end_live: 0.0,
            end_backed: None,
            end_coverage: None,
        }
    }

    #[test]
    fn ratios_are_to_the_shipped_allocator_and_a_missing_way_is_an_error() {
        let mut runs = vec![
            run("none", "nothing", 2.0),
            run("size", "hugepages", 2.2),
            run("site", "spans", 2.0),
            run("site", "hugepages", 1.8),
            run("oracle", "hugepages", 1.0),
        ];
        let rows = compared(&runs, 25).expect("all ways");
        assert_eq!(rows.len(), 2);
        for row in &rows {
            assert!((row.site - 0.9).abs() < 1e-9 && (row.oracle - 0.5).abs() < 1e-9);
            assert_eq!(row.end_site, None);
        }
        assert_eq!(compared(&[], 25).expect("nothing to compare"), []);
        runs.pop();
        assert!(compared(&runs, 25).is_err());
    }
}
