// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample sim`: one experiment, as tables, figures or JSON.

use super::{Verdict, can_write, progress_bar, write_file};
use ample_lab::experiment::{About, AnyExperiment, Figure, Finished, Request};
use ample_lab::{files, needs, stop};
use ample_pfn::parse_bytes;
use ample_report::{Page, Section, standalone};
use anyhow::{Context, bail};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Run one experiment of the papers, or your own file, and print it beside the paper's values.
///
/// Each experiment is a TOML file (experiments/ in the source tree) that says which of its numbers
/// were calibrated and on what; --quick runs a small version. Without ID, lists the experiments.
/// Ctrl-C ends a run early: what is there is printed, marked partial, and the exit code is 1; a
/// second Ctrl-C ends the process at once.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SimArgs {
    /// Name of an experiment, or a TOML file of the same form.
    #[arg(value_name = "ID|FILE")]
    id: Option<String>,
    /// Print one object; its schema names the experiment. Without ID, ample.experiments/1.
    #[arg(long)]
    json: bool,
    /// A small, fast version; not the experiment's figures.
    #[arg(long)]
    quick: bool,
    /// The machine, where the experiment has one: a preset or a TOML file (ample trace machines).
    #[arg(long, value_name = "PRESET|FILE")]
    machine: Option<String>,
    /// Change a parameter, or a field of the machine; KEY is dotted (length.accesses, mmu.walkers),
    /// VALUE as in TOML. May be repeated. machine.KEY is a field of the machine, too.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The parameter memory_bytes: memory of each server.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// The parameter duration_s, in hours: simulated time of each run.
    #[arg(long, value_name = "HOURS")]
    hours: Option<f64>,
    /// The parameter seeds: 1 to N.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// The parameter workloads: names or TOML files.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    workloads: Option<Vec<String>>,
    /// Also write the figure as SVG to FILE; of several figures, a page that holds them all.
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  ample sim                              list the experiments
  ample sim fig11                        unmovable 2 MB blocks, five policies, paper beside
  ample sim fig12 --json --seeds 10      more seeds, for a program to read
  ample sim ablation --workloads ci      what each mechanism is worth under ci
  ample sim chase --figure chase.html    this machine measured, its model beside
  ample sim walks --set length.accesses=100000   another parameter
  ample sim walks --machine zen4 --set mmu.walkers=1   another machine, one field changed
  ample sim my.toml                      an experiment file with your values";

/// Runs the command.
///
/// # Errors
/// When there is no such experiment, its file is wrong, or the output cannot be written.
pub fn run(args: &SimArgs) -> anyhow::Result<Verdict> {
    let Some(id) = &args.id else {
        let text = match args.json {
            true => list_object(ample_lab::ALL.iter().map(|one| one.about()))?,
            false => list(),
        };
        std::io::stdout().lock().write_all(text.as_bytes())?;
        return Ok(Verdict::Ok);
    };
    if let Some(path) = &args.figure {
        can_write(path)?;
    }
    let own = own_file(id)?;
    let experiment = experiment_of(id, own.as_deref())?;
    let request = Request {
        file: own.as_deref().map(|text| (id.as_str(), text)),
        quick: args.quick,
        set: settings(args)?,
    };
    let result = run_experiment(experiment, &request)?;
    if let Some(path) = &args.figure {
        write_figures(path, experiment, &result.figures)?;
    }
    let text = if args.json {
        result.json.clone()
    } else {
        result.text()
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(verdict(&result))
}

/// Runs an experiment with a bar for its progress; Ctrl-C ends it early.
///
/// # Errors
/// When something that it needs is missing, a parameter is wrong, or the run fails.
pub(super) fn run_experiment(
    experiment: &dyn AnyExperiment,
    request: &Request<'_>,
) -> anyhow::Result<Finished> {
    let about = experiment.about();
    let prepared = experiment.prepare(request)?;
    let missing = needs::missing(&about.needs);
    if !missing.is_empty() {
        bail!("{} needs {}", about.id, missing.join("; "));
    }
    stop_on_interrupt()?;
    let cost = match request.quick {
        true => about.quick_cost,
        false => about.cost,
    };
    let time = ample_report::Unit::Seconds.format(cost.seconds);
    tell!(
        "{}: {} (about {time} on two cores; Ctrl-C ends it)",
        about.id,
        prepared.about.title
    );
    let bar = progress_bar(&about.id);
    let told = |share: f64| bar.set_position((share * 1000.0) as u64);
    let result = prepared.run(&told);
    bar.finish_and_clear();
    result
}

/// What to say and answer of a result that is partial or does not hold.
pub(super) fn verdict(result: &Finished) -> Verdict {
    if result.partial {
        tell!("stopped early: the result is partial");
    }
    match result.partial || !result.holds {
        true => Verdict::Negative,
        false => Verdict::Ok,
    }
}

/// Any serialised result as one JSON object or as text.
///
/// # Errors
/// When it cannot be written as JSON.
pub(super) fn object(value: &serde_json::Value, json: bool) -> anyhow::Result<String> {
    Ok(match json {
        true => serde_json::to_string_pretty(value)? + "\n",
        false => ample_lab::text::render(value),
    })
}

/// The experiment of a name, or of the text of a file that has this name.
///
/// # Errors
/// When there is no such experiment, or the file is none.
pub(super) fn experiment_of(
    id: &str,
    own: Option<&str>,
) -> anyhow::Result<&'static dyn AnyExperiment> {
    match own {
        Some(text) => {
            let about = files::about(text).with_context(|| format!("{id} is not an experiment"))?;
            ample_lab::by_id(&about.id).with_context(|| id.to_owned())
        }
        None => ample_lab::by_id(id),
    }
}

