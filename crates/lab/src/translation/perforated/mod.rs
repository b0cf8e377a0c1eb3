// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perforated Pages: speed on fragmented memory against 4 KB pages, conventional 2 MB + 4 KB,
//! GTSM and ideal 2 MB allocation, over the share of fragmented regions, the share of holes, how
//! they lie, whether they are used, native and virtualised.

mod holes;
mod speeds;
mod variants;

pub use holes::{Fragmentation, MappingPolicy};
pub use speeds::Baselines;
pub(super) use speeds::{blocks_of, speeds};
pub use variants::VariantPoint;

use super::runs::Recording;
use crate::charts::{Bars, line, lines, plain};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines;
use crate::progress::Steps;
use crate::setup::Length;
use crate::stop;
use ample_machine::MachineConfig;
use ample_report::{Series, Unit};
use ample_trace::{Program, Replay};
use ample_translate::HoleMap;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use speeds::{Form, one};

/// Programs and states of fragmentation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerforatedParams {
    /// Machine preset.
    pub machine: String,
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
    /// Variants of perforated pages to run beside the paper's form, where holes are used.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Length of each run.
    pub length: Length,
    /// Seed of programs and draws.
    pub seed: u64,
}

/// Speeds at one point, instructions a cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerforatedPoint {
    /// Program, as `ample trace` names it.
    pub program: String,
    /// Share of 2 MB regions with holes.
    pub fragmented_share: f64,
    /// Holes in each of them (mean, for real fragmentation).
    pub holes_per_region: f64,
    /// Holes side by side (else spread uniformly).
    pub clustered: bool,
    /// Holes are mapped elsewhere and used (else never allocated).
    pub used: bool,
    /// On a virtual machine whose host is fragmented the same way.
    pub virtualised: bool,
    /// 4 KB pages only.
    pub ipc_small: f64,
    /// 2 MB + 4 KB.
    pub ipc_conventional: f64,
    /// Gap-tolerant sequential mapping.
    pub ipc_gtsm: f64,
    /// Perforated pages.
    pub ipc_perforated: f64,
    /// 2 MB + 4 KB in place, with coalesced TLB entries (CoLT); None on a virtual machine, where
    /// neither of these two is defined.
    pub ipc_colt: Option<f64>,
    /// The same with a range TLB (RMM).
    pub ipc_rmm: Option<f64>,
    /// Ideal 2 MB.
    pub ipc_ideal: f64,
    /// Perforated over ideal.
    pub of_ideal: f64,
    /// Perforated over conventional.
    pub over_conventional: f64,
    /// Bitmap look-ups in 1000 accesses under perforated pages.
    pub bitmap_lookups_per_kilo_access: f64,
    /// Bitmap loads in 1000 accesses.
    pub bitmap_loads_per_kilo_access: f64,
}

/// Speeds over states of fragmentation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerforatedSweep {
    /// Machine preset.
    pub machine: String,
    /// Seed of programs and draws.
    pub seed: u64,
    /// One point a program, state of memory and machine.
    pub points: Vec<PerforatedPoint>,
    /// Least and greatest `of_ideal` for clustered used holes, native; none without such points.
    pub clustered_of_ideal: Option<[f64; 2]>,
    /// Least `over_conventional` of all points; none without points.
    pub least_over_conventional: Option<f64>,
    /// Variants of perforated pages at the points where holes are used.
    pub variants: Vec<VariantPoint>,
}

