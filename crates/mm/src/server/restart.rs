// SPDX-License-Identifier: MIT OR Apache-2.0
//! A service that restarts on the machine of a snapshot and asks for huge pages, as in recorded
//! guests (`kernel/guest/plans/record_restart.sh`).

use super::model::ServerModel;
use crate::alloc::request::AllocRequest;
use crate::compact::state::{Deferral, Scanners};
use crate::memory::{BLOCK_ORDER, BLOCK_PAGES, FrameKind, PoolId};
use ample_pfn::PageClass;
use serde::{Deserialize, Serialize};

/// What else is known of a page than its class, a byte each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFlags(pub u8);

impl PageFlags {
    /// Written and not yet on storage.
    pub const DIRTY: u8 = 1;
    /// On its way to storage.
    pub const WRITEBACK: u8 = 2;
    /// Somebody works on it.
    pub const LOCKED: u8 = 4;
    /// Used twice at least.
    pub const ACTIVE: u8 = 32;

    fn any(self, flags: u8) -> bool {
        self.0 & flags != 0
    }
}

/// What a zone of a kernel remembers of compactions (`struct zone`, 6.12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionState {
    /// Least order that one failed for.
    pub order_failed: u32,
    /// Requests that have passed since without another.
    pub considered: u32,
    /// 2 to this power pass without another.
    pub defer_shift: u32,
    /// Frame that the migrate scanner goes on from.
    pub migrate_pfn: u64,
    /// Frame that the free scanner goes down from.
    pub free_pfn: u64,
    /// First frame of the blocks of `skipped`.
    pub skip_pfn: u64,
    /// Pageblocks that compaction passes over: four a hexadecimal digit, the lowest of them in its
    /// lowest bit. What is no digit stands for four that it does not pass over.
    pub skipped: String,
}

/// 2 MB pages that a service obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obtained {
    /// By page faults, of those that it wants, given back before the next.
    pub thp: u32,
    /// Through `nr_hugepages`, of those that it wants.
    pub got: u32,
    /// Of twice as many, asked for in addition.
    pub got_of_twice: u32,
}

impl ServerModel {
    /// Tells what each page of the snapshot is busy with: `flags[i]` is of frame `i` of its span.
    /// A page that is locked or under writeback can be neither moved nor reclaimed
    /// (`migrate_folio_unmap`, `shrink_folio_list`, 6.12: compaction does not wait for either), one
    /// that is dirty can be moved. A page of the cache that was used once is reclaimed like any
    /// other (`folio_check_references`).
    pub fn set_flags(&mut self, flags: &[PageFlags]) {
        let offset = self.offset();
        let (mut dirty, mut on_their_way) = (0u64, 0u64);
        for (index, &flags) in flags.iter().enumerate() {
            let Some(pfn) = (offset.checked_add(index as u32)).filter(|&pfn| pfn < self.frames())
            else {
                break;
            };
            let state = self.kernel.zone.state(pfn);
            if flags == PageFlags(0) || state.kind() != FrameKind::Used {
                continue;
            }
            if flags.any(PageFlags::WRITEBACK | PageFlags::LOCKED) {
                self.pin_shortly(pfn, true);
            }
            if state.on_lru() {
                let frames = self.kernel.zone.frames_mut();
                if flags.any(PageFlags::ACTIVE) {
                    self.kernel.lru.activate(frames, pfn);
                }
                dirty += u64::from(flags.any(PageFlags::DIRTY));
                on_their_way += u64::from(flags.any(PageFlags::WRITEBACK));
            }
        }
        (self.kernel.writeback).set_dirty(dirty as f64, on_their_way as f64);
    }

    /// Takes over what the kernel of the snapshot remembered of compactions.
    pub fn set_compaction(&mut self, state: &CompactionState) {
        let whole = Scanners::apart(&self.kernel.zone);
        // The free scanner takes the block in which it stopped again.
        let first_frame = self.first_frame();
        let at = |pfn: u64| pfn.saturating_sub(first_frame) >> BLOCK_ORDER;
        let (least, most) = (u64::from(whole.migrate), u64::from(whole.free));
        self.kernel.scanners = Scanners {
            migrate: at(state.migrate_pfn).clamp(least, most) as u32,
            free: (at(state.free_pfn) + 1).clamp(least, most) as u32,
        };
        let first = at(state.skip_pfn).min(most) as u32;
        for (four, digit) in (0u32..).zip(state.skipped.chars()) {
            let digit = digit.to_digit(16).unwrap_or(0);
            let marked = (0..4).filter(|bit| digit >> bit & 1 == 1);
            marked.for_each(|bit| self.kernel.skips.mark(first.saturating_add(4 * four + bit)));
        }
        self.kernel.deferral =
            Deferral::of(state.order_failed, state.considered, state.defer_shift);
    }

    /// The service asks for `wanted` 2 MB pages by page faults, gives them back, asks for as many
    /// through `nr_hugepages`, and then for twice as many.
    pub fn ask_at_restart(&mut self, wanted: u32) -> Obtained {
        let request = AllocRequest::new(PageClass::Anon)
            .order(BLOCK_ORDER)
            .light();
        let faulted: Vec<u32> = (0..wanted).map_while(|_| self.alloc(&request, 0)).collect();
        for &pfn in &faulted {
            self.kernel.free(pfn, 0);
        }
        let pool = self.new_pool();
        let got = self.hugetlb_2m(pool, wanted);
        let more = self.hugetlb_2m(pool, wanted.saturating_mul(2) - got);
        Obtained {
            thp: faulted.len() as u32,
            got,
            got_of_twice: got + more,
        }
    }

