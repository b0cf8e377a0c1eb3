// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads: what runs on the server, as declarative TOML. All sizes are shares of memory and
//! all rates are per second or per hour, so that a workload fits any machine. Guide:
//! `docs/server-model.md`, "Add a workload".

mod driver;
mod load;
mod observed;
mod source;
mod spec;

pub(crate) use driver::Driver;
pub use load::{WorkloadError, shipped_workloads};
pub use observed::{Lifetimes, Observed, PageStream, StreamOrigin, kernel_change_pages};
pub use spec::{
    Deploy, HugeDemand, KernelSpec, PageCacheSpec, Pins, Process, SwapSpec, UserMemory, Workload,
};
