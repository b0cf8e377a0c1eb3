// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest booted, watched and reported.

use crate::cpu::Cpu;
use crate::file::{ReadEnd, RecordingReader, RecordingWriter};
use crate::follow::{CpuReader, Followed, follow, tail};
use crate::guest::{Guest, Running, build_plugin};
use crate::hardware::{CoreTiming, Hardware, SystemModel};
use crate::names::{Names, init_task};
use crate::report::{SystemRun, Watched, windows};
use crate::sample::{SamplePlan, SamplingReport};
use crate::scratch::Scratch;
use crate::tally::SpaceCounts;
use crate::wire::{CpuEvent, CpuWatcher};
use ample_trace::Access;
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// One simulated CPU for each of the guest's and each scheme; `make` gets the scheme and gives the
/// hardware of all CPUs.
fn simulated<H: Hardware>(
    model: &SystemModel,
    cpus: usize,
    make: impl Fn(&str) -> Result<Vec<H>>,
) -> Result<Vec<Vec<Cpu<H>>>> {
    ensure!(!model.schemes.is_empty(), "no scheme to simulate");
    let mut all: Vec<Vec<Cpu<H>>> = (0..cpus).map(|_| Vec::new()).collect();
    for scheme in &model.schemes {
        for (schemes, hardware) in all.iter_mut().zip(make(scheme)?) {
            schemes.push(Cpu::new(hardware));
        }
    }
    Ok(all)
}

/// What to boot and what to simulate.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// What to boot.
    pub guest: Guest,
    /// What to simulate.
    pub model: SystemModel,
    /// Most wall time.
    pub limit: Duration,
    /// A file to record the words of all rings in.
    pub out: Option<PathBuf>,
}

/// What to simulate of a recording.
#[derive(Clone, Debug)]
pub struct ReplayedMachine {
    /// Where it was recorded.
    pub file: PathBuf,
    /// What to simulate.
    pub model: SystemModel,
}

/// All schemes of one CPU see the same.
impl<H: Hardware> CpuWatcher for Vec<Cpu<H>> {
    #[inline(always)]
    fn access(&mut self, access: Access, kernel: bool) {
        for cpu in self {
            cpu.access(access, kernel);
        }
    }

    fn event(&mut self, event: CpuEvent<'_>) {
        for cpu in self {
            cpu.event(event.clone());
        }
    }
}

/// Address spaces that are told of while a run goes on.
const SPACES_TOLD: usize = 10;

/// Counts of the first scheme so far, for whoever wants to show them.
#[derive(Clone, Debug, Default)]
pub struct SoFar {
    /// Of all CPUs, user and kernel mode.
    pub total: SpaceCounts,
    /// The ten address spaces with most walks: root frame, name where it is known, and counts.
    pub spaces: Vec<(u64, Option<String>, SpaceCounts)>,
    /// Cycles of an instruction in the windows of a sampled run, with half of the interval.
    pub sampled: Option<SamplingReport>,
}

/// Boots a guest and simulates what it does between its markers; it runs to its end, a stop or the
/// limit. `progress` is called ten times a second.
///
/// # Errors
/// If something that is needed is missing, the guest cannot be followed, ends with an error, or
/// has no marker.
pub fn run(
    options: &RunOptions,
    stop: impl Fn() -> bool,
    progress: impl FnMut(SoFar),
) -> Result<SystemRun> {
    // Simulated before the guest is booted: a scheme that does not exist is told at once.
    let (model, cpus) = (&options.model, options.guest.cpus);
    match model.timing {
        CoreTiming::None => {
            let cpus = simulated(model, cpus, |scheme| model.functional(scheme, cpus))?;
            watch(options, cpus, stop, progress)
        }
        CoreTiming::All => {
            let cpus = simulated(model, cpus, |scheme| model.cores(scheme, cpus))?;
            watch(options, cpus, stop, progress)
        }
        CoreTiming::Sampled(plan) => {
            let cpus = simulated(model, cpus, |scheme| model.sampled(scheme, plan, cpus))?;
            watch(options, cpus, stop, progress)
        }
    }
}

