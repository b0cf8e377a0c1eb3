// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fleet of machines as one table, and its study.
//!
//! A scan becomes a few dozen rows ([`rows`]) of one table ([`encode`] writes it as Parquet). The
//! questions that are asked of the table are the SQL files in `queries/`, whose numbers are whole
//! where they are summed, so that every engine gives the same digits in every order. This crate
//! runs them on the engine that is built in (feature `engine`; `reader` reads single tables);
//! `spark/` runs the same files on Spark.

pub mod agent;
#[cfg(feature = "reader")]
mod batch;
pub mod dates;
mod digest;
#[cfg(feature = "reader")]
mod reader;
mod row;
mod table;

#[cfg(feature = "engine")]
mod engine;
#[cfg(feature = "engine")]
mod generate;
#[cfg(feature = "engine")]
mod merged;
#[cfg(feature = "engine")]
mod place;
#[cfg(feature = "engine")]
mod queries;
#[cfg(feature = "engine")]
mod source;
#[cfg(feature = "engine")]
pub mod study;

pub use digest::RowDigest;
pub use row::{FleetRow, LONGEST_TEXT_BYTES, Labels, SCHEMA_VERSION, rows, rows_of};
pub use table::encode;

#[cfg(feature = "engine")]
pub use engine::{FleetEngine, ran_out_of_memory};
#[cfg(feature = "engine")]
pub use generate::Generated;
#[cfg(feature = "engine")]
pub use place::Unusable;
#[cfg(feature = "engine")]
pub use queries::{Parameters, QUERIES, Query};
#[cfg(feature = "reader")]
pub use reader::TableFile;
#[cfg(feature = "engine")]
pub use source::{FilesProgress, Sources, scans, whole_table};
