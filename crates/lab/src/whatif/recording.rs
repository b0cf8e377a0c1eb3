// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's own load, recorded, and how well its first third predicts the rest.

use super::estimate::PERCENT;
use ample_host::Scan;
use ample_kit::statistics::MedianRange;
use ample_mm::{Config, PolicyKind, Sample, ServerModel, Workload, run_on};
use ample_pfn::{Layout, MetricsBuilder, PAGEBLOCK_ORDER, PageClass, SizeList};
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

/// The machine, by seed from 1 to `seeds`, after `seconds` of a load that goes on from the pages of
/// a snapshot: the use of each frame of a layout's span.
///
/// # Errors
/// When the machine's size is out of the model's range.
pub fn ends(
    (layout, classes): (&Layout, &[PageClass]),
    workload: &Workload,
    policy: PolicyKind,
    seconds: f64,
    seeds: u64,
) -> Result<Vec<Sample>> {
    let run = |seed| {
        let config = Config {
            seed,
            ..Config::new(policy)
        };
        let server = ServerModel::from_pages(&config, layout, classes)?;
        let mut run = run_on(server, &config, workload, seconds, seconds, &|_| {});
        Ok(run.samples.pop().expect("a run ends with a sample"))
    };
    (1..=seeds).into_par_iter().map(run).collect()
}

/// 2 MB blocks with an unmovable page (K) ÷ all 2 MB blocks.
pub fn unmovable_2m_ratio(scan: &mut Scan) -> f64 {
    let Ok(builder) = MetricsBuilder::collect(scan, &SizeList::standard());
    let total = builder.finish(&scan.meta.coverage).total;
    let blocks = total.k.sizes.iter();
    let mut pageblocks = blocks.filter(|size| size.size_bytes == PAGEBLOCK_ORDER.bytes());
    let ratio = pageblocks.next().and_then(|size| size.unmovable_ratio.high);
    ratio.unwrap_or(0.0)
}
