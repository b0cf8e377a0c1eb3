// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exhaustive model checking of the migration protocol: the code of [`crate::protocol`], every
//! order of events, small machines.

mod config;
mod coverage;
mod descriptors;
mod events;
mod litmus;
mod liveness;
mod programs;
mod properties;
mod report;
mod safety;
mod state;
mod step;
mod suite;

pub use config::{CheckConfig, DeadLine};
pub use coverage::{Explored, Transition};
pub use events::{Action, actions};
pub use litmus::litmus_outcomes;
pub use liveness::{Liveness, check as liveness};
pub use programs::{LITMUS_TESTS, LitmusTest};
pub use report::{Checked, Finding, Params, Report, run};
pub use safety::{Counterexample, Safety, check as safety};
pub use state::State;
pub use step::apply;
pub use suite::{full, quick, with_faults};

#[cfg(test)]
mod independence;
#[cfg(test)]
mod tests;
