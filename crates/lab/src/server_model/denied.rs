// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas §1: how few unmovable pages deny every 1 GB block, by where they lie. Counted on a
//! server's map by the metrics that all of Ample uses, beside the closed form.

use crate::charts::{line, lines};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_kit::random::SplitMix64;
use ample_pfn::{Coverage, Layout, MetricsBuilder, PageClass, Pfn, SizeList};
use ample_report::Unit;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

const PAGES_2M: u64 = 512;
const PAGES_1G: u64 = 512 * PAGES_2M;

/// The server and its unmovable pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeniedParams {
    /// Memory of the server in 1 GB blocks.
    pub memory_gb: u64,
    /// Unmovable pages for each 1 GB block, on average.
    pub pages_per_block: Vec<u64>,
    /// Seed of the pages that lie anywhere.
    pub seed: u64,
}

/// Where unmovable pages lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnmovablePattern {
    /// The same number in each 1 GB block.
    #[serde(rename = "one a block")]
    Even,
    #[serde(rename = "anywhere")]
    Random,
    /// Side by side.
    #[serde(rename = "side by side")]
    Packed,
}

/// What some unmovable pages deny.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeniedRow {
    /// Where they lie.
    pub placement: UnmovablePattern,
    /// Unmovable pages for each 1 GB block, on average.
    pub pages_per_block: u64,
    pub unmovable_page_ratio: f64,
    /// 2 MB blocks with one ÷ all 2 MB blocks.
    pub unmovable_2m_ratio: f64,
    /// 1 GB blocks with one ÷ all 1 GB blocks.
    pub denied_1g_ratio: f64,
    /// The same by the closed form.
    pub expected_denied_1g_ratio: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeniedBlocks {
    /// Memory of the server in 1 GB blocks.
    pub memory_gb: u64,
    pub seed: u64,
    pub rows: Vec<DeniedRow>,
}

/// What a few unmovable pages deny.
pub struct FewPagesDeny;

impl Experiment for FewPagesDeny {
    type Parameters = DeniedParams;
    type Outcome = DeniedBlocks;

    fn run(params: &DeniedParams, _progress: Progress<'_>) -> Result<DeniedBlocks> {
        ensure!(
            (1..=64).contains(&params.memory_gb),
            "memory_gb is {}, but must be from 1 to 64",
            params.memory_gb
        );
        let mut rows = Vec::new();
        for placement in [
            UnmovablePattern::Even,
            UnmovablePattern::Random,
            UnmovablePattern::Packed,
        ] {
            for &pages in &params.pages_per_block {
                ensure!(
                    (1..=PAGES_1G).contains(&pages),
                    "pages_per_block holds {pages}, but must be from 1 to {PAGES_1G}"
                );
                rows.push(row(params, placement, pages)?);
            }
        }
        Ok(DeniedBlocks {
            memory_gb: params.memory_gb,
            seed: params.seed,
            rows,
        })
    }
}

/// Frames of the unmovable pages.
fn frames(params: &DeniedParams, placement: UnmovablePattern, pages: u64) -> Vec<u64> {
    let all = params.memory_gb * PAGES_1G;
    let count = params.memory_gb * pages;
    match placement {
        UnmovablePattern::Packed => (0..count).collect(),
        // As far from each other as they can be.
        UnmovablePattern::Even => (0..count).map(|n| n * (PAGES_1G / pages)).collect(),
        UnmovablePattern::Random => {
            let mut random = SplitMix64::new(params.seed);
            (0..count).map(|_| random.below(all)).collect()
        }
    }
}

fn row(params: &DeniedParams, placement: UnmovablePattern, pages: u64) -> Result<DeniedRow> {
    let all = params.memory_gb * PAGES_1G;
    let mut classes = vec![PageClass::Free; all as usize];
    for frame in frames(params, placement, pages) {
        classes[frame as usize] = PageClass::Slab;
    }
    let unmovable = classes
        .iter()
        .filter(|class| **class == PageClass::Slab)
        .count();
    let layout = Layout::single(Pfn(0), all);
    let mut builder = MetricsBuilder::new(&layout, &SizeList::standard());
    builder.push(Pfn(0), &classes);
    let metrics = builder.finish(&Coverage::exact());
    let ratio = |bytes: u64| {
        let sizes = &metrics.total.k.sizes;
        let size = sizes.iter().find(|size| size.size_bytes == bytes);
        size.and_then(|size| size.unmovable_ratio.high)
            .context("a standard size")
    };
    let expected = match placement {
        UnmovablePattern::Even => 1.0,
        // A block is spared if all pages lie in others.
        UnmovablePattern::Random => {
            1.0 - (1.0 - 1.0 / params.memory_gb as f64).powf((params.memory_gb * pages) as f64)
        }
        UnmovablePattern::Packed => {
            (params.memory_gb * pages).div_ceil(PAGES_1G) as f64 / params.memory_gb as f64
        }
    };
    Ok(DeniedRow {
        placement,
        pages_per_block: pages,
        unmovable_page_ratio: unmovable as f64 / all as f64,
        unmovable_2m_ratio: ratio(2 << 20)?,
        denied_1g_ratio: ratio(1 << 30)?,
        expected_denied_1g_ratio: expected,
    })
}

impl Outcome for DeniedBlocks {
    const SCHEMA: &'static str = "ample.denied-blocks/1";

    fn figures(&self) -> Vec<Figure> {
        let title = "1 GB blocks denied (%) by unmovable pages for each of them";
        let of = |placement| {
            let rows = self
                .rows
                .iter()
                .filter(move |row| row.placement == placement);
            rows.map(|row| (row.pages_per_block as f64, row.denied_1g_ratio * 100.0))
        };
        let series = vec![
            line("the same number in each", of(UnmovablePattern::Even)),
            line("anywhere", of(UnmovablePattern::Random)),
            line("side by side", of(UnmovablePattern::Packed)),
        ];
        let svg = lines(
            title,
            [
                ("unmovable pages a block", Unit::Count),
                ("1 GB blocks denied, per cent", Unit::Count),
            ],
            series,
        )
        .to_svg();
        vec![Figure::new("denied-blocks", title, svg)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_in_each_gigabyte_denies_all_and_side_by_side_one() {
        let small = crate::shipped_parameters("denied-blocks", true).expect("shipped");
        let result = FewPagesDeny::run(&small, &|_| ()).expect("runs");
        let of = |placement| {
            let found = result.rows.iter().find(|row| row.placement == placement);
            found.expect("a row").clone()
        };
        let even = of(UnmovablePattern::Even);
        assert_eq!((even.pages_per_block, even.denied_1g_ratio), (1, 1.0));
        assert!((even.unmovable_2m_ratio - 1.0 / 512.0).abs() < 1e-12);
        assert_eq!(of(UnmovablePattern::Packed).denied_1g_ratio, 1.0 / 8.0);
        for row in &result.rows {
            if row.placement != UnmovablePattern::Random {
                assert_eq!(row.denied_1g_ratio, row.expected_denied_1g_ratio, "{row:?}");
            }
        }
    }
}
