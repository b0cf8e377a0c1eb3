// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments: each a parameter file, a `run` function and a serialisable result.

pub mod chase;
pub mod directseg;
pub mod exactness;
pub mod fig10;
pub mod footprint;
pub mod fragmentation;
pub mod live;
pub mod perforated;
mod runs;
pub mod segments;
pub mod simulator_speed;
pub mod speedup;
pub mod walks;

pub use runs::Recording;

use crate::hardware as hw;
use anyhow::{Context, Result, bail, ensure};
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

/// The same for experiments of the memory system, which refuse bad parameters in its own way.
fn memsys<P: DeserializeOwned, R: Serialize>(
    text: &str,
    run: fn(&P) -> Result<R, ample_memsys::timed::BadParams>,
) -> Result<serde_json::Value> {
    let parameters: P = toml::from_str(text).context("reading the parameters")?;
    Ok(serde_json::to_value(run(&parameters)?)?)
}

/// The experiments of a list; the parameters of each lie in `experiments/ID.toml`.
macro_rules! experiments {
    ($($id:literal: $adapt:ident($run:path), $what:literal;)*) => {
        &[$(Experiment {
            id: $id,
            what: $what,
            parameters: include_str!(concat!("../../../../experiments/", $id, ".toml")),
            run: |text| $adapt(text, $run),
        }),*]
    };
}

/// All experiments.
pub const ALL: &[Experiment] = experiments! {
    "speedup": adapt(speedup::run),
        "what a mix of page sizes is worth, for ample whatif (Contiguitas figure 10)";
    "fig10": adapt(fig10::run),
        "Contiguitas figure 10: huge pages on a fragmented server, and what they are worth";
    "directseg": adapt(directseg::run),
        "Direct Segments, tables 3 to 5 and figure 4";
    "footprint": adapt(footprint::run),
        "Direct Segments, figure 5: GUPS over its footprint";
    "segments": adapt(segments::run),
        "Direct Segments, section 3.3: the kernel's segment, segments on virtual machines";
    "perforated": adapt(perforated::run),
        "Perforated Pages: hole ratio, distribution and use, native and virtualised";
    "perforated-programs": adapt(perforated::run),
        "Perforated Pages: further programs, by the share of fragmented regions";
    "chase": adapt(chase::run),
        "this machine: latency of random loads, measured and simulated";
    "simulator-speed": adapt(simulator_speed::run),
        "how fast the simulator of translation runs on this machine (measured)";
    "exactness": adapt(exactness::run),
        "the model of translation against closed forms: misses, reach, walks, holes, segments";
    "live": adapt(live::run),
        "real programs under QEMU, the model of translation live behind them (measured)";
    "fragmentation": adapt(fragmentation::run),
        "perforated pages and segments on real fragmentation: a scan, the server model";
    "walks": adapt(walks::run),
        "Contiguitas figure 3: walk cycles for data and instructions";
    "hw-unavailable": memsys(hw::unavailable::run),
        "Contiguitas-HW, figure 13: cycles a page is unavailable; time of one migration";
    "hw-traffic": memsys(hw::traffic::run),
        "Contiguitas-HW: servers at full load while their network buffers move";
    "hw-losses": memsys(hw::losses::run),
        "Contiguitas-HW: what 100 and 1,000 migrations a second cost, from paired windows";
    "hw-migration": memsys(hw::one_page::run),
        "Contiguitas-HW: where the time of one migration goes, by where the page is cached";
    "hw-hugepages": adapt(hw::hugepages::run),
        "Contiguitas-HW: memcached with 2 MB pages gained, TLBs and walks on eight cores";
    "hw-defrag": adapt(hw::defrag::run),
        "Contiguitas-HW: what defragmenting the unmovable region gives back";
    "hw-steps": memsys(hw::steps::run),
        "Contiguitas-HW: one migration under traffic, step by step";
    "hw-sweep": memsys(hw::sweep::run),
        "Contiguitas-HW: table sizes, slices, hash functions, parallel slices";
};

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

/// The experiment that the text of a file asks for with its key `experiment`, and its parameters:
/// the rest of the file. `None` when there is no such key.
///
/// # Errors
/// If the text is not TOML or the key names no experiment.
pub fn from_file(text: &str) -> Result<Option<(&'static Experiment, String)>> {
    let mut table: toml::Table = text.parse().context("reading the file as TOML")?;
    let Some(id) = table.remove("experiment") else {
        return Ok(None);
    };
    ensure!(id.is_str(), "experiment = {id}: a name in quotes is needed");
    let experiment = by_id(id.as_str().unwrap_or_default())?;
    Ok(Some((experiment, toml::to_string(&table)?)))
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
