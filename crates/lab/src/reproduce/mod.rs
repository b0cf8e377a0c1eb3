// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample reproduce`: many experiments in the order of their dependencies, several at a time,
//! each result kept by the content of what made it.

mod estimate;
mod job;
mod page;
mod run;
mod schedule;
mod store;
mod table;

pub use estimate::Estimate;
pub use job::{Job, jobs};
pub use page::{Contents, write_report};
pub use run::{Done, Ended, Limits, Watcher, run};
pub use schedule::Budget;
pub use store::{Key, Store, Stored};

#[cfg(test)]
mod tests;
