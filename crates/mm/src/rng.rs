// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seeded generator of the model: xoshiro256** seeded through splitmix64 (Blackman and
//! Vigna, public domain). Written out so that no dependency's update can change a result.

/// A deterministic pseudo-random generator; not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    s: [u64; 4],
}

impl Rng {
    /// A generator whose sequence depends on `seed` alone.
    pub fn new(seed: u64) -> Rng {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        Rng {
            s: [next(), next(), next(), next()],
        }
    }

    /// An independent generator for one named part of a run.
    pub fn fork(&mut self, salt: u64) -> Rng {
        Rng::new(self.next_u64() ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// 64 random bits.
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

    /// A number in `0..bound`; 0 when `bound` is 0. The bias of the multiply-shift is below
    /// 2^-32 for any bound the model uses.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from((self.next_u64() >> 32) as u32) * u64::from(bound)) >> 32) as u32
    }

    /// A number in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Whether an event of this probability happens.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// `mean` as an integer: its floor, or one more with the probability of its fraction.
    #[inline]
    pub fn round(&mut self, mean: f64) -> u32 {
        let floor = mean.floor();
        floor as u32 + u32::from(self.chance(mean - floor))
    }
}
