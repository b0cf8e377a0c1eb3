// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charts of a result's table.

use super::cell::Cell;
use super::record::ResultRecord;
use crate::bars::{Bar, BarChart, BarGroup};
use crate::lines::{LineChart, Series};
use crate::scale::Unit;
use crate::svg::plain;
use crate::tornado::{TornadoBar, TornadoChart};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureKind {
    /// Grouped bars.
    Bars,
    /// Lines over a column of numbers.
    Lines,
    /// A tornado: the columns are a value and its change with less and with more of the label.
    Tornado,
}

/// Which cells of a table make a chart. Series are the columns named in `columns`, or the
/// distinct texts of the column `series` with the numbers of the column `value`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// Bars or lines.
    pub kind: FigureKind,
    /// What the chart shows, with its unit.
    pub caption: String,
    /// Column of the groups of bars, or of the horizontal axis.
    pub label: String,
    /// Column that tells the series apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// Column of the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Columns that are series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// Rows that are drawn: the texts that a column may have.
    #[serde(default, rename = "where", skip_serializing_if = "BTreeMap::is_empty")]
    pub only: BTreeMap<String, Vec<String>>,
    /// Values of a paper by series, in the unit of the column.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paper: BTreeMap<String, f64>,
}

/// One value to draw: label, series, cell.
type Point<'a> = (String, String, &'a Cell);

impl FigureSpec {
    /// Whether every column named exists and something is drawn.
    pub(crate) fn check(&self, record: &ResultRecord) -> Result<(), String> {
        let pair = self.series.iter().chain(&self.value);
        let named = pair
            .chain([&self.label])
            .chain(&self.columns)
            .chain(self.only.keys());
        for key in named {
            if record.column(key).is_none() {
                return Err(format!("figure: no column {key:?}"));
            }
        }
        if self.series.is_some() != self.value.is_some()
            || self.series.is_some() != self.columns.is_empty()
        {
            return Err("figure: give either series and value, or columns".into());
        }
        if self.kind == FigureKind::Tornado && self.columns.len() != 3 {
            return Err(
                "figure: a tornado has three columns: as fitted, change with less, with more"
                    .into(),
            );
        }
        match self
            .points(record)
            .iter()
            .any(|(_, _, cell)| cell.number().is_some())
        {
            true => Ok(()),
            false => Err("figure: nothing to draw".into()),
        }
    }

    /// The chart as an SVG document. The record has passed its checks.
    pub fn to_svg(&self, record: &ResultRecord) -> String {
        let points = self.points(record);
        let labels = distinct(points.iter().map(|point| &point.0));
        let series = distinct(points.iter().map(|point| &point.1));
        let drawn = self.value.as_ref().or(self.columns.first());
        let column = drawn.and_then(|key| record.column(key));
        let percent = column.is_some_and(|at| record.columns[at].unit == "%");
        let scale = if percent { 0.01 } else { 1.0 };
        let svg = match self.kind {
            FigureKind::Bars => self.bars(&points, labels, series, scale),
            FigureKind::Lines => {
                let label = record.column(&self.label);
                let x_title = label.map_or(String::new(), |at| record.columns[at].title.clone());
                let y_title = column.map_or(String::new(), |at| record.columns[at].unit.clone());
                self.lines(&points, series, scale, [x_title, y_title])
            }
            FigureKind::Tornado => self.tornado(&points, scale),
        };
        plain(&svg)
    }

