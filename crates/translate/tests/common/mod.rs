// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random lives of address spaces, and the check that hardware says what the page tables say.
//! Shared by the shrinking tests (`equivalence`) and the seeded ones (`orders`).

use ample_translate::PageSize::{K4, M2};
use ample_translate::*;

/// Something that happens.
#[derive(Clone, Debug)]
pub enum Event {
    Map(u8, bool),
    Unmap(u16),
    Protect(u16, bool),
    Perforate(u8),
    Punch(u16, bool),
    Patch(u16),
    Close(u8),
    Split(u8),
    Promote(u8),
    Cow(u16),
    Segment(u8, u8),
    Shrink(u8),
    Switch(u8),
    /// The hardware forgets everything, or one address space.
    Flush(bool),
    /// The host punches a hole under a guest page, or patches it.
    Host(u16, bool),
    Access(Vec<(u16, u8)>),
}

/// The address space under test: this many 2 MB blocks.
const BLOCKS: u64 = 6;
const BASE: u64 = 0x10_0000_0000;

/// Guest memory: small, so that it runs out now and then, and a host is made fast.
const MEMORY: u64 = 64 << 20;

/// An engine with its host's frames.
pub struct Machine {
    pub engine: Engine,
    host_frames: IdealFrames,
}

fn page(number: u16) -> u64 {
    // Mostly a few pages a block, so that events and accesses meet.
    let block = u64::from(number) % BLOCKS;
    let inside = (u64::from(number) / BLOCKS) % 24 * 21;
    BASE + (block << 21) + (inside << 12)
}

fn block(number: u8) -> u64 {
    BASE + ((u64::from(number) % BLOCKS) << 21)
}

/// Applies an event; requests that make no sense in the current state are refused by the model
/// and must leave it unchanged.
fn apply(machine: &mut Machine, event: &Event, segments: bool) {
    let engine = &mut machine.engine;
    match *event {
        Event::Switch(n) => {
            let count = engine.spaces.len();
            engine.switch_to(n as usize % count);
            return;
        }
        Event::Map(b, large) => {
            let size = if large { M2 } else { K4 };
            let _ = engine.premap(block(b), 2 << 20, size);
            return;
        }
        Event::Flush(all) => {
            let asid = engine.space().asid;
            return engine.mmu.flush((!all).then_some(asid));
        }
        Event::Host(p, punch) => return host_event(machine, page(p), punch),
        _ => {}
    }
    let (space, frames) = engine.space_and_frames();
    match *event {
        Event::Unmap(p) => drop(space.unmap(page(p), true, frames)),
        Event::Protect(p, w) => {
            let (clear, set) = if w {
                (0, bits::WRITE)
            } else {
                (bits::WRITE, 0)
            };
            drop(space.protect(page(p), clear, set));
        }
        Event::Perforate(b) => drop(space.perforate(block(b), frames)),
        Event::Punch(p, mapped) => {
            let frame = if mapped { frames.alloc(0) } else { None };
            let replacement = frame.map(|f| (f, USER_RW));
            if space.punch(page(p), replacement).is_err()
                && let Some(f) = frame
            {
                frames.free(f, 0);
            }
        }
        Event::Patch(p) => drop(space.patch(page(p))),
        Event::Close(b) => drop(space.close_perforated(block(b), frames)),
        Event::Split(b) => drop(space.split(block(b), frames)),
        Event::Promote(b) => drop(space.promote(block(b), frames)),
        Event::Cow(p) => drop(space.protect(page(p), bits::WRITE, bits::COW)),
        Event::Segment(b, n) if segments && space.segment.is_none() => {
            let bytes = (u64::from(n) % 3 + 1) << 21;
            let end = BASE + (BLOCKS << 21);
            let bytes = bytes.min(end - block(b));
            if let Some(pfn) = frames.alloc_run(bytes >> 12) {
                drop(space.set_segment(block(b), bytes, pfn, frames));
            }
        }
        Event::Shrink(n) if segments => {
            if let Some(segment) = space.segment {
                let limit = segment.base + segment.bytes() * u64::from(n % 4) / 4 / 4096 * 4096;
                drop(space.shrink_segment(limit, frames));
            }
        }
        _ => {}
    }
}

/// The host takes the frame under a guest page away, or gives it back.
fn host_event(machine: &mut Machine, va: u64, punch: bool) {
    let Some(guest_pa) = machine.engine.space().lookup(va).map(|m| m.pa & !0xfff) else {
        return;
    };
    let Some(host) = &mut machine.engine.host else {
        return;
    };
    if punch {
        if let Some(frame) = machine.host_frames.alloc(0)
            && host.space.punch(guest_pa, Some((frame, USER_RW))).is_err()
        {
            machine.host_frames.free(frame, 0);
        }
    } else {
        drop(host.space.patch(guest_pa));
    }
}

