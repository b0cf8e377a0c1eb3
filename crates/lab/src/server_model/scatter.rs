// SPDX-License-Identifier: MIT OR Apache-2.0
//! What scatters: recorded kernel memory through the model's stock Linux with one property taken
//! away at a time. The fewer blocks are unmovable without it, the more the property scatters.

use super::recorded_kernel::recordings;
use crate::experiment::{Experiment, Outcome, Progress};
use crate::needs::source_tree;
use crate::progress::Steps;
use crate::stop;
use crate::whatif::recording::{likely_pages, watermarks};
use ample_host::snapshot;
use ample_kit::statistics::MedianRange;
use ample_mm::replay::{Change, KernelReplay, ReplayOptions, ReplayResult, Start};
use ample_mm::{Config, Marks, PolicyKind};
use ample_pfn::PageClass;
use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScatterParams {
    /// Folders of recordings of stock kernels, relative to the source tree: `NAME.trace.zst` with
    /// the pages before it, `NAME.snap` or `NAME.start.snap`. Other kernels' are left out.
    pub folders: Vec<PathBuf>,
    /// Seeds of the model and of the draws.
    pub seeds: Vec<u64>,
    /// A recording counts if the traced kernel's unmovable blocks grow by as many points of
    /// memory: where nothing grows, nothing scatters.
    pub least_growth_points: f64,
    /// A kernel block is short-lived if it is freed within so long.
    pub short_life_s: f64,
}

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScatterChange {
    /// Nothing, with the watermarks that the traced kernel had.
    #[serde(rename = "as recorded")]
    AsRecorded,
    /// The model's own watermarks, as for 64 GB: 0.1 % of memory.
    #[serde(rename = "a reserve of 0.1 %")]
    SmallReserve,
    /// Kernel blocks come as single pages.
    #[serde(rename = "single pages")]
    SinglePages,
    /// Reclaimable slab asks for blocks of the type of other kernel memory.
    #[serde(rename = "one type")]
    OneType,
    /// Any live block of the class and order is freed in place of the one recorded.
    #[serde(rename = "any age")]
    AnyAge,
    /// Kernel blocks that are freed soon are left out.
    #[serde(rename = "no short lives")]
    NoShortLives,
    /// Slab pages are left out.
    #[serde(rename = "no slab")]
    NoSlab,
    /// Page tables are left out.
    #[serde(rename = "no page tables")]
    NoPageTables,
    /// Network buffers are left out.
    #[serde(rename = "no network")]
    NoNetwork,
    /// Kernel memory that is none of these is left out.
    #[serde(rename = "no others")]
    NoOthers,
}

impl ScatterChange {
    const ALL: [ScatterChange; 10] = [
        ScatterChange::AsRecorded,
        ScatterChange::SmallReserve,
        ScatterChange::SinglePages,
        ScatterChange::OneType,
        ScatterChange::AnyAge,
        ScatterChange::NoShortLives,
        ScatterChange::NoSlab,
        ScatterChange::NoPageTables,
        ScatterChange::NoNetwork,
        ScatterChange::NoOthers,
    ];

    fn of(self, seed: u64, short_life_s: f64) -> Change {
        match self {
            ScatterChange::AsRecorded | ScatterChange::SmallReserve => Change::AsRecorded,
            ScatterChange::SinglePages => Change::SinglePages,
            ScatterChange::OneType => Change::OneType,
            ScatterChange::AnyAge => Change::AnyAge { seed },
            ScatterChange::NoShortLives => Change::Lasting {
                least_ns: (short_life_s * 1e9) as u64,
            },
            ScatterChange::NoSlab => {
                Change::Without(&[PageClass::Slab, PageClass::SlabReclaimable])
            }
            ScatterChange::NoPageTables => Change::Without(&[PageClass::PageTable]),
            ScatterChange::NoNetwork => Change::Without(&[PageClass::Network]),
            ScatterChange::NoOthers => Change::Without(&[
                PageClass::KernelStack,
                PageClass::FsMetadata,
                PageClass::FsBuffer,
                PageClass::KernelCompound,
                PageClass::KernelOther,
                PageClass::Dma,
            ]),
        }
    }
}

