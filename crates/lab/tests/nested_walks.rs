// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run of a trace in a virtual machine tells of its walks, from description to JSON.

use ample_lab::recorded::{Model, TraceMemory, run_trace};
use ample_lab::{files, machines};
use ample_trace::{Access, Backing, Region, Replay};
use ample_translate::PageSize;
use serde_json::Value;

const BASE: u64 = 0x10_0000_0000;
const BYTES: u64 = 16 << 20;

/// A run over random lines, as JSON.
fn run(host: Option<PageSize>, set: &[&str]) -> Value {
    let region = Region {
        name: "memory".into(),
        base: BASE,
        bytes: BYTES,
        backing: Backing::Anonymous,
    };
    let line = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 << 6;
    let accesses = (0..20_000).map(|number| Access::load(BASE + line(number) % BYTES, 3));
    let mut trace = Replay::new("random".into(), vec![region], accesses.collect());
    let set: Vec<_> = set
        .iter()
        .map(|text| files::setting(text).unwrap())
        .collect();
    let model = Model {
        machine: machines::changed("skylake", &set).unwrap(),
        scheme: "paging".into(),
        pages: PageSize::K4,
    };
    let memory = TraceMemory {
        host,
        ..TraceMemory::default()
    };
    serde_json::to_value(run_trace(&mut trace, &model, &memory, 0).unwrap()).unwrap()
}

/// Walks by whether a part of their way is there, and all.
fn walks(run: &Value, part: &str) -> (u64, u64) {
    let ways = run["nested_walk_trajectories"].as_object().unwrap();
    let of = |all: &str| -> u64 {
        let those = ways.iter().filter(|(way, _)| way.contains(all));
        those.map(|(_, count)| count.as_u64().unwrap()).sum()
    };
    (of(part), of(""))
}

#[test]
fn walks_of_a_virtual_machine_have_their_ways_in_json() {
    assert_eq!(walks(&run(None, &[]), ""), (0, 0));
    let small = ["mmu.nested_tlb={entries = 1, ways = 1}"];
    let cached = run(Some(PageSize::K4), &small);
    let (whole, all) = walks(&cached, "page:4-1");
    // The first walk for a page faults.
    let counted = |what: &str| cached["model"][what].as_u64().unwrap();
    assert_eq!(all, counted("walks_data") - counted("faults"));
    // Nearly no walk of the host reads all levels, unless the host has no walk caches.
    assert!(all > 1_000 && whole < all / 10, "{whole} of {all}");
    let bare = run(Some(PageSize::K4), &[small[0], "mmu.host_pwc=absent"]);
    let (whole, all) = walks(&bare, "page:4-1");
    assert!(all > 1_000 && whole > all / 10 * 9, "{whole} of {all}");
}

#[test]
fn policies_come_from_a_description() {
    let hits = |set: &[&str]| {
        let run = run(Some(PageSize::M2), set);
        run["walks"]["second_level_hits"].as_u64().unwrap()
    };
    let lru = hits(&["mmu.l2.0.geometry.replacement=lru"]);
    for policy in ["random", "srrip"] {
        let set = format!("mmu.l2.0.geometry.replacement={policy}");
        assert_ne!(hits(&[&set]), lru, "{policy}");
    }
}
