// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which address space belongs to which root of a guest's page tables.

use super::space::GLOBAL_ASID;
use std::collections::HashMap;

/// The space of the kernel half, which all roots share.
pub(crate) const KERNEL: usize = 0;

/// Which space mirrors the tables below a root, and when it was last loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootSpace {
    /// It has one.
    Known(usize),
    /// It gets the next number, which no space has had.
    Added(usize),
    /// It takes over the number of the space that was loaded least recently.
    Reused(usize),
}

/// The roots a guest has loaded. A space's number is its address-space identifier too; the kernel
/// half has number 0 and the identifier of global pages.
#[derive(Debug)]
pub(crate) struct Roots {
    by_frame: HashMap<u64, usize>,
    /// Of each space, its root's frame and the number of its latest load.
    loaded: Vec<(u64, u64)>,
    loads: u64,
}

impl Roots {
    pub(crate) fn new() -> Self {
        Roots {
            by_frame: HashMap::new(),
            // The kernel half is never reused.
            loaded: vec![(u64::MAX, u64::MAX)],
            loads: 0,
        }
    }

    /// Notes the load of a root and says which space it has.
    pub(crate) fn load(&mut self, frame: u64) -> RootSpace {
        self.loads += 1;
        let now = (frame, self.loads);
        if let Some(&at) = self.by_frame.get(&frame) {
            self.loaded[at] = now;
            return RootSpace::Known(at);
        }
        if self.loaded.len() < usize::from(GLOBAL_ASID) {
            self.by_frame.insert(frame, self.loaded.len());
            self.loaded.push(now);
            return RootSpace::Added(self.loaded.len() - 1);
        }
        let oldest = self.loaded.iter().enumerate().min_by_key(|(_, l)| l.1);
        let at = oldest.map_or(KERNEL, |(at, _)| at);
        debug_assert_ne!(at, KERNEL, "every other space has been loaded");
        self.by_frame.remove(&self.loaded[at].0);
        self.by_frame.insert(frame, at);
        self.loaded[at] = now;
        RootSpace::Reused(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_loaded_root_gives_way() {
        let mut roots = Roots::new();
        let last = u64::from(GLOBAL_ASID) - 1;
        for frame in 1..=last {
            assert_eq!(roots.load(frame), RootSpace::Added(frame as usize));
        }
        assert_eq!(roots.load(1), RootSpace::Known(1));
        assert_eq!(roots.load(9_000), RootSpace::Reused(2));
        assert_eq!(roots.load(2), RootSpace::Reused(3));
        assert_eq!(roots.load(9_000), RootSpace::Known(2));
        assert_eq!(roots.load(1), RootSpace::Known(1));
    }
}