fn watch<H: Hardware>(
    options: &RunOptions,
    mut cpus: Vec<Vec<Cpu<H>>>,
    stop: impl Fn() -> bool,
    mut progress: impl FnMut(SoFar),
) -> Result<SystemRun> {
    let guest = &options.guest;
    let scratch = Scratch::new()?;
    let plugin = build_plugin(&scratch.0)?;
    let mut running = Running::start(guest, &scratch.0, &plugin)?;
    let header = guest.header();
    let writing = |path: &PathBuf| format!("writing {}", path.display());
    let create =
        |path: &PathBuf| RecordingWriter::create(path, &header).with_context(|| writing(path));
    let mut writer = options.out.as_ref().map(create).transpose()?;
    let memory = running
        .memory(guest)
        .context("opening the guest's memory")?;
    let mut names = names(guest)?;
    let tap = |cpu: usize, words: &[u64]| {
        let put = writer
            .as_mut()
            .map_or(Ok(()), |writer| writer.put(cpu, words));
        put.with_context(|| options.out.as_ref().map(writing).unwrap_or_default())
    };
    let mut enough = false;
    let go_on = |cpus: &[Vec<Cpu<H>>]| {
        progress(so_far(&options.model, cpus, names.as_ref()));
        // Later the frames of roots belong to others.
        let counting = cpus.iter().any(|cpu| cpu[0].is_counting());
        if let Some(names) = names.as_mut().filter(|_| counting) {
            names.look(&memory, &roots(cpus));
        }
        enough = is_enough(&options.model, cpus);
        !enough && refuse(cpus).is_ok()
    };
    let followed = follow(&mut running, &mut cpus, options.limit, tap, stop, go_on)?;
    for cpu in cpus.iter_mut().flatten() {
        cpu.finish();
    }
    check(&running, &cpus, &followed)?;
    let file_bytes = writer.map(RecordingWriter::finish).transpose();
    let file_bytes =
        file_bytes.with_context(|| options.out.as_ref().map(writing).unwrap_or_default())?;
    let watched = Watched {
        guest: &header,
        model: &options.model,
        cpus: &cpus,
        followed: &followed,
        console: &running.console(),
        names: &names.unwrap_or_default(),
        partial: followed.status.is_none() && !enough,
        file_bytes,
    };
    Ok(watched.report())
}

/// Simulates a recorded machine.
///
/// # Errors
/// If the file is damaged, or there is no such scheme or hardware.
pub fn replay(
    options: &ReplayedMachine,
    stop: impl Fn() -> bool,
    progress: impl FnMut(SoFar),
) -> Result<SystemRun> {
    let reading = || format!("reading {}", options.file.display());
    let reader = RecordingReader::open(&options.file).with_context(reading)?;
    let (model, cpus) = (&options.model, reader.header().cpus);
    match model.timing {
        CoreTiming::None => {
            let cpus = simulated(model, cpus, |scheme| model.functional(scheme, cpus))?;
            simulate(options, reader, cpus, stop, progress)
        }
        CoreTiming::All => {
            let cpus = simulated(model, cpus, |scheme| model.cores(scheme, cpus))?;
            simulate(options, reader, cpus, stop, progress)
        }
        CoreTiming::Sampled(plan) => {
            let cpus = simulated(model, cpus, |scheme| model.sampled(scheme, plan, cpus))?;
            simulate(options, reader, cpus, stop, progress)
        }
    }
}

fn simulate<H: Hardware>(
    options: &ReplayedMachine,
    mut reader: RecordingReader<impl Read>,
    mut cpus: Vec<Vec<Cpu<H>>>,
    stop: impl Fn() -> bool,
    mut progress: impl FnMut(SoFar),
) -> Result<SystemRun> {
    let reading = || format!("reading {}", options.file.display());
    let header = reader.header().clone();
    let mut readers: Vec<CpuReader> = (0..header.cpus).map(CpuReader::new).collect();
    let mut followed = Followed {
        status: None,
        words: 0,
        busy: Duration::ZERO,
        digests: Vec::new(),
    };
    let started = Instant::now();
    let (mut reported, mut partial) = (started, false);
    loop {
        let (cpu, words) = match reader.next_part().with_context(reading)? {
            Ok(part) => part,
            Err(end) => {
                partial |= end == ReadEnd::CutOff;
                break;
            }
        };
        readers[cpu].read(words, &mut cpus[cpu])?;
        followed.words += words.len() as u64;
        if reported.elapsed() >= Duration::from_millis(500) {
            reported = Instant::now();
            progress(so_far(&options.model, &cpus, None));
            if is_enough(&options.model, &cpus) || refuse(&cpus).is_err() {
                break;
            }
        }
        if stop() {
            partial = true;
            break;
        }
    }
    followed.busy = started.elapsed();
    followed.digests = readers.iter().map(CpuReader::digest).collect();
    for cpu in cpus.iter_mut().flatten() {
        cpu.finish();
    }
    refuse(&cpus)?;
    let watched = Watched {
        guest: &header,
        model: &options.model,
        cpus: &cpus,
        followed: &followed,
        console: "",
        names: &Names::default(),
        partial,
        file_bytes: Some(
            std::fs::metadata(&options.file)
                .with_context(reading)?
                .len(),
        ),
    };
    Ok(watched.report())
}

