// SPDX-License-Identifier: MIT OR Apache-2.0
//! x86-64 page tables with 4 or 5 levels, entry for entry, plus the shadow nodes of perforated
//! pages. Eight bytes an entry, as in the machine: nothing else is kept per mapped page.

mod mirror;
mod visit;

use super::entry::{PageSize, bits, level_shift};
use crate::error::MapError;
use crate::os::frames::FrameSource;
use std::collections::{HashMap, HashSet};

pub(crate) use mirror::Dropped;
pub use mirror::Mirrored;

/// A leaf found by software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafEntry {
    /// Page size.
    pub size: PageSize,
    /// The entry as it stands in memory.
    pub entry: u64,
    /// Where it stands.
    pub place: EntryId,
}

/// A place in the table: node number × 512 + slot.
pub type EntryId = u64;

/// A radix page table of 4 or 5 levels, its nodes in physical frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTable {
    levels: u8,
    /// 512 entries a node. Entries above the leaves hold a node number where the hardware holds a
    /// frame number; `frames` has the frame.
    entries: Vec<u64>,
    frames: Vec<u64>,
    live: Vec<u16>,
    free: Vec<u32>,
    /// Shadow L1 nodes by the place of their perforated entry.
    shadows: HashMap<EntryId, u32>,
}

/// The root's node number.
pub const ROOT: u32 = 0;

impl PageTable {
    /// An empty table of 4 or 5 levels; its nodes take frames from `frames`.
    ///
    /// # Errors
    /// If no frame is left for the root.
    pub fn new(levels: u8, frames: &mut dyn FrameSource) -> Result<Self, MapError> {
        let root_frame = frames.alloc_table().ok_or_else(|| frames.exhausted(0))?;
        Ok(PageTable::rooted(levels, root_frame))
    }

    /// Number of levels.
    #[inline]
    pub fn levels(&self) -> u8 {
        self.levels
    }

    /// Nodes in use, shadows included.
    pub fn node_count(&self) -> usize {
        self.frames.len() - self.free.len()
    }

    /// Physical frames of the nodes in use, shadows included, in no particular order.
    pub fn node_frames(&self) -> impl Iterator<Item = u64> {
        let free: HashSet<u32> = self.free.iter().copied().collect();
        let used = move |node: &usize| !free.contains(&(*node as u32));
        (0..self.frames.len())
            .filter(used)
            .map(|node| self.frames[node])
    }

    /// Shadow nodes in use.
    pub fn shadow_count(&self) -> usize {
        self.shadows.len()
    }

    /// Bytes of host memory held beyond 8 bytes an entry.
    pub fn overhead_bytes(&self) -> usize {
        (self.frames.capacity() + self.shadows.capacity() * 2) * 8 + self.live.capacity() * 2
    }

    fn new_node(&mut self, frames: &mut dyn FrameSource) -> Result<u32, MapError> {
        let frame = frames.alloc_table().ok_or_else(|| frames.exhausted(0))?;
        Ok(self.node_in(frame))
    }

    /// An empty node in a frame.
    fn node_in(&mut self, frame: u64) -> u32 {
        if let Some(node) = self.free.pop() {
            self.frames[node as usize] = frame;
            return node;
        }
        let node = self.frames.len() as u32;
        self.entries.resize(self.entries.len() + 512, 0);
        self.frames.push(frame);
        self.live.push(0);
        node
    }

    fn free_node(&mut self, node: u32, frames: &mut dyn FrameSource) {
        frames.free(self.frames[node as usize], 0);
        self.let_go(node);
    }

    /// Empties a node and makes its number free; its frame is the caller's business.
    fn let_go(&mut self, node: u32) {
        debug_assert!(node != ROOT, "the root stays");
        let first = (node as usize) << 9;
        self.entries[first..first + 512].fill(0);
        self.live[node as usize] = 0;
        self.free.push(node);
    }

    /// Whether `va` is an address this table can hold (sign-extended from its top bit).
    #[inline]
    pub fn is_canonical(&self, va: u64) -> bool {
        let unused = 64 - level_shift(self.levels + 1);
        ((va << unused) as i64 >> unused) as u64 == va
    }

    /// The slot of `va` in a node of `level`.
    #[inline(always)]
    pub fn slot(va: u64, level: u8) -> u64 {
        va >> level_shift(level) & 511
    }

    /// Physical address of the entry for `va` in `node` of `level`.
    #[inline(always)]
    pub fn entry_pa(&self, node: u32, va: u64, level: u8) -> u64 {
        self.frames[node as usize] << 12 | Self::slot(va, level) << 3
    }

    /// The entry for `va` in `node` of `level`.
    #[inline(always)]
    pub fn entry(&self, node: u32, va: u64, level: u8) -> u64 {
        self.entries[(node as usize) << 9 | Self::slot(va, level) as usize]
    }

    /// The entries of all nodes.
    #[inline(always)]
    pub(crate) fn nodes(&self) -> &[[u64; 512]] {
        self.entries.as_chunks().0
    }

    /// The entry at a place.
    #[inline(always)]
    pub(crate) fn entry_at(&self, place: usize) -> u64 {
        self.entries[place]
    }