/// One recording with one change. Ratios are of the model's stock Linux at its end, over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScatterRow {
    /// File name without endings.
    pub recording: String,
    /// What is changed.
    pub change: ScatterChange,
    /// Unmovable pages (O) ÷ all pages, at the end.
    pub unmovable_page_ratio: MedianRange,
    /// 2 MB blocks with an unmovable page (O) ÷ all of them.
    pub unmovable_2m_ratio: MedianRange,
    /// Their growth since the beginning, in points of memory.
    pub growth_points: MedianRange,
    /// The traced kernel's growth, which has no change.
    pub kernel_growth_points: f64,
    /// Median growth ÷ that of the model as recorded; null where that does not grow.
    pub growth_over_recorded: Option<f64>,
}

/// The growth of unmovable blocks by recording and change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScatterReport {
    /// What was run.
    pub parameters: ScatterParams,
    /// Recordings by name, each with all changes.
    pub rows: Vec<ScatterRow>,
}

/// What scatters in a recorded kernel.
pub struct WhatScatters;

impl Experiment for WhatScatters {
    type Parameters = ScatterParams;
    type Outcome = ScatterReport;

    fn run(parameters: &ScatterParams, progress: Progress<'_>) -> Result<ScatterReport> {
        ensure!(
            !parameters.seeds.is_empty(),
            "seeds lists no seed; give at least one"
        );
        ensure!(
            (0.0..=1e6).contains(&parameters.short_life_s),
            "short_life_s is {}, but must be from 0 to 1000000",
            parameters.short_life_s
        );
        let root = source_tree().context("not in the source tree")?;
        let mut names = Vec::new();
        for folder in &parameters.folders {
            let found = recordings(&root.join(folder), ".snap")?;
            let starts = found.into_iter().filter(|path| is_start(path));
            names.extend(starts);
        }
        let steps = Steps::new(progress, names.len() * ScatterChange::ALL.len());
        let mut rows = Vec::new();
        for path in &names {
            let more = stop::until_stopped(|| rows_of(parameters, path, &steps));
            rows.extend(more.transpose()?.into_iter().flatten());
        }
        Ok(ScatterReport {
            parameters: parameters.clone(),
            rows,
        })
    }
}

/// Whether a snapshot is of a stock kernel before a recording.
fn is_start(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let later = [".third", ".end"].iter().any(|end| name.ends_with(end));
    name.starts_with("stock-") && !later
}

/// A recording with what it began with.
struct Recording {
    replay: KernelReplay,
    start: Start,
    marks: Option<Marks>,
}

impl Recording {
    fn open(path: &str) -> Result<Recording> {
        let scan = snapshot::read(Path::new(&format!("{path}.snap")))?;
        let events = format!("{}.trace.zst", path.trim_end_matches(".start"));
        Ok(Recording {
            replay: KernelReplay::open(Path::new(&events), ReplayOptions::default())?,
            marks: watermarks(&scan),
            start: Start::new(scan.layout.clone(), likely_pages(&scan))?,
        })
    }

    fn run(&self, change: ScatterChange, seed: u64, short_life_s: f64) -> Result<ReplayResult> {
        let marks = self.marks.filter(|_| change != ScatterChange::SmallReserve);
        let config = Config {
            memory_bytes: self.replay.survey().memory_bytes(),
            cpus: self.replay.survey().cpus,
            seed,
            marks,
            ..Config::new(PolicyKind::Linux)
        };
        let change = change.of(seed, short_life_s);
        let told = &|_| stop::checkpoint();
        Ok(self
            .replay
            .run_changed(&change, &self.start, &[config], told)?)
    }
}

