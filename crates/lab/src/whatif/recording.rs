// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's own load, recorded, and how well its first third predicts the rest.

use super::estimate::PERCENT;
use ample_host::{Scan, ZoneCounters};
use ample_kit::statistics::MedianRange;
use ample_mm::{Config, Marks, PolicyKind, Sample, ServerModel, Workload, run_on};
use ample_pfn::{MetricsBuilder, PAGEBLOCK_ORDER, PageClass, Pfn, SizeList, Source};
use anyhow::Result;
use rayon::prelude::*;
use serde::Serialize;

/// How the page says where its load comes from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RecordedLoad {
    /// Length of the recording in seconds.
    pub seconds: f64,
    /// 2 MB blocks with an unmovable page (K) at its end, as predicted from its first third.
    pub predicted_2m_ratio: MedianRange,
    /// The same, as found.
    pub found_2m_ratio: f64,
}

impl RecordedLoad {
    pub(super) fn sentence(&self) -> String {
        format!(
            "The load is this machine’s own, recorded for {:.1} minutes. As a check, the first \
             third of the recording predicted {} of 2 MB blocks with unmovable pages (K) at its \
             end; found were {:.1} %. What happens seldom, such as a deployment, is in the \
             prediction only if it is in the recording.",
            self.seconds / 60.0,
            PERCENT.of(&self.predicted_2m_ratio),
            100.0 * self.found_2m_ratio
        )
    }
}

/// The watermarks of a machine as it was scanned, over all its zones; `None` where the scan has
/// none.
pub fn watermarks(scan: &Scan) -> Option<Marks> {
    let zones = || scan.meta.zones.iter();
    let sum = |pages: fn(&ZoneCounters) -> u64| zones().map(pages).fold(0, u64::saturating_add);
    let marks = Marks {
        min: sum(|zone| zone.min_pages),
        low: sum(|zone| zone.low_pages),
        high: sum(|zone| zone.high_pages),
    };
    (marks.min > 0).then_some(marks)
}

/// The machine of a scan, by seed from 1 to `seeds`, after `seconds` of a load that goes on from
/// its pages, `classes`: the use of each frame of its span. It keeps as much memory free as the
/// scanned kernel did, and under Contiguitas it is resized as that kernel is.
///
/// # Errors
/// When the machine's size is out of the model's range.
pub fn ends(
    scan: &Scan,
    classes: &[PageClass],
    workload: &Workload,
    policy: PolicyKind,
    seconds: f64,
    seeds: u64,
) -> Result<Vec<Sample>> {
    let run = |seed| {
        let config = Config {
            seed,
            marks: watermarks(scan),
            ..Config::new(policy)
        };
        let server = ServerModel::from_pages(&config, &scan.layout, classes)?;
        let mut run = run_on(server, &config, workload, seconds, seconds, &|_| {});
        Ok(run.samples.pop().expect("a run ends with a sample"))
    };
    (1..=seeds).into_par_iter().map(run).collect()
}

/// 2 MB blocks with an unmovable page (K) ÷ all 2 MB blocks; the lower bound where the reader
/// cannot tell all free pages.
pub fn unmovable_2m_ratio(scan: &mut Scan) -> f64 {
    let Ok(builder) = MetricsBuilder::collect(scan, &SizeList::standard());
    let total = builder.finish(&scan.meta.coverage).total;
    let blocks = total.k.sizes.iter();
    let mut pageblocks = blocks.filter(|size| size.size_bytes == PAGEBLOCK_ORDER.bytes());
    let ratio = pageblocks.next().and_then(|size| size.unmovable_ratio.low);
    ratio.unwrap_or(0.0)
}

/// The use of each frame of a scan's span. Pages without a flag that may be free lie where the
/// lower bound of [`unmovable_2m_ratio`] has them: in the blocks that hold the fewest, and no other
/// page that is unmovable.
pub fn likely_pages(scan: &Scan) -> Vec<PageClass> {
    let mut pages = scan.pages.expand();
    if let Some(free) = scan.meta.coverage.ambiguous_free_pages {
        free_bare(&mut pages, scan.layout.span().start, free);
    }
    pages
}

/// Takes up to `budget` bare pages of frames from `first` on for free ones.
fn free_bare(pages: &mut [PageClass], first: Pfn, mut budget: u64) {
    let block_pages = PAGEBLOCK_ORDER.pages();
    let before = (block_pages - first.0 % block_pages) % block_pages;
    let (head, rest) = pages.split_at_mut((before as usize).min(pages.len()));
    let mut blocks: Vec<&mut [PageClass]> = rest.chunks_mut(block_pages as usize).collect();
    blocks.push(head);
    let is_bare = |class: &&PageClass| **class == PageClass::Bare;
    let only_bare = |block: &&mut [PageClass]| {
        let mut kernel = block.iter().filter(|class| class.source() != Source::None);
        kernel.all(|&class| class == PageClass::Bare)
    };
    blocks.retain(only_bare);
    blocks.sort_by_key(|block| block.iter().filter(is_bare).count());
    for block in blocks {
        let bare = block.iter().filter(is_bare).count() as u64;
        let Some(left) = budget.checked_sub(bare) else {
            break;
        };
        budget = left;
        for class in block.iter_mut().filter(|class| **class == PageClass::Bare) {
            *class = PageClass::FreePcp;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_may_be_free_are_where_the_lower_bound_has_them() {
        let mut pages = vec![PageClass::Anon; 4 * 512 - 1];
        // The first frame is 1. Block 0: a slab page and a bare one. Block 1: three bare ones.
        // Block 2: one. Block 3: two.
        pages[7] = PageClass::Slab;
        for index in [8, 511, 512, 513, 1024, 1600, 1601] {
            pages[index] = PageClass::Bare;
        }
        free_bare(&mut pages, Pfn(1), 3);
        let bare: Vec<usize> = (0..pages.len())
            .filter(|&at| pages[at] == PageClass::Bare)
            .collect();
        assert_eq!(bare, [8, 511, 512, 513]);
    }
}
