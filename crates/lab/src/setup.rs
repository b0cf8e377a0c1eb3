// SPDX-License-Identifier: MIT OR Apache-2.0
//! One measured run: a program on a machine under a scheme, its memory mapped in a given way.

use crate::stop::{checkpoint, requested as stop_requested};
use ample_kit::random::mix64;
use ample_machine::MachineConfig;
use ample_machine::PrivateMemory;
use ample_machine::{TimedCore, TimedReport};
use ample_trace::{Access, AccessKind, Backing, Consumer, Program, Recorder, Region};
use ample_translate::{
    Engine, FrameSource, Host, IdealFrames, PageSize, Space, TranslationStats, USER_RW, bits,
    schemes,
};
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::HashSet;

/// How the anonymous memory of a program is mapped, as shares of its bytes. What is left of the
/// sum to 1 is 4 KB pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageMix {
    /// Share in 2 MB pages.
    pub share_2m: f64,
    /// Share in 1 GB pages.
    pub share_1g: f64,
    /// Whether code lies in 2 MB pages too.
    pub code_2m: bool,
}

impl PageMix {
    /// 4 KB pages only.
    pub const SMALL: PageMix = PageMix {
        share_2m: 0.0,
        share_1g: 0.0,
        code_2m: false,
    };

    /// Everything in pages of one size.
    pub fn only(size: PageSize) -> Self {
        match size {
            PageSize::K4 => Self::SMALL,
            PageSize::M2 => PageMix {
                share_2m: 1.0,
                ..Self::SMALL
            },
            PageSize::G1 => PageMix {
                share_1g: 1.0,
                ..Self::SMALL
            },
        }
    }

    /// The same without 1 GB pages: their memory is mapped as the rest is.
    pub fn without_1g(&self) -> Self {
        let rest = 1.0 - self.share_1g;
        PageMix {
            share_1g: 0.0,
            share_2m: if rest > 1e-9 {
                self.share_2m / rest
            } else {
                1.0
            },
            ..*self
        }
    }

    /// Checks that the shares are shares.
    ///
    /// # Errors
    /// If one is negative or their sum is above 1.
    pub fn check(&self) -> Result<()> {
        let sound = |share: f64| (0.0..=1.0).contains(&share);
        ensure!(
            sound(self.share_2m)
                && sound(self.share_1g)
                && self.share_2m + self.share_1g <= 1.0 + 1e-9,
            "a page mix of {} 2 MB and {} 1 GB is not a sum of shares up to 1",
            self.share_2m,
            self.share_1g
        );
        Ok(())
    }
}

/// The range that holds all anonymous regions (they lie side by side).
pub fn anonymous_range(regions: &[Region]) -> std::ops::Range<u64> {
    let anonymous = || regions.iter().filter(|r| r.backing == Backing::Anonymous);
    let start = anonymous().map(|r| r.base).min().unwrap_or(0);
    start..anonymous().map(Region::end).max().unwrap_or(0)
}

fn flags_of(backing: Backing) -> u64 {
    match backing {
        Backing::Code => bits::USER | bits::ACCESSED,
        _ => ample_translate::USER_RW,
    }
}

/// Maps everything that is not anonymous with 4 KB pages (code with 2 MB pages if asked).
///
/// # Errors
/// If memory runs out.
pub fn map_rest(engine: &mut Engine, regions: &[Region], code_2m: bool) -> Result<()> {
    for region in regions.iter().filter(|r| r.backing != Backing::Anonymous) {
        let large = code_2m && region.backing == Backing::Code;
        let size = if large { PageSize::M2 } else { PageSize::K4 };
        engine
            .premap_as(region.base, region.bytes, size, flags_of(region.backing))
            .with_context(|| format!("mapping {}", region.name))?;
    }
    Ok(())
}

