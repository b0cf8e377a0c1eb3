// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explores every order of events of the migration protocol on small machines, and shows that
//! planted errors are found.

use ample_migration::check::{
    Params, Report, full, judge, large, quick, run, sweep, wrong_marks, wrong_registers,
};
use clap::Parser;
use std::process::ExitCode;

/// Check the page migration protocol exhaustively.
///
/// Each configuration is a small machine (cores, a NIC, lines, pages) in which every order of
/// messages, TLB invalidations, evictions and commands is explored. Then errors are planted,
/// one at a time, and each must be found.
///
/// Coverage of a machine: steps in which a slice forwards a request, in which a line goes across
/// to another slice, and in which a core is refused (nacks); kinds of steps, and how many of them
/// no machine of its design before it takes.
///
/// Exit code: 0 all properties hold and all planted errors are found, 1 otherwise, 2 usage.
#[derive(Parser)]
#[command(version, after_help = "Example: ample-model-check --only c-2cores")]
struct Args {
    /// Also the large configurations (minutes, gigabytes)
    #[arg(long)]
    full: bool,
    /// Only this configuration
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Only this planted error
    #[arg(long, value_name = "NAME", conflicts_with = "only")]
    fault: Option<String>,
    /// End at the first configuration that does not hold; plant no errors
    #[arg(long)]
    stop: bool,
    /// Only the first machines of the suite
    #[arg(long, value_name = "N")]
    first: Option<usize>,
    /// Threads that explore at once
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Check that everything can end on graphs up to this many states
    #[arg(long, default_value_t = 5_000_000, value_name = "N")]
    liveness_states: usize,
    /// Only verdicts, in one walk over up to this many states of each small machine, and up to the
    /// first that does not hold
    #[arg(long, value_name = "N")]
    judge: Option<usize>,
    /// Only the largest machines (3 cores, NIC, 2 lines, 2 slices), up to this many states each:
    /// known states are kept as 64 bits of their hash
    #[arg(long, value_name = "N")]
    large: Option<usize>,
    /// Print the events that find each planted error
    #[arg(long)]
    counterexamples: bool,
    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(max_states) = args.large {
        return swept(&args, max_states);
    }
    if let Some(max_states) = args.judge {
        return judged(max_states, args.first);
    }
    let params = Params {
        full: args.full,
        only: args.only.clone(),
        fault: args.fault.clone(),
        stop: args.stop,
        first: args.first,
        threads: args.threads.max(1),
        liveness_states: args.liveness_states,
    };
    let report = match run(&params, |name| eprintln!("checking {name}")) {
        Ok(report) => report,
        Err(message) => {
            eprintln!("ample-model-check: {message}");
            return ExitCode::from(2);
        }
    };
    if args.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&report).expect("plain data")
        );
    } else {
        print(&report, args.counterexamples);
    }
    ExitCode::from(u8::from(!report.is_good()))
}

fn swept(args: &Args, max_states: usize) -> ExitCode {
    let mut suite = large();
    suite.extend(full());
    match &args.only {
        Some(only) => suite.retain(|config| config.name == only),
        None => suite.truncate(2),
    }
    let mut holds = true;
    for config in &suite {
        eprintln!("checking {}", config.name);
        let swept = sweep(config, max_states);
        println!("{}", serde_json::to_string(&swept).expect("plain data"));
        holds &= swept.broken.is_none();
    }
    ExitCode::from(u8::from(!holds))
}

fn judged(max_states: usize, first: Option<usize>) -> ExitCode {
    let parts = [("registers", wrong_registers()), ("marks", wrong_marks())];
    for (name, wrong) in parts {
        if wrong.is_some() {
            println!("{}", serde_json::json!({"name": name, "broken": wrong}));
            return ExitCode::FAILURE;
        }
    }
    let suite = quick();
    for config in suite.iter().take(first.unwrap_or(suite.len())) {
        let judged = judge(config, max_states);
        println!("{}", serde_json::to_string(&judged).expect("plain data"));
        if judged.broken.is_some() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn print(report: &Report, counterexamples: bool) {
    println!(
        "{:<22} {:>10} {:>6} {:>8} {:>9} {:>8} {:>8} {:>6} {:>6}  verdict",
        "machine", "states", "depth", "seconds", "forwards", "across", "nacks", "steps", "new"
    );
    for c in &report.configurations {
        let verdict = match (c.broken, c.everything_can_end) {
            (Some(property), _) => format!("BROKEN: {property}"),
            (None, Some(_)) => "holds, everything can end".into(),
            (None, None) => "holds (too large to check that everything can end)".into(),
        };
        println!(
            "{:<22} {:>10} {:>6} {:>8.1} {:>9} {:>8} {:>8} {:>6} {:>6}  {verdict}",
            c.name,
            c.states,
            c.depth,
            c.seconds,
            c.forwards,
            c.cross_slice_copies,
            c.nacks,
            c.transitions,
            c.new_transitions
        );
        c.events.iter().for_each(|event| println!("    {event}"));
    }
    for f in &report.faults {
        let found = f.found_by.unwrap_or("NOT FOUND");
        let steps = f.events.len();
        println!("{:?}, {:?}: {found}, {steps} steps", f.fault, f.design);
        if counterexamples {
            f.events.iter().for_each(|event| println!("    {event}"));
        }
    }
}
