// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses between dispatch and commit, and the order in which their times come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Accesses back to which an address can depend.
pub(super) const HISTORY: usize = 1024;
/// A completion that is not known yet.
pub(super) const UNKNOWN: u64 = u64::MAX;
const NOBODY: u64 = u64::MAX;
/// What stands for an access where a store that has committed is to be translated.
const STORE: u64 = u64::MAX;

/// An access that has been dispatched and has not committed; times in units.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) va: u64,
    pub(super) is_store: bool,
    /// Its instruction's number.
    pub(super) number: u64,
    /// Instructions since the access before it, its own included.
    pub(super) slots: u64,
    /// When it was dispatched.
    pub(super) front: u64,
    /// What came of it, once it has begun.
    pub(super) done: Done,
    /// The first access that waits for this one's value, and the next one that waits for the value
    /// that this one waits for.
    first: u64,
    next: u64,
}

/// What an access came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// When it may commit, and accesses that depend on it may begin.
    pub(super) complete: u64,
    /// When its line is there.
    pub(super) data: u64,
    /// Time that its translation took, faults included.
    pub(super) translating: u64,
    /// Time of its faults.
    pub(super) fault: u64,
}

impl Done {
    /// An access that waits for nothing.
    pub(super) fn at(complete: u64) -> Self {
        Done {
            complete,
            ..Done::NOT_YET
        }
    }

    const NOT_YET: Done = Done {
        complete: UNKNOWN,
        data: 0,
        translating: 0,
        fault: 0,
    };
}

/// The accesses in flight: a ring by number, and those that can begin by time. Empty as long as
/// each access begins when it is dispatched.
pub(super) struct Flight {
    ring: Box<[InFlight]>,
    /// Completions by number, also of accesses that have committed.
    completed: Box<[u64]>,
    oldest: u64,
    next: u64,
    ready: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Flight {
    /// Room for the accesses of `rob` instructions.
    pub(super) fn new(rob: usize) -> Self {
        let empty = InFlight::new(0, false, 0, 0, 0);
        let room = HISTORY.max(rob + 1).next_power_of_two();
        Flight {
            ring: vec![empty; room].into(),
            completed: vec![0; room].into(),
            oldest: 0,
            next: 0,
            ready: BinaryHeap::new(),
        }
    }

    #[inline(always)]
    fn place(&self, access: u64) -> usize {
        access as usize & (self.completed.len() - 1)
    }

    /// Number of the access that is dispatched next.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.oldest == self.next
    }

    /// Whether one access more has no place: an instruction may have many records.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        (self.next - self.oldest) as usize == self.ring.len()
    }

    /// The oldest access in flight.
    #[inline(always)]
    pub(super) fn oldest(&self) -> Option<&InFlight> {
        (!self.is_empty()).then(|| &self.ring[self.place(self.oldest)])
    }

    /// When the value of the access `back` before the next one is there; [`UNKNOWN`] while it has
    /// not begun.
    #[inline(always)]
    pub(super) fn completed(&self, back: u64) -> u64 {
        self.completed[self.place(self.next.wrapping_sub(back))]
    }

    /// Takes an access that was dispatched, began and committed with none in flight.
    #[inline(always)]
    pub(super) fn pass(&mut self, complete: u64) {
        debug_assert!(self.is_empty());
        let place = self.place(self.next);
        self.completed[place] = complete;
        self.next += 1;
        self.oldest = self.next;
    }

    /// Takes an access that was dispatched, and gives its number. It waits until one of the next
    /// three is called for it.
    pub(super) fn add(&mut self, access: InFlight) -> u64 {
        debug_assert!(!self.is_full());
        let (number, place) = (self.next, self.place(self.next));
        self.ring[place] = access;
        self.completed[place] = UNKNOWN;
        self.next += 1;
        number
    }

    /// Lets an access begin at `start`.
    pub(super) fn begins_at(&mut self, start: u64, access: u64) {
        self.ready.push(Reverse((start, access)));
    }

    /// Lets an access begin once the value of the access `back` before it is there.
    pub(super) fn begins_after(&mut self, back: u64, access: u64) {
        let producer = self.place(access - back);
        debug_assert_eq!(self.completed[producer], UNKNOWN);
        let first = std::mem::replace(&mut self.ring[producer].first, access);
        let place = self.place(access);
        self.ring[place].next = first;
    }

    /// Notes what came of an access, and lets those begin that wait for its value.
    pub(super) fn finish(&mut self, access: u64, done: Done) {
        let place = self.place(access);
        self.completed[place] = done.complete;
        self.ring[place].done = done;
        let mut waiting = self.ring[place].first;
        while waiting != NOBODY {
            let dependent = &self.ring[self.place(waiting)];
            let (start, next) = (dependent.front.max(done.complete), dependent.next);
            self.begins_at(start, waiting);
            waiting = next;
        }
    }

    /// When the first of those that can begin does.
    #[inline(always)]
    pub(super) fn earliest(&self) -> u64 {
        self.ready
            .peek()
            .map_or(UNKNOWN, |Reverse((start, _))| *start)
    }

    /// Lets the next store that has committed be translated at `time`.
    pub(super) fn store_at(&mut self, time: u64) {
        self.ready.push(Reverse((time, STORE)));
    }

    /// Time of the first of those that can begin, and what begins: an access with its number, or
    /// the translation of a store.
    pub(super) fn take_earliest(&mut self) -> Option<(u64, Option<(u64, InFlight)>)> {
        let Reverse((start, access)) = self.ready.pop()?;
        let begins = (access != STORE).then(|| (access, self.ring[self.place(access)]));
        Some((start, begins))
    }

    /// Takes the oldest access out where it has begun.
    pub(super) fn take_oldest(&mut self) -> Option<InFlight> {
        let access = *self.oldest()?;
        (access.done.complete != UNKNOWN).then(|| {
            self.oldest += 1;
            access
        })
    }
}

impl InFlight {
    /// An access that has just been dispatched.
    pub(super) fn new(va: u64, is_store: bool, number: u64, slots: u64, front: u64) -> Self {
        InFlight {
            va,
            is_store,
            number,
            slots,
            front,
            done: Done::NOT_YET,
            first: NOBODY,
            next: NOBODY,
        }
    }
}
