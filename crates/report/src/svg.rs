// SPDX-License-Identifier: MIT OR Apache-2.0
//! The few SVG elements that the figures are made of.

use crate::escape::escape;
use crate::values::{FigureValues, without_values};
use std::fmt::Write;

/// Colours of all figures as CSS variables, for light and dark pages. The first five series
/// colours were chosen to stay apart for readers with the common colour-vision deficiencies.
pub const STYLE: &str = "\
:root{--ink:#1c2330;--soft:#5b6472;--rule:#d9dee6;--paper:#fff;--card:#f6f8fb;--accent:#0b5cad;\
--s0:#b3352c;--s1:#c98a17;--s2:#7a6bb0;--s3:#0b5cad;--s4:#12866e;--s5:#6b7280;\
--s6:#7c8b12;--s7:#8a5a2b;--good:#12866e;\
--free:#cfe3f5;--movable:#5b9bd5;--polluted:#e8a33d;--unmovable:#b3352c;--hole:#e9ecf1}\
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa4b2;--rule:#343c49;\
--paper:#12161d;--card:#1a2029;--accent:#6db1f2;--s0:#ef7f76;--s1:#e6b45a;--s2:#a99be0;\
--s3:#6db1f2;--s4:#4fc3a8;--s5:#9aa4b2;\
--s6:#c3d04b;--s7:#c99a6a;--good:#4fc3a8;--free:#24425e;--movable:#3f7fbf;\
--polluted:#d8923a;--unmovable:#e0685f;--hole:#232a35}}\
svg.fig{width:100%;height:auto;font:12px system-ui,sans-serif}svg.fig text{fill:var(--soft)}\
svg.fig .strong{fill:var(--ink);font-weight:600}svg.fig .rule{stroke:var(--rule)}\
svg.fig .axis{stroke:var(--soft)}svg.fig .whisker{stroke:var(--ink);stroke-width:1.2}\
svg.fig .ref{stroke:var(--ink);stroke-width:2;stroke-dasharray:2 2}\
svg.fig .line{fill:none;stroke-width:2}";

/// A figure of this crate as a document of its own, with its colours.
pub fn standalone(svg: &str) -> String {
    let style = format!(">\n<style>{STYLE}</style>\n");
    let document = without_values(svg).replacen(">\n", &style, 1);
    format!("<?xml version='1.0' encoding='UTF-8'?>\n{document}")
}

/// A figure of this crate as a document for viewers that know no CSS variables: the colours of
/// light pages on a white ground.
pub fn plain(svg: &str) -> String {
    let root = STYLE
        .strip_prefix(":root{")
        .and_then(|rest| rest.split_once('}'));
    let rules = STYLE.find("svg.fig{").map_or("", |at| &STYLE[at..]);
    let style =
        format!(">\n<style>{rules}</style>\n<rect width='100%' height='100%' fill='#fff'/>\n");
    let mut text = without_values(svg).replacen(">\n", &style, 1);
    for (name, colour) in root
        .into_iter()
        .flat_map(|(colours, _)| colours.split(';'))
        .filter_map(|pair| pair.split_once(':'))
    {
        text = text.replace(&format!("var({name})"), colour);
    }
    debug_assert!(!text.contains("var("), "a colour that light pages lack");
    format!("<?xml version='1.0' encoding='UTF-8'?>\n{text}")
}

/// About how wide a text is in the font of the figures.
pub(crate) fn text_width(text: &str) -> f64 {
    6.6 * text.chars().count() as f64
}

/// Height of a row of a legend.
const LEGEND_ROW: f64 = 16.0;
/// What a legend leaves free at its right for the mark of a paper.
const MARK_WIDTH: f64 = 64.0;

/// Memory managers, whose colours are the same in every figure.
const POLICIES: [&str; 5] = [
    "linux",
    "illuminator",
    "static",
    "contiguitas",
    "contiguitas-hw",
];

/// CSS variables of the colours of series, in their order; policies have colours of their own
/// wherever nothing else is drawn.
pub(crate) fn series_colours<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    let places = names
        .iter()
        .map(|name| POLICIES.iter().position(|policy| policy == name));
    let places: Option<Vec<usize>> = places.collect();
    let places = places.unwrap_or_else(|| (0..names.len()).collect());
    let colours = places.iter().map(|place| format!("var(--s{})", place % 8));
    colours.collect()
}

/// An SVG document under construction.
#[derive(Debug)]
pub(crate) struct Svg {
    body: String,
    width: f64,
    height: f64,
    /// What it shows above its zero.
    above: f64,
    title: String,
    attributes: String,
}

/// Horizontal alignment of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// Coordinates with at most one decimal: half the bytes, no visible difference.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), String::from)
}

impl Svg {
    pub(crate) fn new(width: f64, height: f64, title: &str) -> Svg {
        Svg {
            body: String::new(),
            width,
            height,
            above: 0.0,
            title: title.to_string(),
            attributes: String::new(),
        }
    }

