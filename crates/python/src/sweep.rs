// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sweeps: an experiment once for every combination of values of some parameters.

use crate::simulate::{own_or_listed, settings};
use crate::table::ArrowTable;
use crate::work::work;
use ample_lab::experiment::Request;
use ample_lab::needs;
use ample_lab::sweep::{SweepAxis, SweepResult, sweep_experiment};
use anyhow::{Context, Result, ensure};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The results of all combinations.
#[pyclass(frozen, module = "ample", name = "Sweep")]
pub struct PySweep {
    done: SweepResult,
    /// The bytes of `ample sweep ID --json`.
    #[pyo3(get)]
    json: String,
}

#[pymethods]
impl PySweep {
    /// The parameters that change, the slowest first.
    #[getter]
    fn over(&self) -> Vec<String> {
        self.done.over.clone()
    }

    fn __len__(&self) -> usize {
        self.done.points.len()
    }

    /// The lists of all results by their names, each row behind the values of its combination.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        ArrowTable::of_lists(py, &self.done.rows())
    }

    fn __repr__(&self) -> String {
        let (runs, over) = (self.done.points.len(), self.done.over.join(", "));
        format!("<ample.Sweep of {}: {runs} runs over {over}>", self.done.of)
    }
}

/// Axes from a JSON list of pairs of a key and its values, whose order counts.
fn axes(json: &str) -> Result<Vec<SweepAxis>> {
    let pairs: Vec<(String, Vec<toml::Value>)> = serde_json::from_str(json)
        .context("over: give each parameter a list of numbers, strings or lists")?;
    let axis = |(key, values): (String, Vec<toml::Value>)| SweepAxis::new(&key, values);
    pairs.into_iter().map(axis).collect()
}

/// Runs an experiment for every combination, as many at once as this machine has room for.
#[pyfunction]
#[pyo3(signature = (id, over_json, quick, set_json, file = None, jobs = None, progress = None))]
#[allow(clippy::too_many_arguments)]
pub fn sweep_parameters(
    py: Python<'_>,
    id: String,
    over_json: String,
    quick: bool,
    set_json: String,
    file: Option<String>,
    jobs: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<PySweep> {
    let job = move |told: &crate::work::Told| {
        let axes = axes(&over_json)?;
        ensure!(jobs != Some(0), "jobs is 0, but must be at least 1");
        let experiment = own_or_listed(&id, file.as_deref())?;
        let missing = needs::missing(&experiment.about().needs);
        ensure!(missing.is_empty(), "{id} needs {}", missing.join("; "));
        let request = Request {
            file: file.as_deref().map(|text| (id.as_str(), text)),
            quick,
            set: settings(&set_json)?,
        };
        let done = sweep_experiment(experiment, &request, &axes, jobs, &|share| told(share))?;
        let json = serde_json::to_string_pretty(&done)? + "\n";
        Ok(PySweep { done, json })
    };
    work(py, progress, job)
}
