// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps over the machine, scheme and pages that a trace runs on.

use super::axis::not_both;
use super::{Setting, SweepAxis, SweepResult, combinations, named, run_all};
use crate::experiment::Progress;
use crate::machines;
use crate::recorded::{Model, run_trace};
use ample_trace::Replay;
use ample_translate::{PageSize, schemes};
use anyhow::{Context, Result, anyhow, bail, ensure};

/// What one run takes: the model, and how much of the trace warms up.
struct Setup {
    model: Model,
    warm_up_accesses: u64,
}

/// The machine that runs a trace if none is named.
const DEFAULT_MACHINE: &str = "skylake";

/// Reads the settings of one run: `machine`, `scheme`, `pages` and `warm_up` are the options of
/// `ample trace run`, every other key is a field of the machine.
fn setup(trace: &Replay, set: &[Setting]) -> Result<Setup> {
    let mut machine = DEFAULT_MACHINE.to_owned();
    let mut scheme = "paging".to_owned();
    let mut pages = PageSize::K4;
    let mut warm_up_accesses = trace.len() as u64 / 4;
    let mut fields = Vec::new();
    for (key, value) in set {
        let text = || {
            let text = value.as_str().map(str::to_owned);
            text.with_context(|| format!("{key}={value} is no name"))
        };
        match key.as_str() {
            "machine" => machine = text()?,
            "scheme" => scheme = text()?,
            "pages" => {
                pages = match text()?.as_str() {
                    "4k" => PageSize::K4,
                    "2m" => PageSize::M2,
                    _ => bail!("pages={value}; known: 4k, 2m"),
                }
            }
            "warm_up" => {
                let count = value.as_integer().and_then(|n| u64::try_from(n).ok());
                warm_up_accesses =
                    count.with_context(|| format!("warm_up={value} is no count of accesses"))?;
            }
            _ => fields.push((key.clone(), value.clone())),
        }
    }
    ensure!(
        warm_up_accesses < trace.len() as u64,
        "a warm-up of {warm_up_accesses} accesses leaves nothing of the {} of the trace",
        trace.len()
    );
    schemes::by_name(&scheme).map_err(|error| anyhow!(error))?;
    let machine = machines::changed(&machine, &fields)?;
    Ok(Setup {
        model: Model {
            machine,
            scheme,
            pages,
        },
        warm_up_accesses,
    })
}

/// Runs a trace for every combination, `jobs` of them at once. `set` holds for all of them. Keys
/// are `machine`, `scheme`, `pages`, `warm_up`, and the fields of the machine.
///
/// # Errors
/// When an axis or a value is wrong, which is told before anything runs, or a run fails.
pub fn sweep_trace(
    name: &str,
    trace: &Replay,
    set: &[Setting],
    axes: &[SweepAxis],
    jobs: usize,
    progress: Progress<'_>,
) -> Result<SweepResult> {
    let combinations = combinations(axes)?;
    not_both(set, axes)?;
    let mut ready = Vec::new();
    for own in &combinations {
        let all: Vec<Setting> = set.iter().chain(own).cloned().collect();
        ready.push(setup(trace, &all).with_context(|| named(own))?);
    }
    let run = |at: usize, _: Progress<'_>| {
        let mut trace = trace.clone();
        let run = run_trace(&mut trace, &ready[at].model, ready[at].warm_up_accesses)?;
        Ok((serde_json::to_value(&run)?, run.partial))
    };
    run_all(name.to_owned(), axes, &combinations, jobs, progress, &run)
}
