// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever happens to an address space, in whatever order, every scheme translates to what the
//! page table says, natively and on a virtual machine.

use ample_translate::PageSize::{K4, M2};
use ample_translate::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
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
    Access(Vec<(u16, u8)>),
}

/// The address space under test: this many 2 MB blocks.
const BLOCKS: u64 = 6;
const BASE: u64 = 0x10_0000_0000;

fn page(number: u16) -> u64 {
    // Mostly a few pages a block, so that events and accesses meet.
    let block = u64::from(number) % BLOCKS;
    let inside = (u64::from(number) / BLOCKS) % 24 * 21;
    BASE + (block << 21) + (inside << 12)
}

fn block(number: u8) -> u64 {
    BASE + ((u64::from(number) % BLOCKS) << 21)
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (any::<u8>(), any::<bool>()).prop_map(|(b, large)| Event::Map(b, large)),
        1 => any::<u16>().prop_map(Event::Unmap),
        1 => (any::<u16>(), any::<bool>()).prop_map(|(p, w)| Event::Protect(p, w)),
        2 => any::<u8>().prop_map(Event::Perforate),
        4 => (any::<u16>(), any::<bool>()).prop_map(|(p, m)| Event::Punch(p, m)),
        2 => any::<u16>().prop_map(Event::Patch),
        1 => any::<u8>().prop_map(Event::Close),
        1 => any::<u8>().prop_map(Event::Split),
        1 => any::<u8>().prop_map(Event::Promote),
        1 => any::<u16>().prop_map(Event::Cow),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(b, n)| Event::Segment(b, n)),
        1 => any::<u8>().prop_map(Event::Shrink),
        1 => any::<u8>().prop_map(Event::Switch),
        8 => proptest::collection::vec((any::<u16>(), 0u8..3), 1..40).prop_map(Event::Access),
    ]
}

/// Applies an event; requests that make no sense in the current state are refused by the model
/// and must leave it unchanged.
fn apply(engine: &mut Engine, event: &Event, segments: bool) {
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

fn check(engine: &mut Engine, accesses: &[(u16, u8)]) -> Result<(), TestCaseError> {
    for &(p, what) in accesses {
        let va = page(p) + u64::from(p) % 4096;
        let intent = [Intent::Read, Intent::Write, Intent::Fetch][what as usize];
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
        prop_assert_eq!(
            answer.ok().map(|a| a.pa),
            expected,
            "{:#x} {:?}",
            va,
            intent
        );
        if let (Some(m), Intent::Write) = (mapping, intent)
            && m.flags & bits::WRITE != 0
        {
            prop_assert!(
                m.flags & bits::DIRTY != 0,
                "{:#x} written and not dirty",
                va
            );
        }
    }
    Ok(())
}

fn small(name: &str) -> MmuConfig {
    let mut config = presets::by_name(name).unwrap();
    for array in config
        .l1d
        .iter_mut()
        .chain(&mut config.l1i)
        .chain(&mut config.l2)
    {
        // Small arrays, so that evictions happen as well as hits.
        array.geometry = Geometry::new(array.geometry.entries.min(16), 4);
    }
    config
}

fn machine(name: &str, config: &MmuConfig, virtualised: bool) -> Engine {
    let scheme = scheme::by_name(name).unwrap();
    let memory = 512u64 << 20;
    let frames = Box::new(IdealFrames::new(memory));
    let mut engine = Engine::new(config, scheme, frames, 1).unwrap();
    engine.add_space().unwrap();
    if virtualised {
        let mut frames = IdealFrames::new(1 << 36);
        let mut space = Space::new(0, 4, &mut frames).unwrap();
        for (i, gpa) in (0..memory).step_by(2 << 20).enumerate() {
            let block = frames.alloc(9).unwrap();
            match i % 4 {
                0 => space.map(gpa, M2, block, USER_RW, &mut frames).unwrap(),
                1 | 2 => {
                    let holes = [1 << 5 | 1 << 21, 0, 0, 1 << 42, 0, 0, 0, 0];
                    space
                        .map_perforated(gpa, block, holes, USER_RW, &mut frames)
                        .unwrap();
                    for at in [5u64, 21, 3 * 64 + 42] {
                        let frame = frames.alloc(0).unwrap();
                        space
                            .punch(gpa + (at << 12), Some((frame, USER_RW)))
                            .unwrap();
                    }
                }
                _ => {
                    for at in 0..512 {
                        let pfn = frames.alloc(0).unwrap();
                        space
                            .map(gpa + (at << 12), K4, pfn, USER_RW, &mut frames)
                            .unwrap();
                    }
                }
            }
        }
        space.pending.clear();
        engine.host = Some(Host::new(space, config).unwrap());
    }
    engine
}

fn run(name: &str, preset: &str, virtualised: bool, events: &[Event]) -> Result<(), TestCaseError> {
    let config = small(preset);
    let mut engine = machine(name, &config, virtualised);
    let perforated = name == "perforated";
    for event in events {
        match event {
            Event::Access(accesses) => {
                engine.sync();
                check(&mut engine, accesses)?;
            }
            // Only the perforated scheme's hardware understands the PP bit.
            Event::Perforate(_) | Event::Punch(..) | Event::Patch(_) if !perforated => {}
            other => apply(&mut engine, other, name == "segment"),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_scheme_equals_the_page_table(events in proptest::collection::vec(event(), 1..120)) {
        for entry in scheme::REGISTRY {
            run(entry.name, "skylake", false, &events)?;
            run(entry.name, "zen4", false, &events)?;
        }
    }

    #[test]
    fn nested_translation_equals_both_tables(events in proptest::collection::vec(event(), 1..80)) {
        for entry in scheme::REGISTRY {
            if entry.name == "perforated" {
                run(entry.name, "skylake", true, &events)?;
            }
        }
    }

    #[test]
    fn without_pcid_a_switch_flushes(events in proptest::collection::vec(event(), 1..60)) {
        let config = MmuConfig { pcid: false, ..small("skylake") };
        let mut engine = machine("perforated", &config, false);
        for event in &events {
            match event {
                Event::Access(accesses) => {
                    engine.sync();
                    check(&mut engine, accesses)?;
                }
                other => apply(&mut engine, other, false),
            }
        }
    }
}
