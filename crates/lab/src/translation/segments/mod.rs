// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct Segments, section 3.3: a segment for the kernel's direct map, and the three forms of
//! segments on virtual machines.

mod kernel;

use super::program;
use super::runs::{Mapping, all_of, check_seeds, map_as, mean, whole};
use crate::charts::Bars;
use crate::experiment::{Experiment, Figure, Outcome, Progress, Text};
use crate::machines::MachineChoice;
use crate::progress::Steps;
use crate::setup::{
    HostPages, Length, Measured, anonymous_range, back_with_host, back_with_segment, engine,
    guest_engine,
};
use crate::stop;
use ample_kit::statistics::Spread;
use ample_machine::MachineConfig;
use ample_report::{Bar, Unit};
use ample_trace::Program;
use ample_trace::programs::Gups;
use ample_translate::PageSize;
use anyhow::Result;
use kernel::{KERNEL_ROWS, kernel_rows};
pub(super) use kernel::{KernelRun, kernel_share};
use serde::{Deserialize, Serialize};

/// The kernel’s segment and the virtual machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentParams {
    /// A preset or a file, and fields of it that are changed.
    pub machine: MachineChoice,
    /// Scale of the program with a kernel.
    pub scale: String,
    /// Length of each run.
    pub length: Length,
    /// Seeds of the programs; figures are means over them.
    pub seeds: Vec<u64>,
    /// The kernel's segment.
    pub kernel: SegmentKernel,
    /// Virtual machines.
    pub guests: SegmentGuests,
}

/// The program with a kernel, and the paper's values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentKernel {
    /// Program; it must have a direct map.
    pub program: String,
    /// Factor on the instructions between accesses, calibrated on user pages of 4 KB.
    pub work: f64,
    /// Percent of cycles on TLB misses of the program itself.
    pub paper_user_percent: f64,
    /// The same of the kernel.
    pub paper_kernel_percent: f64,
    /// Share of the kernel's misses in the direct map.
    pub paper_direct_share: f64,
}

/// The programs on virtual machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentGuests {
    /// Programs, by the names that `ample trace` knows.
    pub programs: Vec<String>,
    /// Their scale (GUPS: always `gups_bytes`).
    pub scale: String,
    /// Footprint of GUPS, bytes.
    pub gups_bytes: u64,
}

/// One way of mapping program and kernel; percent of cycles, means over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelSegmentRow {
    /// How the program's memory is mapped.
    pub user: Text,
    /// How the direct map is mapped.
    pub kernel: Text,
    /// Walks of the program.
    pub user_percent: f64,
    /// The least of the seeds.
    pub user_percent_min: f64,
    /// The greatest of the seeds.
    pub user_percent_max: f64,
    /// Walks of the kernel.
    pub kernel_percent: f64,
    /// The least of the seeds.
    pub kernel_percent_min: f64,
    /// The greatest of the seeds.
    pub kernel_percent_max: f64,
    /// Share of the kernel's walks that lie in the direct map.
    pub direct_share: Option<f64>,
    /// The least of the seeds.
    pub direct_share_min: Option<f64>,
    /// The greatest of the seeds.
    pub direct_share_max: Option<f64>,
    /// Walks of the kernel in 1000 instructions.
    pub kernel_walks_per_kilo_instruction: f64,
    /// The least of the seeds.
    pub kernel_walks_per_kilo_instruction_min: f64,
    /// The greatest of the seeds.
    pub kernel_walks_per_kilo_instruction_max: f64,
    /// Speed over the first row.
    pub speedup: f64,
    /// The least of the seeds, each over the first row with the same seed.
    pub speedup_min: f64,
    /// The greatest of the seeds.
    pub speedup_max: f64,
}

