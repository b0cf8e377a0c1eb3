// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distributions over hosts, and correlation.

use serde::Serialize;

/// Shares of hosts at which a distribution is told.
pub const QUANTILES: [f64; 7] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0];

/// The values of one metric over the hosts that have it, in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution(Vec<f64>);

/// A distribution in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Hosts that have the value.
    pub hosts: usize,
    /// Smallest value.
    pub min: f64,
    /// A tenth of the hosts have at most this.
    pub p10: f64,
    /// A quarter.
    pub p25: f64,
    /// Half.
    pub median: f64,
    /// Three quarters.
    pub p75: f64,
    /// Nine tenths.
    pub p90: f64,
    /// Largest value.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
}

impl Distribution {
    /// Of these values; those that are not finite are left out.
    pub fn of(values: impl Iterator<Item = f64>) -> Distribution {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        Distribution(values)
    }

    /// The value that a share of the hosts does not exceed, interpolated between neighbours
    /// (Hyndman and Fan's type 7); `None` without hosts.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let at = share.clamp(0.0, 1.0) * last as f64;
        let (below, above) = (self.0[at.floor() as usize], self.0[at.ceil() as usize]);
        Some(below + (above - below) * at.fract())
    }

    /// Share of the hosts for which `test` holds; `None` without hosts.
    pub fn share(&self, test: impl Fn(f64) -> bool) -> Option<f64> {
        let hits = self.0.iter().filter(|&&value| test(value)).count();
        (!self.0.is_empty()).then(|| hits as f64 / self.0.len() as f64)
    }

    /// In figures; `None` without hosts.
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
            mean: self.0.iter().sum::<f64>() / self.0.len() as f64,
        })
    }

    /// The steps of the cumulative distribution: value, and the share of hosts up to it.
    pub fn steps(&self) -> Vec<(f64, f64)> {
        let count = self.0.len() as f64;
        let mut steps = Vec::new();
        for (index, &value) in self.0.iter().enumerate() {
            steps.push((value, index as f64 / count));
            steps.push((value, (index + 1) as f64 / count));
        }
        steps
    }
}

/// Pearson's correlation coefficient; `None` for fewer than three pairs or where one side is
/// constant.
pub fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let count = pairs.len() as f64;
    let mean_x = pairs.iter().map(|pair| pair.0).sum::<f64>() / count;
    let mean_y = pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for &(x, y) in pairs {
        xx += (x - mean_x) * (x - mean_x);
        yy += (y - mean_y) * (y - mean_y);
        xy += (x - mean_x) * (y - mean_y);
    }
    (xx > 0.0 && yy > 0.0).then(|| (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-12)
    }

    #[test]
    fn quantiles_of_a_known_sample() {
        let values = Distribution::of([4.0, 1.0, f64::NAN, 3.0, 2.0].into_iter());
        assert!(near(values.quantile(0.0), 1.0));
        assert!(near(values.quantile(0.5), 2.5));
        assert!(near(values.quantile(0.25), 1.75));
        assert!(near(values.quantile(1.0), 4.0));
        assert!(near(values.share(|value| value < 3.0), 0.5));
        assert_eq!(values.steps().len(), 8);
        assert_eq!(Distribution::of(std::iter::empty()).summary(), None);
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
}
