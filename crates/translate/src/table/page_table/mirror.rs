// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page table that mirrors a guest's: entries come with the paths that a guest's walks have
//! taken, nodes lie in the frames that the guest gave them, and no frame is ever asked for.

use super::{EntryId, LeafEntry, PageTable, ROOT};
use crate::error::MapError;
use crate::table::entry::{PageSize, bits, level_shift};
use std::collections::HashMap;

/// What a recorded path has changed for its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mirrored {
    /// Nothing was known of the address.
    New,
    /// The page was known as it is.
    Same,
    /// The same page with other bits.
    Bits {
        /// Its rights or GLOBAL changed; false: no more than accessed, dirty or the memory type.
        rights: bool,
    },
    /// The page lies in another frame, has another size, or its entry stands in another place.
    Moved,
}

impl Mirrored {
    /// Whether the address translates otherwise than before, rights included.
    pub fn is_change(self) -> bool {
        !matches!(self, Mirrored::Same | Mirrored::Bits { rights: false })
    }
}

/// What must leave translation hardware because a recorded path says otherwise.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    /// First addresses and sizes of pages that are no longer what they were.
    pub(crate) leaves: Vec<(u64, PageSize)>,
    /// There are more than `leaves` has.
    pub(crate) more: bool,
    /// Level of the entry whose subtree went: page-walk caches may know nodes below it.
    pub(crate) under: Option<u8>,
}

impl Dropped {
    /// Pages named one by one; a whole level-1 node can go without forgetting more than its own.
    const MOST_LEAVES: usize = 512;

    fn leaf(&mut self, va: u64, size: PageSize) {
        if self.leaves.len() < Self::MOST_LEAVES {
            self.leaves.push((va & !(size.bytes() - 1), size));
        } else {
            self.more = true;
        }
    }

    fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }
}

/// Rights that hold only if every level grants them.
const GRANTED: u64 = bits::WRITE | bits::USER;
/// Bits whose change makes a TLB entry wrong. DIRTY does not: an entry without it asks again, and
/// one with it saves a write of the bit.
const COMPARED: u64 = GRANTED | bits::GLOBAL | bits::NO_EXECUTE;
/// Physical addresses have 52 bits.
const PHYSICAL: u64 = (1 << 52) - 1;

/// Rights along a path: those granted so far, and whether fetches are forbidden.
#[derive(Clone, Copy)]
struct Rights(u64);

impl Rights {
    const ALL: Rights = Rights(GRANTED);

    fn and(self, entry: u64) -> Rights {
        Rights(self.0 & entry & GRANTED | (self.0 | entry) & bits::NO_EXECUTE)
    }

    /// The leaf as the model keeps it. TLB entries are made of leaves alone, so the leaf carries
    /// the rights of the whole path. A large leaf has the PAT bit where a frame number would
    /// start, a small one where LARGE would be.
    fn leaf(self, entry: u64, size: PageSize) -> u64 {
        let below = bits::FRAME & (size.bytes() - 1);
        let pat = if size == PageSize::K4 { bits::LARGE } else { 0 };
        let keep = bits::HARDWARE & !below & !pat & !GRANTED;
        entry & keep | self.and(entry).0
    }
}

fn is_leaf(entry: u64, level: u8) -> bool {
    level == 1 || entry & bits::LARGE != 0
}

impl PageTable {
    /// An empty table of 4 or 5 levels whose root lies in `root_frame`, for
    /// [`mirror`](Self::mirror).
    pub fn rooted(levels: u8, root_frame: u64) -> PageTable {
        assert!(
            levels == 4 || levels == 5,
            "x86-64 has 4 or 5 page-table levels, not {levels}"
        );
        let mut table = PageTable {
            levels,
            entries: Vec::new(),
            frames: Vec::new(),
            live: Vec::new(),
            free: Vec::new(),
            shadows: HashMap::new(),
        };
        table.node_in(root_frame);
        table
    }

    /// The frame that the root lies in, by which hardware knows the table (CR3).
    pub(crate) fn root_frame(&self) -> u64 {
        self.frames[ROOT as usize]
    }

    /// Puts the root into another frame; everything below it stays.
    pub(crate) fn set_root_frame(&mut self, root_frame: u64) {
        self.frames[ROOT as usize] = root_frame;
    }

