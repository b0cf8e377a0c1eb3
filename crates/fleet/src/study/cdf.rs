// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distributions as counts of thousandths.

use serde::Serialize;

/// How many members of a population have each value, in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cdf {
    /// How many members there are.
    pub hosts: u64,
    /// Value in thousandths, rounded down, and how many members have it, in ascending order.
    pub counts: Vec<(i64, u64)>,
}

impl Cdf {
    pub(super) fn add(&mut self, permille: i64, hosts: u64) {
        debug_assert!(self.counts.last().is_none_or(|last| last.0 < permille));
        self.counts.push((permille, hosts));
        self.hosts += hosts;
    }

    /// The smallest value that `share` of the members do not exceed, as a ratio rounded down to a
    /// thousandth; `None` of nothing.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let mut below = 0;
        let wanted = share * self.hosts as f64;
        let found = self.counts.iter().find(|(_, hosts)| {
            below += hosts;
            below as f64 >= wanted
        });
        found.map(|(permille, _)| *permille as f64 / 1000.0)
    }

    /// Points (value, share of members with at most that value).
    pub fn steps(&self) -> Vec<(f64, f64)> {
        let mut below = 0;
        let step = |&(permille, hosts): &(i64, u64)| {
            below += hosts;
            (permille as f64 / 1000.0, below as f64 / self.hosts as f64)
        };
        self.counts.iter().map(step).collect()
    }

    /// Half width of the 95 % band around the whole curve, for hosts drawn from a larger fleet
    /// (Dvoretzky, Kiefer and Wolfowitz, with Massart's constant).
    pub fn half_width(&self) -> f64 {
        half_width(self.hosts)
    }

    fn quantiles(&self) -> Option<Quantiles> {
        Some(Quantiles {
            hosts: self.hosts,
            p10: self.quantile(0.1)?,
            p25: self.quantile(0.25)?,
            median: self.quantile(0.5)?,
            p75: self.quantile(0.75)?,
            p90: self.quantile(0.9)?,
            half_width: self.half_width(),
        })
    }
}

fn half_width(hosts: u64) -> f64 {
    ((2.0f64 / 0.05).ln() / (2.0 * hosts.max(1) as f64)).sqrt()
}

/// A distribution over hosts in numbers: ratios, rounded down to a thousandth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// Hosts that have the value.
    pub hosts: u64,
    /// A tenth of the hosts have at most this.
    pub p10: f64,
    /// A quarter of the hosts have at most this.
    pub p25: f64,
    /// Half of the hosts have at most this.
    pub median: f64,
    /// Three quarters of the hosts have at most this.
    pub p75: f64,
    /// Nine tenths of the hosts have at most this.
    pub p90: f64,
    /// Half width of the 95 % band around the distribution, as a share of hosts.
    pub half_width: f64,
}

/// A distribution, and in numbers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostSpread {
    /// In numbers; `null` of nothing.
    #[serde(flatten)]
    pub quantiles: Option<Quantiles>,
    /// The whole distribution.
    pub cdf: Cdf,
}

impl HostSpread {
    /// The same where several members are of one host: it is the hosts that were drawn.
    pub(super) fn of_hosts(mut self, hosts: u64) -> HostSpread {
        if let Some(own) = &mut self.quantiles {
            (own.hosts, own.half_width) = (hosts, half_width(hosts));
        }
        self
    }
}

impl From<Cdf> for HostSpread {
    fn from(cdf: Cdf) -> HostSpread {
        HostSpread {
            quantiles: cdf.quantiles(),
            cdf,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_histogram_are_those_of_its_members() {
        let mut cdf = Cdf::default();
        for (permille, hosts) in [(0, 1), (100, 2), (350, 4), (1000, 3)] {
            cdf.add(permille, hosts);
        }
        let members = [0, 100, 100, 350, 350, 350, 350, 1000, 1000, 1000];
        for tenths in 1..=10 {
            let share = tenths as f64 / 10.0;
            assert_eq!(
                cdf.quantile(share),
                Some(f64::from(members[tenths - 1]) / 1000.0)
            );
        }
        assert_eq!(cdf.steps().last(), Some(&(1.0, 1.0)));
        assert_eq!(Cdf::default().quantile(0.5), None);
    }
}
