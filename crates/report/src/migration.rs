// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page that moves while it is in use, moment by moment: who translates to which page, and
//! where each of its 64 lines is.

use crate::svg::{Anchor, Svg};

/// Where a line's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinePlace {
    /// In the source page.
    Source,
    /// Read from the source, not yet written to the destination.
    OnItsWay,
    /// In the destination page.
    Destination,
}

/// One line of the page: its data, and under which name private caches hold it, if they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineCell {
    /// Where its data is.
    pub place: LinePlace,
    /// Cached as source or as destination.
    pub cached_as: Option<LinePlace>,
}

/// One moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationFrame {
    /// Time and what is to be seen.
    pub caption: String,
    /// Name of each TLB, and which page it translates to.
    pub tlbs: Vec<(String, LinePlace)>,
    /// The lines in order.
    pub lines: Vec<LineCell>,
}

const WIDTH: f64 = 860.0;
const CELL: f64 = 15.0;
const LEFT: f64 = 470.0;
const HEIGHT: f64 = 96.0;

fn colour(place: LinePlace) -> &'static str {
    match place {
        LinePlace::Source => "var(--s1)",
        LinePlace::OnItsWay => "var(--s0)",
        LinePlace::Destination => "var(--s3)",
    }
}

/// One moment as a picture: TLBs on the left, lines on the right.
pub fn migration_frame(frame: &MigrationFrame) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT, &frame.caption);
    svg.text((0.0, 12.0), Anchor::Start, "strong", &frame.caption);
    for (i, (name, place)) in frame.tlbs.iter().enumerate() {
        let x = i as f64 * 45.0;
        svg.rect((x, 26.0), (40.0, 26.0), colour(*place), name);
        svg.text((x + 20.0, 66.0), Anchor::Middle, "", name);
    }
    svg.text((0.0, 86.0), Anchor::Start, "", "translations held");
    for (i, line) in frame.lines.iter().enumerate() {
        let x = LEFT + (i % 16) as f64 * (CELL + 3.0);
        let y = 20.0 + (i / 16) as f64 * (CELL + 3.0);
        svg.rect(
            (x, y),
            (CELL, CELL),
            colour(line.place),
            &format!("line {i}"),
        );
        if let Some(name) = line.cached_as {
            svg.rect(
                (x + 4.0, y + 4.0),
                (7.0, 7.0),
                "var(--paper)",
                "in a private cache",
            );
            svg.rect((x + 5.5, y + 5.5), (4.0, 4.0), colour(name), "");
        }
    }
    svg.text(
        (LEFT + 16.0 * (CELL + 3.0) + 6.0, 60.0),
        Anchor::Start,
        "",
        "lines",
    );
    svg.finish()
}

/// What the colours mean.
pub const MIGRATION_LEGEND: &str = "Yellow: the source page. Red: on its way, requests for the \
    line wait. Blue: the destination page. A framed dot: private caches hold the line, in the \
    colour of the name they hold it under.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_and_every_tlb_is_drawn() {
        let cell = |place, cached_as| LineCell { place, cached_as };
        let frame = MigrationFrame {
            caption: "at 1 ns <now>".into(),
            tlbs: vec![("0".into(), LinePlace::Source); 10],
            lines: (0..64)
                .map(|i| match i {
                    0 => cell(LinePlace::OnItsWay, None),
                    1 => cell(LinePlace::Destination, Some(LinePlace::Source)),
                    _ => cell(LinePlace::Source, None),
                })
                .collect(),
        };
        let svg = migration_frame(&frame);
        assert_eq!(svg.matches("<rect").count(), 10 + 64 + 2);
        assert!(svg.contains("&lt;now&gt;") && svg.contains("var(--s0)"));
    }
}
