// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names, messages and rules of the migration protocol.

use super::faults::PlantedFault;
use serde::{Deserialize, Serialize};

/// A physical cache line: physical address divided by the line size.
///
/// During a migration one line of data has two such names, one in the source and one in the
/// destination page. A private cache tags its copy with the name it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineAddr(pub u64);

/// How lines of a page under migration may be cached (Contiguitas §3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// Lines already copied bypass the private caches until all TLBs have changed.
    NonCacheable,
    /// Private caches stay usable; each line is cached under one mapping at a time, and copying
    /// starts when no TLB holds the source mapping.
    Cacheable,
}

/// Spreads physical lines over the slices of the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SliceHash {
    /// The low bits of the line number: neighbouring lines in neighbouring slices.
    Modulo,
    /// All bits of the line number folded by exclusive or, as real processors do in kind.
    XorFold,
    /// A multiplicative hash: an upper bound on how evenly a hash can spread lines.
    Multiplicative,
    /// The lowest bit folded with the next one (Gray code): of two neighbouring pages of two lines
    /// each, lines of equal index lie in different slices.
    Gray,
    /// Whole 4 KB pages to one slice: the worst case for a copy that wants many slices.
    Page,
}

impl SliceHash {
    /// The home slice of `line` among `slices` slices.
    pub fn slice(self, line: LineAddr, slices: u8) -> u8 {
        let n = u64::from(slices);
        let x = line.0;
        let spread = match self {
            Self::Modulo => x,
            Self::XorFold => {
                let mut folded = x ^ (x >> 32);
                folded ^= folded >> 16;
                folded ^= folded >> 7;
                folded ^ (folded >> 3)
            }
            Self::Multiplicative => x.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32,
            Self::Gray => x ^ (x >> 1),
            Self::Page => x >> 6,
        };
        (spread % n) as u8
    }
}

/// The same for all parts of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    /// Cacheable or not.
    pub design: Design,
    /// Lines of a page, which is marked as a whole when one of its lines is refused.
    pub page_lines: u32,
    /// Sizes that move as one migration: bit `n` stands for 2^n pages, at a multiple of their size.
    pub page_orders: u32,
    /// Lines of physical memory: descriptors that reach beyond are refused.
    pub memory_lines: u64,
    /// Cores, at most 64. Agent numbers from here on are devices without a private cache.
    pub cores: u8,
    /// Slices of the last-level cache.
    pub slices: u8,
    /// Address → slice.
    pub hash: SliceHash,
    /// All slices copy at once instead of taking turns.
    pub parallel_slices: bool,
    /// Lines a slice may have on their way at once while it copies: exclusive request, read,
    /// write and acknowledgement of a line overlap those of the next ones.
    pub copy_window: u8,
    /// Tell private caches of a migration when it starts (non-cacheable design), so that fewer
    /// first accesses are refused.
    pub announce: bool,
    /// MSHR entries of a core that marks may take; fewer than it has, or it could not miss.
    pub mark_entries: u8,
    /// Entries of each slice's metadata table.
    pub table_entries: u8,
    /// Descriptors the work queue holds.
    pub queue_entries: u8,
    /// Planted error, if any.
    pub fault: Option<PlantedFault>,
}

impl Protocol {
    /// The home slice of a line.
    pub fn home(&self, line: LineAddr) -> u8 {
        self.hash.slice(line, self.slices)
    }

    /// The number of the page of a line.
    pub fn page(&self, line: LineAddr) -> u64 {
        line.0 / u64::from(self.page_lines)
    }

    pub(crate) fn has(&self, fault: PlantedFault) -> bool {
        self.fault == Some(fault)
    }
}

/// Two equally long runs of physical lines, one being moved onto the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mapping {
    /// First line of the source.
    pub src: LineAddr,
    /// First line of the destination.
    pub dst: LineAddr,
    /// Lines to move.
    pub lines: u32,
}

/// Which side of a mapping a line is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The page that moves away.
    Source,
    /// The page it moves to.
    Destination,
}

impl Mapping {
    /// The side and index of `line`, or `None` when it belongs to neither page.
    pub fn locate(&self, line: LineAddr) -> Option<(Role, u32)> {
        let within = |base: LineAddr| {
            let offset = line.0.wrapping_sub(base.0);
            (offset < u64::from(self.lines)).then_some(offset as u32)
        };
        within(self.src)
            .map(|i| (Role::Source, i))
            .or_else(|| within(self.dst).map(|i| (Role::Destination, i)))
    }

