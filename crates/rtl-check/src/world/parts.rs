// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the parts of the machine keep.

use ample_migration::protocol::{Cached, HomeLine, LineAddr, LineStore, Observer, PrivateLines};
use std::collections::BTreeMap;

/// Lines of a slice; the last one that was asked for is the one a request was served at.
#[derive(Default)]
pub struct Lines {
    all: BTreeMap<LineAddr, HomeLine<bool>>,
    /// The line that was asked for last.
    pub last: Option<LineAddr>,
}

impl LineStore<bool> for Lines {
    fn line(&mut self, at: LineAddr) -> &mut HomeLine<bool> {
        self.last = Some(at);
        self.all.entry(at).or_insert_with(|| HomeLine::new(true))
    }
}

/// Private caches without a bound: lines leave when the world decides so.
#[derive(Default)]
pub struct Held(pub BTreeMap<LineAddr, Cached<bool>>);

impl PrivateLines<bool> for Held {
    fn line(&mut self, line: LineAddr) -> Option<&mut Cached<bool>> {
        self.0.get_mut(&line)
    }

    fn put(&mut self, line: LineAddr, cached: Cached<bool>) -> Option<(LineAddr, Cached<bool>)> {
        self.0.insert(line, cached);
        None
    }

    fn leave(&mut self, line: LineAddr, cached: Cached<bool>) {
        self.0.insert(line, cached);
    }

    fn take(&mut self, line: LineAddr) -> Option<Cached<bool>> {
        self.0.remove(&line)
    }
}

/// What a core sees is of no interest here.
pub struct Silent;

impl Observer<bool, ()> for Silent {
    fn given(&mut self, _: LineAddr, _: bool, _: bool) {}
    fn store(&mut self, _: LineAddr) -> bool {
        true
    }
    fn store_once(&mut self) -> bool {
        true
    }
    fn ended(&mut self, (): ()) {}
}

/// The hardware's engine of a slice makes one pass at a time, in turn by place.
#[derive(Clone, Default)]
pub struct Passes {
    waiting: Vec<bool>,
    last: usize,
    active: bool,
}

impl Passes {
    /// None waits at any of the places.
    pub fn of(entries: usize) -> Self {
        Self {
            waiting: vec![false; entries],
            ..Self::default()
        }
    }

    /// The pass of a place waits for its turn.
    pub fn start(&mut self, slot: usize) {
        self.waiting[slot] = true;
        self.choose();
    }

    /// The pass under way is over.
    pub fn end(&mut self) {
        self.active = false;
        self.choose();
    }

    fn choose(&mut self) {
        let mut slots = self.last + 1..self.waiting.len();
        let later = slots.find(|&s| self.waiting[s]);
        let any = || self.waiting.iter().position(|&w| w);
        if !self.active
            && let Some(slot) = later.or_else(any)
        {
            (self.active, self.last) = (true, slot);
            self.waiting[slot] = false;
        }
    }

    /// Whether the pass of a place waits or is under way.
    pub fn knows(&self, slot: usize) -> bool {
        self.waiting[slot] || self.makes(slot)
    }

    /// Whether the pass of a place is under way.
    pub fn makes(&self, slot: usize) -> bool {
        self.active && self.last == slot
    }
}
