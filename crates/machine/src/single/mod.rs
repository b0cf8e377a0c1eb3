// SPDX-License-Identifier: MIT OR Apache-2.0
//! One core: its translation hardware alone ([`functional`]), or with time ([`TimedCore`]).

pub mod functional;
mod ports;
#[cfg(test)]
mod tests;
mod timed_core;

pub use functional::{FunctionalRun, intent_of, run_functional};
pub use timed_core::{CoreConfig, TimedCore, TimedReport};
