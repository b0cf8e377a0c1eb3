// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each mover in software does what it is for, and what accesses see adds up.

use super::tests::hammer_with;
use super::{
    CoreAccess, CoreParams, CoreProgram, MemoryParams, Mover, MultiCore, OsParams, PagePlacement,
    SeenAccess, Server, Service,
};
use ample_kit::random::SplitMix64;
use ample_migration::protocol::Design;

/// Cores that visit page 0 now and then; the rest of the time each has a page of its own.
#[derive(Clone)]
struct Visitors {
    rng: SplitMix64,
    write_share: f64,
    has_nic: bool,
    nic_cycles: u64,
}

impl CoreProgram for Visitors {
    fn next(&mut self, core: u8) -> CoreAccess {
        let visits = self.rng.below(10) == 0;
        CoreAccess {
            gap: 20,
            page: if visits { 0 } else { 1 + u32::from(core) },
            index: self.rng.below(64) as u32,
            write: self.rng.unit() < self.write_share,
            dependent: false,
        }
    }

    fn next_dma(&mut self) -> Option<(u64, Option<CoreAccess>)> {
        let op = CoreAccess {
            write: self.rng.unit() < self.write_share,
            ..self.next(0)
        };
        self.has_nic.then_some((self.nic_cycles, Some(op)))
    }
}

fn visited(cores: u8, design: Design, write_share: f64, has_nic: bool) -> MultiCore<Visitors> {
    let mut memory = MemoryParams::with_cores(cores);
    memory.engine.design = design;
    let program = Visitors {
        rng: SplitMix64::new(5),
        write_share,
        has_nic,
        nic_cycles: 300,
    };
    let os = OsParams {
        kernel_entries_per_s: 100_000.0,
        ..OsParams::default()
    };
    let placement = PagePlacement::single(1 + u32::from(cores), 64);
    let core = CoreParams::table1();
    let mut machine = MultiCore::new(&memory, core, os, program, placement, 3).expect("valid");
    machine.watch(0..1);
    machine.run_until(30_000);
    machine
}

/// Moves page 0 and returns what was seen from there on, for 200,000 cycles.
fn moved(machine: &mut MultiCore<Visitors>, mover: Mover) -> Vec<SeenAccess> {
    machine.take_seen();
    machine.requests.push((0, mover));
    machine.run_until(230_000);
    assert_eq!(machine.finished.len(), 1, "{mover:?}");
    assert_eq!(machine.memory.wrong_values(), 0, "{mover:?}");
    machine.take_seen()
}

#[test]
fn nothing_is_delayed_while_nothing_moves() {
    let mut machine = visited(4, Design::NonCacheable, 0.2, true);
    machine.take_seen();
    machine.run_until(200_000);
    let seen = machine.take_seen();
    assert!(seen.len() > 1000, "{}", seen.len());
    assert!(
        seen.iter().any(|access| access.agent == 4),
        "the NIC is seen"
    );
    let delayed = seen.iter().find(|access| access.delay_cycles() > 0);
    assert_eq!(delayed, None);
}

#[test]
fn parts_of_a_delay_lie_within_the_latency() {
    let hardware = [Design::NonCacheable, Design::Cacheable].map(|d| (d, Mover::Hardware));
    let software = [
        Mover::Software,
        Mover::LazySoftware,
        Mover::Broadcast,
        Mover::Batched,
        Mover::Transactional,
    ];
    let software = software.map(|mover| (Design::NonCacheable, mover));
    for (design, mover) in hardware.into_iter().chain(software) {
        let mut machine = visited(4, design, 0.05, true);
        let seen = moved(&mut machine, mover);
        for access in &seen {
            let latency = access.latency_cycles;
            assert!(
                access.delay_cycles() <= latency,
                "{mover:?} {design:?}: {access:?}"
            );
        }
        let longest = seen
            .iter()
            .filter(|a| a.agent < 4)
            .map(SeenAccess::delay_cycles);
        let longest = longest.max().unwrap_or(0);
        // Each core drops its translation, and some access comes early in that time.
        let invlpg = OsParams::default().invlpg_cycles;
        assert!(longest * 2 > invlpg, "{mover:?} {design:?}: {longest}");
        let unavailable = machine.finished[0].unavailable_cycles;
        match mover {
            Mover::Hardware => assert_eq!(unavailable, None),
            // Some core comes to the page soon after its entry is cleared.
            _ => assert!(
                longest * 2 > unavailable.unwrap_or(0),
                "{mover:?}: {longest}"
            ),
        }
    }
}

