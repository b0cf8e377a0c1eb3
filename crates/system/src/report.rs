// SPDX-License-Identifier: MIT OR Apache-2.0
//! What watching a machine came to, as it is printed and written as JSON.

use crate::cpu::Cpu;
use crate::file::FileHeader;
use crate::follow::Followed;
use crate::hardware::{CoreTiming, Hardware, LastCounts, SystemModel};
use crate::names::Names;
use crate::sample::{SamplingReport, Window};
use crate::tally::{AreaCounts, Counts, EventCounts, KernelAreas, SpaceCounts};
use crate::wire::RecorderStats;
use serde::Serialize;
use std::collections::BTreeMap;

/// A guest between its markers, under one or more schemes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SystemRun {
    /// `ample.system.run/1`.
    pub schema: &'static str,
    /// Path of the kernel.
    pub kernel: String,
    /// What was added to its command line.
    pub append: String,
    /// Bytes of the guest's memory.
    pub memory_bytes: u64,
    /// Virtual CPUs.
    pub cpus: usize,
    /// Name of the simulated machine.
    pub machine: String,
    /// Whether its entries are tagged with process-context identifiers, which the guest has not.
    pub pcid: bool,
    /// Whether a core with caches runs behind each CPU, all the time or in windows.
    pub timed: bool,
    /// Whether these cores share one last-level cache.
    pub shared_last_level: bool,
    /// Ended by hand.
    pub partial: bool,
    /// Regions of interest that the guest's markers enclose.
    pub regions: u64,
    /// Values of the markers inside, by CPU.
    pub points: Vec<Vec<u64>>,
    /// Instructions between the markers, by CPU.
    pub instructions: Vec<u64>,
    /// What changed translation, of all CPUs.
    pub events: EventCounts,
    /// The same by CPU.
    pub events_by_cpu: Vec<EventCounts>,
    /// What the recorder counted, of all CPUs.
    pub recorder: RecorderReport,
    /// Each scheme's figures.
    pub schemes: Vec<SchemeReport>,
    /// Wall time from the first word to the last.
    pub duration_ns: u64,
    /// Accesses a second of that time, through all schemes.
    pub accesses_per_s: f64,
    /// A number for all words of a CPU's ring, by CPU: equal in runs that did the same.
    pub digests: Vec<String>,
    /// Bytes of the recording; null without one.
    pub file_bytes: Option<u64>,
    /// The same ÷ accesses.
    pub bytes_per_access: Option<f64>,
    /// Objects that the guest printed on its console on lines that begin with `@@ `.
    pub guest: Vec<serde_json::Value>,
    /// What the guest said was not as it should be, on lines that begin with `@@ FAIL `.
    pub failures: Vec<String>,
}

/// The recorder's own checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecorderReport {
    /// Accesses whose physical address was compared with the emulator's.
    pub compared: u64,
    /// Those where it is another.
    pub mismatches: u64,
    /// Accesses to pages that the page tables did not map when they were looked at.
    pub unmapped: u64,
}

/// One scheme on the accesses of all CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SchemeReport {
    /// Name, with its parameters.
    pub scheme: String,
    /// User mode.
    pub user: CountsReport,
    /// Kernel mode.
    pub kernel: CountsReport,
    /// What the windows of a sampled run came to; null otherwise.
    pub sampling: Option<SamplingReport>,
    /// What each CPU's core asked of the last-level cache; empty without cores.
    pub last_level: Vec<LastCounts>,
    /// By address space, the one with most walks first.
    pub spaces: Vec<SpaceReport>,
    /// Misses at the kernel's addresses by what Linux keeps there.
    pub kernel_areas: Vec<AreaReport>,
    /// References of walks by level of the page table, 1 is that of 4 KB pages.
    pub references_by_level: BTreeMap<u8, u64>,
    /// Entries of the kernel half that were not global.
    pub kernel_fills_not_global: u64,
    /// Accesses that the mirrored tables did not let through.
    pub untranslated: u64,
    /// Mappings that contradict themselves.
    pub malformed: u64,
    /// What the scheme counts on its own.
    pub counters: BTreeMap<&'static str, u64>,
}

