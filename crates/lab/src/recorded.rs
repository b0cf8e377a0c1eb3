// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real programs: recorded into a trace, with the model of translation live behind them, or
//! simulated from a trace afterwards. Their memory appears as they touch it.

use crate::setup::{Length, measure};
use crate::stop::requested as stop_requested;
use ample_machine::{FunctionalRun, MachineConfig};
use ample_trace::capture::{Capture, build_plugin};
use ample_trace::files::{FileWriter, Format, set_header};
use ample_trace::{Access, Backing, Consumer, MapChange, Program, Replay, TraceHeader};
use ample_translate::{
    Admission, Engine, PageSize, Primary, SegmentRequest, TranslationStats, USER_RW, bits,
};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

mod memory;
mod walk_counts;
pub use memory::TraceMemory;
pub use walk_counts::WalkCounts;

/// Memory that a recorded program can touch.
const MEMORY_BYTES: u64 = 1 << 40;

/// The model behind a program.
#[derive(Clone, Debug)]
pub struct Model {
    /// Cores, TLBs, walkers, caches and memory that the program runs on.
    pub machine: MachineConfig,
    /// Translation scheme.
    pub scheme: String,
    /// Pages that faults bring in, 4 KB or 2 MB; 1 GB pages are there from the start.
    pub pages: PageSize,
}

/// Rights of all memory. Recorders do not tell code from data everywhere, so that all of it may be
/// executed.
const RIGHTS: u64 = USER_RW & !bits::NO_EXECUTE;

/// The addresses that page tables of so many levels map, both halves.
fn addresses(levels: u8) -> [Range<u64>; 2] {
    let half = 1u64 << (9 * levels + 11);
    [0..half, half.wrapping_neg()..!0xfff]
}

/// What to record.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// A trace file to write, of the project's own format.
    pub out: Option<PathBuf>,
    /// A model to run behind the program.
    pub model: Option<Model>,
    /// Ends after so many accesses.
    pub limit: u64,
}

/// What the model saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelReport {
    /// Name of the machine.
    pub machine: String,
    /// Translation scheme.
    pub scheme: String,
    /// Bytes of the pages that faults brought in.
    pub page_bytes: u64,
    /// First-level data TLB misses.
    pub l1d_misses: u64,
    /// Walks for data.
    pub walks_data: u64,
    /// Walks for instructions.
    pub walks_fetch: u64,
    /// Page faults.
    pub faults: u64,
    /// Invalidations, of unmapping and other rights.
    pub invalidations: u64,
    /// What the scheme counted on its own.
    pub scheme_counters: BTreeMap<&'static str, u64>,
}

/// What recording a program came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recorded {
    /// `ample.record/1`.
    pub schema: &'static str,
    /// The program and its arguments, joined by blanks.
    pub command: String,
    /// Ended by hand.
    pub partial: bool,
    /// Accesses, fetches of further lines among them.
    pub accesses: u64,
    /// Data read.
    pub loads: u64,
    /// Data written.
    pub stores: u64,
    /// Fetches of another line than before.
    pub fetches: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Wall time from the first access on.
    pub duration_ns: u64,
    /// Accesses a second of wall time.
    pub accesses_per_s: f64,
    /// Changes of the address space seen.
    pub map_changes: u64,
    /// Bytes that the program had mapped itself at the end.
    pub mapped_bytes: u64,
    /// Path of the trace; null when none was asked for.
    pub trace_file: Option<String>,
    /// Size of the trace file.
    pub trace_bytes: Option<u64>,
    /// Its size an access.
    pub bytes_per_access: Option<f64>,
    /// The model, if one ran.
    pub model: Option<ModelReport>,
}

/// Counts, writes and models what a program does.
struct Sink<'a> {
    counts: [u64; 3],
    instructions: u64,
    changes: u64,
    writer: Option<FileWriter>,
    run: Option<FunctionalRun<'a>>,
    failed: bool,
}

impl Consumer for Sink<'_> {
    fn consume(&mut self, block: &[Access]) -> bool {
        for access in block {
            self.counts[access.kind as usize] += 1;
            self.instructions += access.instructions();
        }
        let written = self.writer.as_mut().is_none_or(|w| w.consume(block));
        let modelled = self.run.as_mut().is_none_or(|run| run.consume(block));
        self.failed = !(written && modelled);
        !self.failed && !stop_requested()
    }

    fn remap(&mut self, change: MapChange, range: Range<u64>) {
        self.changes += 1;
        if let Some(run) = &mut self.run {
            run.remap(change, range);
        }
    }
}

