// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server model: a deterministic, page-level simulation of a server's memory manager after
//! Linux 6.12, under several policies. Guide: `docs/server-model.md`.

mod alloc;
mod compact;
mod config;
mod counters;
mod kernel;
mod memory;
mod policy;
mod psi;
mod reclaim;
pub mod replay;
mod run;
mod server;
pub mod workload;

pub use alloc::AllocRequest;
pub use ample_kit::random::Xoshiro256 as Rng;
pub use config::{
    Config, CostlyRequests, HwClasses, Mechanisms, PolicyConfig, PolicyKind, Resizer, Tuning,
};
pub use counters::Counters;
pub use memory::{Marks, PoolId};
pub use policy::policy_ffi;
pub use policy::policy_ffi::ResizeParams;
pub use psi::{Psi, Stall};
pub use run::{HugeResult, RunResult, Sample, looks, pages_after, run, run_after, run_on};
pub use server::{CompactionState, Obtained, PageFlags, ServerError, ServerModel};
pub use workload::{Observed, Workload, WorkloadError};
