// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set-associative array with least-recently-used replacement.

use super::params::CacheParams;
use crate::protocol::LineAddr;

#[derive(Clone, Debug)]
struct Way<T> {
    line: LineAddr,
    used: u64,
    value: T,
}

/// Lines with a value each.
#[derive(Clone, Debug)]
pub struct SetAssoc<T> {
    sets: Vec<Vec<Way<T>>>,
    ways: usize,
    mask: u64,
    clock: u64,
}

impl<T> SetAssoc<T> {
    /// An empty array of checked sizes.
    pub fn new(params: &CacheParams) -> Self {
        let sets = params.sets() as usize;
        Self {
            sets: (0..sets).map(|_| Vec::new()).collect(),
            ways: params.ways as usize,
            mask: sets as u64 - 1,
            clock: 0,
        }
    }

    fn set(&self, line: LineAddr) -> usize {
        (line.0 & self.mask) as usize
    }

    /// The value of a line, which becomes the most recently used.
    pub fn touch(&mut self, line: LineAddr) -> Option<&mut T> {
        self.clock += 1;
        let clock = self.clock;
        let set = self.set(line);
        let way = self.sets[set].iter_mut().find(|w| w.line == line)?;
        way.used = clock;
        Some(&mut way.value)
    }

    /// The value of a line; its age stays.
    pub fn peek(&mut self, line: LineAddr) -> Option<&mut T> {
        let set = self.set(line);
        let way = self.sets[set].iter_mut().find(|w| w.line == line)?;
        Some(&mut way.value)
    }

    /// Puts a line in. Returns the one that had to go.
    pub fn insert(&mut self, line: LineAddr, value: T) -> Option<(LineAddr, T)> {
        self.clock += 1;
        let way = Way {
            line,
            used: self.clock,
            value,
        };
        let (index, ways) = (self.set(line), self.ways);
        let set = &mut self.sets[index];
        if let Some(old) = set.iter_mut().find(|w| w.line == line) {
            *old = way;
            return None;
        }
        if set.len() < ways {
            set.push(way);
            return None;
        }
        let victim = set.iter_mut().min_by_key(|w| w.used)?;
        let old = std::mem::replace(victim, way);
        Some((old.line, old.value))
    }

    /// Takes a line out.
    pub fn remove(&mut self, line: LineAddr) -> Option<T> {
        let index = self.set(line);
        let set = &mut self.sets[index];
        let place = set.iter().position(|w| w.line == line)?;
        Some(set.swap_remove(place).value)
    }
}