/// The text of a file of this name; `None` when there is no such file.
pub(super) fn own_file(id: &str) -> anyhow::Result<Option<String>> {
    const MOST_BYTES: u64 = 1 << 20;
    let path = Path::new(id);
    if !path.exists() {
        return Ok(None);
    }
    let text = ample_kit::files::read_text(path, MOST_BYTES)
        .with_context(|| format!("{id} is not an experiment: cannot read it as TOML"))?;
    Ok(Some(text))
}

fn settings(args: &SimArgs) -> anyhow::Result<Vec<(String, toml::Value)>> {
    let mut all = Vec::new();
    let mut put = |key: &str, value: toml::Value| all.push((key.to_string(), value));
    if let Some(bytes) = args.memory {
        let bytes = i64::try_from(bytes).context("--memory is too large")?;
        put("memory_bytes", bytes.into());
    }
    if let Some(hours) = args.hours {
        put("duration_s", (hours * 3600.0).into());
    }
    if let Some(count) = args.seeds {
        put("seeds", (1..=count as i64).collect::<Vec<i64>>().into());
    }
    if let Some(workloads) = &args.workloads {
        put("workloads", workloads.clone().into());
    }
    if let Some(machine) = &args.machine {
        put("machine", machine.clone().into());
    }
    for text in &args.set {
        all.push(files::setting(text)?);
    }
    Ok(all)
}

/// One figure as an SVG file, several as a page.
fn write_figures(
    path: &Path,
    experiment: &dyn AnyExperiment,
    figures: &[Figure],
) -> anyhow::Result<()> {
    let text = match figures {
        [] => bail!("{} has nothing to draw", experiment.about().id),
        [figure] => standalone(&figure.svg),
        several => {
            let mut page = Page::new(&experiment.about().title, &experiment.about().id);
            let mut section = Section::new("figures", "Figures");
            for figure in several {
                section = section.figure(&figure.svg, &figure.caption);
            }
            page.push(section);
            page.to_html()
        }
    };
    write_file(path, text)
}

fn list() -> String {
    let mut text = String::from("Experiments (ample sim ID):\n");
    for experiment in ample_lab::ALL {
        let about = experiment.about();
        text.push_str(&format!("  {:<19} {}\n", about.id, about.title));
    }
    text
}

/// What there is to run, as one JSON object. Costs are those on two cores.
///
/// # Errors
/// When it cannot be written as JSON.
pub(super) fn list_object<'a>(listed: impl Iterator<Item = &'a About>) -> anyhow::Result<String> {
    let entry = |about: &About| {
        json!({
            "id": about.id,
            "title": about.title,
            "layer": about.layer,
            "measured": about.measured,
            "depends_on": about.depends_on,
            "missing": needs::missing(&about.needs),
            "cost": about.cost,
            "quick_cost": about.quick_cost,
        })
    };
    let entries: Vec<_> = listed.map(entry).collect();
    object(
        &json!({ "schema": "ample.experiments/1", "experiments": entries }),
        true,
    )
}

/// The first Ctrl-C, SIGTERM or end of the terminal asks the run to end, the second ends the
/// process.
///
/// # Errors
/// When no handler can be set.
pub(super) fn stop_on_interrupt() -> anyhow::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::flag;
    const EXIT_CODE: i32 = 130;
    let stop = stop::flag();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, EXIT_CODE, stop.clone())
            .and_then(|_| flag::register(signal, stop.clone()))
            .context("cannot listen for Ctrl-C")?;
    }
    Ok(())
}
