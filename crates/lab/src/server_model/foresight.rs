// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the first third of a recorded kernel predicts of the rest: the fit behind
//! `ample whatif --record`, checked on recordings.

use super::recorded_kernel::recordings;
use crate::experiment::{Experiment, Outcome, Progress};
use crate::needs::source_tree;
use crate::progress::Steps;
use crate::stop;
use crate::whatif::recording::{ends, likely_pages, unmovable_2m_ratio};
use ample_host::{Scan, snapshot};
use ample_kit::statistics::MedianRange;
use ample_mm::PolicyKind;
use ample_mm::replay::{KernelReplay, ReplayOptions, Start};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which recordings, and how much of each is seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForesightParams {
    /// Folder of the recordings (`kernel/scripts/course.sh`), relative to the source tree: of each
    /// `NAME.start.snap`, `NAME.third.snap`, `NAME.end.snap` and the events of its first third,
    /// `NAME.trace.zst`. A name that begins with `ample-` is of the kernel with Contiguitas.
    pub folder: PathBuf,
    /// Runs of the model for each recording.
    pub seeds: u64,
}

/// One recording. Ratios are of 2 MB blocks with an unmovable page (K).
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
        let root = source_tree().context("not in the source tree")?;
        let names = recordings(&root.join(&parameters.folder), ".third.snap")?;
        let steps = Steps::new(progress, names.len());
        let mut rows = Vec::new();
        for name in &names {
            let row = stop::until_stopped(|| row(parameters, name));
            rows.extend(row.transpose()?);
            steps.step();
        }
        Ok(ForesightReport {
            parameters: parameters.clone(),
            rows,
        })
    }
}

fn row(parameters: &ForesightParams, path: &str) -> Result<ForesightRow> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let moment = |moment: &str| snapshot::read(Path::new(&format!("{path}.{moment}.snap")));
    let events = format!("{path}.trace.zst");
    let replay = KernelReplay::open(Path::new(&events), ReplayOptions::default())?;
    let start = moment("start")?;
    let observed = replay.observed(&Start::new(start.layout.clone(), likely_pages(&start))?)?;
    let (mut third, mut end) = (moment("third")?, moment("end")?);
    let predicted_s = seconds_between(&third, &end)?;
    let policy = match name.starts_with("ample-") {
        true => PolicyKind::Contiguitas,
        false => PolicyKind::Linux,
    };
    let ends = ends(
        &third,
        &likely_pages(&third),
        &observed.fit(name),
        policy,
        predicted_s,
        parameters.seeds,
    )?;
    let ratios = ends.iter().map(|end| end.unmovable_2m_ratio_k).collect();
    let predicted = MedianRange::of(ratios).context("seeds is 0; give at least 1")?;
    let before = unmovable_2m_ratio(&mut third);
    let found = unmovable_2m_ratio(&mut end);
    Ok(ForesightRow {
        recording: name.to_string(),
        seen_s: observed.seconds,
        predicted_s,
        seen_end_ratio: before,
        predicted_end_ratio: predicted,
        found_end_ratio: found,
        missed_by_points: 100.0 * (predicted.median - found).abs(),
        unchanged_misses_by_points: 100.0 * (before - found).abs(),
    })
}

fn seconds_between(earlier: &Scan, later: &Scan) -> Result<f64> {
    let uptime = |scan: &Scan| {
        scan.meta
            .uptime_seconds
            .context("a snapshot without uptime")
    };
    Ok(uptime(later)?.saturating_sub(uptime(earlier)?) as f64)
}

impl Outcome for ForesightReport {
    const SCHEMA: &'static str = "ample.foresight/1";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whatif::recording::watermarks;
    use ample_mm::Marks;

    /// With 0.1 % of memory in reserve instead of the guest's own watermarks 67.8 % were predicted.
    #[test]
    fn a_kernel_that_grows_is_predicted_with_the_reserve_that_it_keeps() {
        let root = source_tree().expect("the source tree");
        let path = root.join("kernel/tests/courses/stock-1g-leak-1");
        let path = path.to_str().expect("text");
        let third = snapshot::read(Path::new(&format!("{path}.third.snap"))).expect("a snapshot");
        let marks = Marks {
            min: 5632,
            low: 7040,
            high: 8448,
        };
        assert_eq!(watermarks(&third), Some(marks));
        let parameters = ForesightParams {
            folder: PathBuf::new(),
            seeds: 1,
        };
        let row = row(&parameters, path).expect("a row");
        assert!(row.unchanged_misses_by_points > 12.0, "{row:?}");
        assert!(row.missed_by_points < 3.0, "{row:?}");
    }
}
