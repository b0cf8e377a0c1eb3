// SPDX-License-Identifier: MIT OR Apache-2.0
//! Migratetypes: what Linux groups pages by, one type for each 2 MB pageblock.

use crate::PageClass;
use serde::{Deserialize, Serialize};

/// Which allocations the kernel wants in a pageblock, and which free list a block is on
/// (`enum migratetype`, `include/linux/mmzone.h`, 6.12). The first three numbers are the same in
/// every kernel; those of the others depend on its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum MigrateType {
    /// Kernel memory that stays.
    Unmovable = 0,
    /// User memory and page cache.
    Movable = 1,
    /// Kernel memory that a shrinker may free.
    Reclaimable = 2,
    /// Kept for atomic allocations.
    HighAtomic = 3,
    /// Contiguous memory allocator.
    Cma = 4,
    /// Being isolated.
    Isolate = 5,
}

impl MigrateType {
    /// The types that an allocation can ask for (`MIGRATE_PCPTYPES` of them), by number.
    pub const REQUESTED: [MigrateType; 3] = [
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
    ];

    /// The type that an allocation for `class` asks for; one of [`MigrateType::REQUESTED`].
    #[inline]
    pub fn of(class: PageClass) -> MigrateType {
        match class {
            PageClass::SlabReclaimable => MigrateType::Reclaimable,
            class if is_movable(class) => MigrateType::Movable,
            _ => MigrateType::Unmovable,
        }
    }
}

/// Whether a page of this class is allocated as movable, so that software can move it.
#[inline]
pub fn is_movable(class: PageClass) -> bool {
    const MOVABLE: u32 = 1 << PageClass::Anon as u8
        | 1 << PageClass::File as u8
        | 1 << PageClass::Shmem as u8
        | 1 << PageClass::HugeTlb as u8
        | 1 << PageClass::Mlocked as u8
        | 1 << PageClass::LruOther as u8
        | 1 << PageClass::MovableOps as u8;
    MOVABLE >> class as u8 & 1 == 1
}
