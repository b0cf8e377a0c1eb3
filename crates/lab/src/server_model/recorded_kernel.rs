// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of a kernel's page events through the server model: each policy, and the traced
//! kernel itself, over time.

use crate::charts::{line, lines};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::needs::source_tree;
use crate::progress::Steps;
use crate::stop;
use ample_host::snapshot;
use ample_kit::statistics::median;
use ample_mm::replay::{KernelReplay, ReplayOptions, ReplayResult, Start};
use ample_mm::{Config, PolicyKind};
use ample_report::Unit;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Axes of the charts over a recording.
const COURSE: [(&str, Unit); 2] = [
    ("time", Unit::Seconds),
    ("2 MB blocks with an unmovable page", Unit::Percent),
];

/// Unmovable 2 MB blocks of the traced kernel and of each policy over a recording.
pub fn chart(title: &str, result: &ReplayResult) -> String {
    let kernel = result
        .kernel
        .iter()
        .map(|s| (s.time_s, s.unmovable_2m_ratio));
    let mut series = vec![line("traced kernel", kernel)];
    for run in &result.policies {
        let points = run.samples.iter().map(|s| (s.time_s, s.unmovable_2m_ratio));
        series.push(line(run.policy.name(), points));
    }
    lines(title, COURSE, series).to_svg()
}

/// Which recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedKernelParams {
    /// Folder of the recordings, pairs of `NAME.trace.zst` and `NAME.snap`; relative to the source
    /// tree.
    pub folder: PathBuf,
    /// Seeds of the model.
    pub seeds: Vec<u64>,
    /// Samples over a recording.
    pub samples: u32,
}

/// One moment of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayedMoment {
    /// Seconds since the first event.
    pub time_s: f64,
    /// The traced kernel: 2 MB blocks with an unmovable page ÷ all.
    pub kernel_unmovable_2m_ratio: f64,
    /// The model's stock Linux, median over the seeds.
    pub model_unmovable_2m_ratio: f64,
    /// Unmovable pages in use ÷ all pages: the blocks of a placement that knows when each page is
    /// freed, and packs those that are left. No placement that does not move pages is below it.
    pub packed_2m_ratio: f64,
}

/// One recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedKernelRow {
    /// File name without endings.
    pub recording: String,
    /// Page events.
    pub events: u64,
    /// Simulated seconds, as recorded.
    pub duration_s: f64,
    /// The kernel at the end.
    pub kernel_end_ratio: f64,
    /// The model at the end, median over the seeds.
    pub model_end_ratio: f64,
    /// The packed pages at the end.
    pub packed_end_ratio: f64,
    /// The most at any time: a placement that cannot tell what stays has that many blocks, if the
    /// load leaves a page in each of them.
    pub packed_most_ratio: f64,
    /// Largest difference of the two over the recording.
    pub largest_difference: f64,
    /// Over time.
    pub moments: Vec<ReplayedMoment>,
}

/// The model beside each recorded kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedKernelReport {
    /// What was run.
    pub parameters: RecordedKernelParams,
    /// Recordings by name.
    pub rows: Vec<RecordedKernelRow>,
}

/// The model against recorded kernels.
pub struct RecordedKernel;

impl Experiment for RecordedKernel {
    type Parameters = RecordedKernelParams;
    type Outcome = RecordedKernelReport;

    fn run(
        parameters: &RecordedKernelParams,
        progress: Progress<'_>,
    ) -> Result<RecordedKernelReport> {
        ensure!(
            !parameters.seeds.is_empty(),
            "seeds lists no seed; give at least one"
        );
        let root = source_tree().context("not in the source tree")?;
        let names = recordings(&root.join(&parameters.folder), ".snap")?;
        let steps = Steps::new(progress, names.len() * parameters.seeds.len());
        let mut rows = Vec::new();
        for path in &names {
            let row = stop::until_stopped(|| row(parameters, path, &steps));
            rows.extend(row.transpose()?);
        }
        Ok(RecordedKernelReport {
            parameters: parameters.clone(),
            rows,
        })
    }
}