/// Maps a program's regions with a mix of page sizes: 1 GB pages from the start, then each 2 MB
/// block large or small by a hash of its number, so that large pages are spread evenly.
///
/// # Errors
/// If memory runs out.
pub fn map_mix(engine: &mut Engine, regions: &[Region], mix: &PageMix) -> Result<()> {
    mix.check()?;
    map_rest(engine, regions, mix.code_2m)?;
    let range = anonymous_range(regions);
    let unit = if mix.share_1g > 0.0 {
        PageSize::G1
    } else {
        PageSize::M2
    };
    let end = range.end.next_multiple_of(unit.bytes());
    let huge = (mix.share_1g * ((end - range.start) >> 30) as f64).round() as u64;
    let mut va = range.start + (huge << 30);
    engine.premap(range.start, huge << 30, PageSize::G1)?;
    let rest = 1.0 - mix.share_1g;
    let threshold = if rest > 0.0 { mix.share_2m / rest } else { 0.0 };
    while va < end {
        checkpoint();
        let size = if unit_hash(va) < threshold {
            PageSize::M2
        } else {
            PageSize::K4
        };
        engine.premap(va, PageSize::M2.bytes(), size)?;
        va += PageSize::M2.bytes();
    }
    Ok(())
}

/// The pages of a host, as shares of guest memory; what is left of 1 is in 4 KB pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostPages {
    /// Share in 2 MB pages, spread evenly.
    pub share_2m: f64,
    /// All in 1 GB pages.
    pub huge_1g: bool,
}

impl HostPages {
    /// The size of the page that holds the 2 MB block at a guest address.
    fn size_at(&self, guest_pa: u64) -> PageSize {
        match self.huge_1g {
            true => PageSize::G1,
            false if unit_hash(guest_pa) < self.share_2m => PageSize::M2,
            false => PageSize::K4,
        }
    }
}

/// A hash of the 2 MB block of an address, from 0 up to 1.
fn unit_hash(address: u64) -> f64 {
    (mix64(address >> 21) >> 11) as f64 / (1u64 << 53) as f64
}

/// Makes the engine's memory that of a virtual machine: all of `machine.memory_bytes` backed by
/// pages of the host.
///
/// # Errors
/// If the share is none, or guest memory is not a whole number of GB.
pub fn back_with_host(
    engine: &mut Engine,
    machine: &MachineConfig,
    pages: &HostPages,
) -> Result<()> {
    let bytes = machine.memory_bytes;
    ensure!(
        (0.0..=1.0).contains(&pages.share_2m),
        "share_2m of the host is {}, but must be from 0 to 1",
        pages.share_2m
    );
    ensure!(
        bytes.is_multiple_of(PageSize::G1.bytes()),
        "{bytes} bytes of guest memory are no whole number of GB"
    );
    // Page tables of 4 KB pages take a 512th.
    let frames = IdealFrames::new(bytes + bytes / 256 + (1 << 30));
    let order = PageSize::M2.order();
    let all = (0..bytes >> 12).step_by(1 << order);
    let host = host_of(machine, pages, frames, all.map(|frame| (frame, order)))?;
    engine.host = Some(host);
    Ok(())
}

/// A host that maps these blocks of its guest's frames, each a first frame and an order, with its
/// pages.
///
/// # Errors
/// If its frames do not suffice.
pub fn host_of(
    machine: &MachineConfig,
    pages: &HostPages,
    mut frames: IdealFrames,
    used: impl Iterator<Item = (u64, u32)>,
) -> Result<Host> {
    let mut space = Space::new(0, machine.mmu.levels, &mut frames)?;
    let mut large = HashSet::new();
    for (first, order) in used {
        checkpoint();
        let (mut frame, end) = (first, first + (1 << order));
        while frame < end {
            let size = pages.size_at(frame << 12);
            let base = frame >> size.order() << size.order();
            // Several blocks may lie in one large page.
            if size == PageSize::K4 || large.insert(base) {
                let place = frames.alloc(size.order());
                let place = place.ok_or_else(|| frames.exhausted(size.order()))?;
                space.map(base << 12, size, place, USER_RW, &mut frames)?;
            }
            frame = base + (1 << size.order());
        }
    }
    space.pending.clear();
    let units = u64::from(machine.core.width);
    Host::new(space, &machine.mmu, units).map_err(|e| anyhow!(e))
}

