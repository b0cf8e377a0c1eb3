// SPDX-License-Identifier: MIT OR Apache-2.0
//! The schema `ample.result/1`: one table with everything needed to make it again.

use super::cell::Cell;
use super::figure::FigureSpec;
use super::refresh::{CellSource, Condition};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Name of the schema of a result file.
pub(crate) const SCHEMA: &str = "ample.result/1";

/// The five parts of the project, and the project itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Looking at a machine.
    See,
    /// The server model.
    Predict,
    /// The kernel series.
    Cure,
    /// Programs on the allocator.
    Use,
    /// Simulated hardware.
    #[default]
    Show,
    /// The code: its size, its tests, its speed against earlier forms.
    House,
}

impl Layer {
    /// Name of the layer's folder and page.
    pub fn name(self) -> &'static str {
        match self {
            Layer::See => "see",
            Layer::Predict => "predict",
            Layer::Cure => "cure",
            Layer::Use => "use",
            Layer::Show => "show",
            Layer::House => "house",
        }
    }
}

/// How figures came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultKind {
    /// Deterministic: the same command gives the same digits anywhere.
    Simulated,
    /// Measured on the machine named.
    Measured,
    /// Counted: lines, gates, states.
    Counted,
}

impl ResultKind {
    /// The word that pages use.
    pub fn name(self) -> &'static str {
        match self {
            ResultKind::Simulated => "simulated",
            ResultKind::Measured => "measured",
            ResultKind::Counted => "counted",
        }
    }
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A plain number.
    Number(f64),
    /// A quantity with its unit, or a name.
    Text(String),
}

/// A column of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Name that selectors and figures use; unique in the table.
    pub key: String,
    /// Heading of the column, without the unit.
    pub title: String,
    /// Unit of the numbers, or empty.
    pub unit: String,
    /// Decimals of every number; the shortest form if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digits: Option<u8>,
    /// Factor from the experiment's unit to the column's, such as 100 for per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Field that the numbers of the experiment are divided by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
    /// Where the experiment's result holds the cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<CellSource>,
    /// Which item of the row the column is about, where a row is made of several.
    #[serde(default, rename = "where", skip_serializing_if = "Condition::is_empty")]
    pub of: Condition,
    /// What is shown for a value of the experiment: a longer name, or what a paper gives for it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<String, Cell>,
}

/// A target that was set before the measurement, and whether it is met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BarRecord {
    /// Unique over all results.
    pub id: String,
    /// Claim of a paper that the bar tests (`experiments/claims.toml`).
    pub claim: Option<String>,
    /// The quantity that is judged.
    pub what: String,
    /// Its value here, with unit and spread.
    pub figure: String,
    /// The target, with unit.
    pub bar: String,
    /// Whether the target is met.
    pub met: bool,
    /// Why it is not met, in two sentences; empty when it is.
    pub reason: String,
    /// What was tried, with its effect; empty when it is met.
    pub tried: Vec<String>,
}

/// A machine on which figures were measured (`results/data/machines.json`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineRecord {
    /// Name that results use.
    pub id: String,
    /// One line for pages.
    pub title: String,
    /// Vendor, family and model of the processor.
    pub cpu: Option<String>,
    /// Number of cores that the system sees.
    pub cores: Option<u32>,
    /// Size of memory, with unit.
    pub memory: Option<String>,
    /// Kernel and its version.
    pub kernel: Option<String>,
    /// Operating system and its version.
    pub os: Option<String>,
}

/// One result: a table and what made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultRecord {
    /// Always `ample.result/1`.
    pub schema: String,
    /// Id of the experiment, and name of the file.
    pub id: String,
    /// Part of the project, and folder of the file.
    pub layer: Layer,
    /// Heading of the result's section, without a full stop.
    pub title: String,
    /// What the table shows, in one sentence.
    pub what: String,
    /// The command that makes the rows.
    pub command: String,
    /// Parameters that differ from those of the command alone, or that a reader wants to see.
    pub parameters: BTreeMap<String, Scalar>,
    /// Seeds; empty if nothing is random.
    pub seeds: Vec<u64>,
    /// Id of a machine; `any` for deterministic results.
    pub machine: String,
    /// Versions of what the figures depend on; `ample` is a commit.
    pub versions: BTreeMap<String, String>,
    /// Day of the run, `YYYY-MM-DD`.
    pub date: String,
    /// What else ran on the machine, where that matters.
    pub load: Option<String>,
    /// How the figures came about.
    pub kind: ResultKind,
    /// A chart of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<FigureSpec>,
    /// Dotted path of the list in the experiment's result that holds the rows; `.` for a result
    /// that is one row itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Items of that list that are taken: all without a condition.
    #[serde(default, skip_serializing_if = "Condition::is_empty")]
    pub only: Condition,
    /// Fields that make a row: items that agree in them are one row. Without: an item is a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows_by: Vec<String>,
    /// Columns of the table.
    pub columns: Vec<Column>,
    /// Rows, each with one cell a column.
    pub rows: Vec<Vec<Cell>>,
    /// Targets that were set before the run.
    pub bars: Vec<BarRecord>,
    /// What a reader must know to use the figures.
    pub notes: Vec<String>,
}