#[test]
fn a_broadcast_takes_as_long_for_four_cores_as_for_sixteen() {
    let shootdown = |cores, mover| {
        let mut machine = visited(cores, Design::NonCacheable, 0.0, false);
        moved(&mut machine, mover);
        machine.finished[0].clean_cycles.expect("moved")
    };
    let (few, many) = (
        shootdown(4, Mover::Broadcast),
        shootdown(16, Mover::Broadcast),
    );
    assert_eq!(few, many);
    assert_eq!(few, 50 + 250 + 200 + 800, "entry, INVLPG, broadcast");
    assert!(shootdown(16, Mover::Software) > 3 * shootdown(4, Mover::Software));
}

#[test]
fn a_copy_is_thrown_away_when_the_page_is_written_meanwhile() {
    let mut read = visited(4, Design::NonCacheable, 0.0, true);
    moved(&mut read, Mover::Transactional);
    assert_eq!((read.transactions, read.failed_transactions), (1, 0));
    let mut written = visited(4, Design::NonCacheable, 1.0, true);
    moved(&mut written, Mover::Transactional);
    let tries = u64::from(OsParams::default().transaction_tries);
    let transactions = (written.transactions, written.failed_transactions);
    assert_eq!(transactions, (tries, tries), "then as plain software");
}

#[test]
fn the_page_stays_mapped_while_a_transaction_copies() {
    let mut machine = visited(4, Design::NonCacheable, 0.0, true);
    moved(&mut machine, Mover::Transactional);
    let transactional = machine.finished[0];
    let mut machine = visited(4, Design::NonCacheable, 0.0, true);
    moved(&mut machine, Mover::Software);
    let plain = machine.finished[0];
    assert!(
        transactional.done_cycles > plain.done_cycles,
        "two shootdowns"
    );
    assert!(transactional.unavailable_cycles < plain.unavailable_cycles);
}

/// Cores that only read page 0, and a NIC that only writes it, now and then.
struct SlowWriter(Visitors);

impl CoreProgram for SlowWriter {
    fn next(&mut self, core: u8) -> CoreAccess {
        self.0.next(core)
    }

    fn next_dma(&mut self) -> Option<(u64, Option<CoreAccess>)> {
        let op = CoreAccess {
            page: 0,
            write: true,
            ..self.0.next(0)
        };
        Some((1 + self.0.rng.below(6000), Some(op)))
    }
}

/// The device's translation goes last: what it stores until then makes the copy worthless.
#[test]
fn a_device_that_writes_during_the_second_shootdown_is_noticed() {
    for seed in 1..=5 {
        let visitors = Visitors {
            rng: SplitMix64::new(seed),
            write_share: 0.0,
            has_nic: true,
            nic_cycles: 0,
        };
        let (memory, core) = (MemoryParams::with_cores(4), CoreParams::table1());
        let os = OsParams {
            kernel_entries_per_s: 100_000.0,
            ..OsParams::default()
        };
        let placement = PagePlacement::single(5, 64);
        let machine = MultiCore::new(&memory, core, os, SlowWriter(visitors), placement, seed);
        let mut machine = machine.expect("valid");
        for n in 1..=10 {
            machine.requests.push((0, Mover::Transactional));
            machine.run_until(n * 150_000);
        }
        assert_eq!(machine.memory.wrong_values(), 0, "seed {seed}");
        assert!(machine.finished.len() > 7, "seed {seed}");
        assert!(machine.failed_transactions > 0, "seed {seed}: none failed");
    }
}

