// SPDX-License-Identifier: MIT OR Apache-2.0
//! What TLBs and page-walk caches must miss.

use super::{BASE, ExactRule, ExactnessParams, Rows, bare, engine, read, sweep, uniform};
use ample_kit::random::SplitMix64;
use ample_translate::PageSize::{G1, K4, M2};
use ample_translate::{Geometry, MmuConfig, PageSize, PwcKind, TlbArray, TranslationStats};
use anyhow::{Result, ensure};

pub(super) fn name(size: PageSize) -> &'static str {
    match size {
        K4 => "4 KB",
        M2 => "2 MB",
        G1 => "1 GB",
    }
}

/// Uniform random accesses over `W` pages miss a TLB of `E` entries with probability 1 − E/W: a
/// set that holds `w` of the `W / sets` pages that fall into it is hit with probability
/// `w / (W / sets)`, whatever it replaces.
pub(super) fn uniform_misses(mmu: &MmuConfig, params: &ExactnessParams) -> Result<Rows> {
    let mut rows = Rows::new("uniform");
    for tlb in &params.uniform {
        let config = bare(mmu, Geometry::new(tlb.entries, tlb.ways), vec![]);
        for &ratio in &params.pages_per_entry {
            let pages = f64::from(tlb.entries) * ratio;
            let sets = f64::from(tlb.entries / tlb.ways.max(1));
            ensure!(
                ratio > 1.0 && (pages / sets).fract() == 0.0,
                "pages_per_entry {ratio} of {} entries of {} ways: above 1 and pages that fill \
                 all sets evenly are needed",
                tlb.entries,
                tlb.ways
            );
            let bytes = pages as u64 * tlb.page.bytes();
            let mut engine = engine(&config, "paging", bytes, tlb.page)?;
            let mut rng = SplitMix64::scattered(params.seed);
            uniform(&mut engine, bytes, params.uniform_warm_up, &mut rng)?;
            engine.mmu.stats = TranslationStats::default();
            uniform(&mut engine, bytes, params.uniform_accesses, &mut rng)?;
            let stats = &engine.mmu.stats;
            let here = stats.l1d_misses as f64 / stats.accesses as f64;
            rows.case(format!(
                "{} entries, {} ways, {pages} pages of {}",
                tlb.entries,
                tlb.ways,
                name(tlb.page)
            ));
            rows.push(
                "misses an access",
                ExactRule::Within,
                (1.0 - 1.0 / ratio, here),
            );
            if let Some(row) = rows.list.last_mut() {
                row.pages_per_entry = Some(ratio);
            }
        }
    }
    Ok(rows)
}

/// Counts the third of three sweeps over pages of a size: the first two fill what can hold them.
fn third_sweep(config: &MmuConfig, pages: u64, size: PageSize) -> Result<TranslationStats> {
    let mut engine = engine(config, "paging", pages * size.bytes(), size)?;
    sweep(&mut engine, pages, size)?;
    sweep(&mut engine, pages, size)?;
    engine.mmu.stats = TranslationStats::default();
    sweep(&mut engine, pages, size)?;
    Ok(engine.mmu.stats.clone())
}

/// Misses of one round of a cyclic sweep under LRU: a set with more pages than ways misses all.
fn sweep_misses(pages: u64, sets: u64, ways: u64) -> u64 {
    let of_a_set = |pages: u64| if pages > ways { pages } else { 0 };
    let (each, longer) = (pages / sets, pages % sets);
    longer * of_a_set(each + 1) + (sets - longer) * of_a_set(each)
}

/// Up to the reach a cyclic sweep never misses, one page further it misses in one whole set.
pub(super) fn reach(mmu: &MmuConfig, _: &ExactnessParams) -> Result<Rows> {
    let mut rows = Rows::new("reach");
    for (entries, ways, size) in [
        (64, 64, K4),
        (1536, 12, K4),
        (96, 6, K4),
        (32, 4, M2),
        (32, 32, M2),
    ] {
        let config = bare(mmu, Geometry::new(entries, ways), vec![]);
        let (entries, ways) = (u64::from(entries), u64::from(ways));
        let sets = entries / ways;
        for pages in [entries, entries + 1, entries + sets] {
            let here = third_sweep(&config, pages, size)?.l1d_misses;
            rows.case(format!(
                "{entries} entries, {ways} ways, a cycle of {pages} pages of {}",
                name(size)
            ));
            rows.equal("misses a round", sweep_misses(pages, sets, ways), here);
        }
    }
    Ok(rows)
}

