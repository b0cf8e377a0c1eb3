// SPDX-License-Identifier: MIT OR Apache-2.0
//! One experiment as the scheduler sees it.

use crate::experiment::{About, AnyExperiment, Cost, Finished, Progress, Request};
use crate::needs::missing;
use anyhow::Result;
use serde_json::Value;

/// How a job runs.
pub type Run<'a> = Box<dyn Fn(Progress<'_>) -> Result<Finished> + Sync + 'a>;
/// How a result that a job gave as JSON is read.
pub type ReadBack<'a> = Box<dyn Fn(&str) -> Result<Finished> + Sync + 'a>;

/// One experiment as the scheduler sees it.
pub struct Job<'a> {
    /// Its id is unique among the jobs of a run; what measures this machine runs alone.
    pub about: About,
    /// What this size of it costs.
    pub cost: Cost,
    /// For the key of its result.
    pub parameters: Value,
    /// What it needs and this machine lacks, with how to get it.
    pub missing: Vec<String>,
    /// Runs it.
    pub run: Run<'a>,
    /// Reads a result that `run` gave as JSON.
    pub read_back: ReadBack<'a>,
}

impl Job<'_> {
    /// The experiment's id.
    pub fn id(&self) -> &str {
        &self.about.id
    }
}

/// Experiments with their shipped parameters or the quick version of them.
///
/// # Errors
/// When a shipped file is wrong, which tests rule out.
pub fn jobs<'a>(experiments: &[&'a dyn AnyExperiment], quick: bool) -> Result<Vec<Job<'a>>> {
    let request = Request {
        quick,
        ..Request::default()
    };
    let job = |experiment: &&'a dyn AnyExperiment| -> Result<Job<'a>> {
        let experiment = *experiment;
        let about = experiment.about().clone();
        let prepared = experiment.prepare(&request)?;
        Ok(Job {
            cost: if quick { about.quick_cost } else { about.cost },
            parameters: prepared.parameters.clone(),
            missing: missing(&about.needs),
            run: Box::new(move |progress: Progress<'_>| prepared.run(progress)),
            read_back: Box::new(move |json: &str| experiment.read_back(json)),
            about,
        })
    };
    experiments.iter().map(job).collect()
}
