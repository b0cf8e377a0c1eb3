// SPDX-License-Identifier: MIT OR Apache-2.0
//! What guests of the kernel series have decided (`make kernel-decisions`), decided again by the
//! model; and the model under the kernel's resizer.

use super::*;
use crate::config::{Config, PolicyKind, Resizer};
use crate::server::ServerModel;
use crate::workload::{Driver, Workload};
use std::collections::HashMap;

/// Loads of plan `decisions` that were recorded.
const LOADS: [&str; 4] = ["fragmenter", "hold", "pins", "sources"];

/// An event of the kernel: `contiguitas_decide: nid=0 node_pages=...`.
struct Event<'a> {
    line: &'a str,
    name: &'a str,
    fields: HashMap<&'a str, u64>,
}

impl Event<'_> {
    fn parse(line: &str) -> Event<'_> {
        let (name, rest) = line.split_once(": ").expect("name: fields");
        let fields = rest.split(' ').map(|word| {
            let (key, value) = word.split_once('=').expect("name=value");
            let value = value.parse();
            (key, value.unwrap_or_else(|_| panic!("{word} in {line}")))
        });
        Event {
            line,
            name,
            fields: fields.collect(),
        }
    }

    fn get(&self, field: &str) -> u64 {
        let value = self.fields.get(field);
        *value.unwrap_or_else(|| panic!("no {field} in {}", self.line))
    }

    fn is(&self, field: &str) -> bool {
        self.get(field) != 0
    }

    fn state(&self) -> ResizeState {
        ResizeState {
            node_pages: self.get("node_pages"),
            unmov_pages: self.get("unmov_pages"),
            unmov_free_pages: self.get("unmov_free_pages"),
            mov_free_pages: self.get("mov_free_pages"),
            unmov_low_wmark_pages: self.get("unmov_low_wmark_pages"),
            mov_low_wmark_pages: self.get("mov_low_wmark_pages"),
            min_pages: self.get("min_pages"),
            max_pages: self.get("max_pages"),
            block_pages: self.get("block_pages"),
            pressure_unmov_bp: self.get("pressure_unmov_bp") as u32,
            pressure_mov_bp: self.get("pressure_mov_bp") as u32,
        }
    }

    fn params(&self) -> ResizeParams {
        ResizeParams {
            threshold_unmov_bp: self.get("threshold_unmov_bp") as u32,
            threshold_mov_bp: self.get("threshold_mov_bp") as u32,
            c_ue_milli: self.get("c_ue_milli") as u32,
            c_me_milli: self.get("c_me_milli") as u32,
            c_us_milli: self.get("c_us_milli") as u32,
            c_ms_milli: self.get("c_ms_milli") as u32,
        }
    }
}

/// What the recordings hold, so that none of it is missing unseen.
#[derive(Debug, Default)]
struct Seen {
    urgent: u32,
    beyond: u32,
    up: u32,
    down: u32,
    grown: u32,
    steps: u32,
}

fn replay(event: &Event<'_>, seen: &mut Seen) {
    let (state, line) = (event.state(), event.line);
    let mut rounds = Rounds::new(&Mechanisms::default());
    match event.name {
        "contiguitas_decide" => {
            let urgent = event.is("urgent");
            rounds.beyond_after_ns = u64::from(!event.is("beyond"));
            assert_eq!(rounds.params, event.params(), "{line}");
            let decision = rounds.decide(&state, urgent, 0);
            let recorded = Decision {
                target_pages: event.get("target_pages"),
                limit_pages: event.get("limit_pages"),
            };
            assert_eq!(decision, recorded, "{line}");
            seen.urgent += u32::from(urgent);
            seen.beyond += u32::from(recorded.limit_pages > state.max_pages);
            seen.up += u32::from(recorded.target_pages > state.unmov_pages);
            seen.down += u32::from(recorded.target_pages < state.unmov_pages);
        }
        "contiguitas_grow" => {
            rounds.hard = event.is("hard");
            rounds.expand_after_ns = u64::from(event.is("waits"));
            let held = rounds.is_held(&state, event.is("urgent"), 0);
            assert_eq!(held, event.is("held"), "{line}");
            seen.grown += u32::from(!held);
        }
        "contiguitas_step" => {
            let (target, wanted) = (event.get("target_pages"), event.get("wanted_pages"));
            let step = rounds.step(&state, event.is("urgent"), target, wanted);
            let recorded = (event.get("step_pages"), event.is("must"));
            assert_eq!((step, rounds.hard), recorded, "{line}");
            seen.steps += u32::from(step > 0);
        }
        other => panic!("{other} is no decision"),
    }
}

