// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each mechanism of Contiguitas is worth: everything on, then one off at a time, and two
//! where one covers for the other.

use super::campaign::{Group, campaign};
use super::{ServerExperiment, ServerParams, Spread};
use crate::charts::{Bars, of_spread};
use crate::experiment::{About, Experiment, Figure, Outcome, Progress};
use ample_mm::{Mechanisms, PolicyConfig, PolicyKind};
use ample_report::Unit;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Off together: the review bounds what either of the others asks for.
const PAIRS: [&str; 2] = ["review+algorithm1", "review+per-region-pressure"];

/// One variant under one workload, over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AblationRow {
    pub workload: String,
    /// Policy: contiguitas or contiguitas-hw.
    pub policy: PolicyKind,
    /// The mechanism that is off, or two joined by `+`; `None`: all are on.
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
        let all = PolicyConfig::new(PolicyKind::Contiguitas);
        let hardware = PolicyConfig::new(PolicyKind::ContiguitasHw);
        let mut variants = vec![(None, all.clone()), (None, hardware)];
        for &name in Mechanisms::NAMES.iter().chain(&PAIRS) {
            if let Some(mechanisms) = Mechanisms::without(name) {
                let all = all.clone();
                variants.push((Some(name), PolicyConfig { mechanisms, ..all }));
            }
        }
        let policies: Vec<PolicyConfig> = variants.iter().map(|v| v.1.clone()).collect();
        let groups = campaign(params, &policies, progress)?;
        let variant = |group: &Group| variants[group.policy_index].0;
        let rows = groups.iter().map(|group| row(group, variant(group)));
        Ok(Ablation {
            rows: rows.collect(),
            experiment: ServerExperiment::of(params),
        })
    }
}

impl Outcome for Ablation {
    const SCHEMA: &'static str = "ample.ablation/1";

    fn declare(&mut self, about: &About) {
        self.experiment.declare(about);
    }

    fn head(&self) -> Option<String> {
        self.experiment.head()
    }

    fn figures(&self) -> Vec<Figure> {
        let title = &self.experiment.title;
        let mut bars = Bars::new(title, Unit::Percent);
        for row in &self.rows {
            let variant = row.without.as_deref().unwrap_or(row.policy.name());
            let variant = &format!("{}, {variant}", row.workload);
            let unmovable = of_spread(&row.unmovable_2m_ratio, None);
            let free = of_spread(&row.internal_fragmentation_ratio, None);
            bars.put(variant, "unmovable 2 MB blocks", unmovable);
            bars.put(variant, "free pages inside them", free);
        }
        vec![Figure::new("ablation", title, bars.svg())]
    }
}

fn row(group: &Group, without: Option<&str>) -> AblationRow {
    let count = |run: u64| run as f64;
    AblationRow {
        workload: group.workload.clone(),
        policy: group.policy,
        without: without.map(str::to_string),
        unmovable_2m_ratio: group.steady(|s| s.unmovable_2m_ratio),
        low_region_ratio: group.low_ratio().unwrap_or_else(|| Spread::of([0.0])),
        potential_1g_ratio: group.steady(|s| s.potential_1g_ratio),
        internal_fragmentation_ratio: group.steady(|s| s.internal_fragmentation_ratio),
        failed_unmovable: group.over(|run| count(run.counters.failed_unmovable)),
        failed_pins: group.over(|run| count(run.counters.failed_pins)),
        stall_unmovable_s: group.over(|run| count(run.stall_unmovable_ns) / 1e9),
        stall_movable_s: group.over(|run| count(run.stall_movable_ns) / 1e9),
        border_expanded_blocks: group.over(|run| count(run.counters.border_expanded_blocks)),
        border_shrunk_blocks: group.over(|run| count(run.counters.border_shrunk_blocks)),
        emergency_claims: group.over(|run| count(run.counters.emergency_claims)),
        failed_resizes: group.over(|run| count(run.counters.failed_resizes)),
    }
}
