// SPDX-License-Identifier: MIT OR Apache-2.0
//! One page event.

use super::gfp::Gfp;

/// The tasks whose name says what they allocate for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Task {
    /// Anything else.
    Other,
    /// `ksoftirqd` or a NAPI thread.
    NetworkSoftirq,
    /// A journal or a worker of a file system.
    FileSystem,
}

impl Task {
    /// From the start of a line, where all tools print the task name.
    #[inline]
    pub fn of_line(line: &[u8]) -> Task {
        let name = line.trim_ascii_start();
        match name.first() {
            Some(b'k') if name.starts_with(b"ksoftirqd/") => Task::NetworkSoftirq,
            Some(b'n') if name.starts_with(b"napi/") => Task::NetworkSoftirq,
            Some(b'j') if name.starts_with(b"jbd2/") => Task::FileSystem,
            Some(b'x') if name.starts_with(b"xfs") => Task::FileSystem,
            Some(b'b') if name.starts_with(b"btrfs-") => Task::FileSystem,
            _ => Task::Other,
        }
    }
}

/// What an allocation event says, the frame left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Order of the block.
    pub order: u8,
    /// Migratetype of the request as printed: 0 unmovable, 1 movable, 2 reclaimable.
    pub migratetype: u8,
    /// Flags of the request.
    pub gfp: Gfp,
    /// Who asked.
    pub task: Task,
}

/// What happened to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// `mm_page_alloc`; frame 0 means that the allocation failed.
    Alloc(Traced),
    /// `mm_page_free`.
    Free {
        /// Order of the block.
        order: u8,
    },
    /// `mm_page_free_batched`, which has no order of its own.
    FreeBatched,
    /// `mm_page_alloc_extfrag`: a request was served from a block of another migratetype.
    ExtFrag {
        /// The block found was smaller than a pageblock.
        fragmenting: bool,
        /// The whole pageblock changed its type.
        change_ownership: bool,
    },
    /// `mm_page_alloc_zone_locked`: a block left the buddy lists.
    ZoneLocked,
    /// `mm_page_pcpu_drain`: a page went from a per-CPU list to the buddy lists.
    PcpuDrain,
}

/// One page event of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEvent {
    /// Time in the clock of the trace.
    pub time_ns: u64,
    /// First frame of the block.
    pub pfn: u64,
    /// CPU it happened on.
    pub cpu: u16,
    /// What happened.
    pub kind: EventKind,
}

/// Frame numbers from here on are refused: 1 TB of memory.
pub const MAX_PFN: u64 = 1 << 28;
/// CPUs from here on are taken for damage.
pub const MAX_CPUS: u16 = 8192;
