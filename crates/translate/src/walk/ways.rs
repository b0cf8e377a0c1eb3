// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ways of nested walks, counted: for each guest level how the host found the node, and where
//! the guest's reference hit.

use crate::stats::HitLevel;
use ample_kit::random::GOLDEN;
use std::collections::BTreeMap;

/// Ways met of late, by a hash: nearly every walk takes one of a few dozen.
const SLOTS: usize = 256;

/// How a guest-physical address of a walk became a host-physical one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostWay(u8);

impl HostWay {
    /// The guest's page-walk caches held the host-physical address.
    pub(crate) const HELD: HostWay = HostWay(1);
    /// The nested TLB did.
    pub(crate) const NESTED_TLB: HostWay = HostWay(2);
    /// A segment of the host maps it.
    pub(crate) const SEGMENT: HostWay = HostWay(3);

    /// A walk of the host with references from level `from` down to its leaf at level `to`.
    #[inline(always)]
    pub(crate) fn walk(from: u8, to: u8) -> Self {
        debug_assert!(
            (1..8).contains(&from) && (1..4).contains(&to),
            "{from}-{to}"
        );
        HostWay(from << 2 | to)
    }

    fn name(self) -> String {
        match self.0 {
            1 => "held".into(),
            2 => "tlb".into(),
            3 => "segment".into(),
            walk => format!("{}-{}", walk >> 2, walk & 3),
        }
    }
}

/// The way of one walk: a byte for the page and for each level of the guest, of which the lowest
/// three bits say where the guest's reference hit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NestedWay(u64);

impl NestedWay {
    /// A reference to an entry of a guest level, and how the host found it.
    #[inline(always)]
    pub(crate) fn reference(&mut self, level: u8, host: HostWay, hit: HitLevel) {
        self.0 |= (u64::from(host.0) << 3 | hit as u64) << (8 * level);
    }

    /// How the host found the page itself.
    #[inline(always)]
    pub(crate) fn page(&mut self, host: HostWay) {
        self.0 |= u64::from(host.0) << 3;
    }
}

/// Nested walks by their ways.
#[derive(Clone, Debug, Default)]
pub(crate) struct NestedWays {
    /// Ways and walks; none before the first walk.
    recent: Option<Box<[(u64, u64); SLOTS]>>,
    /// Those that others have taken the slots of.
    older: BTreeMap<u64, u64>,
}

impl NestedWays {
    /// Counts a walk.
    #[inline(always)]
    pub(crate) fn count(&mut self, way: NestedWay) {
        let place = (way.0.wrapping_mul(GOLDEN) >> 32) as usize % SLOTS;
        match &mut self.recent {
            Some(recent) if recent[place].0 == way.0 => recent[place].1 += 1,
            _ => self.count_other(way, place),
        }
    }

    /// Counts a walk that has no slot yet.
    #[cold]
    fn count_other(&mut self, way: NestedWay, place: usize) {
        let recent = self.recent.get_or_insert_with(|| Box::new([(0, 0); SLOTS]));
        let (old, count) = std::mem::replace(&mut recent[place], (way.0, 1));
        if count > 0 {
            *self.older.entry(old).or_default() += count;
        }
    }

    /// Walks by the names of their ways.
    pub(crate) fn by_name(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        let taken = self.older.iter().map(|(&way, &count)| (way, count));
        let recent = self.recent.iter().flat_map(|recent| recent.iter());
        let taken = taken.chain(recent.copied());
        for (way, count) in taken.filter(|(_, count)| *count > 0) {
            *all.entry(name(way)).or_default() += count;
        }
        all
    }
}

/// `LEVEL:HOST:PLACE` for each level of the guest, from where its walk starts, then `page:HOST`.
fn name(way: u64) -> String {
    let bytes = way.to_le_bytes();
    let host = |byte: u8| HostWay(byte >> 3).name();
    let level = |(level, &byte): (usize, &u8)| {
        let place = HitLevel::name(u64::from(byte & 7));
        format!("{level}:{}:{place} ", host(byte))
    };
    let levels = bytes.iter().enumerate().skip(1).rev();
    let levels = levels.filter(|(_, byte)| **byte != 0).map(level);
    levels.collect::<String>() + "page:" + &host(bytes[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_kit::random::SplitMix64;

    #[test]
    fn every_way_has_a_name_of_its_own_and_keeps_its_count() {
        let mut random = SplitMix64::new(5);
        let (mut ways, mut plain) = (NestedWays::default(), BTreeMap::new());
        let hosts = [HostWay::HELD, HostWay::NESTED_TLB, HostWay::SEGMENT];
        for _ in 0..20_000 {
            let (mut way, mut told) = (NestedWay::default(), Vec::new());
            let top = 1 + random.below(5) as u8;
            for level in (0..=top).rev() {
                let host = match random.below(4) as usize {
                    3 => HostWay::walk(1 + random.below(5) as u8, 1 + random.below(3) as u8),
                    known => hosts[known],
                };
                let hit = [HitLevel::L1, HitLevel::Dram][random.below(2) as usize];
                match level {
                    0 => way.page(host),
                    _ => way.reference(level, host, hit),
                }
                told.push((level, host.0, hit as u8 * u8::from(level > 0)));
            }
            ways.count(way);
            *plain.entry(told).or_insert(0) += 1;
        }
        let counts = |all: Vec<u64>| {
            let mut all = all;
            all.sort_unstable();
            all
        };
        let named = ways.by_name();
        assert_eq!(named.len(), plain.len());
        let named = counts(named.into_values().collect());
        assert_eq!(named, counts(plain.into_values().collect()));
    }

    #[test]
    fn names_say_levels_host_and_place() {
        let mut way = NestedWay::default();
        way.reference(2, HostWay::HELD, HitLevel::L2);
        way.reference(1, HostWay::walk(3, 2), HitLevel::Dram);
        way.page(HostWay::NESTED_TLB);
        assert_eq!(name(way.0), "2:held:l2 1:3-2:mem page:tlb");
    }
}
