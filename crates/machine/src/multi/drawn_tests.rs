// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines, operating systems and programs drawn at random, under every mover: each load returns
//! the last store, and each migration ends. `AMPLE_MACHINES` says how many are drawn.

use super::{
    CoreAccess, CoreParams, CoreProgram, MemoryParams, Mover, MultiCore, OsParams, PagePlacement,
};
use ample_kit::random::SplitMix64;
use ample_migration::protocol::{Design, SliceHash};

/// Accesses to some lines of some pages.
struct Drawn {
    rng: SplitMix64,
    pages: u64,
    lines: u64,
    gap: u64,
    writes_in_ten: u64,
    nic_cycles: Option<u64>,
}

impl CoreProgram for Drawn {
    fn next(&mut self, _core: u8) -> CoreAccess {
        CoreAccess {
            gap: self.rng.below(self.gap) as u32,
            page: self.rng.below(self.pages) as u32,
            index: self.rng.below(self.lines) as u32,
            write: self.rng.below(10) < self.writes_in_ten,
            dependent: self.rng.below(4) == 0,
        }
    }

    fn next_dma(&mut self) -> Option<(u64, Option<CoreAccess>)> {
        let wait = 1 + self.rng.below(self.nic_cycles?);
        let op = self.next(0);
        Some((wait, (self.rng.below(8) > 0).then_some(op)))
    }
}

fn one_of<T: Copy>(rng: &mut SplitMix64, all: &[T]) -> T {
    all[rng.below(all.len() as u64) as usize]
}

fn memory(rng: &mut SplitMix64) -> MemoryParams {
    let mut memory = MemoryParams::with_cores(1 + rng.below(8) as u8);
    memory.slices = 1 + rng.below(8) as u8;
    memory.hash = one_of(rng, &[SliceHash::Modulo, SliceHash::Page, memory.hash]);
    memory.mshrs = 1 + rng.below(16) as u32;
    (memory.l1.bytes, memory.l2.bytes) = one_of(rng, &[(4096, 8192), (32768, 262_144)]);
    if rng.below(4) == 0 {
        memory.dram.reorder = None;
    }
    let engine = &mut memory.engine;
    engine.design = one_of(rng, &[Design::NonCacheable, Design::Cacheable]);
    engine.table_entries = 1 + rng.below(16) as u8;
    engine.queue_entries = 1 + rng.below(16) as u8;
    engine.mark_entries = rng.below(u64::from(memory.mshrs)) as u8;
    engine.marks_apart = rng.below(4) == 0;
    engine.copy_window_lines = one_of(rng, &[1, 1, 2, 7, 64]);
    engine.read_ahead_lines = one_of(rng, &[0, 0, 3]);
    engine.fetch_at_install = rng.below(4) == 0;
    engine.parallel_slices = rng.below(3) == 0;
    engine.announce = rng.below(3) > 0;
    engine.copies_first = rng.below(3) == 0;
    memory
}

fn os(rng: &mut SplitMix64) -> OsParams {
    OsParams {
        kernel_entries_per_s: one_of(rng, &[40_000.0, 100_000.0, 400_000.0]),
        invalidation_queue_entries: one_of(rng, &[4, 16, 256]),
        device_invalidations: 1 + rng.below(4) as u32,
        iotlb_cycles: rng.below(2000),
        nic_tlb_cycles: rng.below(3000),
        ipi_flight_cycles: rng.below(1000),
        broadcast_sync_cycles: rng.below(1000),
        batch_pages: 1 + rng.below(8) as u32,
        transaction_tries: rng.below(4) as u32,
        table_full_backoff_cycles: one_of(rng, &[0, 8000]),
        one_step_an_entry: rng.below(3) == 0,
        abort_ratio: one_of(rng, &[0.0, 0.0, 0.4]),
        ..OsParams::default()
    }
}

const MOVERS: [Mover; 6] = [
    Mover::Hardware,
    Mover::Software,
    Mover::LazySoftware,
    Mover::Broadcast,
    Mover::Batched,
    Mover::Transactional,
];

fn one(seed: u64) {
    let mut rng = SplitMix64::scattered(seed);
    let (memory, os) = (memory(&mut rng), os(&mut rng));
    let group = one_of(&mut rng, &[1, 1, 2, 4]);
    let pages = group * (1 + rng.below(8) as u32);
    let program = Drawn {
        pages: u64::from(pages),
        lines: one_of(&mut rng, &[1, 3, 64]),
        gap: one_of(&mut rng, &[1, 8, 60]),
        writes_in_ten: rng.below(11),
        nic_cycles: one_of(&mut rng, &[None, Some(300), Some(2000)]),
        rng: SplitMix64::new(seed),
    };
    let placement = PagePlacement {
        pages,
        spare: 1 + rng.below(8) as u32,
        group_pages: group,
        is_large_page: rng.below(2) == 0,
    };
    let drawn = format!("machine {seed}: {memory:?} {os:?} {placement:?}");
    let core = CoreParams::table1();
    let machine = MultiCore::new(&memory, core, os, program, placement, seed);
    let mut machine = machine.expect("what is drawn can be built");
    let movers = match rng.below(3) {
        0 => MOVERS.to_vec(),
        _ => vec![one_of(&mut rng, &MOVERS)],
    };
    let (wanted, mut now) = (12, 0);
    for _ in 0..wanted {
        let page = rng.below(u64::from(pages)) as u32;
        machine.requests.push((page, one_of(&mut rng, &movers)));
        now += rng.below(30_000);
        machine.run_until(now);
    }
    let deadline = now + 20_000_000;
    while machine.in_flight() > 0 && now < deadline {
        now += 20_000;
        machine.run_until(now);
    }
    assert_eq!(machine.memory.wrong_values(), 0, "{movers:?} {drawn}");
    let ended = machine.finished.len() + machine.aborted.len();
    assert_eq!(ended, wanted, "{movers:?} {drawn}");
    let mut frames = machine.free_frames.clone();
    frames.extend(machine.frames.iter().step_by(group as usize));
    frames.sort_unstable();
    frames.dedup();
    let groups = pages / group + placement.spare;
    assert_eq!(frames.len() as u32, groups, "a frame is lost: {drawn}");
}

#[test]
fn no_load_is_wrong_and_no_migration_is_lost_on_machines_drawn_at_random() {
    let drawn = std::env::var("AMPLE_MACHINES").ok();
    let drawn = drawn.and_then(|n| n.parse().ok()).unwrap_or(16);
    (1..=drawn).for_each(|seed| {
        println!("machine {seed}");
        one(seed);
    });
}
