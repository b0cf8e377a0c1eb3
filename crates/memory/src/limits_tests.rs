// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of memory that serves requests as they come: closed forms, and the controller that works
//! command by command.

use crate::limits::Limits;
use crate::{Dram, DramConfig, LimitsConfig, MainMemory, ReorderConfig, ReorderingDram};
use ample_kit::random::SplitMix64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Lines of a row.
const ROW: u64 = 128;

fn config(change: impl Fn(&mut LimitsConfig)) -> DramConfig {
    // None costs anything.
    let mut limits = LimitsConfig {
        trrd: 4,
        tfaw: 0,
        twtr: 0,
        write_batch: 1,
        trefi: 0,
        trfc: 0,
    };
    change(&mut limits);
    DramConfig {
        limits: Some(limits),
        ..DramConfig::ddr4_3200(1, 16, 0.0)
    }
}

/// Times in memory clock cycles, no controller.
fn limited(change: impl Fn(&mut LimitsConfig)) -> Dram {
    Dram::new(&config(change), 0.625).unwrap()
}

#[test]
fn a_window_holds_four_activations() {
    let mut dram = limited(|l| l.tfaw = 36);
    let ends: Vec<u64> = (0..9).map(|row| dram.read(row * ROW, 0)).collect();
    assert_eq!(ends[..4], [48, 52, 56, 60], "as without");
    assert_eq!(ends[4..8], [84, 88, 92, 96], "a window later");
    assert_eq!(ends[8], 2 * 36 + 48);
    // A hit activates nothing.
    assert_eq!(dram.read(1, 0), 64);
    // An earlier one leaves those that follow it room: two before the four from 200 on.
    let late: Vec<u64> = (16..20).map(|row| dram.read(row * ROW, 200)).collect();
    assert!(late[3] < 200 + 52 + 70 + 36, "{late:?}");
}

#[test]
fn every_window_holds_four_activations_at_most() {
    let config = config(|l| (l.trrd, l.tfaw) = (4, 34));
    let mut limits = Limits::new(&config.limits.unwrap(), 1, config.cl, 1.0);
    let mut rng = SplitMix64::new(5);
    let mut slots: Vec<u64> = Vec::new();
    for n in 0..2000u64 {
        let asked = n * 9 + rng.below(200);
        let given = limits.activation(0, asked);
        assert!(given >= asked);
        slots.push(given / 4);
    }
    slots.sort_unstable();
    assert!(slots.windows(2).all(|two| two[0] < two[1]), "one a slot");
    assert!(
        slots.windows(5).all(|five| five[4] - five[0] >= 9),
        "34 cycles are 9 slots"
    );
}

#[test]
fn a_refresh_is_waited_for_and_closes_rows() {
    let mut dram = limited(|l| (l.trefi, l.trfc) = (12_480, 560));
    assert_eq!(dram.read(0, 100), 148, "none at the start");
    assert_eq!(dram.read(1, 12_000), 12_026, "the row is open");
    assert_eq!(dram.read(2, 12_500), 12_480 + 560 + 48, "closed meanwhile");
    assert_eq!(dram.read(3, 13_100), 13_126);
    assert_eq!(dram.read(4, 26_000), 26_048, "closed by the second");
    // A row that would have been closed for another is closed already.
    assert_eq!(dram.read(17 * ROW, 39_000), 39_048);
    assert_eq!(dram.row_state, [2, 4, 0]);
}

#[test]
fn channels_refresh_in_turn() {
    let mut two = config(|l| (l.trefi, l.trfc) = (12_480, 560));
    two.channels = 2;
    let mut dram = Dram::new(&two, 0.625).unwrap();
    assert_eq!(dram.read(1, 6_240), 6_240 + 560 + 48, "half a period ahead");
    assert_eq!(dram.read(0, 6_240), 6_240 + 48);
    assert_eq!(dram.read(4 * ROW, 12_480), 12_480 + 560 + 48);
}

#[test]
fn the_bus_turns_once_for_a_batch() {
    let mut dram = limited(|l| (l.twtr, l.write_batch) = (12, 4));
    (0..3).for_each(|line| dram.write(line, 0));
    assert_eq!(dram.read(5, 0), 48, "the writes wait");
    dram.write(3, 100);
    // Four row hits from 100 on, data until 136; 36 cycles, nine bursts, for the turns.
    assert_eq!(dram.read(6, 116), 136 + 36 + 4);
    assert_eq!((dram.reads, dram.writes), (2, 4));
    // Memory that is never written to again keeps what waits.
    dram.write(4, 1000);
    assert_eq!(dram.row_state.iter().sum::<u64>() + 1, 7);
}

