// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perforated pages and direct segments on real fragmentation: the frames of a snapshot, of this
//! machine, or of the server model after hours of load, instead of random holes.

mod source;

pub use source::{FragmentationSource, MemoryState};

use super::perforated::{self, Baselines, Fragmentation};
use super::program;
use super::runs::{Recording, SeedMean, check_seeds, whole};
use crate::charts::{Bars, with_range};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines::MachineChoice;
use crate::progress::Steps;
use crate::setup::{Length, PageMix, anonymous_range, engine, map_mix, map_segment_of};
use crate::stop;
use ample_report::Unit;
use ample_trace::{Program, Replay};
use ample_translate::FrameUse;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use source::state;

/// Programs and where fragmentation comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentationParams {
    /// A preset or a file, and fields of it that are changed.
    pub machine: MachineChoice,
    pub programs: Vec<String>,
    /// Scale of the programs (GUPS: always `gups_bytes`).
    pub scale: String,
    /// Footprint of GUPS, bytes.
    pub gups_bytes: u64,
    /// Native, virtualised, or both.
    pub virtualised: Vec<bool>,
    /// Share of a machine's 2 MB blocks, the soundest first, that its programs fill; one program
    /// lies anywhere in them.
    pub filled_share: f64,
    /// Length of each run.
    pub length: Length,
    /// Seeds: of the server model, of where a program lies, and of the program.
    pub seeds: Vec<u64>,
    /// Where fragmentation comes from.
    pub sources: Vec<FragmentationSource>,
}

/// One program on one state of memory. "Of ideal" is over 2 MB pages everywhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FragmentationRow {
    /// FragmentationSource.
    pub source: String,
    pub seed: u64,
    pub program: String,
    /// On a virtual machine.
    pub virtualised: bool,
    /// Share of the program's 2 MB blocks with a hole.
    pub holed_share: f64,
    /// 4 KB pages only, of ideal.
    pub small_of_ideal: f64,
    /// 2 MB in sound blocks, 4 KB elsewhere, of ideal.
    pub conventional_of_ideal: f64,
    pub gtsm_of_ideal: f64,
    /// Perforated pages, of ideal.
    pub perforated_of_ideal: f64,
    /// Coalesced TLB entries (CoLT) over the frames that perforated pages would use, of ideal;
    /// None on a virtual machine.
    pub colt_of_ideal: Option<f64>,
    /// A range TLB (RMM) over the same, of ideal; None on a virtual machine.
    pub rmm_of_ideal: Option<f64>,
    /// Share of the program in a segment over the longest run after compaction, the rest in 4 KB
    /// pages.
    pub segment_share: f64,
    /// That segment, of ideal; None on a virtual machine, where it was not run.
    pub segment_of_ideal: Option<f64>,
}

/// One program on the memory of one source: means over seeds, in the fields of
/// [`FragmentationRow`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FragmentationMean {
    /// FragmentationSource.
    pub source: String,
    pub program: String,
    /// On a virtual machine.
    pub virtualised: bool,
    /// Seeds run.
    pub seeds: usize,
    pub holed_share: SeedMean,
    pub small_of_ideal: SeedMean,
    pub conventional_of_ideal: SeedMean,
    pub gtsm_of_ideal: SeedMean,
    pub perforated_of_ideal: SeedMean,
    pub colt_of_ideal: Option<SeedMean>,
    pub rmm_of_ideal: Option<SeedMean>,
    pub segment_share: SeedMean,
    pub segment_of_ideal: Option<SeedMean>,
    /// Perforated pages over conventional paging.
    pub over_conventional: SeedMean,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fragmented {
    /// The machine, as the parameters name it.
    pub machine: String,
    /// Share of blocks that programs fill.
    pub filled_share: f64,
    /// Sources that could not be read, with the reason.
    pub missing: Vec<String>,
    /// States of memory.
    pub states: Vec<MemoryState>,
    /// Programs on them, one row a seed.
    pub rows: Vec<FragmentationRow>,
    /// Means over seeds.
    pub means: Vec<FragmentationMean>,
    /// Least and greatest share of ideal that perforated pages reach; none without rows.
    pub perforated_of_ideal: Option<[f64; 2]>,
    /// The same for conventional paging.
    pub conventional_of_ideal: Option<[f64; 2]>,
}

