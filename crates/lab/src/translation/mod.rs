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
use ample_pfn::parse_bytes;
use ample_trace::Scale;
use ample_trace::programs::{NAMES, by_name, of_bytes};
use anyhow::{Context, Result, ensure};

/// The scale of a name, if it is one.
fn named_scale(name: &str) -> Option<Scale> {
    let scales = [
        ("tiny", Scale::Tiny),
        ("quick", Scale::Quick),
        ("full", Scale::Full),
    ];
    let found = scales.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, scale)| scale)
}

fn scale_of(name: &str) -> Result<Scale> {
    let unknown = || format!("there is no scale '{name}'; known: tiny, quick, full");
    named_scale(name).with_context(unknown)
}

/// A built-in program at a scale given by name, or of a footprint: `scale` may be a size (`2G`),
/// and a name may end with one of its own (`mcf:bytes=2G`). Large ones take a while to make.
pub(crate) fn program(name: &str, scale: &str, seed: u64) -> Result<Box<dyn ample_trace::Program>> {
    let (name, own) = match name.split_once(":bytes=") {
        Some((name, size)) => (name, Some(size)),
        None => (name, None),
    };
    ensure!(
        NAMES.contains(&name),
        "there is no program '{name}'; {}",
        known(name, NAMES)
    );
    let wanted = name.to_owned();
    if let (None, Some(scale)) = (own, named_scale(scale)) {
        let made = stop::detached(move || by_name(&wanted, scale, seed));
        return made.with_context(|| format!("{name} cannot be had"));
    }
    let size = own.unwrap_or(scale);
    let bytes = parse_bytes(size).with_context(|| match own {
        Some(_) => format!("{name}:bytes={size} is no size; try {name}:bytes=2G"),
        None => format!("there is no scale '{size}'; known: tiny, quick, full, or a size"),
    })?;
    Ok(stop::detached(move || of_bytes(&wanted, bytes, seed))?)
}

#[cfg(test)]
mod tests {
    use super::program;
    use ample_trace::programs::footprint_bytes;

    #[test]
    fn programs_have_a_scale_or_a_size() {
        let bytes = |name, scale| {
            let made = program(name, scale, 1).expect("a program");
            footprint_bytes(made.regions()) >> 20
        };
        assert_eq!(bytes("gups", "24M"), 24);
        assert_eq!(bytes("gups:bytes=48M", "tiny"), 48);
        assert_eq!(bytes("gups", "tiny"), 8);
        let told = |name, scale| {
            let error = program(name, scale, 1).err().expect("refused");
            format!("{error:#}")
        };
        assert!(told("gups", "huge").contains("known: tiny, quick, full, or a size"));
        assert!(told("gups:bytes=much", "tiny").contains("try gups:bytes=2G"));
        assert!(told("gups:bytes=1K", "tiny").contains("valid: 4194304 to"));
        assert!(told("gusp:bytes=1G", "tiny").contains("did you mean gups?"));
    }
}
