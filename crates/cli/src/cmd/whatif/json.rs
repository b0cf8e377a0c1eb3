// SPDX-License-Identifier: MIT OR Apache-2.0
//! Schema `ample.whatif/2`.

use ample_lab::whatif::simulate::FutureRun;
use ample_lab::whatif::{Advice, WhatIf};
use serde_json::{Value, json};

/// A run without its course; the ratios at its end are under definition O.
fn view(FutureRun { choice, run }: &FutureRun) -> Value {
    json!({
        "choice": choice,
        "policy": run.policy.name(),
        "workload": run.workload,
        "seed": run.seed,
        "memory_bytes": run.memory_bytes,
        "duration_s": run.duration_s,
        "end": run.samples.last(),
        "stall_unmovable_ns": run.stall_unmovable_ns,
        "stall_movable_ns": run.stall_movable_ns,
        "huge": run.huge,
        "counters": run.counters,
    })
}

/// The whole document, with a final newline.
///
/// # Errors
/// Never in practice: every field serialises.
pub(super) fn render(whatif: &WhatIf, verdict: &Advice) -> anyhow::Result<String> {
    let (machine, runs) = (&whatif.machine, &whatif.runs);
    let document = json!({
        "schema": "ample.whatif/2",
        "command": whatif.command,
        "partial": runs.partial,
        "event_ratio": whatif.event_ratio,
        "recorded": whatif.recorded,
        "machine": {
            "name": machine.name,
            "kernel": machine.kernel,
            "reader": machine.reader,
            "uptime_seconds": machine.uptime_s,
            "scan_duration_ns": machine.scan_duration_ns,
            "metrics": machine.metrics.total,
            "culprits": machine.culprits,
            "who": machine.who,
        },
        "verdict": verdict.sentences,
        "recommendation": verdict.recommendation,
        "options": verdict.options,
        "futures": runs.futures.iter().map(view).collect::<Vec<Value>>(),
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