/// Counts with what follows from them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountsReport {
    /// What was counted.
    #[serde(flatten)]
    pub counts: Counts,
    /// Data walks in 1000 instructions.
    pub walks_data_per_kilo_instruction: f64,
    /// Fetch walks in 1000 instructions.
    pub walks_fetch_per_kilo_instruction: f64,
    /// Cycles of all instructions, from those whose time was measured; null if there are none.
    pub cycles: Option<f64>,
    /// Cycles with a walk under way, percent of those measured; null likewise.
    pub walk_percent: Option<f64>,
}

/// TLB misses of one area of the kernel's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AreaReport {
    /// What lies there.
    pub area: &'static str,
    /// What was counted.
    #[serde(flatten)]
    pub counts: AreaCounts,
    /// Cycles with a walk of it under way, percent of all measured, of user and kernel mode; null
    /// without a timed core.
    pub walk_percent: Option<f64>,
}

/// One address space.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpaceReport {
    /// Root frame of its page tables.
    pub root_frame: u64,
    /// Name of its process, where it was found.
    pub name: Option<String>,
    /// User mode.
    pub user: CountsReport,
    /// Kernel mode inside it.
    pub kernel: CountsReport,
}

impl CountsReport {
    fn of(counts: &Counts, width: f64) -> Self {
        let kilo = counts.instructions.max(1) as f64 / 1000.0;
        let timed = counts.time_units > 0 && counts.timed_instructions > 0;
        let share = counts.timed_instructions as f64 / counts.instructions as f64;
        CountsReport {
            counts: *counts,
            walks_data_per_kilo_instruction: counts.walks_data as f64 / kilo,
            walks_fetch_per_kilo_instruction: counts.walks_fetch as f64 / kilo,
            cycles: timed.then(|| counts.time_units as f64 / width / share),
            walk_percent: timed
                .then(|| 100.0 * counts.walk_units as f64 / counts.time_units as f64),
        }
    }
}

fn area_reports(areas: &KernelAreas, total: &SpaceCounts) -> Vec<AreaReport> {
    let units = total.user.time_units + total.kernel.time_units;
    let report = |(area, counts): (_, AreaCounts)| AreaReport {
        area,
        counts,
        walk_percent: (units > 0).then(|| 100.0 * counts.walk_units as f64 / units as f64),
    };
    areas.by_name().map(report).collect()
}

/// The windows of all CPUs.
pub(crate) fn windows<'a, H: Hardware + 'a>(cpus: impl Iterator<Item = &'a Cpu<H>>) -> Vec<Window> {
    cpus.flat_map(|cpu| cpu.hardware().windows())
        .copied()
        .collect()
}

/// One scheme's figures from its hardware of each CPU.
fn scheme_report<'a, H: Hardware + 'a>(
    scheme: &str,
    cpus: impl Iterator<Item = &'a Cpu<H>> + Clone,
    model: &SystemModel,
    names: &Names,
) -> SchemeReport {
    let width = f64::from(model.machine.core.width);
    let sampling = match model.timing {
        CoreTiming::Sampled(plan) => Some(SamplingReport::of(plan, &windows(cpus.clone()), width)),
        CoreTiming::None | CoreTiming::All => None,
    };
    let mut total = SpaceCounts::default();
    let mut spaces: BTreeMap<u64, SpaceCounts> = BTreeMap::new();
    let mut references_by_level = BTreeMap::new();
    let mut counters: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut areas = KernelAreas::default();
    let (mut not_global, mut untranslated, mut malformed) = (0, 0, 0);
    let mut last_level = Vec::new();
    for cpu in cpus {
        total += cpu.total();
        last_level.extend(cpu.hardware().last_level());
        areas += cpu.areas;
        for (&root, &counts) in &cpu.spaces {
            *spaces.entry(root).or_default() += counts;
        }
        let stats = &cpu.hardware().engine().mmu.stats;
        for (level, &count) in stats.refs_by_level.iter().enumerate().skip(1) {
            if count > 0 {
                *references_by_level.entry(level as u8).or_default() += count;
            }
        }
        for (name, value) in stats.scheme.all() {
            *counters.entry(name).or_default() += value;
        }
        not_global += stats.kernel_fills_not_global;
        untranslated += cpu.untranslated;
        malformed += cpu.malformed;
    }
    let mut spaces: Vec<SpaceReport> = spaces
        .into_iter()
        .map(|(root_frame, counts)| SpaceReport {
            root_frame,
            name: names.of(root_frame),
            user: CountsReport::of(&counts.user, width),
            kernel: CountsReport::of(&counts.kernel, width),
        })
        .collect();
    let walks = |space: &SpaceReport| space.user.counts.walks() + space.kernel.counts.walks();
    spaces.sort_by_key(|space| std::cmp::Reverse(walks(space)));
    SchemeReport {
        scheme: scheme.to_owned(),
        user: CountsReport::of(&total.user, width),
        kernel: CountsReport::of(&total.kernel, width),
        sampling,
        last_level,
        kernel_areas: area_reports(&areas, &total),
        spaces,
        references_by_level,
        kernel_fills_not_global: not_global,
        untranslated,
        malformed,
        counters,
    }
}

