// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the metrics move when page-cache traffic is thinned, and when the server is smaller.
//!
//! `cargo run --release -p ample-lab --example convergence -- [SEEDS [HOURS]]`

use ample_lab::server_model::{Fig11Row, Params, fig11};
use ample_mm::PolicyKind;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| -> u64 {
        let text = args.get(index).map(String::as_str);
        text.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (seeds, hours) = (number(0, 5), number(1, 3));
    println!(
        "| memory GB | page cache simulated | workload | policy | 2 MB % | 4 KB % | free inside % |"
    );
    println!("|---|---|---|---|---|---|---|");
    let points = [
        (4, 1.0),
        (4, 0.5),
        (4, 0.25),
        (4, 0.125),
        (2, 1.0),
        (1, 1.0),
    ];
    for (gb, event_ratio) in points {
        let mut experiment = Params::shipped("fig11").ok_or("no fig11")?;
        experiment.params = Params {
            memory_bytes: gb << 30,
            duration_s: hours as f64 * 3600.0,
            seeds: (1..=seeds).collect(),
            event_ratio,
            workloads: vec!["web".into(), "cache-b".into(), "ci".into()],
            policies: vec![PolicyKind::Linux, PolicyKind::Contiguitas],
            ..experiment.params
        };
        for row in fig11(&experiment, &|_| {})?.rows {
            print_row(gb, event_ratio, &row);
        }
    }
    Ok(())
}

fn print_row(gb: u64, event_ratio: f64, row: &Fig11Row) {
    println!(
        "| {gb} | {event_ratio} | {} | {} | {:.1} ({:.1}–{:.1}) | {:.1} | {:.1} |",
        row.workload,
        row.policy.name(),
        100.0 * row.unmovable_2m_ratio.mean,
        100.0 * row.unmovable_2m_ratio.min,
        100.0 * row.unmovable_2m_ratio.max,
        100.0 * row.unmovable_page_ratio.mean,
        100.0 * row.internal_fragmentation_ratio.mean,
    );
}