    /// Reads down to the entry that ends the walk for `va`, whatever it is, and changes nothing.
    /// Returns its physical address and the entry.
    #[inline(always)]
    pub fn last_entry(&self, va: u64) -> (u64, u64) {
        let (mut node, mut level) = (ROOT, self.levels);
        loop {
            let entry = self.entry(node, va, level);
            if level == 1 || entry & (bits::PRESENT | bits::LARGE) != bits::PRESENT {
                return (self.entry_pa(node, va, level), entry);
            }
            node = Self::child(entry);
            level -= 1;
        }
    }

    /// The node of `level` on the way to `va`, which is mapped below it.
    pub(crate) fn node_at(&self, va: u64, level: u8) -> u32 {
        let above = (level + 1..=self.levels).rev();
        above.fold(ROOT, |node, level| Self::child(self.entry(node, va, level)))
    }

    /// The eight entries of the 64-byte line that holds the entry for `va`.
    pub fn line(&self, node: u32, va: u64, level: u8) -> &[u64] {
        let first = (node as usize) << 9 | (Self::slot(va, level) & !7) as usize;
        &self.entries[first..first + 8]
    }

    /// Node number in an entry above the leaves.
    #[inline(always)]
    pub fn child(entry: u64) -> u32 {
        ((entry & bits::FRAME) >> 12) as u32
    }

    /// The shadow node of the perforated entry at `place`.
    #[inline]
    pub fn shadow(&self, place: EntryId) -> Option<u32> {
        self.shadows.get(&place).copied()
    }

    /// The leaf or perforated entry that maps `va` at level 2 or above, or the 4 KB leaf. For a
    /// perforated page this is the 2 MB-level entry, whether or not `va` is a hole.
    pub fn find(&self, va: u64) -> Option<LeafEntry> {
        let mut node = ROOT;
        let mut level = self.levels;
        loop {
            let place = u64::from(node) << 9 | Self::slot(va, level);
            let entry = self.entries[place as usize];
            if entry & bits::PRESENT == 0 {
                return None;
            }
            if level == 1 || entry & bits::LARGE != 0 {
                let size = PageSize::ALL[level as usize - 1];
                return Some(LeafEntry { size, entry, place });
            }
            node = Self::child(entry);
            level -= 1;
        }
    }

    /// The entry of a hole: `place` is its perforated entry's place. 0 if nothing is mapped.
    #[inline]
    pub fn hole_entry(&self, place: EntryId, va: u64) -> u64 {
        self.shadow(place).map_or(0, |node| self.entry(node, va, 1))
    }

    /// Overwrites an entry in place (flag updates; never presence).
    #[inline]
    pub fn update(&mut self, place: EntryId, entry: u64) {
        debug_assert_eq!(
            entry & bits::PRESENT,
            self.entries[place as usize] & bits::PRESENT
        );
        self.entries[place as usize] = entry;
    }

    /// Sets bits of an entry.
    #[inline(always)]
    pub fn set_bits(&mut self, node: u32, va: u64, level: u8, set: u64) {
        self.entries[(node as usize) << 9 | Self::slot(va, level) as usize] |= set;
    }

    fn check(&self, va: u64, size: PageSize) -> Result<(), MapError> {
        if !self.is_canonical(va) {
            return Err(MapError::NotCanonical {
                va,
                levels: self.levels,
            });
        }
        if va & (size.bytes() - 1) != 0 {
            return Err(MapError::Unaligned {
                va,
                page_bytes: size.bytes(),
            });
        }
        Ok(())
    }

    /// Walks to the node of level `target` that covers `va`, making nodes on the way; if that
    /// fails, none of them stays.
    fn node_for(
        &mut self,
        va: u64,
        target: u8,
        frames: &mut dyn FrameSource,
    ) -> Result<u32, MapError> {
        let mut node = ROOT;
        let mut level = self.levels;
        // The highest entry that was made here.
        let mut made = None;
        while level > target {
            let at = (node as usize) << 9 | Self::slot(va, level) as usize;
            let entry = self.entries[at];
            if entry & bits::PRESENT == 0 {
                let child = match self.new_node(frames) {
                    Ok(child) => child,
                    Err(error) => {
                        self.take_back(made, va, frames);
                        return Err(error);
                    }
                };
                made = made.or(Some((at, level)));
                let rights = bits::PRESENT | bits::WRITE | bits::USER;
                self.entries[at] = u64::from(child) << 12 | rights;
                self.live[node as usize] += 1;
                node = child;
            } else if entry & bits::LARGE != 0 {
                return Err(MapError::Occupied { va });
            } else {
                node = Self::child(entry);
            }
            level -= 1;
        }
        Ok(node)
    }

    /// Frees the empty nodes below an entry of a level, one under the other, and the entry.
    fn take_back(&mut self, made: Option<(usize, u8)>, va: u64, frames: &mut dyn FrameSource) {
        let Some((at, mut level)) = made else {
            return;
        };
        let mut entry = std::mem::take(&mut self.entries[at]);
        self.live[at >> 9] -= 1;
        while entry & bits::PRESENT != 0 {
            let node = Self::child(entry);
            level -= 1;
            entry = self.entry(node, va, level);
            debug_assert!(self.live[node as usize] <= 1);
            self.free_node(node, frames);
        }
    }

