// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the migration hardware is worth by the kinds of pages that it may move (Contiguitas §3.3):
//! none, then network buffers and pinned pages, page tables, slab, all.

use super::campaign::{Group, campaign};
use super::{ServerExperiment, ServerParams, Spread};
use crate::charts::{Bars, of_spread};
use crate::experiment::{About, Experiment, Figure, Outcome, Progress};
use ample_mm::{HwClasses, PolicyConfig, PolicyKind};
use ample_report::Unit;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// What moves in a row without the hardware.
const NOTHING: &str = "nothing";

/// One set of classes under one workload, over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HwClassesRow {
    pub workload: String,
    /// What the hardware moves: nothing, network, page-tables, slab or all; each with those before.
    pub moves: String,
    /// Unmovable 2 MB blocks ÷ all, definition O, steady state.
    pub unmovable_2m_ratio: Spread,
    /// Memory below the border ÷ all memory, steady state.
    pub low_region_ratio: Spread,
    /// Memory in 1 GB blocks without an unmovable page, steady state.
    pub potential_1g_ratio: Spread,
    /// Free pages inside unmovable 2 MB blocks, steady state.
    pub internal_fragmentation_ratio: Spread,
    /// Pages that the hardware migrated, a second.
    pub hw_migrations_per_s: Spread,
    /// Blocks the border moved down by in a run.
    pub border_shrunk_blocks: Spread,
    /// Attempts to move it that failed.
    pub failed_resizes: Spread,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ByHwClasses {
    /// The experiment as declared.
    pub experiment: ServerExperiment,
    /// Workload by classes, from nothing to all.
    pub rows: Vec<HwClassesRow>,
}

/// Contiguitas without hardware, and with hardware that moves more and more.
pub struct HwClassesExperiment;

impl Experiment for HwClassesExperiment {
    type Parameters = ServerParams;
    type Outcome = ByHwClasses;

    fn run(params: &ServerParams, progress: Progress<'_>) -> Result<ByHwClasses> {
        let mut variants = vec![(NOTHING, PolicyConfig::new(PolicyKind::Contiguitas))];
        for hw_classes in HwClasses::ALL {
            let hardware = PolicyConfig::new(PolicyKind::ContiguitasHw);
            let config = PolicyConfig {
                hw_classes,
                ..hardware
            };
            variants.push((hw_classes.name(), config));
        }
        let policies: Vec<PolicyConfig> = variants.iter().map(|v| v.1.clone()).collect();
        let groups = campaign(params, &policies, progress)?;
        let moves = |group: &Group| variants[group.policy_index].0;
        let rows = (groups.iter()).map(|group| row(group, moves(group), params.duration_s));
        Ok(ByHwClasses {
            rows: rows.collect(),
            experiment: ServerExperiment::of(params),
        })
    }
}

impl Outcome for ByHwClasses {
    const SCHEMA: &'static str = "ample.hw-classes/1";

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
            let variant = &format!("{}, {}", row.workload, row.moves);
            let unmovable = of_spread(&row.unmovable_2m_ratio, None);
            let free = of_spread(&row.internal_fragmentation_ratio, None);
            bars.put(variant, "unmovable 2 MB blocks", unmovable);
            bars.put(variant, "free pages inside them", free);
        }
        vec![Figure::new("hw-classes", title, bars.svg())]
    }
}

fn row(group: &Group, moves: &str, duration_s: f64) -> HwClassesRow {
    let count = |run: u64| run as f64;
    HwClassesRow {
        workload: group.workload.clone(),
        moves: moves.to_string(),
        unmovable_2m_ratio: group.steady(|s| s.unmovable_2m_ratio),
        low_region_ratio: group.low_ratio().unwrap_or_else(|| Spread::of([0.0])),
        potential_1g_ratio: group.steady(|s| s.potential_1g_ratio),
        internal_fragmentation_ratio: group.steady(|s| s.internal_fragmentation_ratio),
        hw_migrations_per_s: group.over(|run| count(run.counters.hw_migrated_pages) / duration_s),
        border_shrunk_blocks: group.over(|run| count(run.counters.border_shrunk_blocks)),
        failed_resizes: group.over(|run| count(run.counters.failed_resizes)),
    }
}
