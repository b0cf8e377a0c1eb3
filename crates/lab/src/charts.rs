// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charts that several experiments draw.

use crate::experiment::Figure;
use ample_kit::statistics::Spread;
use ample_report::{Bar, BarChart, BarGroup, LineChart, Series, TornadoBar, TornadoChart, Unit};
use serde::Serialize;

/// A tornado of a ratio: for each number its name, the ratio as it is, and what less and more of
/// the number add to it. None without a number.
pub(crate) fn tornado<'a>(
    name: &str,
    title: &str,
    numbers: impl Iterator<Item = (&'a str, Spread, Spread, Spread)>,
) -> Option<Figure> {
    let numbers: Vec<_> = numbers.collect();
    let base = numbers.first()?.1.mean;
    let bar = |&(label, value, less, more): &(&str, Spread, Spread, Spread)| TornadoBar {
        label: label.into(),
        less: value.mean + less.mean,
        more: value.mean + more.mean,
    };
    let chart = TornadoChart {
        title: title.into(),
        base,
        unit: Unit::Percent,
        bars: numbers.iter().map(bar).collect(),
    };
    Some(Figure::new(name, title, chart.to_svg()))
}

/// Bars put into groups by a name, one of each series in a group; groups and series appear in the
/// order of their first bar.
pub(crate) struct Bars {
    chart: BarChart,
}

impl Bars {
    /// No bars yet.
    pub(crate) fn new(title: &str, unit: Unit) -> Self {
        Self {
            chart: BarChart {
                title: title.into(),
                series: Vec::new(),
                groups: Vec::new(),
                unit,
                max: None,
            },
        }
    }

    /// Puts a bar in its place.
    pub(crate) fn put(&mut self, group: &str, series: &str, bar: Bar) {
        let chart = &mut self.chart;
        let place = chart.series.iter().position(|name| name == series);
        let place = place.unwrap_or_else(|| {
            chart.series.push(series.into());
            let groups = chart.groups.iter_mut();
            groups.for_each(|group| group.bars.push(Bar::default()));
            chart.series.len() - 1
        });
        let known = chart.groups.iter().position(|g| g.label == group);
        let known = known.unwrap_or_else(|| {
            chart.groups.push(BarGroup {
                label: group.into(),
                bars: vec![Bar::default(); chart.series.len()],
            });
            chart.groups.len() - 1
        });
        chart.groups[known].bars[place] = bar;
    }

    /// With a value at the top of its axis.
    pub(crate) fn up_to(mut self, max: f64) -> Self {
        self.chart.max = Some(max);
        self
    }

    /// The chart as `<svg>`.
    pub(crate) fn svg(self) -> String {
        self.chart.to_svg()
    }
}

/// The figure of an experiment that has one, of bars: group, series and bar of each.
pub(crate) fn bar_figure<G: AsRef<str>, S: AsRef<str>>(
    name: &str,
    title: &str,
    unit: Unit,
    all: impl IntoIterator<Item = (G, S, Bar)>,
) -> Vec<Figure> {
    let mut bars = Bars::new(title, unit);
    for (group, series, bar) in all {
        bars.put(group.as_ref(), series.as_ref(), bar);
    }
    vec![Figure::new(name, title, bars.svg())]
}

/// What a value is called in parameters and results; empty for one that is no plain name.
pub(crate) fn name_of(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().into()
}

/// A bar without range and paper.
pub(crate) fn plain(value: f64) -> Bar {
    Bar {
        value: Some(value),
        ..Bar::default()
    }
}

/// A mean with the half width of its interval, where it has one.
pub(crate) fn with_interval(mean: f64, half: Option<f64>, paper: Option<f64>) -> Bar {
    Bar {
        value: Some(mean),
        spread: half.map(|half| (mean - half, mean + half)),
        paper,
    }
}

/// A value with the least and the greatest.
pub(crate) fn with_range(value: f64, low: f64, high: f64, paper: Option<f64>) -> Bar {
    Bar {
        value: Some(value),
        spread: Some((low, high)),
        paper,
    }
}

/// A mean with the least and the greatest of its spread.
pub(crate) fn of_spread(spread: &Spread, paper: Option<f64>) -> Bar {
    with_range(spread.mean, spread.min, spread.max, paper)
}

/// A line without a band.
pub(crate) fn line(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    Series {
        name: name.into(),
        points: points.into_iter().collect(),
        band: Vec::new(),
    }
}

/// Lines with these titles and units of the horizontal and the vertical axis.
pub(crate) fn lines(title: &str, axes: [(&str, Unit); 2], series: Vec<Series>) -> LineChart {
    let [(x_title, x_unit), (y_title, y_unit)] = axes;
    LineChart {
        title: title.into(),
        series,
        x_title: x_title.into(),
        x_unit,
        y_title: y_title.into(),
        y_unit,
        y_max: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_in_their_groups() {
        let mut bars = Bars::new("losses", Unit::Percent);
        bars.put(
            "nginx 100",
            "cacheable",
            with_interval(0.1, Some(0.1), Some(0.0)),
        );
        bars.put("nginx 100", "software", plain(0.2));
        bars.put("memcached 100", "software", plain(0.3));
        assert_eq!(bars.chart.groups[1].bars[0], Bar::default());
        let svg = bars.svg();
        assert!(
            svg.contains("nginx 100") && svg.contains("software"),
            "{svg}"
        );
    }
}
