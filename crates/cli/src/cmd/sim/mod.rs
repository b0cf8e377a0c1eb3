// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample sim`: one experiment, as a table, a figure or JSON.

mod hardware;

pub(super) use hardware::{figure, output, stop_on_interrupt};

use super::{Verdict, malloc, progress_bar};
use ample_lab::figures::{figures, tables};
use ample_lab::server_model::{self as experiment, Experiment, ExperimentError, Params};
use ample_pfn::parse_bytes;
use anyhow::{Context, bail};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Run one experiment of the papers, or your own file, and print it beside the paper's values.
///
/// Everything is simulated. Each experiment is a TOML file (experiments/ in the source tree)
/// that says which of its numbers were calibrated and on what; --quick runs a small version.
/// Without ID, lists the experiments.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of an experiment, or a TOML file of the same form.
    #[arg(value_name = "ID|FILE")]
    id: Option<String>,
    /// Print one object, schema ample.ID/1.
    #[arg(long)]
    json: bool,
    /// A small, fast version: 1 GB servers, at most two hours; not the experiment's figures.
    #[arg(long)]
    quick: bool,
    /// Memory of each server, instead of the file's.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<u64>,
    /// Simulated hours of each run, instead of the file's.
    #[arg(long, value_name = "HOURS")]
    hours: Option<f64>,
    /// Number of seeds (1 to N), instead of the file's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Workloads (names or TOML files), instead of the file's.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    workloads: Option<Vec<String>>,
    /// Parameters of an experiment of the hardware simulators, instead of the shipped ones.
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,
    /// Also write the figure as SVG to FILE.
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  ample sim                              list the experiments
  ample sim fig11                        unmovable 2 MB blocks, five policies, paper beside
  ample sim fig12 --json --seeds 10      more seeds, for a program to read
  ample sim ablation --workloads ci      what each mechanism is worth under ci
  ample sim chase --figure chase.svg     this machine measured, its model beside
  ample sim hw-unavailable --figure f.svg   cycles a page is unavailable while it moves
  ample sim my.toml                      an experiment file with your values; its key
                                         experiment = \"hw-traffic\" (say) names the kind";

fn memory(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

/// Runs the command.
///
/// # Errors
/// When there is no such experiment, its file is wrong, or the output cannot be written.
pub fn run(args: &Args) -> anyhow::Result<Verdict> {
    let Some(id) = &args.id else {
        std::io::stdout().lock().write_all(list().as_bytes())?;
        return Ok(Verdict::Ok);
    };
    if let Ok(experiment) = ample_lab::translation::by_id(id) {
        return hardware::run(experiment, experiment.parameters, args);
    }
    if let Some((experiment, parameters)) = hardware::from_file(id)? {
        return hardware::run(experiment, &parameters, args);
    }
    if args.parameters.is_some() {
        bail!("--parameters is for the hardware simulators; give the file instead of {id:?}");
    }
    if malloc::FIGURES.iter().any(|(name, _)| name == id) {
        refuse_server_options(id, args, "")?;
        if args.figure.is_some() {
            bail!("{id} has no figure; leave --figure out");
        }
        return malloc::figure(id, args.json);
    }
    let experiment = adjusted(load(id)?, args)?;
    let bar = progress_bar(&experiment.name);
    let told = |share: f64| bar.set_position((share * 1000.0) as u64);
    let output = simulate(&experiment, &told);
    bar.finish_and_clear();
    let output = output.with_context(|| format!("cannot run experiment {}", experiment.name))?;
    if let Some(path) = &args.figure {
        std::fs::write(path, ample_report::standalone(&output.svg))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let text = if args.json { output.json } else { output.text };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Verdict::Ok)
}

/// Options that only experiments of the server model have; `instead` says what else to do.
fn refuse_server_options(id: &str, args: &Args, instead: &str) -> anyhow::Result<()> {
    let server_only = [
        ("--quick", args.quick),
        ("--memory", args.memory.is_some()),
        ("--hours", args.hours.is_some()),
        ("--seeds", args.seeds.is_some()),
        ("--workloads", args.workloads.is_some()),
    ];
    if let Some((option, _)) = server_only.into_iter().find(|(_, given)| *given) {
        bail!("{option} belongs to experiments of the server model, {id} is none{instead}");
    }
    Ok(())
}

/// Names of all experiments.
fn names() -> Vec<&'static str> {
    let hardware = ample_lab::translation::ALL
        .iter()
        .map(|experiment| experiment.id);
    let allocator = malloc::FIGURES.iter().map(|(name, _)| *name);
    Params::SHIPPED
        .iter()
        .copied()
        .chain(hardware)
        .chain(allocator)
        .collect()
}

