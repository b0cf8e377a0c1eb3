// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guide "Add a workload" in `docs/server-model.md`, step by step.

use ample_mm::workload::shipped_workloads;
use ample_mm::{Config, PolicyKind, Workload, run};
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Steps 1 and 2: the file that the guide shows is a workload, and it runs under every policy.
#[test]
fn the_workload_of_the_guide_runs_under_every_policy() {
    let guide = include_str!("../../../docs/server-model.md");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/batch.toml");
    let text = std::fs::read_to_string(&file).expect("the file");
    let shown = text.split_once('\n').expect("a licence line").1;
    assert!(guide.contains(&format!("```toml\n{shown}```\n")), "copy it");
    let workload = Workload::load(file.to_str().expect("UTF-8")).expect("a workload");
    for kind in PolicyKind::ALL {
        let mut config = Config::new(kind);
        config.memory_bytes = 128 << 20;
        let result = run(&config, &workload, 120.0, 60.0, &|_| {}).expect("a run");
        let last = result.samples.last().expect("a sample");
        assert!(last.unmovable_page_ratio > 0.01, "{}", kind.name());
        assert_eq!(result.counters.oom_kills, 0, "{}", kind.name());
    }
}

/// Step 3: each file of `experiments/workloads` is shipped under its name.
#[test]
fn every_workload_file_is_shipped_under_its_name() {
    let folder = Path::new(ROOT).join("experiments/workloads");
    let mut files: Vec<String> = (std::fs::read_dir(folder).expect("the workloads"))
        .map(|entry| entry.expect("an entry").path())
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into())
        .collect();
    let mut shipped: Vec<String> = shipped_workloads().map(str::to_string).collect();
    files.sort();
    shipped.sort();
    assert_eq!(files, shipped);
    for name in shipped {
        assert_eq!(Workload::load(&name).expect(&name).name, name);
    }
}
