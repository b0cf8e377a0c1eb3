// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where memory lies: NUMA nodes and zones as ranges of frames.

use crate::{Pfn, PfnRange};
use serde::{Deserialize, Serialize};

/// One zone of one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// NUMA node id.
    pub node: u32,
    /// Name as the kernel prints it: `DMA`, `DMA32`, `Normal`, `Movable`, `Device`.
    pub name: String,
    /// Frames the zone spans, holes included.
    pub span: PfnRange,
}

/// The zones of a machine, sorted by first frame.
///
/// Spans of zones of different nodes may interleave on real machines; a frame then belongs to
/// the first zone, in this order, that spans it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Layout {
    zones: Vec<Zone>,
}

/// Why a layout was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No zone at all, or only empty ones.
    #[error("no zone spans any memory")]
    Empty,
    /// A zone reaches beyond 2^40 frames (4 PB), which no x86-64 machine has.
    #[error("zone {name} of node {node} ends at {end}, beyond 4 PB of physical address space")]
    TooLarge {
        /// NUMA node id.
        node: u32,
        /// Zone name.
        name: String,
        /// One past the last frame.
        end: Pfn,
    },
}

impl Layout {
    /// Highest frame number that any layout may contain: 4 PB, the x86-64 physical limit.
    pub const MAX_PFN: u64 = 1 << 40;

    /// Builds a layout; empty zones are dropped, the rest is sorted by first frame.
    ///
    /// # Errors
    /// [`LayoutError`] when nothing is left or a zone is implausibly large.
    pub fn new(mut zones: Vec<Zone>) -> Result<Layout, LayoutError> {
        zones.retain(|zone| !zone.span.is_empty());
        zones.sort_by_key(|zone| (zone.span.start, zone.node));
        if zones.is_empty() {
            return Err(LayoutError::Empty);
        }
        if let Some(zone) = zones.iter().find(|zone| zone.span.end.0 > Layout::MAX_PFN) {
            let (node, name, end) = (zone.node, zone.name.clone(), zone.span.end);
            return Err(LayoutError::TooLarge { node, name, end });
        }
        Ok(Layout { zones })
    }

    /// One node with one `Normal` zone of `pages` frames from `start`.
    ///
    /// # Panics
    /// If `pages` is 0 or beyond the physical limit (a programming error, not input).
    pub fn single(start: Pfn, pages: u64) -> Layout {
        let span = PfnRange::new(start, Pfn(start.0 + pages));
        Layout::new(vec![Zone {
            node: 0,
            name: "Normal".into(),
            span,
        }])
        .expect("a valid zone")
    }

    /// The zones, sorted by first frame.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Smallest range that contains every zone.
    pub fn span(&self) -> PfnRange {
        let start = self.zones.first().map_or(Pfn(0), |zone| zone.span.start);
        let end = self
            .zones
            .iter()
            .map(|zone| zone.span.end)
            .max()
            .unwrap_or(start);
        PfnRange::new(start, end)
    }

    /// Index in [`Layout::zones`] of the zone that `pfn` belongs to.
    pub fn zone_of(&self, pfn: Pfn) -> Option<usize> {
        self.zones.iter().position(|zone| zone.span.contains(pfn))
    }

    /// NUMA node ids, ascending, each once.
    pub fn nodes(&self) -> Vec<u32> {
        let mut nodes: Vec<u32> = self.zones.iter().map(|zone| zone.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(node: u32, name: &str, start: u64, end: u64) -> Zone {
        Zone {
            node,
            name: name.into(),
            span: PfnRange::new(Pfn(start), Pfn(end)),
        }
    }

    #[test]
    fn layouts_sort_and_drop_empty_zones() {
        let layout = Layout::new(vec![
            zone(0, "Normal", 4096, 9000),
            zone(0, "Movable", 0, 0),
            zone(0, "DMA", 1, 4096),
        ])
        .unwrap();
        assert_eq!(layout.zones().len(), 2);
        assert_eq!(layout.span(), PfnRange::new(Pfn(1), Pfn(9000)));
        assert_eq!(layout.zone_of(Pfn(4095)), Some(0));
        assert_eq!(layout.zone_of(Pfn(4096)), Some(1));
        assert_eq!(layout.zone_of(Pfn(0)), None);
    }

    #[test]
    fn implausible_layouts_are_refused() {
        assert_eq!(Layout::new(vec![]), Err(LayoutError::Empty));
        let huge = vec![zone(1, "Normal", 0, Layout::MAX_PFN + 1)];
        assert!(matches!(
            Layout::new(huge),
            Err(LayoutError::TooLarge { node: 1, .. })
        ));
    }
}
