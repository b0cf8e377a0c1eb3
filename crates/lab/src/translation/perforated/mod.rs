// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perforated Pages: speed on fragmented memory against 4 KB pages, conventional 2 MB + 4 KB,
//! GTSM and ideal 2 MB allocation, over the share of fragmented regions, the share of holes, how
//! they lie, whether they are used, native and virtualised.

mod holes;
mod layout;
mod point;
mod speeds;
mod variants;

pub use holes::{Fragmentation, MappingPolicy};
pub(crate) use layout::map_range;
pub use point::{PerforatedPoint, point};
pub use speeds::Baselines;
pub(super) use speeds::{blocks_of, speeds};
pub use variants::VariantPoint;

use super::runs::{Recording, check_seeds};
use crate::charts::{Bars, line, lines, with_interval};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines::MachineChoice;
use crate::progress::Steps;
use crate::setup::Length;
use crate::stop;
use ample_report::{Series, Unit};
use ample_trace::Replay;
use anyhow::{Result, ensure};
use point::PointSample;
use serde::{Deserialize, Serialize};
use speeds::{Form, Speeds, one};

/// Programs and states of fragmentation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerforatedParams {
    /// A preset or a file, and fields of it that are changed.
    pub machine: MachineChoice,
    /// Programs, by the names that `ample trace` knows.
    pub programs: Vec<String>,
    /// Scale of the programs (GUPS: always `gups_bytes`).
    pub scale: String,
    /// Footprint of GUPS, bytes.
    pub gups_bytes: u64,
    /// Shares of 2 MB regions that are fragmented.
    pub fragmented_shares: Vec<f64>,
    /// Holes in a fragmented region.
    pub holes_per_region: Vec<u32>,
    /// Native, virtualised, or both.
    pub virtualised: Vec<bool>,
    /// Holes mapped elsewhere and used, never allocated, or both.
    #[serde(default = "both")]
    pub used: Vec<bool>,
    /// Variants of perforated pages to run beside the paper's form, where holes are used and lie
    /// anywhere.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Length of each run.
    pub length: Length,
    /// Seeds of programs and draws; figures are means over them.
    pub seeds: Vec<u64>,
}

fn both() -> Vec<bool> {
    vec![true, false]
}

/// Speeds over states of fragmentation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerforatedSweep {
    /// The machine, as the parameters name it.
    pub machine: String,
    /// Seeds of programs and draws.
    pub seeds: Vec<u64>,
    /// One point a program, state of memory and machine.
    pub points: Vec<PerforatedPoint>,
    /// Least and greatest mean of `of_ideal` for clustered used holes, native; none without such
    /// points.
    pub clustered_of_ideal: Option<[f64; 2]>,
    /// Least mean of `over_conventional` of all points; none without points.
    pub least_over_conventional: Option<f64>,
    /// Variants of perforated pages where holes are used and lie anywhere.
    pub variants: Vec<VariantPoint>,
}

/// A program of one seed and the states of memory that it runs on; true: holes side by side.
struct Runs {
    seed: u64,
    program: Replay,
    states: Vec<(bool, Fragmentation)>,
}

/// The states of fragmentation of the sweep with one seed.
fn states(params: &PerforatedParams, blocks: usize, seed: u64) -> Vec<(bool, Fragmentation)> {
    let mut states = Vec::new();
    for (clustered, used) in [(true, true), (false, true), (true, false), (false, false)] {
        if !params.used.contains(&used) {
            continue;
        }
        for &share in &params.fragmented_shares {
            for &holes in params.holes_per_region.iter().filter(|&&h| used || h < 512) {
                let state = Fragmentation::random(blocks, share, holes, clustered, used, seed);
                states.push((clustered, state));
            }
        }
    }
    states
}

/// Records a program with each seed and draws its states of memory.
fn recorded(params: &PerforatedParams, name: &str) -> Result<Vec<Runs>> {
    let one = |&seed: &u64| {
        let recording = Recording {
            scale: &params.scale,
            gups_bytes: params.gups_bytes,
            length: params.length,
            seed,
        };
        let program = recording.of(name)?;
        let states = states(params, blocks_of(&program), seed);
        Ok(Runs {
            seed,
            program,
            states,
        })
    };
    params.seeds.iter().map(one).collect()
}

/// Refuses parameters that make no sweep.
fn check(params: &PerforatedParams) -> Result<()> {
    check_seeds(&params.seeds)?;
    let holes = &params.holes_per_region;
    ensure!(
        holes.iter().all(|h| (1..=512).contains(h)),
        "a 2 MB region has 1 to 512 holes, not {holes:?}"
    );
    let mut seeds = params.seeds.clone();
    seeds.sort_unstable();
    seeds.dedup();
    ensure!(
        seeds.len() == params.seeds.len(),
        "seeds lists a seed twice, which would make intervals too narrow: {:?}",
        params.seeds
    );
    Ok(())
}

/// A sweep over states of fragmentation.
pub struct Perforated;

