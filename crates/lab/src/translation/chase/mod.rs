// SPDX-License-Identifier: MIT OR Apache-2.0
//! This machine against its model: latency of dependent random loads over a growing footprint
//! with 4 KB, 2 MB and 1 GB pages, measured here and simulated with this processor's preset.
//!
//! Loads go to all lines, or to one line of each page. Each parameter is calibrated on one kind of
//! curve: on loads of one line a page the host's page size and what its walks cost
//! ([`translation`]); on loads of all lines of 2 MB pages size and latency of the last-level cache
//! and latency of memory ([`fit`]). Loads of all lines of 4 KB and of 1 GB pages are predictions.

mod fit;
mod frames;
mod measure;
mod model;
mod preset;
pub(crate) mod stride;
mod translation;
mod turns;

pub use fit::Fit;
pub use measure::{ChaseParams, LatencyCurve, LatencyPoint};
pub use preset::preset_of;
pub use translation::TranslationFit;
pub use turns::{Dearer, Turn};

use crate::charts::{line, lines};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines::{self, MachineChoice};
use crate::needs::{load_average, meminfo_bytes};
use crate::setup::HostPages;
use crate::stop;
use ample_host::{LoadPattern, PageBacking, Processor, Root, clock_ghz};
use ample_machine::MachineConfig;
use ample_report::{Series, Unit};
use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What an earlier result is read for.
#[derive(PartialEq, Serialize, Deserialize)]
struct Earlier {
    processor: Processor,
    clock_ghz: f64,
    load_before: Option<f64>,
    load_after: Option<f64>,
    curves: Vec<LatencyCurve>,
    missing: Vec<String>,
}

/// The result. Times are ns a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chase {
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
    /// What was calibrated of caches and memory.
    pub fit: Option<Fit>,
    /// What was calibrated of translation; None without curves of one line a page.
    pub translation: Option<TranslationFit>,
    /// Share of 2 MB pages of the host in the model, by the error of loads of one line a page, or
    /// without them of the 2 MB curve.
    pub host_share_2m: Option<f64>,
    /// The host of the model has 1 GB pages, by the same.
    pub host_huge_1g: Option<bool>,
    /// That error with each of the hosts that were tried, percent.
    pub host_errors_percent: Vec<f64>,
    pub seed: u64,
    /// One curve a page size and pattern.
    pub curves: Vec<LatencyCurve>,
    /// Where measured and simulated curves turn.
    pub turns: Vec<Turn>,
    /// What 4 KB pages cost beyond 2 MB pages.
    pub dearer: Vec<Dearer>,
    /// Page sizes that could not be measured, with the reason.
    pub missing: Vec<String>,
}

/// Share of the available memory that one range may take.
const MEMORY_SHARE: f64 = 0.45;

/// This machine against its model.
pub struct ChaseLatency;

impl Experiment for ChaseLatency {
    type Parameters = ChaseParams;
    type Outcome = Chase;

    fn run(params: &ChaseParams, progress: Progress<'_>) -> Result<Chase> {
        let now = || measure_now(params);
        let earlier: Earlier = earlier_or(params.measured.as_deref(), &params.machine, now)?;
        progress(0.6);
        let (choice, preset_note) = chosen(&params.machine, &earlier.processor);
        let machine = choice.as_ref().map(MachineChoice::read).transpose()?;
        let mut chase = Chase {
            processor: earlier.processor,
            clock_ghz: earlier.clock_ghz,
            preset: choice.map(|choice| choice.to_string()),
            preset_note,
            load_before: earlier.load_before,
            load_after: earlier.load_after,
            seed: params.seed,
            curves: earlier.curves,
            missing: earlier.missing,
            ..Chase::default()
        };
        if let Some(machine) = machine {
            stop::until_stopped(|| simulate(params, machine, &mut chase)).transpose()?;
        }
        Ok(chase)
    }
}

impl Outcome for Chase {
    const SCHEMA: &'static str = "ample.sim.chase/2";

    fn figures(&self) -> Vec<Figure> {
        let all = "Latency of dependent random loads, ns, by footprint";
        let pages = "Latency of dependent random loads of one line a page, ns, by footprint";
        vec![
            self.figure("latency", all, LoadPattern::Lines),
            self.figure("translation", pages, LoadPattern::Pages),
        ]
    }
}

impl Chase {
    /// Measured and simulated curves of one pattern.
    fn figure(&self, id: &str, title: &str, pattern: LoadPattern) -> Figure {
        let at = |p: &LatencyPoint| (p.footprint_bytes as f64).log2();
        let mut series = Vec::new();
        for curve in self.curves.iter().filter(|c| c.pattern == pattern) {
            let name = match curve.backing {
                PageBacking::Small => "4 KB",
                PageBacking::Thp => "2 MB",
                _ => "1 GB",
            };
            let points = || curve.points.iter();
            let range = points().map(|p| (p.measured_ns, p.measured_max_ns));
            series.push(Series {
                band: range.collect(),
                ..line(
                    &format!("{name} measured"),
                    points().map(|p| (at(p), p.measured_ns)),
                )
            });
            let model = points().filter_map(|p| Some((at(p), p.model_ns?)));
            series.push(line(&format!("{name} model"), model));
        }
        let chart = lines(
            title,
            [("memory used", Unit::Log2Bytes), ("ns a load", Unit::Plain)],
            series,
        );
        Figure::new(id, title, chart.to_svg())
    }
}

