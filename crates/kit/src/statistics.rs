// SPDX-License-Identifier: MIT OR Apache-2.0
//! Summaries of repeated runs and of populations: means, spreads, quantiles, confidence
//! intervals, correlation. Sums run in the order of the values, so that equal values give equal
//! bytes.

use serde::{Deserialize, Serialize};

/// Arithmetic mean; `None` of nothing.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values
        .into_iter()
        .fold((0.0, 0u64), |(sum, n), v| (sum + v, n + 1));
    (n > 0).then(|| sum / n as f64)
}

/// Sum of squared distances from `mean`.
fn squares(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|v| (v - mean).powi(2)).sum()
}

/// Mean and spread of repeated runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Arithmetic mean of the runs.
    pub mean: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Sample standard deviation (divided by n − 1); 0 for a single value.
    pub sd: f64,
    /// Number of values.
    pub n: u32,
}

impl Spread {
    /// Of these values; all 0 when there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let values: Vec<f64> = values.into_iter().collect();
        let Some(mean) = mean(values.iter().copied()) else {
            return Spread::default();
        };
        let degrees = values.len() as f64 - 1.0;
        Spread {
            mean,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            sd: if degrees > 0.0 {
                (squares(&values, mean) / degrees).sqrt()
            } else {
                0.0
            },
            n: values.len() as u32,
        }
    }
}

/// Two-sided 95 % quantile of Student's t: tabulated up to 10 degrees of freedom, within 0.7 %
/// above.
fn student_t(degrees: usize) -> f64 {
    const TABLE: [f64; 10] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    ];
    match degrees {
        0 => f64::INFINITY,
        1..=10 => TABLE[degrees - 1],
        _ => 1.96 + 2.5 / degrees as f64,
    }
}

/// Mean and half width of its 95 % confidence interval (Student's t; infinite for one value). Of
/// nothing the mean is not a number.
pub fn mean_and_ci(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = mean(values.iter().copied()).unwrap_or(f64::NAN);
    if values.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let variance = squares(values, mean) / (n - 1.0);
    (mean, student_t(values.len() - 1) * (variance / n).sqrt())
}

/// Sum of the first ÷ sum of the second of pairs, and half width of its 95 % confidence interval by
/// linearization (Cochran, Sampling Techniques, §6.4): for a rate that is measured in windows of
/// unequal size. Infinite for one pair; without a size the rate is not a number.
pub fn ratio_and_ci(pairs: &[(f64, f64)]) -> (f64, f64) {
    let (above, below) = pairs.iter().fold((0.0, 0.0), |(above, below), pair| {
        (above + pair.0, below + pair.1)
    });
    let ratio = above / below;
    let residuals: Vec<f64> = pairs.iter().map(|pair| pair.0 - ratio * pair.1).collect();
    let (_, half_width) = mean_and_ci(&residuals);
    (ratio, half_width / (below / pairs.len() as f64))
}

/// Correlation of each value with the one before it; 0 for constant or too few values.
pub fn lag_1_correlation(values: &[f64]) -> f64 {
    let Some(mean) = mean(values.iter().copied()) else {
        return 0.0;
    };
    let variance = squares(values, mean);
    let pairs = values.windows(2);
    let covariance: f64 = pairs.map(|p| (p[0] - mean) * (p[1] - mean)).sum();
    match variance > 0.0 {
        true => covariance / variance,
        false => 0.0,
    }
}

/// Pearson's correlation coefficient; `None` for fewer than three pairs or where one side is
/// constant.
pub fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let mean_x = mean(pairs.iter().map(|pair| pair.0))?;
    let mean_y = mean(pairs.iter().map(|pair| pair.1))?;
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for &(x, y) in pairs {
        xx += (x - mean_x) * (x - mean_x);
        yy += (y - mean_y) * (y - mean_y);
        xy += (x - mean_x) * (y - mean_y);
    }
    (xx > 0.0 && yy > 0.0).then(|| (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0))
}

/// How alike the values of one group are: the intraclass correlation of a one-way analysis of
/// variance, for groups of any sizes. `None` for fewer than two groups with values, without a group
/// of two, or where all values are equal.
pub fn intraclass(groups: &[Vec<f64>]) -> Option<f64> {
    let groups: Vec<&Vec<f64>> = groups.iter().filter(|group| !group.is_empty()).collect();
    let count = groups.iter().map(|group| group.len()).sum::<usize>() as f64;
    let between = groups.len() as f64 - 1.0;
    let within = count - groups.len() as f64;
    if between < 1.0 || within < 1.0 {
        return None;
    }
    let all = mean(groups.iter().flat_map(|group| group.iter().copied()))?;
    let (mut apart, mut inside, mut sizes) = (0.0, 0.0, 0.0);
    for group in groups {
        let (own, size) = (mean(group.iter().copied())?, group.len() as f64);
        apart += size * (own - all).powi(2) / between;
        inside += squares(group, own) / within;
        sizes += size * size;
    }
    // The size of a group, were all of one size.
    let size = (count - sizes / count) / between;
    let total = apart + (size - 1.0) * inside;
    (total > 0.0).then(|| (apart - inside) / total)
}

