// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the first third of a recorded kernel predicts of the rest: the fit behind
//! `ample whatif --record`, checked on recordings.

use super::recorded_kernel::recordings;
use crate::experiment::{Experiment, Outcome, Progress};
use crate::needs::source_tree;
use crate::progress::Steps;
use crate::stop;
use crate::whatif::recording::ends;
use ample_host::snapshot;
use ample_kit::statistics::MedianRange;
use ample_mm::PolicyKind;
use ample_mm::replay::{KernelReplay, ReplayOptions, Start};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which recordings, and how much of each is seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForesightParams {
    /// Folder of the recordings, pairs of `NAME.trace.zst` and `NAME.snap`; relative to the source
    /// tree. A name that begins with `ample-` is of the kernel with Contiguitas.
    pub folder: PathBuf,
    /// Share of a recording that the load is fitted to.
    pub seen_ratio: f64,
    /// Runs of the model for each recording.
    pub seeds: u64,
}

/// One recording. Ratios are of 2 MB blocks with an unmovable page (O).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForesightRow {
    /// File name without endings.
    pub recording: String,
    /// Seconds that the load was fitted to.
    pub seen_s: f64,
    /// Seconds predicted.
    pub predicted_s: f64,
    /// Found at the end of what was seen: what a prediction that nothing changes would say.
    pub seen_end_ratio: f64,
    /// Predicted for the end of the recording.
    pub predicted_end_ratio: MedianRange,
    /// Found there.
    pub found_end_ratio: f64,
    /// Points between the median predicted and what was found.
    pub missed_by_points: f64,
    /// Points by which "nothing changes" misses.
    pub unchanged_misses_by_points: f64,
}

/// What was predicted and found, by recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForesightReport {
    /// What was run.
    pub parameters: ForesightParams,
    /// Recordings by name.
    pub rows: Vec<ForesightRow>,
}

/// The prediction of recorded kernels.
pub struct Foresight;

impl Experiment for Foresight {
    type Parameters = ForesightParams;
    type Outcome = ForesightReport;

    fn run(parameters: &ForesightParams, progress: Progress<'_>) -> Result<ForesightReport> {
        let seen = parameters.seen_ratio;
        ensure!(
            seen > 0.0 && seen < 1.0,
            "seen_ratio is {seen}; give a share between 0 and 1"
        );
        let root = source_tree().context("not in the source tree")?;
        let paths = recordings(&root.join(&parameters.folder))?;
        let steps = Steps::new(progress, paths.len());
        let mut rows = Vec::new();
        for path in &paths {
            let row = stop::until_stopped(|| row(parameters, path));
            rows.extend(row.transpose()?);
            steps.step();
        }
        Ok(ForesightReport {
            parameters: parameters.clone(),
            rows,
        })
    }
}

fn row(parameters: &ForesightParams, path: &Path) -> Result<ForesightRow> {
    let name = path
        .file_name()
        .map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let replay = KernelReplay::open(&path.with_extension("trace.zst"), ReplayOptions::default())?;
    let scan = snapshot::read(&path.with_extension("snap"))?;
    let start = Start::new(scan.layout, scan.pages.expand())?;
    let seen = replay.seen_so_far(&start, parameters.seen_ratio)?;
    let found = replay.seen_so_far(&start, 1.0)?.kernel.unmovable_2m_ratio;
    let predicted_s = replay.survey().duration_ns() as f64 / 1e9 - seen.observed.seconds;
    let policy = match name.starts_with("ample-") {
        true => PolicyKind::Contiguitas,
        false => PolicyKind::Linux,
    };
    let ends = ends(
        (seen.pages.layout(), seen.pages.classes()),
        &seen.observed.fit(&name),
        policy,
        predicted_s,
        parameters.seeds,
    )?;
    let ratios = ends.iter().map(|end| end.unmovable_2m_ratio).collect();
    let predicted = MedianRange::of(ratios).context("seeds is 0; give at least 1")?;
    let before = seen.kernel.unmovable_2m_ratio;
    Ok(ForesightRow {
        recording: name,
        seen_s: seen.observed.seconds,
        predicted_s,
        seen_end_ratio: before,
        predicted_end_ratio: predicted,
        found_end_ratio: found,
        missed_by_points: 100.0 * (predicted.median - found).abs(),
        unchanged_misses_by_points: 100.0 * (before - found).abs(),
    })
}

impl Outcome for ForesightReport {
    const SCHEMA: &'static str = "ample.foresight/1";
}