    /// Line `i` of one side.
    pub fn line(&self, role: Role, i: u32) -> LineAddr {
        let base = match role {
            Role::Source => self.src,
            Role::Destination => self.dst,
        };
        LineAddr(base.0 + u64::from(i))
    }

    /// Whether two mappings share a line on any side.
    pub fn overlaps(&self, other: &Self) -> bool {
        let apart = |a: LineAddr, n: u32, b: LineAddr, m: u32| {
            a.0 + u64::from(n) <= b.0 || b.0 + u64::from(m) <= a.0
        };
        [self.src, self.dst].iter().any(|&a| {
            [other.src, other.dst]
                .iter()
                .any(|&b| !apart(a, self.lines, b, other.lines))
        })
    }
}

/// What an agent asks of a line's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestKind<V> {
    /// A copy to read, to be cached.
    GetShared,
    /// The only copy, to be cached and written (BusRdX).
    GetModified,
    /// Read once, not cached.
    ReadOnce,
    /// Write in the last-level cache and return what was there: stores and atomics that bypass
    /// the private caches, and writes of devices.
    WriteOnce(V),
    /// A modified line leaves a private cache.
    WriteBack(V),
    /// Take the line out of all private caches, whatever name they use (CLFLUSH).
    Flush,
}

/// A request on its way to its slice. Only a [`CoreSide`](super::CoreSide) makes one for a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct LineRequest<V> {
    /// Who asks: a core, or a device (numbers from `Protocol::cores` on).
    pub agent: u8,
    /// The line under the mapping the agent used.
    pub line: LineAddr,
    /// What it wants.
    pub kind: RequestKind<V>,
    /// A slice has already decided where the data is: do not redirect again.
    pub resolved: bool,
    /// The slice that forwarded it first; it waits for [`Message::Served`].
    pub origin: Option<u8>,
}

impl<V> LineRequest<V> {
    /// A request as an agent makes it.
    pub(super) fn new(agent: u8, line: LineAddr, kind: RequestKind<V>) -> Self {
        Self {
            agent,
            line,
            kind,
            resolved: false,
            origin: None,
        }
    }

    /// A read of a device, or its write of a value.
    pub fn of_device(agent: u8, line: LineAddr, value: Option<V>) -> Self {
        Self::new(
            agent,
            line,
            value.map_or(RequestKind::ReadOnce, RequestKind::WriteOnce),
        )
    }
}

/// What a home asks of a private cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Probe {
    /// Give the line up, with its data when modified.
    Invalidate,
    /// Keep it readable, return the data when modified.
    Downgrade,
    /// Keep it when modified, else give it up (the copy engine's question, cacheable design).
    InvalidateUnlessModified,
}

/// State a private cache may take a line in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Grant {
    /// Others may read it too.
    Shared,
    /// Nobody else has it; may be written without asking.
    Exclusive,
    /// Nobody else has it, and it is about to be written.
    Modified,
}

/// A party that takes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Party {
    /// A core's private caches, or a device.
    Agent(u8),
    /// A slice of the last-level cache, with its part of the migration engine.
    Slice(u8),
    /// The front end of the migration engine: work queue and completion records.
    Controller,
}

