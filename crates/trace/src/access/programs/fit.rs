// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many fit.

/// The largest number from 1 to `most` that fits, where all smaller ones do; 1 if none does.
pub(super) fn largest(most: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (1, most + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match fits(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_that_fits_is_found() {
        for limit in [0, 1, 2, 77, 99, 100, 500] {
            assert_eq!(largest(100, |n| n <= limit), limit.clamp(1, 100), "{limit}");
        }
    }
}
