// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample trace`: traces of memory accesses described, converted, simulated.

mod formats;
mod schemes;

pub(super) use formats::{format, format_of};

use super::record::page_size;
use super::{Verdict, sim};
use ample_kit::names::known;
use ample_lab::machines;
use ample_lab::recorded::{self, Model, TraceMemory};
use ample_lab::stop::requested as stop_requested;
use ample_pfn::parse_bytes;
use ample_trace::files::{self, FileWriter, Format};
use ample_trace::{Access, Consumer, Recorder, Replay, Scale, TraceHeader, programs};
use ample_translate::PageSize;
use anyhow::{Context, bail};
use formats::{output_format, warn_of_samples, written_format};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Describe, convert, make and simulate traces of memory accesses.
///
/// Formats: ample (the project's own: delta-coded, checked, at most 4 bytes an access on the
/// built-in programs), champsim (64-byte instruction records), lackey (text of Valgrind's lackey
/// --trace-mem=yes); only read are drmemtrace (a thread of DynamoRIO's), gem5 (packets and elastic
/// traces in Protocol Buffers) and perf (samples, as perf mem -D report prints them). Foreign ones
/// may lie inside gzip or xz, drmemtrace inside zip. A file's format is found from its start, or
/// its name: that of the format in it, or the ending .trace. A long trace is read from its file
/// as it runs.
#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Info(Info),
    Convert(Convert),
    Make(Make),
    Run(Run),
    Machines(Machines),
    Schemes(schemes::Schemes),
}

/// Say what a trace holds: counts, pages touched, regions. Reads it to its end, so that damage is
/// found.
#[derive(Debug, clap::Args)]
struct Info {
    /// A trace of memory accesses, in any format that `ample trace` reads.
    file: PathBuf,
    /// Its format, where neither its start nor its name tells.
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    from: Option<Format>,
    /// Print one object, schema ample.trace.info/1.
    #[arg(long)]
    json: bool,
}

/// Convert a trace into another format; OUT's name chooses it and its compression (.gz, .xz).
///
/// ChampSim's format keeps no sizes of accesses and lackey's no dependences, neither the regions;
/// instructions without a memory operand become records of their own.
#[derive(Debug, clap::Args)]
#[command(after_help = CONVERT_EXAMPLES)]
struct Convert {
    /// The trace to read.
    input: PathBuf,
    /// The trace to write.
    output: PathBuf,
    /// Format of the input, where neither its start nor its name tells.
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    from: Option<Format>,
    /// Format of the output, where its name does not tell.
    #[arg(long, value_name = "FORMAT", value_parser = written_format)]
    to: Option<Format>,
    /// Convert so many accesses at most.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// Print one object, schema ample.trace.convert/1.
    #[arg(long)]
    json: bool,
}

const CONVERT_EXAMPLES: &str = "Examples:
  ample trace convert 605.mcf_s-665B.champsimtrace.xz mcf.trace
  ample trace convert mcf.trace mcf.champsim.xz
  ample trace convert drmemtrace.app.1234.5678.trace.zip app.trace
  valgrind --tool=lackey --trace-mem=yes --log-file=ls.lackey ls
  ample trace convert ls.lackey ls.trace";

/// Write a trace of a built-in program.
#[derive(Debug, clap::Args)]
struct Make {
    /// The program (gups, graph500, memcached, …; a wrong name lists them).
    program: String,
    /// The trace to write; its name chooses the format.
    output: PathBuf,
    /// Size of its data: tiny, quick or full.
    #[arg(long, value_name = "SCALE", default_value = "quick", value_parser = scale)]
    scale: Scale,
    /// Size of all that it maps instead, without a kernel's direct map: the program chooses its own
    /// sizes to come near to it. A graph of graph500 has as many edges as that takes.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, conflicts_with = "scale")]
    bytes: Option<u64>,
    /// Length of the trace in accesses.
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    limit: u64,
    /// Seed of the program and of its inputs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one object, schema ample.trace.make/1.
    #[arg(long)]
    json: bool,
}

