// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set of free ranges in address order: a treap augmented with the longest range below each
//! node, for approximate best fit along one path (paper section 4.2).
//!
//! The unit is the caller's: hugepages in the HugeAllocator and the HugeCache, pages in a region.

use crate::os::meta::{Linked, Pool, Zeroed};

/// One free range.
pub struct Node {
    start: usize,
    len: usize,
    longest: usize,
    priority: u32,
    left: u32,
    right: u32,
}

// SAFETY: integers only.
unsafe impl Zeroed for Node {}
impl Linked for Node {
    fn free_link(&mut self) -> &mut u32 {
        &mut self.left
    }
}

/// The nodes of all range sets of one page heap.
pub type Nodes = Pool<Node, 2048>;

/// A set of disjoint ranges, none adjacent to another.
pub struct RangeSet {
    root: u32,
    count: usize,
    total: usize,
    random: u32,
}

impl Default for RangeSet {
    fn default() -> Self {
        Self::new()
    }
}

impl RangeSet {
    /// The empty set.
    pub const fn new() -> Self {
        RangeSet {
            root: 0,
            count: 0,
            total: 0,
            random: 0,
        }
    }

    /// Ranges in the set.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Units in the set.
    pub const fn total(&self) -> usize {
        self.total
    }

    /// The length of the longest range.
    pub fn longest(&self, nodes: &Nodes) -> usize {
        longest(nodes, self.root)
    }

    /// Adds a range that overlaps none in the set, merging it with its neighbours. False, with the
    /// set unchanged, if there is no memory for a node.
    #[must_use]
    pub fn insert(&mut self, nodes: &mut Nodes, start: usize, len: usize) -> bool {
        debug_assert!(len > 0);
        let (mut first, mut end) = (start, start + len);
        let before = self.last_before(nodes, start);
        let after = self.first_from(nodes, start);
        debug_assert!(before.is_none_or(|(s, l)| s + l <= start));
        debug_assert!(after.is_none_or(|(s, _)| end <= s));
        let joins_before = before.filter(|&(s, l)| s + l == start);
        let joins_after = after.filter(|&(s, _)| s == end);
        if joins_before.is_none() && joins_after.is_none() {
            let Some(id) = nodes.allocate() else {
                return false;
            };
            self.link(nodes, id, start, len);
            return true;
        }
        if let Some((s, _)) = joins_before {
            first = s;
        }
        if let Some((s, l)) = joins_after {
            end = s + l;
        }
        let mut spare = 0;
        for (s, _) in joins_before.into_iter().chain(joins_after) {
            let id = self.unlink(nodes, s);
            if spare == 0 {
                spare = id;
            } else {
                nodes.free(id);
            }
        }
        self.link(nodes, spare, first, end - first);
        true
    }

    /// Takes `len` units from the range that fits about best: along one path from the root, the
    /// shortest sufficient range, the lowest address among equals. Returns their start.
    pub fn take(&mut self, nodes: &mut Nodes, len: usize) -> Option<usize> {
        let start = self.find(nodes, len)?;
        self.take_from(nodes, start, len);
        Some(start)
    }

    fn find(&self, nodes: &Nodes, len: usize) -> Option<usize> {
        let mut best: Option<(usize, usize)> = None;
        let mut at = self.root;
        while at != 0 && nodes[at].longest >= len {
            let node = &nodes[at];
            if node.len >= len && best.is_none_or(|key| (node.len, node.start) < key) {
                best = Some((node.len, node.start));
            }
            let (left, right) = (longest(nodes, node.left), longest(nodes, node.right));
            at = match (left >= len, right >= len) {
                (true, true) if left <= right => node.left,
                (true, false) => node.left,
                (_, true) => node.right,
                (false, false) => 0,
            };
        }
        best.map(|(_, start)| start)
    }

    /// Takes `len` units from the front of the range that begins at `start`.
    fn take_from(&mut self, nodes: &mut Nodes, start: usize, len: usize) {
        let id = self.unlink(nodes, start);
        let whole = nodes[id].len;
        if whole == len {
            nodes.free(id);
        } else {
            self.link(nodes, id, start + len, whole - len);
        }
    }

    /// Takes exactly `len` units at `start` if a range begins there and is long enough.
    pub fn take_at(&mut self, nodes: &mut Nodes, start: usize, len: usize) -> bool {
        match self.first_from(nodes, start) {
            Some((s, l)) if s == start && l >= len => {
                self.take_from(nodes, start, len);
                true
            }
            _ => false,
        }
    }

    /// Takes the last `len` units of the range with the highest address, or fewer if that range is
    /// shorter. Returns start and length.
    pub fn take_last(&mut self, nodes: &mut Nodes, len: usize) -> Option<(usize, usize)> {
        let (start, whole) = self.last_before(nodes, usize::MAX)?;
        let id = self.unlink(nodes, start);
        let taken = whole.min(len);
        if taken == whole {
            nodes.free(id);
        } else {
            self.link(nodes, id, start, whole - taken);
        }
        Some((start + whole - taken, taken))
    }

    /// The first range that begins at or after `start`.
    pub fn first_from(&self, nodes: &Nodes, start: usize) -> Option<(usize, usize)> {
        let (mut at, mut found) = (self.root, None);
        while at != 0 {
            let node = &nodes[at];
            if node.start >= start {
                found = Some((node.start, node.len));
                at = node.left;
            } else {
                at = node.right;
            }
        }
        found
    }

