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
use crate::frame::MigrateType;

/// The decisions in which memory managers differ.
pub(crate) trait Policy: std::fmt::Debug + Send {
    /// What the shared code must know.
    fn rules(&self) -> Rules;

    /// Draws the border and types the blocks of a machine that is empty but for fixed frames.
    fn boot(&mut self, core: &mut Core, boot_pages: u64);

    /// The lists of `mt` in `region` have no block of `order`: finds one elsewhere, or not.
    fn fallback(
        &mut self,
        core: &mut Core,
        region: usize,
        order: u32,
        mt: MigrateType,
    ) -> Option<u32>;

    /// A request found nothing: may make room without reclaim. `round` counts attempts.
    fn relieve(&mut self, core: &mut Core, request: &Request, round: u32) -> bool;

    /// Background work, once every `elapsed_ns` of simulated time.
    fn tick(&mut self, core: &mut Core, elapsed_ns: u64);

    /// Whether a page at `pfn` must move before it may be pinned for long.
    fn must_move_to_pin(&self, core: &Core, pfn: u32) -> bool;

    /// A block to move a page to that is about to be pinned.
    fn pin_target(&mut self, core: &mut Core) -> Option<u32>;
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
