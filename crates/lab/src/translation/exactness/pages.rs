// SPDX-License-Identifier: MIT OR Apache-2.0
//! What nested walks, perforated pages and segments must cost.

use super::tlbs::name;
use super::{BASE, ExactRule, ExactnessParams, Rows, bare, engine, read, sweep, uniform};
use ample_kit::random::SplitMix64;
use ample_translate::PageSize::{K4, M2};
use ample_translate::{
    Engine, FrameSource, Geometry, Host, IdealFrames, Intent, MmuConfig, NoMemory, PageSize, Space,
    TlbArray, TranslationStats, USER_RW, schemes,
};
use anyhow::{Context, Result, anyhow};

/// Memory of a guest, all of it mapped by the host.
const GUEST_BYTES: u64 = 4 << 30;
/// Memory of a guest that a program uses.
const USED_BYTES: u64 = 1 << 30;

/// A virtual machine whose host uses pages of one size, or a segment.
fn nested(config: &MmuConfig, guest: PageSize, host: Option<PageSize>) -> Result<Engine> {
    let mut engine = engine(config, "paging", USED_BYTES, guest)?;
    let mut frames = IdealFrames::new(GUEST_BYTES * 2);
    let mut space = Space::new(0, config.levels, &mut frames)?;
    match host {
        Some(size) => {
            for guest_pa in (0..GUEST_BYTES).step_by(size.bytes() as usize) {
                let pfn = frames.alloc(size.order());
                let pfn = pfn.ok_or_else(|| frames.exhausted(size.order()))?;
                space.map(guest_pa, size, pfn, USER_RW, &mut frames)?;
            }
        }
        None => {
            let pfn = frames.alloc_run(GUEST_BYTES >> 12);
            let pfn = pfn.ok_or_else(|| frames.exhausted(0))?;
            space.set_segment(0, GUEST_BYTES, pfn, &mut frames)?;
        }
    }
    space.pending.clear();
    engine.host = Some(Host::new(space, config, 1).map_err(|e| anyhow!(e))?);
    Ok(engine)
}

/// With `g` levels in the guest and `h` in the host a walk reads (g + 1)(h + 1) − 1 entries: at
/// most 24 with four levels. A segment on the host's side leaves the guest's `g`.
pub(super) fn nested_walks(mmu: &MmuConfig, params: &ExactnessParams) -> Result<Rows> {
    let none = bare(mmu, Geometry::full(4), vec![]);
    let mut rows = Rows::new("nested walks");
    let hosts = PageSize::ALL.map(Some).into_iter().chain([None]);
    for host in hosts {
        for guest in PageSize::ALL {
            let mut engine = nested(&none, guest, host)?;
            let pa = read(&mut engine, BASE + 0x1234)?;
            let on = host.map_or("a segment", name);
            rows.case(format!("{} page on {on}, no walk caches", name(guest)));
            let levels = |size: PageSize| u64::from(5 - size.level());
            let (guest, host) = (levels(guest), host.map_or(0, levels));
            let expected = (guest + 1) * (host + 1) - 1;
            let here = engine.mmu.stats.walk_refs();
            rows.equal("references of a walk", expected, here);
            let guest_pa = engine.space().lookup(BASE + 0x1234).map(|found| found.pa);
            let host = engine.host.as_ref();
            let table = guest_pa.and_then(|at| host.and_then(|host| host.lookup(at)));
            rows.equal("answers unlike the tables", 0, u64::from(table != Some(pa)));
        }
    }
    let caches = MmuConfig {
        levels: 4,
        ..mmu.clone()
    };
    let mut engine = nested(&caches, K4, Some(K4))?;
    let mut rng = SplitMix64::scattered(params.seed);
    uniform(&mut engine, USED_BYTES, 400_000, &mut rng)?;
    let longest = engine.mmu.stats.longest_walk_refs as f64;
    rows.case("4 KB page on 4 KB, all caches, 400000 accesses at random");
    let count = "references of the longest walk";
    rows.push(count, ExactRule::AtMost, (24.0, longest));
    Ok(rows)
}

/// Perforated pages without holes are 2 MB pages, to the access.
pub(super) fn no_holes(mmu: &MmuConfig, params: &ExactnessParams) -> Result<Rows> {
    let bytes = 256u64 << 20;
    let count = |name: &str| -> Result<TranslationStats> {
        let mut engine = engine(mmu, name, bytes, M2)?;
        let mut rng = SplitMix64::scattered(params.seed);
        uniform(&mut engine, bytes, 500_000, &mut rng)?;
        Ok(engine.mmu.stats.clone())
    };
    let (plain, here) = (count("paging")?, count("perforated")?);
    let mut rows = Rows::new("no holes");
    rows.case("perforated beside 2 MB pages, 256 MB, 500000 accesses at random");
    rows.equal("first-level misses", plain.l1d_misses, here.l1d_misses);
    rows.equal("second-level hits", plain.l2_hits, here.l2_hits);
    rows.equal("walks", plain.walks(), here.walks());
    rows.equal("references", plain.walk_refs(), here.walk_refs());
    rows.equal("bitmap look-ups", 0, here.bitmap_lookups);
    Ok(rows)
}

