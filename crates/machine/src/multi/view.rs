// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page under migration as an observer of the machine sees it, line by line.

use super::machine::MultiCore;
use super::memory::CoherentMemory;
use super::parts::CoreProgram;
use ample_migration::protocol::{Directory, LineAddr, LineStore, Mapping, OsPhase, Role};
use serde::{Deserialize, Serialize};

/// Where the newest data of a line lies, private caches apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In the source page.
    Source,
    /// The engine works on it; requests wait.
    OnItsWay,
    /// In the destination page.
    Destination,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineView {
    /// Where its data is.
    pub place: Place,
    /// Whether private caches hold it under the name of the source.
    pub cached_as_source: bool,
    /// Whether they hold it under the name of the destination.
    pub cached_as_destination: bool,
}

/// A page under migration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageView {
    /// Whether the page table names the destination.
    pub pte_is_destination: bool,
    /// For each core, then the NIC, then the IOTLB: whether it may still hold the translation
    /// that the page table no longer has.
    pub stale_tlbs: Vec<bool>,
    /// Whether the source has been let go.
    pub is_clearing: bool,
    /// Where each line of the page is.
    pub lines: Vec<LineView>,
}

impl CoherentMemory {
    /// Slices without an entry know nothing of it: it is not installed yet, or cleared already.
    fn line_view(&mut self, map: Mapping, index: u32, cleared: bool) -> LineView {
        let rules = self.rules;
        let source = map.line(Role::Source, index);
        let home = &mut self.slices[usize::from(rules.home(source))].protocol;
        let entry = home.table.get(map);
        let copied = entry.map_or(cleared, |e| e.is_copied(index));
        let in_hand = entry.is_some_and(|e| {
            (e.pointer..e.next).contains(&index)
                && e.phase == ample_migration::protocol::Phase::Copying
        });
        let (place, at) = match (copied, in_hand) {
            (true, _) => (Place::Destination, map.line(Role::Destination, index)),
            (false, true) => (Place::OnItsWay, source),
            (false, false) => (Place::Source, source),
        };
        let slice = &mut self.slices[usize::from(rules.home(at))].protocol;
        let tag = match slice.lines.line(at).directory {
            Directory::Idle => None,
            Directory::Shared { tag, .. } | Directory::Owned { tag, .. } => Some(tag),
        };
        let role = tag
            .and_then(|tag: LineAddr| map.locate(tag))
            .map(|(r, _)| r);
        LineView {
            place,
            cached_as_source: role == Some(Role::Source),
            cached_as_destination: role == Some(Role::Destination),
        }
    }
}

impl<P: CoreProgram> MultiCore<P> {
    /// The migration in hardware that is under way, if any: the first one.
    pub fn view(&mut self) -> Option<PageView> {
        let h = self.hardware.first()?;
        let map = h.os.map;
        let tlbs = self.memory.params().cores + 2;
        let stale = h.os.stale_tlbs;
        let (pte, phase) = (h.os.pte, h.os.phase);
        let lines = (0..map.lines).map(|i| self.memory.line_view(map, i, pte == Role::Destination));
        Some(PageView {
            pte_is_destination: pte == Role::Destination,
            stale_tlbs: (0..tlbs).map(|tlb| stale >> tlb & 1 != 0).collect(),
            is_clearing: matches!(phase, OsPhase::Clearing | OsPhase::Done),
            lines: lines.collect(),
        })
    }
}
