// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the metrics move when page-cache traffic is thinned, and when the server is smaller.

use super::campaign::{Group, campaign, policies};
use super::{ServerParams, Spread};
use crate::charts::{Bars, of_spread};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_mm::PolicyKind;
use ample_pfn::format_bytes;
use ample_report::Unit;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvergenceParams {
    /// Simulated seconds of each run.
    pub duration_s: f64,
    /// Simulated seconds between samples.
    pub sample_every_s: f64,
    /// One run each.
    pub seeds: Vec<u64>,
    /// Workloads, by name or path.
    pub workloads: Vec<String>,
    pub policies: Vec<PolicyKind>,
    /// Sizes to compare; the first is what the others should agree with.
    pub points: Vec<ModelSize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSize {
    /// Memory of the server.
    pub memory_bytes: u64,
    /// Share of page-cache traffic that is simulated.
    pub event_ratio: f64,
}

/// One workload under one policy at one size, steady state, over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConvergenceRow {
    /// Memory of the server.
    pub memory_bytes: u64,
    /// Share of page-cache traffic simulated.
    pub event_ratio: f64,
    pub workload: String,
    pub policy: PolicyKind,
    /// Unmovable 2 MB blocks ÷ all, definition O.
    pub unmovable_2m_ratio: Spread,
    /// Unmovable 4 KB pages ÷ all.
    pub unmovable_page_ratio: Spread,
    /// Free pages inside unmovable 2 MB blocks.
    pub internal_fragmentation_ratio: Spread,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConvergenceReport {
    /// What was run.
    pub parameters: ConvergenceParams,
    /// Rows by size.
    pub rows: Vec<ConvergenceRow>,
}

/// The convergence of the server model.
pub struct Convergence;

impl Experiment for Convergence {
    type Parameters = ConvergenceParams;
    type Outcome = ConvergenceReport;

    fn run(parameters: &ConvergenceParams, progress: Progress<'_>) -> Result<ConvergenceReport> {
        let count = parameters.points.len().max(1) as f64;
        let mut rows = Vec::new();
        for (done, &point) in parameters.points.iter().enumerate() {
            let share = |part| progress((done as f64 + part) / count);
            rows.extend(at_size(parameters, point, &share)?);
        }
        Ok(ConvergenceReport {
            parameters: parameters.clone(),
            rows,
        })
    }
}

fn at_size(
    parameters: &ConvergenceParams,
    size: ModelSize,
    progress: Progress<'_>,
) -> Result<Vec<ConvergenceRow>> {
    let params = ServerParams {
        memory_bytes: size.memory_bytes,
        event_ratio: size.event_ratio,
        duration_s: parameters.duration_s,
        sample_every_s: parameters.sample_every_s,
        seeds: parameters.seeds.clone(),
        workloads: parameters.workloads.clone(),
        policies: parameters.policies.clone(),
        ..ServerParams::default()
    };
    let groups = campaign(&params, &policies(&params), progress)?;
    let row = |group: &Group| ConvergenceRow {
        memory_bytes: size.memory_bytes,
        event_ratio: size.event_ratio,
        workload: group.workload.clone(),
        policy: group.policy,
        unmovable_2m_ratio: group.steady(|s| s.unmovable_2m_ratio),
        unmovable_page_ratio: group.steady(|s| s.unmovable_page_ratio),
        internal_fragmentation_ratio: group.steady(|s| s.internal_fragmentation_ratio),
    };
    Ok(groups.iter().map(row).collect())
}

impl Outcome for ConvergenceReport {
    const SCHEMA: &'static str = "ample.convergence/1";

    fn figures(&self) -> Vec<Figure> {
        let title = "Unmovable 2 MB blocks by size of the model";
        let mut bars = Bars::new(title, Unit::Percent);
        for row in &self.rows {
            let group = format!("{} {}", row.workload, row.policy.name());
            let size = format!("{}, {}", format_bytes(row.memory_bytes), row.event_ratio);
            bars.put(&group, &size, of_spread(&row.unmovable_2m_ratio, None));
        }
        vec![Figure::new("unmovable", title, bars.svg())]
    }
}