/// Makes the engine's memory that of a virtual machine whose host maps all of it by one segment.
///
/// # Errors
/// If the segment cannot be set.
pub fn back_with_segment(engine: &mut Engine, machine: &MachineConfig) -> Result<()> {
    let bytes = machine.memory_bytes;
    let mut frames = IdealFrames::new(bytes + (1 << 30));
    let mut space = Space::new(0, machine.mmu.levels, &mut frames)?;
    let run = frames.alloc_run(bytes >> 12);
    let pfn = run.ok_or_else(|| frames.exhausted(0))?;
    space.set_segment(0, bytes, pfn, &mut frames)?;
    space.pending.clear();
    let units = u64::from(machine.core.width);
    engine.host = Some(Host::new(space, &machine.mmu, units).map_err(|e| anyhow!(e))?);
    Ok(())
}

/// Puts the anonymous memory of a program into a direct segment, the rest into 4 KB pages.
///
/// # Errors
/// If no run of frames is long enough.
pub fn map_segment(engine: &mut Engine, regions: &[Region]) -> Result<()> {
    map_rest(engine, regions, false)?;
    let range = anonymous_range(regions);
    map_segment_of(engine, range.start, range.end - range.start)
}

/// Puts `bytes` bytes from `base` into a direct segment; pages mapped there make room.
///
/// # Errors
/// If no run of frames is long enough.
pub fn map_segment_of(engine: &mut Engine, base: u64, bytes: u64) -> Result<()> {
    let (space, frames) = engine.space_and_frames();
    let pfn = frames.alloc_run(bytes >> 12).ok_or_else(|| {
        anyhow!(
            "no run of {bytes} bytes for the segment; the longest has {} frames",
            frames.longest_run()
        )
    })?;
    space.set_segment(base, bytes, pfn, frames)?;
    engine.sync();
    Ok(())
}

/// How long to run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Length {
    /// Accesses before counting starts.
    pub warm_up_accesses: u64,
    /// Accesses counted.
    pub accesses: u64,
}

/// What one run gave.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Cycles, instructions and stalls.
    pub report: TimedReport,
    /// Translation counters.
    pub stats: TranslationStats,
    /// Ended early on request.
    pub partial: bool,
}

impl Measured {
    /// Page walks for data in 1000 instructions.
    pub fn walks_per_kilo_instruction(&self) -> f64 {
        1000.0 * self.stats.walks_data as f64 / self.report.instructions as f64
    }
}

/// An engine of `machine` with the scheme of a name.
///
/// # Errors
/// If there is no such scheme or the hardware cannot be built.
pub fn engine(machine: &MachineConfig, scheme_name: &str) -> Result<Engine> {
    machine.engine(schemes::by_name(scheme_name).map_err(|e| anyhow!(e))?)
}

/// As [`engine`] for the guest of a virtual machine ([`MachineConfig::guest_engine`]).
///
/// # Errors
/// As above.
pub fn guest_engine(machine: &MachineConfig, scheme_name: &str) -> Result<Engine> {
    machine.guest_engine(schemes::by_name(scheme_name).map_err(|e| anyhow!(e))?)
}

/// Changes accesses of a program on their way to the core.
pub type Redirect<'a> = &'a dyn Fn(Access) -> Access;

