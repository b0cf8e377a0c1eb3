// SPDX-License-Identifier: MIT OR Apache-2.0
//! Campaigns of the server model: the same bytes on any number of threads, whatif complete.

use ample_lab::by_id;
use ample_lab::experiment::Request;
use ample_lab::files::setting;
use ample_lab::whatif::simulate::{FreshServers, SimulatedRuns, WhatIfPlan, whatif};
use ample_mm::{RunResult, Workload};
use ample_pfn::{Layout, PageClass, Pfn};

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let fig11 = by_id("fig11").expect("listed");
    let set = [
        "memory_bytes=536870912",
        "duration_s=600",
        "sample_every_s=300",
        "seeds=[1, 2]",
        "workloads=[\"web\", \"ci\"]",
        // As the guide to add a policy shows one next to stock Linux.
        "policies=[\"linux\",\"contiguitas\"]",
    ];
    let request = Request {
        set: set.map(|text| setting(text).expect("a setting")).to_vec(),
        ..Request::default()
    };
    let prepared = fig11.prepare(&request).expect("parameters");
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let result = pool.expect("threads").install(|| prepared.run(&|_| {}));
        result.expect("a result")
    };
    let one = with(1);
    assert_eq!(one.json, with(3).json);
    let rows = one.value["rows"].as_array().expect("rows").iter();
    let policies: Vec<_> = rows.map(|row| row["policy"].as_str()).collect();
    assert_eq!(
        policies,
        ["linux", "contiguitas"]
            .repeat(2)
            .into_iter()
            .map(Some)
            .collect::<Vec<_>>()
    );
}

/// A machine with a hole, firmware, kernel memory all over and page cache.
fn snapshot() -> (Layout, Vec<PageClass>) {
    let layout = Layout::single(Pfn(1), 131_071);
    let classes = (1..131_072u32).map(|pfn| match (pfn / 512, pfn % 512) {
        (100..110, _) => PageClass::Hole,
        (0, 0..160) => PageClass::Reserved,
        (_, 7) => PageClass::Network,
        (_, 8..100) => PageClass::Anon,
        (_, 100..=299) => PageClass::File,
        (0..8, _) => PageClass::Slab,
        (_, 301) => PageClass::FreePcp,
        _ => PageClass::Free,
    });
    (layout, classes.collect())
}

/// Same bytes out on one thread and on several; with servers, the ablation is complete.
#[test]
fn whatif_runs_every_policy_from_a_snapshot() {
    let (layout, classes) = snapshot();
    let plan = WhatIfPlan {
        workload: Workload::load("web").expect("shipped"),
        duration_s: 300.0,
        seed: 1,
        event_ratio: 1.0,
        servers: Some(FreshServers {
            memory_bytes: 256 << 20,
            duration_s: 60.0,
            seeds: 2,
        }),
    };
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let result = pool
            .expect("threads")
            .install(|| whatif(&layout, &classes, &plan, &|_| {}));
        result.expect("a result")
    };
    let result = on(3);
    assert_eq!(result.futures.len(), 5);
    let ratio = |at: usize| result.futures[at].samples[0].unmovable_2m_ratio;
    assert!(
        ratio(0) > 0.9 && ratio(3) < 0.3,
        "{} {}",
        ratio(0),
        ratio(3)
    );
    assert_eq!(result.servers.len(), 4 * 5 * 2);
    let names: Vec<&str> = result.ablation.iter().map(|row| row.0.as_str()).collect();
    assert_eq!((names.len(), names[0]), (8, "complete"));
    assert!(names[1..].iter().all(|name| name.starts_with("without ")));
    let json = |whatif: &SimulatedRuns| {
        let runs = whatif.futures.iter().chain(&whatif.servers);
        let all: Vec<&RunResult> = runs
            .chain(whatif.ablation.iter().map(|row| &row.1))
            .collect();
        serde_json::to_string(&all).expect("JSON")
    };
    assert_eq!(json(&result), json(&on(1)));
}
