// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inputs that the papers state: machines and the first size of the unmovable region, as this
//! project simulates them.

use crate::experiment::{Experiment, Outcome, Progress};
use crate::machines;
use ample_machine::MachineConfig;
use ample_mm::{PolicyConfig, PolicyKind};
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Which machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PresetParams {
    /// Machine presets.
    pub machines: Vec<String>,
}

/// What the server model starts from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerModelInputs {
    /// The unmovable region at boot ÷ memory, under Contiguitas.
    pub initial_region_ratio: f64,
    /// The kernel's part ÷ memory, under `static`.
    pub static_region_ratio: f64,
}

/// What `presets` gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Presets {
    /// Sizes that the server model begins with.
    pub server_model: ServerModelInputs,
    /// The presets asked for, as read.
    pub machines: Vec<MachineConfig>,
}

/// Shows the inputs; nothing is simulated.
pub struct PaperInputs;

impl Experiment for PaperInputs {
    type Parameters = PresetParams;
    type Outcome = Presets;

    fn run(params: &PresetParams, _progress: Progress<'_>) -> Result<Presets> {
        let machines = params.machines.iter();
        let region = |kind| PolicyConfig::new(kind).low_region_ratio;
        Ok(Presets {
            server_model: ServerModelInputs {
                initial_region_ratio: region(PolicyKind::Contiguitas),
                static_region_ratio: region(PolicyKind::Static),
            },
            machines: machines
                .map(|name| machines::named(name))
                .collect::<Result<_>>()?,
        })
    }
}

impl Outcome for Presets {
    const SCHEMA: &'static str = "ample.presets/1";
}
