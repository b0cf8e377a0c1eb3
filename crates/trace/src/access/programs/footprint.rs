// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs of a given footprint: each chooses the sizes of its parts itself.

use super::stores::{MEMCACHED_VALUE_BYTES, REDIS_VALUE_BYTES};
use super::{
    Bt, CACHE, Cg, Graph500, Gups, KeyValueStore, Mcf, NetworkedStore, Omnetpp, PointerChase,
    ServiceProgram, Stream, Tpcc, WEB,
};
use crate::{Backing, Program, Region};
use thiserror::Error;

/// Why there is no program of a footprint.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadFootprint {
    /// No program has this name.
    #[error("there is no program '{0}'")]
    Unknown(String),
    /// It cannot be as small or as large as this.
    #[error("{name} cannot take {bytes} bytes; valid: {least} to {most}")]
    Range {
        /// Name of the program.
        name: String,
        /// What was asked for.
        bytes: u64,
        /// Least bytes that it can take.
        least: u64,
        /// Most bytes.
        most: u64,
    },
}

/// Code, static data and stack of a program of which they are the smallest part.
const SMALL_IMAGE_BYTES: u64 = 256 << 10;

/// Bytes that a program maps, without the kernel's direct map.
pub fn footprint_bytes(regions: &[Region]) -> u64 {
    let own = regions.iter().filter(|r| r.backing != Backing::DirectMap);
    own.map(|region| region.bytes).sum()
}

/// Least and most bytes of a program. What it keeps on the host takes up to half of them, but for
/// those whose data are a function of their place.
fn limits(name: &str) -> (u64, u64) {
    let most = match name {
        "gups" | "chase" | "stream" | "web" | "cache" => 1 << 40,
        _ => 1 << 38,
    };
    (if name == "tpcc" { 160 << 20 } else { 4 << 20 }, most)
}

/// Makes a program by name that maps about `bytes` bytes, its code and stacks included, the
/// kernel's direct map not. How soon it has touched them all is a matter of the program.
///
/// # Errors
/// If there is no such program, or it cannot be of this size.
pub fn of_bytes(name: &str, bytes: u64, seed: u64) -> Result<Box<dyn Program>, BadFootprint> {
    let (least, most) = limits(name);
    let name_of = || name.to_owned();
    if !super::NAMES.contains(&name) {
        return Err(BadFootprint::Unknown(name_of()));
    }
    if !(least..=most).contains(&bytes) {
        return Err(BadFootprint::Range {
            name: name_of(),
            bytes,
            least,
            most,
        });
    }
    let array = (bytes - SMALL_IMAGE_BYTES) / 8192 * 8192;
    Ok(match name {
        "gups" => Box::new(Gups::new(array, seed)),
        "chase" => Box::new(PointerChase::new(array, 64, 4, seed)),
        "stream" => Box::new(Stream::new(array)),
        "graph500" => Box::new(Graph500::of_bytes(bytes, seed)),
        "cg" => Box::new(Cg::of_bytes(bytes)),
        "bt" => Box::new(Bt::of_bytes(bytes)),
        "memcached" => {
            let items = KeyValueStore::items_of(MEMCACHED_VALUE_BYTES, bytes);
            Box::new(KeyValueStore::memcached(items, MEMCACHED_VALUE_BYTES, seed))
        }
        "memcached-net" => Box::new(NetworkedStore::of_bytes(MEMCACHED_VALUE_BYTES, bytes, seed)),
        "redis" => {
            let items = KeyValueStore::items_of(REDIS_VALUE_BYTES, bytes);
            Box::new(KeyValueStore::redis(items, REDIS_VALUE_BYTES, seed))
        }
        "tpcc" => Box::new(Tpcc::of_bytes(bytes, seed)),
        "mcf" => Box::new(Mcf::of_bytes(bytes, seed)),
        "omnetpp" => Box::new(Omnetpp::of_bytes(bytes, seed)),
        "web" => Box::new(ServiceProgram::new(WEB.of_bytes(bytes), seed)),
        "cache" => Box::new(ServiceProgram::new(CACHE.of_bytes(bytes), seed)),
        _ => return Err(BadFootprint::Unknown(name_of())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::NAMES;
    use crate::{Access, Recorder};

    #[test]
    fn every_program_takes_the_bytes_that_are_asked_for() {
        for name in NAMES {
            let (least, _) = limits(name);
            for bytes in [least, 3 * least + 12_345, 11 * least + 1] {
                let mut program = of_bytes(name, bytes, 5).expect("a program");
                assert_eq!(program.name(), *name);
                let regions = program.regions().to_vec();
                let taken = footprint_bytes(&regions) as f64 / bytes as f64;
                assert!((0.9..1.1).contains(&taken), "{name}, {bytes}: {taken}");
                let mut inside = |block: &[Access]| {
                    for access in block {
                        let holds = |r: &Region| (r.base..r.end()).contains(&access.va);
                        assert!(regions.iter().any(holds), "{name}: {:#x}", access.va);
                    }
                    true
                };
                let mut recorder = Recorder::new(&mut inside, 20_000);
                program.run(&mut recorder);
                recorder.flush();
            }
        }
    }

    #[test]
    fn impossible_footprints_say_what_is_possible() {
        let told = |name, bytes| of_bytes(name, bytes, 1).err().expect("refused").to_string();
        assert!(told("tpcc", 1 << 20).contains("valid: 167772160 to 274877906944"));
        assert!(told("gups", 1 << 41).contains("valid: 4194304 to 1099511627776"));
        assert!(told("gup", 1 << 30).contains("no program 'gup'"));
    }
}
