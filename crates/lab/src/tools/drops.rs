// SPDX-License-Identifier: MIT OR Apache-2.0
//! Temeraire's figure 11 over time: what strategies of the filler hold after a drop of demand, by
//! how often the live memory has turned over since (`ample-malloc drops`).

use super::written_by;
use crate::charts::{line, lines};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_report::Unit;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Demand and seeds of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DropParams {
    /// Demand before the drop, MiB.
    pub demand_mib: u32,
    /// Seeds of the order of calls.
    pub seeds: u32,
}

/// Overheads at one moment: backed memory ÷ memory in use, less one; medians over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DropRow {
    /// `driver` (lengths of the paper's empirical driver) or `one page`.
    pub lengths: String,
    /// Demand after the drop ÷ demand before.
    pub drop_to: f64,
    /// Replacements since the drop ÷ live spans.
    pub turnovers: f64,
    /// The shipped filler: lowest sufficient longest free range.
    pub filler: f64,
    /// Hugepages with most allocations first.
    pub fullness: f64,
    /// The shortest sufficient gap of all hugepages.
    pub best_fit: f64,
}

/// What the strategies hold after drops.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DropReport {
    /// Seeds of the medians.
    pub seeds: u32,
    /// By lengths, drop and turnovers.
    pub rows: Vec<DropRow>,
}

/// Figure 11 over time.
pub struct Drops;

impl Experiment for Drops {
    type Parameters = DropParams;
    type Outcome = DropReport;

    fn run(params: &DropParams, _progress: Progress<'_>) -> Result<DropReport> {
        let [mib, seeds] = [params.demand_mib, params.seeds].map(|number| number.to_string());
        let args = ["drops", "--mib", &mib, "--seeds", &seeds];
        written_by("ample-malloc", &args, 0)
    }
}

impl Outcome for DropReport {
    const SCHEMA: &'static str = "ample.malloc-drops/1";

    fn figures(&self) -> Vec<Figure> {
        let of = |name: &str, value: fn(&DropRow) -> f64| {
            let rows = self
                .rows
                .iter()
                .filter(|row| row.lengths == "driver" && row.drop_to < 0.4);
            line(name, rows.map(|row| (row.turnovers, value(row))))
        };
        let series = vec![
            of("filler", |row| row.filler),
            of("fullness", |row| row.fullness),
            of("best fit", |row| row.best_fit),
        ];
        let title = "Memory held beyond what is in use, after a drop to a third";
        let axes = [("turnovers", Unit::Plain), ("overhead", Unit::Percent)];
        vec![Figure::new(
            "drop",
            title,
            lines(title, axes, series).to_svg(),
        )]
    }
}
