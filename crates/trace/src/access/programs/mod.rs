// SPDX-License-Identifier: MIT OR Apache-2.0
//! Built-in programs. Each runs its real algorithm on host data and reports the addresses that a
//! process with its own layout would touch.

mod fit;
mod footprint;
mod graph500;
mod irregular;
mod kronecker;
mod micro;
mod networked;
mod npb;
mod service;
mod stores;
mod tpcc;

pub use footprint::{BadFootprint, footprint_bytes, of_bytes};
pub use graph500::Graph500;
pub use irregular::{Mcf, Omnetpp};
pub use micro::{Gups, PointerChase, Stream};
pub use networked::NetworkedStore;
pub use npb::{Bt, Cg};
pub use service::{CACHE, ServiceProgram, ServiceShape, WEB};
pub use stores::KeyValueStore;
use stores::{MEMCACHED_VALUE_BYTES, REDIS_VALUE_BYTES};
pub use tpcc::Tpcc;

use crate::Program;

/// How large a program's data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// For tests: a few megabytes.
    Tiny,
    /// For quick looks: hundreds of megabytes.
    Quick,
    /// For published figures: as large as a desktop machine allows.
    Full,
}

/// Names of all built-in programs.
pub const NAMES: &[&str] = &[
    "gups",
    "chase",
    "stream",
    "graph500",
    "cg",
    "bt",
    "memcached",
    "memcached-net",
    "redis",
    "tpcc",
    "mcf",
    "omnetpp",
    "web",
    "cache",
];

/// Makes a program by name; None if there is none of that name.
pub fn by_name(name: &str, scale: Scale, seed: u64) -> Option<Box<dyn Program>> {
    let pick = |tiny: u64, quick: u64, full: u64| match scale {
        Scale::Tiny => tiny,
        Scale::Quick => quick,
        Scale::Full => full,
    };
    Some(match name {
        "gups" => Box::new(Gups::new(pick(8 << 20, 4 << 30, 32 << 30), seed)),
        "chase" => Box::new(PointerChase::new(
            pick(8 << 20, 1 << 30, 4 << 30),
            64,
            4,
            seed,
        )),
        "stream" => Box::new(Stream::new(pick(8 << 20, 1 << 30, 8 << 30))),
        "graph500" => Box::new(Graph500::new(pick(12, 20, 26) as u32, seed)),
        "cg" => Box::new(Cg::new(pick(10, 21, 23) as u32, pick(32, 346, 600))),
        "bt" => Box::new(Bt::new(pick(12, 102, 408))),
        "memcached" => Box::new(KeyValueStore::memcached(
            pick(10_000, 4 << 20, 64 << 20) as u32,
            MEMCACHED_VALUE_BYTES,
            seed,
        )),
        "memcached-net" => {
            let items = pick(10_000, 4 << 20, 64 << 20) as u32;
            let store = KeyValueStore::memcached(items, MEMCACHED_VALUE_BYTES, seed);
            let memory_bytes = pick(256 << 20, 16 << 30, 96 << 30);
            Box::new(NetworkedStore::new(store, memory_bytes, seed))
        }
        "redis" => Box::new(KeyValueStore::redis(
            pick(10_000, 4 << 20, 8 << 20) as u32,
            REDIS_VALUE_BYTES,
            seed,
        )),
        "tpcc" => Box::new(Tpcc::new(pick(1, 100, 400), seed)),
        "mcf" => Box::new(Mcf::new(pick(10_000, 500_000, 1_000_000) as u32, seed)),
        "omnetpp" => {
            let messages = pick(10_000, 500_000, 1_000_000) as u32;
            Box::new(Omnetpp::new(messages, u64::from(messages) / 4, seed))
        }
        "web" => Box::new(ServiceProgram::new(WEB.at(scale), seed)),
        "cache" => Box::new(ServiceProgram::new(CACHE.at(scale), seed)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Recorder, Region};

    #[test]
    fn every_program_stays_inside_its_regions_and_repeats_itself() {
        for name in NAMES {
            let trace = || {
                let mut program = by_name(name, Scale::Tiny, 11).expect("listed");
                let regions = program.regions().to_vec();
                let mut seen = Vec::new();
                let mut keep = |block: &[Access]| {
                    seen.extend_from_slice(block);
                    true
                };
                let mut recorder = Recorder::new(&mut keep, 60_000);
                program.run(&mut recorder);
                recorder.flush();
                (regions, seen)
            };
            let (regions, seen) = trace();
            assert_eq!(seen.len(), 60_000, "{name}");
            for access in &seen {
                let inside = |r: &Region| (r.base..r.end()).contains(&access.va);
                assert!(
                    regions.iter().any(inside),
                    "{name}: {:#x} lies nowhere",
                    access.va
                );
            }
            assert_eq!(trace().1, seen, "{name} does not repeat itself");
            let mut sorted = regions.clone();
            sorted.sort_by_key(|r| r.base);
            assert!(
                sorted.windows(2).all(|w| w[0].end() <= w[1].base),
                "{name}: overlap"
            );
        }
    }
}
