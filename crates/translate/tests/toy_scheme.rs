// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executes the guide "Adding a scheme" of docs/translation.md.

mod victim;

use ample_translate::schemes::{SchemeEntry, SchemeParameter};
use ample_translate::*;

#[rustfmt::skip]
const REGISTRY: &[SchemeEntry] = &[
    SchemeEntry {
        name: "victim",
        what: "a victim buffer behind the L2 TLB",
        parameters: &[SchemeParameter {
            name: "entries",
            what: "walks whose results it keeps",
            default: 8,
            range: 1..=1024,
        }],
        make: |values| victim::victim(values.get("entries")),
    },
];

/// The code blocks of the guide are the code that the test below runs.
#[test]
fn the_guide_shows_this_code() {
    let guide = include_str!("../../../docs/translation.md");
    let (_, section) = guide.split_once("## Adding a scheme\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks: Vec<&str> = section
        .split("```rust\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let [scheme, registration] = blocks.as_slice() else {
        panic!("{} blocks of code in the guide", blocks.len());
    };
    assert!(include_str!("victim/mod.rs").ends_with(scheme), "{scheme}");
    assert!(
        include_str!("toy_scheme.rs").contains(registration),
        "{registration}"
    );
}

#[test]
fn the_toy_scheme_saves_walks_and_stays_correct() {
    let config = MmuConfig {
        l1d: vec![TlbArray::new(&[PageSize::K4], Geometry::full(4))],
        l2: vec![],
        ..presets::by_name("skylake").unwrap()
    };
    let frames = Box::new(IdealFrames::new(64 << 20));
    let scheme = (REGISTRY[0].make)(&REGISTRY[0].defaults());
    assert_eq!(scheme.name(), REGISTRY[0].name);
    let mut engine = Engine::new(&config, scheme, frames, 1).unwrap();
    engine.premap(1 << 30, 8 << 12, PageSize::K4).unwrap();
    for round in 0..10u64 {
        for page in 0..8u64 {
            let va = (1 << 30) + (page << 12) + round;
            let pa = engine
                .translate(va, Intent::Read, 0, &mut NoMemory)
                .unwrap()
                .pa;
            assert_eq!(pa, engine.space().lookup(va).unwrap().pa);
        }
    }
    // Eight pages in a cycle never hit four entries, but do hit the eight of the buffer.
    assert_eq!(engine.mmu.stats.walks_data, 8);
    assert_eq!(engine.mmu.stats.scheme_hits, 72);
    assert_eq!(engine.mmu.stats.scheme.get("victims_dropped"), 0);
    let (space, frames) = engine.space_and_frames();
    space.unmap(1 << 30, true, frames).unwrap();
    engine.sync();
    assert!(
        engine
            .translate(1 << 30, Intent::Read, 0, &mut NoMemory)
            .is_err()
    );
}
