// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perforated Pages: speed on fragmented memory against 4 KB pages, conventional 2 MB + 4 KB,
//! GTSM and ideal 2 MB allocation, over the share of fragmented regions, the share of holes, how
//! they lie, whether they are used, native and virtualised.

use super::program;
use crate::config::MachineConfig;
use crate::setup::{Length, Measured, Redirect, anonymous_range, map_rest, measure_redirected};
use ample_trace::rng::{Rng, mix64};
use ample_trace::{Access, Region};
use ample_translate::{
    Engine, FrameSource, FrameUse, HoleMap, Host, IdealFrames, PageSize, Space, USER_RW, scheme,
};
use anyhow::{Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

const M2: u64 = 2 << 20;

/// Parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// Machine preset.
    pub machine: String,
    /// Programs.
    pub programs: Vec<String>,
    /// Scale of the programs (GUPS: always `gups_bytes`).
    pub scale: String,
    /// Footprint of GUPS, bytes.
    pub gups_bytes: u64,
    /// Shares of 2 MB regions that are fragmented.
    pub fragmented_shares: Vec<f64>,
    /// Holes in a fragmented region.
    pub holes_per_region: Vec<u32>,
    /// Native, virtualised, or both.
    pub virtualised: Vec<bool>,
    /// Length of each run.
    pub length: Length,
    /// Seed.
    pub seed: u64,
}

/// How memory is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// 4 KB pages only.
    Small,
    /// 2 MB where a whole block is to be had, 4 KB elsewhere.
    Conventional,
    /// Gap-tolerant sequential mapping: a 2 MB page over 32 sound 64 KB chunks of a 4 MB block.
    Gtsm,
    /// Perforated pages.
    Perforated,
    /// 2 MB pages as if nothing were fragmented.
    Ideal,
}

/// Speeds at one point, instructions a cycle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Program.
    pub program: String,
    /// Share of 2 MB regions with holes.
    pub fragmented_share: f64,
    /// Holes in each of them (mean, for real fragmentation).
    pub holes_per_region: f64,
    /// Holes side by side (else spread uniformly).
    pub clustered: bool,
    /// Holes are mapped elsewhere and used (else never allocated).
    pub used: bool,
    /// On a virtual machine whose host is fragmented the same way.
    pub virtualised: bool,
    /// 4 KB pages only.
    pub ipc_small: f64,
    /// 2 MB + 4 KB.
    pub ipc_conventional: f64,
    /// GTSM.
    pub ipc_gtsm: f64,
    /// Perforated pages.
    pub ipc_perforated: f64,
    /// Ideal 2 MB.
    pub ipc_ideal: f64,
    /// Perforated over ideal.
    pub of_ideal: f64,
    /// Perforated over conventional.
    pub over_conventional: f64,
    /// Bitmap look-ups in 1000 accesses under perforated pages.
    pub bitmap_lookups_per_kilo_access: f64,
    /// Bitmap loads in 1000 accesses.
    pub bitmap_loads_per_kilo_access: f64,
}

/// The sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// `ample.sim.perforated/1`.
    pub schema: &'static str,
    /// Machine preset.
    pub machine: String,
    /// Seed.
    pub seed: u64,
    /// Ended early.
    pub partial: bool,
    /// Points.
    pub points: Vec<Point>,
    /// Least and greatest `of_ideal` for clustered used holes, native.
    pub clustered_of_ideal: [f64; 2],
    /// Least `over_conventional` of all points.
    pub least_over_conventional: f64,
}

/// A state of fragmentation: holes of each 2 MB block of a range, and whether the pages at holes
/// are used.
#[derive(Clone, Debug)]
pub struct Fragmentation {
    /// Holes by block.
    pub blocks: Vec<HoleMap>,
    /// Holes are mapped elsewhere.
    pub used: bool,
}

