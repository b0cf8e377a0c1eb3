// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of a result from the JSON object that its experiment prints.

use super::cell::{Cell, SpreadCell};
use super::record::{Column, ResultRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

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
    /// Field whose smallest and largest value over all items of the row are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// Field of the half of an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plus_minus: Option<String>,
}

impl ResultRecord {
    /// The record with rows from an experiment's result, rounded to the digits of the columns, and
    /// with its seeds and its load average if it has them. `date` is the day of the run and
    /// `commit` the version that ran.
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
        let items = match list.as_str() {
            "." => Some(std::slice::from_ref(result)),
            path => at(result, path).and_then(|list| Some(list.as_array()?.as_slice())),
        };
        let items = items.ok_or_else(|| format!("the result has no list {list}"))?;
        let taken = items.iter().filter(|item| fits(item, &self.only));
        let row = |group: Vec<&Value>| {
            let columns = self.columns.iter();
            columns.map(|column| cell(&group, column)).collect()
        };
        let rows = groups(taken, &self.rows_by).into_iter().map(row);
        let mut record = ResultRecord {
            rows: rows.collect::<Result<_, String>>()?,
            date: date.into(),
            ..self.clone()
        };
        record.versions.insert("ample".into(), commit.into());
        if let Some(load) = result.get("load_average").and_then(Value::as_f64) {
            record.load = Some(format!("{load:.0}"));
        }
        let seeds = SEEDS.iter().find_map(|path| at(result, path)?.as_array());
        if let Some(seeds) = seeds {
            record.seeds = seeds.iter().filter_map(Value::as_u64).collect();
        }
        record.check()?;
        Ok(record)
    }
}

/// Where a result lists its seeds.
const SEEDS: [&str; 4] = [
    "seeds",
    "params.seeds",
    "parameters.seeds",
    "experiment.params.seeds",
];

/// Fields of an item with the value that each must have.
pub type Condition = BTreeMap<String, Value>;

/// Whether an item has these values; numbers are compared as numbers.
fn fits(item: &Value, wanted: &Condition) -> bool {
    wanted.iter().all(|(path, wanted)| {
        at(item, path).is_some_and(|value| {
            let numbers = value.as_f64().zip(wanted.as_f64());
            numbers.map_or(value == wanted, |(value, wanted)| value == wanted)
        })
    })
}