/// Makes accesses and compares with the page tables.
fn check(engine: &mut Engine, accesses: &[(u16, u8)]) -> Result<(), String> {
    for &(p, what) in accesses {
        let va = page(p) + u64::from(p) % 4096;
        let intent = [Intent::Read, Intent::Write, Intent::Fetch][what as usize % 3];
        let answer = engine.translate(va, intent, 0, &mut NoMemory);
        let mapping = engine.space().lookup(va);
        let allowed = mapping.filter(|m| match intent {
            Intent::Read => true,
            Intent::Write => m.flags & bits::WRITE != 0,
            Intent::Fetch => m.flags & bits::NO_EXECUTE == 0,
        });
        let expected = allowed.map(|m| match &engine.host {
            Some(host) => host.lookup(m.pa).expect("all guest memory is backed"),
            None => m.pa,
        });
        let got = answer.ok().map(|a| a.pa);
        if got != expected {
            return Err(format!(
                "{va:#x} {intent:?}: {got:x?} instead of {expected:x?}"
            ));
        }
        if let (Some(m), Intent::Write) = (mapping, intent)
            && m.flags & bits::WRITE != 0
            && m.flags & bits::DIRTY == 0
        {
            return Err(format!("{va:#x} written and not dirty"));
        }
    }
    Ok(())
}

/// A preset with small arrays, so that evictions happen as well as hits.
pub fn small(name: &str) -> MmuConfig {
    let mut config = presets::by_name(name).unwrap();
    let l1 = config.l1d.iter_mut().chain(&mut config.l1i);
    for array in l1.chain(&mut config.l2) {
        array.geometry = Geometry::new(array.geometry.entries.min(16), 4);
    }
    config
}

/// The host of a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// 2 MB pages, perforated pages with holes and 4 KB pages in turns.
    Mixed,
    /// 2 MB and 4 KB pages: for hardware that does not know perforated ones.
    Plain,
    /// One segment.
    Segment,
}

fn host(kind: HostKind, frames: &mut IdealFrames) -> Space {
    let mut space = Space::new(0, 4, frames).unwrap();
    if kind == HostKind::Segment {
        let pfn = frames.alloc_run(MEMORY >> 12).unwrap();
        space.set_segment(0, MEMORY, pfn, frames).unwrap();
    }
    for (i, gpa) in (0..MEMORY).step_by(2 << 20).enumerate() {
        let perforated = kind == HostKind::Mixed && matches!(i % 4, 1 | 2);
        if kind == HostKind::Segment {
            break;
        } else if perforated {
            let block = frames.alloc(9).unwrap();
            let holes = [1 << 5 | 1 << 21, 0, 0, 1 << 42, 0, 0, 0, 0];
            space
                .map_perforated(gpa, block, holes, USER_RW, frames)
                .unwrap();
            for at in [5u64, 21, 3 * 64 + 42] {
                let frame = frames.alloc(0).unwrap();
                let place = gpa + (at << 12);
                space.punch(place, Some((frame, USER_RW))).unwrap();
            }
        } else if i % 4 == 3 {
            for at in 0..512 {
                let pfn = frames.alloc(0).unwrap();
                let place = gpa + (at << 12);
                space.map(place, K4, pfn, USER_RW, frames).unwrap();
            }
        } else {
            let block = frames.alloc(9).unwrap();
            space.map(gpa, M2, block, USER_RW, frames).unwrap();
        }
    }
    space.pending.clear();
    space
}

/// A machine with two empty address spaces.
pub fn machine(name: &str, config: &MmuConfig, virtualised: Option<HostKind>) -> Machine {
    let scheme = schemes::by_name(name).unwrap();
    let frames = Box::new(IdealFrames::new(MEMORY));
    let mut engine = Engine::new(config, scheme, frames, 1).unwrap();
    engine.add_space().unwrap();
    let mut host_frames = IdealFrames::new(1 << 32);
    if let Some(kind) = virtualised {
        let space = host(kind, &mut host_frames);
        engine.host = Some(Host::new(space, config, 1).unwrap());
    }
    Machine {
        engine,
        host_frames,
    }
}

/// Lets a machine live through `events`.
pub fn live(name: &str, machine: &mut Machine, events: &[Event]) -> Result<(), String> {
    for event in events {
        match event {
            Event::Access(accesses) => {
                machine.engine.sync();
                check(&mut machine.engine, accesses)?;
            }
            // Only the perforated scheme's hardware understands the PP bit.
            Event::Perforate(_) | Event::Punch(..) | Event::Patch(_) | Event::Host(..)
                if !name.starts_with("perforated") => {}
            other => apply(machine, other, name == "segment"),
        }
    }
    machine.engine.spaces.iter().for_each(Space::assert_sound);
    if let Some(host) = &machine.engine.host {
        host.space.assert_sound();
    }
    Ok(())
}