/// The measured side of an earlier result (JSON) where there is one, else what `now` measures.
fn earlier_or<E: DeserializeOwned>(
    measured: Option<&Path>,
    machine: &MachineChoice,
    now: impl FnOnce() -> Result<E>,
) -> Result<E> {
    let Some(path) = measured else {
        // A wrong name is told before minutes of measuring.
        if machine.from != machines::AUTO {
            machine.read()?;
        }
        return now();
    };
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is no result of this experiment", path.display()))
}

/// The machine of the model, if there is one for this processor, and why or how far it fits.
fn chosen(machine: &MachineChoice, processor: &Processor) -> (Option<MachineChoice>, String) {
    let (preset, note) = match machine.from.as_str() {
        machines::AUTO => preset_of(processor),
        name => (Some(name.to_owned()), "chosen by the parameters".into()),
    };
    let choice = preset.map(|from| MachineChoice {
        from,
        set: machine.set.clone(),
    });
    (choice, note)
}

/// Measures all page sizes.
fn measure_now(params: &ChaseParams) -> Result<Earlier> {
    let root = Root::live();
    let processor = Processor::read(&root).context("finding out which processor this is")?;
    let sizes = sizes(params, meminfo_bytes("MemAvailable"))?;
    let clock_ghz = clock_ghz();
    let load_before = load_average();
    let measured = measure::curves(params, &sizes)?;
    Ok(Earlier {
        processor,
        clock_ghz,
        load_before,
        load_after: load_average(),
        curves: measured.curves,
        missing: measured.missing,
    })
}

/// Fills in the model's side of every curve.
fn simulate(params: &ChaseParams, mut machine: MachineConfig, chase: &mut Chase) -> Result<()> {
    machine.core.ghz = chase.clock_ghz;
    let all_lines = |c: &LatencyCurve| c.pattern == LoadPattern::Lines;
    let large = |c: &LatencyCurve| c.backing == PageBacking::Thp && all_lines(c);
    let Some(large) = chase.curves.iter().position(large) else {
        bail!(
            "without 2 MB pages there is nothing to calibrate the model on; \
             set transparent_hugepage to madvise"
        );
    };
    let candidates: Vec<Option<HostPages>> = match chase.processor.virtualised {
        true => params.host_pages.iter().copied().map(Some).collect(),
        false => vec![None],
    };
    ensure!(
        !candidates.is_empty(),
        "host_pages lists no pages of the host; give at least one"
    );
    let loop_ns = fit::loop_ns(&chase.curves[large].points, &machine);
    let mut best: Option<(f64, Candidate)> = None;
    for &host in &candidates {
        let tried = Candidate::of(params, &machine, loop_ns, host, &chase.curves)?;
        let error = match &tried.translation {
            Some(translation) => translation.residual_percent,
            None => {
                let (_, curve) = tried.calibrate(params, &chase.processor, &chase.curves[large])?;
                curve.mean_error_percent.unwrap_or(f64::INFINITY)
            }
        };
        chase.host_errors_percent.push(error);
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            best = Some((error, tried));
        }
    }
    let Some((_, best)) = best else {
        return Ok(());
    };
    let (fit, curve) = best.calibrate(params, &chase.processor, &chase.curves[large])?;
    chase.host_share_2m = best.host.map(|host| host.share_2m);
    chase.host_huge_1g = best.host.map(|host| host.huge_1g);
    chase.translation = best.translation;
    chase.curves[large] = curve;
    let mut machine = best.machine;
    fit.apply(&mut machine);
    for (at, curve) in chase.curves.iter_mut().enumerate() {
        if at != large {
            model::fill(params, &machine, fit.loop_ns, best.host.as_ref(), curve)?;
        }
    }
    chase.turns = turns::all(&chase.curves, &machine, &fit);
    chase.dearer = turns::dearer(&chase.curves);
    chase.fit = Some(fit);
    Ok(())
}

/// A host that is tried, and what is calibrated with it.
struct Candidate {
    /// The machine with the calibrated translation.
    machine: MachineConfig,
    host: Option<HostPages>,
    translation: Option<TranslationFit>,
}

impl Candidate {
    fn of(
        params: &ChaseParams,
        machine: &MachineConfig,
        loop_ns: f64,
        host: Option<HostPages>,
        curves: &[LatencyCurve],
    ) -> Result<Candidate> {
        let mut machine = machine.clone();
        let translation = translation::fit(params, &machine, loop_ns, host.as_ref(), curves)?;
        if let Some(translation) = &translation {
            translation.apply(&mut machine);
        }
        Ok(Candidate {
            machine,
            host,
            translation,
        })
    }

