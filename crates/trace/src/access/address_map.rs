// SPDX-License-Identifier: MIT OR Apache-2.0
//! The address space of a real program, kept from its mmap, munmap, mprotect and brk calls.

use crate::{Backing, Region};
use std::collections::BTreeMap;
use std::ops::Range;

const PAGE: u64 = 4096;

/// Ranges of pages that can be accessed, each with what stands behind it.
#[derive(Clone, Debug, Default)]
pub struct AddressMap {
    /// First address to (first address after, backing); disjoint, none empty.
    ranges: BTreeMap<u64, (u64, Backing)>,
}

/// Whole pages around a range; empty if it wraps around.
fn pages(range: &Range<u64>) -> Range<u64> {
    let end = range.end.checked_next_multiple_of(PAGE).unwrap_or(0);
    (range.start & !(PAGE - 1))..end
}

impl AddressMap {
    /// Maps a range; what was there is gone.
    pub fn map(&mut self, range: &Range<u64>, backing: Backing) {
        let range = pages(range);
        if range.is_empty() {
            return;
        }
        self.unmap(&range);
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, &(border, kind))) = self.ranges.range(..start).next_back()
            && border == start
            && kind == backing
        {
            self.ranges.remove(&before);
            start = before;
        }
        if let Some(&(border, kind)) = self.ranges.get(&end)
            && kind == backing
        {
            self.ranges.remove(&end);
            end = border;
        }
        self.ranges.insert(start, (end, backing));
    }

    /// Unmaps a range; what reaches over its borders stays.
    pub fn unmap(&mut self, range: &Range<u64>) {
        let range = pages(range);
        for (start, end, backing) in self.pieces(&range) {
            self.ranges.remove(&start);
            if start < range.start {
                self.ranges.insert(start, (range.start, backing));
            }
            if end > range.end {
                self.ranges.insert(range.end, (end, backing));
            }
        }
    }

    /// Gives a range other rights: code becomes code, memory without any rights counts as not
    /// mapped, and memory that gets its first rights (a reserved arena) is anonymous.
    pub fn protect(&mut self, range: &Range<u64>, accessible: bool, executable: bool) {
        let range = pages(range);
        if !accessible {
            return self.unmap(&range);
        }
        let pieces = self.pieces(&range);
        let mut at = range.start;
        for (start, end, backing) in pieces {
            let (start, end) = (start.max(range.start), end.min(range.end));
            self.map(&(at..start), first(executable));
            let backing = match (executable, backing) {
                (true, _) => Backing::Code,
                (false, Backing::Code) => Backing::File,
                (false, other) => other,
            };
            self.map(&(start..end), backing);
            at = end;
        }
        self.map(&(at..range.end), first(executable));
    }

    fn pieces(&self, range: &Range<u64>) -> Vec<(u64, u64, Backing)> {
        let overlaps = self.ranges.range(..range.end).rev();
        let mut found: Vec<_> = overlaps
            .take_while(|&(_, &(end, _))| end > range.start)
            .map(|(&start, &(end, backing))| (start, end, backing))
            .collect();
        found.reverse();
        found
    }

    /// The ranges as regions, from the bottom.
    pub fn regions(&self) -> Vec<Region> {
        let region = |(&base, &(end, backing)): (&u64, &(u64, Backing))| Region {
            name: format!("{backing:?}").to_lowercase(),
            base,
            bytes: end - base,
            backing,
        };
        self.ranges.iter().map(region).collect()
    }
}

fn first(executable: bool) -> Backing {
    if executable {
        Backing::Code
    } else {
        Backing::Anonymous
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS: [Backing; 3] = [Backing::Anonymous, Backing::File, Backing::Code];

    proptest! {
        #[test]
        fn the_map_agrees_with_a_page_by_page_record(
            calls in proptest::collection::vec((0u8..4, 0u64..40, 1u64..20, 0usize..3), 0..60),
        ) {
            let mut map = AddressMap::default();
            let mut record: [Option<Backing>; 64] = [None; 64];
            for (what, page, count, kind) in calls {
                let range = page * PAGE..(page + count) * PAGE;
                let slots = &mut record[page as usize..(page + count) as usize];
                match what {
                    0 => {
                        map.map(&range, KINDS[kind]);
                        slots.fill(Some(KINDS[kind]));
                    }
                    1 => {
                        map.unmap(&range);
                        slots.fill(None);
                    }
                    2 => {
                        map.protect(&range, false, false);
                        slots.fill(None);
                    }
                    _ => {
                        let executable = kind == 2;
                        map.protect(&range, true, executable);
                        for slot in slots {
                            *slot = Some(match (executable, *slot) {
                                (true, _) => Backing::Code,
                                (false, None) => Backing::Anonymous,
                                (false, Some(Backing::Code)) => Backing::File,
                                (false, Some(other)) => other,
                            });
                        }
                    }
                }
            }
            let mut pages = [None; 64];
            for region in map.regions() {
                prop_assert!(region.bytes > 0);
                for page in region.base / PAGE..region.end() / PAGE {
                    prop_assert_eq!(pages[page as usize].replace(region.backing), None);
                }
            }
            prop_assert_eq!(pages, record);
        }
    }

    #[test]
    fn parts_of_pages_count_whole_and_wrapping_ranges_not_at_all() {
        let mut map = AddressMap::default();
        map.map(&(100..5000), Backing::Anonymous);
        assert_eq!((map.regions()[0].base, map.regions()[0].bytes), (0, 8192));
        map.map(&(u64::MAX - 10..u64::MAX), Backing::File);
        assert_eq!(map.regions().len(), 1);
    }
}
