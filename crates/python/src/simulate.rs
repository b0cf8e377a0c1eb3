// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments, single servers and fleets.

use crate::table::ArrowTable;
use crate::work::{AmpleError, exception, work};
use ample_fleet::{FleetRow, encode};
use ample_lab::experiment::{AnyExperiment, Finished, Request};
use ample_lab::server_model::ServerParams;
use ample_lab::server_model::drawn_fleet::{DrawnFleet, fleet_text};
use ample_lab::{ALL, by_id, needs, stop};
use ample_mm::{Config, PolicyConfig, PolicyKind, ResizeParams, Resizer, Workload};
use ample_report::standalone;
use anyhow::{Context, Result, ensure};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// The result of an experiment.
#[pyclass(frozen, module = "ample", name = "Run")]
pub struct PyRun {
    done: Finished,
}

#[pymethods]
impl PyRun {
    /// The bytes of `ample sim ID --json`.
    #[getter]
    fn json(&self) -> &str {
        &self.done.json
    }

    /// Whether what was to be shown holds.
    #[getter]
    fn holds(&self) -> bool {
        self.done.holds
    }

    /// The lists of the result as tables, by their names.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        ArrowTable::of_lists(py, &self.done.rows)
    }

    /// Captions of the figures by their names.
    fn captions(&self) -> Vec<(String, String)> {
        let figures = self.done.figures.iter();
        figures
            .map(|f| (f.name.clone(), f.caption.clone()))
            .collect()
    }

    /// A figure as SVG; the first without a name.
    #[pyo3(signature = (name = None))]
    fn svg(&self, name: Option<&str>) -> PyResult<String> {
        let mut figures = self.done.figures.iter();
        let found = figures.find(|figure| name.is_none_or(|name| figure.name == name));
        let figure = found.ok_or_else(|| {
            let names: Vec<&str> = self.done.figures.iter().map(|f| &f.name[..]).collect();
            AmpleError::new_err(format!("no such figure; there are: {}", names.join(", ")))
        })?;
        Ok(standalone(&figure.svg))
    }

    fn _repr_svg_(&self) -> Option<String> {
        self.svg(None).ok()
    }

    fn __str__(&self) -> String {
        self.done.text()
    }

    fn __repr__(&self) -> String {
        format!("<ample.Run: {}>", self.done.value["schema"])
    }
}

/// All experiments: id, title, and the seconds that a run costs on two cores.
#[pyfunction]
pub fn experiments() -> ArrowTable {
    let names = [
        "id",
        "title",
        "layer",
        "seconds",
        "quick_seconds",
        "measured",
    ]
    .map(String::from);
    let rows = ALL.iter().map(|experiment| {
        let about = experiment.about();
        vec![
            Value::from(about.id.as_str()),
            Value::from(about.title.as_str()),
            Value::from(about.layer.name()),
            Value::from(about.cost.seconds),
            Value::from(about.quick_cost.seconds),
            Value::from(about.measured),
        ]
    });
    ArrowTable::of_rows(&names, &rows.collect::<Vec<_>>())
}

/// Parameters from a JSON object, as an experiment takes them.
pub fn settings(json: &str) -> Result<Vec<(String, toml::Value)>> {
    let table: toml::Table = serde_json::from_str(json)
        .context("a parameter must be a number, a string, true or false, a list or a dict")?;
    Ok(table.into_iter().collect())
}

/// The experiment of this name, or the one that the text of a file of one's own declares.
pub fn own_or_listed(id: &str, file: Option<&str>) -> Result<&'static dyn AnyExperiment> {
    let about = file.map(ample_lab::files::about);
    let about = about.transpose().with_context(|| id.to_string())?;
    by_id(about.as_ref().map_or(id, |about| &about.id))
}

/// Runs an experiment of the list, or of the text of a file of one's own.
#[pyfunction]
#[pyo3(signature = (id, quick, set_json, file = None, progress = None))]
pub fn run_experiment(
    py: Python<'_>,
    id: String,
    quick: bool,
    set_json: String,
    file: Option<String>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyRun> {
    let job = move |told: &crate::work::Told| {
        let experiment = own_or_listed(&id, file.as_deref())?;
        let prepared = experiment.prepare(&Request {
            file: file.as_deref().map(|text| (id.as_str(), text)),
            quick,
            set: settings(&set_json)?,
        })?;
        let missing = needs::missing(&experiment.about().needs);
        ensure!(missing.is_empty(), "{id} needs {}", missing.join("; "));
        prepared.run(&|share| told(share))
    };
    work(py, progress, job).map(|done| PyRun { done })
}

/// The memory manager of this name, with its tunables of Algorithm 1 changed.
fn policy_of(name: &str, resize_json: Option<&str>) -> Result<PolicyConfig> {
    let names = || PolicyKind::ALL.map(PolicyKind::name).join(", ");
    let kind = PolicyKind::from_name(name);
    let kind = kind.with_context(|| format!("no policy {name:?}: give one of {}", names()))?;
    let mut policy = PolicyConfig::new(kind);
    if let Some(json) = resize_json {
        let mut all = serde_json::to_value(policy.resize)?;
        let given: serde_json::Map<String, Value> = serde_json::from_str(json)?;
        for (name, value) in given {
            let known = all
                .as_object()
                .map(|all| all.keys().cloned().collect::<Vec<_>>());
            let Some(held) = all.get_mut(&name) else {
                let known = known.unwrap_or_default().join(", ");
                anyhow::bail!("no tunable {name:?} of Algorithm 1: there are {known}");
            };
            *held = value;
        }
        policy.resize = serde_json::from_value::<ResizeParams>(all).context("resize")?;
        policy.resizer = Resizer::Model;
        let thresholds = [
            policy.resize.threshold_unmov_bp,
            policy.resize.threshold_mov_bp,
        ];
        ensure!(
            thresholds.iter().all(|value| (1..=10_000).contains(value)),
            "resize: a threshold is {thresholds:?} basis points, but must be from 1 to 10000"
        );
    }
    Ok(policy)
}

/// Simulates one server; the result of the run as JSON.
#[pyfunction]
#[pyo3(signature = (workload, policy, memory_bytes, duration_s, seed, sample_every_s, event_ratio,
                    resize_json = None, progress = None))]