/// A directory of this process's own that goes when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("ample-record-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a program under QEMU and records it until it ends, the limit is reached or a stop is asked
/// for; then the program is ended.
///
/// # Errors
/// If a tool is missing, the model does not exist or cannot go on, or the file cannot be written.
pub fn record(options: &RecordOptions) -> Result<Recorded> {
    record_beside(options, || Ok(()))
}

/// As [`record`]; `started` is called once the program is under way (to give it work).
///
/// # Errors
/// As [`record`], and what `started` returns.
pub fn record_beside(
    options: &RecordOptions,
    started: impl FnOnce() -> Result<()>,
) -> Result<Recorded> {
    let engine = options.model.as_ref().map(Model::behind_a_program);
    let mut engine = engine.transpose()?;
    let scratch = Scratch::new()?;
    let plugin = build_plugin(&scratch.0)?;
    // Before the output is made: a program that cannot be started costs no older trace.
    let mut capture = Capture::start(&options.command, &plugin, &scratch.0)?;
    let mut header = TraceHeader {
        program: options.command.join(" "),
        ..TraceHeader::default()
    };
    let written = options.out.as_ref().map(|path| {
        FileWriter::create(path, Format::Ample, &header)
            .with_context(|| format!("writing {}", path.display()))
    });
    let writer = match written.transpose() {
        Ok(writer) => writer,
        Err(error) => {
            capture.finish(true);
            return Err(error);
        }
    };
    let mut sink = Sink {
        counts: [0; 3],
        instructions: 0,
        changes: 0,
        writer,
        run: engine.as_mut().map(FunctionalRun::new),
        failed: false,
    };
    let clock = Instant::now();
    let ran = started().and_then(|()| Ok(capture.run(&mut sink, options.limit)?));
    let duration_ns = clock.elapsed().as_nanos() as u64;
    let regions = capture.regions();
    capture.finish(true);
    let accesses = ran?;
    if let Some((number, bad)) = sink.run.as_ref().and_then(|run| run.failed) {
        bail!("the model, access {number}: {bad}");
    }
    header.regions = regions;
    header.partial = stop_requested();
    let written = sink.writer.take().zip(options.out.as_ref());
    let complete = |(writer, path): (FileWriter, &PathBuf)| complete(writer, path, &header);
    let trace_bytes = written.map(complete).transpose()?;
    let ([loads, stores, fetches], instructions) = (sink.counts, sink.instructions);
    let map_changes = sink.changes;
    let modelled = options.model.as_ref().zip(engine.as_ref());
    Ok(Recorded {
        schema: "ample.record/1",
        command: header.program,
        partial: header.partial,
        accesses,
        loads,
        stores,
        fetches,
        instructions,
        duration_ns,
        accesses_per_s: accesses as f64 * 1e9 / duration_ns.max(1) as f64,
        map_changes,
        mapped_bytes: header.regions.iter().map(|r| r.bytes).sum(),
        trace_file: options.out.as_ref().map(|path| path.display().to_string()),
        trace_bytes,
        bytes_per_access: trace_bytes.map(|bytes| bytes as f64 / accesses.max(1) as f64),
        model: modelled.map(|(model, engine)| report(model, &engine.mmu.stats)),
    })
}

/// Completes a trace file; its size in bytes.
fn complete(writer: FileWriter, path: &Path, header: &TraceHeader) -> Result<u64> {
    let told = || format!("writing {}", path.display());
    writer.finish().with_context(told)?;
    set_header(path, header).with_context(told)?;
    Ok(std::fs::metadata(path).with_context(told)?.len())
}

fn report(model: &Model, stats: &TranslationStats) -> ModelReport {
    ModelReport {
        machine: model.machine.name.clone(),
        scheme: model.scheme.clone(),
        page_bytes: model.pages.bytes(),
        l1d_misses: stats.l1d_misses,
        walks_data: stats.walks_data,
        walks_fetch: stats.walks_fetch,
        faults: stats.faults,
        invalidations: stats.invalidations,
        scheme_counters: stats.scheme.all(),
    }
}

