// SPDX-License-Identifier: MIT OR Apache-2.0
//! What memory should contain: every load is compared with the last store, whatever the mapping.

use super::lines::LineMap;
use super::params::PAGE_LINES;
use ample_migration::protocol::{LineAddr, Mapping, Performed, Role};

/// What memory must hold: the last value written to each line.
#[derive(Clone, Debug, Default)]
pub struct Shadow {
    values: LineMap<u64>,
    /// Frame → the frame whose name its data have in `values`.
    names: LineMap<u64>,
    last: u64,
    fresh_names: u64,
    /// Loads that returned something else.
    pub wrong: u64,
}

impl Shadow {
    fn name(&self, line: LineAddr) -> LineAddr {
        if self.names.is_empty() {
            return line;
        }
        let frame = line.0 / PAGE_LINES;
        match self.names.get(&LineAddr(frame)) {
            Some(&name) => LineAddr(name * PAGE_LINES + line.0 % PAGE_LINES),
            None => line,
        }
    }

    /// From now on the destination's lines are other names of the source's.
    pub(super) fn alias(&mut self, map: Mapping) {
        let pages = u64::from(map.lines).div_ceil(PAGE_LINES);
        for page in 0..pages {
            let source = map.src.0 / PAGE_LINES + page;
            let destination = map.dst.0 / PAGE_LINES + page;
            let name = self.names.get(&LineAddr(source)).copied();
            let name = name.unwrap_or(source);
            self.names.insert(LineAddr(destination), name);
        }
        for index in 0..u64::from(map.lines) {
            let name = self.name(LineAddr(map.src.0 + index));
            self.values.entry(name).or_insert(0);
        }
    }

    /// Software copies onto these frames: they begin a life of their own.
    pub(super) fn reuse(&mut self, map: Mapping) {
        let pages = u64::from(map.lines).div_ceil(PAGE_LINES);
        for page in 0..pages {
            self.fresh_names += 1;
            let name = (1 << 40) + self.fresh_names;
            let frame = LineAddr(map.dst.0 / PAGE_LINES + page);
            self.names.insert(frame, name);
        }
    }

    /// Changes whenever a store is made to one of these lines of the source.
    pub(super) fn digest(&self, map: Mapping) -> u64 {
        let line = |index| self.name(map.line(Role::Source, index));
        let last = |index| self.values.get(&line(index)).copied().unwrap_or(0);
        (0..map.lines).map(last).sum()
    }

    /// A value no store has had.
    pub(super) fn next_value(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn check(&mut self, line: LineAddr, value: u64) {
        let name = self.name(line);
        // A line nobody has stored to, in a frame with a past, has no value to expect.
        let expected = self.values.get(&name).copied().unwrap_or(value);
        self.wrong += u64::from(expected != value);
    }

    /// A store to a private cache; returns the value stored.
    pub(super) fn store(&mut self, line: LineAddr) -> u64 {
        let value = self.next_value();
        let name = self.name(line);
        self.values.insert(name, value);
        value
    }

    /// An access in the last level.
    pub(super) fn performed(&mut self, performed: &Performed<u64>) {
        self.check(performed.line, performed.before);
        if let Some(value) = performed.written {
            let name = self.name(performed.line);
            self.values.insert(name, value);
        }
    }
}
