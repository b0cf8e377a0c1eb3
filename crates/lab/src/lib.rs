// SPDX-License-Identifier: MIT OR Apache-2.0
//! The laboratory: every experiment of the project, in one list.
//!
//! An experiment has an id, parameters in TOML, a quick version of them, and a run to a typed
//! result with tables and figures ([`experiment::Experiment`]). `ample sim`, `ample reproduce`,
//! the report and the docs are made from [`ALL`]. How to add one: `docs/lab.md`.

mod charts;
pub mod claims;
pub mod experiment;
pub mod files;
pub mod hardware;
mod list;
pub mod machines;
pub mod needs;
pub mod presets;
pub mod progress;
pub mod recorded;
pub mod reproduce;
pub mod rows;
pub mod scan_bench;
pub mod server_model;
pub mod setup;
pub mod stop;
pub mod sweep;
pub mod text;
pub mod tools;
pub mod translation;
pub mod whatif;

pub use experiment::Text;
pub use list::{ALL, by_id, shipped_parameters};
