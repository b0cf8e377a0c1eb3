// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/proc/zoneinfo`: spans, watermarks and per-CPU lists of each zone.

use crate::HostError;
use ample_pfn::{Layout, Pfn, PfnRange, Zone};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What the kernel counts in one zone, in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneCounters {
    /// NUMA node.
    pub node: u32,
    /// Zone name.
    pub name: String,
    /// First frame.
    pub start_pfn: u64,
    /// Frames between the first and the last, holes included.
    pub spanned_pages: u64,
    /// Frames with memory.
    pub present_pages: u64,
    /// Frames that the buddy allocator manages.
    pub managed_pages: u64,
    /// Free in the buddy allocator.
    pub free_pages: u64,
    /// Watermark below which only emergency allocations succeed. This one and the next two are
    /// without what a claimed block has raised them by for a while (`watermark_boost`).
    pub min_pages: u64,
    /// Watermark at which kswapd wakes.
    pub low_pages: u64,
    /// Watermark at which kswapd sleeps.
    pub high_pages: u64,
    /// Free in per-CPU lists, summed over CPUs.
    pub pcp_pages: u64,
    /// Free blocks of order 0, 1, … (from buddyinfo).
    pub free_blocks: Vec<u64>,
}

impl ZoneCounters {
    /// The frames the zone spans.
    pub fn span(&self) -> PfnRange {
        let end = self.start_pfn.saturating_add(self.spanned_pages);
        PfnRange::new(Pfn(self.start_pfn), Pfn(end))
    }
}

/// Parses `/proc/zoneinfo`; zones without memory are left out.
///
/// # Errors
/// [`HostError::Parse`] with the line of a value that is not a number.
pub fn zoneinfo(text: &str, path: &Path) -> Result<Vec<ZoneCounters>, HostError> {
    let mut zones: Vec<ZoneCounters> = Vec::new();
    let mut boost_pages = 0;
    for (index, line) in text.lines().enumerate() {
        let bad = |what: &str| HostError::parse(path, index + 1, what);
        if let Some(rest) = line.strip_prefix("Node ") {
            let (node, name) = rest
                .split_once(", zone")
                .ok_or_else(|| bad("expected Node N, zone NAME"))?;
            zones.push(ZoneCounters {
                node: node
                    .trim()
                    .parse()
                    .map_err(|_| bad("node is not a number"))?,
                name: name.trim().to_string(),
                ..ZoneCounters::default()
            });
            boost_pages = 0;
            continue;
        }
        let Some(zone) = zones.last_mut() else {
            continue;
        };
        let mut words = line.split_whitespace();
        let (field, value) = match (words.next(), words.next(), words.next()) {
            (Some("pages"), Some("free"), Some(value)) => (&mut zone.free_pages, value),
            (Some("boost"), Some(value), _) => (&mut boost_pages, value),
            (Some(mark @ ("min" | "low" | "high")), Some(value), _) => {
                let raised: u64 = value
                    .parse()
                    .map_err(|_| bad("watermark is not a number"))?;
                let own = match mark {
                    "min" => &mut zone.min_pages,
                    "low" => &mut zone.low_pages,
                    _ => &mut zone.high_pages,
                };
                *own = raised.saturating_sub(boost_pages);
                continue;
            }
            (Some("spanned"), Some(value), _) => (&mut zone.spanned_pages, value),
            (Some("present"), Some(value), _) => (&mut zone.present_pages, value),
            (Some("managed"), Some(value), _) => (&mut zone.managed_pages, value),
            (Some("start_pfn:"), Some(value), _) => (&mut zone.start_pfn, value),
            (Some("count:"), Some(value), _) => {
                let count: u64 = value.parse().map_err(|_| bad("count is not a number"))?;
                zone.pcp_pages = zone.pcp_pages.saturating_add(count);
                continue;
            }
            _ => continue,
        };
        *field = value.parse().map_err(|_| bad("value is not a number"))?;
    }
    zones.retain(|zone| zone.spanned_pages > 0);
    Ok(zones)
}

/// The zones as a layout.
///
/// # Errors
/// [`HostError::NoMemory`] when there is no zone with memory, or an implausible one.
pub fn layout_of(zones: &[ZoneCounters], path: &Path) -> Result<Layout, HostError> {
    let zone = |zone: &ZoneCounters| Zone {
        node: zone.node,
        name: zone.name.clone(),
        span: zone.span(),
    };
    Layout::new(zones.iter().map(zone).collect()).map_err(|error| HostError::NoMemory {
        path: path.to_path_buf(),
        what: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Node 0, zone   Normal
  per-node stats
      nr_inactive_anon 14656
  pages free     216498
        boost    0
        min      9438
        low      11797
        high     14156
        spanned  5505024
        present  5505000
        managed  983040
        protection: (0, 0, 0)
  pagesets
    cpu: 0
              count:    7402
              high:     49590
    cpu: 1
              count:    26483
  start_pfn:           1048576
Node 0, zone  Movable
  pages free     0
        spanned  0
";

    #[test]
    fn counters_of_a_zone_are_found_and_empty_zones_dropped() {
        let zones = zoneinfo(TEXT, Path::new("z")).unwrap();
        assert_eq!(zones.len(), 1);
        let zone = &zones[0];
        assert_eq!(
            (zone.free_pages, zone.min_pages, zone.high_pages),
            (216_498, 9438, 14_156)
        );
        assert_eq!(zone.pcp_pages, 7402 + 26_483);
        assert_eq!(zone.present_pages - zone.managed_pages, 5_505_000 - 983_040);
        assert_eq!(
            zone.span(),
            PfnRange::new(Pfn(1 << 20), Pfn((1 << 20) + 5_505_024))
        );
    }

    #[test]
    fn watermarks_are_those_without_the_boost() {
        let boosted = TEXT
            .replace("boost    0", "boost    512")
            .replace("9438", "9950")
            .replace("11797", "12309")
            .replace("14156", "14668");
        let marks = |text: &str| {
            let zones = zoneinfo(text, Path::new("z")).unwrap();
            (zones[0].min_pages, zones[0].low_pages, zones[0].high_pages)
        };
        assert_eq!(marks(&boosted), (9438, 11_797, 14_156));
        assert_eq!(marks(&boosted), marks(TEXT));
    }

    #[test]
    fn broken_values_are_named() {
        let error = zoneinfo("Node 0, zone DMA\n spanned x\n", Path::new("z")).unwrap_err();
        assert_eq!(error.to_string(), "z:2: value is not a number");
        let error = zoneinfo("Node 0 DMA\n", Path::new("z")).unwrap_err();
        assert!(error.to_string().starts_with("z:1:"), "{error}");
    }

    #[test]
    fn a_zone_at_the_end_of_the_address_space_does_not_overflow() {
        let text = "Node 0, zone DMA\n spanned 18446744073709551615\n start_pfn: 12\n";
        let zones = zoneinfo(text, Path::new("z")).unwrap();
        assert!(layout_of(&zones, Path::new("z")).is_err());
    }
}