    fn points<'a>(&self, record: &'a ResultRecord) -> Vec<Point<'a>> {
        let at = |key: &str| record.column(key).unwrap_or(0);
        let text = |row: &[Cell], key: &str| row[at(key)].full(record.columns[at(key)].digits);
        let wanted = |row: &&Vec<Cell>| {
            let allowed = |(key, texts): (&String, &Vec<String>)| texts.contains(&text(row, key));
            self.only.iter().all(allowed)
        };
        let mut points = Vec::new();
        for row in record.rows.iter().filter(wanted) {
            let label = text(row, &self.label);
            if let Some((series, value)) = self.series.as_ref().zip(self.value.as_ref()) {
                points.push((label.clone(), text(row, series), &row[at(value)]));
            }
            for key in &self.columns {
                let title = record.columns[at(key)].title.clone();
                points.push((label.clone(), title, &row[at(key)]));
            }
        }
        points
    }

    fn bars(
        &self,
        points: &[Point],
        labels: Vec<String>,
        series: Vec<String>,
        scale: f64,
    ) -> String {
        let cell = |label: &String, name: &String| {
            let mut found = points.iter().filter(|(l, s, _)| l == label && s == name);
            found.next().map(|(_, _, cell)| *cell)
        };
        let bar = |label: &String, name: &String| Bar {
            value: cell(label, name)
                .and_then(Cell::number)
                .map(|value| value * scale),
            spread: cell(label, name)
                .and_then(Cell::bounds)
                .map(|(low, high)| (low * scale, high * scale)),
            paper: self.paper.get(name).map(|value| value * scale),
        };
        let groups = labels.iter().map(|label| BarGroup {
            label: label.clone(),
            bars: series.iter().map(|name| bar(label, name)).collect(),
        });
        let chart = BarChart {
            title: self.caption.clone(),
            groups: groups.collect(),
            unit: unit(points, scale),
            series,
            max: None,
        };
        chart.to_svg()
    }

    fn tornado(&self, points: &[Point], scale: f64) -> String {
        let number = |point: &Point| point.2.number().map_or(f64::NAN, |value| value * scale);
        let bar = |row: &[Point]| TornadoBar {
            label: row[0].0.clone(),
            less: number(&row[0]) + number(&row[1]),
            more: number(&row[0]) + number(&row[2]),
        };
        let chart = TornadoChart {
            title: self.caption.clone(),
            base: points.first().map_or(f64::NAN, number),
            unit: unit(points, scale),
            bars: points.chunks_exact(3).map(bar).collect(),
        };
        chart.to_svg()
    }

    fn lines(
        &self,
        points: &[Point],
        series: Vec<String>,
        scale: f64,
        [x_title, y_title]: [String; 2],
    ) -> String {
        let line = |name: &String| {
            let own = points.iter().filter(|(_, series, _)| series == name);
            let pair = |(label, _, cell): &Point| {
                let x = label.replace(',', "").parse().ok()?;
                Some((x, cell.number()? * scale))
            };
            Series {
                name: name.clone(),
                points: own.filter_map(pair).collect(),
                band: vec![],
            }
        };
        let chart = LineChart {
            title: self.caption.clone(),
            series: series.iter().map(line).collect(),
            x_title,
            x_unit: Unit::Plain,
            y_title,
            y_unit: unit(points, scale),
            y_max: None,
        };
        chart.to_svg()
    }
}

fn unit(points: &[Point], scale: f64) -> Unit {
    let values = points.iter().filter_map(|(_, _, cell)| cell.number());
    match values.fold(0.0, f64::max) {
        _ if scale != 1.0 => Unit::Percent,
        largest if largest >= 10_000.0 => Unit::Count,
        _ => Unit::Plain,
    }
}

/// Texts in the order of their first appearance.
fn distinct<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for text in texts {
        if !seen.contains(text) {
            seen.push(text.clone());
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::example;
    use super::*;

    fn spec() -> FigureSpec {
        let text = r#"{"kind":"bars","caption":"c","label":"who","columns":["share"]}"#;
        serde_json::from_str(text).expect("a valid figure")
    }

    #[test]
    fn a_figure_draws_the_numbers_of_its_table() {
        let record = example();
        assert_eq!(spec().check(&record), Ok(()));
        let svg = spec().to_svg(&record);
        assert!(
            !svg.contains("var("),
            "every viewer must know the colours: {svg}"
        );
        assert!(svg.contains("b, share: 40 %"), "{svg}");
        assert!(svg.contains("a, share: 1 % (0.5 % to 2 %)"), "{svg}");
    }

    #[test]
    fn a_tornado_has_three_columns() {
        let record = example();
        let mut spec = spec();
        spec.kind = FigureKind::Tornado;
        assert!(spec.check(&record).is_err());
        spec.columns = vec!["share".into(); 3];
        assert_eq!(spec.check(&record), Ok(()));
        let svg = spec.to_svg(&record);
        assert!(
            svg.contains("as fitted: 1 %") && svg.contains("less: 2 %"),
            "{svg}"
        );
    }

    #[test]
    fn a_figure_of_a_column_that_is_gone_is_refused() {
        let mut spec = spec();
        spec.columns = vec!["gone".into()];
        assert!(spec.check(&example()).is_err());
        spec.columns = vec!["who".into()];
        assert!(spec.check(&example()).is_err(), "texts cannot be drawn");
        spec.columns.clear();
        assert!(spec.check(&example()).is_err());
    }
}
