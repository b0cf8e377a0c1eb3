// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines over time (or any other axis) with bands for the spread over seeds.

use crate::scale::{Axis, Unit};
use crate::svg::{Anchor, Svg, legend, series_colours};
use crate::values::{FigureValues, MAX_ROWS};

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points (x, y) in ascending x.
    pub points: Vec<(f64, f64)>,
    /// Lower and upper values for the same x, or empty.
    pub band: Vec<(f64, f64)>,
}

impl Series {
    /// Where it has points.
    fn places(&self) -> impl Iterator<Item = f64> {
        let all = self.points.iter().map(|point| point.0);
        all.filter(|place| place.is_finite())
    }

    /// Height of the line and of its band at a place between its ends, as they are drawn.
    fn at(&self, place: f64) -> Option<(f64, Option<(f64, f64)>)> {
        let points = &self.points;
        let after = points.partition_point(|point| point.0 < place);
        let to = points.get(after)?;
        let band = |at: usize| self.band.get(at).copied();
        if to.0 == place {
            // Of several points above each other the last, as in a step.
            let last = points.partition_point(|point| point.0 <= place) - 1;
            return Some((points[last].1, band(last)));
        }
        let from = points.get(after.checked_sub(1)?)?;
        let share = (place - from.0) / (to.0 - from.0);
        let between = |a: f64, b: f64| a + (b - a) * share;
        let band = band(after - 1).zip(band(after));
        Some((
            between(from.1, to.1),
            band.map(|(a, b)| (between(a.0, b.0), between(a.1, b.1))),
        ))
    }
}

/// A chart of lines over a common axis, as SVG.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// What the figure shows, for screen readers.
    pub title: String,
    /// One line each, with its name.
    pub series: Vec<Series>,
    /// What the horizontal axis shows.
    pub x_title: String,
    /// Unit of the horizontal axis.
    pub x_unit: Unit,
    /// What the vertical axis shows.
    pub y_title: String,
    /// Unit of the vertical axis, which starts at 0.
    pub y_unit: Unit,
    /// Upper end of the vertical axis; `None` takes the largest value.
    pub y_max: Option<f64>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 312.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 46.0;

impl LineChart {
    /// The chart as an `<svg>` element.
    pub fn to_svg(&self) -> String {
        let mut svg = Svg::new(WIDTH, HEIGHT, &self.title);
        let (x, y) = self.scales();
        for tick in y.ticks() {
            svg.line((LEFT, y.px(tick)), (WIDTH - RIGHT, y.px(tick)), "rule");
            let label = self.y_unit.format(tick);
            svg.text((LEFT - 6.0, y.px(tick) + 4.0), Anchor::End, "", &label);
        }
        for tick in x.ticks() {
            let label = self.x_unit.format(tick);
            svg.text((x.px(tick), HEIGHT - 28.0), Anchor::Middle, "", &label);
        }
        svg.text((0.0, TOP - 14.0), Anchor::Start, "", &self.y_title);
        svg.text(
            (WIDTH - RIGHT, HEIGHT - 8.0),
            Anchor::End,
            "",
            &self.x_title,
        );
        let colours = series_colours(self.series.iter().map(|series| series.name.as_str()));
        for (series, colour) in self.series.iter().zip(&colours) {
            if series.band.len() == series.points.len() {
                let at = |i: usize, value: f64| (x.px(series.points[i].0), y.px(value));
                let low = (0..series.band.len()).map(|i| at(i, series.band[i].0));
                let high = (0..series.band.len())
                    .rev()
                    .map(|i| at(i, series.band[i].1));
                let outline: Vec<_> = low.chain(high).collect();
                svg.area(&outline, colour);
            }
            let points: Vec<_> = series
                .points
                .iter()
                .map(|&(a, b)| (x.px(a), y.px(b)))
                .collect();
            let last = series
                .points
                .last()
                .map_or(String::new(), |p| self.y_unit.format(p.1));
            svg.path(
                &points,
                colour,
                &format!("{}: {last} at the end", series.name),
            );
        }
        let names = self.series.iter().map(|series| series.name.clone());
        let items: Vec<_> = colours.into_iter().zip(names).collect();
        legend(&mut svg, LEFT, 14.0, &items);
        svg.values(&self.values(&x));
        svg.finish()
    }

    /// The lines at all points of theirs, or at some between their ends where these are many.
    fn values(&self, x: &Axis) -> FigureValues {
        let mut at: Vec<f64> = self.series.iter().flat_map(Series::places).collect();
        at.sort_by(f64::total_cmp);
        at.dedup();
        if at.len() > MAX_ROWS {
            let (low, high) = (at[0], at[at.len() - 1]);
            let step = (high - low) / (MAX_ROWS - 1) as f64;
            at = (0..MAX_ROWS).map(|row| low + step * row as f64).collect();
        }
        let unit = self.y_unit;
        let cell = |series: &Series, place: f64| match series.at(place) {
            Some((value, None)) => unit.format(value),
            Some((value, Some((low, high)))) => {
                let (low, high) = (unit.format(low), unit.format(high));
                format!("{} ({low} to {high})", unit.format(value))
            }
            None => "–".into(),
        };
        let row = |&place: &f64| {
            let own = self.series.iter().map(|series| cell(series, place));
            std::iter::once(self.x_unit.format(place))
                .chain(own)
                .collect()
        };
        let names = self.series.iter().map(|series| series.name.clone());
        FigureValues {
            heads: std::iter::once(self.x_title.clone()).chain(names).collect(),
            rows: at.iter().map(row).collect(),
            at: at
                .iter()
                .map(|&place| (x.px(place) * 10.0).round() / 10.0)
                .collect(),
        }
    }

