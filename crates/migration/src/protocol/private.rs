// SPDX-License-Identifier: MIT OR Apache-2.0
//! One line in a private cache (L1 and L2 seen as one): MESI plus the wait for a write-back.

use super::types::{Grant, Probe};

/// A line in a private cache, under one tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cached<V> {
    /// Not there.
    #[default]
    Invalid,
    /// Readable; others may have it too.
    Shared(V),
    /// The only copy, clean.
    Exclusive(V),
    /// The only copy, newer than the last-level cache.
    Modified(V),
    /// Written back, answer outstanding. No new request for this tag may leave meanwhile.
    Evicting {
        /// The data on its way.
        data: V,
        /// A probe has already taken the data: the write-back will be found obsolete.
        given: bool,
    },
}

impl<V: Copy> Cached<V> {
    /// The data a load may use.
    pub fn readable(&self) -> Option<V> {
        match *self {
            Self::Shared(v) | Self::Exclusive(v) | Self::Modified(v) => Some(v),
            Self::Invalid | Self::Evicting { .. } => None,
        }
    }

    /// Whether a store may happen without asking the home.
    pub fn is_writable(&self) -> bool {
        matches!(self, Self::Exclusive(_) | Self::Modified(_))
    }

    /// The data that a load finds, or a store (`write`) replaces, without asking the home.
    pub fn permits(&self, write: bool) -> Option<V> {
        self.readable().filter(|_| !write || self.is_writable())
    }

    /// Takes the line in, as granted.
    pub(super) fn fill(&mut self, grant: Grant, data: V) {
        let lost = matches!(self, Self::Modified(_) | Self::Evicting { .. });
        debug_assert!(!lost, "newer data is overwritten");
        *self = match grant {
            Grant::Shared => Self::Shared(data),
            Grant::Exclusive => Self::Exclusive(data),
            Grant::Modified => Self::Modified(data),
        };
    }

    /// Drops the line. Returns the data of a modified one: the caller must send it back.
    pub(super) fn evict(&mut self) -> Option<V> {
        match *self {
            Self::Modified(data) => {
                *self = Self::Evicting { data, given: false };
                Some(data)
            }
            Self::Evicting { .. } => None,
            _ => {
                *self = Self::Invalid;
                None
            }
        }
    }

    /// The home has answered the write-back.
    pub(super) fn write_back_done(&mut self) {
        debug_assert!(
            matches!(self, Self::Evicting { .. }),
            "no write-back is owed"
        );
        *self = Self::Invalid;
    }

    /// Answers a probe: data if the copy was modified, and whether a copy is kept.
    pub(super) fn probe(&mut self, probe: Probe) -> (Option<V>, bool) {
        match (*self, probe) {
            (Self::Evicting { data, given }, _) => {
                *self = Self::Evicting { data, given: true };
                ((!given).then_some(data), false)
            }
            (Self::Modified(_), Probe::InvalidateUnlessModified) => (None, true),
            (Self::Modified(v), Probe::Invalidate) => {
                *self = Self::Invalid;
                (Some(v), false)
            }
            (Self::Modified(v), Probe::Downgrade) => {
                *self = Self::Shared(v);
                (Some(v), true)
            }
            (Self::Exclusive(v) | Self::Shared(v), Probe::Downgrade) => {
                *self = Self::Shared(v);
                (None, true)
            }
            _ => {
                *self = Self::Invalid;
                (None, false)
            }
        }
    }
}
