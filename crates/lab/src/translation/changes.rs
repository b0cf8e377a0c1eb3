// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shared by experiments that change one number at a time: by how much, and what that
//! changes of a headline.

use crate::server_model::Spread;
use serde::{Deserialize, Serialize};

/// A change is to `1 / FACTOR` and to `FACTOR` of a number, rounded where it counts things.
pub(super) const FACTOR: f64 = 1.25;

/// A whole number times a factor, and never the same for a factor that is not 1.
pub(super) fn times(value: u32, factor: f64) -> u32 {
    let changed = (f64::from(value) * factor).round() as u32;
    match changed == value {
        true if factor > 1.0 => value + 1,
        true => value.saturating_sub(1),
        false => changed,
    }
}

/// A headline, and what less and more of a number change of it.
pub(super) struct Changes {
    pub(super) value: Spread,
    pub(super) less: Spread,
    pub(super) more: Spread,
}

/// The changes of each number, from a headline with each seed: as it is, then with less and with
/// more of each number in turn. They are against the same seed.
pub(super) fn changes(found: &[f64], seeds: usize) -> Vec<Changes> {
    let (value, changed) = found.split_at(seeds);
    let against = |changed: &[f64]| {
        let pairs = changed.iter().zip(value);
        Spread::of(pairs.map(|(changed, value)| changed - value))
    };
    let numbers = changed.chunks_exact(2 * seeds).map(|both| Changes {
        value: Spread::of(value.iter().copied()),
        less: against(&both[..seeds]),
        more: against(&both[seeds..]),
    });
    numbers.collect()
}

/// A headline and what a fitted number changes of it; spreads over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FittedRow {
    /// The headline that changes.
    pub quantity: String,
    /// The number that changes.
    pub fitted: String,
    /// The headline as fitted.
    pub value: Spread,
    /// With the number ÷ 1.25, less that, of the same seed.
    pub less: Spread,
    /// With the number × 1.25, less that, of the same seed.
    pub more: Spread,
}

/// A row for each number of a headline, from `found` as [`changes`] takes it.
pub(super) fn rows_of<'a>(
    quantity: &'a str,
    fitted: impl Iterator<Item = &'a str> + 'a,
    found: &[f64],
    seeds: usize,
) -> impl Iterator<Item = FittedRow> + 'a {
    let row = move |(fitted, change): (&str, Changes)| FittedRow {
        quantity: quantity.into(),
        fitted: fitted.into(),
        value: change.value,
        less: change.less,
        more: change.more,
    };
    fitted.zip(changes(found, seeds)).map(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_never_none() {
        for value in [1, 2, 4, 7, 10, 30] {
            assert!(times(value, FACTOR) > value && times(value, 1.0 / FACTOR) < value);
        }
    }
}
