// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distances between the samples of a Poisson process.

/// An exponentially distributed number of bytes, by the logarithm of a uniform one.
pub fn exponential(random: &mut u64, mean: usize) -> i64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let uniform = ((*random >> 11) as f64 + 1.0) / 9_007_199_254_740_992.0;
    (-logarithm(uniform) * mean as f64) as i64 + 1
}

/// The natural logarithm of a positive normal number, to 1e-8. `f64::ln` is a call into libm, which
/// every program would load with the library.
fn logarithm(value: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let mantissa = f64::from_bits(bits & FRACTION | 1.0f64.to_bits());
    // ln m = 2 artanh((m - 1) / (m + 1)), of an argument of at most 1/3.
    let x = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut power, mut sum) = (x, 0.0);
    for term in 0..8 {
        sum += power / f64::from(2 * term + 1);
        power *= x * x;
    }
    2.0 * sum + f64::from(exponent) * core::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_distance_between_samples_is_the_one_asked_for() {
        let mut random = 42;
        let count = 20_000;
        let sum: i64 = (0..count).map(|_| exponential(&mut random, 1000)).sum();
        let mean = sum as f64 / f64::from(count);
        assert!((mean - 1000.0).abs() < 30.0, "{mean}");
    }

    #[test]
    fn the_logarithm_is_that_of_the_library() {
        let mut value = 1e-16;
        while value <= 1.0 {
            let error = logarithm(value) - f64::ln(value);
            assert!(error.abs() < 1e-8, "{value}: {error}");
            value *= 1.0173;
        }
        assert_eq!(logarithm(1.0), 0.0);
    }
}