    /// Services that hold all anonymous memory of the snapshot end one after another, in `turns`
    /// turns. Each asks for its part of `wanted` 2 MB pages through `nr_hugepages` when it has
    /// ended, and has as much memory as before when the next one ends, the share `advised` of it
    /// faulted in as huge pages where there are any. Pages obtained in all.
    pub fn ask_by_turns(&mut self, turns: u32, wanted: u32, advised: f64) -> u32 {
        let services = self.share_anon(turns);
        let (next, pool) = (self.new_pool(), self.new_pool());
        let mut got = 0;
        for (turn, service) in (1..).zip(services) {
            let held = self.pool_len(service) as u32;
            self.release_all(service, 0);
            let more = self.hugetlb_2m(pool, wanted * turn / turns - got);
            got += more;
            let needed = held.saturating_sub(more * BLOCK_PAGES);
            let huge = (f64::from(needed) * advised / f64::from(BLOCK_PAGES)) as u32;
            let faulted = (0..huge).filter(|_| self.fault_advised(next, 0)).count() as u32;
            let rest = needed - faulted * BLOCK_PAGES;
            self.allocate(next, &AllocRequest::new(PageClass::Anon), rest, 0);
        }
        got
    }

    /// Shares the anonymous pages of the snapshot between so many owners by chance, block by block
    /// where they fill it, as huge pages do, else page by page.
    fn share_anon(&mut self, owners: u32) -> Vec<PoolId> {
        let pools: Vec<PoolId> = (0..owners).map(|_| self.new_pool()).collect();
        let held = std::mem::take(&mut self.snapshot.pools);
        let anon = held.iter().find(|(class, _)| *class == PageClass::Anon);
        let Some(&(_, anon)) = anon else {
            return pools;
        };
        let blocks = self.kernel.zone.block_count();
        let of_block: Vec<u32> = (0..blocks).map(|_| self.kernel.rng.below(owners)).collect();
        let mut pages = vec![0; blocks as usize];
        for &pfn in self.kernel.pools.entries(anon) {
            pages[(pfn >> BLOCK_ORDER) as usize] += 1;
        }
        while let Some(last) = self.kernel.pools.len(anon).checked_sub(1) {
            let pfn = self.kernel.take_from(anon, last);
            let b = (pfn >> BLOCK_ORDER) as usize;
            let owner = match pages[b] {
                BLOCK_PAGES => of_block[b],
                _ => self.kernel.rng.below(owners),
            };
            self.kernel.give(pools[owner as usize], pfn);
        }
        pools
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, CostlyRequests, PolicyKind};
    use ample_pfn::{Layout, Pfn};

    const PAGES: u64 = 1 << 14;

    /// A machine of 64 MB with the same kind of page in every second frame and nothing else.
    fn alternating(class: PageClass, flags: u8) -> ServerModel {
        let config = Config {
            costly: CostlyRequests::Kernel,
            ..Config::new(PolicyKind::Linux)
        };
        let every_second = |index: u64| index.is_multiple_of(2);
        let classes: Vec<PageClass> = (0..PAGES)
            .map(|index| match every_second(index) {
                true => class,
                false => PageClass::Free,
            })
            .collect();
        let layout = Layout::single(Pfn(0), PAGES);
        let mut server = ServerModel::from_pages(&config, &layout, &classes).expect("a machine");
        let flags: Vec<PageFlags> = (0..PAGES)
            .map(|index| PageFlags(flags * u8::from(every_second(index))))
            .collect();
        server.set_flags(&flags);
        server
    }

    fn got(class: PageClass, flags: u8) -> u32 {
        let mut server = alternating(class, flags);
        let got = server.ask_at_restart(12).got;
        server.check().expect("sound");
        got
    }

    #[test]
    fn pages_under_writeback_stay_and_dirty_ones_move() {
        assert_eq!(got(PageClass::File, 0), 12);
        assert_eq!(got(PageClass::File, PageFlags::DIRTY), 12);
        assert_eq!(got(PageClass::File, PageFlags::WRITEBACK), 0);
        assert_eq!(got(PageClass::Anon, PageFlags::LOCKED), 0);
    }

    #[test]
    fn dirty_pages_are_reclaimed_where_storage_keeps_up() {
        let of_28 = |dirty: u8, on_their_way: u64| {
            let mut server = alternating(PageClass::File, dirty);
            let written = |index| u8::from(index < on_their_way) * PageFlags::WRITEBACK;
            let flags = (0..PAGES).map(|index| PageFlags(dirty | written(index)));
            server.set_flags(&flags.collect::<Vec<_>>());
            let pool = server.new_pool();
            server.hugetlb_2m(pool, 28)
        };
        let (clean, written) = (of_28(0, 0), of_28(PageFlags::DIRTY, 0));
        assert!(clean > 20 && written > 20, "{clean} and {written}");
        let behind = of_28(PageFlags::DIRTY, PAGES / 8);
        assert!(behind <= 16, "{behind}");
    }

    #[test]
    fn services_that_end_one_after_another_leave_room_for_each_other() {
        let mut server = alternating(PageClass::Anon, 0);
        assert_eq!(server.ask_by_turns(4, 8, 0.0), 8);
        server.check().expect("sound");
    }

    #[test]
    fn flags_of_frames_that_are_not_there_are_ignored() {
        let mut server = alternating(PageClass::Anon, 0);
        server.set_flags(&vec![PageFlags(0xff); PAGES as usize + 5]);
        server.set_compaction(&CompactionState {
            order_failed: u32::MAX,
            considered: u32::MAX,
            defer_shift: u32::MAX,
            migrate_pfn: u64::MAX,
            free_pfn: u64::MAX,
            skip_pfn: u64::MAX,
            skipped: "ffx".into(),
        });
        assert_eq!(server.ask_at_restart(u32::MAX).got, 0);
        server.check().expect("sound");
    }
}
