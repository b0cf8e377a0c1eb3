// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a page frame is used for, and what each definition of "unmovable" says about it.

use serde::{Deserialize, Serialize};

/// Declares [`PageClass`] together with one table row per class, so that a class cannot exist
/// without a name, a source and a verdict under each definition.
macro_rules! page_classes {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $text:literal, $k:ident $p:ident $o:ident,
       $source:ident;)+) => {
        /// Use of one 4 KB page frame. The discriminant is stable: snapshots store it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum PageClass { $($(#[$doc])* $name = $id,)+ }

        /// Number of page classes; discriminants are `0..CLASS_COUNT`.
        pub const CLASS_COUNT: usize = [$($id),+].len();

        pub(crate) const CLASSES: [(PageClass, &str, [Mobility; 3], Source); CLASS_COUNT] = [
            $((PageClass::$name, $text, [Mobility::$k, Mobility::$p, Mobility::$o],
               Source::$source),)+
        ];
    };
}

page_classes! {
    /// No memory at this frame number (by firmware map and zone spans, not by page flags).
    Hole = 0, "hole", Movable Movable Movable, None;
    /// In the buddy allocator.
    Free = 1, "free", Movable Movable Movable, None;
    /// Free, in a per-CPU list. Definition P has no reference count to see that, and counts it.
    FreePcp = 2, "free-pcp", Movable Unmovable Movable, None;
    /// Memory whose `struct page` was not initialised yet (deferred initialisation): free.
    Uninitialised = 3, "uninitialised", Movable Movable Movable, None;
    /// Anonymous user memory.
    Anon = 4, "anon", Movable Movable Movable, None;
    /// Page cache of a file.
    File = 5, "file", Movable Movable Movable, None;
    /// Shared memory and tmpfs.
    Shmem = 6, "shmem", Movable Movable Movable, None;
    /// Explicit huge page (HugeTLB).
    HugeTlb = 7, "hugetlb", Movable Movable Movable, None;
    /// On an unevictable list (mlock); movable while `compact_unevictable_allowed` is set.
    Mlocked = 8, "mlocked", Movable Movable Movable, None;
    /// On an LRU list, owner not told apart.
    LruOther = 9, "lru-other", Movable Movable Movable, None;
    /// Not on an LRU list but its owner can move it (zsmalloc, balloon).
    MovableOps = 10, "movable-ops", Movable Movable Movable, None;
    /// User memory under a pin that can outlive the call that took it (zero-copy send, RDMA,
    /// registered buffers). Page flags do not show it, so K and P call it movable.
    Pinned = 11, "pinned", Movable Movable Unmovable, Networking;
    /// `PG_reserved`: firmware, boot memory, memory map. No owner on record, ignored by P and O.
    Reserved = 12, "reserved", Unmovable Movable Movable, Other;
    /// Slab page of a kind that is not known.
    Slab = 13, "slab", Unmovable Unmovable Unmovable, Slab;
    /// Slab page with a shrinker (dentries, inodes): migratetype Reclaimable.
    SlabReclaimable = 14, "slab-reclaimable", Unmovable Unmovable Unmovable, Slab;
    /// Page of a page table.
    PageTable = 15, "page-table", Unmovable Unmovable Unmovable, PageTables;
    /// Socket send and receive buffers, page pools, NIC rings.
    Network = 16, "network", Unmovable Unmovable Unmovable, Networking;
    /// File-system working memory outside the page cache (journal, compression buffers).
    FsBuffer = 17, "fs-buffer", Unmovable Unmovable Unmovable, FileSystems;
    /// Page cache allocated unmovable (block-device metadata): on the LRU, so only O sees it.
    FsMetadata = 18, "fs-metadata", Movable Movable Unmovable, FileSystems;
    /// Kernel stack.
    KernelStack = 19, "kernel-stack", Unmovable Unmovable Unmovable, Other;
    /// Kernel and module text and data.
    KernelText = 20, "kernel-text", Unmovable Unmovable Unmovable, Other;
    /// Driver and DMA memory.
    Dma = 21, "dma", Unmovable Unmovable Unmovable, Other;
    /// Compound page that is on no LRU list: large kmalloc, driver or network memory.
    KernelCompound = 22, "kernel-compound", Unmovable Unmovable Unmovable, Unattributed;
    /// Kernel page known to be in use, owner not known.
    KernelOther = 23, "kernel-other", Unmovable Unmovable Unmovable, Unattributed;
    /// No flag at all: kernel page, or free in a per-CPU list, or isolated. Only a reader that
    /// sees reference counts can tell; K carries it as an interval, P counts it.
    Bare = 24, "bare", Ambiguous Unmovable Ambiguous, Unattributed;
    /// Logically offline (balloon, hot-unplug).
    Offline = 25, "offline", Unmovable Unmovable Unmovable, Other;
    /// Taken out of service after a memory error.
    HwPoison = 26, "hwpoison", Unmovable Unmovable Movable, Other;
}

/// Which page counts as unmovable. Specification: `docs/definitions.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Definition {
    /// What the kernel's `has_unmovable_pages()` says (`mm/page_isolation.c`, 6.12).
    K,
    /// What a walk over page flags says, per-CPU free pages included: closest to the scanner
    /// behind the Contiguitas fleet study.
    P,
    /// What the owner asked for: allocated unmovable or reclaimable, or pinned for long.
    O,
}

impl Definition {
    /// All definitions, in the order in which they are printed.
    pub const ALL: [Definition; 3] = [Definition::K, Definition::P, Definition::O];

