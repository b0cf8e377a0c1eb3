// SPDX-License-Identifier: MIT OR Apache-2.0
//! Closed forms, the rules of the chips over random traffic, and a published table.

use super::channel::Command;
use super::*;
use ample_kit::random::SplitMix64;
use proptest::prelude::*;

/// Times in memory clock cycles, no controller.
fn plain(change: impl FnOnce(&mut ReorderConfig)) -> ReorderingDram {
    let mut reorder = ReorderConfig::ddr4_3200();
    change(&mut reorder);
    let config = DramConfig::ddr4_3200(1, 16, 0.0);
    ReorderingDram::new(&config, &reorder, config.tck_ns).expect("valid")
}

/// Runs until nothing waits; the arrivals in order of their commands.
fn finish(dram: &mut ReorderingDram) -> Vec<Arrival> {
    let mut all = Vec::new();
    while let Some(at) = dram.next_event() {
        all.extend(dram.run_until(at));
    }
    all
}

/// Lines of a row.
const ROW: u64 = 128;
/// Line 0 of the next row of bank 0, as in `Dram`.
const SAME_BANK: u64 = 17 * ROW;

#[test]
fn unloaded_latencies_follow_the_timing_parameters() {
    let mut dram = plain(|_| {});
    let mut latency = |line, now| {
        dram.read(line, now);
        let all = finish(&mut dram);
        assert_eq!(all.len(), 1);
        all[0].at - now
    };
    assert_eq!(latency(0, 1000), 48, "closed: tRCD + CL + BL/2");
    assert_eq!(latency(1, 2000), 26, "row hit: CL + BL/2");
    assert_eq!(latency(SAME_BANK, 3000), 70, "conflict: tRP more");
    assert_eq!(latency(SAME_BANK, 12_480), 22 + 560 + 48, "in a refresh");
    assert_eq!(dram.row_state(), [1, 2, 1]);
}

#[test]
fn a_row_hit_overtakes_a_conflict_but_not_for_ever() {
    let mut dram = plain(|r| r.row_hits = 4);
    dram.read(0, 0);
    dram.read(SAME_BANK, 1);
    (1..9).for_each(|line| dram.read(line, 2));
    let order: Vec<u64> = finish(&mut dram).iter().map(|a| a.line).collect();
    assert_eq!(order, [0, 1, 2, 3, SAME_BANK, 4, 5, 6, 7, 8]);
}

#[test]
fn a_read_that_goes_first_passes_those_that_wait_but_not_a_hit() {
    let mut dram = plain(|_| {});
    // One row of bank 0 is open; three others of it are asked for.
    let row = |n: u64| (n * 16 + n % 16) * ROW;
    dram.read(0, 0);
    finish(&mut dram);
    dram.read(row(1), 1000);
    dram.read(row(2), 1000);
    dram.read_first(row(3), 1000);
    dram.read(1, 1000);
    let order: Vec<u64> = finish(&mut dram).iter().map(|a| a.line).collect();
    assert_eq!(order, [1, row(3), row(1), row(2)]);
}

#[test]
fn a_bank_opens_a_row_every_trc() {
    let mut dram = plain(|r| r.trefi = 0);
    for n in 0..20 {
        // Row numbers n * 16 + n % 16: all in bank 0.
        dram.read((n * 16 + n % 16) * ROW, 0);
    }
    let all = finish(&mut dram);
    let steps = all.windows(2).map(|pair| pair[1].at - pair[0].at);
    assert!(steps.into_iter().all(|step| step == 52 + 22), "tRAS + tRP");
}

#[test]
fn four_activations_a_window_bound_random_reads() {
    // 34 would have an activation wait for a column command of the window before.
    let mut dram = plain(|r| (r.trefi, r.read_entries, r.tfaw) = (0, 64, 35));
    // A row of another bank each time.
    for n in 0..64 {
        dram.read(n * ROW + n, 0);
    }
    let all = finish(&mut dram);
    let (first, last) = (all[3].at, all[63].at);
    assert_eq!(last - first, 15 * 35, "15 windows behind the first four");
}

#[test]
fn a_read_waits_for_the_bus_to_turn_and_finds_a_waiting_write() {
    let mut dram = plain(|_| {});
    dram.write(0, 0);
    // Nothing else waits: the write is served at once, and the row stays open.
    assert!(finish(&mut dram).is_empty());
    dram.read(1, 23);
    // Activated at 0, written from 22; CWL + BL/2 + tWTR later a read may come.
    assert_eq!(finish(&mut dram)[0].at, 22 + 16 + 4 + 12 + 26);
    let mut dram = plain(|_| {});
    dram.read(SAME_BANK, 0);
    dram.write(0, 0);
    dram.read(0, 0);
    let arrival = finish(&mut dram).iter().find(|a| a.line == 0).copied();
    assert_eq!(arrival.map(|a| a.at), Some(4), "from the queue");
}

