// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines over time (or any other axis) with bands for the spread over seeds.

use crate::scale::{Axis, Unit};
use crate::svg::{Anchor, Svg, legend, series_colours};

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
        svg.finish()
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
