// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who moves pages in an experiment.

use super::{EngineParams, Mover};
use ample_migration::protocol::Design;
use serde::{Deserialize, Serialize};

/// Who moves the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Hardware, lines under migration bypass the private caches.
    NonCacheable,
    /// Hardware, private caches stay usable.
    Cacheable,
    /// Software with interrupts.
    Software,
    /// Software with lazy shootdowns, as LATR in kind.
    LazySoftware,
}

impl Way {
    /// What the operating system does.
    pub fn mover(self) -> Mover {
        match self {
            Self::NonCacheable | Self::Cacheable => Mover::Hardware,
            Self::Software => Mover::Software,
            Self::LazySoftware => Mover::LazySoftware,
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
            ..engine
        }
    }
}
