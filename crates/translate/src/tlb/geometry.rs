// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shape of a set-associative array.

use crate::error::ConfigError;
use serde::{Deserialize, Serialize};

/// Which entry of a full set leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// The least recently used one.
    #[default]
    Lru,
    /// The one a binary tree of direction bits points at; ways must be a power of two.
    Plru,
    /// Any one, drawn from a stream that follows from the seed of the geometry.
    Random,
    /// The first one that is predicted to be used again in a distant time: static re-reference
    /// interval prediction with two bits a way, where each use of an entry counts.
    Srrip,
}

/// Sets and ways; neither has to be a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Entries in all.
    pub entries: u32,
    /// Entries in one set; equal to `entries`: fully associative.
    pub ways: u32,
    /// Which entry of a full set leaves; LRU where nothing is said.
    #[serde(default)]
    pub replacement: Replacement,
    /// What random replacement draws by.
    #[serde(default)]
    pub seed: u32,
}

impl Geometry {
    /// `entries` entries in sets of `ways`, LRU.
    pub const fn new(entries: u32, ways: u32) -> Self {
        Geometry {
            entries,
            ways,
            replacement: Replacement::Lru,
            seed: 0,
        }
    }

    /// One set of `entries` entries, LRU.
    pub const fn full(entries: u32) -> Self {
        Geometry::new(entries, entries)
    }

    /// Checks that such an array can be built.
    ///
    /// # Errors
    /// If a number is zero, the sets do not come out whole, or PLRU has no whole tree.
    pub fn check(&self, what: &str) -> Result<(), ConfigError> {
        let Geometry {
            entries,
            ways,
            replacement,
            ..
        } = *self;
        if entries == 0 || ways == 0 || !entries.is_multiple_of(ways) {
            return Err(ConfigError::Geometry {
                what: what.to_owned(),
                entries,
                ways,
            });
        }
        if replacement == Replacement::Plru && (!ways.is_power_of_two() || ways > 16) {
            return Err(ConfigError::Plru {
                what: what.to_owned(),
                ways,
            });
        }
        Ok(())
    }
}
