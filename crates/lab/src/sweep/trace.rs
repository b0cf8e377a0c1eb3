// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps over the machine, scheme and pages that a trace runs on.

use super::axis::not_both;
use super::{Setting, SweepAxis, SweepResult, combinations, named, run_all};
use crate::experiment::Progress;
use crate::machines;
use crate::recorded::{Model, TraceMemory, run_trace};
use ample_trace::Replay;
use ample_translate::{PageSize, schemes};
use anyhow::{Context, Result, anyhow, bail, ensure};

/// What one run takes: the model, and how much of the trace warms up.
struct Setup {
    model: Model,
    memory: TraceMemory,
    warm_up_accesses: u64,
}

/// The machine that runs a trace if none is named.
const DEFAULT_MACHINE: &str = "skylake";

fn page_size(key: &str, text: &str) -> Result<PageSize> {
    match text {
        "4k" => Ok(PageSize::K4),
        "2m" => Ok(PageSize::M2),
        "1g" => Ok(PageSize::G1),
        _ => bail!("{key}={text}; known: 4k, 2m, 1g"),
    }
}

fn count(key: &str, value: &toml::Value) -> Result<u64> {
    let count = value.as_integer().and_then(|n| u64::try_from(n).ok());
    count.with_context(|| format!("{key}={value} is no count"))
}

/// Reads the settings of one run: a key that is an option of `ample trace run` is that option,
/// every other one is a field of the machine.
fn setup(trace: &Replay, set: &[Setting]) -> Result<Setup> {
    let mut machine = DEFAULT_MACHINE.to_owned();
    let mut scheme = "paging".to_owned();
    let mut pages = PageSize::K4;
    let mut memory = TraceMemory::default();
    let mut warm_up_accesses = trace.len() / 4;
    let mut fields = Vec::new();
    for (key, value) in set {
        let text = || {
            let text = value.as_str().map(str::to_owned);
            text.with_context(|| format!("{key}={value} is no name"))
        };
        match key.as_str() {
            "machine" => machine = text()?,
            "scheme" => scheme = text()?,
            "pages" => pages = page_size(key, &text()?)?,
            "host" => memory.host = Some(page_size(key, &text()?)?),
            "fragmented" => {
                let share = value.as_float().or(value.as_integer().map(|n| n as f64));
                memory.fragmented_share =
                    share.with_context(|| format!("fragmented={value} is no share"))?;
            }
            "holes" => memory.holes = count(key, value)?.try_into().unwrap_or(u32::MAX),
            "seed" => memory.seed = count(key, value)?,
            "warm_up" => warm_up_accesses = count(key, value)?,
            _ => fields.push((key.clone(), value.clone())),
        }
    }
    ensure!(
        warm_up_accesses < trace.len(),
        "a warm-up of {warm_up_accesses} accesses leaves nothing of the {} of the trace",
        trace.len()
    );
    schemes::by_name(&scheme).map_err(|error| anyhow!(error))?;
    let machine = machines::changed(&machine, &fields)?;
    let model = Model {
        machine,
        scheme,
        pages,
    };
    memory.check(&model)?;
    Ok(Setup {
        model,
        memory,
        warm_up_accesses,
    })
}

/// Runs a trace for every combination, `jobs` of them at once. `set` holds for all of them. Keys
/// are `machine`, `scheme`, `pages`, `host`, `fragmented`, `holes`, `seed`, `warm_up`, and the
/// fields of the machine.
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
        let Setup {
            model,
            memory,
            warm_up_accesses,
        } = &ready[at];
        let run = run_trace(&mut trace, model, memory, *warm_up_accesses)?;
        Ok((serde_json::to_value(&run)?, run.partial))
    };
    run_all(name.to_owned(), axes, &combinations, jobs, progress, &run)
}
