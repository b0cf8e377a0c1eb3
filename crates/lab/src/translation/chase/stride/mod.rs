// SPDX-License-Identifier: MIT OR Apache-2.0
//! This machine's translation, part by part: chains of dependent loads at strides, measured and
//! simulated.
//!
//! Of a strided chain it is known which sets of a TLB, which tables and which entries it uses, so
//! that each part of translation has a curve on which it alone decides ([`fit`]). Three kinds of
//! memory take the host's part from the guest's: 2 MB pages, the same frames in 4 KB pages, and
//! 4 KB pages wherever the kernel has some. Random loads, of which nothing is fitted but the caches
//! behind the second level, are predicted.

mod fit;
mod geometry;
mod measure;
mod model;
mod shapes;

pub use fit::StrideFit;
pub use shapes::{Calibrates, StrideCurve, StrideParams, StridePoint, StrideShape, WalkWay};

use super::{Candidate, Dearer, Fit, LatencyCurve, Turn, chosen, earlier_or, turns};
use crate::charts::{line, lines};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines::MachineChoice;
use crate::needs::{load_average, meminfo_bytes};
use crate::stop;
use ample_host::{LoadPattern, PageBacking, Processor, Root, clock_ghz};
use ample_machine::MachineConfig;
use ample_report::{Series, Unit};
use anyhow::{Context, Result};
use fit::{Calibrated, Calibration};
use serde::{Deserialize, Serialize};

/// A way to walk that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalksTried {
    pub walks: WalkWay,
    /// What is calibrated with it.
    pub fit: StrideFit,
}

#[derive(Serialize, Deserialize)]
struct Earlier {
    processor: Processor,
    clock_ghz: f64,
    load_before: Option<f64>,
    load_after: Option<f64>,
    curves: Vec<StrideCurve>,
    random: Vec<LatencyCurve>,
}

/// Strided and random loads, measured and simulated, and what was calibrated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stride {
    pub processor: Processor,
    /// Its clock while busy, GHz.
    pub clock_ghz: f64,
    /// Preset of the model; None: no preset fits this processor and nothing was simulated.
    pub preset: Option<String>,
    /// Why there is no model, or how far the preset fits.
    pub preset_note: String,
    /// One-minute load average before the measurement.
    pub load_before: Option<f64>,
    /// One-minute load average after it.
    pub load_after: Option<f64>,
    pub seed: u64,
    /// The ways to walk that were tried with everything calibrated, the one taken first.
    pub walks: Vec<WalksTried>,
    /// Error of the host's curve with each of the hosts that were tried, percent.
    pub host_errors_percent: Vec<f64>,
    /// What was calibrated of the caches behind the second level and of memory, on random loads of
    /// all lines of 2 MB pages.
    pub caches: Option<Fit>,
    pub curves: Vec<StrideCurve>,
    /// Random loads: predicted but for the 2 MB curve over all lines.
    pub random: Vec<LatencyCurve>,
    /// Where curves of random loads turn.
    pub turns: Vec<Turn>,
    /// What random loads cost more with 4 KB than with 2 MB pages.
    pub dearer: Vec<Dearer>,
}

/// This machine's translation against its model.
pub struct StridedChase;

impl Experiment for StridedChase {
    type Parameters = StrideParams;
    type Outcome = Stride;

    fn run(params: &StrideParams, progress: Progress<'_>) -> Result<Stride> {
        let now = || measure_now(params);
        let earlier: Earlier = earlier_or(params.measured.as_deref(), &params.machine, now)?;
        progress(0.5);
        let (choice, preset_note) = chosen(&params.machine, &earlier.processor);
        let machine = choice.as_ref().map(MachineChoice::read).transpose()?;
        let mut stride = Stride {
            processor: earlier.processor,
            clock_ghz: earlier.clock_ghz,
            preset: choice.map(|choice| choice.to_string()),
            preset_note,
            load_before: earlier.load_before,
            load_after: earlier.load_after,
            seed: params.seed,
            curves: earlier.curves,
            random: earlier.random,
            ..Stride::default()
        };
        if let Some(machine) = machine {
            stop::until_stopped(|| simulate(params, machine, &mut stride)).transpose()?;
        }
        Ok(stride)
    }
}

fn measure_now(params: &StrideParams) -> Result<Earlier> {
    let processor =
        Processor::read(&Root::live()).context("finding out which processor this is")?;
    let random = params.random();
    let sizes = super::sizes(&random, meminfo_bytes("MemAvailable"))?;
    let (clock_ghz, load_before) = (clock_ghz(), load_average());
    let curves = measure::curves(params)?;
    let random = super::measure::curves(&random, &sizes)?.curves;
    Ok(Earlier {
        processor,
        clock_ghz,
        load_before,
        load_after: load_average(),
        curves,
        random,
    })
}

/// Rounds of calibrating translation with the caches found and the caches with the translation
/// found.
const CALIBRATION_ROUNDS: u32 = 2;

