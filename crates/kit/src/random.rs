// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deterministic random numbers. A result must not change when a library changes its generator,
//! so the generators are written out here: SplitMix64 (Steele, Lea and Flood 2014), xoshiro256**
//! (Blackman and Vigna 2018) and Zipf-distributed ranks. None of them is for secrets.

/// 2^64 ÷ the golden ratio, odd: the step of SplitMix64, and a factor that spreads keys.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64: a bijection of 64-bit numbers.
#[inline]
fn finalize(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The first output of SplitMix64 seeded with `value`: a hash of 64-bit numbers.
#[inline]
pub fn mix64(value: u64) -> u64 {
    finalize(value.wrapping_add(GOLDEN))
}

/// `bits` as a number in `[0, 1)`, from its upper 53 bits.
#[inline]
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A SplitMix64 sequence: 64 bits of state, period 2^64.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The standard sequence of `seed`. Seeds that differ by a multiple of [`GOLDEN`] give the
    /// same sequence shifted.
    pub fn new(seed: u64) -> Self {
        SplitMix64 { state: seed }
    }

    /// A sequence that starts at a hash of `seed`, so that seeds chosen by a rule give sequences
    /// without a rule.
    pub fn scattered(seed: u64) -> Self {
        SplitMix64 {
            state: mix64(seed).wrapping_add(GOLDEN),
        }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        finalize(self.state)
    }

    /// Uniform in `0..bound` (bias below 2^-32 for bounds below 2^32); 0 when `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }
}

/// A xoshiro256** sequence: 256 bits of state, period 2^256 − 1.
#[derive(Clone, Debug)]
pub struct Xoshiro256 {
    s: [u64; 4],
}

impl Xoshiro256 {
    /// The sequence of `seed`, whose state comes from SplitMix64 as its authors advise.
    pub fn new(seed: u64) -> Self {
        let mut seeds = SplitMix64::new(seed);
        Xoshiro256 {
            s: std::array::from_fn(|_| seeds.next_u64()),
        }
    }

    /// An independent generator for one part of a run, named by `salt`.
    pub fn fork(&mut self, salt: u64) -> Self {
        Xoshiro256::new(self.next_u64() ^ salt.wrapping_mul(GOLDEN))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let result = self.s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = self.s[1] << 17;
        self.s[2] ^= self.s[0];
        self.s[3] ^= self.s[1];
        self.s[1] ^= self.s[2];
        self.s[0] ^= self.s[3];
        self.s[2] ^= t;
        self.s[3] = self.s[3].rotate_left(45);
        result
    }

    /// Uniform in `0..bound`, from the upper 32 bits; 0 when `bound` is 0. The bias is below
    /// `bound` ÷ 2^32.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from((self.next_u64() >> 32) as u32) * u64::from(bound)) >> 32) as u32
    }

    /// Uniform in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// Whether an event of this probability happens.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// An integer whose expectation is `mean`: its floor, or one more with the probability of its
    /// fraction.
    #[inline]
    pub fn round(&mut self, mean: f64) -> u32 {
        let floor = mean.floor();
        floor as u32 + u32::from(self.chance(mean - floor))
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
    /// Ranks `0..n` with probability proportional to `1 / (rank + 1)^exponent`.
    ///
    /// # Panics
    /// If `n` is 0 or `exponent` is not above 0.
    pub fn new(n: u64, exponent: f64) -> Self {
        assert!(n > 0 && exponent > 0.0, "no law for {n} ranks, {exponent}");
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
    pub fn sample(&self, random: &mut SplitMix64) -> u64 {
        loop {
            let u = self.h_n + random.unit() * (self.h_x1 - self.h_n);
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
    use proptest::prelude::*;

    /// The sequences are part of every result: reference values of the published code.
    #[test]
    fn sequences_are_the_published_ones() {
        let mut split = SplitMix64::new(1_234_567);
        assert_eq!(split.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(split.next_u64(), 3_203_168_211_198_807_973);
        assert_eq!(split.next_u64(), 9_817_491_932_198_370_423);
        let mut xoshiro = Xoshiro256 { s: [1, 2, 3, 4] };
        assert_eq!(xoshiro.next_u64(), 11520);
        assert_eq!(xoshiro.next_u64(), 0);
        assert_eq!(xoshiro.next_u64(), 1_509_978_240);
        assert_eq!(xoshiro.next_u64(), 1_215_971_899_390_074_240);
    }

    #[test]
    fn below_is_uniform() {
        let mut split = SplitMix64::scattered(7);
        let mut xoshiro = Xoshiro256::new(7);
        let mut bins = [[0u32; 10]; 2];
        for _ in 0..100_000 {
            bins[0][split.below(10) as usize] += 1;
            bins[1][xoshiro.below(10) as usize] += 1;
        }
        for bin in bins.as_flattened() {
            assert!((9_500..10_500).contains(bin), "{bins:?}");
        }
        assert_eq!((split.below(0), xoshiro.below(0)), (0, 0));
    }

    proptest! {
        #[test]
        fn numbers_stay_in_their_ranges(seed: u64, bound in 1u32.., mean in 0.0f64..1e6) {
            let mut split = SplitMix64::new(seed);
            let mut xoshiro = Xoshiro256::new(seed);
            prop_assert_eq!(split.clone().next_u64(), mix64(seed));
            for _ in 0..20 {
                prop_assert!(split.below(u64::from(bound)) < u64::from(bound));
                prop_assert!(xoshiro.below(bound) < bound);
                prop_assert!((0.0..1.0).contains(&split.unit()));
                prop_assert!((0.0..1.0).contains(&xoshiro.unit()));
                prop_assert!((f64::from(xoshiro.round(mean)) - mean).abs() < 1.0);
            }
        }

        #[test]
        fn ranks_stay_in_range(seed: u64, n in 1u64..1 << 40, exponent in 0.1f64..3.0) {
            let zipf = Zipf::new(n, exponent);
            let mut random = SplitMix64::new(seed);
            for _ in 0..50 {
                prop_assert!(zipf.sample(&mut random) < n);
            }
        }
    }

    #[test]
    fn rounding_keeps_the_mean() {
        let mut xoshiro = Xoshiro256::new(3);
        let sum: u32 = (0..100_000).map(|_| xoshiro.round(2.3)).sum();
        assert!((f64::from(sum) / 1e5 - 2.3).abs() < 0.01, "{sum}");
    }

    #[test]
    fn zipf_follows_its_law() {
        for exponent in [0.99, 1.0] {
            let zipf = Zipf::new(1000, exponent);
            let mut random = SplitMix64::scattered(1);
            let mut bins = vec![0f64; 1000];
            let samples = 400_000;
            for _ in 0..samples {
                bins[zipf.sample(&mut random) as usize] += 1.0;
            }
            let norm: f64 = (1..=1000).map(|k| f64::from(k).powf(-exponent)).sum();
            for k in [0usize, 1, 9, 99] {
                let expected = (k as f64 + 1.0).powf(-exponent) / norm * f64::from(samples);
                let error = (bins[k] - expected).abs() / expected;
                assert!(error < 0.06, "rank {k}: {} against {expected}", bins[k]);
            }
        }
    }
}