/// Simulate a trace on a machine: instructions a cycle, walks, cycles lost to translation.
///
/// The trace runs once. Memory appears as it is touched, by faults that take their time; scheme
/// segment maps the largest anonymous region of the trace by a direct segment. With 1 GB pages, on
/// fragmented memory and under scheme perforated, what the trace touches is there from the start.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
struct Run {
    /// A trace of memory accesses, in any format that `ample trace` reads.
    file: PathBuf,
    /// Machine: a preset (ample trace machines lists them), or a TOML file of the same form.
    #[arg(long, value_name = "PRESET|FILE", default_value = "skylake")]
    machine: String,
    /// Change a field of the machine; KEY is dotted, places in lists count from 0. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Translation scheme, its parameters behind colons: paging, segment, colt, rmm:ranges=64,
    /// perforated (ample trace schemes lists them).
    #[arg(long, value_name = "SCHEME", default_value = "paging")]
    scheme: String,
    /// Largest pages: 4k or 2m, which faults bring in, or 1g.
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = any_page_size)]
    pages: PageSize,
    /// In a virtual machine whose host has such pages: 4k, 2m or 1g.
    #[arg(long, value_name = "SIZE", value_parser = any_page_size)]
    host: Option<PageSize>,
    /// Share of the 2 MB blocks of memory that have holes: no 2 MB page without perforated ones.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.0,
        hide_default_value = true
    )]
    fragmented: f64,
    /// Holes in such a block, anywhere in it: frames that something else holds.
    #[arg(long, value_name = "N", default_value_t = TraceMemory::HOLES, requires = "fragmented")]
    holes: u32,
    /// Seed of where holes lie.
    #[arg(long, value_name = "N", default_value_t = TraceMemory::SEED, requires = "fragmented")]
    seed: u64,
    /// Accesses that warm up before counting starts [default: a quarter of the trace].
    #[arg(long, value_name = "N")]
    warm_up: Option<u64>,
    /// Use so many accesses of the trace at most [default: all].
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// Format of the trace, where neither its start nor its name tells.
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    from: Option<Format>,
    /// Print one object, schema ample.trace.run/1.
    #[arg(long)]
    json: bool,
}

const RUN_EXAMPLES: &str = "Examples:
  ample trace run redis.trace                            4 KB pages on a Skylake server
  ample trace run redis.trace --pages 2m                 and with 2 MB pages
  ample trace run redis.trace --scheme rmm --machine zen4
  ample trace run redis.trace --machine my.toml --set mmu.l2.0.geometry.ways=8
  ample trace run redis.trace --pages 2m --fragmented 0.25 --holes 64
  ample trace run redis.trace --pages 2m --fragmented 0.25 --scheme perforated --host 2m";

/// List the presets of machines, or print one as a file to start from.
#[derive(Debug, clap::Args)]
#[command(after_help = MACHINES_EXAMPLES)]
struct Machines {
    /// A preset or a file; without it, the list.
    #[arg(value_name = "PRESET|FILE")]
    name: Option<String>,
    /// Change a field, checked as a run would; prints every field, without the comments.
    #[arg(long, value_name = "KEY=VALUE", requires = "name")]
    set: Vec<String>,
}

const MACHINES_EXAMPLES: &str = "Examples:
  ample trace machines                      list the presets
  ample trace machines zen4 > my.toml       a file to change
  ample trace machines my.toml              check it and print it";

fn any_page_size(text: &str) -> Result<PageSize, String> {
    match text {
        "1g" => Ok(PageSize::G1),
        _ => page_size(text).map_err(|known| format!("{known}, 1g")),
    }
}

fn scale(text: &str) -> Result<Scale, String> {
    match text {
        "tiny" => Ok(Scale::Tiny),
        "quick" => Ok(Scale::Quick),
        "full" => Ok(Scale::Full),
        _ => Err("known: tiny, quick, full".into()),
    }
}

