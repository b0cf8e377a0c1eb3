// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps: an experiment or a trace once for every combination of values of some parameters.
//!
//! All combinations are read and checked before the first runs. They run side by side, each in a
//! thread of its own, and stand in the result in the order of the axes, the first the slowest: the
//! bytes are the same with any number of threads.

mod axis;
mod trace;

pub use axis::{Setting, SweepAxis, combinations};
pub use trace::sweep_trace;

use crate::experiment::{AnyExperiment, Prepared, Progress, Request};
use crate::reproduce::Budget;
use crate::rows::{Rows, rows};
use crate::stop;
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A sweep and what it gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepResult {
    /// `ample.sweep/1`.
    pub schema: &'static str,
    /// Name of the experiment, or path of the trace.
    pub of: String,
    /// The parameters that change, the slowest first.
    pub over: Vec<String>,
    /// Combinations asked for.
    pub combinations: usize,
    /// Ended early: some of the combinations are missing.
    pub partial: bool,
    /// Those that ran to their end.
    pub points: Vec<Point>,
}

/// One combination.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The values of the parameters that change.
    pub set: Map<String, Value>,
    /// The result, as the experiment or `ample trace run` gives it alone.
    pub result: Value,
}

impl SweepResult {
    /// The lists of all results, by name, each row after the values of its combination. The plain
    /// fields of results that have no list, as those of traces, are the list `points`.
    pub fn rows(&self) -> Vec<Rows> {
        let mut all: Vec<Rows> = Vec::new();
        for point in &self.points {
            let own = rows(&point.result);
            let own = match own.is_empty() {
                true => rows(&json!({ "points": [point.result] })),
                false => own,
            };
            for list in own {
                let list = behind(&point.set, list);
                match all.iter_mut().find(|known| known.name == list.name) {
                    Some(known) => append(known, list),
                    None => all.push(list),
                }
            }
        }
        all
    }
}

/// The same list with the values of a combination in front of each row. A column of the list that
/// has the name of a parameter that changes is left out: it repeats it.
fn behind(set: &Map<String, Value>, list: Rows) -> Rows {
    let kept: Vec<usize> = (0..list.columns.len())
        .filter(|&at| !set.contains_key(&list.columns[at]))
        .collect();
    let columns = kept.iter().map(|&at| list.columns[at].clone());
    let row = |row: &Vec<Value>| {
        let plain = set.values().map(|value| match value {
            Value::Array(_) | Value::Object(_) => Value::String(value.to_string()),
            plain => plain.clone(),
        });
        plain
            .chain(kept.iter().map(|&at| row[at].clone()))
            .collect()
    };
    Rows {
        name: list.name,
        columns: set.keys().cloned().chain(columns).collect(),
        rows: list.rows.iter().map(row).collect(),
    }
}

/// Puts rows behind others of the same list, whose columns need not be the same.
fn append(to: &mut Rows, list: Rows) {
    for column in &list.columns {
        if !to.columns.contains(column) {
            to.columns.push(column.clone());
            to.rows.iter_mut().for_each(|row| row.push(Value::Null));
        }
    }
    let place = |column: &String| list.columns.iter().position(|own| own == column);
    let places: Vec<Option<usize>> = to.columns.iter().map(place).collect();
    for row in &list.rows {
        let cells = places
            .iter()
            .map(|at| at.map_or(Value::Null, |at| row[at].clone()));
        to.rows.push(cells.collect());
    }
}

/// How many combinations of an experiment may run at once: as many as its threads and memory leave
/// room for, and one if it measures this machine.
fn at_once(prepared: &Prepared, quick: bool) -> usize {
    let about = &prepared.about;
    let cost = if quick { about.quick_cost } else { about.cost };
    let budget = Budget::of_this_machine();
    if about.measured {
        return 1;
    }
    let by_memory = budget.memory_bytes / cost.memory_bytes.max(1);
    let by_threads = budget.threads / budget.threads_of(cost).max(1);
    by_threads.min(by_memory as usize).max(1)
}

/// Runs an experiment for every combination; `jobs` of them at once, by default as many as this
/// machine has room for.
///
/// # Errors
/// When an axis or a value is wrong, which is told before anything runs, or a run fails.
pub fn sweep_experiment(
    experiment: &dyn AnyExperiment,
    request: &Request<'_>,
    axes: &[SweepAxis],
    jobs: Option<usize>,
    progress: Progress<'_>,
) -> Result<SweepResult> {
    let combinations = combinations(axes)?;
    axis::not_both(&request.set, axes)?;
    let mut ready = Vec::new();
    for set in &combinations {
        let mut request = request.clone();
        request.set.extend(set.iter().cloned());
        ready.push(experiment.prepare(&request).with_context(|| named(set))?);
    }
    let room = ready.first().map_or(1, |one| at_once(one, request.quick));
    let run = |at: usize, told: Progress<'_>| {
        let done = ready[at].run(told)?;
        Ok((done.value, done.partial))
    };
    let of = experiment.about().id.clone();
    run_all(
        of,
        axes,
        &combinations,
        jobs.unwrap_or(room),
        progress,
        &run,
    )
}

/// A combination in words.
fn named(set: &[Setting]) -> String {
    let all = set.iter().map(|(key, value)| format!("{key}={value}"));
    format!("with {}", all.collect::<Vec<_>>().join(", "))
}

/// A run by its place in the list of combinations: its result, and whether it was ended early.
type RunOne<'a> = dyn Fn(usize, Progress<'_>) -> Result<(Value, bool)> + Sync + 'a;

/// Runs all combinations, at most `jobs` at once.
fn run_all(
    of: String,
    axes: &[SweepAxis],
    combinations: &[Vec<Setting>],
    jobs: usize,
    progress: Progress<'_>,
    run: &RunOne<'_>,
) -> Result<SweepResult> {
    let count = combinations.len();
    let next = AtomicUsize::new(0);
    let shares = Mutex::new(vec![0.0; count]);
    let told = |at: usize, share: f64| {
        let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares[at] = share;
        progress(shares.iter().sum::<f64>() / count as f64);
    };
    let failed = Mutex::new(None);
    let done = Mutex::new((0..count).map(|_| None).collect::<Vec<Option<Value>>>());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count || stop::requested() || lock(&failed).is_some() {
                return;
            }
            match run(at, &|share| told(at, share)) {
                Ok((_, true)) => {}
                Ok((value, false)) => lock(&done)[at] = Some(value),
                Err(error) => *lock(&failed) = Some(error.context(named(&combinations[at]))),
            }
            told(at, 1.0);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count) {
            scope.spawn(work);
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut points = Vec::new();
    for (set, result) in combinations.iter().zip(done) {
        let Some(result) = result else { continue };
        let value = |(key, value): &Setting| Ok((key.clone(), serde_json::to_value(value)?));
        let set = set.iter().map(value).collect::<Result<_>>()?;
        points.push(Point { set, result });
    }
    Ok(SweepResult {
        schema: "ample.sweep/1",
        of,
        over: axes.iter().map(|axis| axis.key.clone()).collect(),
        combinations: count,
        partial: points.len() < count,
        points,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