/// The memory manager of the kernel in a recording of this name.
pub(super) fn policy_of(name: &str) -> PolicyKind {
    match name.starts_with("ample-") {
        true => PolicyKind::Contiguitas,
        false => PolicyKind::Linux,
    }
}

/// The recordings of a folder, by path without endings: those that have a file with this one.
pub(super) fn recordings(folder: &Path, ending: &str) -> Result<Vec<String>> {
    let told = || format!("reading {}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(told)? {
        let path = entry.with_context(told)?.path();
        let path = path.to_str().context("a name that is not text")?;
        found.extend(path.strip_suffix(ending).map(str::to_string));
    }
    ensure!(
        !found.is_empty(),
        "{} holds no recording; make kernel-record",
        folder.display()
    );
    found.sort();
    Ok(found)
}

fn row(
    parameters: &RecordedKernelParams,
    path: &str,
    steps: &Steps<'_>,
) -> Result<RecordedKernelRow> {
    let options = ReplayOptions {
        samples: parameters.samples,
        ..ReplayOptions::default()
    };
    let replay = KernelReplay::open(Path::new(&format!("{path}.trace.zst")), options)?;
    let scan = snapshot::read(Path::new(&format!("{path}.snap")))?;
    let start = Start::new(scan.layout, scan.pages.expand())?;
    let mut results = Vec::new();
    for &seed in &parameters.seeds {
        let config = Config {
            memory_bytes: replay.survey().memory_bytes(),
            cpus: replay.survey().cpus,
            seed,
            ..Config::new(PolicyKind::Linux)
        };
        results.push(replay.run_from(&start, &[config], &|_| stop::checkpoint())?);
        steps.step();
    }
    let first = &results[0];
    let model = |at: usize| {
        let samples = results.iter().filter_map(|r| r.policies[0].samples.get(at));
        median(samples.map(|s| s.unmovable_2m_ratio))
    };
    let moments: Vec<ReplayedMoment> = first
        .kernel
        .iter()
        .enumerate()
        .filter_map(|(at, sample)| {
            Some(ReplayedMoment {
                time_s: sample.time_s,
                kernel_unmovable_2m_ratio: sample.unmovable_2m_ratio,
                model_unmovable_2m_ratio: model(at)?,
                packed_2m_ratio: sample.unmovable_page_ratio,
            })
        })
        .collect();
    let last = moments.last().context("the recording is empty")?;
    let apart =
        |m: &ReplayedMoment| (m.kernel_unmovable_2m_ratio - m.model_unmovable_2m_ratio).abs();
    Ok(RecordedKernelRow {
        recording: path.rsplit('/').next().unwrap_or(path).to_string(),
        events: first.counts.page_events(),
        duration_s: first.duration_s,
        kernel_end_ratio: last.kernel_unmovable_2m_ratio,
        model_end_ratio: last.model_unmovable_2m_ratio,
        packed_end_ratio: last.packed_2m_ratio,
        packed_most_ratio: moments
            .iter()
            .map(|m| m.packed_2m_ratio)
            .fold(0.0, f64::max),
        largest_difference: moments.iter().map(apart).fold(0.0, f64::max),
        moments,
    })
}

impl Outcome for RecordedKernelReport {
    const SCHEMA: &'static str = "ample.kernel-replay/2";

    fn figures(&self) -> Vec<Figure> {
        let draw = |row: &RecordedKernelRow| {
            let title = format!("Unmovable 2 MB blocks, {}", row.recording);
            let moments = || row.moments.iter();
            let kernel = moments().map(|m| (m.time_s, m.kernel_unmovable_2m_ratio));
            let model = moments().map(|m| (m.time_s, m.model_unmovable_2m_ratio));
            let packed = moments().map(|m| (m.time_s, m.packed_2m_ratio));
            let series = vec![
                line("traced kernel", kernel),
                line("model, stock Linux", model),
                line("pages in use, packed", packed),
            ];
            let chart = lines(&title, COURSE, series);
            Figure::new(&row.recording, &title, chart.to_svg())
        };
        self.rows.iter().map(draw).collect()
    }
}
