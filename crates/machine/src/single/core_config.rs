// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one core is made from.

use serde::{Deserialize, Serialize};

/// The core without its caches and TLBs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreConfig {
    /// Clock, GHz.
    pub ghz: f64,
    /// Instructions dispatched and committed a cycle.
    pub width: u32,
    /// Reorder buffer, instructions.
    pub rob: u32,
    /// Stores between commit and the first-level cache.
    pub store_buffer: u32,
    /// The order in which TLBs, walkers and caches see accesses.
    #[serde(default)]
    pub order: AccessOrder,
    /// When a store is translated.
    #[serde(default)]
    pub stores_translate: StoresTranslate,
}

/// The order in which TLBs, walkers and caches see accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessOrder {
    /// That of their times. An entry is there once its look-up or walk is over.
    #[default]
    Events,
    /// That of the program: an access that starts late takes walkers, banks and lines before later
    /// accesses that start earlier. An entry is there from the miss on, and a hit waits for the
    /// walk. Recorded guests are timed so. Their recordings name no dependences, so that none of
    /// their accesses starts late; and what TLBs count does not depend on which of the accesses are
    /// timed.
    Program,
}

/// When a store is translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoresTranslate {
    /// When its address is known, as hardware does.
    #[default]
    Address,
    /// When it has committed, as ChampSim does: no page fault holds it up.
    Commit,
}
