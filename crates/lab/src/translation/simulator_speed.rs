// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the simulator itself runs, in processor time of this thread: accesses a second of
//! functional runs, instructions a second of the timed core, both on 4 KB pages. Machines differ
//! and so do hours: what compares is the ratio to the naive model, in turns.

use super::naive::Naive;
use crate::charts::{Bars, with_range};
use crate::experiment::{Experiment, Figure, Outcome, Progress, Text};
use crate::machines::MachineChoice;
use crate::needs::load_average;
use crate::progress::Steps;
use crate::stop;
use ample_kit::statistics::MedianRange;
use ample_machine::MachineConfig;
use ample_machine::run_functional;
use ample_report::Unit;
use ample_trace::programs::{Gups, PointerChase, Stream};
use ample_trace::{Consumer, Program, Recorder};
use ample_translate::{Engine, PageSize, schemes};
use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

/// Programs, footprints and rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatorSpeedParams {
    /// A preset or a file, and fields of it that are changed.
    pub machine: MachineChoice,
    /// Programs: gups, "gups, loads only", stream, chase.
    pub programs: Vec<String>,
    /// Functional (false), with the timed core (true), or both.
    pub timed: Vec<bool>,
    /// Footprint of GUPS and of the chase, bytes.
    pub gups_bytes: u64,
    /// Footprint of the stream, bytes.
    pub stream_bytes: u64,
    /// Accesses of a functional round.
    pub functional_accesses: u64,
    /// Accesses of a timed round.
    pub timed_accesses: u64,
    /// Rounds counted; one more goes before.
    pub rounds: u32,
    pub seed: u64,
}

/// One program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatorSpeedRow {
    pub program: Text,
    /// With the timed core (else functional).
    pub timed: bool,
    /// What is counted: accesses, or instructions with the timed core.
    pub unit: Text,
    /// So many a second of processor time: median of the rounds.
    pub per_s: f64,
    /// The slowest round.
    pub per_s_min: f64,
    /// The fastest round.
    pub per_s_max: f64,
    /// The bar, if there is one.
    pub bar_per_s: Option<f64>,
    /// Data walks an access.
    pub walks_per_access: f64,
}

/// The simulator against the naive model on GUPS: accesses a second over its.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverNaive {
    /// With the timed core (else functional).
    pub timed: bool,
    /// Of the rounds, in each of which all run in turn.
    pub ratio: MedianRange,
    /// The bar.
    pub bar: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatorSpeeds {
    /// The machine, as the parameters name it.
    pub machine: String,
    /// Load average of this machine at the start (one minute), as far as it can be read.
    pub load_average: Option<f64>,
    pub seed: u64,
    pub rows: Vec<SimulatorSpeedRow>,
    /// Functional and timed; empty without GUPS.
    pub over_naive: Vec<OverNaive>,
}

/// Processor time of this thread so far: unlike wall time it is not disturbed by other processes.
fn cpu_ns() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split(' ').next().and_then(|ns| ns.parse().ok());
    first.ok_or_else(|| anyhow!("/proc/thread-self/schedstat gives no processor time"))
}

/// What a round counted, and its processor time.
type Round = (u64, u64);

/// Runs all rounds of one program; `round` gives what it counted.
fn rounds(
    params: &SimulatorSpeedParams,
    program: &mut dyn Program,
    mut round: impl FnMut(&mut dyn Program) -> Result<u64>,
) -> Result<Vec<Round>> {
    let one = |_| {
        stop::checkpoint();
        let start = cpu_ns()?;
        Ok((round(program)?, cpu_ns()? - start))
    };
    (0..=params.rounds).map(one).collect()
}

fn functional(
    params: &SimulatorSpeedParams,
    program: &mut dyn Program,
) -> Result<(Vec<Round>, f64)> {
    let machine = params.machine.read()?;
    let mut engine = mapped(&machine, program)?;
    let accesses = params.functional_accesses;
    let rounds = rounds(params, program, |program| {
        run_functional(&mut engine, program, accesses)
    })?;
    Ok((rounds, engine.mmu.stats.walk_ratio()))
}

fn timed(params: &SimulatorSpeedParams, program: &mut dyn Program) -> Result<(Vec<Round>, f64)> {
    let machine = params.machine.read()?;
    let mut core = machine.core(mapped(&machine, program)?)?;
    let rounds = rounds(params, program, |program| {
        core.start_measuring();
        recorded(&mut core, program, params.timed_accesses);
        core.settle();
        Ok(core.report().instructions)
    })?;
    Ok((rounds, core.engine.mmu.stats.walk_ratio()))
}

fn mapped(machine: &MachineConfig, program: &dyn Program) -> Result<Engine> {
    let mut engine = machine.engine(schemes::by_name("paging").map_err(|e| anyhow!(e))?)?;
    for region in program.regions() {
        engine.premap(region.base, region.bytes, PageSize::K4)?;
    }
    Ok(engine)
}

