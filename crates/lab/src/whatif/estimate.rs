// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value over several seeds in words: median and interval, with no more digits than the interval
//! bears.

use ample_kit::statistics::MedianRange;

/// How a value is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wording {
    factor: f64,
    suffix: &'static str,
    /// Smallest unit of a last digit.
    finest: f64,
}

/// A ratio in per cent.
pub(super) const PERCENT: Wording = Wording {
    factor: 100.0,
    suffix: " %",
    finest: 0.1,
};
/// Whole things.
pub(super) const COUNT: Wording = Wording {
    factor: 1.0,
    suffix: "",
    finest: 1.0,
};
/// A time in seconds, at best to a tenth.
pub(super) const SECONDS: Wording = Wording {
    factor: 1.0,
    suffix: " s",
    finest: 0.1,
};

impl Wording {
    /// `27 % (21 to 35)`, or `27 %` where no digit differs. The last digit is worth at most half of
    /// the interval, and without an interval two digits are written.
    pub(super) fn of(self, range: &MedianRange) -> String {
        let [low, middle, high] = self.digits(range);
        match low == high {
            true => format!("{middle}{}", self.suffix),
            false => format!("{middle}{} ({low} to {high})", self.suffix),
        }
    }

    /// `21 to 35 %`.
    pub(super) fn span(self, range: &MedianRange) -> String {
        let [low, _, high] = self.digits(range);
        match low == high {
            true => format!("{low}{}", self.suffix),
            false => format!("{low} to {high}{}", self.suffix),
        }
    }

    fn digits(self, range: &MedianRange) -> [String; 3] {
        let values = [range.min, range.median, range.max].map(|value| value * self.factor);
        let half = (values[2] - values[0]) / 2.0;
        let room = if half > 0.0 {
            half
        } else {
            values[1].abs() / 10.0
        };
        let room = if room > 0.0 { room } else { 1.0 };
        let unit = 10f64.powf(room.log10().floor()).max(self.finest);
        let decimals = (-unit.log10()).max(0.0).ceil() as usize;
        // Adding nothing makes a zero of a negative zero.
        values.map(|value| format!("{:.decimals$}", (value / unit).round() * unit + 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(values: [f64; 5]) -> MedianRange {
        MedianRange::of(values.to_vec()).expect("five values")
    }

    #[test]
    fn digits_end_where_the_interval_begins() {
        let spoiled = range([0.353, 0.255, 0.319, 0.235, 0.212]);
        assert_eq!(PERCENT.of(&spoiled), "26 % (21 to 35)");
        assert_eq!(PERCENT.span(&spoiled), "21 to 35 %");
        let wide = range([0.1, 0.2, 0.44, 0.6, 0.9]);
        assert_eq!(PERCENT.of(&wide), "40 % (10 to 90)");
        let narrow = range([0.0412, 0.0415, 0.0418, 0.0421, 0.0444]);
        assert_eq!(PERCENT.of(&narrow), "4.2 % (4.1 to 4.4)");
        assert_eq!(PERCENT.of(&range([0.1234; 5])), "12 %");
        assert_eq!(PERCENT.of(&range([-0.0001; 5])), "0.0 %");
        assert_eq!(PERCENT.of(&range([0.0; 5])), "0 %");
        assert_eq!(COUNT.of(&range([4000.0; 5])), "4000");
        assert_eq!(COUNT.of(&range([0.0, 0.0, 0.0, 1.0, 1.0])), "0 (0 to 1)");
        assert_eq!(
            SECONDS.of(&range([0.32, 0.4, 0.41, 0.5, 1.2])),
            "0.4 s (0.3 to 1.2)"
        );
    }
}