/// The objects that a guest printed.
pub(crate) fn objects(console: &str) -> Vec<serde_json::Value> {
    let lines = console.lines().filter_map(|line| {
        let (_, object) = line.split_once("@@ {")?;
        serde_json::from_str(&format!("{{{object}")).ok()
    });
    lines.collect()
}

/// What a guest found wrong.
pub(crate) fn failures(console: &str) -> Vec<String> {
    let lines = console.lines();
    let failed = lines.filter_map(|line| line.split_once("@@ FAIL "));
    failed.map(|(_, text)| text.trim().to_owned()).collect()
}

/// What to put together.
pub struct Watched<'a, H> {
    /// What was booted.
    pub guest: &'a FileHeader,
    /// What was simulated.
    pub model: &'a SystemModel,
    /// By CPU, one for each scheme.
    pub cpus: &'a [Vec<Cpu<H>>],
    /// How following ended.
    pub followed: &'a Followed,
    /// What the guest's console showed.
    pub console: &'a str,
    /// Names of processes.
    pub names: &'a Names,
    /// Ended by hand.
    pub partial: bool,
    /// Bytes of the recording.
    pub file_bytes: Option<u64>,
}

impl<H: Hardware> Watched<'_, H> {
    /// Adds up what each CPU and scheme has counted.
    pub fn report(&self) -> SystemRun {
        let firsts = || self.cpus.iter().map(|schemes| &schemes[0]);
        let mut events = EventCounts::default();
        let mut recorder = RecorderReport::default();
        let mut accesses = 0;
        for cpu in firsts() {
            events += &cpu.events;
            let RecorderStats {
                compared,
                mismatches,
                unmapped,
                ..
            } = cpu.recorder;
            recorder.compared += compared;
            recorder.mismatches += mismatches;
            recorder.unmapped += unmapped;
            let total = cpu.total();
            accesses += total.user.accesses() + total.kernel.accesses();
        }
        let digests = self.followed.digests.iter();
        let seconds = self.followed.busy.as_secs_f64().max(1e-9);
        let of_scheme = |(at, name): (usize, &String)| {
            let cpus = self.cpus.iter().map(|schemes| &schemes[at]);
            scheme_report(name, cpus, self.model, self.names)
        };
        SystemRun {
            schema: "ample.system.run/1",
            kernel: self.guest.kernel.clone(),
            append: self.guest.append.clone(),
            memory_bytes: self.guest.memory_bytes,
            cpus: self.guest.cpus,
            machine: self.model.machine.name.clone(),
            pcid: self.model.pcid,
            timed: self.model.timing != CoreTiming::None,
            shared_last_level: self.model.shares(self.guest.cpus),
            partial: self.partial,
            regions: firsts().map(|cpu| cpu.regions[0]).max().unwrap_or(0),
            points: firsts().map(|cpu| cpu.points.clone()).collect(),
            instructions: firsts().map(|cpu| cpu.instructions).collect(),
            events,
            events_by_cpu: firsts().map(|cpu| cpu.events.clone()).collect(),
            recorder,
            schemes: self
                .model
                .schemes
                .iter()
                .enumerate()
                .map(of_scheme)
                .collect(),
            duration_ns: self.followed.busy.as_nanos() as u64,
            accesses_per_s: accesses as f64 / seconds,
            digests: digests.map(|digest| format!("{digest:016x}")).collect(),
            file_bytes: self.file_bytes,
            bytes_per_access: self
                .file_bytes
                .map(|bytes| bytes as f64 / accesses.max(1) as f64),
            guest: objects(self.console),
            failures: failures(self.console),
        }
    }
}
