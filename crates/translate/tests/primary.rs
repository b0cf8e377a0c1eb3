// SPDX-License-Identifier: MIT OR Apache-2.0
//! Primary regions through their lives, and what the events of an operating system cost.

use ample_translate::*;
use proptest::prelude::*;
use std::collections::HashSet;

const BASE: u64 = 0x10_0000_0000;

fn engine(frames: Box<dyn FrameSource>) -> Engine {
    let segment = schemes::by_name("segment").unwrap();
    Engine::new(&presets::by_name("skylake").unwrap(), segment, frames, 1).unwrap()
}

fn anonymous(bytes: u64, wish: Option<bool>) -> SegmentRequest {
    SegmentRequest {
        bytes,
        anonymous: true,
        read_write: true,
        wish,
    }
}

#[test]
fn requests_opt_in_and_opt_out() {
    for (admission, silent) in [(Admission::OptIn, false), (Admission::OptOut, true)] {
        let mut primary = Primary::new(BASE, 1 << 20, admission);
        assert_eq!(primary.admits(&anonymous(1, None)), silent);
        assert!(primary.admits(&anonymous(1, Some(true))));
        assert!(!primary.admits(&anonymous(1, Some(false))));
        let file = SegmentRequest {
            anonymous: false,
            ..anonymous(1, Some(true))
        };
        let read_only = SegmentRequest {
            read_write: false,
            ..anonymous(1, Some(true))
        };
        assert!(!primary.admits(&file) && !primary.admits(&read_only));
        let first = primary.allocate(&anonymous(5000, Some(true)));
        assert_eq!(first, Some(BASE..BASE + 8192));
        assert_eq!(primary.allocate(&anonymous(1 << 20, Some(true))), None);
        assert_eq!(primary.used(), BASE..BASE + 8192);
    }
}

/// Every page of the region translates as the tables say, and no frame serves two.
fn check(engine: &mut Engine, primary: &Primary) {
    let mut frames = HashSet::new();
    for va in primary.used().step_by(4096) {
        let expected = engine.space().lookup(va).map(|m| m.pa);
        let answer = engine.translate(va, Intent::Write, 0, &mut NoMemory);
        assert_eq!(answer.ok().map(|a| a.pa), expected, "{va:#x}");
        if let Some(pa) = expected {
            assert!(frames.insert(pa), "two pages at {pa:#x}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_region_is_provisioned_grown_and_reverted(
        spots in proptest::collection::vec((0usize..4096, 1usize..300), 0..20),
        pages in 1u64..900,
        freed in proptest::collection::vec(0u64..4096, 0..200),
        cut in 0u64..900,
        more in 1u64..200,
    ) {
        let mut frames = vec![FrameUse::Free; 4096];
        for (start, length) in &spots {
            let end = (start + length).min(frames.len());
            frames[*start..end].fill(FrameUse::Unmovable);
        }
        let unmovable = frames.clone();
        let mut engine = engine(Box::new(ClassFrames::new(frames, false)));
        let mut primary = Primary::new(BASE, 1 << 30, Admission::OptOut);
        let range = primary.allocate(&anonymous(pages << 12, None)).unwrap();
        // Half of it has been touched before there is a segment.
        for va in range.clone().step_by(8192) {
            if engine.premap(va, 4096, PageSize::K4).is_err() {
                return Ok(());
            }
        }
        let mapped = range.step_by(8192).count() as u64;
        let (_, source) = engine.space_and_frames();
        let largest = source.longest_run() * 4096;
        let made = primary.provision(&mut engine).unwrap();
        prop_assert_eq!(made.segment_bytes, largest.min(pages << 12));
        prop_assert!(made.copied_pages <= mapped);
        check(&mut engine, &primary);
        // Memory appears, the program grows, the segment follows as far as it can.
        for pfn in freed {
            let (_, source) = engine.space_and_frames();
            if unmovable[pfn as usize] == FrameUse::Unmovable {
                // Once each: a frame given out since is not free for us to give.
                if !source.alloc_at(pfn) {
                    source.free(pfn, 0);
                }
            }
        }
        primary.allocate(&anonymous(more << 12, None)).unwrap();
        let grown = primary.provision(&mut engine).unwrap();
        prop_assert!(grown.segment_bytes >= made.segment_bytes);
        check(&mut engine, &primary);
        if grown.segment_bytes == 0 {
            return Ok(());
        }
        // Memory is short: back to paging, in part or whole, on the same frames.
        let limit = BASE + (cut % (grown.segment_bytes >> 12)) * 4096;
        let before: Vec<_> = primary.used().step_by(4096)
            .map(|va| engine.space().lookup(va).map(|m| m.pa)).collect();
        if primary.revert(&mut engine, limit).is_err() {
            // No frame left for a page table.
            return Ok(());
        }
        let after: Vec<_> = primary.used().step_by(4096)
            .map(|va| engine.space().lookup(va).map(|m| m.pa)).collect();
        prop_assert_eq!(before, after);
        check(&mut engine, &primary);
        let left = engine.space().segment.map_or(0, |s| s.bytes());
        prop_assert_eq!(left, limit - BASE);
    }
}

#[test]
fn a_segment_larger_than_memory_takes_what_there_is() {
    let mut engine = engine(Box::new(ClassFrames::new(vec![FrameUse::Free; 64], false)));
    let mut primary = Primary::new(BASE, 1 << 30, Admission::OptOut);
    primary.allocate(&anonymous(1 << 20, None)).unwrap();
    let (_, frames) = engine.space_and_frames();
    let longest = frames.longest_run() << 12;
    let made = primary.provision(&mut engine).unwrap();
    assert_eq!((made.segment_bytes, made.copied_pages), (longest, 0));
}

#[test]
fn events_cost_what_they_say() {
    let mut engine = engine(Box::new(IdealFrames::new(1 << 30)));
    let config = presets::by_name("skylake").unwrap();
    let costs = engine.costs;
    engine.remote_cores = 3;
    engine.premap(BASE, 4 << 20, PageSize::K4).unwrap();
    let mut last = engine.os_cycles;
    let mut since = |engine: &Engine| {
        let spent = engine.os_cycles - last;
        last = engine.os_cycles;
        spent
    };
    assert_eq!(engine.unmap_range(&(BASE..BASE + 8192)).unwrap(), 2);
    assert_eq!(since(&engine), config.shootdown_cycles(2, 3));
    assert_eq!(engine.promote(BASE), Ok(false));
    assert_eq!(engine.promote(BASE + (2 << 20)), Ok(true));
    let flush = config.shootdown_cycles(u64::MAX, 3);
    assert_eq!(since(&engine), u64::from(costs.promote_cycles) + flush);
    // A 2 MB page across the border of what goes is split.
    let border = BASE + (3 << 20);
    assert_eq!(
        engine.unmap_range(&(border..border + (1 << 30))).unwrap(),
        256
    );
    let split = u64::from(costs.split_cycles) + config.shootdown_cycles(1, 3);
    assert_eq!(since(&engine), split + flush);
    assert!(engine.space().lookup(border).is_none());
    assert!(engine.space().lookup(border - 1).is_some());
    let rest = BASE + 8192..BASE + (1 << 31);
    assert_eq!(
        engine.protect_range(&rest, bits::WRITE, 0).unwrap(),
        510 + 256
    );
    let answer = engine.translate(BASE + 8192, Intent::Write, 0, &mut NoMemory);
    assert!(answer.is_err(), "read-only now");
    assert!(
        engine
            .translate(BASE, Intent::Read, 0, &mut NoMemory)
            .is_err()
    );
}