/// Stretches the instructions between memory accesses by a factor: how a program's unknown
/// instruction mix is calibrated, on 4 KB pages and nothing else. What rounding leaves over goes to
/// the next access, so that the factor holds on the whole. Time still jumps where one turn less of
/// a loop whose turns are alike fits into the reorder buffer (of CG's at a factor of 7).
pub fn stretch(work: f64) -> impl Fn(Access) -> Access {
    let carried = Cell::new(0.0);
    move |access| {
        if access.kind == AccessKind::Fetch || access.joined {
            return access;
        }
        let wanted = f64::from(access.gap + 1) * work + carried.get();
        let given = wanted.round().clamp(1.0, 60_000.0);
        // Beyond the limits nothing is owed: no later access could make up for it.
        carried.set((wanted - given).clamp(-0.5, 0.5));
        Access {
            gap: given as u16 - 1,
            ..access
        }
    }
}

struct Feed<'a> {
    core: &'a mut TimedCore<PrivateMemory>,
    redirect: Option<Redirect<'a>>,
    block: Vec<Access>,
}

impl Consumer for Feed<'_> {
    fn consume(&mut self, block: &[Access]) -> bool {
        let Some(redirect) = self.redirect else {
            return self.core.consume(block) && !stop_requested();
        };
        self.block.clear();
        self.block
            .extend(block.iter().map(|&access| redirect(access)));
        self.core.consume(&self.block) && !stop_requested()
    }
}

fn run_part(
    core: &mut TimedCore<PrivateMemory>,
    program: &mut dyn Program,
    budget: u64,
    redirect: Option<Redirect<'_>>,
) -> Result<()> {
    let name = program.name().to_owned();
    let mut consumer = Feed {
        core,
        redirect,
        block: Vec::new(),
    };
    let mut recorder = Recorder::new(&mut consumer, budget);
    program.run(&mut recorder);
    recorder.flush();
    core.settle();
    match core.failed {
        Some((number, bad)) => bail!("{name}, access {number}: {bad}"),
        None => Ok(()),
    }
}

/// Runs a program on a core of `machine` around an engine with everything mapped.
///
/// # Errors
/// If an access cannot be translated.
pub fn measure(
    machine: &MachineConfig,
    engine: Engine,
    program: &mut dyn Program,
    length: &Length,
) -> Result<Measured> {
    measure_redirected(machine, engine, program, length, None)
}

/// As [`measure`], every access passed through `redirect` first. Walks are counted apart in the
/// range that the engine watches, without one in the program's anonymous memory.
///
/// # Errors
/// As [`measure`].
pub fn measure_redirected(
    machine: &MachineConfig,
    mut engine: Engine,
    program: &mut dyn Program,
    length: &Length,
    redirect: Option<Redirect<'_>>,
) -> Result<Measured> {
    if engine.mmu.watched.is_empty() {
        engine.mmu.watched = anonymous_range(program.regions());
    }
    let mut core = machine.core(engine)?;
    run_part(&mut core, program, length.warm_up_accesses, redirect)?;
    core.start_measuring();
    run_part(&mut core, program, length.accesses, redirect)?;
    let report = core.report();
    Ok(Measured {
        report,
        stats: core.engine.mmu.stats.clone(),
        partial: stop_requested(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretched_gaps_add_up() {
        for work in [1.0, 1.3, 2.5, 3.9, 9.49, 10.6] {
            let (stretched, gaps) = (stretch(work), [0u16, 3, 1, 0, 7, 0]);
            let instructions = |gap: u16| f64::from(gap + 1);
            let (mut asked, mut given) = (0.0, 0.0);
            for (at, &gap) in gaps.iter().cycle().take(6_000).enumerate() {
                let access = stretched(Access::load(8 * at as u64, gap));
                asked += instructions(gap) * work;
                given += instructions(access.gap);
                let apart = instructions(access.gap) - instructions(gap) * work;
                assert!(apart.abs() <= 1.0, "{apart} instructions in one gap");
                assert!(
                    (given - asked).abs() <= 0.5 + 1e-6,
                    "work {work}: {given} of {asked}"
                );
            }
        }
    }
}
