// SPDX-License-Identifier: MIT OR Apache-2.0
//! One core: its translation hardware alone ([`functional`]), or with time ([`TimedCore`]).

mod core_config;
pub mod functional;
mod in_flight;
#[cfg(test)]
mod order_tests;
mod pending;
mod ports;
mod report;
#[cfg(test)]
mod tests;
mod timed_core;

pub use core_config::{AccessOrder, CoreConfig, StoresTranslate};
pub use functional::{FunctionalRun, intent_of, run_functional};
pub use report::TimedReport;
pub use timed_core::TimedCore;