/// Smallest, median and largest of a few runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MedianRange {
    /// Smallest value.
    pub min: f64,
    /// Median; of an even number of values the mean of the middle two.
    pub median: f64,
    /// Largest value.
    pub max: f64,
}

impl MedianRange {
    /// Of these values; `None` of nothing.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
        let median = (values[low] + values[high]) / 2.0;
        Some(Self { min, median, max })
    }
}

/// The median; `None` of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    MedianRange::of(values.into_iter().collect()).map(|range| range.median)
}

/// Shares of a population at which a [`Summary`] gives the value.
pub const QUANTILES: [f64; 7] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0];

/// The finite values of one metric over a population, in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution(Vec<f64>);

/// A distribution in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Members that have the value.
    pub hosts: usize,
    /// Smallest value.
    pub min: f64,
    /// A tenth of the members have at most this.
    pub p10: f64,
    /// A quarter of the members have at most this.
    pub p25: f64,
    /// Half of the members have at most this.
    pub median: f64,
    /// Three quarters of the members have at most this.
    pub p75: f64,
    /// Nine tenths of the members have at most this.
    pub p90: f64,
    /// Largest value.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
}

impl Distribution {
    /// Of these values; those that are not finite are left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Distribution {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let mut values: Vec<f64> = finite.collect();
        values.sort_by(f64::total_cmp);
        Distribution(values)
    }

    /// The value that a share of the population does not exceed, interpolated between neighbours
    /// (type 7 of Hyndman and Fan 1996); `None` of nothing.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let at = share.clamp(0.0, 1.0) * last as f64;
        let (below, above) = (self.0[at.floor() as usize], self.0[at.ceil() as usize]);
        Some(below + (above - below) * at.fract())
    }

    /// Share of the population for which `test` holds; `None` of nothing.
    pub fn share(&self, test: impl Fn(f64) -> bool) -> Option<f64> {
        let hits = self.0.iter().filter(|&&value| test(value)).count();
        (!self.0.is_empty()).then(|| hits as f64 / self.0.len() as f64)
    }

    /// In numbers; `None` of nothing.
    pub fn summary(&self) -> Option<Summary> {
        let [min, p10, p25, median, p75, p90, max] = QUANTILES.map(|share| self.quantile(share));
        Some(Summary {
            hosts: self.0.len(),
            min: min?,
            p10: p10?,
            p25: p25?,
            median: median?,
            p75: p75?,
            p90: p90?,
            max: max?,
            mean: mean(self.0.iter().copied())?,
        })
    }

    /// The steps of the cumulative distribution: value, and the share of the population up to it,
    /// two points a step.
    pub fn steps(&self) -> Vec<(f64, f64)> {
        let count = self.0.len() as f64;
        let step = |(index, &value): (usize, &f64)| {
            [
                (value, index as f64 / count),
                (value, (index + 1) as f64 / count),
            ]
        };
        self.0.iter().enumerate().flat_map(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-12)
    }

    #[test]
    fn intervals_are_those_of_the_textbook() {
        // Standard deviation 1, n = 4, t = 3.182.
        let sd = (4.0f64 / 3.0).sqrt();
        let (mean, half) = mean_and_ci(&[1.0, 1.0, 3.0, 3.0]);
        assert_eq!(mean, 2.0);
        assert!((half - 3.182 * sd / 2.0).abs() < 1e-12);
        assert!(mean_and_ci(&[1.0]).1.is_infinite());
        for (degrees, t) in [(11, 2.201), (20, 2.086), (30, 2.042), (120, 1.980)] {
            assert!((student_t(degrees) / t - 1.0).abs() < 0.007, "{degrees}");
        }
    }

    #[test]
    fn ratios_of_sums_have_intervals() {
        // Windows of one size: the interval of a mean, in that size.
        let values = [3.0, 5.0, 4.0, 8.0, 5.0];
        let (mean, half) = mean_and_ci(&values);
        let pairs: Vec<(f64, f64)> = values.iter().map(|&value| (value, 2.0)).collect();
        let (ratio, of_ratio) = ratio_and_ci(&pairs);
        assert!((ratio - mean / 2.0).abs() < 1e-12 && (of_ratio - half / 2.0).abs() < 1e-12);
        // A rate that is the same in all windows is known, however different their sizes.
        let (rate, half) = ratio_and_ci(&[(2.0, 1.0), (6.0, 3.0), (20.0, 10.0)]);
        assert_eq!((rate, half), (2.0, 0.0));
        assert!(ratio_and_ci(&[(1.0, 1.0)]).1.is_infinite() && ratio_and_ci(&[]).0.is_nan());
    }

    #[test]
    fn alternating_values_are_negatively_correlated() {
        let values: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert!(lag_1_correlation(&values) < -0.9);
        assert_eq!(lag_1_correlation(&[1.0, 1.0]), 0.0);
        assert_eq!(lag_1_correlation(&[]), 0.0);
    }

    #[test]
    fn quantiles_of_a_known_sample() {
        let values = Distribution::of([4.0, 1.0, f64::NAN, 3.0, 2.0]);
        assert!(near(values.quantile(0.0), 1.0));
        assert!(near(values.quantile(0.5), 2.5));
        assert!(near(values.quantile(0.25), 1.75));
        assert!(near(values.quantile(1.0), 4.0));
        assert!(near(values.share(|value| value < 3.0), 0.5));
        assert_eq!(values.steps().len(), 8);
        assert_eq!(Distribution::of(std::iter::empty()).summary(), None);
        assert!(near(median([4.0, 1.0, 3.0, 2.0]), 2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn correlation_of_lines_and_of_nothing() {
        let line: Vec<(f64, f64)> = (0..9).map(|x| (f64::from(x), 3.0 - f64::from(x))).collect();
        assert!(near(pearson(&line), -1.0));
        let square = [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)];
        assert!(near(pearson(&square), 0.0));
        assert_eq!(pearson(&[(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)]), None);
        assert_eq!(pearson(&line[..2]), None);
    }

    #[test]
    fn groups_that_agree_are_correlated_and_groups_of_anything_are_not() {
        let alike = [vec![1.0, 1.0], vec![2.0, 2.0, 2.0], vec![], vec![5.0]];
        assert!(near(intraclass(&alike), 1.0));
        // Means 2 and 4 of pairs: between 4, within 2, so (4 - 2) / (4 + 2).
        assert!(near(
            intraclass(&[vec![1.0, 3.0], vec![3.0, 5.0]]),
            1.0 / 3.0
        ));
        // Pairs whose members differ and whose means do not: -1 is the least for pairs.
        assert!(near(intraclass(&[vec![1.0, 3.0], vec![3.0, 1.0]]), -1.0));
        assert_eq!(intraclass(&[vec![1.0, 1.0], vec![1.0]]), None);
        assert_eq!(intraclass(&[vec![1.0], vec![2.0]]), None);
        assert_eq!(intraclass(&[vec![1.0, 2.0]]), None);
    }

    proptest! {
        /// What every summary of the same values says agrees, in order and under shift and scale.
        #[test]
        fn summaries_agree(
            values in proptest::collection::vec(-1e3f64..1e3, 2..50),
            shift in -1e3f64..1e3,
            scale in 0.1f64..10.0,
        ) {
            let spread = Spread::of(values.iter().copied());
            let summary = Distribution::of(values.iter().copied()).summary().expect("values");
            let range = MedianRange::of(values.clone()).expect("values");
            prop_assert_eq!((spread.min, spread.max), (summary.min, summary.max));
            prop_assert_eq!((range.min, range.max), (summary.min, summary.max));
            prop_assert!((range.median - summary.median).abs() < 1e-9);
            prop_assert!((spread.mean - summary.mean).abs() < 1e-9);
            let order = [summary.min, summary.p10, summary.p25, summary.median, summary.p75,
                summary.p90, summary.max];
            prop_assert!(order.is_sorted(), "{:?}", order);
            let (mean, half) = mean_and_ci(&values);
            prop_assert_eq!(mean, spread.mean);
            let t = student_t(values.len() - 1);
            prop_assert!((half - t * spread.sd / (values.len() as f64).sqrt()).abs() < 1e-9);
            let moved: Vec<f64> = values.iter().map(|v| v * scale + shift).collect();
            let after = Spread::of(moved.iter().copied());
            prop_assert!((after.mean - (spread.mean * scale + shift)).abs() < 1e-6);
            prop_assert!((after.sd - spread.sd * scale).abs() < 1e-6);
            let pairs: Vec<_> = values.into_iter().zip(moved).collect();
            if spread.sd > 1e-3 && pairs.len() > 2 {
                prop_assert!(pearson(&pairs).is_some_and(|r| r > 1.0 - 1e-6));
            }
        }
    }
}