    /// Maps one page of `size` at `va` to the block at frame number `pfn`.
    ///
    /// # Errors
    /// If the address is unaligned, not canonical or occupied, or no frame is left for a node.
    pub fn map(
        &mut self,
        va: u64,
        size: PageSize,
        pfn: u64,
        flags: u64,
        frames: &mut dyn FrameSource,
    ) -> Result<(), MapError> {
        self.check(va, size)?;
        let node = self.node_for(va, size.level(), frames)?;
        let at = (node as usize) << 9 | Self::slot(va, size.level()) as usize;
        if self.entries[at] & bits::PRESENT != 0 {
            return Err(MapError::Occupied { va });
        }
        let large = if size == PageSize::K4 { 0 } else { bits::LARGE };
        debug_assert!(pfn & ((1 << size.order()) - 1) == 0, "block {pfn:#x}");
        debug_assert!(flags & bits::FRAME == 0, "flags {flags:#x}");
        self.entries[at] = pfn << 12 | flags | bits::PRESENT | large;
        self.live[node as usize] += 1;
        debug_assert!(self.live[node as usize] <= 512);
        debug_assert_eq!(self.find(va).map(|leaf| leaf.place), Some(at as EntryId));
        Ok(())
    }

    /// Removes the page that maps `va` and frees nodes that become empty; returns the leaf. A
    /// perforated page loses its shadow node; the entries of its holes come back beside it.
    ///
    /// # Errors
    /// If nothing is mapped there.
    pub fn unmap(
        &mut self,
        va: u64,
        frames: &mut dyn FrameSource,
    ) -> Result<(LeafEntry, Vec<u64>), MapError> {
        if !self.is_canonical(va) {
            return Err(MapError::NotCanonical {
                va,
                levels: self.levels,
            });
        }
        let mut path = Vec::with_capacity(5);
        let mut node = ROOT;
        let mut level = self.levels;
        let leaf = loop {
            let place = u64::from(node) << 9 | Self::slot(va, level);
            let entry = self.entries[place as usize];
            if entry & bits::PRESENT == 0 {
                return Err(MapError::Unmapped { va });
            }
            path.push(place);
            if level == 1 || entry & bits::LARGE != 0 {
                break LeafEntry {
                    size: PageSize::ALL[level as usize - 1],
                    entry,
                    place,
                };
            }
            node = Self::child(entry);
            level -= 1;
        };
        let mut holes = Vec::new();
        if let Some(shadow) = self.shadows.remove(&leaf.place) {
            let first = (shadow as usize) << 9;
            let entries = &self.entries[first..first + 512];
            holes = entries
                .iter()
                .copied()
                .filter(|e| e & bits::PRESENT != 0)
                .collect();
            self.free_node(shadow, frames);
        }
        while let Some(place) = path.pop() {
            self.entries[place as usize] = 0;
            let node = (place >> 9) as usize;
            debug_assert!(self.live[node] > 0, "node {node} is empty");
            self.live[node] -= 1;
            if self.live[node] > 0 || node == ROOT as usize {
                break;
            }
            self.free_node(node as u32, frames);
        }
        debug_assert!(self.find(va).is_none(), "{va:#x} is still mapped");
        Ok((leaf, holes))
    }

    /// Marks a 2 MB leaf perforated and gives it a shadow node.
    pub(crate) fn perforate(
        &mut self,
        leaf: LeafEntry,
        frames: &mut dyn FrameSource,
    ) -> Result<(), MapError> {
        debug_assert_eq!(leaf.size, PageSize::M2);
        if leaf.entry & bits::PERFORATED == 0 {
            let shadow = self.new_node(frames)?;
            self.shadows.insert(leaf.place, shadow);
            self.entries[leaf.place as usize] |= bits::PERFORATED;
        }
        Ok(())
    }

    /// Makes a perforated leaf without holes a plain one again.
    pub(crate) fn make_plain(&mut self, leaf: LeafEntry, frames: &mut dyn FrameSource) {
        if let Some(shadow) = self.shadows.remove(&leaf.place) {
            self.free_node(shadow, frames);
        }
        let clear = bits::PERFORATED | 0xff << bits::FILTER_SHIFT;
        self.entries[leaf.place as usize] &= !clear;
    }

    /// Writes the entry of a hole (0: unallocated); returns the old one.
    pub(crate) fn set_hole(&mut self, place: EntryId, va: u64, entry: u64) -> u64 {
        let node = self.shadows[&place] as usize;
        let at = node << 9 | Self::slot(va, 1) as usize;
        std::mem::replace(&mut self.entries[at], entry)
    }

    /// Sets the hole filter of a perforated entry.
    pub(crate) fn set_filter(&mut self, place: EntryId, filter: u8) {
        let entry = &mut self.entries[place as usize];
        debug_assert!(*entry & bits::PERFORATED != 0);
        *entry = *entry & !(0xff << bits::FILTER_SHIFT) | u64::from(filter) << bits::FILTER_SHIFT;
    }
}
