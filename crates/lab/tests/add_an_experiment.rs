// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps of the guide "add an experiment" (docs/lab.md): the text between the two marks is the
//! code of the guide, line for line, and works.

// guide: begin
use ample_lab::experiment::{Experiment, Figure, Outcome, Progress};
use ample_lab::progress::Steps;
use ample_lab::stop;
use ample_report::{LineChart, Series, Unit};
use serde::{Deserialize, Serialize};

/// Which exponents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerParams {
    /// Exponents of 2.
    pub exponents: Vec<u32>,
}

/// One exponent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerRow {
    /// Power that 2 is raised to.
    pub exponent: u32,
    /// 2 to its power.
    pub power: f64,
}

/// What `powers` gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerReport {
    /// One row an exponent.
    pub rows: Vec<PowerRow>,
}

/// Powers of 2.
pub struct Powers;

impl Experiment for Powers {
    type Parameters = PowerParams;
    type Outcome = PowerReport;

    fn run(params: &PowerParams, progress: Progress<'_>) -> anyhow::Result<PowerReport> {
        let steps = Steps::new(progress, params.exponents.len());
        let mut rows = Vec::new();
        for &exponent in &params.exponents {
            if stop::requested() {
                break;
            }
            let power = f64::from(exponent).exp2();
            rows.push(PowerRow { exponent, power });
            steps.step();
        }
        Ok(PowerReport { rows })
    }
}

impl Outcome for PowerReport {
    const SCHEMA: &'static str = "ample.powers/1";

    fn figures(&self) -> Vec<Figure> {
        let points = self
            .rows
            .iter()
            .map(|row| (f64::from(row.exponent), row.power));
        let chart = LineChart {
            title: "Powers of 2".into(),
            series: vec![Series {
                name: "power".into(),
                points: points.collect(),
                band: Vec::new(),
            }],
            x_title: "exponent".into(),
            x_unit: Unit::Plain,
            y_title: "value".into(),
            y_unit: Unit::Count,
            y_max: None,
        };
        vec![Figure::new("powers", "Powers of 2", chart.to_svg())]
    }
}
// guide: end

/// The file of the guide.
const FILE: &str = r#"[experiment]
id = "powers"
title = "Powers of 2"
calibrated = "nothing"
predicted = "all powers"
layer = "show"
cost = { seconds = 1, memory_bytes = 10485760, threads = 1 }
quick_cost = { seconds = 1, memory_bytes = 10485760, threads = 1 }

[parameters]
exponents = [1, 2, 3, 10]

[quick]
exponents = [1, 2]
"#;

use ample_lab::experiment::{AnyExperiment, Listed, Request};

#[test]
fn the_code_of_the_guide_is_this_code() {
    let guide = include_str!("../../../docs/lab.md");
    let own = include_str!("add_an_experiment.rs");
    let code = own
        .split("// guide: begin\n")
        .nth(1)
        .and_then(|rest| rest.split("// guide: end").next());
    let code = code.expect("marks");
    assert!(
        guide.contains(&format!("```rust\n{code}```")),
        "docs/lab.md differs from this file"
    );
    assert!(
        guide.contains(&format!("```toml\n{FILE}```")),
        "docs/lab.md has another file"
    );
}

#[test]
fn the_experiment_of_the_guide_runs_and_reads_back() {
    let powers = Listed::<Powers>::new(FILE);
    assert_eq!(powers.about().title, "Powers of 2");
    let request = Request {
        quick: true,
        ..Request::default()
    };
    let result = powers
        .prepare(&request)
        .and_then(|run| run.run(&|_| {}))
        .expect("runs");
    assert_eq!(
        result.text(),
        "schema: ample.powers/1\n\nrows\nexponent  power\n       1  2.000\n       2  4.000\n"
    );
    assert_eq!(
        result.rows[0].to_csv(),
        "exponent,power\r\n1,2.0\r\n2,4.0\r\n"
    );
    let again = powers.read_back(&result.json).expect("reads back");
    assert_eq!((again.json, again.figures), (result.json, result.figures));
}
