// SPDX-License-Identifier: MIT OR Apache-2.0
//! Size, area and energy of the metadata table from its synthesised netlist
//! (`hw/synthesize.sh`, `hw/energy.sh`).

use super::output;
use crate::charts::{line, lines};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::needs::source_tree;
use crate::progress::Steps;
use ample_report::Unit;
use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::process::Command;

/// What to synthesise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RtlParams {
    /// Table sizes.
    pub entries: Vec<u32>,
    /// Also count the energy of a look-up, gate by gate.
    pub energy: bool,
}

/// One table size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableArea {
    /// `ample.hw-area/1`.
    pub schema: String,
    /// Migrations that the table holds at once.
    pub entries: u32,
    /// Bits of state.
    pub flip_flops: u64,
    /// Cells of the netlist.
    pub cells: u64,
    /// Area in NAND2 gates.
    pub nand2_equivalents: u64,
    /// Area at 22 nm, 70 % utilisation.
    pub area_mm2: f64,
}

/// The table of 16 entries at 22 nm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableEnergy {
    /// `ample.hw-energy/1`.
    pub schema: String,
    /// Look-ups simulated.
    pub lookups: u64,
    /// Of them hits.
    pub hits: u64,
    /// Nets that change in a look-up.
    pub nets_changed_per_lookup: f64,
    /// Energy of a look-up.
    pub lookup_pj: f64,
    /// Of it the clock's.
    pub of_it_clock_pj: f64,
    /// Leakage with low-power transistors.
    pub leakage_low_mw: f64,
    /// Leakage with fast transistors.
    pub leakage_high_mw: f64,
    /// The paper's energy of a look-up.
    pub paper_lookup_pj: f64,
    /// The paper's leakage.
    pub paper_leakage_mw: f64,
}

/// What `hw-rtl` gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableSynthesis {
    /// Area by size.
    pub areas: Vec<TableArea>,
    /// Energy, if it was asked for.
    pub energy: Option<TableEnergy>,
}

/// The synthesis of the metadata table.
pub struct TableRtl;

impl Experiment for TableRtl {
    type Parameters = RtlParams;
    type Outcome = TableSynthesis;

    fn run(params: &RtlParams, progress: Progress<'_>) -> Result<TableSynthesis> {
        let steps = Steps::new(progress, params.entries.len() + usize::from(params.energy));
        let mut result = TableSynthesis {
            areas: Vec::new(),
            energy: None,
        };
        for entries in &params.entries {
            let area = script("synthesize.sh", &[&entries.to_string()])?;
            result.areas.extend(area);
            steps.step();
        }
        if params.energy {
            result.energy = script("energy.sh", &[])?;
            steps.step();
        }
        Ok(result)
    }
}

/// What a script of `hw/` prints as JSON; `None` after an early end.
pub(super) fn script<T: DeserializeOwned>(name: &str, args: &[&str]) -> Result<Option<T>> {
    let root = source_tree().context("not in the source tree")?;
    let mut command = Command::new(root.join("hw").join(name));
    let text = output(command.arg("--json").args(args), 0)?;
    let read = text.map(|text| serde_json::from_str(&text));
    read.transpose()
        .with_context(|| format!("reading what {name} wrote"))
}

impl Outcome for TableSynthesis {
    const SCHEMA: &'static str = "ample.hw-rtl/1";

    fn figures(&self) -> Vec<Figure> {
        let title = "Metadata table: area at 22 nm in thousandths of a mm², by entries";
        let points = self
            .areas
            .iter()
            .map(|a| (f64::from(a.entries), 1e3 * a.area_mm2));
        let chart = lines(
            title,
            [
                ("entries", Unit::Plain),
                ("thousandths of a mm²", Unit::Plain),
            ],
            vec![line("area", points)],
        );
        vec![Figure::new("area", title, chart.to_svg())]
    }
}
