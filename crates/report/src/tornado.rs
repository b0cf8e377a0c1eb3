// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tornado charts: what a figure becomes when one number behind it is smaller or greater, the
//! number that matters most on top.

use crate::scale::{Axis, Unit};
use crate::svg::{Anchor, Svg, legend, text_width};
use crate::values::FigureValues;

/// One number and what the figure becomes with less and with more of it. Values in the chart's
/// unit.
#[derive(Clone, Debug, PartialEq)]
pub struct TornadoBar {
    /// The number that changes.
    pub label: String,
    /// The figure with less of it.
    pub less: f64,
    /// The figure with more of it.
    pub more: f64,
}

impl TornadoBar {
    fn width(&self) -> f64 {
        (self.less - self.more).abs()
    }
}

/// A figure and what each of the numbers behind it is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct TornadoChart {
    /// What the figure shows, for screen readers and as its accessible name.
    pub title: String,
    /// The figure when nothing changes.
    pub base: f64,
    /// Unit of the values.
    pub unit: Unit,
    /// In any order: the widest is drawn on top.
    pub bars: Vec<TornadoBar>,
}

const WIDTH: f64 = 860.0;
const ROW: f64 = 24.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 28.0;
const LESS: &str = "var(--s3)";
const MORE: &str = "var(--s1)";

impl TornadoChart {
    /// The chart as an `<svg>` element.
    pub fn to_svg(&self) -> String {
        let mut bars: Vec<&TornadoBar> = self.bars.iter().collect();
        bars.sort_by(|a, b| b.width().total_cmp(&a.width()));
        let height = TOP + BOTTOM + ROW * bars.len().max(1) as f64;
        let mut svg = Svg::new(WIDTH, height, &self.title);
        let widths = bars.iter().map(|bar| text_width(&bar.label));
        // Labels are bold.
        let left = 1.15 * widths.fold(40.0, f64::max) + 12.0;
        let ends = bars.iter().flat_map(|bar| [bar.less, bar.more]);
        let ends: Vec<f64> = ends.chain([self.base]).filter(|v| v.is_finite()).collect();
        let low = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Without a difference there is still a place to stand.
        let (low, high) = match high > low {
            true => (low, high),
            false => (self.base - 0.5, self.base + 0.5),
        };
        let x = Axis::new(low, high, 6, left, WIDTH - 24.0);
        for tick in x.ticks() {
            let at = x.px(tick);
            svg.line((at, TOP), (at, height - BOTTOM), "rule");
            let label = self.unit.format(tick);
            svg.text((at, height - 8.0), Anchor::Middle, "", &label);
        }
        for (index, bar) in bars.iter().enumerate() {
            self.draw_bar(&mut svg, &x, (left, TOP + index as f64 * ROW), bar);
        }
        let base = x.px(self.base);
        svg.line((base, TOP), (base, height - BOTTOM), "ref");
        let names = [(LESS.into(), "less".into()), (MORE.into(), "more".into())];
        let end = legend(&mut svg, left, 14.0, &names);
        svg.line((end, 9.0), (end + 18.0, 9.0), "ref");
        let fitted = format!("as fitted: {}", self.unit.format(self.base));
        svg.text((end + 24.0, 14.0), Anchor::Start, "", &fitted);
        svg.values(&self.values(&bars));
        svg.finish()
    }

    fn draw_bar(&self, svg: &mut Svg, x: &Axis, (left, top): (f64, f64), bar: &TornadoBar) {
        let label = (left - 8.0, top + ROW / 2.0 + 4.0);
        svg.text(label, Anchor::End, "strong", &bar.label);
        // Both may lie on the same side: the shorter is drawn over the longer.
        let mut sides = [(bar.less, LESS, "less"), (bar.more, MORE, "more")];
        sides.sort_by(|a, b| (b.0 - self.base).abs().total_cmp(&(a.0 - self.base).abs()));
        for (value, fill, name) in sides {
            if value.is_finite() {
                let (from, to) = (x.px(self.base), x.px(value));
                let hover = format!("{}, {name}: {}", bar.label, self.unit.format(value));
                let size = ((to - from).abs(), ROW - 8.0);
                svg.rect((from.min(to), top + 4.0), size, fill, &hover);
            }
        }
    }

    fn values(&self, bars: &[&TornadoBar]) -> FigureValues {
        let row = |bar: &&TornadoBar| {
            let [less, more] = [bar.less, bar.more].map(|value| self.unit.format(value));
            vec![bar.label.clone(), less, more]
        };
        FigureValues {
            at: vec![WIDTH / 2.0; bars.len()],
            heads: ["number", "less", "more"].map(String::from).to_vec(),
            rows: bars.iter().map(row).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, less: f64, more: f64) -> TornadoBar {
        TornadoBar {
            label: label.into(),
            less,
            more,
        }
    }

    fn chart(bars: Vec<TornadoBar>) -> String {
        TornadoChart {
            title: "blocks".into(),
            base: 0.3,
            unit: Unit::Percent,
            bars,
        }
        .to_svg()
    }

    #[test]
    fn the_widest_is_on_top() {
        let svg = chart(vec![bar("waves", 0.29, 0.31), bar("bursts", 0.25, 0.4)]);
        let places = ["bursts", "waves"].map(|name| svg.find(&format!(">{name}<")));
        assert!(places[0].is_some() && places[0] < places[1], "{svg}");
        assert!(svg.contains("bursts, more: 40 %"), "{svg}");
        assert!(svg.contains("as fitted: 30 %"), "{svg}");
    }

    #[test]
    fn odd_values_still_draw() {
        for value in [0.3, -1.0, f64::NAN, f64::INFINITY] {
            let svg = chart(vec![bar("a", value, 0.3)]);
            assert!(!svg.contains("NaN'"), "{value}");
        }
        assert!(chart(vec![]).contains("as fitted"));
    }
}
