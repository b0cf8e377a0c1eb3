// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server model: a deterministic, page-level simulation of a server's memory manager after
//! Linux 6.12, under several policies. Guide: `docs/server-model.md`.

mod ahead;
mod alloc;
mod check;
mod compact;
mod config;
mod core;
mod counters;
mod frame;
mod huge;
mod kcompactd;
mod list;
mod migrate;
mod pages;
mod policy;
mod psi;
mod reclaim;
pub mod replay;
mod run;
mod server;
mod snapshot;
pub mod workload;

pub use alloc::Request;
pub use ample_kit::random::Xoshiro256 as Rng;
pub use config::{Config, Mechanisms, PolicyConfig, PolicyKind};
pub use counters::Counters;
pub use huge::PoolId;
pub use pages::{pages_after, run_after};
pub use policy::policy_ffi;
pub use policy::policy_ffi::ResizeParams;
pub use psi::{Psi, Stall};
pub use run::{HugeResult, RunResult, Sample, run, run_on};
pub use server::{Server, ServerError};
pub use workload::{Workload, WorkloadError};