/// An engine whose memory is perforated pages that are nothing but holes, each backed elsewhere.
fn all_holed(config: &MmuConfig, bytes: u64) -> Result<Engine> {
    let scheme = schemes::by_name("perforated").map_err(|e| anyhow!(e))?;
    let frames = Box::new(IdealFrames::new(bytes * 4 + (64 << 20)));
    let mut engine = Engine::new(config, scheme, frames, 1).map_err(|e| anyhow!(e))?;
    let (space, frames) = engine.space_and_frames();
    for va in (BASE..BASE + bytes).step_by(M2.bytes() as usize) {
        let block = frames.alloc(9).context("a block for a perforated page")?;
        space.map_perforated(va, block, [u64::MAX; 8], USER_RW, frames)?;
        for hole in (va..va + M2.bytes()).step_by(K4.bytes() as usize) {
            let frame = frames.alloc(0).context("a frame for a hole")?;
            space.punch(hole, Some((frame, USER_RW)))?;
        }
    }
    space.pending.clear();
    Ok(engine)
}

/// With 512 holes a perforated page is 512 pages of 4 KB and the look-ups of its bitmap: one for
/// each walk, a load for each 64 pages while the second level keeps them.
pub(super) fn all_holes(mmu: &MmuConfig, params: &ExactnessParams) -> Result<Rows> {
    let second = |entries| MmuConfig {
        l2: vec![TlbArray::new(&[K4, M2], Geometry::full(entries))],
        ..mmu.clone()
    };
    let mut rows = Rows::new("512 holes");
    let bytes = 16u64 << 20;
    let pages = bytes >> 12;
    // Room for every page, bitmap group and perforated entry: each is fetched once.
    let roomy = second(2 * pages as u32);
    let mut holed = all_holed(&roomy, bytes)?;
    let mut small = engine(&roomy, "paging", bytes, K4)?;
    sweep(&mut holed, pages, K4)?;
    sweep(&mut small, pages, K4)?;
    let (here, plain) = (&holed.mmu.stats, &small.mmu.stats);
    rows.case("room for all in the second level, first sweep of 16 MB");
    let (expected, counted) = (plain.refs_by_level[1], here.refs_by_level[1]);
    rows.equal("last-level references", expected, counted);
    rows.equal("walks to the 2 MB level", pages / 512, here.walks_data);
    rows.equal("bitmap look-ups", pages, here.bitmap_lookups);
    rows.equal("bitmap loads", pages / 64, here.bitmap_loads);
    for engine in [&mut holed, &mut small] {
        engine.mmu.stats = TranslationStats::default();
        sweep(engine, pages, K4)?;
    }
    let (here, plain) = (&holed.mmu.stats, &small.mmu.stats);
    rows.case("room for all in the second level, second sweep of 16 MB");
    rows.equal("first-level misses", plain.l1d_misses, here.l1d_misses);
    rows.equal("second-level hits", plain.l2_hits, here.l2_hits);
    rows.equal("bitmap look-ups", 0, here.bitmap_lookups);
    // Little room: holes are walked for again and again, and the bitmap is asked before each.
    let tight = second(16);
    let bytes = 64u64 << 20;
    let mut holed = all_holed(&tight, bytes)?;
    let mut small = engine(&tight, "paging", bytes, K4)?;
    for engine in [&mut holed, &mut small] {
        let mut rng = SplitMix64::scattered(params.seed);
        uniform(engine, bytes, 400_000, &mut rng)?;
    }
    let (here, plain) = (&holed.mmu.stats, &small.mmu.stats);
    rows.case("16 entries in the second level, 64 MB, 400000 accesses at random");
    rows.equal("first-level misses", plain.l1d_misses, here.l1d_misses);
    let count = "bitmap look-ups (here: walks for holes)";
    rows.equal(count, here.bitmap_lookups, here.hole_walks);
    let count = "last-level references (here: walks for holes)";
    rows.equal(count, here.refs_by_level[1], here.hole_walks);
    Ok(rows)
}

/// Inside a segment nothing misses; next to it nothing is mapped.
pub(super) fn segment(mmu: &MmuConfig, params: &ExactnessParams) -> Result<Rows> {
    let (base, bytes, accesses) = (2u64 << 40, 1000u64 << 12, 400_000);
    let mut engine = engine(mmu, "segment", K4.bytes(), K4)?;
    let (space, frames) = engine.space_and_frames();
    let pfn = frames.alloc_run(bytes >> 12).context("a run of frames")?;
    space.set_segment(base, bytes, pfn, frames)?;
    engine.sync();
    let mut rng = SplitMix64::scattered(params.seed);
    let mut wrong = 0;
    for _ in 0..accesses {
        let offset = rng.below(bytes);
        wrong += u64::from(read(&mut engine, base + offset)? != (pfn << 12) + offset);
    }
    let stats = engine.mmu.stats.clone();
    let outside = [base - 1, base + bytes].into_iter().filter(|&va| {
        let answer = engine.translate(va, Intent::Read, 0, &mut NoMemory);
        answer.is_err()
    });
    let refused = outside.count() as u64;
    let mut rows = Rows::new("segment");
    rows.case("1000 pages, 400000 accesses at random inside");
    rows.equal("first-level misses", 0, stats.l1d_misses);
    rows.equal("walks", 0, stats.walks());
    rows.equal("translated by the segment", accesses, stats.bypassed);
    rows.equal("answers off base + offset", 0, wrong);
    rows.equal("faults at the bytes before and behind", 2, refused);
    Ok(rows)
}
