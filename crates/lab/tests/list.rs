// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every experiment of the list: its file, its needs, its quick run, and its result read back.

use ample_lab::claims::{Claim, Verdict, judge, shipped};
use ample_lab::experiment::{AnyExperiment, Finished, Request};
use ample_lab::files::setting;
use ample_lab::needs::Need;
use ample_lab::{ALL, by_id};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

/// Servers so small that a figure over all workloads and policies takes a second.
const SMALL_SERVERS: &[&str] = &[
    "memory_bytes=268435456",
    "duration_s=300.0",
    "sample_every_s=100.0",
    "seeds=[1]",
];

/// Further settings for those whose quick version takes long in a test build.
const SMALLER: [(&str, &[&str]); 14] = [
    ("fig11", SMALL_SERVERS),
    ("fig12", SMALL_SERVERS),
    ("ablation", SMALL_SERVERS),
    ("ablation-day", SMALL_SERVERS),
    ("hw-classes", SMALL_SERVERS),
    (
        "drift",
        &["memory_bytes=67108864", "seeds=[1]", r#"workloads=["web"]"#],
    ),
    ("scatter", &[r#"folders=["kernel/tests/data"]"#]),
    (
        "server-sensitivity",
        &[
            "memory_bytes=134217728",
            "duration_s=120.0",
            "sample_every_s=40.0",
            "seeds=[1]",
            r#"workloads=["web"]"#,
        ],
    ),
    (
        "translation-sensitivity",
        &[
            "length={warm_up_accesses=2000,accesses=4000}",
            r#"programs=[{program="gups",work=1.0},{program="bt",work=3.9}]"#,
            "kernel.length={warm_up_accesses=2000,accesses=4000}",
        ],
    ),
    (
        "gain-sensitivity",
        &[
            "memory_bytes=134217728",
            "fragmenter_s=20.0",
            "duration_s=30.0",
            "seeds=[1]",
        ],
    ),
    (
        "service-sensitivity",
        &["length={warm_up_accesses=2000,accesses=4000}", "seeds=[1]"],
    ),
    (
        "fig10",
        &[
            "memory_bytes=268435456",
            "fragmenter_s=60.0",
            "duration_s=60.0",
        ],
    ),
    (
        "perforated-programs",
        &[
            "programs=[\"gups\"]",
            "fragmented_shares=[0.5]",
            "virtualised=[false]",
            "variants=[]",
        ],
    ),
    (
        "fragmentation",
        &["programs=[\"gups\"]", "virtualised=[false]"],
    ),
];

/// Results as they were printed, of those that need programs which a test may not have built.
const EXAMPLES: [(&str, &str); 9] = [
    ("hw-cost", include_str!("examples/hw-cost.json")),
    ("hw-rtl", include_str!("examples/hw-rtl.json")),
    ("hw-slice", include_str!("examples/hw-slice.json")),
    (
        "kernel-hotpath",
        include_str!("examples/kernel-hotpath.json"),
    ),
    (
        "temeraire-fig10",
        include_str!("examples/temeraire-fig10.json"),
    ),
    (
        "temeraire-fig11",
        include_str!("examples/temeraire-fig11.json"),
    ),
    (
        "temeraire-fig12",
        include_str!("examples/temeraire-fig12.json"),
    ),
    (
        "temeraire-drop",
        include_str!("examples/temeraire-drop.json"),
    ),
    (
        "allocator-fleet",
        include_str!("examples/allocator-fleet.json"),
    ),
];

/// Those that measure this machine for longer than a test may take; no claim speaks of them.
const NOT_RUN: [&str; 2] = ["chase", "chase-stride"];

/// Those that print values only.
const NO_FIGURE: [&str; 2] = ["presets", "perforated-storage"];

fn quick(experiment: &dyn AnyExperiment) -> Finished {
    let id = experiment.about().id.as_str();
    let set = SMALLER.iter().find(|(smaller, _)| *smaller == id);
    let set = set.map_or(&[][..], |(_, set)| *set);
    let request = Request {
        quick: true,
        set: set
            .iter()
            .map(|text| setting(text).expect("a setting"))
            .collect(),
        ..Request::default()
    };
    let prepared = experiment.prepare(&request).expect("shipped parameters");
    let told = |share: f64| assert!((0.0..=1.0).contains(&share), "{share}");
    let result = prepared.run(&told);
    result.unwrap_or_else(|error| panic!("{id}: {error:#}"))
}

#[test]
fn every_file_is_in_the_list_and_every_experiment_has_a_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("experiments/") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().and_then(|name| name.to_str());
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if path.extension().is_some_and(|ext| ext == "toml") && text.contains("\n[experiment]\n") {
            files.insert(stem.expect("a name").to_string());
        }
    }
    let listed: BTreeSet<String> = ALL.iter().map(|e| e.about().id.to_string()).collect();
    assert_eq!(files, listed);
    for experiment in ALL {
        let about = experiment.about();
        let said = [&about.title, &about.calibrated, &about.predicted];
        assert!(said.iter().all(|text| !text.is_empty()), "{}", about.id);
        let quick = about.quick_cost.seconds;
        assert!((1.0..=about.cost.seconds).contains(&quick), "{}", about.id);
        assert!(quick <= 30.0 || about.needs.contains(&Need::KernelGuest));
    }
}

/// An own file is refused with these parts in the message.
fn assert_refused(experiment: &dyn AnyExperiment, text: &str, parts: [&str; 3]) {
    let request = Request {
        file: Some(("my.toml", text)),
        ..Request::default()
    };
    let error = experiment.prepare(&request).err().expect("an unknown key");
    let error = format!("{error:#}");
    for part in parts {
        assert!(error.contains(part), "{}: {error}", experiment.about().id);
    }
}

#[test]
fn wrong_parameters_are_refused_with_file_and_line() {
    for experiment in ALL {
        let text = experiment
            .shipped()
            .replacen("[parameters]\n", "[parameters]\nnope = 5\n", 1);
        assert_refused(*experiment, &text, ["my.toml", "line ", "nope"]);
    }
}

#[test]
fn a_wrong_quick_version_is_refused_with_file_and_field() {
    for experiment in ALL {
        let shipped = experiment.shipped();
        let text = match shipped.contains("\n[quick]\n") {
            true => shipped.replacen("\n[quick]\n", "\n[quick]\nnope = 5\n", 1),
            false => format!("{shipped}\n[quick]\nnope = 5\n"),
        };
        assert_refused(*experiment, &text, ["my.toml", "[quick]", "nope"]);
    }
}

#[test]
fn a_file_without_a_quick_version_takes_the_shipped_one() {
    let walks = ample_lab::by_id("walks").expect("walks");
    let (own, _) = walks.shipped().split_once("[quick]").expect("its table");
    let own = own.replace("contiguitas-table1", "skylake");
    let request = Request {
        file: Some(("my.toml", &own)),
        quick: true,
        ..Request::default()
    };
    let parameters = walks.prepare(&request).expect("reads").parameters;
    assert_eq!(
        (&parameters["machine"], &parameters["scale"]),
        (&"skylake".into(), &"tiny".into())
    );
}

#[test]
fn an_unknown_machine_is_refused_with_those_known() {
    for experiment in ALL.iter().filter(|e| e.about().needs.is_empty()) {
        let named = |line: &&str| line.starts_with("machine = ");
        let Some(line) = experiment.shipped().lines().find(named) else {
            continue;
        };
        let text = experiment
            .shipped()
            .replace(line, "machine = \"no such machine\"");
        let request = Request {
            file: Some(("my.toml", &text)),
            quick: true,
            ..Request::default()
        };
        let prepared = experiment.prepare(&request).expect("parses");
        let error = format!("{:#}", prepared.run(&|_| {}).expect_err("no such machine"));
        assert!(
            error.contains("known:"),
            "{}: {error}",
            experiment.about().id
        );
    }
}

/// Every check of a claim finds its values in the result of its experiment: a renamed field, or a
/// row that the quick version leaves out, fails here.
fn assert_claims_bound(claims: &[Claim], id: &str, result: &Finished) {
    let judged = judge(claims, true, |of| (of == id).then_some(&result.value));
    for claim in &judged {
        for check in claim.checks.iter().filter(|check| check.experiment == id) {
            let (claim, name) = (&claim.id, &check.name);
            assert_ne!(check.verdict, Verdict::Broken, "{id}: {claim}, {name}");
        }
    }
}

#[test]
fn quick_results_read_back_equal_show_their_values_and_those_of_claims() {
    let claims = shipped();
    let wanted = |experiment: &&&dyn AnyExperiment| {
        let about = experiment.about();
        about.needs.is_empty() && !NOT_RUN.contains(&about.id.as_str())
    };
    ALL.par_iter().filter(wanted).for_each(|experiment| {
        let id = experiment.about().id.as_str();
        let result = quick(*experiment);
        assert!(!result.partial, "{id}");
        assert_claims_bound(&claims, id, &result);
        let again = experiment.read_back(&result.json).expect("reads back");
        assert_eq!(again.json, result.json, "{id}");
        assert_eq!(again.figures, result.figures, "{id}");
        assert_eq!(result.figures.is_empty(), NO_FIGURE.contains(&id), "{id}");
        assert!(result.text().lines().count() > 1, "{id}");
        for figure in &result.figures {
            assert!(figure.svg.starts_with("<svg"), "{id}");
            assert!(!figure.svg.contains("NaN"), "{id}");
        }
        assert!(result.rows.iter().all(|rows| !rows.to_csv().is_empty()));
        let other = result
            .json
            .replace(result.value["schema"].as_str().expect("a schema"), "x");
        assert!(experiment.read_back(&other).is_err(), "{id}");
    });
}

#[test]
fn claims_of_experiments_that_need_programs_find_their_values_in_an_example() {
    let claims = shipped();
    for (id, json) in EXAMPLES {
        let experiment = by_id(id).expect("listed");
        assert_claims_bound(&claims, id, &experiment.read_back(json).expect(id));
    }
    for check in claims.iter().flat_map(|claim| &claim.checks) {
        let id = check.experiment.as_str();
        let runs = by_id(id).expect("listed").about().needs.is_empty() && !NOT_RUN.contains(&id);
        assert!(
            runs || EXAMPLES.iter().any(|(example, _)| *example == id),
            "{id}"
        );
    }
}