impl Fragmentation {
    /// Random fragmentation of `blocks` blocks.
    pub fn random(
        blocks: usize,
        fragmented_share: f64,
        holes: u32,
        clustered: bool,
        used: bool,
        seed: u64,
    ) -> Self {
        let mut rng = Rng::new(seed ^ 0x0f4a6);
        let blocks = (0..blocks)
            .map(|_| {
                let mut map = [0u64; 8];
                if rng.unit() >= fragmented_share {
                    return map;
                }
                let holes = u64::from(holes.min(512));
                let mut set = |page: u64| map[page as usize / 64] |= 1 << (page % 64);
                if clustered {
                    let start = rng.below(513 - holes);
                    (start..start + holes).for_each(&mut set);
                } else {
                    let mut pages: Vec<u64> = (0..512).collect();
                    for i in 0..holes as usize {
                        let j = i + rng.below(512 - i as u64) as usize;
                        pages.swap(i, j);
                        set(pages[i]);
                    }
                }
                map
            })
            .collect();
        Fragmentation { blocks, used }
    }

    /// The fragmentation of real memory: blocks with the fewest missing frames first, as an
    /// allocator that can perforate would take them; `blocks` of them.
    ///
    /// # Errors
    /// If memory has too few blocks.
    pub fn of_frames(frames: &[FrameUse], compaction: bool, blocks: usize) -> Result<Self> {
        let missing = |f: FrameUse| match f {
            FrameUse::Free => false,
            FrameUse::Movable => !compaction,
            FrameUse::Unmovable => true,
        };
        let mut maps: Vec<HoleMap> = frames
            .chunks_exact(512)
            .map(|block| {
                let mut map = [0u64; 8];
                for (page, &f) in block.iter().enumerate() {
                    map[page / 64] |= u64::from(missing(f)) << (page % 64);
                }
                map
            })
            .collect();
        ensure!(
            maps.len() >= blocks,
            "memory of {} blocks of 2 MB cannot back {blocks}; use a smaller program",
            maps.len()
        );
        maps.sort_by_key(|map| map.iter().map(|g| g.count_ones()).sum::<u32>());
        maps.truncate(blocks);
        Ok(Fragmentation {
            blocks: maps,
            used: true,
        })
    }

    fn is_hole(&self, block: usize, page: usize) -> bool {
        self.blocks[block][page / 64] >> (page % 64) & 1 != 0
    }

    /// Moves an address at an unallocated hole to the next page that is none, so that such pages
    /// are never touched, whatever the mapping.
    pub fn avoid(&self, start: u64, va: u64) -> u64 {
        let block = (va.wrapping_sub(start) / M2) as usize;
        if va < start || block >= self.blocks.len() {
            return va;
        }
        let page = (va >> 12 & 511) as usize;
        let found = (0..512)
            .map(|i| (page + i) % 512)
            .find(|&p| !self.is_hole(block, p));
        found.map_or(va, |p| va & !(M2 - 1) | (p as u64) << 12 | va & 0xfff)
    }
}

/// Maps one block of memory under a policy. `whole`: the policy may use a large page here.
fn map_block(
    space: &mut Space,
    frames: &mut dyn FrameSource,
    va: u64,
    fragmentation: &Fragmentation,
    block: usize,
    large: bool,
    perforate: bool,
) -> Result<()> {
    let holes = fragmentation.blocks[block];
    if large {
        let pfn = frames.alloc(9).ok_or_else(|| frames.exhausted(9))?;
        space.map(va, PageSize::M2, pfn, USER_RW, frames)?;
        return Ok(());
    }
    if perforate {
        let pfn = frames.alloc(9).ok_or_else(|| frames.exhausted(9))?;
        space.map_perforated(va, pfn, holes, USER_RW, frames)?;
        for page in (0..512).filter(|&p| fragmentation.used && fragmentation.is_hole(block, p)) {
            let frame = frames.alloc(0).ok_or_else(|| frames.exhausted(0))?;
            space.punch(va + ((page as u64) << 12), Some((frame, USER_RW)))?;
        }
        return Ok(());
    }
    for page in 0..512 {
        if fragmentation.used || !fragmentation.is_hole(block, page) {
            let frame = frames.alloc(0).ok_or_else(|| frames.exhausted(0))?;
            space.map(
                va + ((page as u64) << 12),
                PageSize::K4,
                frame,
                USER_RW,
                frames,
            )?;
        }
    }
    Ok(())
}

/// Whether GTSM has a 2 MB page for the even block of a pair: 32 of the 64 chunks of 64 KB sound.
fn gtsm_pair(fragmentation: &Fragmentation, even: usize) -> bool {
    let chunks = |map: &HoleMap| -> u32 {
        map.iter()
            .map(|g| (0..4).filter(|c| g >> (16 * c) & 0xffff == 0).count() as u32)
            .sum()
    };
    let odd = fragmentation.blocks.get(even + 1);
    chunks(&fragmentation.blocks[even]) + odd.map_or(0, chunks) >= 32
}