#[test]
fn one_shootdown_serves_a_batch() {
    let os = OsParams::default();
    let mut machine = hammer_with(Design::NonCacheable, Mover::Batched, os, 0, |_| {});
    machine
        .requests
        .extend((0..20).map(|page| (page, Mover::Batched)));
    machine.run_until(2_000_000);
    assert_eq!((machine.finished.len(), machine.invalidations), (20, 2));
    assert_eq!(machine.memory.wrong_values(), 0);
    let first = &machine.finished[..16];
    let clean = first[0].clean_cycles;
    assert!(first.iter().all(|t| t.clean_cycles == clean));
    assert!(first.is_sorted_by(|a, b| a.done_cycles < b.done_cycles));
}

/// All cores store to one line of page 1, which takes each of them a long time.
struct Crowd;

impl CoreProgram for Crowd {
    fn next(&mut self, _core: u8) -> CoreAccess {
        CoreAccess {
            gap: 0,
            page: 1,
            index: 0,
            write: true,
            dependent: false,
        }
    }

    fn next_dma(&mut self) -> Option<(u64, Option<CoreAccess>)> {
        None
    }
}

/// With interrupts that cost nothing, the copy of page 0 is over before the stores to page 1 that
/// were under way.
#[test]
fn a_batch_waits_for_accesses_to_all_of_its_pages() {
    let (memory, core) = (MemoryParams::with_cores(32), CoreParams::table1());
    let os = OsParams {
        kernel_entries_per_s: 400_000.0,
        invlpg_cycles: 0,
        ipi_send_cycles: 0,
        ipi_flight_cycles: 0,
        ipi_handler_cycles: 0,
        ipi_ack_cycles: 0,
        ..OsParams::default()
    };
    let placement = PagePlacement::single(2, 16);
    let machine = MultiCore::new(&memory, core, os, Crowd, placement, 1);
    let mut machine = machine.expect("valid");
    for n in 1..=3 {
        machine.run_until(20_000 * n);
        let pages = [0, 1].map(|page| (page, Mover::Batched));
        machine.requests.extend(pages);
    }
    machine.run_until(100_000);
    assert_eq!(machine.memory.wrong_values(), 0);
    assert_eq!(machine.finished.len(), 6);
}

#[test]
fn servers_at_full_load_hardly_wait_for_their_rings() {
    for service in [Service::Nginx, Service::Memcached] {
        let memory = MemoryParams::table1();
        let machine = Server::machine(service, &memory, OsParams::default(), 1, 1);
        let mut machine = machine.expect("valid");
        machine.run_until(200_000);
        let before = (machine.work(), machine.program().waited_instructions());
        machine.run_until(600_000);
        let work = machine.work() - before.0;
        let waited = machine.program().waited_instructions() - before.1;
        assert!(waited * 50 < work, "{service:?}: {waited} beside {work}");
        assert!(machine.dma_accesses > 10_000, "{service:?}");
    }
}

/// The NIC of a server writes its buffers all the time, also while they are shot down.
#[test]
fn no_store_is_lost_while_buffers_of_a_server_move() {
    let movers = [
        Mover::Hardware,
        Mover::Software,
        Mover::LazySoftware,
        Mover::Broadcast,
        Mover::Batched,
        Mover::Transactional,
    ];
    for (service, seed) in [(Service::Nginx, 1), (Service::Memcached, 2)] {
        let memory = MemoryParams::table1();
        let machine = Server::machine(service, &memory, OsParams::default(), 1, seed);
        let mut past = machine.expect("valid");
        past.run_until(20_000);
        for mover in movers {
            let mut machine = past.clone();
            for n in 0..8 {
                machine.requests.push((n * 5, mover));
                machine.run_until(20_000 + 60_000 * u64::from(n + 1));
            }
            machine.run_until(600_000);
            let wrong = machine.memory.wrong_values();
            assert_eq!(wrong, 0, "{service:?} {mover:?} seed {seed}");
            assert!(machine.finished.len() > 4, "{service:?} {mover:?}");
        }
    }
}
