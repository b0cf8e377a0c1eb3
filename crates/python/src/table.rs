// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table that any library of data frames takes: the Arrow PyCapsule interface.

use crate::work::{AmpleError, exception};
use ample_fleet::FleetRow;
use ample_lab::rows::Rows;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyIterator, PyList};
use serde_json::Value;
use std::sync::Arc;

/// The values of one column; each may be absent.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Text, in UTF-8.
    Text(Vec<Option<String>>),
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// Numbers with a fraction.
    Number(Vec<Option<f64>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
}

impl Values {
    /// The narrowest type that holds all of them; text where nothing else does.
    fn of_json(values: &[&Value]) -> Values {
        let all = |fits: fn(&Value) -> bool| values.iter().all(|v| v.is_null() || fits(v));
        if values.iter().all(|value| value.is_null()) {
            return Values::Text(vec![None; values.len()]);
        }
        if all(Value::is_boolean) {
            return Values::Flag(values.iter().map(|value| value.as_bool()).collect());
        }
        if all(Value::is_i64) {
            return Values::Whole(values.iter().map(|value| value.as_i64()).collect());
        }
        if all(Value::is_number) {
            return Values::Number(values.iter().map(|value| value.as_f64()).collect());
        }
        let text = |value: &&Value| match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        Values::Text(values.iter().map(text).collect())
    }

    fn data_type(&self) -> DataType {
        match self {
            Values::Text(_) => DataType::Utf8,
            Values::Whole(_) => DataType::Int64,
            Values::Number(_) => DataType::Float64,
            Values::Flag(_) => DataType::Boolean,
        }
    }

    fn array(&self) -> ArrayRef {
        match self {
            Values::Text(all) => {
                Arc::new(all.iter().map(Option::as_deref).collect::<StringArray>())
            }
            Values::Whole(all) => Arc::new(all.iter().copied().collect::<Int64Array>()),
            Values::Number(all) => Arc::new(all.iter().copied().collect::<Float64Array>()),
            Values::Flag(all) => Arc::new(all.iter().copied().collect::<BooleanArray>()),
        }
    }

    fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self {
            Values::Text(all) => PyList::new(py, all),
            Values::Whole(all) => PyList::new(py, all),
            Values::Number(all) => PyList::new(py, all),
            Values::Flag(all) => PyList::new(py, all),
        }
    }
}

/// Columns of equal length. pyarrow, polars, pandas and DuckDB take it as it is; without them its
/// columns are lists.
#[pyclass(frozen, name = "Table", module = "ample")]
pub struct ArrowTable {
    columns: Vec<(String, Values)>,
    rows: usize,
}

impl ArrowTable {
    /// A table of cells as plain values, row by row; a row that is too short ends with nulls.
    pub fn of_rows(names: &[String], rows: &[Vec<Value>]) -> ArrowTable {
        let column = |(at, name): (usize, &String)| {
            let cells: Vec<&Value> = rows
                .iter()
                .map(|row| row.get(at).unwrap_or(&Value::Null))
                .collect();
            (name.clone(), Values::of_json(&cells))
        };
        ArrowTable {
            columns: names.iter().enumerate().map(column).collect(),
            rows: rows.len(),
        }
    }

    /// The lists of an experiment's result, by their names.
    pub fn of_lists<'py>(py: Python<'py>, lists: &[Rows]) -> PyResult<Bound<'py, PyDict>> {
        let tables = PyDict::new(py);
        for list in lists {
            tables.set_item(
                &list.name,
                ArrowTable::of_rows(&list.columns, &list.rows).into_pyobject(py)?,
            )?;
        }
        Ok(tables)
    }

    /// Scans, in the columns of the table of a fleet.
    pub fn of_fleet(rows: &[FleetRow]) -> ArrowTable {
        let texts: Vec<_> = rows.iter().map(FleetRow::texts).collect();
        let numbers: Vec<_> = rows.iter().map(FleetRow::numbers).collect();
        let text = |(at, name): (usize, &&str)| {
            let all = texts.iter().map(|row| row[at].map(str::to_string));
            (name.to_string(), Values::Text(all.collect()))
        };
        let number = |(at, name): (usize, &&str)| {
            let all = numbers.iter().map(|row| row[at]);
            (name.to_string(), Values::Whole(all.collect()))
        };
        let texts = FleetRow::TEXTS.iter().enumerate().map(text);
        let numbers = FleetRow::NUMBERS.iter().enumerate().map(number);
        ArrowTable {
            columns: texts.chain(numbers).collect(),
            rows: rows.len(),
        }
    }

    fn schema(&self) -> Schema {
        let fields = self.columns.iter();
        Schema::new(
            fields
                .map(|(name, values)| Field::new(name, values.data_type(), true))
                .collect::<Vec<_>>(),
        )
    }

    fn batch(&self) -> Result<RecordBatch, ArrowError> {
        let arrays = self.columns.iter().map(|(_, values)| values.array());
        RecordBatch::try_new(Arc::new(self.schema()), arrays.collect())
    }
}

fn arrow(error: ArrowError) -> PyErr {
    exception(&anyhow::Error::new(error).context("making an Arrow table"))
}

#[pymethods]
impl ArrowTable {
    /// Names of the columns, from the left.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.columns.iter().map(|(name, _)| name.clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.rows
    }

    /// A column as a list, `None` where a value is absent.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        match self.columns.iter().find(|(own, _)| own == name) {
            Some((_, values)) => values.list(py),
            None => Err(PyKeyError::new_err(format!(
                "no column {name:?}; there are {}",
                self.column_names().join(", ")
            ))),
        }
    }

    /// A row as a dict.
    fn row<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyDict>> {
        if index >= self.rows {
            let text = format!("no row {index}: the table has {}", self.rows);
            return Err(PyIndexError::new_err(text));
        }
        let row = PyDict::new(py);
        for (name, values) in &self.columns {
            match values {
                Values::Text(all) => row.set_item(name, &all[index])?,
                Values::Whole(all) => row.set_item(name, all[index])?,
                Values::Number(all) => row.set_item(name, all[index])?,
                Values::Flag(all) => row.set_item(name, all[index])?,
            }
        }
        Ok(row)
    }

    /// All rows as dicts.
    fn to_dicts<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        (0..self.rows).map(|index| self.row(py, index)).collect()
    }

    /// The rows as dicts, one after another.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.to_dicts(py)?)?.try_iter()
    }

    /// All columns as lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (name, values) in &self.columns {
            all.set_item(name, values.list(py)?)?;
        }
        Ok(all)
    }

    /// As a polars.DataFrame; needs polars.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "polars")?.call_method1("DataFrame", (slf,))
    }

    /// As a pyarrow.Table; needs pyarrow.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "pyarrow")?.call_method1("table", (slf,))
    }

    /// The schema for another library, as a capsule of the Arrow C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&self.schema()).map_err(arrow)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The data for another library, as a capsule of the Arrow C stream interface. A requested
    /// schema is a wish that the interface allows to leave unheard.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batch = self.batch().map_err(arrow)?;
        let schema = batch.schema();
        let reader = RecordBatchIterator::new([Ok(batch)], schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __repr__(&self) -> String {
        let names = self.column_names().join(", ");
        format!("<ample.Table of {} rows: {names}>", self.rows)
    }
}

/// Imports a library that is not needed for anything else.
fn library<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(name).map_err(|error| {
        let text = format!("{name} is not installed; pip install {name}");
        let own = AmpleError::new_err(text);
        own.set_cause(py, Some(error));
        own
    })
}