/// A recording with all changes; nothing where the traced kernel does not grow.
fn rows_of(parameters: &ScatterParams, path: &str, steps: &Steps<'_>) -> Result<Vec<ScatterRow>> {
    let recording = Recording::open(path)?;
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.trim_end_matches(".start");
    let mut rows: Vec<ScatterRow> = Vec::new();
    for change in ScatterChange::ALL {
        let seeds = parameters.seeds.par_iter();
        let results: Vec<ReplayResult> = seeds
            .map(|&seed| recording.run(change, seed, parameters.short_life_s))
            .collect::<Result<_>>()?;
        steps.step();
        let row = row(name, change, &results, rows.first())?;
        if row.kernel_growth_points < parameters.least_growth_points {
            return Ok(Vec::new());
        }
        rows.push(row);
    }
    Ok(rows)
}

fn row(
    name: &str,
    change: ScatterChange,
    results: &[ReplayResult],
    recorded: Option<&ScatterRow>,
) -> Result<ScatterRow> {
    let samples = || results.iter().map(|result| &result.policies[0].samples);
    let ends = || samples().filter_map(|samples| samples.last());
    let growth = samples().filter_map(|samples| {
        let (first, last) = (samples.first()?, samples.last()?);
        Some(100.0 * (last.unmovable_2m_ratio - first.unmovable_2m_ratio))
    });
    let range = |values: Vec<f64>| MedianRange::of(values).context("a recording without samples");
    let growth = range(growth.collect())?;
    let kernel = &results[0].kernel;
    let kernel_end = |at: Option<&ample_mm::replay::KernelSample>| {
        at.map_or(0.0, |sample| 100.0 * sample.unmovable_2m_ratio)
    };
    let base = recorded.map_or(growth.median, |row| row.growth_points.median);
    Ok(ScatterRow {
        recording: name.to_string(),
        change,
        unmovable_page_ratio: range(ends().map(|end| end.unmovable_page_ratio).collect())?,
        unmovable_2m_ratio: range(ends().map(|end| end.unmovable_2m_ratio).collect())?,
        growth_points: growth,
        kernel_growth_points: kernel_end(kernel.last()) - kernel_end(kernel.first()),
        growth_over_recorded: (base != 0.0).then(|| growth.median / base),
    })
}

impl Outcome for ScatterReport {
    const SCHEMA: &'static str = "ample.scatter/1";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three kinds of change on one recording of the tree, one seed.
    #[test]
    fn what_is_taken_away_from_a_recording_shows() {
        let root = source_tree().expect("the source tree");
        let path = root.join("kernel/tests/data/stock-512m-creep-1");
        let recording = Recording::open(path.to_str().expect("text")).expect("a recording");
        let mut rows: Vec<ScatterRow> = Vec::new();
        for change in [
            ScatterChange::AsRecorded,
            ScatterChange::NoShortLives,
            ScatterChange::NoSlab,
        ] {
            let results = [recording.run(change, 1, 1.0).expect("a replay")];
            rows.push(row("creep", change, &results, rows.first()).expect("a row"));
        }
        let [recorded, lasting, no_slab] = &rows[..] else {
            unreachable!("three changes");
        };
        assert!(recorded.kernel_growth_points > 3.0, "{recorded:?}");
        assert_eq!(recorded.growth_over_recorded, Some(1.0));
        let pages = |row: &ScatterRow| row.unmovable_page_ratio.median;
        assert!(pages(no_slab) < pages(recorded), "{rows:?}");
        assert!(pages(lasting) <= pages(recorded) + 0.002, "{rows:?}");
        assert_eq!(recorded.kernel_growth_points, no_slab.kernel_growth_points);
    }

    #[test]
    fn snapshots_of_other_kernels_and_moments_are_no_starts() {
        assert!(is_start("a/stock-1g-leak-1.start") && is_start("a/stock-512m-web-1"));
        assert!(!is_start("a/stock-1g-leak-1.third") && !is_start("a/ample-1g-leak-1.start"));
    }
}
