// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory managers under comparison, behind one trait, [`Policy`]. Everything not in this
//! directory is common to all of them. Guide: `docs/server-model.md`, "Add a policy".

mod contiguitas;
mod decisions;
#[cfg(test)]
mod example;
mod illuminator;
mod kernelcore;
mod linux;
pub mod policy_ffi;

pub(crate) use contiguitas::border_violation;
pub(crate) use decisions::Policy;

use crate::config::{PolicyConfig, PolicyKind};

/// The manager that a configuration names.
pub(crate) fn build(config: &PolicyConfig) -> Box<dyn Policy> {
    match config.kind {
        PolicyKind::Linux => Box::new(linux::Linux),
        PolicyKind::Illuminator => Box::new(illuminator::Illuminator),
        PolicyKind::Static => Box::new(kernelcore::Static::new(config.low_region_ratio)),
        PolicyKind::Contiguitas | PolicyKind::ContiguitasHw => {
            Box::new(contiguitas::Contiguitas::new(config))
        }
    }
}
