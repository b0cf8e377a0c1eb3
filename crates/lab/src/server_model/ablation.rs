// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each mechanism of Contiguitas is worth: everything on, then one off at a time.

use super::{
    Cell, ServerExperiment, ServerParams, Spread, charts, load_all, run_cells, steady, tables,
};
use crate::experiment::{About, Experiment, Figure, Outcome, Progress};
use ample_mm::{Mechanisms, PolicyConfig, PolicyKind, RunResult};
use ample_report::Table;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// One variant under one workload, over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AblationRow {
    /// Workload.
    pub workload: String,
    /// Policy: contiguitas or contiguitas-hw.
    pub policy: PolicyKind,
    /// The mechanism that is off; `None`: all are on.
    pub without: Option<String>,
    /// Unmovable 2 MB blocks ÷ all, definition O, steady state.
    pub unmovable_2m_ratio: Spread,
    /// Memory below the border ÷ all memory, steady state.
    pub low_region_ratio: Spread,
    /// Memory in 1 GB blocks without an unmovable page, steady state.
    pub potential_1g_ratio: Spread,
    /// Free pages inside unmovable 2 MB blocks, steady state.
    pub internal_fragmentation_ratio: Spread,
    /// Failed kernel allocations of a run.
    pub failed_unmovable: Spread,
    /// Long-term pins refused in a run.
    pub failed_pins: Spread,
    /// Stall time for kernel memory, in seconds of a run.
    pub stall_unmovable_s: Spread,
    /// Stall time for user memory, in seconds of a run.
    pub stall_movable_s: Spread,
    /// Blocks the border moved up by in a run.
    pub border_expanded_blocks: Spread,
    /// Blocks it moved down by.
    pub border_shrunk_blocks: Spread,
    /// Blocks claimed at the border for atomic requests.
    pub emergency_claims: Spread,
    /// Attempts to move it that failed.
    pub failed_resizes: Spread,
}

/// The ablation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ablation {
    /// The experiment as declared.
    pub experiment: ServerExperiment,
    /// Workload by variant.
    pub rows: Vec<AblationRow>,
}

/// Contiguitas with all mechanisms, with each one off, and with hardware.
pub struct AblationExperiment;

impl Experiment for AblationExperiment {
    type Parameters = ServerParams;
    type Outcome = Ablation;

    fn run(params: &ServerParams, progress: Progress<'_>) -> Result<Ablation> {
        ablation(&ServerExperiment::of(params), progress)
    }
}

impl Outcome for Ablation {
    const SCHEMA: &'static str = "ample.ablation/1";

    fn declare(&mut self, about: &About) {
        self.experiment.declare(about);
    }

    fn head(&self) -> Option<String> {
        Some(tables::head(&self.experiment))
    }

    fn tables(&self) -> Option<Vec<(String, Table)>> {
        Some(tables::ablation(self))
    }

    fn figures(&self) -> Vec<Figure> {
        let title = &self.experiment.title;
        vec![Figure::new("ablation", title, charts::ablation(self))]
    }
}

fn ablation(experiment: &ServerExperiment, progress: Progress<'_>) -> Result<Ablation> {
    let params = &experiment.params;
    params.check()?;
    let workloads = load_all(params)?;
    let mut variants: Vec<(Option<&str>, PolicyConfig)> = vec![
        (None, PolicyConfig::new(PolicyKind::Contiguitas)),
        (None, PolicyConfig::new(PolicyKind::ContiguitasHw)),
    ];
    for &name in Mechanisms::NAMES {
        if let Some(mechanisms) = Mechanisms::without(name) {
            let all = PolicyConfig::new(PolicyKind::Contiguitas);
            variants.push((Some(name), PolicyConfig { mechanisms, ..all }));
        }
    }
    let mut cells = Vec::new();
    for workload in 0..workloads.len() {
        for (_, policy) in &variants {
            for &seed in &params.seeds {
                cells.push(Cell {
                    workload,
                    policy: policy.clone(),
                    seed,
                });
            }
        }
    }
    let results = run_cells(params, &workloads, &cells, progress)?;
    let names = variants.iter().map(|(name, _)| *name).cycle();
    let rows = results
        .chunks(params.seeds.len())
        .zip(names)
        .filter_map(row);
    Ok(Ablation {
        experiment: experiment.clone(),
        rows: rows.collect(),
    })
}

/// `None` when not every seed has run.
fn row((runs, without): (&[Option<RunResult>], Option<&str>)) -> Option<AblationRow> {
    let runs: Vec<&RunResult> = runs.iter().map(Option::as_ref).collect::<Option<_>>()?;
    let over = |metric: &dyn Fn(&RunResult) -> f64| Spread::of(runs.iter().map(|run| metric(run)));
    let low = |run: &RunResult| {
        steady(run, |s| s.low_region_bytes.unwrap_or(0) as f64) / run.memory_bytes as f64
    };
    Some(AblationRow {
        workload: runs[0].workload.clone(),
        policy: runs[0].policy,
        without: without.map(str::to_string),
        unmovable_2m_ratio: over(&|run| steady(run, |s| s.unmovable_2m_ratio)),
        low_region_ratio: over(&low),
        potential_1g_ratio: over(&|run| steady(run, |s| s.potential_1g_ratio)),
        internal_fragmentation_ratio: over(&|run| steady(run, |s| s.internal_fragmentation_ratio)),
        failed_unmovable: over(&|run| run.counters.failed_unmovable as f64),
        failed_pins: over(&|run| run.counters.failed_pins as f64),
        stall_unmovable_s: over(&|run| run.stall_unmovable_ns as f64 / 1e9),
        stall_movable_s: over(&|run| run.stall_movable_ns as f64 / 1e9),
        border_expanded_blocks: over(&|run| run.counters.border_expanded_blocks as f64),
        border_shrunk_blocks: over(&|run| run.counters.border_shrunk_blocks as f64),
        emergency_claims: over(&|run| run.counters.emergency_claims as f64),
        failed_resizes: over(&|run| run.counters.failed_resizes as f64),
    })
}
