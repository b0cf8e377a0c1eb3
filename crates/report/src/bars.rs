// SPDX-License-Identifier: MIT OR Apache-2.0
//! Grouped bars with spread and, where a paper gives one, its value as a dashed mark.

use crate::scale::{Axis, Unit};
use crate::svg::{Anchor, Svg, legend, series_colours, text_width};
use crate::values::FigureValues;

/// One bar. Values in the chart's unit.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Bar {
    /// Height (a mean over seeds, say); `None` leaves a gap.
    pub value: Option<f64>,
    /// Smallest and largest value seen, drawn as a whisker.
    pub spread: Option<(f64, f64)>,
    /// Value that a paper reports for the same quantity.
    pub paper: Option<f64>,
}

/// Bars that stand together, one per series.
#[derive(Clone, Debug, PartialEq)]
pub struct BarGroup {
    /// Label under the group.
    pub label: String,
    /// One bar per series of the chart, in the same order.
    pub bars: Vec<Bar>,
}

/// A grouped bar chart.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// What the figure shows, for screen readers and as its accessible name.
    pub title: String,
    /// Names of the series, in drawing order.
    pub series: Vec<String>,
    /// Groups from left to right.
    pub groups: Vec<BarGroup>,
    /// Unit of the values.
    pub unit: Unit,
    /// Upper end of the axis; `None` takes the largest value.
    pub max: Option<f64>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 28.0;

impl BarChart {
    /// The chart as an `<svg>` element.
    pub fn to_svg(&self) -> String {
        let mut svg = Svg::new(WIDTH, HEIGHT, &self.title);
        let top = self.max.unwrap_or_else(|| self.largest());
        let y = Axis::new(0.0, top, 5, HEIGHT - BOTTOM, TOP);
        self.draw_axis(&mut svg, &y);
        let group_width = (WIDTH - LEFT - 8.0) / self.groups.len().max(1) as f64;
        let bars = self.series.len().max(1) as f64;
        let bar_width = (group_width * 0.78 / bars).min(46.0);
        for (index, group) in self.groups.iter().enumerate() {
            let centre = LEFT + (index as f64 + 0.5) * group_width;
            let left = centre - bar_width * bars / 2.0;
            for (series, bar) in group.bars.iter().enumerate().take(self.series.len()) {
                let x = left + series as f64 * bar_width;
                self.draw_bar(&mut svg, &y, (x, bar_width), series, group, bar);
            }
            svg.text(
                (centre, HEIGHT - 8.0),
                Anchor::Middle,
                "strong",
                &group.label,
            );
        }
        self.draw_legend(&mut svg);
        let centre = |index: usize| LEFT + (index as f64 + 0.5) * group_width;
        svg.values(&self.values((0..self.groups.len()).map(centre)));
        svg.finish()
    }

    /// One row a group, whose middle is at the place given.
    fn values(&self, at: impl Iterator<Item = f64>) -> FigureValues {
        let cell = |bar: Option<&Bar>| match bar.and_then(|bar| Some((bar, bar.value?))) {
            Some((bar, value)) => self.says(bar, value),
            None => "–".into(),
        };
        let row = |group: &BarGroup| {
            let cells = (0..self.series.len()).map(|series| cell(group.bars.get(series)));
            std::iter::once(group.label.clone()).chain(cells).collect()
        };
        FigureValues {
            at: at.map(|centre| (centre * 10.0).round() / 10.0).collect(),
            heads: std::iter::once("group".into())
                .chain(self.series.clone())
                .collect(),
            rows: self.groups.iter().map(row).collect(),
        }
    }

    /// A value with its range and the paper's.
    fn says(&self, bar: &Bar, value: f64) -> String {
        let mut text = self.unit.format(value);
        if let Some((low, high)) = bar.spread {
            let (low, high) = (self.unit.format(low), self.unit.format(high));
            text.push_str(&format!(" ({low} to {high})"));
        }
        if let Some(paper) = bar.paper {
            text.push_str(&format!("; paper: {}", self.unit.format(paper)));
        }
        text
    }

    fn colours(&self) -> Vec<String> {
        series_colours(self.series.iter().map(String::as_str))
    }

    fn largest(&self) -> f64 {
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        let values = bars.flat_map(|bar| {
            [bar.value, bar.spread.map(|(_, high)| high), bar.paper]
                .into_iter()
                .flatten()
        });
        values.filter(|v| v.is_finite()).fold(0.0, f64::max)
    }

    fn draw_axis(&self, svg: &mut Svg, y: &Axis) {
        for tick in y.ticks() {
            svg.line((LEFT, y.px(tick)), (WIDTH, y.px(tick)), "rule");
            let label = self.unit.format(tick);
            svg.text((LEFT - 6.0, y.px(tick) + 4.0), Anchor::End, "", &label);
        }
    }

    fn draw_bar(
        &self,
        svg: &mut Svg,
        y: &Axis,
        (x, width): (f64, f64),
        series: usize,
        group: &BarGroup,
        bar: &Bar,
    ) {
        let gap = (width * 0.08).min(2.0);
        if let Some(value) = bar.value {
            let (name, says) = (&self.series[series], self.says(bar, value));
            let hover = format!("{}, {name}: {says}", group.label);
            let height = y.px(0.0) - y.px(value);
            let fill = &self.colours()[series];
            svg.rect(
                (x + gap, y.px(value)),
                (width - 2.0 * gap, height),
                fill,
                &hover,
            );
            let label = self.unit.format(value).replace(' ', "");
            if text_width(&label) <= width {
                let at = y.px(bar.spread.map_or(value, |(_, high)| high)) - 4.0;
                svg.text((x + width / 2.0, at), Anchor::Middle, "", &label);
            }
        }
        if let Some((low, high)) = bar.spread {
            let middle = x + width / 2.0;
            svg.line((middle, y.px(low)), (middle, y.px(high)), "whisker");
        }
        if let Some(paper) = bar.paper {
            svg.line((x, y.px(paper)), (x + width, y.px(paper)), "ref");
        }
    }

    fn draw_legend(&self, svg: &mut Svg) {
        let items: Vec<_> = self
            .colours()
            .into_iter()
            .zip(self.series.clone())
            .collect();
        let x = legend(svg, LEFT, 14.0, &items);
        let has_paper = self
            .groups
            .iter()
            .flat_map(|g| &g.bars)
            .any(|bar| bar.paper.is_some());
        if has_paper {
            svg.line((x, 9.0), (x + 18.0, 9.0), "ref");
            svg.text((x + 24.0, 14.0), Anchor::Start, "", "paper");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(value: f64) -> BarChart {
        let bar = Bar {
            value: Some(value),
            spread: Some((0.2, 0.4)),
            paper: Some(0.31),
        };
        BarChart {
            title: "unmovable <2 MB> blocks".into(),
            series: vec!["linux".into()],
            groups: vec![BarGroup {
                label: "web".into(),
                bars: vec![bar],
            }],
            unit: Unit::Percent,
            max: None,
        }
    }

    #[test]
    fn bars_carry_value_spread_and_paper() {
        let svg = chart(0.3).to_svg();
        assert!(
            svg.contains("web, linux: 30 % (20 % to 40 %); paper: 31 %"),
            "{svg}"
        );
        assert!(svg.contains("class='ref'"));
        assert!(svg.contains("aria-label='unmovable &lt;2 MB&gt; blocks'"));
    }

    #[test]
    fn odd_values_still_draw() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(!chart(value).to_svg().contains("NaN'"), "{value}");
        }
    }
}