#[allow(clippy::too_many_arguments)]
pub fn simulate_server(
    py: Python<'_>,
    workload: String,
    policy: String,
    memory_bytes: u64,
    duration_s: f64,
    seed: u64,
    sample_every_s: f64,
    event_ratio: f64,
    resize_json: Option<String>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let job = move |told: &crate::work::Told| {
        let sizes = ServerParams {
            memory_bytes,
            duration_s,
            sample_every_s,
            event_ratio,
            ..ServerParams::default()
        };
        sizes.check()?;
        let policy = policy_of(&policy, resize_json.as_deref())?;
        let config = Config {
            memory_bytes,
            seed,
            event_ratio,
            ..Config::new(policy.kind)
        };
        let config = Config { policy, ..config };
        let workload = Workload::load(&workload)?;
        let ran = stop::until_stopped(|| {
            ample_mm::run(&config, &workload, duration_s, sample_every_s, &|share| {
                stop::checkpoint();
                told(share);
            })
        });
        let ran = ran.context("ended early; run it again")??;
        Ok(serde_json::to_string(&ran)?)
    };
    work(py, progress, job)
}

/// A fleet that is drawn from distributions: `ample fleet simulate`.
#[pyclass(frozen, module = "ample", name = "Fleet")]
pub struct PyFleet {
    fleet: Arc<DrawnFleet>,
    text: String,
}

impl PyFleet {
    /// Scans of some servers, in the order of their numbers.
    fn scans(
        &self,
        py: Python<'_>,
        servers: Vec<u32>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<(u32, Vec<FleetRow>)>> {
        let fleet = self.fleet.clone();
        work(py, progress, move |told| {
            let all = fleet.servers();
            if let Some(number) = servers.iter().find(|&&number| number >= all) {
                anyhow::bail!("no server {number}: the fleet has {all}, from 0");
            }
            let mut found = fleet.run(&servers, &|share| told(share), |server, metrics| {
                Ok((server.number, server.rows(metrics)))
            })?;
            found.sort_by_key(|(number, _)| *number);
            Ok(found)
        })
    }
}

#[pymethods]
impl PyFleet {
    /// A fleet from the text of its file, or from the file; a shipped one has a name for a path.
    #[new]
    #[pyo3(signature = (text = None, *, path = None, policy = None))]
    fn new(text: Option<String>, path: Option<PathBuf>, policy: Option<&str>) -> PyResult<PyFleet> {
        let read = || -> Result<PyFleet> {
            let (name, text) = match (text, path) {
                (Some(text), None) => ("the text of the fleet".into(), text),
                (None, Some(path)) => {
                    let name = path.display().to_string();
                    let text = fleet_text(&name)?.into_owned();
                    (name, text)
                }
                _ => anyhow::bail!("give either the text of a fleet or path=, and not both"),
            };
            let mut fleet = DrawnFleet::parse(&text).context(name)?;
            if let Some(policy) = policy {
                fleet = fleet.under(policy_of(policy, None)?.kind);
            }
            Ok(PyFleet {
                fleet: Arc::new(fleet),
                text,
            })
        };
        read().map_err(|error| exception(&error))
    }

    fn __len__(&self) -> usize {
        self.fleet.servers() as usize
    }

    /// The text that it was read from.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// The memory manager of every server.
    #[getter]
    fn policy(&self) -> &'static str {
        self.fleet.policy().name()
    }

    /// What is drawn for a server, before it runs: role, history, uptime in hours.
    fn server(&self, number: u32) -> PyResult<(String, u32, f64)> {
        if number >= self.fleet.servers() {
            let text = format!("no server {number}: the fleet has {}", self.fleet.servers());
            return Err(AmpleError::new_err(text));
        }
        let server = self.fleet.server(number);
        Ok((server.role, server.history, server.uptime_h))
    }

    /// Simulates servers side by side; their scans as one table.
    #[pyo3(signature = (servers, progress = None))]
    fn table(
        &self,
        py: Python<'_>,
        servers: Vec<u32>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ArrowTable> {
        let scans = self.scans(py, servers, progress)?;
        let rows: Vec<FleetRow> = scans.into_iter().flat_map(|(_, rows)| rows).collect();
        Ok(ArrowTable::of_fleet(&rows))
    }

    /// Simulates servers side by side; each as the bytes of its file of `ample fleet simulate`.
    #[pyo3(signature = (servers, progress = None))]
    fn parquet<'py>(
        &self,
        py: Python<'py>,
        servers: Vec<u32>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let files = PyDict::new(py);
        for (number, rows) in self.scans(py, servers, progress)? {
            let bytes = encode(&[rows]).map_err(|error| exception(&error))?;
            files.set_item(number, PyBytes::new(py, &bytes))?;
        }
        Ok(files)
    }

    /// For pickle: a task on another machine gets the text and the policy.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String, String))> {
        let make = slf.py().import("ample")?.getattr("_fleet_again")?;
        let own = slf.get();
        Ok((make, (own.text.clone(), own.policy().into())))
    }

    fn __repr__(&self) -> String {
        let (servers, policy) = (self.fleet.servers(), self.policy());
        format!("<ample.Fleet of {servers} servers under {policy}>")
    }
}