/// What agents, slices and the controller send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message<V> {
    /// To a slice: serve this. Waits while the line is busy.
    Request(LineRequest<V>),
    /// To a slice: a request for this line that it had forwarded has found its home.
    Served {
        /// The line under the mapping that the agent used.
        line: LineAddr,
    },
    /// To a slice: answer to a probe.
    ProbeReply {
        /// The line at its home (not the tag).
        at: LineAddr,
        /// Who answers.
        agent: u8,
        /// Data, when the copy was modified.
        data: Option<V>,
        /// Whether the agent keeps a copy.
        kept: bool,
    },
    /// To a slice: the data arrived, the line may serve others.
    Unblock {
        /// The line at its home.
        at: LineAddr,
    },
    /// To an agent: data to cache.
    Data {
        /// The tag it asked for.
        line: LineAddr,
        /// The line at its home, for the `Unblock`.
        at: LineAddr,
        /// The slice to unblock.
        home: u8,
        /// What the line holds.
        data: V,
        /// How it may be cached.
        grant: Grant,
    },
    /// To an agent: its read or write was done in the last-level cache.
    Once {
        /// The tag it asked for.
        line: LineAddr,
        /// The data before the write, or as read.
        data: V,
    },
    /// To an agent: not cacheable, mark the page and try again (non-cacheable design).
    Nack {
        /// The tag it asked for.
        line: LineAddr,
    },
    /// To an agent: its write-back was taken (or is obsolete).
    WriteBackDone {
        /// The tag that was written back.
        line: LineAddr,
    },
    /// To an agent: see [`Probe`].
    Probe {
        /// The tag under which the agent is known to hold the line.
        line: LineAddr,
        /// The line at its home.
        at: LineAddr,
        /// The slice that wants the answer.
        home: u8,
        /// What is asked.
        probe: Probe,
    },
    /// To an agent: bypass the private caches for these lines (an MSHR entry with the
    /// non-cacheable mark).
    Mark(Mapping),
    /// To the controller: answer to `Mark`. Messages may overtake each other: a mark that came
    /// after its `Unmark` would outlive the migration.
    Marked(Mapping),
    /// To an agent: end of [`Message::Mark`].
    Unmark(Mapping),
    /// To the controller: answer to `Unmark`.
    Unmarked(Mapping),
    /// To a slice: new metadata entry.
    Install(Mapping),
    /// To the controller: the entry is in the table, the destination is out of all private
    /// caches.
    Installed(Mapping),
    /// To a slice, from itself: take the engine's next step.
    EngineStep(Mapping),
    /// To a slice: it is your turn to copy.
    Turn(Mapping),
    /// To a slice: write this line of the destination.
    CopyWrite {
        /// Source and destination.
        map: Mapping,
        /// Index of the line.
        index: u32,
        /// What the line holds.
        data: V,
    },
    /// To a slice: instead of a copy, become home of a line that `owner` holds modified.
    Handover {
        /// Source and destination.
        map: Mapping,
        /// Index of the line.
        index: u32,
        /// The private cache that has it.
        owner: u8,
    },
    /// To a slice: the destination has the line.
    CopyAck {
        /// Source and destination.
        map: Mapping,
        /// Index of the line.
        index: u32,
    },
    /// To the controller: copied (the last slice, or each one when slices work in parallel).
    SliceCopied(Mapping),
    /// To a slice: every slice has finished copying.
    Finish(Mapping),
    /// To the controller: answer to `Finish`.
    Finished(Mapping),
    /// To a slice: the migration is aborted, take back lines cached under the destination.
    Flush(Mapping),
    /// To the controller: answer to `Flush`. The entry stays: a write-back under the destination
    /// mapping may still need it to find its way to another slice.
    Flushed(Mapping),
    /// To a slice: drop the entry.
    Clear(Mapping),
    /// To the controller: answer to `Clear`.
    Cleared(Mapping),
}

/// A message with its sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Envelope<V> {
    /// Who sends it.
    pub from: Party,
    /// Who gets it.
    pub to: Party,
    /// What it says.
    pub message: Message<V>,
}

/// A read or write that took effect in the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Performed<V> {
    /// Where the data lies.
    pub at: LineAddr,
    /// The name the agent used.
    pub line: LineAddr,
    /// What was there before.
    pub before: V,
    /// What was written, if it was a write.
    pub written: Option<V>,
}

/// What one step produces.
#[derive(Clone, Debug)]
pub struct Outbox<V> {
    /// Messages to deliver.
    pub sent: Vec<Envelope<V>>,
    /// An access that took effect in this step.
    pub performed: Option<Performed<V>>,
    /// A line that the engine copied within its slice in this step.
    pub copied_here: Option<(Mapping, u32)>,
    /// Lines that take requests again.
    pub freed: Vec<LineAddr>,
}

impl<V> Default for Outbox<V> {
    fn default() -> Self {
        Self {
            sent: Vec::new(),
            performed: None,
            copied_here: None,
            freed: Vec::new(),
        }
    }
}

impl<V> Outbox<V> {
    pub(crate) fn send(&mut self, from: Party, to: Party, message: Message<V>) {
        self.sent.push(Envelope { from, to, message });
    }
}

/// Whether a message could be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// The message was taken.
    Yes,
    /// No: this line is busy; deliver the message again once it is not.
    Busy(LineAddr),
}
