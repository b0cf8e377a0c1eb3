// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments: each a parameter file, a `run` function and a serialisable result.

pub mod directseg;
pub mod footprint;
pub mod perforated;
pub mod speedup;
pub mod walks;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An experiment by name: what it shows and its built-in parameters (TOML).
pub struct Experiment {
    /// Name on the command line.
    pub id: &'static str,
    /// What it shows, in one line.
    pub what: &'static str,
    /// Its parameters as shipped.
    pub parameters: &'static str,
    run: fn(&str) -> Result<serde_json::Value>,
}

impl Experiment {
    /// Runs it with parameters in TOML; returns one JSON object with a `schema`.
    ///
    /// # Errors
    /// If the parameters are wrong or a run fails.
    pub fn run(&self, parameters: &str) -> Result<serde_json::Value> {
        (self.run)(parameters).with_context(|| format!("experiment {}", self.id))
    }
}

/// Parses parameters, runs, and serialises.
fn adapt<P: DeserializeOwned, R: Serialize>(
    text: &str,
    run: fn(&P) -> Result<R>,
) -> Result<serde_json::Value> {
    let parameters: P = toml::from_str(text).context("reading the parameters")?;
    Ok(serde_json::to_value(run(&parameters)?)?)
}

/// All experiments.
pub const ALL: &[Experiment] = &[
    Experiment {
        id: "speedup",
        what: "what a mix of page sizes is worth, for ample whatif (Contiguitas figure 10)",
        parameters: include_str!("../../../../experiments/speedup.toml"),
        run: |text| adapt(text, speedup::run),
    },
    Experiment {
        id: "directseg",
        what: "Direct Segments, tables 3 to 5 and figure 4",
        parameters: include_str!("../../../../experiments/directseg.toml"),
        run: |text| adapt(text, directseg::run),
    },
    Experiment {
        id: "footprint",
        what: "Direct Segments, figure 5: GUPS over its footprint",
        parameters: include_str!("../../../../experiments/footprint.toml"),
        run: |text| adapt(text, footprint::run),
    },
    Experiment {
        id: "perforated",
        what: "Perforated Pages: hole ratio, distribution and use, native and virtualised",
        parameters: include_str!("../../../../experiments/perforated.toml"),
        run: |text| adapt(text, perforated::run),
    },
    Experiment {
        id: "walks",
        what: "Contiguitas figure 3: walk cycles for data and instructions",
        parameters: include_str!("../../../../experiments/walks.toml"),
        run: |text| adapt(text, walks::run),
    },
];

/// The experiment of a name.
///
/// # Errors
/// If there is none; the message lists those that exist.
pub fn by_id(id: &str) -> Result<&'static Experiment> {
    match ALL.iter().find(|experiment| experiment.id == id) {
        Some(experiment) => Ok(experiment),
        None => bail!(
            "there is no experiment '{id}'; known: {}",
            ALL.iter().map(|e| e.id).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// A built-in program at a scale given by name.
pub(crate) fn program(name: &str, scale: &str, seed: u64) -> Result<Box<dyn ample_trace::Program>> {
    use ample_trace::Scale;
    let scale = match scale {
        "tiny" => Scale::Tiny,
        "quick" => Scale::Quick,
        "full" => Scale::Full,
        other => bail!("there is no scale '{other}'; known: tiny, quick, full"),
    };
    ample_trace::programs::by_name(name, scale, seed).with_context(|| {
        format!(
            "there is no program '{name}'; known: {}",
            ample_trace::programs::NAMES.join(", ")
        )
    })
}