/// Maps a range under a policy.
fn map_range(
    space: &mut Space,
    frames: &mut dyn FrameSource,
    start: u64,
    fragmentation: &Fragmentation,
    policy: Policy,
) -> Result<()> {
    for block in 0..fragmentation.blocks.len() {
        let sound = fragmentation.blocks[block] == [0; 8];
        let large = match policy {
            Policy::Small => false,
            Policy::Ideal => true,
            Policy::Conventional | Policy::Perforated => sound,
            Policy::Gtsm => sound || block % 2 == 0 && gtsm_pair(fragmentation, block),
        };
        let va = start + block as u64 * M2;
        let perforate = policy == Policy::Perforated;
        map_block(space, frames, va, fragmentation, block, large, perforate)?;
    }
    space.pending.clear();
    Ok(())
}

/// An engine with a program's memory mapped, natively or under a host fragmented the same way.
fn build(
    machine: &MachineConfig,
    regions: &[Region],
    fragmentation: &Fragmentation,
    policy: Policy,
    virtualised: bool,
) -> Result<Engine> {
    let name = if policy == Policy::Perforated {
        "perforated"
    } else {
        "paging"
    };
    let scheme = scheme::by_name(name).map_err(|e| anyhow!(e))?;
    let range = anonymous_range(regions);
    // Room for every page twice, and the small regions and page tables.
    let memory = ((range.end - range.start) * 2 + (1 << 30)).next_multiple_of(M2);
    let frames = Box::new(IdealFrames::new(memory));
    let units = u64::from(machine.core.width);
    let mut engine = Engine::new(&machine.mmu, scheme, frames, units).map_err(|e| anyhow!(e))?;
    map_rest(&mut engine, regions, false)?;
    let (space, frames) = engine.space_and_frames();
    map_range(space, frames, range.start, fragmentation, policy)?;
    if virtualised {
        let mut host_frames = IdealFrames::new(memory * 4);
        let mut host = Space::new(0, machine.mmu.levels, &mut host_frames)?;
        let blocks = (memory / M2) as usize;
        // The same state of memory in another order; the guest uses all it was given.
        let own = &fragmentation.blocks;
        let pick = |i: usize| own[mix64(i as u64 ^ 0x4057) as usize % own.len()];
        let host_fragmentation = Fragmentation {
            blocks: (0..blocks).map(pick).collect(),
            used: true,
        };
        map_range(&mut host, &mut host_frames, 0, &host_fragmentation, policy)?;
        engine.host = Some(Host::new(host, &machine.mmu).map_err(|e| anyhow!(e))?);
    }
    Ok(engine)
}

/// Runs one program under one policy.
fn one(
    machine: &MachineConfig,
    params: &Params,
    name: &str,
    fragmentation: &Fragmentation,
    policy: Policy,
    virtualised: bool,
) -> Result<Measured> {
    let mut program: Box<dyn ample_trace::Program> = match name {
        "gups" => Box::new(ample_trace::programs::Gups::new(
            params.gups_bytes,
            params.seed,
        )),
        _ => program(name, &params.scale, params.seed)?,
    };
    let engine = build(
        machine,
        program.regions(),
        fragmentation,
        policy,
        virtualised,
    )?;
    let start = anonymous_range(program.regions()).start;
    let avoid = |access: Access| Access {
        va: fragmentation.avoid(start, access.va),
        ..access
    };
    let redirect: Option<Redirect<'_>> = if fragmentation.used {
        None
    } else {
        Some(&avoid)
    };
    measure_redirected(machine, engine, program.as_mut(), &params.length, redirect)
}

/// Blocks that a program's anonymous memory takes.
fn blocks_of(params: &Params, name: &str) -> Result<usize> {
    let bytes = match name {
        "gups" => params.gups_bytes,
        _ => {
            let program = program(name, &params.scale, params.seed)?;
            let range = anonymous_range(program.regions());
            range.end - range.start
        }
    };
    Ok(bytes.div_ceil(M2) as usize)
}

