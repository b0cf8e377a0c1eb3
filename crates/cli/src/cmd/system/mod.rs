// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample system`: a whole emulated machine under simulated translation hardware.

mod engine;
mod live;
mod plan;
mod table;

use super::Verdict;
use super::sim::stop_on_interrupt;
use ample_lab::{machines, stop};
use ample_system::guest::Guest;
use ample_system::hardware::{CoreTiming, SystemModel};
use ample_system::report::SystemRun;
use ample_system::run::{ReplayedMachine, RunOptions};
use ample_system::sample::SamplePlan;
use live::LiveWalks;
use plan::BootArgs;
use std::io::Write;
use std::path::PathBuf;

/// Boot a kernel in an emulator and see what address translation costs it and its programs.
///
/// QEMU boots the kernel; a plugin that is built on the spot (gcc) sees every load, store and
/// instruction line of every CPU, kernel and programs, together with the guest's own page tables,
/// writes of CR3, INVLPG and interrupts. Simulated translation hardware follows.
#[derive(Debug, clap::Args)]
pub struct SystemArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Run(Run),
    Record(Record),
    Replay(Replay),
    Engine(engine::Engine),
}

/// Boot a guest, simulate what it does between its markers, and report when it has ended.
///
/// A guest program marks the region of interest: kernel/guest/src/marker.h has the instruction,
/// which does nothing elsewhere. Page sizes, fragmentation, accessed and dirty bits are those that
/// the guest's kernel has made. The guest's clock counts instructions (a nanosecond each) and its
/// CPUs take turns: two runs do the same, as long as nothing comes in from outside. Ctrl-C ends
/// the guest; what was seen is printed, marked partial (exit code 1). A guest that prints a line
/// `@@ FAIL …` on its console makes the exit code 1 as well.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
struct Run {
    #[command(flatten)]
    guest: GuestArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Boot a guest and record what its CPUs do between its markers into a file.
///
/// The file holds accesses, page tables, changes of address space and interrupts, in half a byte to
/// two bytes an access; `ample system replay` simulates it again under other hardware and schemes.
/// A recording that was cut off (a full disk, a guest that died) is read up to its last block.
#[derive(Debug, clap::Args)]
#[command(after_help = RECORD_EXAMPLES)]
struct Record {
    /// File to write.
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    guest: GuestArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Simulate a recorded machine.
#[derive(Debug, clap::Args)]
#[command(after_help = REPLAY_EXAMPLES)]
struct Replay {
    /// A file of `ample system record`.
    file: PathBuf,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What to boot and watch.
#[derive(Debug, clap::Args)]
struct GuestArgs {
    #[command(flatten)]
    boot: BootArgs,
    /// The kernel's System.map, by which processes get their names; a tree has its own.
    #[arg(long, value_name = "FILE")]
    symbols: Option<PathBuf>,
    /// Compare the physical address of each access with the emulator's; slower.
    #[arg(long)]
    verify: bool,
}

/// What to simulate.
#[derive(Debug, clap::Args)]
struct ModelArgs {
    /// Simulated hardware: skylake, sapphire-rapids, zen4, … or a TOML file.
    #[arg(long, value_name = "PRESET|FILE", default_value = "skylake")]
    machine: String,
    /// Schemes, all on the same accesses; `ample trace schemes` lists them.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "paging"
    )]
    scheme: Vec<String>,
    /// Run a core with caches behind each CPU: cycles, and how many of them walks take.
    #[arg(long)]
    timed: bool,
    /// Run that core in windows at random places alone, one in each period; caches and TLBs see
    /// everything. Figures have intervals.
    #[arg(long, conflicts_with = "timed")]
    sample: bool,
    /// Give the core behind each CPU a last-level cache to itself; without it all share one.
    #[arg(long)]
    private_caches: bool,
    #[command(flatten)]
    windows: WindowArgs,
    /// Keep entries over a change of address space, as if the guest used PCIDs (QEMU has none).
    #[arg(long)]
    pcid: bool,
}

/// What options do not say of windows.
const PLAN: SamplePlan = SamplePlan::USUAL;

/// Where the windows of a sampled run lie.
#[derive(Debug, clap::Args)]
struct WindowArgs {
    /// End the run when the 95 % interval of cycles per instruction is this narrow, ± percent.
    #[arg(long, value_name = "PERCENT", requires = "sample")]
    sample_width: Option<f64>,
    /// Instructions of a CPU in a period.
    #[arg(long, value_name = "N", requires = "sample", default_value_t = PLAN.period)]
    sample_period: u64,
    /// Instructions in a window.
    #[arg(long, value_name = "N", requires = "sample", default_value_t = PLAN.window)]
    sample_window: u64,
    /// Seed of the windows' places.
    #[arg(long, value_name = "N", requires = "sample", default_value_t = PLAN.seed)]
    sample_seed: u64,
}

/// How to print.
#[derive(Debug, clap::Args)]
struct OutputArgs {
    /// Rows of the table of processes.
    #[arg(long, value_name = "N", default_value_t = 12)]
    top: usize,
    /// Print one object, schema ample.system.run/1.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples (make kernel builds the kernels):
  ample system run --kernel build/kernel/stock --plan system --append ample.load=redis
                                             redis under load, by process and mode
  ample system run --kernel build/kernel/ample --plan system --append 'ample.load=chase
      ample.mib=64' --scheme paging,colt     two schemes on the same accesses
  ample system run --kernel bzImage --initrd my.cpio.gz --timed
                                             your own guest, with cycles
  ample system run --kernel build/kernel/stock --plan system --append ample.load=build
      --sample --sample-width 2              until cycles are known to 2 %";

const RECORD_EXAMPLES: &str = "Examples:
  ample system record -o redis.sys --kernel build/kernel/stock --plan system
      --append ample.load=redis              record redis under load
  ample system replay redis.sys --machine zen4 --scheme rmm:ranges=64
                                             then simulate it";

const REPLAY_EXAMPLES: &str = "Examples:
  ample system replay redis.sys --scheme paging,colt,rmm     three schemes, the same accesses
  ample system replay redis.sys --machine zen4 --timed       cycles on other hardware
  ample system replay redis.sys --pcid                       as if switches kept TLB entries";

/// Runs the command.
///
/// # Errors
/// When something that it needs is missing, the guest cannot be followed or the file is damaged.
pub fn run(args: &SystemArgs) -> anyhow::Result<Verdict> {
    match &args.command {
        Command::Run(run) => boot(&run.guest, simulated(&run.model)?, &run.output, None),
        Command::Record(record) => {
            let model = SystemModel {
                machine: machines::named("skylake")?,
                schemes: vec!["paging".into()],
                pcid: false,
                timing: CoreTiming::None,
                private_caches: false,
            };
            let out = Some(record.out.clone());
            boot(&record.guest, model, &record.output, out)
        }
        Command::Replay(replay) => simulate(replay),
        Command::Engine(args) => engine::run(args),
    }
}

fn simulated(args: &ModelArgs) -> anyhow::Result<SystemModel> {
    Ok(SystemModel {
        machine: machines::named(&args.machine)?,
        schemes: args.scheme.clone(),
        pcid: args.pcid,
        private_caches: args.private_caches,
        timing: match (args.timed, args.sample) {
            (_, true) => CoreTiming::Sampled(SamplePlan {
                period: args.windows.sample_period,
                window: args.windows.sample_window,
                seed: args.windows.sample_seed,
                enough_percent: args.windows.sample_width,
                ..PLAN
            }),
            (true, false) => CoreTiming::All,
            (false, false) => CoreTiming::None,
        },
    })
}

fn boot(
    args: &GuestArgs,
    model: SystemModel,
    output: &OutputArgs,
    out: Option<PathBuf>,
) -> anyhow::Result<Verdict> {
    let scratch = plan::Scratch::new()?;
    let options = RunOptions {
        guest: Guest {
            symbols: args.symbols.clone().or_else(|| args.boot.symbols()),
            verify: args.verify,
            ..args.boot.guest(&scratch)?
        },
        model,
        limit: args.boot.limit(),
        out,
    };
    stop_on_interrupt()?;
    tell!("booting; the guest runs until it powers off (Ctrl-C ends it)");
    let mut shown = LiveWalks::new();
    let result = ample_system::run::run(&options, stop::requested, |so_far| shown.tell(&so_far));
    shown.clear();
    print(&result?, output)
}

fn simulate(args: &Replay) -> anyhow::Result<Verdict> {
    let options = ReplayedMachine {
        file: args.file.clone(),
        model: simulated(&args.model)?,
    };
    stop_on_interrupt()?;
    let mut shown = LiveWalks::new();
    let result = ample_system::run::replay(&options, stop::requested, |so_far| shown.tell(&so_far));
    shown.clear();
    print(&result?, &args.output)
}

fn print(report: &SystemRun, output: &OutputArgs) -> anyhow::Result<Verdict> {
    let text = match output.json {
        true => serde_json::to_string_pretty(report)? + "\n",
        false => table::text(report, output.top),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    table::warn(report);
    Ok(match report.partial || !report.failures.is_empty() {
        true => Verdict::Negative,
        false => Verdict::Ok,
    })
}
