// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figure 13 of Contiguitas: cycles a page is unavailable while it moves, against the number of
//! remote TLBs, as accesses to it see them; and where the time of one migration goes.

mod attempts;
mod breakdown;
mod params;
mod watched;

use super::stats::{SeedEnds, SeedFigures, parallel};
use super::{Service, Way};
use crate::charts::{line as points_of, lines};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::stop;
use ample_kit::statistics::MedianRange;
use ample_machine::multi::Timeline;
use ample_migration::protocol::Design;
use ample_report::Unit;
use anyhow::{Context, Result, ensure};
pub use attempts::AttemptRow;
use breakdown::{Case, EIGHT, breakdown, mean, migrate};
pub use breakdown::{MigrationBreakdown, MigrationTimes};
pub use params::UnavailableParams;
use serde::{Deserialize, Serialize};
pub use watched::{CycleTail, SeenFigures, SeenRow};
use watched::{Moved, Watched, WatchedCase, watch};

/// One number of TLBs and pages of 4 KB, all in core cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnavailablePoint {
    /// TLBs of other cores that must drop the entry.
    pub remote_tlbs: u8,
    /// Shortest and longest copy in software.
    pub software_copy_min_max: [f64; 2],
    /// Over all migrations.
    #[serde(flatten)]
    pub figures: UnavailableFigures,
    /// Over those of one seed.
    pub seeds: SeedEnds<UnavailableFigures>,
}

/// What some migrations of each way come to, all in core cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnavailableFigures {
    /// Software: until all TLBs have acknowledged, mean.
    pub software_shootdown_cycles: f64,
    /// Software: from there until the page is back, median.
    pub software_copy_cycles: f64,
    /// Software: from the cleared entry to the new one, mean.
    pub software_unavailable_cycles: f64,
    /// Software: longest delay of an access in each migration, median.
    pub software_seen_cycles: f64,
    /// Hardware: the same, mean of the two designs.
    pub hardware_unavailable_cycles: f64,
    /// Hardware: longest delay of all.
    pub hardware_longest_cycles: f64,
    /// Non-cacheable design: command until copied, mean.
    pub noncacheable_copy_cycles: f64,
    /// Cacheable design: command until both mappings are usable, mean.
    pub cacheable_install_cycles: f64,
}

/// The copy in software on eight cores, by what the paper's table 1 leaves open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SoftwareCopy {
    /// Misses outstanding a core.
    pub mshrs: u32,
    /// Whether the page is in memory alone; else a busy server has just used it.
    pub page_in_memory: bool,
    /// Cycles of the copy.
    pub cycles: MedianRange,
    /// The paper's.
    pub paper_cycles: u32,
}

/// What `hw-unavailable` gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnavailableReport {
    /// Seeds of frames and accesses.
    pub seeds: Vec<u64>,
    /// Points of the figure.
    pub points: Vec<UnavailablePoint>,
    /// What accesses saw: each way, number of TLBs and size of page.
    pub seen: Vec<SeenRow>,
    /// Fit of the software line: cycles = fixed + each × TLBs; none without a point.
    pub software_fixed_cycles: Option<f64>,
    /// See `software_fixed_cycles`.
    pub software_each_cycles: Option<f64>,
    /// Paper: copy about 1,300 cycles; one 4 KB migration close to 2 µs.
    pub paper_copy_cycles: u32,
    /// See `paper_copy_cycles`.
    pub paper_migration_ns: u32,
    /// Eight cores, where the time goes.
    pub breakdown: Vec<MigrationBreakdown>,
    /// Eight cores, changes that might shorten delays or the copy.
    pub attempts: Vec<AttemptRow>,
    /// The copy in software.
    pub software_copies: Vec<SoftwareCopy>,
}

/// Least squares.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (sx, sy) = points
        .iter()
        .fold((0.0, 0.0), |(a, b), p| (a + p.0, b + p.1));
    let (mx, my) = (sx / n, sy / n);
    let sxy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let slope = if sxx > 0.0 { sxy / sxx } else { 0.0 };
    (my - slope * mx, slope)
}

/// Figure 13: cycles that a page is unavailable.
pub struct Unavailable;

