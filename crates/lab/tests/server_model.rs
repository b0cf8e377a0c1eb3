// SPDX-License-Identifier: MIT OR Apache-2.0
//! Campaigns of the server model: the same bytes on any number of threads, whatif complete.

use ample_lab::by_id;
use ample_lab::experiment::Request;
use ample_lab::files::setting;
use ample_lab::whatif::options::Choice;
use ample_lab::whatif::simulate::{FutureRun, SimulatedRuns, WhatIfPlan, whatif};
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

/// `resizer = "model"` resizes by parameters of the model's own in place of the kernel's, and says
/// so in the result, as `costly = "patient"` does; the defaults leave no trace in it.
#[test]
fn parameters_take_rules_of_the_model_in_place_of_the_kernels() {
    let fig11 = by_id("fig11").expect("listed");
    let found = |more: &[&str]| {
        let set = [
            "memory_bytes=268435456",
            "duration_s=600",
            "sample_every_s=300",
            "seeds=[1]",
            "workloads=[\"web\"]",
            "policies=[\"contiguitas\"]",
        ];
        let set = set.iter().chain(more);
        let request = Request {
            set: set.map(|text| setting(text).expect("a setting")).collect(),
            ..Request::default()
        };
        let prepared = fig11.prepare(&request).expect("parameters");
        prepared.run(&|_| {}).expect("a result").value
    };
    let (kernel, own) = (found(&[]), found(&["resizer=\"model\""]));
    assert_ne!(own["rows"], kernel["rows"]);
    assert_eq!(own["experiment"]["params"]["resizer"], "model");
    assert!(kernel["experiment"]["params"].get("resizer").is_none());
    let patient = found(&["costly=\"patient\""]);
    assert_eq!(patient["experiment"]["params"]["costly"], "patient");
    assert!(kernel["experiment"]["params"].get("costly").is_none());
    let wrong = Request {
        set: vec![setting("resizer=\"paper\"").expect("a setting")],
        ..Request::default()
    };
    let refused = fig11
        .prepare(&wrong)
        .err()
        .map(|error| format!("{error:#}"));
    assert!(refused.is_some_and(|text| text.contains("resizer")));
}

/// With the same mean, higher and rarer bursts of kernel memory scatter more of it under stock
/// Linux, and little more under Contiguitas.
#[test]
fn higher_bursts_scatter_more_pages_under_stock_linux() {
    let found = |burst_factor: f64| {
        let set = [
            "memory_bytes=1073741824",
            "duration_s=3600",
            "workloads=[\"web\", \"cache-b\"]",
            "policies=[\"linux\",\"contiguitas\"]",
            &format!("burst_factor={burst_factor:?}"),
        ];
        let request = Request {
            set: set.map(|text| setting(text).expect("a setting")).to_vec(),
            ..Request::default()
        };
        let fig11 = by_id("fig11").expect("listed");
        let prepared = fig11.prepare(&request).expect("parameters");
        let result = prepared.run(&|_| {}).expect("a result");
        let mean = |policy: &str, metric: &str| {
            let summary = result.value["summary"].as_array().expect("rows").iter();
            let mut summary = summary.filter(|row| row["policy"] == policy);
            let row = summary.find(|row| row["metric"] == metric).expect("a row");
            row["here"]["mean"].as_f64().expect("a number")
        };
        ["linux", "contiguitas"]
            .map(|policy| ["unmovable_2m_ratio", "unmovable_page_ratio"].map(|m| mean(policy, m)))
    };
    let ([low, high], text) = ([found(1.0), found(4.0)], "one and four times");
    for policy in [0, 1] {
        let pages = high[policy][1] / low[policy][1];
        assert!((0.9..=1.1).contains(&pages), "{text}: {low:?} and {high:?}");
    }
    assert!(high[0][0] > low[0][0] * 1.3, "{text}: {low:?} and {high:?}");
    assert!(high[1][0] < low[1][0] * 1.3, "{text}: {low:?} and {high:?}");
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

/// Same bytes out on one thread and on several; every seed adds to the verdict on the way.
#[test]
fn whatif_runs_every_option_with_every_seed_from_a_snapshot() {
    let (layout, classes) = snapshot();
    let plan = WhatIfPlan {
        workload: Workload::load("web").expect("shipped"),
        duration_s: 300.0,
        seed: 1,
        seeds: 5,
        event_ratio: 1.0,
        marks: None,
    };
    let on = |threads| {
        let told = std::sync::Mutex::new(Vec::new());
        let sharpened = |runs: &SimulatedRuns| told.lock().expect("no panic").push(runs.clone());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let result = pool
            .expect("threads")
            .install(|| whatif(&layout, &classes, &plan, &|_| {}, &sharpened));
        let told = told.into_inner().expect("no panic");
        assert_eq!(told.len(), 5);
        for (seeds, runs) in (1..).zip(&told) {
            let sentence = runs.under_way.as_deref().expect("runs are under way");
            assert!(
                sentence.starts_with(&format!("After {seeds} of 5 seeds: ")),
                "{sentence}"
            );
            for compared in [Choice::Nothing, Choice::Contiguitas] {
                assert!(runs.of(compared).count() >= seeds, "{sentence}");
            }
        }
        result.expect("a result")
    };
    let result = on(3);
    assert_eq!(result.under_way, None);
    assert_eq!(result.futures.len(), 7 * 5);
    let first = |choice| {
        let run = result.of(choice).next().expect("a run");
        run.samples[0].unmovable_2m_ratio
    };
    let (stock, confined) = (first(Choice::Nothing), first(Choice::Contiguitas));
    assert!(stock > 0.9 && confined < 0.3, "{stock} {confined}");
    let with_map = |own: &&FutureRun| !own.run.map_after.is_empty();
    assert_eq!(
        result.futures.iter().filter(with_map).count(),
        7,
        "of the first seed"
    );
    let json = |whatif: &SimulatedRuns| {
        let runs: Vec<&RunResult> = whatif.futures.iter().map(|own| &own.run).collect();
        serde_json::to_string(&runs).expect("JSON")
    };
    assert_eq!(json(&result), json(&on(1)));
    let too_few = WhatIfPlan { seeds: 4, ..plan };
    let error = whatif(&layout, &classes, &too_few, &|_| {}, &|_| {}).expect_err("no interval");
    assert!(error.to_string().contains("at least 5"), "{error}");
}