/// Calibrates, and fills in the model's side of every curve.
fn simulate(params: &StrideParams, mut machine: MachineConfig, stride: &mut Stride) -> Result<()> {
    machine.core.ghz = stride.clock_ghz;
    let random = params.random();
    let large = |c: &LatencyCurve| c.backing == PageBacking::Thp && c.pattern == LoadPattern::Lines;
    let large = stride.random.iter().position(large);
    let large = large.context("no random loads of 2 MB pages; allow transparent huge pages")?;
    let Calibrated { mut machine, fit } = fit::levels(&machine, &stride.curves)?;
    let nested = match stride.processor.virtualised {
        true => host(params, &machine, &fit, stride)?,
        false => WalkWay::Native,
    };
    let mut best = None;
    for _ in 0..CALIBRATION_ROUNDS {
        let found = calibration(params, &stride.curves, &machine, &nested).all(fit)?;
        let candidate = Candidate {
            machine: found.machine.clone(),
            host: nested.host(),
            translation: None,
        };
        let (caches, curve) =
            candidate.calibrate(&random, &stride.processor, &stride.random[large])?;
        caches.apply(&mut machine);
        stride.random[large] = curve;
        best = Some((found, caches));
    }
    let Some((_, caches)) = best else {
        return Ok(());
    };
    let found = calibration(params, &stride.curves, &machine, &nested).all(fit)?;
    stride.walks = vec![WalksTried {
        walks: nested,
        fit: found.fit,
    }];
    if stride.processor.virtualised {
        let shadow = calibration(params, &stride.curves, &machine, &WalkWay::Shadow).all(fit)?;
        stride.walks.push(WalksTried {
            walks: WalkWay::Shadow,
            fit: shadow.fit,
        });
    }
    predict(params, &found, &nested, (&caches, large), stride)
}

fn calibration<'a>(
    params: &'a StrideParams,
    curves: &'a [StrideCurve],
    machine: &'a MachineConfig,
    walks: &'a WalkWay,
) -> Calibration<'a> {
    Calibration {
        params,
        curves,
        machine,
        walks,
    }
}

/// The host whose pages fit their curve best.
fn host(
    params: &StrideParams,
    machine: &MachineConfig,
    fit: &StrideFit,
    stride: &mut Stride,
) -> Result<WalkWay> {
    let mut best: Option<(f64, WalkWay)> = None;
    for &host in &params.host_pages {
        let (walks, mut fit) = (WalkWay::Nested(host), *fit);
        let calibration = calibration(params, &stride.curves, machine, &walks);
        calibration.walker(&mut fit)?;
        let error = calibration.error(&fit, Calibrates::Host)?;
        stride.host_errors_percent.push(error);
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, walks));
        }
    }
    let best = best.context("host_pages lists no pages of the host; give at least one")?;
    Ok(best.1)
}

/// Fills in the model's side of all curves but the random one that was calibrated on.
fn predict(
    params: &StrideParams,
    found: &Calibrated,
    walks: &WalkWay,
    (caches, large): (&Fit, usize),
    stride: &mut Stride,
) -> Result<()> {
    let (machine, random) = (&found.machine, params.random());
    for curve in &mut stride.curves {
        model::fill(params, machine, walks, found.fit.loop_ns, curve)?;
    }
    for (at, curve) in stride.random.iter_mut().enumerate() {
        if at != large {
            let host = walks.host();
            super::model::fill(&random, machine, caches.loop_ns, host.as_ref(), curve)?;
        }
    }
    stride.turns = turns::all(&stride.random, machine, caches);
    stride.dearer = turns::dearer(&stride.random);
    stride.caches = Some(*caches);
    Ok(())
}

impl Outcome for Stride {
    const SCHEMA: &'static str = "ample.sim.chase-stride/1";

    fn figures(&self) -> Vec<Figure> {
        let by_nodes = "Latency of strided loads, ns, by pages";
        let by_stride = "Latency of strided loads, ns, by stride";
        let over = |s: &StrideShape| s.stride_pages.len() == 1;
        vec![
            self.figure("pages", by_nodes, "log2 of pages", over, |p| p.nodes),
            self.figure(
                "stride",
                by_stride,
                "log2 of pages from one to the next",
                |s| !over(s),
                |p| p.stride_pages,
            ),
        ]
    }
}

impl Stride {
    /// Measured and simulated curves that `shown` takes.
    fn figure(
        &self,
        id: &str,
        title: &str,
        axis: &str,
        shown: impl Fn(&StrideShape) -> bool,
        at: impl Fn(&StridePoint) -> u64,
    ) -> Figure {
        let mut series = Vec::new();
        for curve in self.curves.iter().filter(|curve| shown(&curve.shape)) {
            let at = |p: &StridePoint| (at(p) as f64).log2();
            let points = || curve.points.iter();
            let measured = points().map(|p| (at(p), p.measured_ns));
            let range = points().map(|p| (p.measured_ns, p.measured_max_ns));
            series.push(Series {
                band: range.collect(),
                ..line(&format!("{} measured", curve.shape.name), measured)
            });
            let model = points().filter_map(|p| Some((at(p), p.model_ns?)));
            series.push(line(&format!("{} model", curve.shape.name), model));
        }
        let axes = [(axis, Unit::Plain), ("ns a load", Unit::Plain)];
        Figure::new(id, title, lines(title, axes, series).to_svg())
    }
}
