// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who moves pages in an experiment.

use super::{EngineParams, Mover, OsParams};
use ample_migration::protocol::Design;
use serde::{Deserialize, Serialize};

/// Who moves the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Hardware, lines under migration bypass the private caches.
    NonCacheable,
    /// The same, but marks of pages take no miss-status entries: what those cost.
    MarksApart,
    /// Hardware, private caches stay usable.
    Cacheable,
    /// Software with interrupts.
    Software,
    /// Software with lazy shootdowns, as LATR in kind.
    LazySoftware,
    /// Software that broadcasts invalidations.
    Broadcast,
    /// Software with one shootdown for several pages.
    Batched,
    /// Software that copies before it unmaps, as NOMAD in kind.
    Transactional,
}

impl Way {
    /// What the operating system does.
    pub fn mover(self) -> Mover {
        match self {
            Self::NonCacheable | Self::MarksApart | Self::Cacheable => Mover::Hardware,
            Self::Software => Mover::Software,
            Self::LazySoftware => Mover::LazySoftware,
            Self::Broadcast => Mover::Broadcast,
            Self::Batched => Mover::Batched,
            Self::Transactional => Mover::Transactional,
        }
    }

    /// Pages that it moves at once.
    pub fn pages_at_once(self, os: &OsParams) -> u32 {
        match self {
            Self::Batched => os.batch_pages,
            _ => 1,
        }
    }

    /// The design of the hardware; of no consequence when software moves.
    pub fn design(self) -> Design {
        match self {
            Self::Cacheable => Design::Cacheable,
            _ => Design::NonCacheable,
        }
    }

    /// An engine of this design.
    pub fn engine(self, engine: EngineParams) -> EngineParams {
        EngineParams {
            design: self.design(),
            marks_apart: self == Self::MarksApart,
            ..engine
        }
    }
}
