// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of a result from the JSON object that its experiment prints.

use super::cell::{Cell, SpreadCell};
use super::record::{Column, ResultRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where the cells of a column come from: dotted paths in the objects of the experiment's list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CellSource {
    /// One field: a text, a number, or null.
    Field(String),
    /// A number with its spread.
    Spread(SpreadSource),
}

/// Fields of a number with its spread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpreadSource {
    /// Field of the mean or median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Field of the smallest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<String>,
    /// Field of the largest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<String>,
    /// Field of the half of an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plus_minus: Option<String>,
}

impl ResultRecord {
    /// The record with rows from an experiment's result, rounded to the digits of the columns.
    /// `date` is the day of the run and `commit` the version that ran.
    ///
    /// # Errors
    /// When the record does not say where its cells come from, or a field is missing.
    pub fn refreshed(
        &self,
        result: &Value,
        date: &str,
        commit: &str,
    ) -> Result<ResultRecord, String> {
        let list = self
            .list
            .as_ref()
            .ok_or("the record names no list of the result")?;
        if result.get("partial").and_then(Value::as_bool) == Some(true) {
            return Err("the result is partial".into());
        }
        let items = at(result, list).and_then(Value::as_array);
        let items = items.ok_or_else(|| format!("the result has no list {list}"))?;
        let row = |item: &Value| {
            self.columns
                .iter()
                .map(|column| cell(item, column))
                .collect()
        };
        let rows = items.iter().map(row).collect::<Result<_, String>>()?;
        let mut record = ResultRecord {
            rows,
            date: date.into(),
            ..self.clone()
        };
        record.versions.insert("ample".into(), commit.into());
        record.check()?;
        Ok(record)
    }
}

fn cell(item: &Value, column: &Column) -> Result<Cell, String> {
    let source = column.from.as_ref();
    let source = source.ok_or_else(|| format!("column {} has no source", column.key))?;
    match source {
        CellSource::Field(path) => {
            let value = at(item, path).ok_or_else(|| format!("no field {path}"))?;
            match value {
                Value::String(text) => Ok(Cell::Text(text.clone())),
                Value::Bool(holds) => Ok(Cell::Text(if *holds { "yes" } else { "no" }.into())),
                _ => Ok(number(value, column).map_or(Cell::Absent, Cell::Number)),
            }
        }
        CellSource::Spread(spread) => {
            let part = |path: &Option<String>| match path {
                None => Ok(None),
                Some(path) => {
                    let value = at(item, path).ok_or_else(|| format!("no field {path}"))?;
                    Ok::<_, String>(number(value, column))
                }
            };
            let cell = SpreadCell {
                value: part(&spread.value)?,
                low: part(&spread.low)?,
                high: part(&spread.high)?,
                plus_minus: part(&spread.plus_minus)?,
            };
            match cell.value.or(cell.low) {
                None => Ok(Cell::Absent),
                Some(_) => Ok(Cell::Spread(cell)),
            }
        }
    }
}

/// The number in the unit and with the digits of the column.
fn number(value: &Value, column: &Column) -> Option<f64> {
    let scaled = value.as_f64()? * column.scale.unwrap_or(1.0);
    let factor = 10f64.powi(i32::from(column.digits.unwrap_or(0)));
    let rounded = (scaled * factor).round() / factor;
    debug_assert!(rounded.is_finite(), "JSON holds no other numbers");
    Some(rounded)
}

/// The value at a dotted path; null below null.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(value, |value, name| match name.parse::<usize>() {
            _ if value.is_null() => Some(value),
            Ok(index) if value.is_array() => value.get(index),
            _ => value.get(name),
        })
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::example;
    use super::*;

    fn mapped() -> ResultRecord {
        let mut record = example();
        record.list = Some("points.all".into());
        record.columns[0].from = Some(CellSource::Field("who".into()));
        record.columns[1].scale = Some(100.0);
        record.columns[1].from = Some(CellSource::Spread(SpreadSource {
            value: Some("share.mean".into()),
            low: Some("share.range.0".into()),
            high: Some("share.range.1".into()),
            plus_minus: None,
        }));
        record
    }

    #[test]
    fn rows_follow_the_result_of_the_experiment() {
        let result = serde_json::json!({"points": {"all": [
            {"who": "a", "share": {"mean": 0.12345, "range": [0.1, 0.2]}},
            {"who": "b", "share": null},
        ]}});
        let record = mapped()
            .refreshed(&result, "2026-02-01", "abc")
            .expect("it fits");
        assert_eq!(record.date, "2026-02-01");
        assert_eq!(record.rows[0][1].full(Some(1)), "12.3 (10.0–20.0)");
        assert_eq!(record.rows[1], [Cell::Text("b".into()), Cell::Absent]);
    }

    #[test]
    fn a_renamed_field_or_an_early_end_is_an_error() {
        let renamed = serde_json::json!({"points": {"all": [{"who": "a", "part": 1}]}});
        let error = mapped()
            .refreshed(&renamed, "2026-02-01", "abc")
            .expect_err("renamed");
        assert!(error.contains("share.mean"), "{error}");
        let partial = serde_json::json!({"partial": true, "points": {"all": []}});
        assert!(mapped().refreshed(&partial, "2026-02-01", "abc").is_err());
        assert!(example().refreshed(&renamed, "2026-02-01", "abc").is_err());
    }
}