/// Runs the command.
///
/// # Errors
/// When a file cannot be read or written, or a trace is damaged: where.
pub fn run(args: &TraceArgs) -> anyhow::Result<Verdict> {
    sim::stop_on_interrupt()?;
    let (value, json) = match &args.command {
        Command::Machines(args) => {
            std::io::stdout()
                .lock()
                .write_all(shown(args)?.as_bytes())?;
            return Ok(Verdict::Ok);
        }
        Command::Schemes(args) => {
            let text = schemes::listed(args)?;
            std::io::stdout().lock().write_all(text.as_bytes())?;
            return Ok(Verdict::Ok);
        }
        Command::Info(args) => (info(args)?, args.json),
        Command::Convert(args) => (convert(args)?, args.json),
        Command::Make(args) => (make(args)?, args.json),
        Command::Run(args) => (simulate(args)?, args.json),
    };
    let text = sim::object(&value, json)?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    if value["partial"] == true {
        tell!("stopped early: the result is partial");
        return Ok(Verdict::Negative);
    }
    Ok(Verdict::Ok)
}

/// What a reader adds up.
#[derive(Default)]
struct Counts {
    kinds: [u64; 3],
    instructions: u64,
}

impl Counts {
    fn add(&mut self, block: &[Access]) {
        for access in block {
            self.kinds[access.kind as usize] += 1;
            self.instructions += access.instructions();
        }
    }

    fn fields(&self, value: &mut Value) {
        let [loads, stores, fetches] = self.kinds;
        value["accesses"] = (loads + stores + fetches).into();
        value["loads"] = loads.into();
        value["stores"] = stores.into();
        value["fetches"] = fetches.into();
        value["instructions"] = self.instructions.into();
    }
}

fn info(args: &Info) -> anyhow::Result<Value> {
    let format = format_of(&args.file, args.from)?;
    let mut counts = Counts::default();
    let mut pages = std::collections::HashSet::new();
    let header = files::read(&args.file, format, u64::MAX, &mut |block| {
        counts.add(block);
        pages.extend(block.iter().map(|access| access.va >> 12));
        !stop_requested()
    })
    .with_context(|| format!("reading {}", args.file.display()))?;
    let mut value = json!({
        "schema": "ample.trace.info/1",
        "file": args.file.display().to_string(),
        "format": format.name(),
        "sampled": format == Format::Perf,
        "program": header.program,
        "partial": header.partial || stop_requested(),
        "file_bytes": std::fs::metadata(&args.file)?.len(),
        "touched_4k_pages": pages.len(),
    });
    counts.fields(&mut value);
    value["regions"] = serde_json::to_value(&header.regions)?;
    Ok(value)
}

fn convert(args: &Convert) -> anyhow::Result<Value> {
    let reading = || format!("reading {}", args.input.display());
    let input = args.input.canonicalize().with_context(reading)?;
    if args
        .output
        .canonicalize()
        .is_ok_and(|output| output == input)
    {
        bail!("{} would be written while it is read", args.input.display());
    }
    let from = format_of(&args.input, args.from)?;
    let to = output_format(&args.output, args.to)?;
    let writing = || format!("writing {}", args.output.display());
    // What the trace says about itself comes before its accesses.
    let header = files::read(&args.input, from, 1, &mut |_| false).with_context(reading)?;
    let mut writer = FileWriter::create(&args.output, to, &header).with_context(writing)?;
    let mut counts = Counts::default();
    let mut written = true;
    let read = files::read(&args.input, from, args.limit, &mut |block| {
        counts.add(block);
        written = writer.consume(block);
        written && !stop_requested()
    });
    // A writer that is not finished leaves what was there.
    read.with_context(reading)?;
    writer.finish().with_context(writing)?;
    let mut value = json!({
        "schema": "ample.trace.convert/1",
        "input": args.input.display().to_string(),
        "input_format": from.name(),
        "output": args.output.display().to_string(),
        "output_format": to.name(),
        "partial": stop_requested(),
    });
    counts.fields(&mut value);
    sizes(&args.output, &mut value)?;
    Ok(value)
}

