// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exhaustive model checking of the migration protocol: the code of [`crate::protocol`], every
//! order of events, small machines.

mod config;
mod core_step;
mod coverage;
mod descriptors;
mod events;
mod judge;
mod litmus;
mod liveness;
mod marks;
mod programs;
mod properties;
mod registers;
mod report;
mod safety;
mod state;
mod step;
mod suite;
mod sweep;

pub use config::{CheckConfig, DeadLine};
pub use coverage::{Explored, Transition};
pub use events::{Action, actions};
pub use judge::{Judged, judge};
pub use litmus::litmus_outcomes;
pub use liveness::{Liveness, check as liveness};
pub use marks::wrong_marks;
pub use programs::{LITMUS_TESTS, LitmusCase, LitmusTest, POISON};
pub use registers::wrong_registers;
pub use report::{Checked, Finding, Params, Report, run};
pub use safety::{Counterexample, Safety, check as safety};
pub use state::State;
pub use step::apply;
pub use suite::{full, large, quick, with_faults};
pub use sweep::{Swept, sweep};

#[cfg(test)]
mod independence;
#[cfg(test)]
mod tests;
