// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exhaustive check of the migration protocol, as an experiment: the program
//! `ample-model-check` runs it.

use super::written_by;
use crate::experiment::{Experiment, Outcome, Progress};
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// What to check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCheckParams {
    /// The large configurations too (minutes, gigabytes).
    pub full: bool,
    /// Threads of the search.
    pub threads: u32,
}

/// One machine, every order of its events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckedMachine {
    /// Cores, lines and design of the model, in words.
    pub name: String,
    /// Distinct states.
    pub states: u64,
    /// Steps to the farthest state.
    pub depth: u64,
    /// Wall time of the safety check.
    pub seconds: f64,
    /// Steps in which a slice sent a request on to another one.
    pub forwards: u64,
    /// Steps in which a line, or its ownership, went to another slice.
    pub cross_slice_copies: u64,
    /// Steps in which a core was refused a cacheable copy.
    pub nacks: u64,
    /// Kinds of steps: what arrived, in which situation, and what was sent.
    pub transitions: u64,
    /// Of these, kinds that no machine of its design before it takes.
    pub new_transitions: u64,
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
    /// What was broken in the protocol.
    pub fault: String,
    /// The design it was planted in.
    pub design: String,
    /// The property that noticed it; null when none did.
    pub found_by: Option<String>,
    /// The events that lead there.
    pub events: Vec<String>,
}

/// What `model-check` gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelChecked {
    /// Models searched without a planted error.
    pub configurations: Vec<CheckedMachine>,
    /// Planted errors.
    pub faults: Vec<PlantedError>,
}

/// The check of the protocol.
pub struct ModelCheck;

impl Experiment for ModelCheck {
    type Parameters = ModelCheckParams;
    type Outcome = ModelChecked;

    fn run(params: &ModelCheckParams, _progress: Progress<'_>) -> Result<ModelChecked> {
        let threads = params.threads.to_string();
        let mut args = vec!["--json", "--threads", &threads];
        args.extend(params.full.then_some("--full"));
        written_by("ample-model-check", &args, 1)
    }
}

impl Outcome for ModelChecked {
    const SCHEMA: &'static str = "ample.model-check/1";

    fn holds(&self) -> bool {
        let holds = |c: &CheckedMachine| c.broken.is_none() && c.everything_can_end != Some(false);
        self.configurations.iter().all(holds) && self.faults.iter().all(|f| f.found_by.is_some())
    }
}
