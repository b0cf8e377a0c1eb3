// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures 9 to 12 of Temeraire with the allocator's own page heap over pretended memory. The
//! program `ample-malloc` makes them: linking the allocator here would replace this program's
//! malloc.

use super::written_by;
use crate::charts::{bar_figure, plain};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_report::Unit;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

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
    /// Measured on our page heap.
    pub here: f64,
    /// Unit of `here`.
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
    /// Numbers read off the figure.
    pub rows: Vec<TemeraireRow>,
}

/// What a figure of Temeraire gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemeraireFigures {
    /// Seed of the loads.
    pub seed: u64,
    /// The figure that was asked for; none when the run was ended early.
    pub figures: Vec<TemeraireFigure>,
}

/// One of the figures.
pub struct Temeraire;

impl Experiment for Temeraire {
    type Parameters = TemeraireParams;
    type Outcome = TemeraireFigures;

    fn run(params: &TemeraireParams, _progress: Progress<'_>) -> Result<TemeraireFigures> {
        let known = 9..=12;
        ensure!(
            known.contains(&params.figure),
            "figure is {}, but must be from 9 to 12",
            params.figure
        );
        let (figure, mib) = (params.figure.to_string(), params.demand_mib.to_string());
        written_by(
            "ample-malloc",
            &["figures", &figure, "--json", "--mib", &mib],
            0,
        )
    }
}

impl Outcome for TemeraireFigures {
    const SCHEMA: &'static str = "ample.malloc-figures/1";

    fn figures(&self) -> Vec<Figure> {
        let draw = |figure: &TemeraireFigure| {
            let (number, title) = (figure.figure, &figure.title);
            let unit = figure.rows.first().map_or("", |row| row.unit.as_str());
            let title = format!("Temeraire figure {number}: {title} ({unit})");
            let bars = figure
                .rows
                .iter()
                .map(|row| (&row.what, "here", plain(row.here)));
            bar_figure(&format!("fig{number}"), &title, Unit::Count, bars)
        };
        self.figures.iter().flat_map(draw).collect()
    }
}