/// Runs one program on the frames of one source.
fn row(
    params: &FragmentationParams,
    program: &mut Replay,
    frames: &[FrameUse],
    state: &MemoryState,
    virtualised: bool,
    baselines: &mut Baselines,
) -> Result<FragmentationRow> {
    let machine = params.machine.read()?;
    let length = &params.length;
    let blocks = perforated::blocks_of(program);
    let holes = Fragmentation::of_filled(frames, params.filled_share, blocks, state.seed)?;
    let key = format!("{}, seed {}", program.name(), state.seed);
    let known = (baselines, key.as_str());
    let speeds = perforated::speeds(&machine, length, program, &holes, virtualised, known)?;
    let ideal = speeds.ideal;
    let range = anonymous_range(program.regions());
    let bytes = range.end - range.start;
    let segment_bytes = bytes.min(state.longest_movable_run_bytes);
    let segment_of_ideal = if virtualised {
        None
    } else {
        let mut engine = engine(&machine, "segment")?;
        map_mix(&mut engine, program.regions(), &PageMix::SMALL)?;
        map_segment_of(&mut engine, range.start, segment_bytes)?;
        program.rewind();
        let run = whole(&machine, engine, program, length, None)?;
        Some(run.report.ipc / ideal)
    };
    Ok(FragmentationRow {
        source: state.source.clone(),
        seed: state.seed,
        program: program.name().to_owned(),
        virtualised,
        holed_share: holes.holed_share(),
        small_of_ideal: speeds.small / ideal,
        conventional_of_ideal: speeds.conventional / ideal,
        gtsm_of_ideal: speeds.gtsm / ideal,
        perforated_of_ideal: speeds.perforated / ideal,
        colt_of_ideal: speeds.colt.map(|ipc| ipc / ideal),
        rmm_of_ideal: speeds.rmm.map(|ipc| ipc / ideal),
        segment_share: segment_bytes as f64 / bytes as f64,
        segment_of_ideal,
    })
}

/// The means over the seeds of each source, program and kind of machine.
fn means(rows: &[FragmentationRow]) -> Vec<FragmentationMean> {
    let mut means: Vec<FragmentationMean> = Vec::new();
    for first in rows {
        let same = |row: &&FragmentationRow| {
            row.source == first.source
                && row.program == first.program
                && row.virtualised == first.virtualised
        };
        let rows: Vec<&FragmentationRow> = rows.iter().filter(same).collect();
        if rows[0].seed != first.seed {
            continue;
        }
        let some = |value: &dyn Fn(&FragmentationRow) -> Option<f64>| {
            let values: Option<Vec<f64>> = rows.iter().map(|row| value(row)).collect();
            SeedMean::of(&values?)
        };
        let mean = |value: &dyn Fn(&FragmentationRow) -> f64| some(&|row| Some(value(row)));
        let all = || {
            Some(FragmentationMean {
                source: first.source.clone(),
                program: first.program.clone(),
                virtualised: first.virtualised,
                seeds: rows.len(),
                holed_share: mean(&|row| row.holed_share)?,
                small_of_ideal: mean(&|row| row.small_of_ideal)?,
                conventional_of_ideal: mean(&|row| row.conventional_of_ideal)?,
                gtsm_of_ideal: mean(&|row| row.gtsm_of_ideal)?,
                perforated_of_ideal: mean(&|row| row.perforated_of_ideal)?,
                colt_of_ideal: some(&|row| row.colt_of_ideal),
                rmm_of_ideal: some(&|row| row.rmm_of_ideal),
                segment_share: mean(&|row| row.segment_share)?,
                segment_of_ideal: some(&|row| row.segment_of_ideal),
                over_conventional: mean(&|row| {
                    row.perforated_of_ideal / row.conventional_of_ideal
                })?,
            })
        };
        means.extend(all());
    }
    means
}