impl Experiment for Unavailable {
    type Parameters = UnavailableParams;
    type Outcome = UnavailableReport;

    fn run(params: &UnavailableParams, progress: Progress<'_>) -> Result<UnavailableReport> {
        ensure!(
            params.migrations > 0 && !params.remote_tlbs.is_empty() && !params.seeds.is_empty(),
            "migrations, remote_tlbs, seeds: at least one migration, one number of TLBs and one \
             seed are needed"
        );
        ensure!(
            (0.0..=1.0).contains(&params.write_share),
            "write_share: {}: must be from 0 to 1",
            params.write_share
        );
        let tlbs = params.remote_tlbs.iter().chain(&params.large_remote_tlbs);
        ensure!(
            tlbs.clone().all(|&tlbs| tlbs < 64),
            "remote_tlbs, large_remote_tlbs: at most 63, for 64 cores"
        );
        let cases = cases(params);
        let curve = |share| progress(0.7 * share);
        let watched = parallel(&cases, &curve, |&case| watch(params, case))?;
        let watched: Vec<Watched> = watched.into_iter().flatten().collect();
        let points = params.remote_tlbs.iter().map(|&tlbs| point(&watched, tlbs));
        let points: Vec<UnavailablePoint> = points
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect();
        let xy: Vec<(f64, f64)> = points
            .iter()
            .map(|p| {
                (
                    f64::from(p.remote_tlbs),
                    p.figures.software_unavailable_cycles,
                )
            })
            .collect();
        let (fixed, each) = (!xy.is_empty()).then(|| line(&xy)).unzip();
        let designs = [Design::NonCacheable, Design::Cacheable];
        let breakdowns = parallel(&designs, &|_| {}, |&design| {
            breakdown(params, design, EIGHT.change)
        })?;
        let attempts = attempts::attempts(params, &|share| progress(0.7 + 0.2 * share))?;
        let software_copies = stop::until_stopped(|| software_copies(params)).transpose()?;
        let software_copies = software_copies.unwrap_or_default();
        Ok(UnavailableReport {
            seeds: params.seeds.clone(),
            points,
            seen: watched.into_iter().map(|one| one.row).collect(),
            software_fixed_cycles: fixed,
            software_each_cycles: each,
            paper_copy_cycles: 1300,
            paper_migration_ns: 2000,
            breakdown: breakdowns.into_iter().flatten().collect(),
            attempts,
            software_copies,
        })
    }
}

impl Outcome for UnavailableReport {
    const SCHEMA: &'static str = "ample.hw-unavailable/1";

    /// Figure 13: one line a quantity, over the number of remote TLBs.
    fn figures(&self) -> Vec<Figure> {
        let title = "Cycles that a page is unavailable, by remote TLBs";
        let over = |name: &str, value: fn(&UnavailableFigures) -> f64| {
            points_of(
                name,
                self.points
                    .iter()
                    .map(|p| (f64::from(p.remote_tlbs), value(&p.figures))),
            )
        };
        let series = vec![
            over("software: unavailable, cycles", |p| {
                p.software_unavailable_cycles
            }),
            over("of it the copy", |p| p.software_copy_cycles),
            over("hardware: longest delay seen", |p| {
                p.hardware_unavailable_cycles
            }),
        ];
        let chart = lines(
            title,
            [("other TLBs", Unit::Plain), ("cycles", Unit::Count)],
            series,
        );
        vec![Figure::new("unavailable", title, chart.to_svg())]
    }
}

fn copies(all: &[Timeline]) -> Vec<f64> {
    let one = |t: &Timeline| Some((t.copied_cycles? - t.clean_cycles?) as f64);
    all.iter().filter_map(one).collect()
}

/// Pages of 4 KB with every way, pages of 2 MB with every way that moves one at a time.
fn cases(params: &UnavailableParams) -> Vec<WatchedCase> {
    let of = |tlbs: &[u8], is_large: bool| -> Vec<WatchedCase> {
        let ways = params.ways.iter();
        let fits = move |way: &&Way| !is_large || **way != Way::Batched;
        let each = ways.filter(fits).flat_map(|&way| {
            tlbs.iter().map(move |&remote_tlbs| WatchedCase {
                way,
                remote_tlbs,
                is_large,
                change: EIGHT.change,
            })
        });
        each.collect()
    };
    let small = of(&params.remote_tlbs, false);
    [small, of(&params.large_remote_tlbs, true)].concat()
}