impl Experiment for Perforated {
    type Parameters = PerforatedParams;
    type Outcome = PerforatedSweep;

    fn run(params: &PerforatedParams, progress: Progress<'_>) -> Result<PerforatedSweep> {
        let machine = params.machine.read()?;
        check(params)?;
        let forms = variants::forms(&params.variants)?;
        let length = &params.length;
        let mut known = Baselines::default();
        let mut others = Vec::new();
        let points = stop::collect(|points| {
            for (done, name) in params.programs.iter().enumerate() {
                let mut runs = recorded(params, name)?;
                let count = runs[0].states.len();
                let share = |part| progress((done as f64 + part) / params.programs.len() as f64);
                let steps = Steps::new(&share, count * params.virtualised.len() * runs.len());
                let both = params.virtualised.iter();
                for (&virtualised, at) in both.flat_map(|on| (0..count).map(move |at| (on, at))) {
                    let (clustered, used) = (runs[0].states[at].0, runs[0].states[at].1.used);
                    // A cluster lies in few groups of the bitmap, which are hardly asked.
                    let forms = if used && !clustered { &forms[..] } else { &[] };
                    let mut samples = Vec::new();
                    for run in &mut runs {
                        let (program, state) = (&mut run.program, &run.states[at].1);
                        let key = format!("{name}, seed {}", run.seed);
                        let known = (&mut known, key.as_str());
                        let speeds = speeds(&machine, length, program, state, virtualised, known)?;
                        let variants =
                            variants::beside(&machine, length, program, state, virtualised, forms)?;
                        samples.push(PointSample::new(state, speeds, variants));
                        steps.step();
                    }
                    let point = PerforatedPoint {
                        clustered,
                        used,
                        ..PerforatedPoint::of(name, virtualised, &samples)?
                    };
                    others.extend(variants::points(&point, &samples, forms));
                    points.push(point);
                }
            }
            Ok(())
        })?;
        Ok(sweep(params, points, others))
    }
}

impl Outcome for PerforatedSweep {
    const SCHEMA: &'static str = "ample.sim.perforated/1";

    fn figures(&self) -> Vec<Figure> {
        let title = "Speed of perforated pages, share of ideal 2 MB pages, by holes a region";
        let most = self
            .points
            .iter()
            .map(|p| p.fragmented_share)
            .fold(0.0, f64::max);
        let points = self.points.iter();
        let shown = points.filter(|p| p.used && p.fragmented_share > most - 0.05);
        let shown: Vec<&PerforatedPoint> = shown.collect();
        let one_program = shown
            .windows(2)
            .all(|pair| pair[0].program == pair[1].program);
        let svg = match one_program {
            true => by_holes(title, &shown),
            false => by_program(title, &shown),
        };
        vec![Figure::new("of-ideal", title, svg)]
    }
}

fn lie(point: &PerforatedPoint) -> &'static str {
    match point.clustered {
        true => "clustered",
        false => "dispersed",
    }
}

/// Share of ideal by holes: lines of one program.
fn by_holes(title: &str, shown: &[&PerforatedPoint]) -> String {
    let mut series: Vec<Series> = Vec::new();
    for p in shown {
        let on = if p.virtualised { "virtual" } else { "native" };
        let name = format!("{}, {on}", lie(p));
        let point = (p.holes_per_region, p.of_ideal.mean);
        match series.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => series.push(line(&name, [point])),
        }
    }
    let mut chart = lines(
        title,
        [
            ("holes in 2 MB", Unit::Plain),
            ("speed, ideal = 100 %", Unit::Percent),
        ],
        series,
    );
    chart.y_max = Some(1.0);
    chart.to_svg()
}

/// Share of ideal by program, native.
fn by_program(title: &str, shown: &[&PerforatedPoint]) -> String {
    let mut bars = Bars::new(title, Unit::Percent);
    for p in shown.iter().filter(|p| !p.virtualised) {
        let series = format!("{:.0} {}", p.holes_per_region, lie(p));
        let bar = with_interval(p.of_ideal.mean, p.of_ideal.ci95, None);
        bars.put(&p.program, &series, bar);
    }
    bars.svg()
}

/// The points with what sums them up.
fn sweep(
    params: &PerforatedParams,
    points: Vec<PerforatedPoint>,
    variants: Vec<VariantPoint>,
) -> PerforatedSweep {
    let clustered = points
        .iter()
        .filter(|p| p.clustered && p.used && !p.virtualised);
    let clustered: Vec<f64> = clustered.map(|p| p.of_ideal.mean).collect();
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = clustered.iter().copied().fold(0.0, f64::max);
    let over: Vec<f64> = points.iter().map(|p| p.over_conventional.mean).collect();
    PerforatedSweep {
        machine: params.machine.to_string(),
        seeds: params.seeds.clone(),
        clustered_of_ideal: (!clustered.is_empty()).then(|| [least(&clustered), most]),
        least_over_conventional: (!over.is_empty()).then(|| least(&over)),
        points,
        variants,
    }
}