fn list() -> String {
    let mut text = String::from("Experiments (ample sim ID):\n");
    for experiment in Params::SHIPPED
        .iter()
        .filter_map(|name| Params::shipped(name))
    {
        text.push_str(&format!("  {:<15} {}\n", experiment.name, experiment.title));
    }
    for experiment in ample_lab::translation::ALL {
        text.push_str(&format!("  {:<15} {}\n", experiment.id, experiment.what));
    }
    for (name, what) in malloc::FIGURES {
        text.push_str(&format!("  {name:<15} {what}\n"));
    }
    text
}

/// A shipped experiment by name, or a file.
fn load(id: &str) -> anyhow::Result<Experiment> {
    if let Some(experiment) = Params::shipped(id) {
        return Ok(experiment);
    }
    let path = Path::new(id);
    if !path.exists() {
        bail!(
            "no experiment and no file is called {id:?}; there are {}",
            names().join(", ")
        );
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {id}"))?;
    toml::from_str(&text).with_context(|| format!("{id} is not an experiment"))
}

fn adjusted(mut experiment: Experiment, args: &Args) -> anyhow::Result<Experiment> {
    if args.quick {
        experiment.params = experiment.params.quick();
    }
    let params = &mut experiment.params;
    if let Some(bytes) = args.memory {
        params.memory_bytes = bytes;
    }
    if let Some(hours) = args.hours {
        params.duration_s = hours * 3600.0;
    }
    if let Some(count) = args.seeds {
        params.seeds = (1..=count).collect();
    }
    if let Some(workloads) = &args.workloads {
        params.workloads = workloads.clone();
    }
    let ranges = [
        ("duration_s", params.duration_s, 1.0, 90.0 * 86_400.0),
        (
            "sample_every_s",
            params.sample_every_s,
            1.0,
            90.0 * 86_400.0,
        ),
        ("event_ratio", params.event_ratio, 1e-4, 1.0),
    ];
    for (field, value, low, high) in ranges {
        if !(low..=high).contains(&value) {
            bail!(
                "{}: {field} is {value}, but must be from {low} to {high}",
                experiment.name
            );
        }
    }
    Ok(experiment)
}

/// One finished experiment in all its forms.
pub(super) struct Output {
    pub(super) text: String,
    pub(super) json: String,
    /// For a page; a file needs a head.
    pub(super) svg: String,
}

/// Runs an experiment of the server model.
///
/// # Errors
/// When a workload or a size is wrong, or the experiment is of no known kind.
pub(super) fn simulate(
    experiment: &Experiment,
    progress: experiment::Progress,
) -> Result<Output, anyhow::Error> {
    let json = |value: serde_json::Result<String>| -> anyhow::Result<String> { Ok(value? + "\n") };
    let head = tables::head(experiment);
    let wrong = |error: ExperimentError| anyhow::Error::new(error);
    match experiment.name.as_str() {
        "fig11" => {
            let result = experiment::fig11(experiment, progress).map_err(wrong)?;
            Ok(Output {
                text: head + &tables::fig11(&result),
                json: json(serde_json::to_string_pretty(&result))?,
                svg: figures::fig11(&result),
            })
        }
        "fig12" => {
            let result = experiment::fig12(experiment, progress).map_err(wrong)?;
            Ok(Output {
                text: head + &tables::fig12(&result),
                json: json(serde_json::to_string_pretty(&result))?,
                svg: figures::fig12(&result),
            })
        }
        "ablation" | "ablation-day" => {
            let result = experiment::ablation(experiment, progress).map_err(wrong)?;
            Ok(Output {
                text: head + &tables::ablation(&result),
                json: json(serde_json::to_string_pretty(&result))?,
                svg: figures::ablation(&result),
            })
        }
        other => bail!(
            "name = {other:?}: the kinds of experiment are {}",
            Params::SHIPPED.join(", ")
        ),
    }
}
