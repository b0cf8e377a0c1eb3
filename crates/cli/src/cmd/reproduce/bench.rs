// SPDX-License-Identifier: MIT OR Apache-2.0
//! The benchmark of `ample scan` as an experiment: it is made of this program's own readers.

use super::Entry;
use crate::cmd::scan;
use ample_lab::experiment::{Cost, Finished, Layer, Progress};
use ample_lab::needs::{Need, missing};
use ample_lab::reproduce::Job;
use ample_lab::rows::rows;
use anyhow::Result;
use serde_json::{Value, json};

/// The readers of `ample scan` and a bare read loop, in turns.
pub(super) struct ScanBench {
    rounds: usize,
}

impl ScanBench {
    pub(super) fn entry(quick: bool) -> Entry {
        let rounds = if quick { 3 } else { 15 };
        Entry {
            job: Box::new(ScanBench { rounds }),
            title: "readers of ample scan and a bare read loop, on this machine (measured)".into(),
            layer: Layer::See,
        }
    }
}

impl Job for ScanBench {
    fn id(&self) -> &str {
        "scan-bench"
    }

    fn depends_on(&self) -> &[&str] {
        &[]
    }

    fn cost(&self) -> Cost {
        Cost::new(self.rounds as f64 * 2.0, 100, 1)
    }

    fn measures(&self) -> bool {
        true
    }

    fn parameters(&self) -> Value {
        json!({ "rounds": self.rounds })
    }

    fn missing(&self) -> Vec<String> {
        missing(&[Need::Root])
    }

    fn run(&self, _progress: Progress<'_>) -> Result<Finished> {
        let (_, json) = scan::bench::run(self.rounds)?;
        self.read_back(&json)
    }

    fn read_back(&self, json: &str) -> Result<Finished> {
        let value: Value = serde_json::from_str(json)?;
        Ok(Finished {
            json: json.to_string(),
            partial: false,
            holds: true,
            head: ample_lab::text::render(&value),
            tables: Vec::new(),
            rows: rows(&value),
            figures: Vec::new(),
            value,
        })
    }
}
