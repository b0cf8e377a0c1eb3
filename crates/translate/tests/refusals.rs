// SPDX-License-Identifier: MIT OR Apache-2.0
//! A request that is refused changes nothing: no page is lost, no frame leaks.

use ample_translate::PageSize::{G1, K4, M2};
use ample_translate::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BASE: u64 = 1 << 30;

/// Memory that has only so many frames left, whatever it is asked for. What is given back counts.
struct Scarce {
    memory: IdealFrames,
    left: Arc<AtomicU64>,
}

impl FrameSource for Scarce {
    fn alloc(&mut self, order: u32) -> Option<u64> {
        let left = self.left.load(Ordering::Relaxed).checked_sub(1 << order)?;
        let block = self.memory.alloc(order)?;
        self.left.store(left, Ordering::Relaxed);
        Some(block)
    }

    fn free(&mut self, pfn: u64, order: u32) {
        self.left.fetch_add(1 << order, Ordering::Relaxed);
        self.memory.free(pfn, order);
    }

    fn free_frames(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    fn alloc_run(&mut self, frames: u64) -> Option<u64> {
        self.memory.alloc_run(frames)
    }

    fn longest_run(&self) -> u64 {
        self.memory.longest_run()
    }
}

/// An engine, and the number of frames that it can still take.
fn engine() -> (Engine, Arc<AtomicU64>) {
    let left = Arc::new(AtomicU64::new(u64::MAX >> 1));
    let frames = Scarce {
        memory: IdealFrames::new(8 << 30),
        left: left.clone(),
    };
    let config = presets::by_name("skylake").unwrap();
    let engine = Engine::new(&config, schemes::paging(), Box::new(frames), 1).unwrap();
    (engine, left)
}

#[test]
fn a_page_that_cannot_be_split_stays() {
    let (mut engine, left) = engine();
    engine.premap(BASE, M2.bytes(), M2).unwrap();
    let before = engine.space().lookup(BASE);
    left.store(0, Ordering::Relaxed);
    assert!(engine.split(BASE).is_err());
    assert_eq!(engine.space().lookup(BASE), before);
    assert_eq!(left.load(Ordering::Relaxed), 0);
    engine.space().assert_sound();
    left.store(1, Ordering::Relaxed);
    engine.split(BASE).unwrap();
    let after = engine.space().lookup(BASE).unwrap();
    assert_eq!((after.pa, after.size), (before.unwrap().pa, K4));
    engine.space().assert_sound();
}

#[test]
fn a_segment_that_would_cut_a_page_unmaps_none() {
    let (mut engine, left) = engine();
    engine.premap(BASE, M2.bytes(), K4).unwrap();
    engine.premap(BASE + M2.bytes(), M2.bytes(), M2).unwrap();
    let free = left.load(Ordering::Relaxed);
    let (space, frames) = engine.space_and_frames();
    let half = M2.bytes() + M2.bytes() / 2;
    assert!(space.set_segment(BASE, half, 0, frames).is_err());
    assert!(space.lookup(BASE).is_some());
    assert_eq!(left.load(Ordering::Relaxed), free);
}

#[test]
fn a_write_that_no_copy_can_help_takes_no_frame() {
    let (mut engine, left) = engine();
    let (space, frames) = engine.space_and_frames();
    let block = frames.alloc(G1.order()).unwrap();
    let shared = USER_RW & !bits::WRITE | bits::COW;
    space.map(BASE, G1, block, shared, frames).unwrap();
    let free = left.load(Ordering::Relaxed);
    let answer = engine.translate(BASE, Intent::Write, 0, &mut NoMemory);
    assert_eq!(answer.unwrap_err().fault, Fault::Protection);
    assert_eq!(left.load(Ordering::Relaxed), free);
}

#[test]
fn memory_that_ends_in_the_middle_of_a_request_is_given_back() {
    let (mut engine, left) = engine();
    // A frame for the page and too few for the three nodes of the table above it.
    for frames in 1..=3 {
        left.store(frames, Ordering::Relaxed);
        assert!(engine.premap(BASE, K4.bytes(), K4).is_err());
        assert_eq!(left.load(Ordering::Relaxed), frames);
        engine.space().assert_sound();
    }
    engine.vmas[0].push(Vma {
        base: BASE,
        end: BASE + M2.bytes(),
        flags: USER_RW,
        largest: K4,
    });
    let answer = engine.translate(BASE, Intent::Read, 0, &mut NoMemory);
    assert_eq!(answer.unwrap_err().fault, Fault::NotPresent);
    assert_eq!(left.load(Ordering::Relaxed), 3);
}