    /// The letter that tables and JSON name it by.
    pub fn name(self) -> &'static str {
        ["K", "P", "O"][self as usize]
    }

    /// The definition of a letter, if there is one.
    pub fn from_name(name: &str) -> Option<Definition> {
        let mut all = Definition::ALL.into_iter();
        all.find(|definition| definition.name() == name)
    }
}

/// What one definition says about one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mobility {
    /// Does not hold its block in place (free, movable, or not memory at all).
    Movable,
    /// Holds its block in place.
    Unmovable,
    /// May be either; the data at hand cannot tell.
    Ambiguous,
}

/// Who asked for an unmovable page: the categories of Contiguitas figure 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Not unmovable under any definition.
    None,
    /// Send and receive buffers, page pools, zero-copy pins.
    Networking,
    /// Slab caches.
    Slab,
    /// File-system buffers and metadata.
    FileSystems,
    /// Tables of address translation.
    PageTables,
    /// Known owner outside the other categories (text, stacks, drivers, reserved).
    Other,
    /// In use by the kernel, owner not visible to the reader.
    Unattributed,
}

impl Source {
    /// The sources that can hold unmovable pages, in the order of figure 6.
    pub const ALL: [Source; 6] = [
        Source::Networking,
        Source::Slab,
        Source::FileSystems,
        Source::PageTables,
        Source::Other,
        Source::Unattributed,
    ];

    /// Name as printed in tables and used as key.
    pub fn name(self) -> &'static str {
        match self {
            Source::None => "none",
            Source::Networking => "networking",
            Source::Slab => "slab",
            Source::FileSystems => "file_systems",
            Source::PageTables => "page_tables",
            Source::Other => "other",
            Source::Unattributed => "unattributed",
        }
    }

    /// Name as people write it.
    pub fn title(self) -> &'static str {
        match self {
            Source::FileSystems => "file systems",
            Source::PageTables => "page tables",
            Source::Unattributed => "kernel, owner not visible",
            other => other.name(),
        }
    }
}

impl PageClass {
    /// All classes in discriminant order.
    pub fn all() -> impl Iterator<Item = PageClass> {
        CLASSES.iter().map(|row| row.0)
    }

    /// The class with this discriminant, if there is one.
    #[inline]
    pub fn from_u8(id: u8) -> Option<PageClass> {
        CLASSES.get(usize::from(id)).map(|row| row.0)
    }

    /// Name as printed and as written to CSV and Parquet.
    pub fn name(self) -> &'static str {
        CLASSES[self as usize].1
    }

    /// The class of this name, if there is one.
    pub fn from_name(name: &str) -> Option<PageClass> {
        CLASSES.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// What `definition` says about a page of this class.
    pub const fn verdict(self, definition: Definition) -> Mobility {
        CLASSES[self as usize].2[definition as usize]
    }

    /// Who asked for it, were it unmovable.
    pub const fn source(self) -> Source {
        CLASSES[self as usize].3
    }

    /// Whether the frame is free memory (buddy, per-CPU list or not yet initialised).
    pub const fn is_free(self) -> bool {
        matches!(
            self,
            PageClass::Free | PageClass::FreePcp | PageClass::Uninitialised
        )
    }

    /// Whether the frame is free *and* in a form that a larger block can be made of: a page in
    /// a per-CPU list is free but cannot merge with its buddy.
    pub const fn is_mergeable_free(self) -> bool {
        matches!(self, PageClass::Free | PageClass::Uninitialised)
    }
}

/// A set of page classes, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ClassSet(pub u32);

impl ClassSet {
    /// The classes for which `keep` holds.
    pub fn of(keep: impl Fn(PageClass) -> bool) -> ClassSet {
        ClassSet(
            PageClass::all()
                .filter(|&c| keep(c))
                .fold(0, |set, c| set | 1 << c as u8),
        )
    }

    /// Whether `class` is in the set.
    pub fn contains(self, class: PageClass) -> bool {
        self.0 >> class as u8 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminants_are_dense_and_names_are_unique() {
        for (index, class) in PageClass::all().enumerate() {
            assert_eq!(class as usize, index);
            assert_eq!(PageClass::from_u8(index as u8), Some(class));
            assert_eq!(PageClass::from_name(class.name()), Some(class));
        }
        assert_eq!(PageClass::from_u8(CLASS_COUNT as u8), None);
        assert_eq!(PageClass::from_u8(255), None);
    }

    #[test]
    fn every_unmovable_class_has_a_source() {
        for class in PageClass::all() {
            let held = Definition::ALL
                .iter()
                .any(|&d| class.verdict(d) != Mobility::Movable);
            let free = class.is_free();
            assert_eq!(
                held && !free,
                class.source() != Source::None,
                "{}",
                class.name()
            );
        }
    }

    /// The definitions differ only where `docs/definitions.md` says so.
    #[test]
    fn definitions_disagree_exactly_where_documented() {
        let differing: Vec<_> = PageClass::all()
            .filter(|c| {
                let v = Definition::ALL.map(|d| c.verdict(d));
                v[0] != v[1] || v[1] != v[2]
            })
            .map(PageClass::name)
            .collect();
        let documented = [
            "free-pcp",
            "pinned",
            "reserved",
            "fs-metadata",
            "bare",
            "hwpoison",
        ];
        assert_eq!(differing, documented);
    }

    #[test]
    fn class_sets_hold_what_was_put_in() {
        let free = ClassSet::of(PageClass::is_free);
        assert!(free.contains(PageClass::FreePcp));
        assert!(!free.contains(PageClass::Anon));
    }
}
