// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments of the hardware simulators: parameters in, one JSON object out, and from that the
//! text and the figure.

use super::super::Verdict;
use super::{Args, refuse_server_options};
use ample_lab::figures::{generic, hardware_figures, paging_figures, translation_figures};
use ample_lab::setup;
use ample_lab::translation::{self as experiments, Experiment};
use ample_report::standalone;
use anyhow::{Context, bail};
use std::io::Write;
use std::path::Path;

/// The experiment that a file names with `experiment = "ID"`, and its parameters. `None` when
/// there is no such file or it has no such key: then it may be one of the server model.
///
/// # Errors
/// When the file cannot be read or names an experiment that does not exist.
pub(super) fn from_file(id: &str) -> anyhow::Result<Option<(&'static Experiment, String)>> {
    if !Path::new(id).is_file() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(id).with_context(|| format!("cannot read {id}"))?;
    experiments::from_file(&text).with_context(|| format!("{id} is not an experiment"))
}

/// Runs it and prints the result. Ctrl-C ends it early: what is there is printed, marked partial,
/// and the exit code is 1; a second Ctrl-C ends the process at once.
///
/// # Errors
/// When an option belongs to the server model, a parameter is wrong, or output fails.
pub(super) fn run(
    experiment: &Experiment,
    parameters: &str,
    args: &Args,
) -> anyhow::Result<Verdict> {
    let id = experiment.id;
    let instead = format!(
        "; copy experiments/{id}.toml, add experiment = \"{id}\", and change its values instead"
    );
    refuse_server_options(id, args, &instead)?;
    let own = match &args.parameters {
        Some(path) => Some(
            std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?,
        ),
        None => None,
    };
    stop_on_interrupt()?;
    eprintln!(
        "{}: {} (this can take minutes; Ctrl-C ends it)",
        experiment.id, experiment.what
    );
    let result = experiment.run(own.as_deref().unwrap_or(parameters))?;
    if let Some(path) = &args.figure {
        let svg = || figure(experiment.what, &result).map(|svg| standalone(&svg));
        let Some(figure) = hardware_figures::page(experiment.what, &result).or_else(svg) else {
            bail!("{} has nothing to draw; leave --figure out", experiment.id);
        };
        std::fs::write(path, figure).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let text = output(&result, args.json)?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    if result["partial"] == true {
        eprintln!("stopped early: the result is partial");
        return Ok(Verdict::Negative);
    }
    Ok(Verdict::Ok)
}

/// The figure of a result as a bare `<svg>`; None if there is nothing to draw.
pub(in crate::cmd) fn figure(title: &str, result: &serde_json::Value) -> Option<String> {
    hardware_figures::figure(title, result)
        .or_else(|| translation_figures::figure(result))
        .or_else(|| paging_figures::figure(result))
}

/// A result as one JSON object or as text.
///
/// # Errors
/// When it has no JSON, which no result here lacks.
pub(in crate::cmd) fn output(result: &serde_json::Value, json: bool) -> anyhow::Result<String> {
    Ok(match json {
        true => serde_json::to_string_pretty(result)? + "\n",
        false => generic::render(result),
    })
}

/// The first SIGINT asks the simulation to end, the second ends the process.
///
/// # Errors
/// When no handler can be set.
pub(in crate::cmd) fn stop_on_interrupt() -> anyhow::Result<()> {
    use signal_hook::consts::SIGINT;
    use signal_hook::flag;
    const EXIT_CODE: i32 = 130;
    let stop = setup::stop_flag();
    flag::register_conditional_shutdown(SIGINT, EXIT_CODE, stop.clone())
        .and_then(|_| flag::register(SIGINT, stop))
        .context("cannot listen for Ctrl-C")?;
    Ok(())
}