    fn scales(&self) -> (Axis, Axis) {
        let points = || self.series.iter().flat_map(|s| &s.points);
        let finite = |v: &f64| v.is_finite();
        let x_low = points()
            .map(|p| p.0)
            .filter(finite)
            .fold(f64::INFINITY, f64::min);
        let x_high = points()
            .map(|p| p.0)
            .filter(finite)
            .fold(f64::NEG_INFINITY, f64::max);
        let bands = self.series.iter().flat_map(|s| s.band.iter().map(|b| b.1));
        let y_high = points()
            .map(|p| p.1)
            .chain(bands)
            .filter(finite)
            .fold(0.0, f64::max);
        let x = match self.x_unit {
            Unit::Seconds => seconds_scale(x_low, x_high),
            Unit::Log2Bytes => Axis::stepped(x_low, x_high, 2.0, LEFT, WIDTH - RIGHT),
            _ => Axis::new(x_low, x_high, 8, LEFT, WIDTH - RIGHT),
        };
        (
            x,
            Axis::new(0.0, self.y_max.unwrap_or(y_high), 5, HEIGHT - BOTTOM, TOP),
        )
    }
}

/// Ticks at whole minutes, hours or days rather than at round numbers of seconds.
fn seconds_scale(low: f64, high: f64) -> Axis {
    const STEPS: [f64; 12] = [
        1.0, 10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14_400.0, 21_600.0, 43_200.0,
        86_400.0,
    ];
    let step = STEPS
        .into_iter()
        .find(|step| (high - low) / step <= 9.0)
        .unwrap_or(864_000.0);
    Axis::stepped(low, high, step, LEFT, WIDTH - RIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_get_hourly_ticks_and_bands_are_drawn() {
        let points: Vec<_> = (0..=8).map(|i| (f64::from(i) * 3600.0, 0.1)).collect();
        let band = vec![(0.05, 0.2); 9];
        let chart = LineChart {
            title: "t".into(),
            series: vec![Series {
                name: "linux".into(),
                points,
                band,
            }],
            x_title: "time".into(),
            x_unit: Unit::Seconds,
            y_title: "share".into(),
            y_unit: Unit::Percent,
            y_max: None,
        };
        let svg = chart.to_svg();
        assert!(svg.contains(">4 h<") && svg.contains(">8 h<"), "{svg}");
        assert!(svg.contains(">time<") && svg.contains(">share<"), "{svg}");
        assert!(svg.contains("opacity='.16'"));
    }

    #[test]
    fn values_are_read_off_the_lines_as_drawn() {
        let series = Series {
            name: "a".into(),
            points: vec![(0.0, 0.0), (2.0, 1.0), (2.0, 3.0), (4.0, 3.0)],
            band: vec![(0.0, 0.0), (0.5, 1.5), (2.5, 3.5), (3.0, 3.0)],
        };
        assert_eq!(series.at(1.0), Some((0.5, Some((0.25, 0.75)))));
        assert_eq!(series.at(2.0), Some((3.0, Some((2.5, 3.5)))));
        assert_eq!(series.at(4.0), Some((3.0, Some((3.0, 3.0)))));
        assert_eq!((series.at(-1.0), series.at(4.5)), (None, None));
    }

    #[test]
    fn many_points_give_few_rows_from_the_first_to_the_last() {
        let points: Vec<_> = (0..1000).map(|i| (f64::from(i), f64::from(i))).collect();
        let chart = LineChart {
            title: "t".into(),
            series: vec![Series {
                name: "a".into(),
                points,
                band: vec![],
            }],
            x_title: "x".into(),
            x_unit: Unit::Plain,
            y_title: "y".into(),
            y_unit: Unit::Count,
            y_max: None,
        };
        let values = chart.values(&chart.scales().0);
        assert_eq!(values.rows.len(), MAX_ROWS);
        assert_eq!(values.at.len(), MAX_ROWS);
        assert_eq!(values.rows[0], ["0", "0"]);
        assert_eq!(values.rows[MAX_ROWS - 1], ["999", "999"]);
        // On a page they are a table; a file of its own has the drawing alone.
        let svg = chart.to_svg();
        assert!(svg.contains("data-values"));
        assert!(!crate::standalone(&svg).contains("data-values"));
    }

    #[test]
    fn an_empty_chart_is_still_a_picture() {
        let chart = LineChart {
            title: String::new(),
            series: vec![],
            x_title: "time".into(),
            x_unit: Unit::Seconds,
            y_title: "share".into(),
            y_unit: Unit::Count,
            y_max: None,
        };
        assert!(chart.to_svg().starts_with("<svg"));
    }
}