/// A trace on a simulated machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceRun {
    /// `ample.trace.run/1`.
    pub schema: &'static str,
    /// Program of the trace.
    pub program: String,
    /// Ended early.
    pub partial: bool,
    /// Accesses before counting started.
    pub warm_up_accesses: u64,
    /// Loads and stores counted.
    pub accesses: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Cycles of the core, warm-up left out.
    pub cycles: f64,
    /// Instructions a cycle.
    pub ipc: f64,
    /// Cycles with a walk under way, percent.
    pub walk_percent: f64,
    /// Cycles lost to translation, an estimate, percent.
    pub translation_stall_percent: f64,
    /// Cycles lost to page faults as memory is first touched, percent.
    pub fault_stall_percent: f64,
    /// Data TLB misses of the first level in 1000 instructions.
    pub l1d_misses_per_kilo_instruction: f64,
    /// Data walks in 1000 instructions.
    pub walks_per_kilo_instruction: f64,
    /// Walks by where their references hit, root side first (at most five references).
    pub walk_trajectories: BTreeMap<String, u64>,
    /// Walks of a virtual machine by their ways: see
    /// [`TranslationStats::nested_trajectory_histogram`].
    pub nested_walk_trajectories: BTreeMap<String, u64>,
    /// How the walks went.
    pub walks: WalkCounts,
    /// Bytes that the segment maps (scheme `segment`: the largest anonymous region).
    pub segment_bytes: Option<u64>,
    /// State of the memory.
    pub memory: TraceMemory,
    /// Counters of translation.
    pub model: ModelReport,
}

/// Simulates a trace once, on memory in a given state: its first `warm_up_accesses` warm up, the
/// rest counts.
///
/// # Errors
/// If the machine or the scheme does not exist or does not fit the state of memory, or an access
/// cannot be translated.
pub fn run_trace(
    trace: &mut Replay,
    model: &Model,
    memory: &TraceMemory,
    warm_up_accesses: u64,
) -> Result<TraceRun> {
    let length = trace.len();
    ensure!(
        warm_up_accesses < length,
        "a warm-up of {warm_up_accesses} accesses leaves nothing of the {length} of the trace"
    );
    let machine = &model.machine;
    let units = u64::from(machine.core.width);
    let mut engine = memory::engine(model, memory, trace, units)?;
    let segment_bytes = match model.scheme_name() {
        "segment" => Some(segment(&mut engine, trace)?),
        _ => None,
    };
    trace.rewind();
    let length = Length {
        warm_up_accesses,
        accesses: length - warm_up_accesses,
    };
    let run = measure(machine, engine, trace, &length)?;
    trace.check().context("reading the trace again")?;
    let kilo = run.report.instructions.max(1) as f64 / 1000.0;
    let percent = |cycles: f64| 100.0 * cycles / run.report.cycles;
    Ok(TraceRun {
        schema: "ample.trace.run/1",
        program: trace.name().to_owned(),
        partial: run.partial,
        warm_up_accesses,
        accesses: run.stats.accesses,
        instructions: run.report.instructions,
        cycles: run.report.cycles,
        ipc: run.report.ipc,
        walk_percent: run.report.walk_percent(),
        translation_stall_percent: percent(run.report.translation_stall_cycles),
        fault_stall_percent: percent(run.report.fault_stall_cycles),
        l1d_misses_per_kilo_instruction: run.stats.l1d_misses as f64 / kilo,
        walks_per_kilo_instruction: run.walks_per_kilo_instruction(),
        walk_trajectories: run.stats.trajectory_histogram(),
        nested_walk_trajectories: run.stats.nested_trajectory_histogram(),
        walks: WalkCounts::of(&run.stats, units),
        segment_bytes,
        memory: *memory,
        model: report(model, &run.stats),
    })
}

/// Makes the largest anonymous region of a trace the primary region and provisions its segment.
fn segment(engine: &mut Engine, trace: &Replay) -> Result<u64> {
    let anonymous = trace.regions().iter();
    let largest = anonymous
        .filter(|r| r.backing == Backing::Anonymous)
        .max_by_key(|r| r.bytes);
    let Some(region) = largest else {
        bail!("the trace names no anonymous memory that a segment could map");
    };
    let mut primary = Primary::new(region.base, region.bytes, Admission::OptOut);
    primary.allocate(&SegmentRequest {
        bytes: region.bytes,
        anonymous: true,
        read_write: true,
        wish: None,
    });
    Ok(primary.provision(engine)?.segment_bytes)
}
