// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the system is asked for hugepages again after it had none.

use crate::os::vm::Refusal;

/// The first wait after the system had no hugepage; each further one is twice as long.
const FIRST_WAIT_NS: u64 = 5_000_000_000;
/// The longest wait, and the one after any other failure or a slow collapse.
const LONGEST_WAIT_NS: u64 = 60_000_000_000;

/// Whether the system has hugepages, as far as its answers tell. One for the process: what one heap
/// is refused, another would be.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackOff {
    not_before_ns: u64,
    /// The wait after the last refusal for lack of hugepages; 0 since the last success.
    wait_ns: u64,
    /// Free blocks of the system then; `None` while it does not wait for more.
    free_blocks: Option<usize>,
    /// Waits begun, and those cut short because the system had more free blocks.
    pub waits: u64,
    /// See `waits`.
    pub cut_short: u64,
}

impl BackOff {
    /// Nothing asked yet.
    pub const fn new() -> Self {
        BackOff {
            not_before_ns: 0,
            wait_ns: 0,
            free_blocks: None,
            waits: 0,
            cut_short: 0,
        }
    }

    /// Whether a collapse may be tried now.
    pub const fn allows(&self, now_ns: u64) -> bool {
        now_ns >= self.not_before_ns
    }

    /// Takes note of a collapse.
    pub fn note(&mut self, now_ns: u64, result: Result<(), Refusal>, slow: bool) {
        let wait_ns = match result {
            Err(Refusal::NoHugepage) => {
                self.wait_ns = (self.wait_ns * 2).clamp(FIRST_WAIT_NS, LONGEST_WAIT_NS);
                self.wait_ns
            }
            Err(Refusal::Unfit) => LONGEST_WAIT_NS,
            Err(Refusal::Busy) | Ok(()) if slow => LONGEST_WAIT_NS,
            Err(Refusal::Busy) => return,
            Ok(()) => {
                self.wait_ns = 0;
                return;
            }
        };
        self.not_before_ns = now_ns + wait_ns;
        self.waits += 1;
        self.free_blocks = None;
    }

    /// A wait for hugepages ends early when the system has more free blocks of their size than
    /// when the wait was first looked at. To be called now and then; `free_blocks` reads a file.
    pub fn reconsider(&mut self, now_ns: u64, free_blocks: impl FnOnce() -> usize) {
        if self.allows(now_ns) || self.wait_ns == 0 {
            return;
        }
        let free = free_blocks();
        let before = *self.free_blocks.get_or_insert(free);
        if free > before {
            self.not_before_ns = now_ns;
            self.cut_short += 1;
        }
        self.free_blocks = Some(free.min(before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const NONE: Result<(), Refusal> = Err(Refusal::NoHugepage);

    /// When the next attempts are made if each is refused.
    fn attempts(back_off: &mut BackOff, seconds: u64, free: impl Fn(u64) -> usize) -> Vec<u64> {
        let mut times = Vec::new();
        for s in 0..seconds {
            if s % 5 == 0 {
                back_off.reconsider(s * S, || free(s));
            }
            if back_off.allows(s * S) {
                times.push(s);
                back_off.note(s * S, NONE, false);
            }
        }
        times
    }

    #[test]
    fn waits_double_to_a_minute() {
        let times = attempts(&mut BackOff::new(), 300, |_| 3);
        assert_eq!(times, [0, 5, 15, 35, 75, 135, 195, 255]);
    }

    /// What is free but cannot be had (blocks of another zone, reserves) is no reason to ask.
    #[test]
    fn more_free_blocks_end_a_wait_and_the_same_number_does_not() {
        let mut back_off = BackOff::new();
        let times = attempts(&mut back_off, 150, |s| if s < 100 { 3 } else { 9 });
        assert_eq!(times, [0, 5, 15, 35, 75, 100]);
        assert_eq!((back_off.waits, back_off.cut_short), (6, 1));
    }

    #[test]
    fn a_success_makes_the_next_wait_short_again() {
        let mut back_off = BackOff::new();
        attempts(&mut back_off, 100, |_| 0);
        back_off.note(140 * S, Ok(()), false);
        back_off.note(141 * S, NONE, false);
        assert!(!back_off.allows(145 * S) && back_off.allows(146 * S));
    }

    #[test]
    fn a_busy_page_is_no_reason_to_wait_and_a_slow_collapse_is() {
        let mut back_off = BackOff::new();
        back_off.note(S, Err(Refusal::Busy), false);
        assert!(back_off.allows(S));
        back_off.note(S, Ok(()), true);
        assert!(!back_off.allows(60 * S) && back_off.allows(61 * S));
        back_off.reconsider(2 * S, || unreachable!("not for lack of hugepages"));
        back_off.note(100 * S, Err(Refusal::Unfit), false);
        assert!(!back_off.allows(159 * S));
    }
}
