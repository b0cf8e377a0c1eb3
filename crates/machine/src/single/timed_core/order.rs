// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses that start after later ones, in the order of their times.

use super::super::in_flight::{InFlight, UNKNOWN};
use super::{Failed, TimedCore};
use ample_memory::MemorySystem;
use ample_translate::Intent;
use ample_translate::engine::Translated;

impl<M: MemorySystem> TimedCore<M> {
    /// Brings every access in flight to its end: a part of the run is over.
    pub fn settle(&mut self) {
        if self.failed.is_none() {
            self.failed = self.drain().err();
        }
        self.commit += std::mem::take(&mut self.carried);
    }

    #[inline(always)]
    pub(super) fn drain(&mut self) -> Result<(), Failed> {
        while self.flight.earliest() != UNKNOWN {
            self.run_earliest()?;
        }
        Ok(())
    }

    /// Takes an access that waits for `value`, or lies behind one that does.
    #[inline(never)]
    pub(super) fn hold(&mut self, access: InFlight, dep: u64, value: u64) -> Result<(), Failed> {
        self.stores_ahead += usize::from(access.is_store);
        let number = self.flight.add(access);
        if value == UNKNOWN {
            self.flight.begins_after(dep, number);
        } else if value > access.front {
            self.flight.begins_at(value, number);
        } else {
            self.begin(access.front, number, &access)?;
        }
        Ok(())
    }

    /// Begins the access that can first.
    pub(super) fn run_earliest(&mut self) -> Result<(), Failed> {
        let earliest = self.flight.take_earliest();
        match earliest.expect("an access waits for one that can begin") {
            (start, Some((number, access))) => self.begin(start, number, &access),
            (start, None) => self.translate_store(start),
        }
    }

    /// Begins an access in flight, and commits what then can.
    #[inline(never)]
    fn begin(&mut self, start: u64, number: u64, access: &InFlight) -> Result<(), Failed> {
        let done = self.perform(access.va, access.is_store, start);
        self.flight
            .finish(number, done.map_err(|bad| (number, bad))?);
        while let Some(oldest) = self.flight.take_oldest() {
            let (number, va, slots) = (oldest.number, oldest.va, oldest.slots);
            self.commit(number, va, slots, oldest.is_store, &oldest.done);
        }
        Ok(())
    }

    /// Translates the oldest store that has committed.
    #[inline(never)]
    fn translate_store(&mut self, now: u64) -> Result<(), Failed> {
        let va = self.committed_stores.pop_front();
        let va = va.expect("an event for each");
        let translated = self.translate(va, Intent::Write, now);
        let Translated { pa, done } = translated.map_err(|bad| (self.flight.next(), bad))?;
        let (data, _) = self.memory.data(pa, true, done);
        self.drained(data);
        Ok(())
    }
}
