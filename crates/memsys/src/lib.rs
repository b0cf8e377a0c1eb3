// SPDX-License-Identifier: MIT OR Apache-2.0
//! The multi-core machine and the migration protocol, for the experiments.

pub use ample_machine::multi as timed;
pub use ample_migration::protocol;