/// Accesses a second over those of the naive model, functional and timed, from the processor time
/// of as many accesses of GUPS by each, round by round.
fn over_naive(params: &SimulatorSpeedParams) -> Result<Vec<OverNaive>> {
    let machine = params.machine.read()?;
    let mut programs = [0; 3].map(|_| program(params, "gups"));
    let mut engine = mapped(&machine, programs[0].as_ref())?;
    let mut core = machine.core(mapped(&machine, programs[0].as_ref())?)?;
    let mut naive = Naive::new(&machine.mmu)?;
    for region in programs[0].regions() {
        let pages = (region.base..region.end()).step_by(4096);
        pages.for_each(|va| naive.map(va));
    }
    let accesses = params.timed_accesses;
    let mut ratios = [Vec::new(), Vec::new()];
    for round in 0..=params.rounds {
        stop::checkpoint();
        let starts = cpu_ns()?;
        recorded(&mut naive, programs[0].as_mut(), accesses);
        let naive_ends = cpu_ns()?;
        run_functional(&mut engine, programs[1].as_mut(), accesses)?;
        let functional_ends = cpu_ns()?;
        recorded(&mut core, programs[2].as_mut(), accesses);
        core.settle();
        let ends = cpu_ns()?;
        // The first warms up.
        if round > 0 {
            let over = |ns: u64| (naive_ends - starts) as f64 / ns.max(1) as f64;
            ratios[0].push(over(functional_ends - naive_ends));
            ratios[1].push(over(ends - functional_ends));
        }
    }
    let bars = [(false, 4.0), (true, 1.5)];
    let of = |((timed, bar), ratios)| {
        let ratio = MedianRange::of(ratios).context("rounds is 0, but must be at least 1")?;
        Ok(OverNaive { timed, ratio, bar })
    };
    bars.into_iter().zip(ratios).map(of).collect()
}

fn recorded(consumer: &mut dyn Consumer, program: &mut dyn Program, accesses: u64) {
    let mut recorder = Recorder::new(consumer, accesses);
    program.run(&mut recorder);
    recorder.flush();
}

/// The programs: name, timed or functional, bar.
type Entry = (&'static str, bool, Option<f64>);

const ENTRIES: [Entry; 6] = [
    ("gups", false, Some(20e6)),
    ("gups, loads only", false, None),
    ("stream", false, None),
    ("gups", true, Some(10e6)),
    ("chase", true, None),
    ("stream", true, Some(30e6)),
];

fn program(params: &SimulatorSpeedParams, name: &str) -> Box<dyn Program> {
    let (bytes, seed) = (params.gups_bytes, params.seed);
    match name {
        "gups" => Box::new(Gups::new(bytes, seed)),
        "chase" => Box::new(PointerChase::new(bytes, 64, 28, seed)),
        "stream" => Box::new(Stream::new(params.stream_bytes)),
        _ => Box::new(Gups::reads(bytes, seed)),
    }
}

fn row(
    (program, timed, bar_per_s): Entry,
    rounds: &[Round],
    walks_per_access: f64,
) -> Option<SimulatorSpeedRow> {
    // The first warms up.
    let rate = |&(count, ns): &Round| count as f64 * 1e9 / ns.max(1) as f64;
    let mut rates: Vec<f64> = rounds.iter().skip(1).map(rate).collect();
    rates.sort_by(f64::total_cmp);
    Some(SimulatorSpeedRow {
        program: program.into(),
        timed,
        unit: if timed { "instructions" } else { "accesses" }.into(),
        per_s: *rates.get(rates.len() / 2)?,
        per_s_min: *rates.first()?,
        per_s_max: *rates.last()?,
        bar_per_s,
        walks_per_access,
    })
}

/// How fast the simulator runs.
pub struct SimulatorSpeed;

impl Experiment for SimulatorSpeed {
    type Parameters = SimulatorSpeedParams;
    type Outcome = SimulatorSpeeds;

    fn run(params: &SimulatorSpeedParams, progress: Progress<'_>) -> Result<SimulatorSpeeds> {
        ensure!(params.rounds > 0, "rounds is 0, but must be at least 1");
        for name in &params.programs {
            let known = || ENTRIES.map(|(known, ..)| known).join("; ");
            ensure!(
                ENTRIES.iter().any(|(program, ..)| program == name),
                "there is no program '{name}' here; known: {}",
                known()
            );
        }
        let load_average = load_average();
        let wanted = |&(name, timed, _): &Entry| {
            params.programs.iter().any(|program| program == name) && params.timed.contains(&timed)
        };
        let steps = Steps::new(
            progress,
            ENTRIES.iter().filter(|entry| wanted(entry)).count(),
        );
        let rows = stop::collect(|rows| {
            for entry in ENTRIES.into_iter().filter(wanted) {
                let mut program = program(params, entry.0);
                let (rounds, walks) = match entry.1 {
                    true => timed(params, program.as_mut())?,
                    false => functional(params, program.as_mut())?,
                };
                rows.extend(row(entry, &rounds, walks));
                steps.step();
            }
            Ok(())
        })?;
        let gups = params.programs.iter().any(|program| program == "gups");
        let over_naive = stop::collect(|all| {
            if gups {
                all.extend(over_naive(params)?);
            }
            Ok(())
        })?;
        Ok(SimulatorSpeeds {
            over_naive,
            machine: params.machine.to_string(),
            load_average,
            seed: params.seed,
            rows,
        })
    }
}

impl Outcome for SimulatorSpeeds {
    const SCHEMA: &'static str = "ample.sim.simulator-speed/2";

    fn figures(&self) -> Vec<Figure> {
        let title = "Speed of the simulator a second of processor time (mark: the project's bar)";
        let mut bars = Bars::new(title, Unit::Count);
        for row in &self.rows {
            let what = match row.timed {
                true => "timed, instructions",
                false => "functional, accesses",
            };
            let bar = with_range(row.per_s, row.per_s_min, row.per_s_max, row.bar_per_s);
            bars.put(&row.program, what, bar);
        }
        vec![Figure::new("speed", title, bars.svg())]
    }
}
