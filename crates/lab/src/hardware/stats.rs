// SPDX-License-Identifier: MIT OR Apache-2.0
//! Means, intervals, and the run of independent simulations on all threads of the host.

use ample_memsys::timed::BadParams;
use rayon::prelude::*;
use serde::Serialize;

/// Two-sided 95 % quantile of Student's t.
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

/// Mean and half width of its 95 % confidence interval (infinite for one value).
pub fn mean_and_ci(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, student_t(values.len() - 1) * (variance / n).sqrt())
}

/// Mean of what is there; `None` of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0u32), |(sum, n), v| (sum + v, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

/// Correlation of each value with the one before it; 0 for constant or too few values.
pub(super) fn lag_1_correlation(values: &[f64]) -> f64 {
    let Some(mean) = mean(values.iter().copied()) else {
        return 0.0;
    };
    let variance: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let pairs = values.windows(2);
    let covariance: f64 = pairs.map(|p| (p[0] - mean) * (p[1] - mean)).sum();
    match variance > 0.0 {
        true => covariance / variance,
        false => 0.0,
    }
}

/// Smallest, median and largest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// Smallest.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Largest.
    pub max: f64,
}

impl Range {
    /// Of values that are there; `None` of nothing.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
        let median = (values[low] + values[high]) / 2.0;
        Some(Self { min, median, max })
    }
}

/// Runs one simulation for each job, on as many threads as the host gives. Results come in the
/// order of the jobs and do not depend on the number of threads.
pub(super) fn parallel<J: Sync, R: Send>(
    jobs: &[J],
    run: impl Fn(&J) -> Result<R, BadParams> + Sync + Send,
) -> Result<Vec<R>, BadParams> {
    jobs.par_iter().map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_textbook() {
        // Standard deviation 1, n = 4, t = 3.182.
        let sd = (4.0f64 / 3.0).sqrt();
        let (mean, half) = mean_and_ci(&[1.0, 1.0, 3.0, 3.0]);
        assert_eq!(mean, 2.0);
        assert!((half - 3.182 * sd / 2.0).abs() < 1e-12);
        assert!(mean_and_ci(&[1.0]).1.is_infinite());
    }

    #[test]
    fn alternating_values_are_negatively_correlated() {
        let values: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert!(lag_1_correlation(&values) < -0.9);
        assert_eq!(lag_1_correlation(&[1.0, 1.0]), 0.0);
        let range = Range::of(vec![4.0, 1.0, 3.0, 2.0]).expect("some");
        assert_eq!((range.min, range.median, range.max), (1.0, 2.5, 4.0));
    }
}