/// One program in one form of virtualisation, means over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestSegmentRow {
    /// Program, as `ample trace` names it.
    pub program: String,
    /// Guest's mapping.
    pub guest: Text,
    /// Host's mapping; None: no virtual machine.
    pub host: Option<Text>,
    /// Percent of cycles with a walk under way.
    pub walk_percent: f64,
    /// The least of the seeds.
    pub walk_percent_min: f64,
    /// The greatest of the seeds.
    pub walk_percent_max: f64,
    /// Walks in 1000 instructions.
    pub walks_per_kilo_instruction: f64,
    /// References of a walk, mean.
    pub references_per_walk: f64,
    /// The least of the seeds.
    pub references_per_walk_min: f64,
    /// The greatest of the seeds.
    pub references_per_walk_max: f64,
    /// Most references of one walk.
    pub longest_walk_references: u64,
    /// Speed over 4 KB pages on a host with 4 KB pages, with the same seed.
    pub speedup: f64,
    /// The least of the seeds.
    pub speedup_min: f64,
    /// The greatest of the seeds.
    pub speedup_max: f64,
}

/// Section 3.3, here and in the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segments {
    /// The machine, as the parameters name it.
    pub machine: String,
    /// Seeds of the programs; figures are means over them.
    pub seeds: Vec<u64>,
    /// Paper: percent of cycles on the program's TLB misses with 4 KB pages.
    pub paper_user_percent: f64,
    /// Paper: the same of the kernel.
    pub paper_kernel_percent: f64,
    /// Paper: share of the kernel's misses in the direct map.
    pub paper_direct_share: f64,
    /// The kernel's segment.
    pub kernel: Vec<KernelSegmentRow>,
    /// Virtual machines.
    pub guests: Vec<GuestSegmentRow>,
}

fn named(mapping: Mapping) -> &'static str {
    match mapping {
        Some(PageSize::K4) => "4 KB",
        Some(PageSize::M2) => "2 MB",
        Some(PageSize::G1) => "1 GB",
        None => "segment",
    }
}

/// Guest and host of each form: none, pages on pages, then the three forms of the section (host's
/// segment; guest's segment; both).
const GUEST_ROWS: [(Mapping, Option<Mapping>); 8] = [
    (Some(PageSize::K4), None),
    (Some(PageSize::K4), Some(Some(PageSize::K4))),
    (Some(PageSize::K4), Some(Some(PageSize::M2))),
    (Some(PageSize::M2), Some(Some(PageSize::M2))),
    (Some(PageSize::K4), Some(None)),
    (None, Some(Some(PageSize::K4))),
    (None, Some(Some(PageSize::M2))),
    (None, Some(None)),
];

fn guest_run(
    machine: &MachineConfig,
    params: &SegmentParams,
    name: &str,
    guest: Mapping,
    host: Option<Mapping>,
    seed: u64,
) -> Result<Measured> {
    let scale = &params.guests.scale;
    let mut program: Box<dyn Program> = match name {
        "gups" => Box::new(Gups::new(params.guests.gups_bytes, seed)),
        _ => program(name, scale, seed)?,
    };
    let own = anonymous_range(program.regions());
    let room = (own.end - own.start).next_multiple_of(1 << 30) + (2 << 30);
    let machine = &MachineConfig {
        memory_bytes: room,
        ..machine.clone()
    };
    let mut engine = match host {
        Some(_) => guest_engine(machine, "segment")?,
        None => engine(machine, "segment")?,
    };
    map_as(&mut engine, program.regions(), guest)?;
    let pages = |share_2m| HostPages {
        share_2m,
        huge_1g: false,
    };
    match host {
        None => {}
        Some(None) => back_with_segment(&mut engine, machine)?,
        Some(Some(PageSize::K4)) => back_with_host(&mut engine, machine, &pages(0.0))?,
        Some(Some(_)) => back_with_host(&mut engine, machine, &pages(1.0))?,
    }
    whole(machine, engine, program.as_mut(), &params.length, None)
}

/// The row of pages on pages of 4 KB, over whose speed those of the others are told.
const BASE_ROW: usize = 1;

