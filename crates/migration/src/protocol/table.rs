// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metadata table of a slice (Contiguitas figure 8b).

use super::types::{LineAddr, Mapping, Role};

/// Where a slice is with a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Taking dead lines of the destination out of the private caches.
    Purging,
    /// Both mappings are valid; nothing of this slice has been copied.
    Redirecting,
    /// This slice copies its lines; those below the pointer are done.
    Copying,
    /// All lines of all slices have been copied.
    Done,
    /// The migration was aborted: taking back lines cached under the destination.
    Flushing,
}

/// One entry. `pointer` counts lines of the page; a slice only works on those it is home of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MetadataEntry {
    /// Source, destination and size.
    pub map: Mapping,
    /// What the engine does with the page now.
    pub phase: Phase,
    /// Next line of the current pass: all lines of this slice below it are done.
    pub pointer: u32,
    /// Next line to begin with; ahead of `pointer` while several lines are on their way.
    pub next: u32,
    /// An [`EngineStep`](super::types::Message::EngineStep) is under way.
    pub stepping: bool,
    /// Requests for lines of the page that this slice has forwarded and that have not found their
    /// home yet.
    pub forwards: u16,
    /// The migration is over: the entry redirects nothing any more, and goes once `forwards` is 0.
    /// A request that came later would meet the entry of the next migration of the frame.
    pub clearing: bool,
}

impl MetadataEntry {
    /// Whether line `index`, whose source is at home in this slice, has moved.
    pub fn is_copied(&self, index: u32) -> bool {
        match self.phase {
            Phase::Done => true,
            Phase::Copying => index < self.pointer,
            _ => false,
        }
    }
}

/// A fully associative table. Its capacity is enforced by the controller, whose table all
/// slices replicate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MetadataTable {
    entries: Vec<MetadataEntry>,
}

impl MetadataTable {
    /// The entry that redirects `line`, with the side and index.
    pub fn find(&self, line: LineAddr) -> Option<(&MetadataEntry, Role, u32)> {
        let mut redirecting = self.entries.iter().filter(|entry| !entry.clearing);
        redirecting.find_map(|entry| {
            let (role, index) = entry.map.locate(line)?;
            Some((entry, role, index))
        })
    }

    /// The entry of a migration.
    pub fn get(&self, map: Mapping) -> Option<&MetadataEntry> {
        self.entries.iter().find(|e| e.map == map)
    }

    /// The entry that covers `line`, also one that redirects nothing any more.
    pub(super) fn find_mut(&mut self, line: LineAddr) -> Option<&mut MetadataEntry> {
        let covers = |entry: &&mut MetadataEntry| entry.map.locate(line).is_some();
        self.entries.iter_mut().find(covers)
    }

    pub(super) fn get_mut(&mut self, map: Mapping) -> Option<&mut MetadataEntry> {
        self.entries.iter_mut().find(|e| e.map == map)
    }

    pub(super) fn insert(&mut self, map: Mapping) {
        let free = self.entries.iter().all(|entry| !entry.map.overlaps(&map));
        debug_assert!(
            free,
            "the controller lets no page take part in two migrations"
        );
        self.entries.push(MetadataEntry {
            map,
            phase: Phase::Purging,
            pointer: 0,
            next: 0,
            stepping: false,
            forwards: 0,
            clearing: false,
        });
        // Order carries no meaning; sorted, equal tables are equal values.
        self.entries.sort_unstable();
    }

    pub(super) fn remove(&mut self, map: Mapping) {
        self.entries.retain(|e| e.map != map);
    }

    /// All entries in use.
    pub fn entries(&self) -> &[MetadataEntry] {
        &self.entries
    }
}