    /// Makes `va` what a guest's page tables say. `path` has one pair a level, root first:
    /// physical address of the entry, bytes, and its value; the last is the leaf, at level 1 or
    /// with LARGE at level 2 or 3. Nodes lie in the frames that the entries' addresses name.
    /// Where an entry names another node than before, or a page in place of a node or the
    /// reverse, what hung below it is forgotten; its frames are the guest's and go nowhere.
    ///
    /// Of the guest's values only [`bits::HARDWARE`] is kept: Linux keeps its own notes in bits
    /// that mean other things here. Upper entries are kept as they are, the leaf with the rights
    /// that the whole path grants. The table has no perforated pages.
    ///
    /// # Errors
    /// [`MapError::NotCanonical`]; [`MapError::Path`] if the path has the wrong length, an entry
    /// is not present or stands where no walk for `va` would read it, or it does not end in its
    /// first leaf. Nothing has changed then.
    pub fn mirror(&mut self, va: u64, path: &[(u64, u64)]) -> Result<Mirrored, MapError> {
        self.mirror_into(va, path, &mut Dropped::default())
    }

    /// As [`mirror`](Self::mirror); `dropped`, empty before, says what hardware has to forget.
    pub(crate) fn mirror_into(
        &mut self,
        va: u64,
        path: &[(u64, u64)],
        dropped: &mut Dropped,
    ) -> Result<Mirrored, MapError> {
        let rights = self.check_path(va, path)?;
        debug_assert!(self.shadows.is_empty(), "a mirror has no perforated pages");
        let before = self.find(va);
        let (mut node, mut level) = (ROOT, self.levels);
        for &(_, entry) in &path[..path.len() - 1] {
            node = self.enter((node, level), va, entry, dropped);
            level -= 1;
        }
        let at = Self::place(node, va, level);
        if self.entries[at] & bits::PRESENT != 0 && !is_leaf(self.entries[at], level) {
            self.clear(at, level, va, dropped);
        }
        let size = PageSize::ALL[level as usize - 1];
        let leaf = rights.leaf(path[path.len() - 1].1, size);
        let old = std::mem::replace(&mut self.entries[at], leaf);
        self.live[node as usize] += u16::from(old & bits::PRESENT == 0);
        debug_assert!(self.find(va).is_some_and(|l| l.size == size));
        Ok(match before {
            None => Mirrored::New,
            Some(_) if !dropped.is_empty() => Mirrored::Moved,
            Some(LeafEntry { entry, .. }) => {
                let found = compared(entry, leaf);
                if found.is_change() {
                    dropped.leaf(va, size);
                }
                found
            }
        })
    }

    /// Makes the neighbours of the 4 KB page at `va` what the 64-byte line of its entry says:
    /// the eight entries of that line as the guest has them, of which `va`'s own is passed over.
    /// Does nothing to a larger page. Returns whether any neighbour translates otherwise now.
    ///
    /// # Errors
    /// If nothing is mapped at `va`: its path comes first.
    pub fn mirror_line(&mut self, va: u64, entries: &[u64; 8]) -> Result<bool, MapError> {
        self.mirror_line_into(va, entries, &mut Dropped::default())
    }

    /// As [`mirror_line`](Self::mirror_line); `dropped` says what hardware has to forget.
    pub(crate) fn mirror_line_into(
        &mut self,
        va: u64,
        entries: &[u64; 8],
        dropped: &mut Dropped,
    ) -> Result<bool, MapError> {
        let (mut node, mut level, mut rights) = (ROOT, self.levels, Rights::ALL);
        if !self.is_canonical(va) || self.find(va).is_none() {
            return Err(MapError::Unmapped { va });
        }
        while level > 1 {
            let entry = self.entry(node, va, level);
            if is_leaf(entry, level) {
                return Ok(false);
            }
            rights = rights.and(entry);
            node = Self::child(entry);
            level -= 1;
        }
        let own = Self::place(node, va, 1);
        let mut changed = false;
        for (index, &entry) in entries.iter().enumerate() {
            let at = own & !7 | index;
            if at == own {
                continue;
            }
            let present = entry & bits::PRESENT != 0;
            let leaf = if present {
                rights.leaf(entry, PageSize::K4)
            } else {
                0
            };
            let old = std::mem::replace(&mut self.entries[at], leaf);
            let live = &mut self.live[node as usize];
            match (old & bits::PRESENT != 0, present) {
                (false, false) => continue,
                (false, true) => {
                    *live += 1;
                    changed = true;
                    continue;
                }
                (true, false) => *live -= 1,
                (true, true) if !compared(old, leaf).is_change() => continue,
                (true, true) => {}
            }
            changed = true;
            dropped.leaf(va & !0x7fff | (index as u64) << 12, PageSize::K4);
        }
        Ok(changed)
    }

