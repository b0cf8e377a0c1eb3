// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of the differences between hosts a name explains: their kernel, their role.

use super::Cdf;
use serde::Serialize;

/// Share of the variance over hosts that lies between groups of a dimension (the correlation ratio
/// η²), which stands to names as Pearson's squared coefficient to numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Explained {
    /// Hosts that have a name in this dimension.
    pub hosts: u64,
    /// Groups that they are in.
    pub groups: u64,
    /// Between groups, of all variance.
    pub variance_ratio: f64,
    /// What names that were dealt to the hosts at random would explain in the mean.
    pub by_chance_ratio: f64,
}

/// Of the groups' distributions; `None` for a single group, groups of one host each, or hosts that
/// do not differ.
pub(super) fn explained<'a>(groups: impl Iterator<Item = &'a Cdf>) -> Option<Explained> {
    let (mut hosts, mut count, mut sum, mut squares) = (0i128, 0i128, 0i128, 0i128);
    let mut between = 0.0;
    for group in groups {
        let of = |value: fn(i128) -> i128| {
            let counts = group.counts.iter();
            counts.map(move |&(permille, hosts)| value(i128::from(permille)) * i128::from(hosts))
        };
        let own: i128 = of(|value| value).sum();
        between += (own * own) as f64 / group.hosts.max(1) as f64;
        squares += of(|value| value * value).sum::<i128>();
        hosts += i128::from(group.hosts);
        sum += own;
        count += 1;
    }
    let mean = (sum * sum) as f64 / hosts.max(1) as f64;
    let all = squares as f64 - mean;
    if count < 2 || hosts <= count || all <= 0.0 {
        return None;
    }
    Some(Explained {
        hosts: hosts as u64,
        groups: count as u64,
        variance_ratio: ((between - mean) / all).clamp(0.0, 1.0),
        by_chance_ratio: (count - 1) as f64 / (hosts - 1) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_kit::random::SplitMix64;

    fn group(values: &[i64]) -> Cdf {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let mut cdf = Cdf::default();
        for own in sorted.chunk_by(|a, b| a == b) {
            cdf.add(own[0], own.len() as u64);
        }
        cdf
    }

    #[test]
    fn of_two_groups_it_is_the_square_of_pearsons_coefficient() {
        let groups = [vec![100, 200, 300, 300], vec![250, 400, 700]];
        let pairs: Vec<(f64, f64)> = (groups.iter().enumerate())
            .flat_map(|(at, own)| own.iter().map(move |&value| (at as f64, value as f64)))
            .collect();
        let own = explained(groups.map(|own| group(&own)).iter()).unwrap();
        let other = ample_kit::statistics::pearson(&pairs).unwrap();
        let error = own.variance_ratio - other * other;
        assert!(error.abs() < 1e-12, "{own:?} {other}");
        assert_eq!((own.hosts, own.groups), (7, 2));
    }

    #[test]
    fn names_that_decide_explain_all_and_names_at_random_as_much_as_chance() {
        let apart = [group(&[100; 9]), group(&[900; 3])];
        assert_eq!(explained(apart.iter()).unwrap().variance_ratio, 1.0);
        let mut mean = 0.0;
        for seed in 0..200 {
            let mut random = SplitMix64::new(seed);
            let mut draw = || {
                (0..5)
                    .map(|_| random.below(1000) as i64)
                    .collect::<Vec<_>>()
            };
            let groups: Vec<Cdf> = (0..6).map(|_| group(&draw())).collect();
            let own = explained(groups.iter()).unwrap();
            mean += (own.variance_ratio - own.by_chance_ratio) / 200.0;
        }
        assert!(mean.abs() < 0.02, "{mean}");
    }

    #[test]
    fn where_nothing_can_be_said_nothing_is() {
        for groups in [
            vec![],
            vec![group(&[1, 2, 3])],
            vec![group(&[1]), group(&[2])],
            vec![group(&[5, 5]), group(&[5, 5])],
        ] {
            assert_eq!(explained(groups.iter()), None);
        }
    }
}
