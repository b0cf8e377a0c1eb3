// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures 9 to 12 of Temeraire with the allocator's own page heap over pretended memory. The
//! program `ample-malloc` makes them: linking the allocator here would replace this program's
//! malloc.

use super::output;
use crate::charts::{Bars, plain};
use crate::experiment::{About, Cost, Experiment, Figure, Layer, Outcome, Progress, Text};
use crate::files::Declared;
use crate::needs::{Need, built};
use ample_report::Unit;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::process::Command;

/// Which figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemeraireParams {
    /// Number in the paper, 9 to 12.
    pub figure: u32,
    /// Demand before the drop in figure 11, MiB.
    pub demand_mib: u32,
}

/// One number beside the paper's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TemeraireRow {
    /// What is measured.
    pub what: String,
    /// Here.
    pub here: f64,
    /// Its unit.
    pub unit: String,
    /// What the paper says; it prints few of these as numbers.
    pub paper: String,
}

/// One figure as `ample-malloc` gives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TemeraireFigure {
    /// Number in the paper.
    pub figure: u32,
    /// What it shows.
    pub title: String,
    /// Its numbers.
    pub rows: Vec<TemeraireRow>,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TemeraireFigures {
    /// `ample.malloc-figures/1`.
    pub schema: Text,
    /// Seed.
    pub seed: u64,
    /// The figure that was asked for; none when the run was ended early.
    pub figures: Vec<TemeraireFigure>,
    /// Ended early.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// One of the figures.
pub struct Temeraire {
    /// `temeraire-fig9` and so on.
    pub id: &'static str,
    /// Its file.
    pub text: &'static str,
    /// Claims of the paper.
    pub claims: &'static [&'static str],
}

/// The allocator's program.
const PROGRAM: &str = "ample-malloc";
const NEEDS: [Need; 1] = [Need::Built {
    name: PROGRAM,
    build: "cargo build --profile malloc -p ample-malloc-tools",
}];

impl Experiment for Temeraire {
    type Parameters = TemeraireParams;
    type Outcome = TemeraireFigures;

    fn about(&self) -> About {
        About {
            claims: self.claims,
            needs: &NEEDS,
            full: Cost::new(5.0, 200, 1),
            quick: Cost::new(5.0, 200, 1),
            ..About::simulated(self.id, Layer::Use)
        }
    }

    fn shipped(&self) -> &'static str {
        self.text
    }

    fn quick(&self, full: TemeraireParams) -> TemeraireParams {
        TemeraireParams {
            demand_mib: full.demand_mib.min(32),
            ..full
        }
    }

    fn run(
        &self,
        declared: &Declared<TemeraireParams>,
        _progress: Progress<'_>,
    ) -> Result<TemeraireFigures> {
        let params = &declared.parameters;
        let known = 9..=12;
        ensure!(
            known.contains(&params.figure),
            "figure is {}, but must be from 9 to 12",
            params.figure
        );
        let program = built(PROGRAM).with_context(|| format!("{PROGRAM} is not built"))?;
        let mut command = Command::new(program);
        let (figure, mib) = (params.figure.to_string(), params.demand_mib.to_string());
        command.args(["figures", &figure, "--json", "--mib", &mib]);
        let Some(text) = output(&mut command, 0)? else {
            return Ok(TemeraireFigures {
                schema: TemeraireFigures::SCHEMA.into(),
                seed: 0,
                figures: Vec::new(),
                partial: true,
            });
        };
        let result: TemeraireFigures =
            serde_json::from_str(&text).with_context(|| format!("reading what {PROGRAM} wrote"))?;
        ensure!(
            result.schema == TemeraireFigures::SCHEMA,
            "{PROGRAM} wrote {}, not {}: build it anew",
            result.schema,
            TemeraireFigures::SCHEMA
        );
        Ok(result)
    }
}

impl Outcome for TemeraireFigures {
    const SCHEMA: &'static str = "ample.malloc-figures/1";

    fn partial(&self) -> bool {
        self.partial
    }

    fn figures(&self) -> Vec<Figure> {
        let draw = |figure: &TemeraireFigure| {
            let unit = figure.rows.first().map_or("", |row| row.unit.as_str());
            let title = format!(
                "Temeraire figure {}: {} ({unit})",
                figure.figure, figure.title
            );
            let mut bars = Bars::new(&title, Unit::Count);
            for row in &figure.rows {
                bars.put(&row.what, "here", plain(row.here));
            }
            Figure::new(&format!("fig{}", figure.figure), &title, bars.svg())
        };
        self.figures.iter().map(draw).collect()
    }
}
