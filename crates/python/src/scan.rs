// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans of this machine and from snapshots.

use crate::table::ArrowTable;
use crate::work::{AmpleError, exception, work};
use ample_fleet::{Labels, encode, rows};
use ample_host::{ReaderChoice, Root, Scan, ScanOptions, scan_live, snapshot};
use ample_pfn::{MetricsBuilder, SizeList};
use anyhow::Context;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Mutex;

/// One reading of one machine: the class of every page.
#[pyclass(frozen, module = "ample", name = "Scan")]
pub struct PyScan {
    /// A scan is read page by page through a mutable borrow, which no thread shares.
    scan: Mutex<Scan>,
}

impl PyScan {
    fn of(scan: Scan) -> PyScan {
        PyScan {
            scan: Mutex::new(scan),
        }
    }

    fn with<T: Send>(&self, py: Python<'_>, read: impl FnOnce(&mut Scan) -> T + Send) -> T {
        py.detach(|| {
            let mut scan = self.scan.lock().unwrap_or_else(|held| held.into_inner());
            read(&mut scan)
        })
    }
}

fn labels(role: Option<String>, rack: Option<String>) -> Labels {
    Labels { role, rack }
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| exception(&error.into()))
}

#[pymethods]
impl PyScan {
    /// Host name, if known.
    #[getter]
    fn host(&self, py: Python<'_>) -> Option<String> {
        self.with(py, |scan| scan.meta.hostname.clone())
    }

    /// Kernel release.
    #[getter]
    fn kernel(&self, py: Python<'_>) -> String {
        self.with(py, |scan| scan.meta.kernel.clone())
    }

    /// Name of the reader.
    #[getter]
    fn reader(&self, py: Python<'_>) -> String {
        self.with(py, |scan| scan.meta.reader.clone())
    }

    /// What a user should know about this reading.
    #[getter]
    fn notes(&self, py: Python<'_>) -> Vec<String> {
        self.with(py, |scan| scan.meta.notes.clone())
    }

    /// Everything but the pages, as JSON.
    fn meta_json(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |scan| json(&scan.meta))
    }

    /// The contiguity metrics of machine, nodes and zones, as JSON.
    fn metrics_json(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |scan| {
            let Ok(builder) = MetricsBuilder::collect(scan, &SizeList::standard());
            json(&builder.finish(&scan.meta.coverage))
        })
    }

    /// The scan as rows of the table of a fleet.
    #[pyo3(signature = (role = None, rack = None))]
    fn table(&self, py: Python<'_>, role: Option<String>, rack: Option<String>) -> ArrowTable {
        let found = self.with(py, |scan| rows(scan, &labels(role, rack)));
        ArrowTable::of_fleet(&found)
    }

    /// The bytes of `ample scan --format parquet`.
    #[pyo3(signature = (role = None, rack = None))]
    fn parquet<'py>(
        &self,
        py: Python<'py>,
        role: Option<String>,
        rack: Option<String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |scan| encode(&[rows(scan, &labels(role, rack))]));
        Ok(PyBytes::new(py, &bytes.map_err(|error| exception(&error))?))
    }

    /// Keeps the scan as a snapshot.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let written = self.with(py, |scan| snapshot::write(scan, &path));
        let named = || format!("cannot write {}", path.display());
        written
            .with_context(named)
            .map_err(|error| exception(&error))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        self.with(py, |scan| {
            let host = scan.meta.hostname.as_deref().unwrap_or("unknown host");
            format!("<ample.Scan of {host}, reader {}>", scan.meta.reader)
        })
    }
}

/// Reads all pages of this machine (as root), or of a saved tree of /proc.
#[pyfunction]
#[pyo3(signature = (reader = "auto", *, owners = false, root = None))]
pub fn scan(py: Python<'_>, reader: &str, owners: bool, root: Option<PathBuf>) -> PyResult<PyScan> {
    let reader = match reader {
        "auto" => ReaderChoice::Auto,
        "procfs" => ReaderChoice::Procfs,
        "bpf" => ReaderChoice::Bpf,
        other => {
            let text = format!("no reader {other:?}: give \"auto\", \"procfs\" or \"bpf\"");
            return Err(AmpleError::new_err(text));
        }
    };
    let options = ScanOptions {
        reader,
        owners,
        root: root.map_or_else(Root::live, |path| Root::offline(&path)),
        ..ScanOptions::default()
    };
    work(py, None, move |_| Ok(scan_live(&options)?)).map(PyScan::of)
}

/// Reads a snapshot that `ample scan --format snapshot` or `Scan.save` wrote.
#[pyfunction]
pub fn read_snapshot(py: Python<'_>, path: PathBuf) -> PyResult<PyScan> {
    work(py, None, move |_| Ok(snapshot::read(&path)?)).map(PyScan::of)
}
