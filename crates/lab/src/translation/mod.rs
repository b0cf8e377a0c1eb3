// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments of translation: TLBs, page walks, segments, perforated pages, and what page sizes
//! are worth.

mod changes;
pub(crate) mod chase;
pub mod directseg;
pub mod exactness;
pub(crate) mod fig10;
pub(crate) mod footprint;
pub(crate) mod fragmentation;
pub(crate) mod gains;
pub(crate) mod live;
mod naive;
pub mod perforated;
mod runs;
pub mod segments;
pub(crate) mod sensitivity;
pub(crate) mod services;
pub(crate) mod simulator_speed;
pub mod speedup;
pub(crate) mod storage;
pub(crate) mod walks;

pub use runs::{Recording, SeedMean};

use crate::stop;
use ample_kit::names::known;
use ample_trace::Scale;
use anyhow::{Context, Result, bail};

fn scale_of(name: &str) -> Result<Scale> {
    Ok(match name {
        "tiny" => Scale::Tiny,
        "quick" => Scale::Quick,
        "full" => Scale::Full,
        other => bail!("there is no scale '{other}'; known: tiny, quick, full"),
    })
}

/// A built-in program at a scale given by name. Those of full scale take a while to make.
pub(crate) fn program(name: &str, scale: &str, seed: u64) -> Result<Box<dyn ample_trace::Program>> {
    use ample_trace::programs::NAMES;
    let scale = scale_of(scale)?;
    let wanted = name.to_owned();
    let made = stop::detached(move || ample_trace::programs::by_name(&wanted, scale, seed));
    made.with_context(|| format!("there is no program '{name}'; {}", known(name, NAMES)))
}
