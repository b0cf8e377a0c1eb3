// SPDX-License-Identifier: MIT OR Apache-2.0
//! Closed forms, the shadow memory under traffic with migrations, determinism, bad parameters.

use super::{
    AccessStatus, CoherentMemory, Core, CoreAccess, CoreParams, CoreProgram, MemoryParams, Mover,
    MultiCore, OsParams, PagePlacement,
};
use super::{Server, Service};
use ample_kit::random::SplitMix64;
use ample_migration::protocol::{Command, Design, LineAddr, Mapping, Status};

fn system() -> CoherentMemory {
    CoherentMemory::new(&MemoryParams::table1()).expect("table 1 is valid")
}

/// Cycles until an access ends, with nothing else under way.
fn latency(memory: &mut CoherentMemory, core: u8, line: u64, write: bool) -> u64 {
    let now = (memory.counters.accesses + 1) * 100_000_000;
    memory.run_until(now);
    memory.completed.clear();
    match memory.access(now, core, LineAddr(line), write, 1) {
        AccessStatus::Done(at) => at - now,
        AccessStatus::Pending => {
            memory.run_until(now + 100_000);
            memory.completed[0].at - now
        }
        AccessStatus::Full => panic!("nothing is under way"),
    }
}

#[test]
fn unloaded_latencies_are_those_of_table_1() {
    let mut memory = system();
    let memory_latency = latency(&mut memory, 0, 5, false);
    assert!((120..190).contains(&memory_latency), "{memory_latency}");
    assert_eq!(latency(&mut memory, 0, 5, false), 2, "L1");
    // 8 ways of 64 sets: 9 lines of one L1 set push the first into the L2.
    for way in 1..=8 {
        latency(&mut memory, 0, 5 + way * 64, false);
    }
    assert_eq!(latency(&mut memory, 0, 5, false), 14, "L2");
    // Written by one core, read by another: through the last level.
    latency(&mut memory, 0, 777, true);
    let other = latency(&mut memory, 1, 777, false);
    assert!((54..110).contains(&other), "{other}");
    assert_eq!(memory.wrong_values(), 0);
}

#[test]
fn refused_commands_say_why_and_change_nothing() {
    let mut memory = system();
    let map = |src: u64, dst: u64| Mapping {
        src: LineAddr(src * 64),
        dst: LineAddr(dst * 64),
        lines: 64,
    };
    let mut status = |command| {
        memory.records.clear();
        memory.submit(0, command).expect("room in the queue");
        memory.records.first().map(|(_, record)| record.status)
    };
    let migrate = |map| Command::Migrate { map, start: false };
    assert_eq!(status(migrate(map(1, 1))), Some(Status::BadRange));
    assert_eq!(
        status(Command::Clear { map: map(1, 2) }),
        Some(Status::NotFound)
    );
    assert_eq!(status(migrate(map(1, 2))), None);
    assert_eq!(status(migrate(map(1, 2))), Some(Status::CopyInProgress));
    assert_eq!(status(migrate(map(1, 3))), Some(Status::Overlap));
    assert_eq!(
        status(migrate(map(4, 2))),
        Some(Status::Overlap),
        "destination in use"
    );
    assert_eq!(
        status(migrate(map(2, 9))),
        Some(Status::Overlap),
        "it is a destination"
    );
    for n in 1..16 {
        assert_eq!(status(migrate(map(10 * n, 10 * n + 1))), None);
    }
    assert_eq!(status(migrate(map(900, 901))), Some(Status::TableFull));
    assert_eq!(memory.migrations_in_flight(), 16);
}

