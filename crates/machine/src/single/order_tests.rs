// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order in which a core's accesses reach TLBs and memory.

use super::{AccessOrder, CoreConfig, StoresTranslate, TimedCore};
use crate::MachineConfig;
use ample_kit::random::{SplitMix64, mix64};
use ample_memory::{Level, MemorySystem};
use ample_trace::{Access, Consumer};
use ample_translate::{PageSize, USER_RW, bits, schemes};

const BASE: u64 = 1 << 30;

/// Memory whose lines are as far as their address says, and that notes when it is asked.
#[derive(Default)]
struct Noting {
    asked: Vec<u64>,
}

fn far(pa: u64) -> u64 {
    match mix64(pa >> 6) % 8 {
        0 => 900,
        1 | 2 => 120,
        _ => 12,
    }
}

impl MemorySystem for Noting {
    fn data(&mut self, pa: u64, _write: bool, now: u64) -> (u64, Level) {
        self.asked.push(now);
        (now + far(pa), Level::L2)
    }

    fn fetch(&mut self, pa: u64, now: u64) -> (u64, Level) {
        self.asked.push(now);
        (now + far(pa) / 8, Level::L2)
    }

    fn walk(&mut self, _pa: u64, now: u64) -> (u64, Level) {
        (now + 12, Level::L2)
    }
}

/// A core with one large page whose translation it has.
fn core(config: &CoreConfig) -> TimedCore<Noting> {
    let machine = MachineConfig::preset("skylake").unwrap();
    let mut engine = machine.engine(schemes::paging()).unwrap();
    let rights = USER_RW & !bits::NO_EXECUTE;
    engine
        .premap_as(BASE, 2 << 20, PageSize::M2, rights)
        .unwrap();
    let mut core = TimedCore::new(config, engine, Noting::default());
    // And whose walks are long over.
    for first in [
        Access::store(BASE, 0),
        Access::fetch(BASE),
        Access::load(BASE, 9_000),
    ] {
        core.run(&first).unwrap();
    }
    core.memory.asked.clear();
    core.start_measuring();
    core
}

/// Loads, stores and fetches, some after the value of an earlier one, some of one instruction.
fn mixed(random: &mut SplitMix64, count: usize) -> Vec<Access> {
    // Where nearly all are, more records are in flight than instructions have room.
    let joined_of_nine = [0, 3, 9][random.below(3) as usize];
    let access = |_| {
        let va = BASE + random.below(2 << 20) / 64 * 64;
        let gap = random.below(6) as u16;
        let joined = random.below(9) < joined_of_nine;
        let back = match random.below(3) {
            0 => 1 + random.below(8) as u16,
            1 if random.below(9) == 0 => 1 + random.below(1200) as u16,
            _ => 0,
        };
        match random.below(8) {
            0 => Access {
                gap,
                ..Access::fetch(va)
            },
            1 | 2 => Access::store(va, gap).after(back),
            _ if joined => Access {
                joined,
                ..Access::load(va, 0).after(back)
            },
            _ => Access::load(va, gap).after(back),
        }
    };
    (0..count).map(access).collect()
}

/// Cores from one in which nearly nothing is in flight to one whose ring is larger than usual.
fn configs(random: &mut SplitMix64) -> CoreConfig {
    let any = |random: &mut SplitMix64, choices: &[u32]| {
        choices[random.below(choices.len() as u64) as usize]
    };
    CoreConfig {
        ghz: 2.0,
        width: any(random, &[1, 4, 6]),
        rob: any(random, &[1, 8, 224, 512, 3000]),
        store_buffer: any(random, &[1, 7, 72]),
        order: AccessOrder::default(),
        stores_translate: match random.below(2) {
            0 => StoresTranslate::Address,
            _ => StoresTranslate::Commit,
        },
    }
}

/// A random program on a random core, in its own order and by events; what failed, in words.
fn both_orders(seed: u64) -> (TimedCore<Noting>, TimedCore<Noting>, String) {
    let mut random = SplitMix64::new(seed);
    let config = configs(&mut random);
    let accesses = mixed(&mut random, 4_000);
    let (mut ordered, mut by_events) = (core(&config), core(&config));
    for access in &accesses {
        ordered.run(access).unwrap();
    }
    // Blocks of any size.
    for block in accesses.chunks(1 + random.below(700) as usize) {
        assert!(by_events.consume(block));
    }
    by_events.settle();
    (ordered, by_events, format!("seed {seed}, {config:?}"))
}

/// Where nothing depends on the order of look-ups, all times are those of the program's order:
/// what is held back and what room it takes change none.
#[test]
fn times_are_those_of_the_programs_order_where_order_does_not_matter() {
    for seed in 1..=60 {
        let (ordered, by_events, what) = both_orders(seed);
        assert_eq!(by_events.report(), ordered.report(), "{what}");
        assert_eq!(by_events.clock(), ordered.clock(), "{what}");
        let sorted = |core: &TimedCore<Noting>| {
            let mut asked = core.memory.asked.clone();
            asked.sort_unstable();
            asked
        };
        assert_eq!(sorted(&by_events), sorted(&ordered), "{what}");
    }
}

#[test]
fn look_ups_come_in_the_order_of_their_times() {
    let mut late = 0;
    for seed in 1..=60 {
        let (ordered, by_events, what) = both_orders(seed);
        assert!(by_events.memory.asked.is_sorted(), "{what}");
        late += usize::from(!ordered.memory.asked.is_sorted());
    }
    assert!(late > 40, "only {late} programs have a look-up that waits");
}