/// The states of a kernel under load, its parameters, and what it decided: all of it again.
#[test]
fn the_model_decides_as_a_kernel_did() {
    let mut all = Seen::default();
    for load in LOADS {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/tests/data");
        let path = format!("{data}/decisions-{load}.trace.zst");
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let text = zstd::decode_all(&bytes[..]).expect("zstd");
        let text = String::from_utf8(text).expect("text");
        for line in text.lines() {
            replay(&Event::parse(line), &mut all);
        }
    }
    let Seen {
        urgent,
        beyond,
        up,
        down,
        grown,
        steps,
    } = all;
    let least = [urgent, beyond, up, down, grown, steps].into_iter().min();
    assert!(least >= Some(5), "{all:?}");
}

/// A server of 256 MB under the kernel's resizer: confined, and within its maximum unless
/// somebody waited.
#[test]
fn the_kernels_resizer_serves_the_model() {
    let mut config = Config::new(PolicyKind::Contiguitas);
    config.memory_bytes = 256 << 20;
    config.policy.resizer = Resizer::Kernel;
    let mut server = ServerModel::new(&config).expect("a size");
    let workload = Workload::load("web").expect("a shipped workload");
    let mut driver = Driver::new(&mut server, &workload, config.event_ratio);
    for _ in 0..300 {
        driver.second(&mut server);
    }
    server.check().expect("confined");
    let counters = &server.kernel.counters;
    assert!(counters.border_expanded_blocks > 0, "{counters:?}");
    assert_eq!(counters.failed_unmovable, 0, "{counters:?}");
}

/// Who waits gets room beyond the maximum once in 100 ms, and no more than a block.
#[test]
fn who_waits_goes_beyond_the_maximum_in_small_steps() {
    let mut rounds = Rounds::new(&Mechanisms::default());
    let mut state = ResizeState {
        node_pages: 1 << 16,
        unmov_pages: 1 << 14,
        max_pages: 1 << 14,
        block_pages: 512,
        ..Default::default()
    };
    let first = rounds.decide(&state, true, 0);
    assert_eq!(first.target_pages, (1 << 14) + 512);
    state.unmov_pages = first.target_pages;
    assert_eq!(
        rounds.decide(&state, true, 1_000_000).target_pages,
        (1 << 14) + 512
    );
    let later = rounds.decide(&state, true, 100_000_000);
    assert_eq!(later.target_pages, (1 << 14) + 1024);
}

/// A region of 64 MB on a node of 1 GB, `free` of it free, under `pressure_bp` of waiting for it.
fn region_of_64_mb(free: u64, pressure_bp: u32) -> ResizeState {
    ResizeState {
        node_pages: 1 << 18,
        unmov_pages: 1 << 14,
        unmov_free_pages: free,
        mov_free_pages: 1 << 16,
        unmov_low_wmark_pages: 2048,
        max_pages: 1 << 16,
        min_pages: 512,
        block_pages: 512,
        pressure_unmov_bp: pressure_bp,
        ..Default::default()
    }
}

/// Where a round wants the border, in blocks from where it is.
fn blocks(on: &Mechanisms, state: &ResizeState) -> i64 {
    let target = Rounds::new(on).decide(state, false, 0).target_pages;
    (target as i64 - state.unmov_pages as i64) / 512
}

fn blocks_without(mechanism: &str, state: &ResizeState) -> i64 {
    blocks(&Mechanisms::without(mechanism).expect("a name"), state)
}

/// Each of the resizer's two rules can be taken away alone, and the other still holds.
#[test]
fn a_part_of_the_kernels_decisions_can_be_off() {
    let all = Mechanisms::default();
    // Short of free pages: Algorithm 1 would double the region, the review asks for what lacks.
    let short = region_of_64_mb(1000, 5000);
    assert_eq!(blocks(&all, &short), 5);
    assert_eq!(blocks_without("review", &short), 32);
    assert_eq!(blocks_without("algorithm1", &short), 5);
    assert_eq!(blocks_without("review+algorithm1", &short), 7);
    // Pressure with pages above the mark: only Algorithm 1 asks for more.
    let pressed = region_of_64_mb(2500, 5000);
    assert_eq!(blocks(&all, &pressed), 2);
    assert_eq!(blocks_without("algorithm1", &pressed), 0);
    // Pages to spare and no pressure: only the review gives them back.
    let spare = region_of_64_mb(12000, 0);
    assert_eq!(blocks(&all, &spare), -4);
    assert_eq!(blocks_without("algorithm1", &spare), -4);
    assert_eq!(blocks_without("review+algorithm1", &spare), 0);
}