fn span(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let pair = values.map(|value| [value, value]);
    pair.reduce(|[low, high], [value, _]| [low.min(value), high.max(value)])
}

/// Perforated pages and segments on real fragmentation.
pub struct RealFragmentation;

impl Experiment for RealFragmentation {
    type Parameters = FragmentationParams;
    type Outcome = Fragmented;

    fn run(params: &FragmentationParams, progress: Progress<'_>) -> Result<Fragmented> {
        ensure!(
            params.filled_share > 0.0 && params.filled_share <= 1.0,
            "filled_share is {}, but must be above 0 and at most 1",
            params.filled_share
        );
        params.machine.read()?;
        check_seeds(&params.seeds)?;
        let (mut states, mut missing) = (Vec::new(), Vec::new());
        let runs = params.programs.len() * params.virtualised.len();
        let steps = Steps::new(progress, params.sources.len() * params.seeds.len() * runs);
        let mut baselines = Baselines::default();
        let rows = stop::collect(|rows: &mut Vec<FragmentationRow>| {
            // A wrong name is told before minutes of the server model.
            for name in &params.programs {
                program(name, &params.scale, 1)?;
            }
            for source in &params.sources {
                for &seed in &params.seeds {
                    let frames = match source.frames(seed) {
                        Ok(frames) => frames,
                        Err(error) if source.workload.is_none() => {
                            missing.push(format!("{}: {error:#}", source.name));
                            break;
                        }
                        Err(error) => return Err(error.context(source.name.clone())),
                    };
                    let state = state(&source.name, seed, &frames);
                    states.push(state.clone());
                    let recording = Recording {
                        scale: &params.scale,
                        gups_bytes: params.gups_bytes,
                        length: params.length,
                        seed,
                    };
                    for name in &params.programs {
                        let program = &mut recording.of(name)?;
                        for &virtualised in &params.virtualised {
                            let known = &mut baselines;
                            rows.push(row(params, program, &frames, &state, virtualised, known)?);
                            steps.step();
                        }
                    }
                }
            }
            Ok(())
        })?;
        Ok(Fragmented {
            machine: params.machine.to_string(),
            filled_share: params.filled_share,
            missing,
            perforated_of_ideal: span(rows.iter().map(|row| row.perforated_of_ideal)),
            conventional_of_ideal: span(rows.iter().map(|row| row.conventional_of_ideal)),
            states,
            means: means(&rows),
            rows,
        })
    }
}

impl Outcome for Fragmented {
    const SCHEMA: &'static str = "ample.sim.fragmentation/1";

    fn figures(&self) -> Vec<Figure> {
        let title = "Speed on real fragmentation, share of ideal (* on a virtual machine)";
        let mut bars = Bars::new(title, Unit::Percent);
        for first in &self.rows {
            let mark = if first.virtualised { "*" } else { "" };
            let group = format!("{}{mark}", first.program);
            let same = |row: &&FragmentationRow| {
                row.program == first.program && row.virtualised == first.virtualised
            };
            for (name, value) in WAYS {
                let rows = self.rows.iter().filter(same);
                let values: Vec<f64> = rows.filter_map(value).collect();
                if let Some([low, high]) = span(values.iter().copied()) {
                    let mean = values.iter().sum::<f64>() / values.len() as f64;
                    bars.put(&group, name, with_range(mean, low, high, None));
                }
            }
        }
        vec![Figure::new("of-ideal", title, bars.svg())]
    }
}

/// A way of mapping memory and its speed in a row.
type MappingWay = (&'static str, fn(&FragmentationRow) -> Option<f64>);

/// The columns of the figure.
const WAYS: [MappingWay; 7] = [
    ("4 KB", |row| Some(row.small_of_ideal)),
    ("2 MB + 4 KB", |row| Some(row.conventional_of_ideal)),
    ("GTSM", |row| Some(row.gtsm_of_ideal)),
    ("CoLT", |row| row.colt_of_ideal),
    ("RMM", |row| row.rmm_of_ideal),
    ("perforated", |row| Some(row.perforated_of_ideal)),
    ("segment", |row| row.segment_of_ideal),
];