/// Cycles of a memory clock for each of `n` requests, as fast as the queues take them.
fn saturated(
    dram: &DramConfig,
    reorder: &ReorderConfig,
    requests: impl Iterator<Item = (u64, bool)>,
) -> f64 {
    let mut memory = ReorderingDram::new(dram, reorder, dram.tck_ns).expect("valid");
    let (mut now, mut n) = (0, 0u64);
    for (line, write) in requests {
        // One request a clock at most, and room in the queue of its kind.
        let full = |memory: &ReorderingDram| memory.channels[0].has_waiting();
        while full(&memory) {
            now = memory.next_event().expect("requests wait");
            memory.run_until(now).for_each(drop);
        }
        match write {
            true => memory.write(line, now),
            false => memory.read(line, now),
        }
        memory.run_until(now).for_each(drop);
        now += 1;
        n += 1;
    }
    let end = finish(&mut memory)
        .iter()
        .map(|a| a.at)
        .max()
        .unwrap_or(now);
    end.max(now) as f64 / n as f64
}

/// Four patterns of 200,000 requests, and the memory cycles that Ramulator (Kim, Yang, Mutlu, IEEE
/// CAL 2015; version of 29 August 2023, 214f6358) takes for the same requests: DDR3-1600 11-11-11,
/// one channel and rank of 2 Gb x8 chips, its own controller as it comes: FR-FCFS with at most 16
/// hits, open rows, queues of 32, writes drained from 26 to 5, a request a cycle while the queues
/// take it. The patterns are those that the comparison in its paper (section 4.2) used, of 64-byte
/// lines: random ones, one in ten a write; a stream with its writes last; and both without writes.
/// Result `dram-reference`.
#[test]
fn streams_and_random_lines_take_what_a_public_simulator_takes() {
    let dram = DramConfig {
        tck_ns: 1.25,
        cl: 11,
        trcd: 11,
        trp: 11,
        tras: 28,
        banks: 8,
        ..DramConfig::ddr4_3200(1, 8, 0.0)
    };
    let reorder = ReorderConfig {
        write_high: 26,
        write_low: 5,
        row_hits: 16,
        cwl: 8,
        trrd: 5,
        tfaw: 24,
        twr: 12,
        twtr: 6,
        trtp: 6,
        trefi: 6240,
        trfc: 128,
        ..ReorderConfig::ddr4_3200()
    };
    let n = 200_000;
    let lines = |shares_writes: bool| {
        let mut rng = SplitMix64::new(1);
        let one = move |_| {
            let line = rng.below(1 << 25);
            (line, shares_writes && rng.below(10) == 0)
        };
        (0..n).map(one)
    };
    let stream = |reads| (0..n).map(move |line| (line, line >= reads));
    let cycles = [
        (
            "random reads",
            saturated(&dram, &reorder, lines(false)),
            1_239_514,
        ),
        ("random", saturated(&dram, &reorder, lines(true)), 1_279_786),
        (
            "stream of reads",
            saturated(&dram, &reorder, stream(n)),
            820_696,
        ),
        (
            "stream",
            saturated(&dram, &reorder, stream(n / 10 * 9)),
            820_939,
        ),
    ];
    for (pattern, ours, theirs) in cycles {
        let theirs = f64::from(theirs) / n as f64;
        println!("{pattern}: {ours:.3} cycles a request, {theirs:.3} there");
        assert!((ours / theirs - 1.0).abs() < 0.05, "{pattern}: {ours}");
    }
}