    /// Adds an attribute `data-NAME` to the whole figure.
    pub(crate) fn data(&mut self, name: &str, value: &str) {
        let value = escape(value);
        let _ = write!(self.attributes, " data-{name}='{value}'");
    }

    /// Says what the figure shows.
    pub(crate) fn values(&mut self, values: &FigureValues) {
        self.attributes.push_str(&values.attribute());
    }

    fn push(&mut self, element: std::fmt::Arguments) {
        // Writing to a String cannot fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// A filled rectangle with an optional text shown on hovering.
    pub(crate) fn rect(&mut self, at: (f64, f64), size: (f64, f64), fill: &str, hover: &str) {
        let (x, y) = (px(at.0), px(at.1));
        let (w, h) = (px(size.0.max(0.0)), px(size.1.max(0.0)));
        let rect = format!("<rect x='{x}' y='{y}' width='{w}' height='{h}' fill='{fill}'");
        if hover.is_empty() {
            self.push(format_args!("{rect}/>"));
        } else {
            self.push(format_args!(
                "{rect}><title>{}</title></rect>",
                escape(hover)
            ));
        }
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let (a, b, c, d) = (px(from.0), px(from.1), px(to.0), px(to.1));
        self.push(format_args!(
            "<line x1='{a}' y1='{b}' x2='{c}' y2='{d}' class='{class}'/>"
        ));
    }

    pub(crate) fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let (x, y, anchor) = (px(at.0), px(at.1), anchor.name());
        let text = escape(text);
        self.push(format_args!(
            "<text x='{x}' y='{y}' text-anchor='{anchor}' class='{class}'>{text}</text>"
        ));
    }

    pub(crate) fn path(&mut self, points: &[(f64, f64)], colour: &str, hover: &str) {
        let d = path_data(points);
        let hover = escape(hover);
        self.push(format_args!(
            "<path d='{d}' class='line' stroke='{colour}'><title>{hover}</title></path>"
        ));
    }

    /// A closed, translucent area.
    pub(crate) fn area(&mut self, points: &[(f64, f64)], colour: &str) {
        let d = path_data(points);
        self.push(format_args!(
            "<path d='{d}Z' fill='{colour}' opacity='.16'/>"
        ));
    }

    /// The `<svg>` element, to be put into a page.
    pub(crate) fn finish(self) -> String {
        let Svg {
            body,
            width,
            height,
            above,
            title,
            attributes,
        } = self;
        let title = escape(&title);
        let body = match above > 0.0 {
            true => format!("<g transform='translate(0 {})'>\n{body}</g>\n", px(above)),
            false => body,
        };
        format!(
            "<svg class='fig' viewBox='0 0 {} {}' role='img' aria-label='{title}' \
             xmlns='http://www.w3.org/2000/svg'{attributes}>\n{body}</svg>\n",
            px(width),
            px(height + above)
        )
    }
}

fn path_data(points: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for (index, point) in points.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        let _ = write!(d, "{command}{} {}", px(point.0), px(point.1));
    }
    d
}

/// Coloured squares with names in rows, of which the last is at `y` and the others above it, where
/// the figure grows for them; returns the next free x of the last row, with room for a mark.
pub(crate) fn legend(svg: &mut Svg, x: f64, y: f64, items: &[(String, String)]) -> f64 {
    let width = |name: &str| 28.0 + text_width(name);
    let (mut at, mut row, mut places) = (x, 0, Vec::new());
    for (_, name) in items {
        if at > x && at + width(name) > svg.width - MARK_WIDTH {
            (at, row) = (x, row + 1);
        }
        places.push((at, row));
        at += width(name);
    }
    for ((colour, name), (left, own)) in items.iter().zip(places) {
        let y = y - LEGEND_ROW * f64::from(row - own);
        svg.rect((left, y - 9.0), (10.0, 10.0), colour, "");
        svg.text((left + 14.0, y), Anchor::Start, "", name);
    }
    svg.above = LEGEND_ROW * f64::from(row);
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_that_is_wider_than_its_figure_takes_more_rows() {
        let drawn = |names: usize| {
            let mut svg = Svg::new(200.0, 50.0, "figure");
            let items = vec![("var(--s0)".to_string(), "a name".to_string()); names];
            let end = legend(&mut svg, 0.0, 14.0, &items);
            (end, svg.finish())
        };
        let (end, one) = drawn(1);
        assert!(one.contains("viewBox='0 0 200 50'"), "{one}");
        let (three, rows) = drawn(3);
        assert!(rows.contains("viewBox='0 0 200 66'"), "{rows}");
        assert!(rows.contains("y='-2'") && rows.contains("y='14'"), "{rows}");
        assert!(end <= 200.0 && three == end, "{end} {three}");
    }

    #[test]
    fn a_policy_keeps_its_colour_whoever_stands_before_it() {
        let all = series_colours(POLICIES.into_iter());
        assert_eq!(series_colours(POLICIES.into_iter().skip(1)), all[1..]);
        let others = series_colours(["glibc", "contiguitas"].into_iter());
        assert_eq!(others, all[..2]);
    }
}