/// The second level holds what leaves the first, up to its own reach.
pub(super) fn inclusion(mmu: &MmuConfig, _: &ExactnessParams) -> Result<Rows> {
    let config = MmuConfig {
        l2: vec![TlbArray::new(&[K4, M2], Geometry::new(1536, 12))],
        ..bare(mmu, Geometry::new(64, 4), vec![])
    };
    let mut rows = Rows::new("inclusion");
    for pages in [64, 80, 1536, 1537, 1664] {
        let stats = third_sweep(&config, pages, K4)?;
        let first = sweep_misses(pages, 16, 4);
        let both = sweep_misses(pages, 128, 12);
        rows.case(format!(
            "64 (4 ways) before 1536 (12 ways), a cycle of {pages} pages of 4 KB"
        ));
        rows.equal("first-level misses a round", first, stats.l1d_misses);
        rows.equal("second-level hits a round", first - both, stats.l2_hits);
        rows.equal("walks a round", both, stats.walks_data);
    }
    Ok(rows)
}

/// References of walks by level: of `W` pages under `W / 512` page directory entries (PDEs), `E`
/// of them cached, each walk reads the last level, and those above with probability
/// 1 − E/(W/512); a cold walk without walk caches reads every level down to the leaf.
pub(super) fn walk_references(mmu: &MmuConfig, params: &ExactnessParams) -> Result<Rows> {
    const LEVELS: [&str; 5] = ["", "level 1", "level 2", "level 3", "level 4"];
    let (pages, cached) = (65_536u64, 32u32);
    let missed = 1.0 - f64::from(cached) / (pages / 512) as f64;
    let caches = [
        (vec![Geometry::full(cached)], [1.0, missed, missed, missed]),
        (
            vec![Geometry::full(cached), Geometry::full(4)],
            [1.0, missed, 0.0, 0.0],
        ),
        (vec![], [1.0; 4]),
    ];
    let mut rows = Rows::new("walk references");
    for (pwc, expected) in caches {
        rows.case(format!(
            "levels with a page-walk cache: {} ({cached} PDEs), {pages} pages of 4 KB at random",
            pwc.len()
        ));
        let (config, bytes) = (bare(mmu, Geometry::full(32), pwc), pages << 12);
        let mut engine = engine(&config, "paging", bytes, K4)?;
        let mut rng = SplitMix64::scattered(params.seed);
        let warm_up = params.uniform_warm_up.max(100_000);
        uniform(&mut engine, bytes, warm_up, &mut rng)?;
        engine.mmu.stats = TranslationStats::default();
        uniform(&mut engine, bytes, params.uniform_accesses, &mut rng)?;
        let stats = &engine.mmu.stats;
        for level in 1..=4 {
            let expected = expected[level - 1];
            let here = stats.refs_by_level[level] as f64 / stats.walks_data as f64;
            let exact = expected == 0.0 || expected == 1.0;
            let rule = if exact {
                ExactRule::Equal
            } else {
                ExactRule::Within
            };
            rows.push(LEVELS[level], rule, (expected, here));
        }
        let histogram = stats.trajectory_histogram().values().sum();
        let count = "walks in the histogram of trajectories";
        rows.equal(count, stats.walks_data, histogram);
    }
    cold_walks(mmu, &mut rows)?;
    Ok(rows)
}

/// A walk without walk caches reads every level down to the leaf.
fn cold_walks(mmu: &MmuConfig, rows: &mut Rows) -> Result<()> {
    for levels in [4u8, 5] {
        for size in PageSize::ALL {
            let config = MmuConfig {
                levels,
                pwc: PwcKind::Absent,
                ..bare(mmu, Geometry::full(4), vec![])
            };
            let mut engine = engine(&config, "paging", size.bytes(), size)?;
            read(&mut engine, BASE + 0x128)?;
            let page = name(size);
            rows.case(format!("{levels} levels, {page} page, no walk caches"));
            let expected = u64::from(levels + 1 - size.level());
            rows.equal(
                "references of a walk",
                expected,
                engine.mmu.stats.walk_refs(),
            );
        }
    }
    Ok(())
}
