// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page-walk caches.

use crate::error::ConfigError;
use crate::table::entry::level_shift;
use crate::tlb::associative::AssocArray;
use crate::tlb::geometry::Geometry;
use crate::tlb::key::{asid_of, index_of, key_of, kind_of, number_of};
use serde::{Deserialize, Serialize};

/// Page-walk caches: what they cache are entries above the leaves, by the address bits that lead
/// to them; a hit at level n starts the walk in a node of level n - 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PwcKind {
    /// One array per level, from level 2 (PDE) upwards, as Intel describes its
    /// paging-structure caches.
    PerLevel(Vec<Geometry>),
    /// One array for all levels (AMD's organisation, with virtual tags).
    Unified(Geometry),
    /// No page-walk cache: every walk starts at the root.
    Absent,
}

impl PwcKind {
    /// Checks that such caches can be built; `what` names them.
    ///
    /// # Errors
    /// As [`Geometry::check`].
    pub fn check(&self, what: &str) -> Result<(), ConfigError> {
        let shapes = match self {
            PwcKind::Absent => &[],
            PwcKind::Unified(shape) => std::slice::from_ref(shape),
            PwcKind::PerLevel(shapes) => shapes,
        };
        shapes.iter().try_for_each(|shape| shape.check(what))
    }
}

/// The page-walk caches at work.
#[derive(Clone, Debug)]
pub(crate) struct WalkCache {
    arrays: Vec<AssocArray>,
    unified: bool,
    levels: u8,
}

impl WalkCache {
    pub(crate) fn new(kind: &PwcKind, levels: u8) -> Result<Self, ConfigError> {
        let (arrays, unified) = match kind {
            PwcKind::Absent => (Vec::new(), false),
            PwcKind::Unified(geometry) => {
                (vec![AssocArray::new(*geometry, "page-walk cache")?], true)
            }
            PwcKind::PerLevel(list) => {
                let arrays = list.iter().take(levels as usize - 1);
                let arrays = arrays.map(|g| AssocArray::new(*g, "page-walk cache"));
                (arrays.collect::<Result<_, _>>()?, false)
            }
        };
        Ok(WalkCache {
            arrays,
            unified,
            levels,
        })
    }

    #[inline(always)]
    fn array(&mut self, level: u8) -> Option<&mut AssocArray> {
        let at = if self.unified { 0 } else { level as usize - 2 };
        self.arrays.get_mut(at)
    }

    /// The child node behind the deepest cached entry for `va` of level `lowest` or above, and
    /// that entry's level. All levels are looked up side by side, and each hit counts as a use.
    #[inline(always)]
    pub(crate) fn deepest(&mut self, va: u64, asid: u16, lowest: u8) -> Option<(u8, u32)> {
        let mut deepest = None;
        for level in (lowest..=self.levels).rev() {
            let array = match self.unified {
                true => self.arrays.first_mut(),
                false => self.arrays.get_mut(usize::from(level) - 2),
            };
            if let Some(child) = array.and_then(|array| look_up(array, va, asid, level)) {
                deepest = Some((level, child));
            }
        }
        deepest
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, va: u64, asid: u16, level: u8, child: u32) {
        let (index, key) = key_at(va, asid, level);
        if let Some(array) = self.array(level) {
            array.insert_new(index, key, u64::from(child));
        }
    }

    /// The arrays from level 2 upwards, where each level has its own.
    pub(crate) fn per_level(&mut self) -> Option<&mut [AssocArray]> {
        (!self.unified).then_some(&mut self.arrays)
    }

    /// Forgets the entries at `level` and below it on the way to any address that the entry for
    /// `va` of that level maps: the node they name, or one above it, is another now.
    pub(crate) fn drop_under(&mut self, va: u64, level: u8, asid: u16) {
        let region = index_of(va, level_shift(level));
        for array in &mut self.arrays {
            array.retain(|key, _| {
                let below = kind_of(key) <= level && asid_of(key) == asid;
                !below || number_of(key) >> (9 * (level - kind_of(key))) != region
            });
        }
    }

    pub(crate) fn flush(&mut self, asid: Option<u16>) {
        for array in &mut self.arrays {
            array.retain(|key, _| asid.is_some_and(|asid| asid_of(key) != asid));
        }
    }
}

/// Number and key of the entry for `va` of a level.
#[inline(always)]
pub(crate) fn key_at(va: u64, asid: u16, level: u8) -> (u64, u64) {
    let index = index_of(va, level_shift(level));
    (index, key_of(index, asid, level))
}

/// The child node behind the entry for `va` of a level.
#[inline(always)]
fn look_up(array: &mut AssocArray, va: u64, asid: u16, level: u8) -> Option<u32> {
    let (index, key) = key_at(va, asid, level);
    let (_, child) = array.lookup(index, key)?;
    Some(child as u32)
}
