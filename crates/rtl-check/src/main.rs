// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes sequences of the migration protocol, with what each step must lead to, for the
//! co-simulation of the hardware (`hw/sim/cosim.sh`).

mod checked;
mod portal;
mod random;
mod server;
mod trace;
mod world;

use ample_kit::random::Xoshiro256;
use ample_migration::protocol::{Design, Protocol, SliceHash};
use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand};
use random::RandomRun;
use server::ServerTraffic;
use std::io::{BufWriter, Write};
use trace::PageNumbering;
use world::World;

#[derive(Parser)]
#[command(about, version)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Random sequences: pages that move while they are used, descriptors without sense, resets.
    Random(RandomArgs),
    /// A path of the model checker to every kind of step, on machines of two-line pages.
    Checked {
        /// States to explore of each machine.
        #[arg(long, default_value_t = 40_000)]
        states: usize,
        /// Slices: 2 (Gray hash) or 3 (modulo).
        #[arg(long, default_value_t = 2)]
        slices: u8,
        /// Cores: machines of 1, or of 2, as the front end was built for.
        #[arg(long, default_value_t = 1)]
        cores: u8,
    },
    /// Random writes of the registers of a function, good and bad.
    Portal(PortalArgs),
}

#[derive(Args)]
struct PortalArgs {
    /// Register writes.
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// Seed of the sequence.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The machine is that of the parameters the hardware was built with.
#[derive(Args)]
struct RandomArgs {
    /// Events to write.
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// Seed of the sequence; the same seed writes the same bytes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Slices of the last level.
    #[arg(long, default_value_t = 2)]
    slices: u8,
    /// Entries of the metadata table.
    #[arg(long, default_value_t = 4)]
    entries: u8,
    /// Cores that use the pages while they move.
    #[arg(long, default_value_t = 4)]
    cores: u8,
    /// Hash: 0 modulo, 1 exclusive-or fold, 2 Gray, 3 whole pages.
    #[arg(long, default_value_t = 1)]
    hash: u8,
    /// Log2 of the lines of a small page.
    #[arg(long, default_value_t = 2)]
    small: u32,
    /// Log2 of the lines of a large page.
    #[arg(long, default_value_t = 4)]
    large: u32,
    /// Lines under way in a slice, at most.
    #[arg(long, default_value_t = 4)]
    window: u8,
    /// Descriptors that the work queue holds.
    #[arg(long, default_value_t = 8)]
    queue: u8,
    /// Lines of memory; as the hardware is told.
    #[arg(long, default_value_t = 65_536)]
    memory_lines: u64,
    /// Steps from one reset to the next.
    #[arg(long, default_value_t = 20_000)]
    steps_per_reset: u64,
    /// Accesses of a web server instead of random ones, while its network buffers move; small
    /// pages of 64 lines, no resets.
    #[arg(long)]
    server: bool,
}

fn main() -> Result<()> {
    let out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    match Cli::parse().what {
        What::Random(args) => random_run(&args, out),
        What::Portal(PortalArgs { events, seed }) => portal::write(events, seed, out),
        What::Checked {
            states,
            slices,
            cores,
        } => checked::write(states, slices, cores, out),
    }
}

/// A run of the kind that was asked for, before its first step.
fn prepared<W: Write>(
    args: &RandomArgs,
    rules: Protocol,
    sizes: PageNumbering,
    out: W,
) -> Result<RandomRun<W>> {
    if !args.server {
        let world = World::new(rules, sizes, out);
        let large = if args.large > args.small { 2 } else { 0 };
        let pages = (u32::from(args.entries) + 2, large);
        return Ok(RandomRun::new(world, sizes, pages, args.seed));
    }
    let traffic = ServerTraffic::nginx(args.cores, args.seed);
    let frames = u64::from(traffic.pages() + ServerTraffic::SPARE_FRAMES);
    ensure!(
        args.small == 6 && frames << 6 <= args.memory_lines,
        "--server: pages are of 64 lines (--small 6), {frames} of them in memory \
         (--memory-lines {})",
        frames << 6
    );
    let world = World::new(rules, sizes, out);
    Ok(RandomRun::serving(world, traffic, sizes, args.seed))
}

fn random_run(args: &RandomArgs, out: impl Write) -> Result<()> {
    ensure!(args.slices > 0, "--slices: at least one slice is needed");
    ensure!(
        args.entries > 0 && args.window > 0 && args.cores > 0 && args.queue > 0,
        "--entries, --window, --cores and --queue are at least 1"
    );
    ensure!(
        (1..=args.large).contains(&args.small) && args.large <= 15,
        "--small {} and --large {}: 1 <= small <= large <= 15",
        args.small,
        args.large
    );
    let hash = match args.hash {
        0 => SliceHash::Modulo,
        1 => SliceHash::XorFold,
        2 => SliceHash::Gray,
        3 => SliceHash::Page,
        other => anyhow::bail!("--hash {other}: 0 modulo, 1 fold, 2 Gray, 3 pages"),
    };
    let mut random = Xoshiro256::new(args.seed);
    let mut rules = || Protocol {
        design: match random.chance(0.5) {
            true => Design::NonCacheable,
            false => Design::Cacheable,
        },
        page_lines: 1 << args.small,
        page_orders: 1 | 1 << (args.large - args.small),
        memory_lines: args.memory_lines,
        cores: args.cores,
        slices: args.slices,
        hash,
        parallel_slices: random.chance(0.5),
        copy_window: 1 + random.below(u32::from(args.window)) as u8,
        announce: random.chance(0.5),
        mark_entries: 2,
        table_entries: args.entries,
        queue_entries: args.queue,
        fault: None,
    };
    let sizes = PageNumbering {
        small_log2: args.small,
        large_log2: args.large,
    };
    let mut run = prepared(args, rules(), sizes, out)?;
    let mut steps = 0;
    while run.progress().1 < args.events && run.progress().0 {
        run.step();
        steps += 1;
        if steps % args.steps_per_reset == 0 && !args.server {
            run.reset(rules());
        }
    }
    let events = run.into_world().tracer.finish()?;
    eprintln!("seed {}: {events} events, {steps} steps", args.seed);
    Ok(())
}