/// Items by the fields that make a row, in the order of the first of each; without such fields
/// every item is a row.
fn groups<'a>(items: impl Iterator<Item = &'a Value>, rows_by: &[String]) -> Vec<Vec<&'a Value>> {
    let mut groups: Vec<Vec<&Value>> = Vec::new();
    for item in items {
        let same = |group: &&mut Vec<&Value>| {
            let equal = |path: &String| at(group[0], path) == at(item, path);
            !rows_by.is_empty() && rows_by.iter().all(equal)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// The cell of a column from the items of the row that the column is about; absent without one.
fn cell(group: &[&Value], column: &Column) -> Result<Cell, String> {
    let source = column.from.as_ref();
    let source = source.ok_or_else(|| format!("column {} has no source", column.key))?;
    let items: Vec<&Value> = group
        .iter()
        .filter(|item| fits(item, &column.of))
        .copied()
        .collect();
    let Some(&item) = items.first() else {
        return Ok(Cell::Absent);
    };
    match source {
        CellSource::Field(path) => {
            agree(&items, path, column)?;
            let value = at(item, path).ok_or_else(|| format!("no field {path}"))?;
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Bool(holds) => if *holds { "yes" } else { "no" }.into(),
                _ if column.texts.is_empty() => {
                    let number = number(item, path, column)?;
                    return Ok(number.map_or(Cell::Absent, Cell::Number));
                }
                _ => value.to_string(),
            };
            let shown = column.texts.get(&text);
            Ok(shown.cloned().unwrap_or(Cell::Text(text)))
        }
        CellSource::Spread(spread) => spread_cell(&items, spread, column),
    }
}

/// Refuses a column for which items of one row have different values: which of them is shown
/// would be chance.
fn agree(items: &[&Value], path: &str, column: &Column) -> Result<(), String> {
    let first = at(items[0], path);
    match items.iter().all(|item| at(item, path) == first) {
        true => Ok(()),
        false => Err(format!(
            "column {}: the items of a row differ in {path}; rows_by or where must tell them apart",
            column.key
        )),
    }
}

fn spread_cell(items: &[&Value], spread: &SpreadSource, column: &Column) -> Result<Cell, String> {
    let part = |path: &Option<String>| match path {
        None => Ok(None),
        Some(path) => {
            agree(items, path, column)?;
            number(items[0], path, column)
        }
    };
    let mut cell = SpreadCell {
        value: part(&spread.value)?,
        low: part(&spread.low)?,
        high: part(&spread.high)?,
        plus_minus: part(&spread.plus_minus)?,
    };
    if let Some(path) = &spread.each {
        let numbers = items.iter().map(|item| number(item, path, column));
        let numbers = numbers.collect::<Result<Vec<_>, String>>()?;
        let numbers = || numbers.iter().flatten().copied();
        cell.low = numbers().reduce(f64::min);
        cell.high = numbers().reduce(f64::max);
    }
    Ok(match (cell.value, cell.low, cell.high) {
        (None, None, _) => Cell::Absent,
        (None, Some(low), Some(high)) if low == high => Cell::Number(low),
        _ => Cell::Spread(cell),
    })
}

/// The number of a field in the unit and with the digits of the column.
fn number(item: &Value, path: &str, column: &Column) -> Result<Option<f64>, String> {
    let of = |path: &str| {
        let value = at(item, path).ok_or_else(|| format!("no field {path}"))?;
        Ok::<_, String>(value.as_f64())
    };
    let divisor = column.per.as_deref().map_or(Ok(Some(1.0)), of)?;
    let Some((value, divisor)) = of(path)?.zip(divisor) else {
        return Ok(None);
    };
    let scaled = value / divisor * column.scale.unwrap_or(1.0);
    let factor = 10f64.powi(i32::from(column.digits.unwrap_or(0)));
    let rounded = (scaled * factor).round() / factor;
    // Without a sign for zero.
    Ok(rounded.is_finite().then_some(rounded + 0.0))
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
            ..SpreadSource::default()
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
    fn items_that_agree_in_the_fields_of_a_row_are_one_row() {
        let mut record = mapped();
        record.list = Some("points".into());
        record.rows_by = vec!["who".into()];
        record.only = [("late".into(), false.into())].into();
        record.columns[0].texts = [("a".into(), Cell::Text("a long name".into()))].into();
        record.columns[1].from = Some(CellSource::Field("share".into()));
        let mut other = record.columns[1].clone();
        other.key = "other".into();
        record.columns[1].of = [("pages".into(), 4.into())].into();
        other.of = [("pages".into(), 2.into())].into();
        record.columns.push(other);
        let result = serde_json::json!({"points": [
            {"who": "a", "pages": 4, "share": 0.5, "late": false},
            {"who": "b", "pages": 4.0, "share": 0.25, "late": false},
            {"who": "a", "pages": 2, "share": 0.75, "late": false},
            {"who": "c", "pages": 2, "share": 1, "late": true},
        ]});
        let of = |text: &str, here: Cell, other: Cell| vec![Cell::Text(text.into()), here, other];
        let refreshed = record.refreshed(&result, "2026-02-01", "abc");
        let rows = refreshed.expect("it fits").rows;
        assert_eq!(
            rows[0],
            of("a long name", Cell::Number(50.0), Cell::Number(75.0))
        );
        assert_eq!(rows[1], of("b", Cell::Number(25.0), Cell::Absent));
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn the_load_of_a_run_replaces_that_of_the_run_before() {
        let mut result = serde_json::json!({"points": {"all": [{"who": "a", "share": null}]}});
        let refreshed = |result: &Value| mapped().refreshed(result, "2026-02-01", "abc");
        assert_eq!(refreshed(&result).unwrap().load, mapped().load);
        result["load_average"] = 3.7.into();
        assert_eq!(refreshed(&result).unwrap().load.as_deref(), Some("4"));
    }

    #[test]
    fn seeds_are_those_of_the_run() {
        let mut result = serde_json::json!({"points": {"all": [{"who": "a", "share": null}]}});
        let seeds = |result: &Value| {
            let record = mapped().refreshed(result, "2026-02-01", "abc");
            record.expect("it fits").seeds
        };
        assert_eq!(seeds(&result), mapped().seeds);
        result["params"] = serde_json::json!({"seeds": [3, 4, 5]});
        assert_eq!(seeds(&result), [3, 4, 5]);
        // A number of seeds is no list of them.
        result["params"]["seeds"] = 5.into();
        assert_eq!(seeds(&result), mapped().seeds);
    }

    #[test]
    fn items_of_a_row_that_differ_in_a_column_are_refused() {
        let mut record = mapped();
        record.rows_by = vec!["who".into()];
        let shares = |second: f64| {
            let share = |mean: f64| serde_json::json!({"mean": mean, "range": [0, 1]});
            serde_json::json!({"points": {"all": [
                {"who": "a", "share": share(0.5)},
                {"who": "a", "share": share(second)},
            ]}})
        };
        assert!(record.refreshed(&shares(0.5), "2026-02-01", "abc").is_ok());
        for source in [
            CellSource::Field("share.mean".into()),
            record.columns[1].from.clone().expect("a spread"),
        ] {
            record.columns[1].from = Some(source);
            let refused = record.refreshed(&shares(0.75), "2026-02-01", "abc");
            let error = refused.expect_err("two values for one cell");
            assert!(error.contains("column share"), "{error}");
        }
    }

    #[test]
    fn a_cell_can_be_a_ratio_or_the_range_of_the_items_of_a_row() {
        let mut record = mapped();
        record.rows_by = vec!["who".into()];
        record.columns[1].per = Some("of".into());
        record.columns[1].from = Some(CellSource::Spread(SpreadSource {
            each: Some("share".into()),
            ..SpreadSource::default()
        }));
        let result = serde_json::json!({"points": {"all": [
            {"who": "a", "share": 1, "of": 4},
            {"who": "a", "share": 3, "of": 4},
            {"who": "b", "share": 1, "of": 2},
            {"who": "c", "share": null, "of": 2},
        ]}});
        let refreshed = record.refreshed(&result, "2026-02-01", "abc");
        let cells = refreshed.expect("it fits").rows;
        let cells: Vec<String> = cells.iter().map(|row| row[1].full(Some(0))).collect();
        assert_eq!(cells, ["25–75", "50", "–"]);
        let plain = serde_json::json!({"who": "a", "share": 1, "of": 2});
        record.list = Some(".".into());
        let refreshed = record.refreshed(&plain, "2026-02-01", "abc");
        assert_eq!(refreshed.expect("one row").rows[0][1], Cell::Number(50.0));
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
