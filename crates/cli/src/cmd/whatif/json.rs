// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schema `ample.whatif/1`.

use ample_lab::whatif::WhatIf;
use ample_mm::{Counters, HugeResult, RunResult, Sample};
use ample_pfn::GroupMetrics;
use serde::Serialize;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    command: &'a str,
    /// Share of the page cache's traffic that was simulated.
    event_ratio: f64,
    machine: MachineView<'a>,
    verdict: Vec<String>,
    futures: Vec<RunView<'a>>,
    servers: Vec<RunView<'a>>,
    ablation: Vec<AblationView<'a>>,
}

#[derive(Serialize)]
struct MachineView<'a> {
    name: &'a str,
    kernel: &'a str,
    reader: &'a str,
    uptime_seconds: Option<u64>,
    scan_duration_ns: u64,
    metrics: &'a GroupMetrics,
}

#[derive(Serialize)]
struct RunView<'a> {
    policy: &'static str,
    workload: &'a str,
    seed: u64,
    memory_bytes: u64,
    duration_s: f64,
    /// Ratios under definition O.
    end: Option<&'a Sample>,
    stall_unmovable_ns: u64,
    stall_movable_ns: u64,
    huge: &'a HugeResult,
    counters: &'a Counters,
}

#[derive(Serialize)]
struct AblationView<'a> {
    name: &'a str,
    run: RunView<'a>,
}

fn view(run: &RunResult) -> RunView<'_> {
    RunView {
        policy: run.policy.name(),
        workload: &run.workload,
        seed: run.seed,
        memory_bytes: run.memory_bytes,
        duration_s: run.duration_s,
        end: run.samples.last(),
        stall_unmovable_ns: run.stall_unmovable_ns,
        stall_movable_ns: run.stall_movable_ns,
        huge: &run.huge,
        counters: &run.counters,
    }
}

/// The whole document, with a final newline.
///
/// # Errors
/// Never in practice: every field serialises.
pub(super) fn render(whatif: &WhatIf) -> anyhow::Result<String> {
    let machine = &whatif.machine;
    let document = Document {
        schema: "ample.whatif/1",
        command: &whatif.command,
        event_ratio: whatif.event_ratio,
        machine: MachineView {
            name: &machine.name,
            kernel: &machine.kernel,
            reader: &machine.reader,
            uptime_seconds: machine.uptime_s,
            scan_duration_ns: machine.scan_duration_ns,
            metrics: &machine.metrics.total,
        },
        verdict: whatif.verdict(),
        futures: whatif.futures.iter().map(view).collect(),
        servers: whatif.servers.iter().map(view).collect(),
        ablation: whatif
            .ablation
            .iter()
            .map(|(name, run)| AblationView {
                name,
                run: view(run),
            })
            .collect(),
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
