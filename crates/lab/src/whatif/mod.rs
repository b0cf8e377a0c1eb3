// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of `ample whatif`: this machine as it is, what each policy would make of it, and what
//! the same policies do to 64 GB servers.

mod machine;
mod servers;
pub mod simulate;
mod speed;
mod verdict;

use ample_mm::{PolicyKind, RunResult};
use ample_pfn::{BlockTally, Metrics, Order, format_bytes};
use ample_report::Page;
use ample_report::Table;

/// A machine as it was scanned.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Host name, or the name of the snapshot.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Reader that saw the pages.
    pub reader: String,
    /// Uptime in seconds, if known.
    pub uptime_s: Option<u64>,
    /// How long the scan took.
    pub scan_duration_ns: u64,
    /// Its metrics.
    pub metrics: Metrics,
    /// Its 2 MB blocks, for the map.
    pub blocks: Vec<BlockTally>,
    /// Order of those blocks.
    pub base: Order,
}

/// Everything the page shows.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// The scanned machine.
    pub machine: Machine,
    /// Its future under each policy, all from the same scan, workload and seed; `linux` first.
    pub futures: Vec<RunResult>,
    /// Freshly booted servers: workloads × policies × seeds.
    pub servers: Vec<RunResult>,
    /// Contiguitas without one mechanism each, by name; the first is complete.
    pub ablation: Vec<(String, RunResult)>,
    /// Share of the page cache's traffic that was simulated.
    pub event_ratio: f64,
    /// Command that makes this page again.
    pub command: String,
}

impl WhatIf {
    /// The future under one policy.
    pub fn future(&self, policy: PolicyKind) -> Option<&RunResult> {
        self.futures.iter().find(|run| run.policy == policy)
    }

    /// What to tell the owner of this machine, in plain language, one sentence each.
    pub fn verdict(&self) -> Vec<String> {
        verdict::sentences(self)
    }

    /// What thinning the page cache's traffic does to the figures; empty where nothing was thinned.
    fn thinning(&self) -> String {
        if self.event_ratio >= 1.0 {
            return String::new();
        }
        format!(
            " Of the page cache’s traffic {:.0} % is simulated, which makes stock Linux look \
             better than it is, by up to 6 points under ci and cache-b, and leaves the other \
             policies as they are (results/predict.md, convergence).",
            100.0 * self.event_ratio
        )
    }

    /// One row for each future.
    pub fn futures_table(&self) -> Table {
        machine::futures_table(&self.futures)
    }

    /// The whole page.
    pub fn page(&self) -> Page {
        let m = &self.machine;
        let memory = format_bytes(m.metrics.total.memory_bytes);
        let lead = format!(
            "{} · Linux {} · {memory} of memory · scanned by {} in {:.0} ms",
            m.name,
            m.kernel,
            m.reader,
            m.scan_duration_ns as f64 / 1e6
        );
        let mut page = Page::new("What this machine’s memory could be", &lead);
        page.push(machine::now(self));
        page.push(machine::futures(self));
        page.push(servers::unmovable(self));
        page.push(servers::potential(self));
        page.push(speed::section(self));
        page.push(servers::over_time(self));
        page.push(servers::sources(self));
        if !self.ablation.is_empty() {
            page.push(servers::ablation(self));
        }
        page.push(machine::method(self));
        page
    }
}
