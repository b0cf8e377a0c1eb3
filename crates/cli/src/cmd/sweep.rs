// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample sweep`: an experiment or a trace once for every combination of parameters.

use super::sim::{self, experiment_of, own_file};
use super::{Verdict, progress_bar, trace};
use ample_lab::experiment::Request;
use ample_lab::rows::Rows;
use ample_lab::sweep::{Setting, SweepAxis, SweepResult, sweep_experiment, sweep_trace};
use ample_lab::{files, needs, text};
use ample_trace::Replay;
use ample_trace::files::Format;
use anyhow::{Context, bail, ensure};
use std::io::Write;
use std::path::Path;

/// Run an experiment or a trace once for every combination of some parameters' values.
///
/// Of an experiment, a KEY is a parameter as for `ample sim --set`. Of a trace, it is machine,
/// scheme, pages, host, fragmented, holes, seed or warm_up (the options of `ample trace run`) or a
/// field of the machine. All combinations are checked before the first runs; they run on all
/// cores, and the result is the same with any number of them. Ctrl-C ends it early: what ran to its
/// end is printed, the exit code is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SweepArgs {
    /// Name or TOML file of an experiment, or a trace of memory accesses.
    #[arg(value_name = "ID|FILE|TRACE")]
    target: String,
    /// A parameter and its values, as in TOML. May be repeated: every combination runs.
    #[arg(long, value_name = "KEY=VALUE,...", required = true)]
    over: Vec<String>,
    /// A parameter with one value in all runs. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The quick version of the experiment; not its figures.
    #[arg(long)]
    quick: bool,
    /// Use so many accesses of the trace at most [default: all].
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// Format of the trace, where neither its start nor its name tells.
    #[arg(long, value_name = "FORMAT", value_parser = trace::format)]
    from: Option<Format>,
    /// Combinations that run at once [default: as many as threads and memory leave room for].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Print this list of the results only, by its name.
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    table: Option<String>,
    /// Print these columns only, behind those of the combination.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "json"
    )]
    columns: Option<Vec<String>>,
    /// Print CSV: one list; if the results have several, --table chooses.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print one object with every result, schema ample.sweep/1.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  ample sweep redis.trace --over pages=4k,2m --over machine=skylake,zen4
  ample sweep redis.trace --over mmu.walkers=1,2,4 --set scheme=colt --csv > walkers.csv
  ample sweep walks --quick --over machine=skylake,sapphire-rapids
  ample sweep fig11 --quick --over memory_bytes=2147483648,4294967296 --json > sizes.json";

/// Columns of a trace's runs that a terminal has room for.
const TRACE_COLUMNS: [&str; 6] = [
    "ipc",
    "walk_percent",
    "translation_stall_percent",
    "l1d_misses_per_kilo_instruction",
    "walks_per_kilo_instruction",
    "model.faults",
];

