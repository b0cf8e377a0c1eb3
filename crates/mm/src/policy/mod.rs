// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory managers under comparison, behind one trait. Everything not in this directory is
//! common to all of them.

mod contiguitas;
pub(crate) use contiguitas::border_violation;
mod fixed;
mod illuminator;
pub(crate) mod linux;
pub mod policy_ffi;

use crate::alloc::Request;
use crate::config::{PolicyConfig, PolicyKind, Rules};
use crate::core::Core;
use ample_pfn::MigrateType;

/// The decisions in which memory managers differ. What a manager does not do has a default: no
/// border, no background work, pages pinned where they lie.
pub(crate) trait Policy: std::fmt::Debug + Send {
    /// What the shared code must know.
    fn rules(&self) -> Rules;

    /// Draws the border and types the blocks of a machine that is empty but for fixed frames,
    /// of which `boot_pages` pages of kernel memory are known to come.
    fn boot(&mut self, core: &mut Core, _boot_pages: u64) {
        core.set_watermarks();
    }

    /// The lists of `mt` in `region` have no block of `order`: finds one elsewhere, or not.
    fn fallback(
        &mut self,
        core: &mut Core,
        region: usize,
        order: u32,
        mt: MigrateType,
    ) -> Option<u32>;

    /// A request found nothing: may make room without reclaim. `round` counts attempts.
    fn relieve(&mut self, _core: &mut Core, _request: &Request, _round: u32) -> bool {
        false
    }

    /// Background work, once every `elapsed_ns` of simulated time.
    fn tick(&mut self, _core: &mut Core, _elapsed_ns: u64) {}

    /// Whether a page at `pfn` must move before it may be pinned for long.
    fn must_move_to_pin(&self, _core: &Core, _pfn: u32) -> bool {
        false
    }

    /// A block to move a page to that is about to be pinned.
    fn pin_target(&mut self, _core: &mut Core) -> Option<u32> {
        None
    }
}

/// The manager that a configuration names.
pub(crate) fn build(config: &PolicyConfig) -> Box<dyn Policy> {
    match config.kind {
        PolicyKind::Linux => Box::new(linux::Linux),
        PolicyKind::Illuminator => Box::new(illuminator::Illuminator),
        PolicyKind::Static => Box::new(fixed::Static::new(config.low_region_ratio)),
        PolicyKind::Contiguitas | PolicyKind::ContiguitasHw => {
            Box::new(contiguitas::Contiguitas::new(config))
        }
    }
}