/// The point of one state of fragmentation.
///
/// # Errors
/// If a run fails.
pub fn point(
    machine: &MachineConfig,
    params: &Params,
    name: &str,
    fragmentation: &Fragmentation,
    virtualised: bool,
) -> Result<Point> {
    let run = |policy| one(machine, params, name, fragmentation, policy, virtualised);
    let perforated = run(Policy::Perforated)?;
    let [small, conventional, gtsm, ideal] = [
        Policy::Small,
        Policy::Conventional,
        Policy::Gtsm,
        Policy::Ideal,
    ]
    .map(|policy| run(policy).map(|m| m.report.ipc));
    let (conventional, ideal) = (conventional?, ideal?);
    let ipc = perforated.report.ipc;
    let holes = |map: &HoleMap| map.iter().map(|g| f64::from(g.count_ones())).sum::<f64>();
    let fragmented: Vec<f64> = fragmentation
        .blocks
        .iter()
        .map(holes)
        .filter(|&h| h > 0.0)
        .collect();
    let per_kilo = |count: u64| 1000.0 * count as f64 / perforated.stats.accesses as f64;
    Ok(Point {
        program: name.to_owned(),
        fragmented_share: fragmented.len() as f64 / fragmentation.blocks.len() as f64,
        holes_per_region: fragmented.iter().sum::<f64>() / fragmented.len().max(1) as f64,
        clustered: false,
        used: fragmentation.used,
        virtualised,
        ipc_small: small?,
        ipc_conventional: conventional,
        ipc_gtsm: gtsm?,
        ipc_perforated: ipc,
        ipc_ideal: ideal,
        of_ideal: ipc / ideal,
        over_conventional: ipc / conventional,
        bitmap_lookups_per_kilo_access: per_kilo(perforated.stats.bitmap_lookups),
        bitmap_loads_per_kilo_access: per_kilo(perforated.stats.bitmap_loads),
    })
}

/// The programs of `params` on real fragmentation: a scan, a snapshot or the server model gives
/// the use of each frame. `compaction`: movable frames may be emptied. Holes are used.
///
/// # Errors
/// If memory is too small for a program or a run fails.
pub fn run_on_frames(params: &Params, frames: &[FrameUse], compaction: bool) -> Result<Vec<Point>> {
    let machine = MachineConfig::preset(&params.machine)?;
    let mut points = Vec::new();
    for name in &params.programs {
        let state = Fragmentation::of_frames(frames, compaction, blocks_of(params, name)?)?;
        for &virtualised in &params.virtualised {
            points.push(point(&machine, params, name, &state, virtualised)?);
        }
    }
    Ok(points)
}

/// Runs the sweep.
///
/// # Errors
/// If the parameters are wrong or a run fails.
pub fn run(params: &Params) -> Result<Sweep> {
    let machine = MachineConfig::preset(&params.machine)?;
    ensure!(
        params
            .holes_per_region
            .iter()
            .all(|&h| (1..=512).contains(&h)),
        "a 2 MB region has 1 to 512 holes, not {:?}",
        params.holes_per_region
    );
    let mut points = Vec::new();
    for name in &params.programs {
        let blocks = blocks_of(params, name)?;
        for &virtualised in &params.virtualised {
            for (clustered, used) in [(true, true), (false, true), (true, false), (false, false)] {
                for &share in &params.fragmented_shares {
                    for &holes in &params.holes_per_region {
                        if holes == 512 && !used {
                            continue;
                        }
                        let state = Fragmentation::random(
                            blocks,
                            share,
                            holes,
                            clustered,
                            used,
                            params.seed,
                        );
                        let point = point(&machine, params, name, &state, virtualised)?;
                        points.push(Point { clustered, ..point });
                    }
                }
            }
        }
    }
    let clustered = points
        .iter()
        .filter(|p| p.clustered && p.used && !p.virtualised);
    let clustered: Vec<f64> = clustered.map(|p| p.of_ideal).collect();
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = clustered.iter().copied().fold(0.0, f64::max);
    let over: Vec<f64> = points.iter().map(|p| p.over_conventional).collect();
    Ok(Sweep {
        schema: "ample.sim.perforated/1",
        machine: params.machine.clone(),
        seed: params.seed,
        partial: crate::setup::stop_requested(),
        clustered_of_ideal: [least(&clustered), most],
        least_over_conventional: least(&over),
        points,
    })
}