fn sizes(path: &Path, value: &mut Value) -> anyhow::Result<()> {
    let bytes = std::fs::metadata(path)?.len();
    let accesses = value["accesses"].as_u64().unwrap_or(0).max(1);
    value["file_bytes"] = bytes.into();
    value["bytes_per_access"] = (bytes as f64 / accesses as f64).into();
    Ok(())
}

fn make(args: &Make) -> anyhow::Result<Value> {
    let to = output_format(&args.output, None)?;
    if !programs::NAMES.contains(&args.program.as_str()) {
        let names = known(&args.program, programs::NAMES);
        bail!("there is no program '{}'; {names}", args.program);
    }
    let mut program = match args.bytes {
        Some(bytes) => programs::of_bytes(&args.program, bytes, args.seed)?,
        None => programs::by_name(&args.program, args.scale, args.seed)
            .with_context(|| format!("{} cannot be had", args.program))?,
    };
    let footprint_bytes = programs::footprint_bytes(program.regions());
    let header = TraceHeader {
        program: args.program.clone(),
        regions: program.regions().to_vec(),
        partial: false,
    };
    let writing = || format!("writing {}", args.output.display());
    let mut writer = FileWriter::create(&args.output, to, &header).with_context(writing)?;
    let mut counts = Counts::default();
    let mut consumer = |block: &[Access]| {
        counts.add(block);
        writer.consume(block) && !stop_requested()
    };
    let mut recorder = Recorder::new(&mut consumer, args.limit);
    program.run(&mut recorder);
    recorder.flush();
    writer.finish().with_context(writing)?;
    let mut value = json!({
        "schema": "ample.trace.make/1",
        "output": args.output.display().to_string(),
        "output_format": to.name(),
        "seed": args.seed,
        "footprint_bytes": footprint_bytes,
        "partial": stop_requested(),
    });
    counts.fields(&mut value);
    sizes(&args.output, &mut value)?;
    Ok(value)
}

fn settings(set: &[String]) -> anyhow::Result<Vec<(String, toml::Value)>> {
    set.iter()
        .map(|text| ample_lab::files::setting(text))
        .collect()
}

/// The presets, or one machine as TOML.
fn shown(args: &Machines) -> anyhow::Result<String> {
    let Some(name) = &args.name else {
        let lines = machines::list().into_iter();
        let lines = lines.map(|(name, about)| format!("  {name:<22} {about}\n"));
        return Ok(String::from("Machines:\n") + &lines.collect::<String>());
    };
    let machine = machines::changed(name, &settings(&args.set)?)?;
    if args.set.is_empty() {
        return machines::text(name);
    }
    toml::to_string(&machine).context("writing the machine as TOML")
}

fn simulate(args: &Run) -> anyhow::Result<Value> {
    // A wrong machine is told before the trace is read.
    let model = Model {
        machine: machines::changed(&args.machine, &settings(&args.set)?)?,
        scheme: args.scheme.clone(),
        pages: args.pages,
    };
    let memory = TraceMemory {
        host: args.host,
        fragmented_share: args.fragmented,
        holes: args.holes,
        seed: args.seed,
    };
    memory.check(&model)?;
    let format = format_of(&args.file, args.from)?;
    warn_of_samples(format, &args.file);
    let mut trace = Replay::open(&args.file, format, args.limit)
        .with_context(|| format!("reading {}", args.file.display()))?;
    let warm_up = args.warm_up.unwrap_or(trace.len() / 4);
    let run = recorded::run_trace(&mut trace, &model, &memory, warm_up)?;
    Ok(serde_json::to_value(&run)?)
}
