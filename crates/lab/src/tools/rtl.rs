// SPDX-License-Identifier: MIT OR Apache-2.0
//! Size, area and energy of the metadata table from its synthesised netlist
//! (`hw/synthesize.sh`, `hw/energy.sh`).

use super::output;
use crate::charts::{line, lines};
use crate::experiment::{About, Cost, Experiment, Figure, Layer, Outcome, Progress, Text};
use crate::files::Declared;
use crate::needs::{Need, source_tree};
use crate::progress::Steps;
use crate::stop;
use ample_report::Unit;
use anyhow::{Context, Result};
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
    /// Entries.
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

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableSynthesis {
    /// `ample.hw-rtl/1`.
    pub schema: Text,
    /// Area by size.
    pub areas: Vec<TableArea>,
    /// Energy, if it was asked for.
    pub energy: Option<TableEnergy>,
    /// Ended early.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// The synthesis of the metadata table.
pub struct TableRtl;

impl Experiment for TableRtl {
    type Parameters = RtlParams;
    type Outcome = TableSynthesis;

    fn about(&self) -> About {
        About {
            claims: &["ctg.hw.cost"],
            needs: &[
                Need::SourceTree,
                Need::Tool {
                    name: "yosys",
                    install: "apt-get install yosys",
                },
                Need::Tool {
                    name: "iverilog",
                    install: "apt-get install iverilog",
                },
            ],
            full: Cost::new(120.0, 500, 1),
            quick: Cost::new(15.0, 300, 1),
            ..About::simulated("hw-rtl", Layer::Show)
        }
    }

    fn shipped(&self) -> &'static str {
        include_str!("../../../../experiments/hw-rtl.toml")
    }

    fn quick(&self, full: RtlParams) -> RtlParams {
        RtlParams {
            entries: full
                .entries
                .into_iter()
                .filter(|&entries| entries == 16)
                .collect(),
            ..full
        }
    }

    fn run(
        &self,
        declared: &Declared<RtlParams>,
        progress: Progress<'_>,
    ) -> Result<TableSynthesis> {
        let params = &declared.parameters;
        let steps = Steps::new(progress, params.entries.len() + usize::from(params.energy));
        let mut result = TableSynthesis {
            schema: TableSynthesis::SCHEMA.into(),
            areas: Vec::new(),
            energy: None,
            partial: false,
        };
        for entries in &params.entries {
            if let Some(text) = script("synthesize.sh", &[&entries.to_string()])? {
                result
                    .areas
                    .push(serde_json::from_str(&text).context("reading its area")?);
            }
            steps.step();
        }
        if params.energy {
            if let Some(text) = script("energy.sh", &[])? {
                let energy = serde_json::from_str(&text).context("reading its energy")?;
                result.energy = Some(energy);
            }
            steps.step();
        }
        result.partial = stop::requested();
        Ok(result)
    }
}

/// What a script of `hw/` prints as JSON.
fn script(name: &str, args: &[&str]) -> Result<Option<String>> {
    let root = source_tree().context("not in the source tree")?;
    let mut command = Command::new(root.join("hw").join(name));
    output(command.arg("--json").args(args), 0)
}

impl Outcome for TableSynthesis {
    const SCHEMA: &'static str = "ample.hw-rtl/1";

    fn partial(&self) -> bool {
        self.partial
    }

    fn figures(&self) -> Vec<Figure> {
        let title = "Metadata table: area at 22 nm in thousandths of a mm², by entries";
        let points = self
            .areas
            .iter()
            .map(|a| (f64::from(a.entries), 1e3 * a.area_mm2));
        let chart = lines(
            title,
            (Unit::Plain, Unit::Plain),
            vec![line("area", points)],
        );
        vec![Figure::new("area", title, chart.to_svg())]
    }
}