#[test]
fn impossible_machines_are_refused_with_the_reason() {
    let message = |change: fn(&mut MemoryParams)| {
        let mut params = MemoryParams::table1();
        change(&mut params);
        params.check().expect_err("must be refused").to_string()
    };
    assert!(message(|p| p.l1.ways = 0).contains("l1: 0 ways"));
    assert!(message(|p| p.llc_slice.bytes = 1000).contains("llc_slice: 1000 bytes"));
    assert!(message(|p| p.cores = 65).contains("cores: 65"));
    assert!(message(|p| p.slices = 0).contains("slices: 0"));
    assert!(message(|p| p.mshrs = 0).contains("mshrs"));
    assert!(message(|p| p.frames = 10).contains("concurrent migrations need 32 frames"));
    assert!(message(|p| p.engine.table_entries = 0).contains("table_entries"));
    assert!(message(|p| p.engine.mark_entries = 16).contains("cannot miss"));
    assert!(message(|p| p.clock_ghz = f64::NAN).contains("clock_ghz"));
    assert!(message(|p| p.dram.banks = 0).contains("dram"));
}

#[test]
fn servers_that_do_not_fit_their_memory_are_refused_with_the_reason() {
    let message = |frames, placement| {
        let params = MemoryParams {
            frames,
            ..MemoryParams::table1()
        };
        let (core, os) = (CoreParams::table1(), OsParams::default());
        let machine = MultiCore::new(&params, core, os, Hammer::new(8), placement, 1);
        machine
            .map(|_| ())
            .expect_err("must be refused")
            .to_string()
    };
    // 24 pages, 20 destinations, and two frames of the invalidation queue.
    let error = message(45, PagePlacement::single(24, 20));
    assert!(error.contains("do not fit in 45"), "{error}");
    let params = MemoryParams {
        frames: 46,
        ..MemoryParams::table1()
    };
    let (core, os) = (CoreParams::table1(), OsParams::default());
    let placement = PagePlacement::single(24, 20);
    assert!(MultiCore::new(&params, core, os, Hammer::new(24), placement, 1).is_ok());
    let groups = PagePlacement {
        pages: 24,
        spare: 4,
        group_pages: 5,
        is_large_page: false,
    };
    let error = message(1 << 20, groups);
    assert!(
        error.contains("groups of 5 pages do not divide 24"),
        "{error}"
    );
    // The table has entries for powers of two only: the machine and the protocol have one rule.
    let groups = PagePlacement {
        pages: 24,
        spare: 4,
        group_pages: 3,
        is_large_page: false,
    };
    let error = message(1 << 20, groups);
    assert!(error.contains("groups of 3 pages: a migration"), "{error}");
}

/// All cores and the NIC hammer the pages that move.
pub(super) struct Hammer {
    rng: SplitMix64,
    pages: u64,
}

impl Hammer {
    pub(super) fn new(pages: u32) -> Self {
        Self {
            rng: SplitMix64::new(7),
            pages: u64::from(pages),
        }
    }
}

impl CoreProgram for Hammer {
    fn next(&mut self, _core: u8) -> CoreAccess {
        CoreAccess {
            gap: 2,
            page: self.rng.below(self.pages) as u32,
            index: self.rng.below(64) as u32,
            write: self.rng.below(2) == 0,
            dependent: self.rng.below(4) == 0,
        }
    }

    fn next_dma(&mut self) -> Option<(u64, Option<CoreAccess>)> {
        let op = self.next(0);
        Some((30, Some(op)))
    }
}

/// What a run under [`Hammer`] gives.
struct Hammered {
    wrong: u64,
    work: u64,
    moved: usize,
}

/// The same with these costs of the operating system, 24 pages that move one by one.
pub(super) fn hammer_with(
    design: Design,
    mover: Mover,
    os: OsParams,
    migrations: u32,
    change: fn(&mut MemoryParams),
) -> MultiCore<Hammer> {
    hammered(
        design,
        mover,
        (PagePlacement::single(24, 24), migrations),
        os,
        change,
    )
}

