// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every entry of a page table in turn: its leaves, and what must hold of them.

use super::{LeafEntry, PageTable, ROOT};
use crate::table::entry::{PageSize, bits, level_shift};

impl PageTable {
    /// Checks what holds between any two changes: each node has as many entries as it counts, no
    /// node but the root is empty, nodes in use and free ones are all there are, and shadow nodes
    /// belong to perforated entries.
    ///
    /// # Panics
    /// If something of it does not hold.
    pub fn assert_sound(&self) {
        let mut used = self.assert_node_sound(ROOT, self.levels);
        let mut perforated = 0;
        self.for_each_leaf(|va, leaf| {
            let is = leaf.entry & bits::PERFORATED != 0;
            assert_eq!(is, self.shadows.contains_key(&leaf.place), "{va:#x}");
            perforated += usize::from(is);
        });
        assert_eq!(
            perforated,
            self.shadows.len(),
            "shadow nodes without a page"
        );
        used += perforated;
        assert_eq!(used, self.node_count(), "nodes in use");
    }

    /// Checks a node and those below it; returns how many they are.
    fn assert_node_sound(&self, node: u32, level: u8) -> usize {
        let first = (node as usize) << 9;
        let entries = &self.entries[first..first + 512];
        let present = entries.iter().filter(|&&e| e & bits::PRESENT != 0);
        assert_eq!(present.clone().count(), self.live[node as usize] as usize);
        assert!(node == ROOT || self.live[node as usize] > 0, "node {node}");
        let below = present.filter(|&&e| level > 1 && e & bits::LARGE == 0);
        1 + below
            .map(|&entry| self.assert_node_sound(Self::child(entry), level - 1))
            .sum::<usize>()
    }

    /// Calls `visit(va, leaf)` for every leaf in address order.
    pub fn for_each_leaf(&self, mut visit: impl FnMut(u64, LeafEntry)) {
        self.visit_node(ROOT, self.levels, 0, &mut visit);
    }

    fn visit_node(&self, node: u32, level: u8, base: u64, visit: &mut impl FnMut(u64, LeafEntry)) {
        for slot in 0..512u64 {
            let place = u64::from(node) << 9 | slot;
            let entry = self.entries[place as usize];
            if entry & bits::PRESENT == 0 {
                continue;
            }
            let va = base | slot << level_shift(level);
            if level == 1 || entry & bits::LARGE != 0 {
                let unused = 64 - level_shift(self.levels + 1);
                let va = ((va << unused) as i64 >> unused) as u64;
                visit(
                    va,
                    LeafEntry {
                        size: PageSize::ALL[level as usize - 1],
                        entry,
                        place,
                    },
                );
            } else {
                self.visit_node(Self::child(entry), level - 1, va, visit);
            }
        }
    }
}
