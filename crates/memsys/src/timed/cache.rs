// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set-associative array with least-recently-used replacement. Tags lie side by side, so that
//! a look-up reads one or two cache lines of the host.

use super::params::CacheParams;
use crate::protocol::LineAddr;

/// No line: physical memory ends far below.
const EMPTY: LineAddr = LineAddr(u64::MAX);

/// Lines with a value each.
#[derive(Clone, Debug)]
pub struct SetAssoc<T> {
    tags: Vec<LineAddr>,
    used: Vec<u64>,
    values: Vec<T>,
    ways: usize,
    mask: u64,
    clock: u64,
}

impl<T: Copy + Default> SetAssoc<T> {
    /// An empty array of checked sizes.
    pub fn new(params: &CacheParams) -> Self {
        let (sets, ways) = (params.sets() as usize, params.ways as usize);
        Self {
            tags: vec![EMPTY; sets * ways],
            used: vec![0; sets * ways],
            values: vec![T::default(); sets * ways],
            ways,
            mask: sets as u64 - 1,
            clock: 0,
        }
    }

    fn find(&self, line: LineAddr) -> Option<usize> {
        let first = (line.0 & self.mask) as usize * self.ways;
        let set = &self.tags[first..first + self.ways];
        set.iter().position(|&tag| tag == line).map(|w| first + w)
    }

    /// The value of a line, which becomes the most recently used.
    pub fn touch(&mut self, line: LineAddr) -> Option<&mut T> {
        self.clock += 1;
        let place = self.find(line)?;
        self.used[place] = self.clock;
        Some(&mut self.values[place])
    }

    /// The value of a line; its age stays.
    pub fn peek(&mut self, line: LineAddr) -> Option<&mut T> {
        let place = self.find(line)?;
        Some(&mut self.values[place])
    }

    /// Puts a line in. Returns the one that had to go.
    pub fn insert(&mut self, line: LineAddr, value: T) -> Option<(LineAddr, T)> {
        self.clock += 1;
        let first = (line.0 & self.mask) as usize * self.ways;
        let known = self.find(line);
        // An empty way has never been used: its age is 0.
        let oldest = (first..first + self.ways).min_by_key(|&place| self.used[place]);
        let place = known.or(oldest)?;
        let old = (self.tags[place], self.values[place]);
        (self.tags[place], self.values[place]) = (line, value);
        self.used[place] = self.clock;
        (known.is_none() && old.0 != EMPTY).then_some(old)
    }

    /// Takes a line out.
    pub fn remove(&mut self, line: LineAddr) -> Option<T> {
        let place = self.find(line)?;
        (self.tags[place], self.used[place]) = (EMPTY, 0);
        Some(self.values[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_way_goes_first() {
        let params = CacheParams {
            size_bytes: 256,
            ways: 2,
            line_bytes: 64,
            latency_cycles: 1,
        };
        let mut cache = SetAssoc::new(&params);
        // Lines 0, 2 and 4 share a set of two ways.
        assert_eq!(cache.insert(LineAddr(0), 10), None);
        assert_eq!(cache.insert(LineAddr(2), 12), None);
        assert_eq!(cache.touch(LineAddr(0)).copied(), Some(10));
        assert_eq!(cache.insert(LineAddr(4), 14), Some((LineAddr(2), 12)));
        assert_eq!(cache.insert(LineAddr(4), 15), None, "replaced in place");
        assert_eq!(cache.remove(LineAddr(0)), Some(10));
        assert_eq!(cache.insert(LineAddr(2), 12), None, "the free way is taken");
        assert_eq!(cache.peek(LineAddr(4)).copied(), Some(15));
        assert_eq!(
            cache.insert(LineAddr(1), 11),
            None,
            "the other set is empty"
        );
    }
}