/// Asks for `migrations` migrations of hot pages, one every 4 µs, and lets them end.
fn hammer(
    design: Design,
    mover: Mover,
    (placement, migrations): (PagePlacement, u32),
    change: fn(&mut MemoryParams),
) -> Hammered {
    let os = OsParams {
        kernel_entries_per_s: 100_000.0,
        ..OsParams::default()
    };
    let machine = hammered(design, mover, (placement, migrations), os, change);
    Hammered {
        wrong: machine.memory.wrong_values(),
        work: machine.cores.iter().map(Core::work).sum(),
        moved: machine.finished.len(),
    }
}

/// A machine with small caches, so that lines under migration are evicted.
pub(super) fn hammering(
    design: Design,
    placement: PagePlacement,
    os: OsParams,
    change: impl Fn(&mut MemoryParams),
) -> MultiCore<Hammer> {
    let mut params = MemoryParams::table1();
    params.engine.design = design;
    params.l1.bytes = 4096;
    params.l2.bytes = 8192;
    change(&mut params);
    let program = Hammer::new(placement.pages);
    let core = CoreParams::table1();
    MultiCore::new(&params, core, os, program, placement, 7).expect("valid machine")
}

fn hammered(
    design: Design,
    mover: Mover,
    (placement, migrations): (PagePlacement, u32),
    os: OsParams,
    change: fn(&mut MemoryParams),
) -> MultiCore<Hammer> {
    let mut machine = hammering(design, placement, os, change);
    for step in 0..migrations {
        machine.requests.push((step % placement.pages, mover));
        machine.run_until(u64::from(step + 1) * 8_000);
    }
    machine.run_until(u64::from(migrations) * 20_000);
    machine
}

const SOFTWARE: [Mover; 5] = [
    Mover::Software,
    Mover::LazySoftware,
    Mover::Broadcast,
    Mover::Batched,
    Mover::Transactional,
];

#[test]
fn no_load_is_ever_wrong_while_hot_pages_move() {
    let pages = (PagePlacement::single(24, 24), 60);
    for design in [Design::NonCacheable, Design::Cacheable] {
        let run = hammer(design, Mover::Hardware, pages, |_| {});
        assert_eq!((run.wrong, run.moved), (0, 60), "{design:?}");
        assert!(run.work > 100_000, "{design:?}: {}", run.work);
    }
    for mover in SOFTWARE {
        let run = hammer(Design::NonCacheable, mover, pages, |_| {});
        assert_eq!(run.wrong, 0, "{mover:?}");
        // Pages that are always written are shot down seven times: three copies are worthless.
        let least = if mover == Mover::Transactional { 3 } else { 10 };
        assert!(run.moved > least, "{mover:?}: {}", run.moved);
    }
}

#[test]
fn migrations_given_up_leave_the_page_where_it_was_and_no_load_is_wrong() {
    let pages = (PagePlacement::single(24, 24), 60);
    let run = |abort_ratio| {
        let os = OsParams {
            kernel_entries_per_s: 100_000.0,
            abort_ratio,
            ..OsParams::default()
        };
        hammered(Design::Cacheable, Mover::Hardware, pages, os, |_| {})
    };
    let all = run(1.0);
    assert_eq!((all.finished.len(), all.aborted.len()), (0, 60));
    assert_eq!(all.memory.wrong_values(), 0);
    assert_eq!(all.memory.migrations_in_flight(), 0);
    let mut half = run(0.5);
    assert_eq!(half.finished.len() + half.aborted.len(), 60);
    assert!(half.aborted.len() > 15 && half.finished.len() > 15);
    assert_eq!(half.memory.wrong_values(), 0);
    // Each frame is a page's or free, and none is both.
    let mut used = [half.frames.clone(), half.free_frames.clone()].concat();
    used.sort_unstable();
    assert_eq!(used, (0..48).collect::<Vec<u32>>());
    // And the pages that stayed can move later.
    let before = half.finished.len() + half.aborted.len();
    half.requests.push((0, Mover::Hardware));
    half.run_until(2_000_000);
    assert_eq!(half.finished.len() + half.aborted.len(), before + 1);
}