fn guest_row(name: &str, form: usize, runs: &[Vec<Measured>]) -> GuestSegmentRow {
    let ((guest, host), own) = (GUEST_ROWS[form], &runs[form]);
    let percent = Spread::of(own.iter().map(|run| run.report.walk_percent()));
    let pairs = own.iter().zip(&runs[BASE_ROW]);
    let speedup = Spread::of(pairs.map(|(run, base)| run.report.ipc / base.report.ipc));
    let references =
        |run: &Measured| run.stats.walk_refs() as f64 / run.stats.walks().max(1) as f64;
    let references = Spread::of(own.iter().map(references));
    let longest = own.iter().map(|run| run.stats.longest_walk_refs).max();
    GuestSegmentRow {
        program: name.to_string(),
        guest: named(guest).into(),
        host: host.map(|host| named(host).into()),
        walk_percent: percent.mean,
        walk_percent_min: percent.min,
        walk_percent_max: percent.max,
        walks_per_kilo_instruction: mean(own, Measured::walks_per_kilo_instruction),
        references_per_walk: references.mean,
        references_per_walk_min: references.min,
        references_per_walk_max: references.max,
        longest_walk_references: longest.unwrap_or(0),
        speedup: speedup.mean,
        speedup_min: speedup.min,
        speedup_max: speedup.max,
    }
}

fn guest_rows(
    machine: &MachineConfig,
    params: &SegmentParams,
    rows: &mut Vec<GuestSegmentRow>,
    steps: &Steps<'_>,
) -> Result<()> {
    for name in &params.guests.programs {
        let mut runs = Vec::new();
        for (guest, host) in GUEST_ROWS {
            let run = |&seed: &u64| guest_run(machine, params, name, guest, host, seed);
            runs.push(all_of(&params.seeds, run)?);
            steps.step();
        }
        rows.extend((0..GUEST_ROWS.len()).map(|form| guest_row(name, form, &runs)));
    }
    Ok(())
}

/// Section 3.3 of Direct Segments.
pub struct KernelSegments;

impl Experiment for KernelSegments {
    type Parameters = SegmentParams;
    type Outcome = Segments;

    fn run(params: &SegmentParams, progress: Progress<'_>) -> Result<Segments> {
        let machine = params.machine.read()?;
        check_seeds(&params.seeds)?;
        let runs = KERNEL_ROWS.len() + params.guests.programs.len() * GUEST_ROWS.len();
        let steps = Steps::new(progress, runs);
        let kernel = stop::collect(|rows| kernel_rows(&machine, params, rows, &steps))?;
        let guests = stop::collect(|rows| guest_rows(&machine, params, rows, &steps))?;
        Ok(Segments {
            machine: params.machine.to_string(),
            seeds: params.seeds.clone(),
            paper_user_percent: params.kernel.paper_user_percent,
            paper_kernel_percent: params.kernel.paper_kernel_percent,
            paper_direct_share: params.kernel.paper_direct_share,
            kernel,
            guests,
        })
    }
}

impl Outcome for Segments {
    const SCHEMA: &'static str = "ample.sim.segments/2";

    fn figures(&self) -> Vec<Figure> {
        let title = "Cycles on D-TLB misses of program and kernel (program / direct map in)";
        let mut bars = Bars::new(title, Unit::Percent);
        for row in &self.kernel {
            let group = format!("{} / {}", row.user, row.kernel);
            // The paper measured the program on 4 KB pages under the kernel's own pages.
            let paged = row.user == "4 KB" && row.kernel != "segment";
            let bar = |percent: f64, paper: f64| Bar {
                value: Some(percent / 100.0),
                paper: paged.then_some(paper / 100.0),
                ..Bar::default()
            };
            bars.put(
                &group,
                "program",
                bar(row.user_percent, self.paper_user_percent),
            );
            bars.put(
                &group,
                "kernel",
                bar(row.kernel_percent, self.paper_kernel_percent),
            );
        }
        vec![Figure::new("kernel", title, bars.svg())]
    }
}