#[test]
fn limits_that_cost_nothing_change_nothing() {
    let mut rng = SplitMix64::new(3);
    let mut plain = Dram::new(&DramConfig::ddr4_3200(2, 16, 20.0), 0.25).unwrap();
    let mut free = config(|_| {});
    (free.channels, free.controller_ns) = (2, 20.0);
    let mut free = Dram::new(&free, 0.25).unwrap();
    // A write by itself costs two turns even without tWTR, so that reads alone are equal.
    let mut now = 0;
    for _ in 0..100_000 {
        now += rng.below(200);
        let early = now - rng.below(now.min(100) + 1);
        let line = rng.below(1 << 14);
        assert_eq!(plain.read(line, early), free.read(line, early));
    }
    assert_eq!(plain.row_state, free.row_state);
}

#[test]
fn limits_that_cannot_be_built_are_refused() {
    for change in [
        (|c| {
            c.limits = Some(LimitsConfig {
                write_batch: 0,
                ..LimitsConfig::default()
            })
        }) as fn(&mut DramConfig),
        |c| {
            c.limits = Some(LimitsConfig {
                trefi: 600,
                ..LimitsConfig::default()
            })
        },
        |c| {
            c.limits = Some(LimitsConfig {
                trrd: 0,
                ..LimitsConfig::default()
            })
        },
        |c| c.reorder = Some(ReorderConfig::ddr4_3200()),
    ] {
        let mut config = config(|_| {});
        change(&mut config);
        assert_eq!(config.check().unwrap_err().field, "dram.limits");
    }
}

/// Cycles a request when `width` reads are on their way, each asked for when the one `width`
/// before it has arrived; every `one_in`th of all requests is a write.
fn in_order(dram: &mut Dram, width: usize, lines: &[(u64, bool)]) -> f64 {
    let mut done = vec![0u64; width];
    let mut asked = 0;
    for &(line, write) in lines {
        let slot = asked % width;
        match write {
            true => dram.write(line, done[slot]),
            false => {
                done[slot] = dram.read(line, done[slot]);
                asked += 1;
            }
        }
    }
    done.into_iter().max().unwrap_or(0) as f64 / lines.len() as f64
}

/// The same of the controller that works command by command.
fn reordered(dram: &mut ReorderingDram, width: usize, lines: &[(u64, bool)]) -> f64 {
    let (mut now, mut on_the_way) = (0, 0);
    let mut arrivals = BinaryHeap::new();
    let mut one_arrives = |dram: &mut ReorderingDram| {
        loop {
            let next = dram.next_event().unwrap_or(u64::MAX);
            match arrivals.peek() {
                Some(&Reverse(at)) if at <= next => break,
                _ => arrivals.extend(dram.run_until(next).map(|a| Reverse(a.at))),
            }
        }
        let Reverse(at) = arrivals.pop().expect("it was looked at");
        at
    };
    for &(line, write) in lines {
        if write {
            dram.write(line, now);
            continue;
        }
        if on_the_way == width {
            now = one_arrives(dram).max(now);
            on_the_way -= 1;
        }
        dram.read(line, now);
        on_the_way += 1;
    }
    for _ in 0..on_the_way {
        now = one_arrives(dram).max(now);
    }
    now as f64 / lines.len() as f64
}

/// What the limits are worth: requests of one core as a controller of commands serves them.
#[test]
fn one_core_is_served_as_by_a_controller_of_commands() {
    let plain = DramConfig::ddr4_3200(1, 16, 0.0);
    let limits = Some(LimitsConfig::default());
    let reorder = ReorderConfig::ddr4_3200();
    let mut rng = SplitMix64::new(1);
    let n = 100_000u64;
    for (pattern, width, one_in, random) in [
        ("a chase", 1, 0, true),
        ("ten random reads", 10, 0, true),
        ("32 random reads", 32, 0, true),
        ("ten random, one in four written", 10, 4, true),
        ("a stream", 16, 0, false),
        ("a stream, one in four written", 16, 4, false),
    ] {
        let line = |at: u64, rng: &mut SplitMix64| match random {
            true => rng.below(1 << 24),
            false => at,
        };
        let lines: Vec<(u64, bool)> = (0..n)
            .map(|at| (line(at, &mut rng), one_in > 0 && at % one_in == 0))
            .collect();
        let with = DramConfig { limits, ..plain };
        let cycles = [plain, with].map(|config| {
            let mut dram = Dram::new(&config, 0.625).expect("valid");
            in_order(&mut dram, width, &lines)
        });
        let mut commands = ReorderingDram::new(&plain, &reorder, 0.625).expect("valid");
        let reference = reordered(&mut commands, width, &lines);
        let [without, with] = cycles.map(|own| own / reference);
        println!("{pattern}: {reference:.2} cycles; {without:.3} without limits, {with:.3}");
        assert!((with - 1.0).abs() < 0.1, "{pattern}: {with}");
    }
}