/// The rules of the chips, written apart from the scheduler: each pair of commands keeps its
/// distance.
fn check_commands(log: &[(u64, Command)], dram: &DramConfig, reorder: &ReorderConfig) {
    let least = |n: u32| u64::from(n);
    let end = |write| least(if write { reorder.cwl } else { dram.cl } + dram.burst / 2);
    for (n, &(at, command)) in log.iter().enumerate() {
        let before = &log[..n];
        let bus = before.last().filter(|(_, c)| *c != Command::Refresh);
        assert!(
            bus.is_none_or(|&(then, _)| then < at),
            "two commands at {at}"
        );
        let recent = before.iter().rev().take(200);
        for &(then, earlier) in recent {
            let distance = match (earlier, command) {
                (Command::Activate { bank: a, .. }, Command::Activate { bank: b, .. }) => {
                    let own = least(dram.tras + dram.trp);
                    if a == b { own } else { least(reorder.trrd) }
                }
                (Command::Activate { bank: a, .. }, Command::Column { bank: b, .. }) if a == b => {
                    least(dram.trcd)
                }
                (Command::Activate { bank: a, .. }, Command::Precharge { bank: b }) if a == b => {
                    least(dram.tras)
                }
                (Command::Precharge { bank: a }, Command::Activate { bank: b, .. }) if a == b => {
                    least(dram.trp)
                }
                (Command::Column { bank: a, write, .. }, Command::Precharge { bank: b })
                    if a == b =>
                {
                    match write {
                        true => end(true) + least(reorder.twr),
                        false => least(reorder.trtp),
                    }
                }
                (Command::Column { write: a, .. }, Command::Column { write: b, .. }) => {
                    match (a, b) {
                        (true, false) => end(true) + least(reorder.twtr),
                        (false, true) => end(false) + 2 - least(reorder.cwl),
                        _ => least(reorder.tccd),
                    }
                }
                (Command::Refresh, Command::Activate { .. }) => least(reorder.trfc),
                _ => 0,
            };
            assert!(
                at >= then + distance || earlier == Command::Refresh && at < then,
                "{command:?} at {at}, {earlier:?} at {then}"
            );
        }
        if let Command::Activate { .. } = command {
            let opened = before.iter().rev();
            let mut opened = opened.filter(|(_, c)| matches!(c, Command::Activate { .. }));
            if let Some(&(fourth, _)) = opened.nth(3) {
                assert!(
                    at >= fourth + least(reorder.tfaw),
                    "five in a window at {at}"
                );
            }
        }
        if let Command::Column { bank, row, .. } = command {
            let of_bank = before.iter().rev().find(|(_, c)| match *c {
                Command::Activate { bank: b, .. } | Command::Precharge { bank: b } => b == bank,
                Command::Refresh => true,
                Command::Column { .. } => false,
            });
            let wanted = Command::Activate { bank, row };
            assert_eq!(of_bank.map(|(_, c)| *c), Some(wanted), "at {at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Each read is answered once, not before its time, and no command breaks a rule.
    #[test]
    fn every_read_is_answered_and_every_command_is_legal(
        ops in prop::collection::vec((0..40u64, 0..6u64, any::<bool>(), 0..60u64), 1..400),
        hits in 1..20u32,
        entries in 1..9u32,
    ) {
        let config = DramConfig::ddr4_3200(1, 16, 0.0);
        let reorder = ReorderConfig {
            row_hits: hits,
            read_entries: entries,
            trefi: 2000,
            ..ReorderConfig::ddr4_3200()
        };
        let mut dram = ReorderingDram::new(&config, &reorder, config.tck_ns).unwrap();
        let (mut now, mut asked, mut got) = (0, Vec::new(), Vec::new());
        for (row, column, write, wait) in ops {
            now += wait;
            got.extend(dram.run_until(now));
            let line = row * ROW + column;
            match write {
                true => dram.write(line, now),
                false => {
                    dram.read(line, now);
                    asked.push((line, now));
                }
            }
        }
        got.extend(finish(&mut dram));
        prop_assert_eq!(got.len(), asked.len());
        for arrival in &got {
            let place = asked.iter().position(|&(line, _)| line == arrival.line);
            let (_, at) = asked.remove(place.expect("asked for"));
            prop_assert!(arrival.at >= at + 4, "{arrival:?} asked at {at}");
        }
        let served: u64 = dram.row_state().iter().sum();
        prop_assert_eq!(served, dram.reads + dram.writes);
        check_commands(&dram.channels[0].log, &config, &reorder);
    }
}

#[test]
fn controllers_that_cannot_work_are_refused() {
    let changes: [fn(&mut ReorderConfig); 5] = [
        |r| r.read_entries = 0,
        |r| r.row_hits = 0,
        |r| r.write_low = 28,
        |r| r.write_high = 33,
        |r| r.trefi = 600,
    ];
    let config = DramConfig::ddr4_3200(1, 16, 0.0);
    for change in changes {
        let mut reorder = ReorderConfig::ddr4_3200();
        change(&mut reorder);
        let error = ReorderingDram::new(&config, &reorder, 0.5).unwrap_err();
        assert_eq!(error.field, "dram.reorder");
    }
}
