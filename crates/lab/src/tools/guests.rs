// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the kernel in guests that `make` runs: confinement, storms, hot paths. What a target
//! prints as Markdown tables becomes rows; its exit code is the verdict.

use super::finished;
use crate::experiment::{Experiment, Outcome, Progress};
use crate::needs::source_tree;
use ample_report::{Align, Table};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::process::Command;

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestParams {
    /// Target of the makefile.
    pub target: String,
}

/// A table that a target printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrintedTable {
    /// Heads of its columns.
    pub columns: Vec<String>,
    /// Rows of cells, in the order of the columns.
    pub cells: Vec<Vec<String>>,
}

/// What a check of the kernel gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestReport {
    /// Target of the makefile that ran.
    pub target: String,
    /// Whether it ended well; null when it was ended early.
    pub passed: Option<bool>,
    /// Last lines that it printed.
    pub last_lines: Vec<String>,
    /// Markdown tables that it printed.
    pub tables: Vec<PrintedTable>,
}

/// A check of the kernel.
pub struct GuestCheck;

impl Experiment for GuestCheck {
    type Parameters = GuestParams;
    type Outcome = GuestReport;

    fn run(params: &GuestParams, _progress: Progress<'_>) -> Result<GuestReport> {
        let target = &params.target;
        let root = source_tree().context("not in the source tree")?;
        let mut command = Command::new("make");
        command.arg("-C").arg(root).arg(target);
        let ended = finished(&mut command)?;
        let text = ended.as_ref().map_or("", |ended| ended.out.as_str());
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(5)..];
        Ok(GuestReport {
            target: target.clone(),
            passed: ended.as_ref().map(|ended| ended.code == 0),
            last_lines: last.iter().map(|line| (*line).into()).collect(),
            tables: tables(&lines),
        })
    }
}

/// The Markdown tables among some lines.
fn tables(lines: &[&str]) -> Vec<PrintedTable> {
    let cells = |line: &str| -> Option<Vec<String>> {
        let inner = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
        let cells = inner.split('|').map(|cell| cell.trim().to_string());
        Some(cells.collect())
    };
    let is_rule = |row: &Vec<String>| {
        let mut marks = row.iter().flat_map(|cell| cell.chars());
        marks.all(|c| c == '-' || c == ':')
    };
    let table = |lines: &[&str]| {
        let mut rows = lines.iter().filter_map(|line| cells(line));
        Some(PrintedTable {
            columns: rows.next()?,
            cells: rows.filter(|row| !is_rule(row)).collect(),
        })
    };
    let blocks = lines.split(|line| cells(line).is_none());
    blocks.filter_map(table).collect()
}

impl Outcome for GuestReport {
    const SCHEMA: &'static str = "ample.kernel-guest/1";

    fn holds(&self) -> bool {
        self.passed != Some(false)
    }

    fn tables(&self) -> Option<Vec<(String, Table)>> {
        let table = |printed: &PrintedTable| {
            let names = printed.columns.iter();
            let heads: Vec<_> = names.map(|name| (name.as_str(), Align::Left)).collect();
            let mut table = Table::new(&heads);
            for row in &printed.cells {
                let mut row = row.clone();
                row.resize(heads.len(), String::new());
                table.row(row);
            }
            (String::new(), table)
        };
        Some(self.tables.iter().map(table).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_tables_are_rows() {
        let text = "noise\n| what | stock |\n|---|---|\n| a | 1 |\n| b | 2 [1, 3] |\nend\n| x |";
        let lines: Vec<&str> = text.lines().collect();
        let found = tables(&lines);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].columns, ["what", "stock"]);
        assert_eq!(found[0].cells, [["a", "1"], ["b", "2 [1, 3]"]]);
    }
}