    /// Calibrates caches and memory on the 2 MB curve; it comes back with the model's side filled
    /// in. What 2 MB pages still cost is the model's to say, so it is taken off the measured times
    /// before they are fitted.
    fn calibrate(
        &self,
        params: &ChaseParams,
        processor: &Processor,
        measured: &LatencyCurve,
    ) -> Result<(Fit, LatencyCurve)> {
        let named = processor.cache_bytes(3);
        let mut bare = measured.points.clone();
        let mut round = 0;
        loop {
            let fit = fit::fit(&bare, params.fit_below_bytes, &self.machine, named)?;
            let mut fitted = self.machine.clone();
            fit.apply(&mut fitted);
            let mut curve = measured.clone();
            model::fill(params, &fitted, fit.loop_ns, self.host.as_ref(), &mut curve)?;
            round += 1;
            if round == CALIBRATION_ROUNDS || stop::requested() {
                return Ok((fit, curve));
            }
            for (bare, point) in bare.iter_mut().zip(&curve.points) {
                let translation =
                    point.model_ns.unwrap_or(0.0) - fit.formula_ns(point.footprint_bytes, &fitted);
                bare.measured_ns = (point.measured_ns - translation).max(0.5 * point.measured_ns);
            }
        }
    }
}

/// Rounds of taking the model's own translation costs out of the curve before fitting it again.
const CALIBRATION_ROUNDS: u32 = 3;

/// The footprints: doublings from the smallest to the largest that memory allows.
fn sizes(params: &ChaseParams, available: Option<u64>) -> Result<Vec<u64>> {
    ensure!(
        params.min_bytes >= 4096 && params.min_bytes.is_power_of_two(),
        "min_bytes is {}, but must be a power of two from 4096",
        params.min_bytes
    );
    ensure!(
        params.rounds > 0 && params.hops > 0,
        "rounds and hops must be at least 1"
    );
    let room = available.map_or(u64::MAX, |bytes| (bytes as f64 * MEMORY_SHARE) as u64);
    let most = params.max_bytes.min(room);
    let sizes: Vec<u64> = (0..40)
        .map(|doubling| params.min_bytes << doubling)
        .take_while(|&bytes| bytes <= most)
        .collect();
    ensure!(
        sizes.len() >= 4,
        "{most} bytes of memory leave fewer than four footprints; free some or lower min_bytes"
    );
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> ChaseParams {
        crate::shipped_parameters("chase", false).expect("shipped")
    }

    #[test]
    fn footprints_double_and_fit_into_memory() {
        let all = sizes(&params(), None).unwrap();
        assert_eq!(all.last(), Some(&(8 << 30)));
        assert!(all.windows(2).all(|w| w[1] == 2 * w[0]));
        let few = sizes(&params(), Some(1 << 30)).unwrap();
        assert_eq!(few.last(), Some(&(256 << 20)));
        let none = sizes(&params(), Some(32 << 10)).unwrap_err().to_string();
        assert!(none.contains("fewer than four"), "{none}");
    }

    /// A machine made up by a formula: calibration gives its latencies back, and the simulation
    /// comes close to every footprint of the 2 MB curve.
    #[test]
    fn the_model_of_a_made_up_machine_follows_its_curve() {
        let mut machine = MachineConfig::preset("sapphire-rapids").unwrap();
        machine.core.ghz = 2.5;
        let curve = |backing| LatencyCurve {
            backing,
            pattern: LoadPattern::Lines,
            scatter: None,
            thp_share: None,
            points: fit::tests::curve_of(&machine, 4 << 20, 12),
            mean_error_percent: None,
            max_error_percent: None,
        };
        let mut chase = Chase {
            processor: Processor {
                caches: vec![ample_host::CacheShape {
                    level: 3,
                    bytes: 8 << 20,
                    ways: 16,
                }],
                ..Processor::default()
            },
            clock_ghz: 2.5,
            seed: 1,
            curves: vec![curve(PageBacking::Small), curve(PageBacking::Thp)],
            ..Chase::default()
        };
        let params = ChaseParams {
            model_accesses: 50_000,
            ..params()
        };
        simulate(&params, machine.clone(), &mut chase).unwrap();
        assert_eq!(chase.fit.map(|fit| fit.llc_bytes), Some(4 << 20));
        let large = &chase.curves[1];
        assert!(large.max_error_percent.unwrap() < 12.0, "{large:?}");
        // 4 KB pages cost more than the formula, which knows no translation.
        assert!(chase.curves[0].points[11].error_percent.unwrap() > 1.0);
        let names: Vec<&str> = chase.turns.iter().map(|t| t.what.as_str()).collect();
        assert_eq!(names.len(), 6, "{names:?}");
    }
}
