// SPDX-License-Identifier: MIT OR Apache-2.0
//! One line at its home: data, directory entry, and what it is busy with.

use super::faults::PlantedFault;
use super::types::{Grant, LineAddr, LineRequest, Mapping, Probe, Protocol, RequestKind};

/// Who has copies of a line in private caches, and under which tag. One tag only: that is the
/// invariant that makes private caching safe during a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Directory {
    /// No core has the line.
    #[default]
    Idle,
    /// These cores (a bit each) may read it.
    Shared {
        /// The mapping they use.
        tag: LineAddr,
        /// One bit a core.
        sharers: u64,
    },
    /// This core may write it.
    Owned {
        /// The mapping it uses.
        tag: LineAddr,
        /// Number of the core.
        owner: u8,
    },
}

impl Directory {
    /// The tag in use and the cores that may hold the line.
    pub fn holders(&self) -> Option<(LineAddr, u64)> {
        match *self {
            Self::Idle => None,
            Self::Shared { tag, sharers } => Some((tag, sharers)),
            Self::Owned { tag, owner } => Some((tag, 1 << owner)),
        }
    }

    fn share(&mut self, tag: LineAddr, agent: u8) {
        debug_assert!(agent < 64, "core {agent}: the directory has 64 bits");
        let sharers = match *self {
            Self::Shared { sharers, .. } => sharers,
            _ => 0,
        } | (1 << agent);
        *self = Self::Shared { tag, sharers };
    }

    /// Records the answer of `agent` to a probe.
    fn answered(&mut self, probe: Probe, agent: u8, kept: bool) {
        match (*self, probe, kept) {
            // The engine's question: the owner keeps it as it was.
            (_, Probe::InvalidateUnlessModified, true) => {}
            (Self::Owned { tag, owner }, _, true) if owner == agent => {
                *self = Self::Idle;
                self.share(tag, agent);
            }
            (Self::Owned { owner, .. }, _, false) if owner == agent => *self = Self::Idle,
            (Self::Shared { tag, sharers }, _, false) => {
                let sharers = sharers & !(1 << agent);
                *self = match sharers {
                    0 => Self::Idle,
                    _ => Self::Shared { tag, sharers },
                };
            }
            _ => {}
        }
    }
}

/// What continues once all probes are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Todo<V> {
    /// Serve this request.
    Serve(LineRequest<V>),
    /// The engine works on this line.
    Engine(Mapping),
    /// The directory has taken the line back to make room; nothing follows.
    Recall,
}

/// Why a line takes no requests at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Busy<V> {
    /// It does.
    #[default]
    Free,
    /// Answers of these cores are outstanding.
    Probing {
        /// What was asked.
        probe: Probe,
        /// One bit a core.
        waiting: u64,
        /// What then.
        todo: Todo<V>,
    },
    /// Data is on its way to a private cache.
    AwaitUnblock,
    /// The engine's copy is on its way to the destination's home.
    Copying,
    /// The destination has the line, but a line before it is still on its way: the pointer, which
    /// alone says where the data is, has not passed it yet.
    Copied,
}

/// A line at its home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HomeLine<V> {
    /// The data in the last-level cache or memory.
    pub data: V,
    /// Copies in private caches.
    pub directory: Directory,
    /// Blocking reason.
    pub busy: Busy<V>,
}

/// What serving a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Ask these cores first, which hold it under `tag`.
    Probe {
        probe: Probe,
        tag: LineAddr,
        cores: u64,
    },
    /// Hand out a copy.
    Grant(Grant),
    /// Read or write in place.
    InPlace,
    /// Take the write-back, or ignore an obsolete one.
    WriteBack { current: bool },
}

impl<V: Copy> HomeLine<V> {
    /// A line nobody has cached.
    pub fn new(data: V) -> Self {
        Self {
            data,
            directory: Directory::Idle,
            busy: Busy::Free,
        }
    }

    /// Whether requests must wait.
    pub fn is_busy(&self) -> bool {
        !matches!(self.busy, Busy::Free)
    }

    /// The next thing to do for `request` on this free line.
    pub(super) fn plan(&self, rules: &Protocol, request: &LineRequest<V>) -> Plan {
        let probe = |probe, tag, cores| Plan::Probe { probe, tag, cores };
        let agent_bit = 1u64.checked_shl(u32::from(request.agent)).unwrap_or(0);
        let holders = self.directory.holders();
        // The opposite-mapping check (Contiguitas §3.3, cacheable accesses).
        if let Some((tag, cores)) = holders
            && tag != request.line
            && matches!(
                request.kind,
                RequestKind::GetShared | RequestKind::GetModified
            )
            && !rules.has(PlantedFault::SkipOppositeCheck)
        {
            return probe(Probe::Invalidate, tag, cores);
        }
        match (request.kind, self.directory) {
            (RequestKind::GetShared, Directory::Idle) => Plan::Grant(Grant::Exclusive),
            (RequestKind::GetShared, Directory::Shared { .. }) => Plan::Grant(Grant::Shared),
            (RequestKind::GetShared, Directory::Owned { owner, .. }) if owner == request.agent => {
                Plan::Grant(Grant::Exclusive)
            }
            (RequestKind::GetShared, Directory::Owned { tag, owner }) => {
                probe(Probe::Downgrade, tag, 1 << owner)
            }
            (RequestKind::GetModified, _) => match holders {
                Some((tag, cores)) if cores & !agent_bit != 0 => {
                    probe(Probe::Invalidate, tag, cores & !agent_bit)
                }
                _ => Plan::Grant(Grant::Modified),
            },
            (RequestKind::ReadOnce, Directory::Owned { tag, owner }) => {
                probe(Probe::Downgrade, tag, 1 << owner)
            }
            (RequestKind::ReadOnce, _) => Plan::InPlace,
            (RequestKind::Flush, _)
                if rules.has(PlantedFault::FlushOneName)
                    && holders.is_some_and(|(tag, _)| tag != request.line) =>
            {
                Plan::InPlace
            }
            (RequestKind::WriteOnce(_) | RequestKind::Flush, _) => match holders {
                Some((tag, cores)) => probe(Probe::Invalidate, tag, cores),
                None => Plan::InPlace,
            },
            (RequestKind::WriteBack(_), directory) => Plan::WriteBack {
                current: directory
                    == Directory::Owned {
                        tag: request.line,
                        owner: request.agent,
                    },
            },
        }
    }

    /// Records that `agent` gets a copy.
    pub(super) fn record(&mut self, tag: LineAddr, agent: u8, grant: Grant) {
        match grant {
            Grant::Shared => self.directory.share(tag, agent),
            Grant::Exclusive | Grant::Modified => {
                self.directory = Directory::Owned { tag, owner: agent };
            }
        }
    }

    /// Takes a probe's answer. When it was the last one: what to do now, with the line free.
    pub(super) fn answer(&mut self, agent: u8, data: Option<V>, kept: bool) -> Option<Todo<V>> {
        let Busy::Probing {
            probe,
            waiting,
            todo,
        } = self.busy
        else {
            return None;
        };
        debug_assert!(waiting >> agent & 1 == 1, "core {agent} was not asked");
        if let Some(data) = data {
            self.data = data;
        }
        self.directory.answered(probe, agent, kept);
        let waiting = waiting & !(1 << agent);
        if waiting != 0 {
            self.busy = Busy::Probing {
                probe,
                waiting,
                todo,
            };
            return None;
        }
        self.busy = Busy::Free;
        Some(todo)
    }
}
