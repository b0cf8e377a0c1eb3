// SPDX-License-Identifier: MIT OR Apache-2.0
//! Division by a number that is known beforehand: mostly a power of two, and then a shift.

/// A divisor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    by: u64,
    /// Its logarithm, if it is a power of two.
    shift: Option<u32>,
}

impl Divisor {
    /// Division by `by`, which is not 0.
    pub(crate) fn new(by: u64) -> Self {
        assert!(by > 0, "division by 0");
        Divisor {
            by,
            shift: by.is_power_of_two().then(|| by.trailing_zeros()),
        }
    }

    /// Quotient and remainder.
    #[inline(always)]
    pub(crate) fn split(self, number: u64) -> (u64, u64) {
        match self.shift {
            Some(shift) => (number >> shift, number & (self.by - 1)),
            None => (number / self.by, number % self.by),
        }
    }

    /// The number of this quotient and remainder.
    #[inline(always)]
    pub(crate) fn join(self, quotient: u64, remainder: u64) -> u64 {
        match self.shift {
            Some(shift) => quotient << shift | remainder,
            None => quotient * self.by + remainder,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_as_division_does_and_joins_again() {
        for by in [1, 2, 3, 6, 11, 64, 22528, 1 << 40] {
            for number in [0, 1, 5, 6, 63, 64, 65, 0xffff_ffff, 0x1234_5678_9abc_def0] {
                let divisor = Divisor::new(by);
                let (quotient, remainder) = divisor.split(number);
                assert_eq!((quotient, remainder), (number / by, number % by));
                assert_eq!(divisor.join(quotient, remainder), number);
            }
        }
    }
}
