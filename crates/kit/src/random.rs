// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small deterministic random numbers. A simulator's results must not change when a library
//! changes its generator, so the generators are fixed here.

/// SplitMix64: a counter-based 64-bit mixer; also used as a hash.
#[inline]
pub fn mix64(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A 64-bit generator: a SplitMix64 sequence.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator that repeats its sequence for the same seed.
    pub fn new(seed: u64) -> Self {
        Rng { state: mix64(seed) }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.state)
    }

    /// Uniform in `0..bound` (bias below 2^-32 for bounds below 2^32); `bound` must not be 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// Zipf-distributed ranks in `0..n` by rejection-inversion (Hörmann and Derflinger 1996): O(1) a
/// sample and no table, so that millions of keys cost nothing.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: f64,
    exponent: f64,
    h_x1: f64,
    h_n: f64,
    s: f64,
}

impl Zipf {
    /// Ranks `0..n` with probability proportional to `1 / (rank + 1)^exponent`; `exponent > 0`.
    pub fn new(n: u64, exponent: f64) -> Self {
        let mut zipf = Zipf {
            n: n as f64,
            exponent,
            h_x1: 0.0,
            h_n: 0.0,
            s: 0.0,
        };
        zipf.h_x1 = zipf.h(1.5) - 1.0;
        zipf.h_n = zipf.h(zipf.n + 0.5);
        zipf.s = 2.0 - zipf.h_inverse(zipf.h(2.5) - 2f64.powf(-exponent));
        zipf
    }

    fn h(&self, x: f64) -> f64 {
        let p = 1.0 - self.exponent;
        if p.abs() < 1e-9 {
            x.ln()
        } else {
            (x.powf(p) - 1.0) / p
        }
    }

    fn h_inverse(&self, x: f64) -> f64 {
        let p = 1.0 - self.exponent;
        if p.abs() < 1e-9 {
            x.exp()
        } else {
            (1.0 + x * p).powf(1.0 / p)
        }
    }

    /// The next rank; 0 is the most frequent.
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.h_n + rng.unit() * (self.h_x1 - self.h_n);
            let x = self.h_inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.s || u >= self.h(k + 0.5) - k.powf(-self.exponent) {
                return k as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_is_uniform() {
        let mut rng = Rng::new(7);
        let mut bins = [0u32; 10];
        for _ in 0..100_000 {
            bins[rng.below(10) as usize] += 1;
        }
        assert!(
            bins.iter().all(|&b| (9_500..10_500).contains(&b)),
            "{bins:?}"
        );
    }

    #[test]
    fn zipf_follows_its_law() {
        let zipf = Zipf::new(1000, 0.99);
        let mut rng = Rng::new(1);
        let mut bins = vec![0f64; 1000];
        let samples = 400_000;
        for _ in 0..samples {
            bins[zipf.sample(&mut rng) as usize] += 1.0;
        }
        let norm: f64 = (1..=1000).map(|k| f64::from(k).powf(-0.99)).sum();
        for k in [0usize, 1, 9, 99] {
            let expected = (k as f64 + 1.0).powf(-0.99) / norm * f64::from(samples);
            let error = (bins[k] - expected).abs() / expected;
            assert!(error < 0.06, "rank {k}: {} against {expected}", bins[k]);
        }
    }
}