#[test]
fn pages_that_share_a_mapping_move_together_and_no_load_is_wrong() {
    let groups = PagePlacement {
        pages: 24,
        spare: 8,
        group_pages: 4,
        is_large_page: false,
    };
    for mover in [Mover::Hardware].into_iter().chain(SOFTWARE) {
        for design in [Design::NonCacheable, Design::Cacheable] {
            let run = hammer(design, mover, (groups, 20), |_| {});
            assert_eq!(run.wrong, 0, "{design:?} {mover:?}");
            assert!(run.moved > 3, "{design:?} {mover:?}: {}", run.moved);
        }
    }
}

#[test]
fn two_futures_of_one_past_are_equal_until_something_differs() {
    let params = MemoryParams::table1();
    let program = Server::new(Service::Memcached, 8, 3);
    let placement = PagePlacement::single(Server::pages(Service::Memcached, 8), 8);
    let core = CoreParams::table1();
    let os = OsParams::default();
    let mut one = MultiCore::new(&params, core, os, program, placement, 3).expect("valid");
    one.run_until(50_000);
    let mut other = one.clone();
    let mut engine = params.engine;
    engine.design = Design::Cacheable;
    other.memory.set_engine(engine).expect("idle");
    one.run_until(100_000);
    other.run_until(100_000);
    assert_eq!(one.memory.counters, other.memory.counters);
    other.requests.push((0, Mover::Hardware));
    other.run_until(110_000);
    let busy = other.memory.set_engine(params.engine).unwrap_err();
    assert!(busy.to_string().contains("under way"), "{busy}");
}

#[test]
fn variants_of_the_hardware_are_correct_too() {
    let changes: [fn(&mut MemoryParams); 11] = [
        |p| p.engine.copy_window_lines = 4,
        |p| (p.engine.read_ahead_lines, p.engine.parallel_slices) = (8, true),
        |p| (p.engine.fetch_at_install, p.engine.copy_window_lines) = (true, 64),
        |p| p.engine.parallel_slices = true,
        |p| p.engine.announce = false,
        |p| p.engine.mark_entries = 0,
        |p| p.engine.marks_apart = true,
        |p| p.dram.reorder = None,
        |p| p.engine.table_entries = 1,
        |p| p.slices = 3,
        |p| p.hash = ample_migration::protocol::SliceHash::Page,
    ];
    for change in changes {
        for design in [Design::NonCacheable, Design::Cacheable] {
            let pages = (PagePlacement::single(24, 24), 25);
            let run = hammer(design, Mover::Hardware, pages, change);
            assert_eq!(run.wrong, 0);
            assert!(run.moved > 3, "{}", run.moved);
        }
    }
}

#[test]
fn the_shadow_memory_notices_a_broken_copy() {
    // The destination is entered in the page table without being copied.
    let mut memory = system();
    latency(&mut memory, 0, 64, true);
    let map = Mapping {
        src: LineAddr(64),
        dst: LineAddr(6400),
        lines: 64,
    };
    let migrate = Command::Migrate { map, start: false };
    memory.submit(101_000_000, migrate).expect("room");
    memory.run_until(110_000_000);
    memory
        .submit(110_000_000, Command::Clear { map })
        .expect("room");
    memory.run_until(120_000_000);
    latency(&mut memory, 0, 6400, false);
    assert_eq!(memory.wrong_values(), 1);
}

#[test]
fn equal_seeds_give_equal_runs() {
    let run = |seed| {
        let params = MemoryParams::table1();
        let program = Server::new(Service::Memcached, 8, seed);
        let pages = Server::pages(Service::Memcached, 8);
        let core = CoreParams::table1();
        let mut machine = MultiCore::new(
            &params,
            core,
            OsParams::default(),
            program,
            PagePlacement::single(pages, 8),
            seed,
        )
        .expect("valid");
        machine.requests.push((0, Mover::Hardware));
        machine.run_until(150_000);
        let work: Vec<u64> = machine.cores.iter().map(Core::work).collect();
        (work, machine.memory.counters, machine.finished.clone())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}
