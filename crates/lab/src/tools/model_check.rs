// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exhaustive check of the migration protocol, as an experiment: the program
//! `ample-model-check` runs it.

use super::output;
use crate::experiment::{About, Cost, Experiment, Layer, Outcome, Progress, Text};
use crate::files::Declared;
use crate::needs::{Need, built};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::process::Command;

/// What to check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCheckParams {
    /// The large configurations too (minutes, gigabytes).
    pub full: bool,
    /// Threads.
    pub threads: u32,
}

/// One machine, every order of its events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckedMachine {
    /// Name.
    pub name: String,
    /// Distinct states.
    pub states: u64,
    /// Steps to the farthest state.
    pub depth: u64,
    /// Wall time of the safety check.
    pub seconds: f64,
    /// Whether every state can still reach the end; null when the graph was too large.
    pub everything_can_end: Option<bool>,
    /// The broken property, if any.
    pub broken: Option<String>,
    /// The events that lead there.
    pub events: Vec<String>,
}

/// One error planted on purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlantedError {
    /// The error.
    pub fault: String,
    /// The design it was planted in.
    pub design: String,
    /// The property that noticed it; null when none did.
    pub found_by: Option<String>,
    /// The events that lead there.
    pub events: Vec<String>,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelChecked {
    /// `ample.model-check/1`.
    pub schema: Text,
    /// Machines.
    pub configurations: Vec<CheckedMachine>,
    /// Planted errors.
    pub faults: Vec<PlantedError>,
    /// Ended early.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// The check of the protocol.
pub struct ModelCheck;

const PROGRAM: &str = "ample-model-check";

impl Experiment for ModelCheck {
    type Parameters = ModelCheckParams;
    type Outcome = ModelChecked;

    fn about(&self) -> About {
        About {
            needs: &[Need::Built {
                name: PROGRAM,
                build: "cargo build --release -p ample-migration --features model-check",
            }],
            // The result has wall times.
            deterministic: false,
            full: Cost::new(600.0, 6000, 0),
            quick: Cost::new(20.0, 500, 0),
            ..About::simulated("model-check", Layer::Show)
        }
    }

    fn shipped(&self) -> &'static str {
        include_str!("../../../../experiments/model-check.toml")
    }

    fn quick(&self, full: ModelCheckParams) -> ModelCheckParams {
        ModelCheckParams {
            full: false,
            ..full
        }
    }

    fn run(
        &self,
        declared: &Declared<ModelCheckParams>,
        _progress: Progress<'_>,
    ) -> Result<ModelChecked> {
        let params = &declared.parameters;
        let program = built(PROGRAM).with_context(|| format!("{PROGRAM} is not built"))?;
        let mut command = Command::new(program);
        command.args(["--json", "--threads", &params.threads.to_string()]);
        if params.full {
            command.arg("--full");
        }
        let Some(text) = output(&mut command, 1)? else {
            return Ok(ModelChecked {
                schema: ModelChecked::SCHEMA.into(),
                configurations: Vec::new(),
                faults: Vec::new(),
                partial: true,
            });
        };
        serde_json::from_str(&text).with_context(|| format!("reading what {PROGRAM} wrote"))
    }
}

impl Outcome for ModelChecked {
    const SCHEMA: &'static str = "ample.model-check/1";

    fn partial(&self) -> bool {
        self.partial
    }

    fn holds(&self) -> bool {
        let holds = |c: &CheckedMachine| c.broken.is_none() && c.everything_can_end != Some(false);
        self.configurations.iter().all(holds) && self.faults.iter().all(|f| f.found_by.is_some())
    }
}