/// For the names of processes, if the guest's symbols are known.
fn names(guest: &Guest) -> Result<Option<Names>> {
    let Some(path) = &guest.symbols else {
        return Ok(None);
    };
    let read = || format!("reading {}", path.display());
    let map = std::fs::read_to_string(path).with_context(read)?;
    let at = init_task(&map).with_context(|| format!("{} has no init_task", path.display()))?;
    Ok(Some(Names::new(at)))
}

/// The root frames that CPUs have loaded.
fn roots<H: Hardware>(cpus: &[Vec<Cpu<H>>]) -> BTreeSet<u64> {
    let of = |cpu: &Vec<Cpu<H>>| {
        let left = cpu[0].spaces.keys().copied();
        left.chain([cpu[0].root_frame()]).collect::<Vec<_>>()
    };
    cpus.iter().flat_map(of).collect()
}

fn so_far<H: Hardware>(model: &SystemModel, cpus: &[Vec<Cpu<H>>], names: Option<&Names>) -> SoFar {
    let mut total = SpaceCounts::default();
    let mut spaces: BTreeMap<u64, SpaceCounts> = BTreeMap::new();
    for (root, counts) in cpus.iter().flat_map(|cpu| cpu[0].by_space()) {
        total += counts;
        *spaces.entry(root).or_default() += counts;
    }
    let mut spaces: Vec<(u64, SpaceCounts)> = spaces.into_iter().collect();
    spaces.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.walks()));
    spaces.truncate(SPACES_TOLD);
    let named = |(root, counts)| (root, names.and_then(|names| names.of(root)), counts);
    SoFar {
        total,
        spaces: spaces.into_iter().map(named).collect(),
        sampled: sampling(model, cpus, 0),
    }
}

/// What the windows of a scheme have come to, if there are any.
fn sampling<H: Hardware>(
    model: &SystemModel,
    cpus: &[Vec<Cpu<H>>],
    scheme: usize,
) -> Option<SamplingReport> {
    let CoreTiming::Sampled(plan) = model.timing else {
        return None;
    };
    let windows = windows(cpus.iter().map(|schemes| &schemes[scheme]));
    let width = f64::from(model.machine.core.width);
    Some(SamplingReport::of(plan, &windows, width))
}

/// Whether the intervals of all schemes are as narrow as was asked for.
fn is_enough<H: Hardware>(model: &SystemModel, cpus: &[Vec<Cpu<H>>]) -> bool {
    let asked = |plan: SamplePlan| plan.enough_percent.is_some();
    let narrow = |scheme| sampling(model, cpus, scheme).is_some_and(|report| report.is_enough());
    matches!(model.timing, CoreTiming::Sampled(plan) if asked(plan))
        && (0..model.schemes.len()).all(narrow)
}

/// A guest that does what is not modelled has no figures.
fn refuse<H: Hardware>(cpus: &[Vec<Cpu<H>>]) -> Result<()> {
    match cpus.iter().find_map(|cpu| cpu[0].refused) {
        Some(refusal) => bail!(refusal),
        None => Ok(()),
    }
}

/// Refuses what cannot be reported.
fn check<H: Hardware>(running: &Running, cpus: &[Vec<Cpu<H>>], followed: &Followed) -> Result<()> {
    refuse(cpus)?;
    let console = running.console();
    if let Some(status) = followed.status.filter(|status| !status.success()) {
        let said = running.said();
        bail!(
            "the emulator ended with {status}: {said}\nthe guest's console ends:\n{}",
            tail(&console)
        );
    }
    let begun = cpus.iter().any(|cpu| cpu[0].regions[0] > 0);
    ensure!(
        begun || followed.status.is_none(),
        "the guest ended without a marker: nothing was watched. A program marks the region of \
         interest (kernel/guest/src/marker.h); the guest's console ends:\n{}",
        tail(&console)
    );
    Ok(())
}