impl ResultRecord {
    /// Index of the column with this key.
    pub fn column(&self, key: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.key == key)
    }

    /// The first thing that is wrong with the record, if any.
    ///
    /// # Errors
    /// A sentence that names the field.
    pub fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema is {:?}, not {SCHEMA:?}", self.schema));
        }
        let named = [
            ("id", &self.id),
            ("title", &self.title),
            ("what", &self.what),
            ("command", &self.command),
            ("machine", &self.machine),
        ];
        if let Some((name, _)) = named.iter().find(|(_, text)| text.trim().is_empty()) {
            return Err(format!("{name} is empty"));
        }
        if !is_date(&self.date) {
            return Err(format!("date {:?} is not YYYY-MM-DD", self.date));
        }
        self.check_table()?;
        if let Some(figure) = &self.figure {
            figure.check(self)?;
        }
        self.bars.iter().try_for_each(BarRecord::check)
    }

    fn check_table(&self) -> Result<(), String> {
        if self.columns.is_empty() || self.rows.is_empty() {
            return Err("the table is empty".into());
        }
        let mut keys = BTreeSet::new();
        for column in &self.columns {
            if column.key.is_empty() || !keys.insert(&column.key) {
                return Err(format!("column key {:?} is empty or twice", column.key));
            }
        }
        for (index, row) in self.rows.iter().enumerate() {
            if row.len() != self.columns.len() {
                return Err(format!(
                    "row {index} has {} cells for {} columns",
                    row.len(),
                    self.columns.len()
                ));
            }
            if let Some(at) = row.iter().position(|cell| !cell.is_sound()) {
                return Err(format!(
                    "row {index}, {}: not a figure",
                    self.columns[at].key
                ));
            }
        }
        Ok(())
    }
}

impl BarRecord {
    fn check(&self) -> Result<(), String> {
        let explained = !self.reason.is_empty() && !self.tried.is_empty();
        let silent = self.reason.is_empty() && self.tried.is_empty();
        match self.met {
            false if !explained => Err(format!("bar {}: missed without reason or trial", self.id)),
            true if !silent => Err(format!("bar {}: met, but has a reason", self.id)),
            _ => Ok(()),
        }
    }
}

fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(index, byte)| match index {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example() -> ResultRecord {
        serde_json::from_str(
            r#"{"schema":"ample.result/1","id":"x","layer":"see","title":"X","what":"W.",
            "command":"ample x","parameters":{"memory":"4 GB","rounds":3},"seeds":[1,2],
            "machine":"any","versions":{},"date":"2026-01-31","load":null,"kind":"simulated",
            "columns":[{"key":"who","title":"who","unit":""},
                       {"key":"share","title":"share","unit":"%","digits":1}],
            "rows":[["a",{"value":1,"low":0.5,"high":2}],["b",40]],
            "bars":[],"notes":["N."]}"#,
        )
        .expect("the example is valid")
    }

    #[test]
    fn what_cannot_be_made_again_is_refused() {
        assert_eq!(example().check(), Ok(()));
        let spoil = |change: fn(&mut ResultRecord)| {
            let mut record = example();
            change(&mut record);
            record.check().expect_err("a spoiled record")
        };
        assert!(spoil(|r| r.command = " ".into()).contains("command"));
        assert!(spoil(|r| r.date = "31.1.2026".into()).contains("date"));
        assert!(spoil(|r| r.rows[0].truncate(1)).contains("row 0"));
        assert!(spoil(|r| r.rows.clear()).contains("empty"));
        assert!(spoil(|r| r.columns[1].key = "who".into()).contains("twice"));
        assert!(spoil(|r| r.rows[1][1] = Cell::Number(f64::NAN)).contains("share"));
    }

    #[test]
    fn unknown_fields_are_refused() {
        let text = serde_json::to_string(&example()).expect("a record is JSON");
        let text = text.replacen("\"id\"", "\"idd\"", 1);
        assert!(serde_json::from_str::<ResultRecord>(&text).is_err());
    }
}
