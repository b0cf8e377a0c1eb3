// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine that is built in: DataFusion.

use crate::batch::schema;
use crate::queries::{Parameters, Query};
use anyhow::{Context, Result, bail};
use arrow::array::Int64Array;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{DataFrame, ParquetReadOptions, SessionConfig, SessionContext};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Tables in one process.
pub struct FleetEngine {
    context: SessionContext,
    runtime: Runtime,
    results: BTreeMap<&'static str, Vec<RecordBatch>>,
}

impl FleetEngine {
    /// An engine over these Parquet files, which all have the columns of the table, with
    /// `threads` threads and at most `memory_bytes` for what it keeps.
    ///
    /// # Errors
    /// When the threads cannot be started or a file cannot be opened.
    pub fn new(
        files: &[PathBuf],
        parameters: &Parameters,
        threads: usize,
        memory_bytes: usize,
    ) -> Result<FleetEngine> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .build()?;
        let mut config = SessionConfig::new().with_target_partitions(threads);
        config.options_mut().execution.parquet.pushdown_filters = true;
        let memory = RuntimeEnvBuilder::new()
            .with_memory_limit(memory_bytes, 1.0)
            .build_arc()?;
        let context = SessionContext::new_with_config_rt(config, memory);
        let columns = parameters.columns();
        let fields = columns.map(|(name, _)| Field::new(name, DataType::Int64, false));
        let values = columns.map(|(_, value)| Arc::new(Int64Array::from(vec![value])) as _);
        let parameters = Arc::new(Schema::new(fields.to_vec()));
        context.register_batch(
            "parameters",
            RecordBatch::try_new(parameters, values.into())?,
        )?;
        let paths: Vec<String> = files
            .iter()
            .map(|file| address(file))
            .collect::<Result<_>>()?;
        let table_schema = schema();
        let options = ParquetReadOptions::default()
            .schema(&table_schema)
            .file_extension("");
        let scans = runtime.block_on(context.read_parquet(paths, options))?;
        context.register_table("scans", scans.into_view())?;
        Ok(FleetEngine {
            context,
            runtime,
            results: BTreeMap::new(),
        })
    }

    /// Runs the queries in order; each result is a table for those that follow.
    ///
    /// # Errors
    /// When a query cannot be run, with its name.
    pub fn run(&mut self, queries: &[Query], progress: &dyn Fn(usize, usize)) -> Result<()> {
        for (at, query) in queries.iter().enumerate() {
            let about = || format!("query {}", query.name);
            self.step(query).with_context(about)?;
            progress(at + 1, queries.len());
        }
        Ok(())
    }

    fn step(&mut self, query: &Query) -> Result<()> {
        let frame: DataFrame = self.runtime.block_on(self.context.sql(query.sql))?;
        if query.view {
            self.context.register_table(query.name, frame.into_view())?;
            return Ok(());
        }
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batches = self.runtime.block_on(frame.collect())?;
        let table = MemTable::try_new(schema, vec![batches.clone()])?;
        self.context.register_table(query.name, Arc::new(table))?;
        self.results.insert(query.name, batches);
        Ok(())
    }

    /// The rows of a result.
    ///
    /// # Errors
    /// When there is no such result, or its columns are not those of `T`.
    pub fn rows<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>> {
        let batches = self.results.get(name);
        let batches = batches.with_context(|| format!("no result {name}"))?;
        let mut rows = Vec::new();
        for batch in batches {
            for row in objects(batch)? {
                let row = serde_json::from_value(Value::Object(row));
                rows.push(row.with_context(|| format!("result {name}"))?);
            }
        }
        Ok(rows)
    }
}

/// Whether an error of the engine says that the memory that it may keep is too little.
#[must_use]
pub fn ran_out_of_memory(error: &anyhow::Error) -> bool {
    let root = (error.downcast_ref::<DataFusionError>()).map(DataFusionError::find_root);
    matches!(root, Some(DataFusionError::ResourcesExhausted(_)))
}

/// The address of a file. As an address it is no pattern, whatever letters its name has.
fn address(file: &Path) -> Result<String> {
    let whole = std::path::absolute(file)?;
    let about = || format!("{}: its name is not text", file.display());
    let text = whole.to_str().with_context(about)?;
    let mut address = "file://".to_string();
    for byte in text.bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => address.push(byte.into()),
            byte if byte.is_ascii_alphanumeric() => address.push(byte.into()),
            byte => address.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(address)
}

/// The rows of a batch, by column names.
fn objects(batch: &RecordBatch) -> Result<Vec<Map<String, Value>>> {
    let mut rows = vec![Map::new(); batch.num_rows()];
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let values: Vec<Value> = match field.data_type() {
            DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => {
                let texts = cast(column, &DataType::Utf8)?;
                let texts = texts.as_string::<i32>();
                texts.iter().map(Value::from).collect()
            }
            kind if kind.is_integer() => {
                let numbers = cast(column, &DataType::Int64)?;
                let numbers = numbers.as_primitive::<Int64Type>();
                numbers.iter().map(Value::from).collect()
            }
            DataType::Float64 => {
                let numbers = column.as_primitive::<Float64Type>();
                numbers.iter().map(Value::from).collect()
            }
            DataType::Null => vec![Value::Null; column.len()],
            other => bail!("column {} is of type {other}", field.name()),
        };
        for (row, value) in rows.iter_mut().zip(values) {
            row.insert(field.name().clone(), value);
        }
    }
    Ok(rows)
}
