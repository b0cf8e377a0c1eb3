// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that a walk through the kernel's structures found an owner for.

use super::owners::{OwnerId, OwnerList, OwnerName};
use ample_pfn::{Pfn, PfnRange};
use std::collections::BTreeMap;

/// The owners met so far, and the frames that were claimed for them.
#[derive(Debug, Default)]
pub struct Claims {
    /// The owners met so far.
    pub list: OwnerList,
    /// First frame to end and owner; ranges do not overlap.
    ranges: BTreeMap<u64, (u64, OwnerId)>,
}

impl Claims {
    /// The index of an owner, who is added when new.
    pub fn id(&mut self, owner: OwnerName) -> OwnerId {
        self.list.id(owner)
    }

    /// Claims those frames of a range that nobody has claimed before.
    pub fn add(&mut self, range: PfnRange, owner: OwnerId) {
        let (mut start, end) = (range.start.0, range.end.0);
        let before = self.ranges.range(..=start).next_back();
        if let Some((_, &(until, _))) = before {
            start = start.max(until);
        }
        while start < end {
            let next = self.ranges.range(start..end).next();
            let (gap_end, resume) = next.map_or((end, end), |(&at, &(until, _))| (at, until));
            if start < gap_end {
                self.insert(start, gap_end, owner);
            }
            start = resume;
        }
    }

    /// Stores a free range, joined to one of the same owner that ends where it begins.
    fn insert(&mut self, start: u64, end: u64, owner: OwnerId) {
        match self.ranges.range_mut(..start).next_back() {
            Some((_, last)) if *last == (start, owner) => last.0 = end,
            _ => {
                self.ranges.insert(start, (end, owner));
            }
        }
    }

    /// The owner of a frame and the end of the range for which the answer holds, at most `end`.
    pub fn at(&self, pfn: Pfn, end: Pfn) -> (Option<OwnerId>, Pfn) {
        match self.ranges.range(..=pfn.0).next_back() {
            Some((_, &(until, owner))) if until > pfn.0 => (Some(owner), Pfn(until).min(end)),
            _ => {
                let next = self.ranges.range(pfn.0..end.0).next();
                (None, next.map_or(end, |(&start, _)| Pfn(start)))
            }
        }
    }

    /// The first owner of a frame in a range.
    pub fn within(&self, range: PfnRange) -> Option<OwnerId> {
        let (owner, next) = self.at(range.start, range.end);
        owner.or_else(|| self.at(next, range.end).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::who::OwnerKind;

    fn range(start: u64, end: u64) -> PfnRange {
        PfnRange::new(Pfn(start), Pfn(end))
    }

    #[test]
    fn the_first_claim_of_a_frame_holds() {
        let mut claims = Claims::default();
        let one = claims.id(OwnerName::new(OwnerKind::Pipe, "a"));
        let two = claims.id(OwnerName::new(OwnerKind::Socket, "a"));
        assert_eq!(claims.id(OwnerName::new(OwnerKind::Pipe, "a")), one);
        claims.add(range(10, 12), one);
        claims.add(range(20, 21), one);
        claims.add(range(8, 30), two);
        claims.add(range(0, 40), one);
        let owners: Vec<_> = (0..41).map(|pfn| claims.at(Pfn(pfn), Pfn(50)).0).collect();
        for (pfn, owner) in owners.iter().enumerate() {
            let expected = match pfn {
                10..12 | 20 | 0..8 | 30..40 => Some(one),
                8..30 => Some(two),
                _ => None,
            };
            assert_eq!(*owner, expected, "frame {pfn}");
        }
        assert_eq!(claims.at(Pfn(12), Pfn(50)), (Some(two), Pfn(20)));
        assert_eq!(claims.at(Pfn(45), Pfn(50)), (None, Pfn(50)));
        assert_eq!(claims.within(range(38, 60)), Some(one));
        assert_eq!(claims.within(range(40, 60)), None);
    }
}
