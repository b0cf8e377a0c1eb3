// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments of translation: TLBs, page walks, segments, perforated pages, and what page sizes
//! are worth.

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
pub mod storage;
pub mod walks;

pub use runs::Recording;

use anyhow::{Context, Result, bail};

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
