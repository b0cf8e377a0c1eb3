// SPDX-License-Identifier: MIT OR Apache-2.0
//! Division by a number that is known beforehand: mostly a power of two, and then a shift.

/// A number to divide by, with what makes it quick.
#[derive(Clone, Copy, Debug)]
pub struct Divisor {
    by: u64,
    /// Its logarithm, if it is a power of two.
    shift: Option<u32>,
}

impl Divisor {
    /// Division by `by`.
    ///
    /// # Panics
    /// If `by` is 0.
    pub fn new(by: u64) -> Self {
        assert!(by > 0, "division by 0");
        Divisor {
            by,
            shift: by.is_power_of_two().then(|| by.trailing_zeros()),
        }
    }

    /// Quotient and remainder.
    #[inline(always)]
    pub fn split(self, number: u64) -> (u64, u64) {
        match self.shift {
            Some(shift) => (number >> shift, number & (self.by - 1)),
            None => (number / self.by, number % self.by),
        }
    }

    /// The remainder alone.
    #[inline(always)]
    pub fn remainder(self, number: u64) -> u64 {
        match self.shift {
            Some(_) => number & (self.by - 1),
            None => number % self.by,
        }
    }

    /// The number of this quotient and remainder, the inverse of [`split`](Self::split).
    #[inline(always)]
    pub fn join(self, quotient: u64, remainder: u64) -> u64 {
        debug_assert!(remainder < self.by, "{remainder} is no rest of {}", self.by);
        match self.shift {
            Some(shift) => quotient << shift | remainder,
            None => quotient * self.by + remainder,
        }
    }

    /// The divisor as a number.
    pub fn get(self) -> u64 {
        self.by
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn splits_as_division_does_and_joins_again(by in 1u64.., number: u64, power in 0u32..64) {
            for by in [by, by >> 40 | 1, 1 << power] {
                let divisor = Divisor::new(by);
                let (quotient, remainder) = divisor.split(number);
                prop_assert_eq!((quotient, remainder), (number / by, number % by));
                prop_assert_eq!(divisor.remainder(number), remainder);
                prop_assert_eq!(divisor.join(quotient, remainder), number);
                prop_assert_eq!(divisor.get(), by);
            }
        }
    }

    #[test]
    #[should_panic(expected = "division by 0")]
    fn zero_is_refused() {
        Divisor::new(0);
    }
}
