// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeded random lives of address spaces, by the ten thousand in every test run and by the million
//! with AMPLE_ORDERS (`make properties`): every scheme, every preset, four and five levels, with
//! and without PCID, native and on three kinds of host.

mod common;

use ample_kit::random::SplitMix64;
use ample_translate::{MmuConfig, presets, schemes};
use common::{Event, HostKind, live, machine, small};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Random numbers by remainder, as lives have been numbered from the start.
struct Random(SplitMix64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn event(&mut self) -> Event {
        let (a, b) = (self.next() as u16, self.next() as u8);
        let flag = b & 1 != 0;
        match self.below(32) {
            0..=3 => Event::Map(b, a & 1 != 0),
            4 => Event::Unmap(a),
            5 => Event::Protect(a, flag),
            6 | 7 => Event::Perforate(b),
            8..=11 => Event::Punch(a, flag),
            12 | 13 => Event::Patch(a),
            14 => Event::Close(b),
            15 => Event::Split(b),
            16 => Event::Promote(b),
            17 => Event::Cow(a),
            18 => Event::Segment(b, a as u8),
            19 => Event::Shrink(b),
            20 => Event::Switch(b),
            21 => Event::Flush(flag),
            22 | 23 => Event::Host(a, flag),
            _ => {
                let count = 1 + self.below(16);
                let access = |_| (self.next() as u16, self.next() as u8 % 3);
                Event::Access((0..count).map(access).collect())
            }
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// One life: everything about it follows from its number.
fn one(number: u64) -> Result<(), String> {
    let mut random = Random(SplitMix64::new(number.wrapping_mul(0xd134_2543_de82_ef95)));
    let name = schemes::REGISTRY[random.below(schemes::REGISTRY.len() as u64) as usize].name;
    let preset = presets::PRESETS[random.below(presets::PRESETS.len() as u64) as usize].0;
    // A host takes as long to make as a hundred events, so most lives are native.
    let host = match (random.below(8), name) {
        (0, name) if name.starts_with("perforated") => Some(HostKind::Mixed),
        (0, "segment") => Some(HostKind::Segment),
        (0 | 1, _) => Some(HostKind::Plain),
        _ => None,
    };
    let plain = small(preset);
    let config = MmuConfig {
        levels: [4, 5, plain.levels][random.below(3) as usize],
        pcid: random.below(4) != 0,
        prefetch_next: random.below(4) == 0,
        ..plain
    };
    let events: Vec<Event> = (0..1 + random.below(60)).map(|_| random.event()).collect();
    let life = || live(name, &mut machine(name, &config, host), &events);
    let told = |what: String| format!("{name} on {preset}, host {host:?}: {what}\n{events:?}");
    match catch_unwind(AssertUnwindSafe(life)) {
        Ok(result) => result.map_err(told),
        Err(_) => Err(told("panicked".into())),
    }
}

#[test]
fn every_order_of_events_keeps_hardware_and_tables_equal() {
    let first = setting("AMPLE_SEED", 1) << 32;
    let count = setting("AMPLE_ORDERS", 20_000);
    for number in first..first + count {
        if let Err(what) = one(number) {
            let rerun = "rerun one life with AMPLE_LIFE, all with AMPLE_SEED and AMPLE_ORDERS";
            panic!("life {number}: {what}\n{rerun}");
        }
    }
    println!("{count} lives from {first}: equal");
}

/// Life 4294998494 of an earlier version: the translation prefetched for the block behind a 2 MB
/// page was taken for a plain 2 MB page, whatever holes it had.
#[test]
fn prefetching_leaves_perforated_pages_alone() {
    let config = MmuConfig {
        prefetch_next: true,
        ..small("skylake")
    };
    let events = [
        Event::Map(0, true),
        Event::Map(1, true),
        Event::Perforate(1),
        Event::Punch(1, false),
        Event::Access(vec![(0, 0), (1, 0)]),
    ];
    live(
        "perforated",
        &mut machine("perforated", &config, None),
        &events,
    )
    .unwrap();
}

/// A single life, for looking at a failure.
#[test]
fn a_given_life() {
    let number = setting("AMPLE_LIFE", 1 << 32);
    if let Err(what) = one(number) {
        panic!("life {number}: {what}");
    }
}