/// Runs the command.
///
/// # Errors
/// When there is neither such an experiment nor such a trace, a parameter is wrong, a run fails,
/// or the output cannot be written.
pub fn run(args: &SweepArgs) -> anyhow::Result<Verdict> {
    let axes = args.over.iter().map(|text| SweepAxis::parse(text));
    let axes = axes.collect::<anyhow::Result<Vec<_>>>()?;
    let set = args.set.iter().map(|text| files::setting(text));
    let set = set.collect::<anyhow::Result<Vec<_>>>()?;
    let path = Path::new(&args.target);
    let is_trace = path.is_file() && !args.target.ends_with(".toml");
    let (sweep, shown) = match is_trace {
        true => (of_trace(args, &set, &axes)?, TRACE_COLUMNS.as_slice()),
        false => (of_experiment(args, set, &axes)?, [].as_slice()),
    };
    let text = match args.json {
        true => serde_json::to_string_pretty(&sweep)? + "\n",
        false => tables(args, &sweep, shown)?,
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    if sweep.partial {
        let (ran, all) = (sweep.points.len(), sweep.combinations);
        tell!("stopped early: {ran} of {all} combinations ran to their end");
        return Ok(Verdict::Negative);
    }
    Ok(Verdict::Ok)
}

fn of_trace(args: &SweepArgs, set: &[Setting], axes: &[SweepAxis]) -> anyhow::Result<SweepResult> {
    ensure!(
        !args.quick,
        "--quick is for experiments; --limit shortens a trace"
    );
    let path = Path::new(&args.target);
    let format = trace::format_of(path, args.from)?;
    let trace = Replay::open(path, format, args.limit)
        .with_context(|| format!("reading {}", args.target))?;
    ensure!(!trace.is_empty(), "{} holds no access", args.target);
    let jobs = args.jobs.map_or_else(all_cores, usize::from);
    sim::stop_on_interrupt()?;
    let bar = progress_bar("sweep");
    let told = |share: f64| bar.set_position((share * 1000.0) as u64);
    let sweep = sweep_trace(&args.target, &trace, set, axes, jobs, &told);
    bar.finish_and_clear();
    sweep
}

fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn of_experiment(
    args: &SweepArgs,
    set: Vec<Setting>,
    axes: &[SweepAxis],
) -> anyhow::Result<SweepResult> {
    let id = &args.target;
    let own = own_file(id)?;
    let experiment = experiment_of(id, own.as_deref());
    let experiment = experiment.with_context(|| match own {
        Some(_) => format!("sweeping {id}"),
        None => format!("{id} is neither the file of a trace nor an experiment"),
    })?;
    let missing = needs::missing(&experiment.about().needs);
    if !missing.is_empty() {
        bail!("{id} needs {}", missing.join("; "));
    }
    let request = Request {
        file: own.as_deref().map(|text| (id.as_str(), text)),
        quick: args.quick,
        set,
    };
    sim::stop_on_interrupt()?;
    let bar = progress_bar("sweep");
    let told = |share: f64| bar.set_position((share * 1000.0) as u64);
    let jobs = args.jobs.map(usize::from);
    let sweep = sweep_experiment(experiment, &request, axes, jobs, &told);
    bar.finish_and_clear();
    sweep
}

/// The lists of a sweep as text or CSV.
fn tables(args: &SweepArgs, sweep: &SweepResult, shown: &[&str]) -> anyhow::Result<String> {
    let mut lists = sweep.rows();
    let names: Vec<String> = lists.iter().map(|list| list.name.clone()).collect();
    if let Some(wanted) = &args.table {
        lists.retain(|list| list.name == *wanted);
        let there = !lists.is_empty() || names.is_empty();
        ensure!(
            there,
            "there is no list {wanted}; the results have {}",
            names.join(", ")
        );
    }
    let of_text: Vec<String> = shown.iter().map(|name| name.to_string()).collect();
    let wanted = match &args.columns {
        Some(columns) => columns.as_slice(),
        None if args.csv => &[],
        None => &of_text,
    };
    for list in &mut lists {
        *list = columns(list, &sweep.over, wanted)?;
    }
    if args.csv {
        ensure!(
            lists.len() < 2,
            "CSV is one list, and the results have several: choose by --table {}",
            names.join(", --table ")
        );
        return Ok(lists.iter().map(Rows::to_csv).collect());
    }
    let mut printed = String::new();
    for list in &lists {
        let (name, table) = text::table(list);
        printed += &format!("{name}\n{}\n", table.to_text());
    }
    Ok(printed)
}

/// A list with the columns of the combination and those wanted, or all if none are named.
fn columns(list: &Rows, over: &[String], wanted: &[String]) -> anyhow::Result<Rows> {
    if wanted.is_empty() {
        return Ok(list.clone());
    }
    let mut places: Vec<usize> = (0..over.len()).collect();
    for name in wanted {
        let at = list.columns.iter().position(|column| column == name);
        let at = at.with_context(|| {
            let known = list.columns.join(", ");
            format!(
                "the list {} has no column {name}; it has {known}",
                list.name
            )
        })?;
        places.push(at);
    }
    let pick = |row: &Vec<_>| places.iter().map(|&at| Clone::clone(&row[at])).collect();
    Ok(Rows {
        name: list.name.clone(),
        columns: places.iter().map(|&at| list.columns[at].clone()).collect(),
        rows: list.rows.iter().map(pick).collect(),
    })
}
