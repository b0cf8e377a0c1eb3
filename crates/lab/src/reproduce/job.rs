// SPDX-License-Identifier: MIT OR Apache-2.0
//! One experiment as the scheduler sees it.

use crate::experiment::{AnyExperiment, Cost, Finished, Prepared, Progress, Request};
use anyhow::Result;
use serde_json::Value;

/// One experiment as the scheduler sees it.
pub trait Job: Sync {
    /// Its id, unique among the jobs of a run.
    fn id(&self) -> &str;
    /// Ids of the jobs whose results it reads.
    fn depends_on(&self) -> Vec<&str>;
    /// What it costs.
    fn cost(&self) -> Cost;
    /// It measures this machine, so that nothing else may run at the same time.
    fn measures(&self) -> bool;
    /// Its parameters, for the key of its result.
    fn parameters(&self) -> Value;
    /// What it needs and this machine lacks, with how to get it.
    fn missing(&self) -> Vec<String>;
    /// Runs it.
    ///
    /// # Errors
    /// When a parameter is wrong or the run fails.
    fn run(&self, progress: Progress<'_>) -> Result<Finished>;
    /// Reads a result that [`Job::run`] gave as JSON.
    ///
    /// # Errors
    /// When it is not one.
    fn read_back(&self, json: &str) -> Result<Finished>;
}

struct ListedJob<'a> {
    experiment: &'a dyn AnyExperiment,
    prepared: Prepared,
    quick: bool,
}

impl Job for ListedJob<'_> {
    fn id(&self) -> &str {
        &self.experiment.about().id
    }

    fn depends_on(&self) -> Vec<&str> {
        let needed = &self.experiment.about().depends_on;
        needed.iter().map(String::as_str).collect()
    }

    fn cost(&self) -> Cost {
        let about = self.experiment.about();
        match self.quick {
            true => about.quick_cost,
            false => about.cost,
        }
    }

    fn measures(&self) -> bool {
        self.experiment.about().measured
    }

    fn parameters(&self) -> Value {
        self.prepared.parameters.clone()
    }

    fn missing(&self) -> Vec<String> {
        crate::needs::missing(&self.experiment.about().needs)
    }

    fn run(&self, progress: Progress<'_>) -> Result<Finished> {
        self.prepared.run(progress)
    }

    fn read_back(&self, json: &str) -> Result<Finished> {
        self.experiment.read_back(json)
    }
}

/// Experiments with their shipped parameters or the quick version of them.
///
/// # Errors
/// When a shipped file is wrong, which tests rule out.
pub fn jobs<'a>(
    experiments: &[&'a dyn AnyExperiment],
    quick: bool,
) -> Result<Vec<Box<dyn Job + 'a>>> {
    let job = |experiment: &&'a dyn AnyExperiment| -> Result<Box<dyn Job + 'a>> {
        let request = Request {
            quick,
            ..Request::default()
        };
        Ok(Box::new(ListedJob {
            experiment: *experiment,
            prepared: experiment.prepare(&request)?,
            quick,
        }))
    };
    experiments.iter().map(job).collect()
}