    /// Makes the page at `va` not present, whatever its size, and lets go of nodes that become
    /// empty; false if it was not there. For a table that mirrors a guest's.
    pub fn forget(&mut self, va: u64) -> bool {
        if !self.is_canonical(va) {
            return false;
        }
        let mut way = [0; 5];
        let (mut node, mut level) = (ROOT, self.levels);
        loop {
            let at = Self::place(node, va, level);
            let entry = self.entries[at];
            if entry & bits::PRESENT == 0 {
                return false;
            }
            way[level as usize - 1] = at;
            if is_leaf(entry, level) {
                break;
            }
            node = Self::child(entry);
            level -= 1;
        }
        for &at in &way[level as usize - 1..] {
            self.entries[at] = 0;
            let node = (at >> 9) as u32;
            self.live[node as usize] -= 1;
            if self.live[node as usize] > 0 || node == ROOT {
                break;
            }
            self.let_go(node);
        }
        debug_assert!(self.find(va).is_none(), "{va:#x} is still mapped");
        true
    }

    #[inline(always)]
    pub(crate) fn place(node: u32, va: u64, level: u8) -> usize {
        (EntryId::from(node) << 9 | Self::slot(va, level)) as usize
    }

    /// Checks a path from its root to its leaf; returns the rights of its upper entries.
    fn check_path(&self, va: u64, path: &[(u64, u64)]) -> Result<Rights, MapError> {
        if !self.is_canonical(va) {
            return Err(MapError::NotCanonical {
                va,
                levels: self.levels,
            });
        }
        let mut frame = self.frames[ROOT as usize];
        let mut rights = Rights::ALL;
        let mut level = self.levels;
        let wrong = |level, why| Err(MapError::Path { va, level, why });
        for (index, &(at, entry)) in path.iter().enumerate() {
            if at & !PHYSICAL != 0 || at & 7 != 0 {
                return wrong(level, "no entry can stand at its physical address");
            }
            if at >> 12 != frame {
                return wrong(level, "it lies in another frame than its parent names");
            }
            if at >> 3 & 511 != Self::slot(va, level) {
                return wrong(level, "its slot is not that of the address");
            }
            if entry & bits::PRESENT == 0 {
                return wrong(level, "it is not present");
            }
            let last = index + 1 == path.len();
            match is_leaf(entry, level) {
                true if level > 3 => return wrong(level, "no page is so large"),
                true if last => return Ok(rights),
                true => return wrong(level, "the path goes on below a page"),
                false if last => return wrong(level, "the path ends above a page"),
                false => {}
            }
            rights = rights.and(entry);
            frame = (entry & bits::FRAME) >> 12;
            level -= 1;
        }
        wrong(level, "the path is empty")
    }

    /// Goes down through an upper entry, which names the node that the guest's names. Returns
    /// that node.
    fn enter(
        &mut self,
        (node, level): (u32, u8),
        va: u64,
        entry: u64,
        dropped: &mut Dropped,
    ) -> u32 {
        let frame = (entry & bits::FRAME) >> 12;
        let at = Self::place(node, va, level);
        let old = self.entries[at];
        let is_node = old & bits::PRESENT != 0 && !is_leaf(old, level);
        let child = if is_node && self.frames[Self::child(old) as usize] == frame {
            Self::child(old)
        } else {
            self.clear(at, level, va, dropped);
            self.live[node as usize] += 1;
            self.node_in(frame)
        };
        let kept = entry & bits::HARDWARE & !bits::FRAME;
        self.entries[at] = u64::from(child) << 12 | kept;
        child
    }

    /// Empties an entry on the way to `va`, with everything below it.
    fn clear(&mut self, at: usize, level: u8, va: u64, dropped: &mut Dropped) {
        let entry = std::mem::take(&mut self.entries[at]);
        if entry & bits::PRESENT == 0 {
            return;
        }
        self.live[at >> 9] -= 1;
        let base = va & !((1 << level_shift(level)) - 1);
        if !is_leaf(entry, level) {
            dropped.under = Some(level);
        }
        self.clear_below(entry, level, base, dropped);
    }

    fn clear_below(&mut self, entry: u64, level: u8, base: u64, dropped: &mut Dropped) {
        if is_leaf(entry, level) {
            dropped.leaf(base, PageSize::ALL[level as usize - 1]);
            return;
        }
        let node = Self::child(entry);
        for slot in 0..512u64 {
            let entry = self.entries[(node as usize) << 9 | slot as usize];
            if entry & bits::PRESENT != 0 {
                let va = base | slot << level_shift(level - 1);
                self.clear_below(entry, level - 1, va, dropped);
            }
        }
        self.let_go(node);
    }
}

/// What the change of a leaf that keeps its place and size amounts to.
fn compared(old: u64, new: u64) -> Mirrored {
    let changed = old ^ new;
    if changed & bits::FRAME != 0 {
        Mirrored::Moved
    } else if changed & COMPARED != 0 {
        Mirrored::Bits { rights: true }
    } else if changed != 0 {
        Mirrored::Bits { rights: false }
    } else {
        Mirrored::Same
    }
}
