// SPDX-License-Identifier: MIT OR Apache-2.0
//! What figure 13 is made of.

use super::super::Way;
use ample_machine::multi::OsParams;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnavailableParams {
    /// Numbers of remote TLBs.
    pub remote_tlbs: Vec<u8>,
    /// Migrations for each point and seed.
    pub migrations: u32,
    /// Ways to move a page that are watched.
    pub ways: Vec<Way>,
    /// Share of the cores' accesses that are stores.
    pub write_share: f64,
    /// Numbers of remote TLBs for pages of 2 MB.
    pub large_remote_tlbs: Vec<u8>,
    /// Migrations of a page of 2 MB for each point and seed.
    pub large_migrations: u32,
    /// Misses outstanding a core, for the copies in software.
    pub mshrs: Vec<u32>,
    /// Changes of machine and operating system are tried, by name; empty: all.
    #[serde(default)]
    pub attempts: Vec<String>,
    /// Costs of the operating system.
    #[serde(default)]
    pub os: OsParams,
    /// Seeds of frames and accesses; each point has the migrations of all of them.
    pub seeds: Vec<u64>,
}