    /// The last range that begins before `start`.
    pub fn last_before(&self, nodes: &Nodes, start: usize) -> Option<(usize, usize)> {
        let (mut at, mut found) = (self.root, None);
        while at != 0 {
            let node = &nodes[at];
            if node.start < start {
                found = Some((node.start, node.len));
                at = node.right;
            } else {
                at = node.left;
            }
        }
        found
    }

    fn link(&mut self, nodes: &mut Nodes, id: u32, start: usize, len: usize) {
        // A multiplicative generator is random enough for treap priorities and costs nothing.
        self.random = self
            .random
            .wrapping_mul(0x915f_77f5)
            .wrapping_add(0x9e37_79b9);
        let priority = self.random ^ (self.random >> 15);
        nodes[id] = Node {
            start,
            len,
            longest: len,
            priority,
            left: 0,
            right: 0,
        };
        let (low, high) = split(nodes, self.root, start);
        let with = merge(nodes, low, id);
        self.root = merge(nodes, with, high);
        self.count += 1;
        self.total += len;
    }

    /// Removes the node that begins at `start`, which exists, and returns it.
    fn unlink(&mut self, nodes: &mut Nodes, start: usize) -> u32 {
        let (low, rest) = split(nodes, self.root, start);
        let (node, high) = split(nodes, rest, start + 1);
        debug_assert!(node != 0 && nodes[node].left == 0 && nodes[node].right == 0);
        self.root = merge(nodes, low, high);
        self.count -= 1;
        self.total -= nodes[node].len;
        node
    }
}

/// The longest range from a node down; 0 without one.
fn longest(nodes: &Nodes, at: u32) -> usize {
    if at == 0 { 0 } else { nodes[at].longest }
}

fn update(nodes: &mut Nodes, at: u32) {
    let node = &nodes[at];
    let below = longest(nodes, node.left).max(longest(nodes, node.right));
    nodes[at].longest = node.len.max(below);
}

/// Splits into the nodes before `key` and those from it on. Depth is logarithmic in expectation.
fn split(nodes: &mut Nodes, at: u32, key: usize) -> (u32, u32) {
    if at == 0 {
        return (0, 0);
    }
    if nodes[at].start < key {
        let (low, high) = split(nodes, nodes[at].right, key);
        nodes[at].right = low;
        update(nodes, at);
        (at, high)
    } else {
        let (low, high) = split(nodes, nodes[at].left, key);
        nodes[at].left = high;
        update(nodes, at);
        (low, at)
    }
}

fn merge(nodes: &mut Nodes, low: u32, high: u32) -> u32 {
    if low == 0 || high == 0 {
        return low | high;
    }
    let top = if nodes[low].priority >= nodes[high].priority {
        nodes[low].right = merge(nodes, nodes[low].right, high);
        low
    } else {
        nodes[high].left = merge(nodes, low, nodes[high].left);
        high
    };
    update(nodes, top);
    top
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn listed(set: &RangeSet, nodes: &Nodes) -> Vec<(usize, usize)> {
        let (mut at, mut ranges) = (0, Vec::new());
        while let Some((start, len)) = set.first_from(nodes, at) {
            ranges.push((start, len));
            at = start + len;
        }
        ranges
    }

    /// The set as merged ranges of a model that knows single units.
    fn merged(units: &std::collections::BTreeSet<usize>) -> Vec<(usize, usize)> {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for &unit in units {
            match ranges.last_mut() {
                Some((start, len)) if *start + *len == unit => *len += 1,
                _ => ranges.push((unit, 1)),
            }
        }
        ranges
    }

    proptest! {
        #[test]
        fn behaves_like_a_set_of_units(
            operations in prop::collection::vec((any::<bool>(), 0..200usize, 1..20usize), 1..200),
        ) {
            let mut nodes = Box::new(Nodes::new());
            let mut set = RangeSet::new();
            let mut units = std::collections::BTreeSet::new();
            for (add, start, len) in operations {
                if add {
                    if (start..start + len).any(|unit| units.contains(&unit)) {
                        continue;
                    }
                    prop_assert!(set.insert(&mut nodes, start, len));
                    units.extend(start..start + len);
                } else {
                    let fits = merged(&units).iter().any(|range| range.1 >= len);
                    let taken = set.take(&mut nodes, len);
                    prop_assert_eq!(taken.is_some(), fits);
                    if let Some(start) = taken {
                        for unit in start..start + len {
                            prop_assert!(units.remove(&unit));
                        }
                    }
                }
                let expected = merged(&units);
                prop_assert_eq!(listed(&set, &nodes), &expected[..]);
                prop_assert_eq!(set.count(), expected.len());
                prop_assert_eq!(set.total(), units.len());
                let longest = expected.iter().map(|range| range.1).max().unwrap_or(0);
                prop_assert_eq!(set.longest(&nodes), longest);
                prop_assert_eq!(nodes.live(), set.count());
            }
        }
    }

    #[test]
    fn take_prefers_a_close_fit_on_its_path() {
        let mut nodes = Box::new(Nodes::new());
        let mut set = RangeSet::new();
        let mut lengths = BTreeMap::new();
        for index in 0..64 {
            let len = 1 + index % 8;
            assert!(set.insert(&mut nodes, index * 100, len));
            *lengths.entry(len).or_insert(0) += 1;
        }
        let start = set.take(&mut nodes, 8).unwrap();
        assert_eq!((start / 100) % 8, 7, "only ranges of 8 can serve 8");
        assert_eq!(set.take_last(&mut nodes, 3), Some((6305, 3)));
        assert!(set.take_at(&mut nodes, 6300, 5));
        assert!(!set.take_at(&mut nodes, 6300, 1));
    }
}
