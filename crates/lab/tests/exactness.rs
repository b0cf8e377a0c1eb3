// SPDX-License-Identifier: MIT OR Apache-2.0
//! The laws that the experiment `exactness` checks hold, with fewer random accesses than it takes.

use ample_lab::experiment::Experiment;
use ample_lab::translation::exactness::{ExactCounts, ExactRule, ExactnessParams, UniformTlb};
use ample_translate::PageSize;

fn params() -> ExactnessParams {
    ExactnessParams {
        machine: "perforated-skylake".into(),
        uniform: vec![
            tlb(64, 64, PageSize::K4),
            tlb(1536, 12, PageSize::K4),
            tlb(96, 6, PageSize::K4),
            tlb(32, 4, PageSize::M2),
        ],
        pages_per_entry: vec![2.0, 16.0],
        uniform_warm_up: 200_000,
        uniform_accesses: 4_000_000,
        seed: 5,
    }
}

fn tlb(entries: u32, ways: u32, page: PageSize) -> UniformTlb {
    UniformTlb {
        entries,
        ways,
        page,
    }
}

#[test]
fn every_law_holds() {
    let result = ExactCounts::run(&params(), &|_| {}).unwrap();
    for row in &result.rows {
        assert!(row.met, "{row:#?}");
        let exact = row.rule == ExactRule::Equal;
        assert!(!exact || row.expected == row.here, "{row:#?}");
    }
    assert_eq!(
        (result.rows_met, result.rows_missed),
        (result.rows.len(), 0)
    );
    let of = |law: &str| result.rows.iter().filter(|row| row.law == law).count();
    let laws = [
        ("uniform", 8),
        ("reach", 15),
        ("inclusion", 15),
        ("walk references", 21),
        ("nested walks", 25),
        ("no holes", 5),
        ("512 holes", 10),
        ("segment", 5),
    ];
    for (law, rows) in laws {
        assert_eq!(of(law), rows, "{law}");
    }
    let longest = (result.rows.iter())
        .filter(|row| row.law == "nested walks" && row.count.contains("references"))
        .map(|row| row.here)
        .fold(0.0, f64::max);
    assert_eq!(longest, 24.0);
}

#[test]
fn pages_that_do_not_fill_the_sets_are_refused() {
    for (ratio, ways) in [
        (1.3, 6),
        (0.5, 64),
        (1.0, 64),
        (f64::NAN, 64),
        (2.0, 0),
        (2.0, 7),
    ] {
        let params = ExactnessParams {
            uniform: vec![tlb(64, ways, PageSize::K4)],
            pages_per_entry: vec![ratio],
            ..params()
        };
        assert!(
            ExactCounts::run(&params, &|_| {}).is_err(),
            "{ratio}, {ways} ways"
        );
    }
}
