// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which part of the page heap holds a hugepage.

use crate::os::meta::{Linked, Pool, Zeroed};
use crate::units::{HUGE_SHIFT, USER_BITS};

const LEAF_SHIFT: u32 = 9;
const LEAF: usize = 1 << LEAF_SHIFT;
const ROOT: usize = 1 << (USER_BITS - HUGE_SHIFT - LEAF_SHIFT);
const REGION_BIT: u32 = 1 << 31;

/// The holder of a hugepage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A span of whole hugepages, a cache, or nobody.
    None,
    /// The filler, with this tracker.
    Filler(u32),
    /// The region of this index.
    Region(u32),
}

struct Leaf {
    owners: [u32; LEAF],
}

// SAFETY: integers only.
unsafe impl Zeroed for Leaf {}
impl Linked for Leaf {
    fn free_link(&mut self) -> &mut u32 {
        &mut self.owners[0]
    }
}

/// A two-level table over the address space.
pub struct HugeMap {
    root: [u32; ROOT],
    leaves: Pool<Leaf, 256>,
}

impl Default for HugeMap {
    fn default() -> Self {
        Self::new()
    }
}

impl HugeMap {
    /// Everything is nobody's.
    pub const fn new() -> Self {
        HugeMap {
            root: [0; ROOT],
            leaves: Pool::new(),
        }
    }

    /// Who holds the hugepage.
    pub fn get(&self, hugepage: usize) -> Owner {
        let leaf = self.root[hugepage >> LEAF_SHIFT];
        if leaf == 0 {
            return Owner::None;
        }
        match self.leaves[leaf].owners[hugepage % LEAF] {
            0 => Owner::None,
            id if id & REGION_BIT != 0 => Owner::Region(id & !REGION_BIT),
            id => Owner::Filler(id),
        }
    }

    /// Makes sure that owners of the range can be noted; false if there is no memory.
    #[must_use]
    pub fn prepare(&mut self, hugepage: usize, len: usize) -> bool {
        for slot in hugepage >> LEAF_SHIFT..=(hugepage + len - 1) >> LEAF_SHIFT {
            if self.root[slot] == 0 {
                let Some(leaf) = self.leaves.allocate() else {
                    return false;
                };
                self.root[slot] = leaf;
            }
        }
        true
    }

    /// Notes the holder of a prepared hugepage.
    pub fn set(&mut self, hugepage: usize, owner: Owner) {
        let leaf = self.root[hugepage >> LEAF_SHIFT];
        if leaf == 0 {
            debug_assert!(
                owner == Owner::None,
                "hugepage {hugepage:#x} was not prepared"
            );
            return;
        }
        self.leaves[leaf].owners[hugepage % LEAF] = match owner {
            Owner::None => 0,
            Owner::Filler(id) => id,
            Owner::Region(id) => id | REGION_BIT,
        };
    }
}
