// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a value of ours agrees with the paper's.

use serde::{Deserialize, Serialize};

/// When a value agrees with the paper's. Shapes need a list of at least two values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// At most this far from the paper's value, in its unit.
    Within(f64),
    /// At most this share of the paper's value from it.
    WithinShare(f64),
    /// Ours is at least this.
    AtLeast(f64),
    /// Ours is at most this.
    AtMost(f64),
    /// From the first to the second.
    Between(f64, f64),
    /// Each value of the list is greater than the one before by at least this share of it.
    Rising(f64),
    /// Each value of the list is smaller than the one before by at least this share of it.
    Falling(f64),
    /// Least and greatest of the list differ by at most this share of the greatest.
    Flat(f64),
    /// Not judged.
    Shown,
}

/// What makes one value of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// The least of the list.
    Min,
    /// The greatest of the list.
    Max,
    /// The arithmetic mean.
    Mean,
}

impl Pick {
    /// One value of a list that is not empty.
    pub fn of(self, values: &[f64]) -> f64 {
        debug_assert!(!values.is_empty());
        let fold =
            |choose: fn(f64, f64) -> f64| values.iter().copied().reduce(choose).unwrap_or(f64::NAN);
        match self {
            Pick::Min => fold(f64::min),
            Pick::Max => fold(f64::max),
            Pick::Mean => values.iter().sum::<f64>() / values.len() as f64,
        }
    }
}

impl Rule {
    /// Whether it compares with the paper's value.
    pub fn needs_paper(self) -> bool {
        matches!(self, Rule::Within(_) | Rule::WithinShare(_))
    }

    /// Whether it looks at a list instead of one value.
    pub fn is_shape(self) -> bool {
        matches!(self, Rule::Rising(_) | Rule::Falling(_) | Rule::Flat(_))
    }

    /// How far `here` is outside the rule, as a share of the bound or of the paper's value; 0
    /// when they agree and for what is not judged.
    ///
    /// `None` when the rule does not fit: a shape of fewer than two values, several values
    /// without a shape, a value that is not finite, or no value of the paper to compare with.
    pub fn miss(self, here: &[f64], paper: Option<f64>) -> Option<f64> {
        if here.is_empty() || !here.iter().all(|value| value.is_finite()) {
            return None;
        }
        let one = || (here.len() == 1).then(|| here[0]);
        let outside = |low: f64, high: f64, scale: f64| {
            let value = one()?;
            let by = (low - value).max(value - high).max(0.0);
            let scale = if scale == 0.0 { 1.0 } else { scale.abs() };
            Some(by / scale)
        };
        let steps = |step: fn(f64, f64) -> f64, least: f64| {
            let pairs = here.windows(2).map(|pair| least - step(pair[0], pair[1]));
            pairs.reduce(f64::max).map(|by| by.max(0.0))
        };
        let rise = |from: f64, to: f64| (to - from) / nonzero(from.abs());
        match self {
            Rule::Within(by) => outside(paper? - by, paper? + by, paper?),
            Rule::WithinShare(share) => {
                let by = (paper? * share).abs();
                outside(paper? - by, paper? + by, paper?)
            }
            Rule::AtLeast(low) => outside(low, f64::INFINITY, low),
            Rule::AtMost(high) => outside(f64::NEG_INFINITY, high, high),
            Rule::Between(low, high) => outside(low, high, high),
            Rule::Rising(share) => steps(rise, share),
            Rule::Falling(share) => steps(|from, to| (from - to) / nonzero(from.abs()), share),
            Rule::Flat(share) => {
                (here.len() > 1).then_some(())?;
                let (min, max) = (Pick::Min.of(here), Pick::Max.of(here));
                Some(((max - min) / nonzero(max.abs()) - share).max(0.0))
            }
            Rule::Shown => Some(0.0),
        }
    }

    /// The rule in words.
    pub fn text(self) -> String {
        let percent = |share: f64| format!("{} %", round(share * 100.0));
        match self {
            Rule::Within(by) => format!("paper ± {}", round(by)),
            Rule::WithinShare(share) => format!("paper ± {}", percent(share)),
            Rule::AtLeast(low) => format!("at least {}", round(low)),
            Rule::AtMost(high) => format!("at most {}", round(high)),
            Rule::Between(low, high) => format!("{} to {}", round(low), round(high)),
            Rule::Rising(0.0) => "rising".into(),
            Rule::Rising(share) => format!("rising by {} a step", percent(share)),
            Rule::Falling(0.0) => "falling".into(),
            Rule::Falling(share) => format!("falling by {} a step", percent(share)),
            Rule::Flat(share) => format!("flat within {}", percent(share)),
            Rule::Shown => "not judged".into(),
        }
    }
}

fn nonzero(value: f64) -> f64 {
    value.max(f64::MIN_POSITIVE)
}

/// Four significant digits.
pub(super) fn round(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    if !(-5..=9).contains(&digits) {
        return format!("{value:.3e}");
    }
    let text = format!("{value:.*}", digits.max(0) as usize);
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').into()
}