/// The point of one state of fragmentation; `baselines` are those of one seed.
///
/// # Errors
/// If a run fails.
pub fn point(
    machine: &MachineConfig,
    length: &Length,
    program: &mut Replay,
    fragmentation: &Fragmentation,
    virtualised: bool,
    baselines: &mut Baselines,
) -> Result<PerforatedPoint> {
    let name = program.name().to_owned();
    let known = (baselines, name.as_str());
    let speeds = speeds(machine, length, program, fragmentation, virtualised, known)?;
    let holes = |map: &HoleMap| map.iter().map(|g| f64::from(g.count_ones())).sum::<f64>();
    let fragmented: Vec<f64> = fragmentation
        .blocks
        .iter()
        .map(holes)
        .filter(|&h| h > 0.0)
        .collect();
    let per_kilo = |count: u64| 1000.0 * count as f64 / speeds.counters.accesses as f64;
    Ok(PerforatedPoint {
        program: name,
        fragmented_share: fragmented.len() as f64 / fragmentation.blocks.len() as f64,
        holes_per_region: fragmented.iter().sum::<f64>() / fragmented.len().max(1) as f64,
        clustered: false,
        used: fragmentation.used,
        virtualised,
        ipc_small: speeds.small,
        ipc_conventional: speeds.conventional,
        ipc_gtsm: speeds.gtsm,
        ipc_perforated: speeds.perforated,
        ipc_colt: speeds.colt,
        ipc_rmm: speeds.rmm,
        ipc_ideal: speeds.ideal,
        of_ideal: speeds.perforated / speeds.ideal,
        over_conventional: speeds.perforated / speeds.conventional,
        bitmap_lookups_per_kilo_access: per_kilo(speeds.counters.bitmap_lookups),
        bitmap_loads_per_kilo_access: per_kilo(speeds.counters.bitmap_loads),
    })
}

/// The states of fragmentation of the sweep: clustered, and the state.
fn states(params: &PerforatedParams, blocks: usize) -> Vec<(bool, Fragmentation)> {
    let mut states = Vec::new();
    for (clustered, used) in [(true, true), (false, true), (true, false), (false, false)] {
        for &share in &params.fragmented_shares {
            for &holes in params.holes_per_region.iter().filter(|&&h| used || h < 512) {
                let seed = params.seed;
                let state = Fragmentation::random(blocks, share, holes, clustered, used, seed);
                states.push((clustered, state));
            }
        }
    }
    states
}

/// A sweep over states of fragmentation.
pub struct Perforated;

impl Experiment for Perforated {
    type Parameters = PerforatedParams;
    type Outcome = PerforatedSweep;

    fn run(params: &PerforatedParams, progress: Progress<'_>) -> Result<PerforatedSweep> {
        let machine = machines::named(&params.machine)?;
        ensure!(
            params
                .holes_per_region
                .iter()
                .all(|&h| (1..=512).contains(&h)),
            "a 2 MB region has 1 to 512 holes, not {:?}",
            params.holes_per_region
        );
        let forms = variants::forms(&params.variants)?;
        let recording = Recording {
            scale: &params.scale,
            gups_bytes: params.gups_bytes,
            length: params.length,
            seed: params.seed,
        };
        let length = &params.length;
        let mut known = Baselines::default();
        let mut others = Vec::new();
        let points = stop::collect(|points| {
            for (done, name) in params.programs.iter().enumerate() {
                let mut program = recording.of(name)?;
                let states = states(params, blocks_of(&program));
                let share = |part| progress((done as f64 + part) / params.programs.len() as f64);
                let steps = Steps::new(&share, states.len() * params.virtualised.len());
                let both = params.virtualised.iter();
                for (&virtualised, (clustered, state)) in
                    both.flat_map(|on| states.iter().map(move |state| (on, state)))
                {
                    let program = &mut program;
                    let point = PerforatedPoint {
                        clustered: *clustered,
                        ..point(&machine, length, program, state, virtualised, &mut known)?
                    };
                    let beside =
                        variants::beside(&machine, length, program, state, &point, &forms)?;
                    others.extend(beside);
                    points.push(point);
                    steps.step();
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
        let point = (p.holes_per_region, p.of_ideal);
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
        bars.put(&p.program, &series, plain(p.of_ideal));
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
    let clustered: Vec<f64> = clustered.map(|p| p.of_ideal).collect();
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = clustered.iter().copied().fold(0.0, f64::max);
    let over: Vec<f64> = points.iter().map(|p| p.over_conventional).collect();
    PerforatedSweep {
        machine: params.machine.clone(),
        seed: params.seed,
        clustered_of_ideal: (!clustered.is_empty()).then(|| [least(&clustered), most]),
        least_over_conventional: (!over.is_empty()).then(|| least(&over)),
        points,
        variants,
    }
}