/// The point of the figure, when the three ways that it needs have been watched.
fn point(watched: &[Watched], remote_tlbs: u8) -> Result<Option<UnavailablePoint>> {
    let of = |way| {
        watched.iter().find(|w| {
            let row = &w.row;
            (row.way, row.remote_tlbs, row.page_bytes) == (way, remote_tlbs, 4096)
        })
    };
    let ways = (of(Way::Software), of(Way::NonCacheable), of(Way::Cacheable));
    let (Some(software), Some(plain), Some(cacheable)) = ways else {
        return Ok(None);
    };
    let copy = range(copies(&software.all.timelines))?;
    let seeds = software.by_seed.iter().zip(&plain.by_seed);
    let seeds = seeds.zip(&cacheable.by_seed);
    let each = seeds.map(|((software, plain), cacheable)| figures(software, plain, cacheable));
    let each = each.collect::<Result<Vec<_>>>()?;
    Ok(Some(UnavailablePoint {
        remote_tlbs,
        software_copy_min_max: [copy.min, copy.max],
        figures: figures(&software.all, &plain.all, &cacheable.all)?,
        seeds: SeedEnds::of(&each).context("seeds: none")?,
    }))
}

/// What the three ways come to in these migrations.
fn figures(software: &Moved, plain: &Moved, cacheable: &Moved) -> Result<UnavailableFigures> {
    let longest = |moved: &Moved| range(moved.longest.clone());
    let (noncacheable, own) = (longest(plain)?, longest(cacheable)?);
    Ok(UnavailableFigures {
        software_shootdown_cycles: mean(&software.timelines, |t| t.clean_cycles),
        software_copy_cycles: range(copies(&software.timelines))?.median,
        software_unavailable_cycles: mean(&software.timelines, |t| t.unavailable_cycles),
        software_seen_cycles: longest(software)?.median,
        hardware_unavailable_cycles: (noncacheable.median + own.median) / 2.0,
        hardware_longest_cycles: noncacheable.max.max(own.max),
        noncacheable_copy_cycles: mean(&plain.timelines, |t| t.copied_cycles),
        cacheable_install_cycles: mean(&cacheable.timelines, |t| t.installed_cycles),
    })
}

impl SeedFigures for UnavailableFigures {
    fn with(self, other: Self, choose: fn(f64, f64) -> f64) -> Self {
        let of = |part: fn(&Self) -> f64| choose(part(&self), part(&other));
        Self {
            software_shootdown_cycles: of(|f| f.software_shootdown_cycles),
            software_copy_cycles: of(|f| f.software_copy_cycles),
            software_unavailable_cycles: of(|f| f.software_unavailable_cycles),
            software_seen_cycles: of(|f| f.software_seen_cycles),
            hardware_unavailable_cycles: of(|f| f.hardware_unavailable_cycles),
            hardware_longest_cycles: of(|f| f.hardware_longest_cycles),
            noncacheable_copy_cycles: of(|f| f.noncacheable_copy_cycles),
            cacheable_install_cycles: of(|f| f.cacheable_install_cycles),
        }
    }
}

fn range(values: Vec<f64>) -> Result<MedianRange> {
    MedianRange::of(values).context("migrations: none ended")
}

fn software_copies(params: &UnavailableParams) -> Result<Vec<SoftwareCopy>> {
    let mut rows = Vec::new();
    for &mshrs in &params.mshrs {
        for service in [Service::Idle, Service::Memcached] {
            let case = Case {
                service,
                mshrs: Some(mshrs),
                ..EIGHT
            };
            rows.push(SoftwareCopy {
                mshrs,
                page_in_memory: service == Service::Idle,
                cycles: range(copies(&migrate(params, case)?.concat()))?,
                paper_cycles: 1300,
            });
        }
    }
    Ok(rows)
}
