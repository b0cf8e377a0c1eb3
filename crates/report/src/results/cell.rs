// SPDX-License-Identifier: MIT OR Apache-2.0
//! One cell of a result's table.

use serde::{Deserialize, Serialize};

/// A figure with what is known of its spread. At least one of `value` and `low` is present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpreadCell {
    /// Mean or median, as the notes of the result say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Smallest value seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Largest value seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Half of a symmetric interval, as the notes of the result say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plus_minus: Option<f64>,
}

/// One cell, in the unit of its column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// Not measured, or without meaning here.
    Absent,
    /// An exact number.
    Number(f64),
    /// A number with its spread.
    Spread(SpreadCell),
    /// A label or a sentence.
    Text(String),
}

impl Cell {
    /// The number that a chart draws: the value, or the middle of a range.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Number(value) => Some(*value),
            Cell::Spread(spread) => spread
                .value
                .or_else(|| Some((spread.low? + spread.high?) / 2.0)),
            Cell::Absent | Cell::Text(_) => None,
        }
    }

    /// Smallest and largest value, where they are known.
    pub fn bounds(&self) -> Option<(f64, f64)> {
        match self {
            Cell::Spread(SpreadCell {
                low: Some(low),
                high: Some(high),
                ..
            }) => Some((*low, *high)),
            Cell::Spread(SpreadCell {
                value: Some(value),
                plus_minus: Some(half),
                ..
            }) => Some((value - half, value + half)),
            _ => None,
        }
    }

    /// The value without its spread, for use in a sentence; `digits` decimals if given.
    pub fn brief(&self, digits: Option<u8>) -> String {
        match self {
            Cell::Absent => "–".into(),
            Cell::Text(text) => text.clone(),
            Cell::Number(value) => number(*value, digits),
            Cell::Spread(SpreadCell {
                value: Some(value), ..
            }) => number(*value, digits),
            Cell::Spread(_) => self.full(digits),
        }
    }

    /// Everything that is known, as a table shows it; `digits` decimals if given.
    pub fn full(&self, digits: Option<u8>) -> String {
        let text = |value: f64| number(value, digits);
        let Cell::Spread(spread) = self else {
            return self.brief(digits);
        };
        let range = spread
            .low
            .zip(spread.high)
            .map(|(low, high)| match low < 0.0 {
                true => format!("{} to {}", text(low), text(high)),
                false => format!("{}–{}", text(low), text(high)),
            });
        match (spread.value, range, spread.plus_minus) {
            (Some(value), Some(range), _) => format!("{} ({range})", text(value)),
            (Some(value), None, Some(half)) => format!("{} ± {}", text(value), text(half)),
            (Some(value), None, None) => text(value),
            (None, Some(range), _) => range,
            (None, None, _) => "–".into(),
        }
    }

    /// Whether a spread says something and its bounds are in order.
    pub(crate) fn is_sound(&self) -> bool {
        let Cell::Spread(spread) = self else {
            return !matches!(self, Cell::Number(value) if !value.is_finite());
        };
        let pair = spread.low.is_some() == spread.high.is_some();
        let ordered = spread
            .low
            .zip(spread.high)
            .is_none_or(|(low, high)| low <= high);
        pair && ordered && (spread.value.is_some() || spread.low.is_some())
    }
}

/// A number with thousands separated by commas, and with `digits` decimals if given.
fn number(value: f64, digits: Option<u8>) -> String {
    let text = match digits {
        Some(digits) => format!("{:.*}", usize::from(digits), value.abs()),
        None => format!("{}", value.abs()),
    };
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    match decimals.is_empty() {
        true => format!("{sign}{grouped}"),
        false => format!("{sign}{grouped}.{decimals}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(value: f64, low: f64, high: f64) -> Cell {
        Cell::Spread(SpreadCell {
            value: Some(value),
            low: Some(low),
            high: Some(high),
            plus_minus: None,
        })
    }

    #[test]
    fn numbers_are_grouped_and_keep_the_decimals_of_their_column() {
        assert_eq!(Cell::Number(1_234_567.0).full(None), "1,234,567");
        assert_eq!(Cell::Number(-1000.5).full(Some(1)), "-1,000.5");
        assert_eq!(Cell::Number(10.0).full(Some(2)), "10.00");
        assert_eq!(Cell::Number(0.0796).full(None), "0.0796");
    }

    #[test]
    fn a_spread_shows_all_that_is_known_and_a_sentence_the_value_alone() {
        let cell = spread(39.3, 30.8, 48.0);
        assert_eq!(cell.full(Some(1)), "39.3 (30.8–48.0)");
        assert_eq!(cell.brief(Some(1)), "39.3");
        assert_eq!(spread(0.6, -0.2, 1.8).full(Some(1)), "0.6 (-0.2 to 1.8)");
    }

    #[test]
    fn a_cell_survives_json() {
        for text in [
            "null",
            "3",
            "\"x\"",
            "{\"low\":1,\"high\":2}",
            "{\"value\":1,\"plus_minus\":2}",
        ] {
            let cell: Cell = serde_json::from_str(text).expect(text);
            let again = serde_json::to_string(&cell).expect("a cell is JSON");
            assert_eq!(
                serde_json::from_str::<Cell>(&again).expect("its own text"),
                cell
            );
            assert!(cell.is_sound(), "{text}");
        }
        let reversed: Cell = serde_json::from_str("{\"low\":2,\"high\":1}").expect("a spread");
        assert!(!reversed.is_sound());
        assert!(serde_json::from_str::<Cell>("{\"vlaue\":1}").is_err());
    }
}
