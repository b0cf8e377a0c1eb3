// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of the project, as they were when the package was built.

use crate::table::ArrowTable;
use crate::work::AmpleError;
use ample_report::results::{Cell, ResultRecord};
use ample_report::standalone;
use pyo3::prelude::*;
use serde_json::Value;

/// Names and texts of the files of `results/data`.
const FILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/results.rs"));

/// One table with everything needed to make it again.
#[pyclass(frozen, module = "ample", name = "Result")]
pub struct PyResultRecord {
    record: ResultRecord,
    /// The whole record as JSON.
    #[pyo3(get)]
    json: &'static str,
}

/// Parts of a cell, by the ending of the name of their column.
const PARTS: [&str; 4] = ["", ".low", ".high", ".plus_minus"];

fn part(cell: &Cell, part: &str) -> Value {
    match (cell, part) {
        (Cell::Text(text), "") => Value::from(text.as_str()),
        (Cell::Number(value), "") => Value::from(*value),
        (Cell::Spread(spread), "") => spread.value.into(),
        (Cell::Spread(spread), ".low") => spread.low.into(),
        (Cell::Spread(spread), ".high") => spread.high.into(),
        (Cell::Spread(spread), _) => spread.plus_minus.into(),
        _ => Value::Null,
    }
}

#[pymethods]
impl PyResultRecord {
    /// Name of the result and of its file.
    #[getter]
    fn id(&self) -> &str {
        &self.record.id
    }

    /// Part of the project.
    #[getter]
    fn layer(&self) -> &str {
        self.record.layer.name()
    }

    /// Heading of the table on its page.
    #[getter]
    fn title(&self) -> &str {
        &self.record.title
    }

    /// The command that makes it.
    #[getter]
    fn command(&self) -> &str {
        &self.record.command
    }

    /// simulated, measured or counted.
    #[getter]
    fn kind(&self) -> &str {
        self.record.kind.name()
    }

    /// The table. A column whose cells have a spread is followed by `NAME.low`, `NAME.high` or
    /// `NAME.plus_minus`.
    fn table(&self) -> ArrowTable {
        let (mut names, mut picked) = (Vec::new(), Vec::new());
        for (at, column) in self.record.columns.iter().enumerate() {
            for ending in PARTS {
                let mut cells = self.record.rows.iter().map(|row| part(&row[at], ending));
                if ending.is_empty() || cells.any(|cell| !cell.is_null()) {
                    names.push(format!("{}{ending}", column.key));
                    picked.push((at, ending));
                }
            }
        }
        let row = |row: &Vec<Cell>| {
            let cells = picked.iter().map(|&(at, ending)| part(&row[at], ending));
            cells.collect()
        };
        let rows: Vec<Vec<Value>> = self.record.rows.iter().map(row).collect();
        ArrowTable::of_rows(&names, &rows)
    }

    /// The chart of the table as SVG; `None` for a table without one.
    fn svg(&self) -> Option<String> {
        let figure = self.record.figure.as_ref()?;
        Some(standalone(&figure.to_svg(&self.record)))
    }

    fn _repr_svg_(&self) -> Option<String> {
        self.svg()
    }

    fn __repr__(&self) -> String {
        let (record, rows) = (&self.record, self.record.rows.len());
        format!(
            "<ample.Result {}: {}, {rows} rows>",
            record.id, record.title
        )
    }
}

/// Ids, layers, titles, kinds and commands of all results.
#[pyfunction]
pub fn results() -> PyResult<ArrowTable> {
    let names = ["id", "layer", "title", "kind", "command"].map(String::from);
    let mut rows = Vec::new();
    for &(_, json) in FILES {
        let found = read(json)?;
        let record = &found.record;
        let texts = [
            found.id(),
            found.layer(),
            found.title(),
            found.kind(),
            &record.command,
        ];
        rows.push(texts.map(Value::from).to_vec());
    }
    Ok(ArrowTable::of_rows(&names, &rows))
}

/// The result with this id.
#[pyfunction]
pub fn result(id: &str) -> PyResult<PyResultRecord> {
    let names = || FILES.iter().map(|(name, _)| *name);
    match FILES.iter().find(|(name, _)| *name == id) {
        Some((_, json)) => read(json),
        None => {
            let near = match ample_kit::names::nearest(id, names()) {
                Some(near) => format!(" Did you mean {near:?}?"),
                None => String::new(),
            };
            let text = format!("no result {id:?}.{near} ample.results() lists them");
            Err(AmpleError::new_err(text))
        }
    }
}

fn read(json: &'static str) -> PyResult<PyResultRecord> {
    let record: ResultRecord = serde_json::from_str(json).map_err(|error| {
        AmpleError::new_err(format!("a result that the package holds: {error}"))
    })?;
    Ok(PyResultRecord { record, json })
}
