// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every invariant of the model, checked from scratch in O(frames).

use crate::config::PolicyKind;
use crate::core::{BLOCK_ORDER, BLOCK_PAGES, Core, HIGH, LOW};
use crate::frame::{Kind, State};
use crate::policy::border_violation;
use crate::server::Server;
use ample_pfn::is_movable;

/// Sums over the frames, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Census {
    free: [u64; 2],
    pcp: [u64; 2],
    isolated: u64,
    used_heads: u64,
    lru: u64,
    pages: u64,
}

impl Server {
    /// Verifies that no page is in two places, that counts equal the sums over lists, that
    /// blocks agree with their pages and that the border is respected.
    ///
    /// # Errors
    /// A sentence about the first violation, with the frame.
    pub fn check(&self) -> Result<(), String> {
        let census = self.core.census()?;
        if census.pages != u64::from(self.core.frames.len()) {
            return Err(format!(
                "{} of {} frames are in a block",
                census.pages,
                self.core.frames.len()
            ));
        }
        for region in [LOW, HIGH] {
            let counted = (census.free[region], census.pcp[region]);
            let kept = (self.core.free_pages(region), self.core.pcp_pages[region]);
            if counted != kept {
                return Err(format!(
                    "region {region}: (free, pcp) counted {counted:?}, kept {kept:?}"
                ));
            }
        }
        if census.isolated != self.core.isolated_pages {
            return Err(format!("{} isolated pages leaked", census.isolated));
        }
        self.core.check_lists(&census)?;
        self.core.check_owners(&census)?;
        if !self.core.border.is_multiple_of(BLOCK_PAGES) {
            return Err(format!("border {:#x} is inside a block", self.core.border));
        }
        let confined = matches!(
            self.policy(),
            PolicyKind::Contiguitas | PolicyKind::ContiguitasHw
        );
        match border_violation(&self.core) {
            Some(pfn) if confined && !self.pins_in_place() => {
                Err(format!("frame {pfn:#x} is on the wrong side of the border"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the ablation that pins pages where they are is on.
    fn pins_in_place(&self) -> bool {
        self.core.border > 0 && !self.policy.must_move_to_pin(&self.core, self.core.border)
    }
}

impl Core {
    /// Walks all blocks of frames, checks each pageblock's counts.
    fn census(&self) -> Result<Census, String> {
        let mut census = Census::default();
        for b in 0..self.blocks.len() as u32 {
            let block = self.blocks[b as usize];
            if block.giga {
                census.pages += u64::from(BLOCK_PAGES);
                let head = self.frames.get(b << BLOCK_ORDER);
                census.used_heads += u64::from(head.order() > 10 && head.kind() == Kind::Used);
                continue;
            }
            if self.cover(b).is_some() {
                continue;
            }
            let mut sums = [0u32; 3];
            let mut bad = None;
            self.heads(b, |pfn, state| {
                if bad.is_none() {
                    bad = self.head_error(b, pfn, state);
                }
                let inside = 1u32 << state.order().min(BLOCK_ORDER);
                self.add_to(&mut census, &mut sums, pfn, state, inside);
            });
            if let Some(error) = bad {
                return Err(error);
            }
            let kept = [block.free, block.movable, block.fixed].map(u32::from);
            if kept != sums {
                return Err(format!(
                    "block {b}: (free, movable, fixed) counted {sums:?}, kept {kept:?}"
                ));
            }
        }
        Ok(census)
    }

    fn add_to(
        &self,
        census: &mut Census,
        sums: &mut [u32; 3],
        pfn: u32,
        state: State,
        inside: u32,
    ) {
        let pages = 1u64 << state.order();
        let region = self.region(pfn);
        census.pages += pages;
        match state.kind() {
            Kind::Free => {
                census.free[region] += pages;
                sums[0] += inside;
            }
            Kind::Pcp => census.pcp[region] += pages,
            Kind::Isolated => census.isolated += pages,
            Kind::Used => {
                census.used_heads += 1;
                census.lru += u64::from(state.on_lru());
                sums[if is_movable(state.class()) { 1 } else { 2 }] += inside;
            }
            Kind::Fixed => sums[2] += inside,
            Kind::Interior => {}
        }
    }

    fn head_error(&self, b: u32, pfn: u32, state: State) -> Option<String> {
        let order = state.order();
        if state.kind() == Kind::Interior {
            return Some(format!("frame {pfn:#x} is in no block"));
        }
        if pfn & ((1 << order) - 1) != 0 {
            return Some(format!(
                "frame {pfn:#x} is not aligned to its order {order}"
            ));
        }
        let free = state.kind() == Kind::Free;
        if free && order < 10 {
            let buddy = pfn ^ 1 << order;
            let whole = buddy < self.frames.len() && self.region(buddy) == self.region(pfn);
            if whole && self.frames.get(buddy).is_free_of(order) {
                return Some(format!("free buddies {pfn:#x}, {buddy:#x} are not merged"));
            }
        }
        let block = self.blocks[b as usize];
        (free && state.mt() != block.mt).then(|| {
            format!(
                "frame {pfn:#x} is on the {:?} list, its block is {:?}",
                state.mt(),
                block.mt
            )
        })
    }

    /// Every list holds what its frames say, once.
    fn check_lists(&self, census: &Census) -> Result<(), String> {
        let mut listed = [0u64; 2];
        for region in [LOW, HIGH] {
            for (order, mt, list) in self.areas[region].all_lists() {
                let mut count = 0;
                for (place, pfn) in list.iter() {
                    let state = self.frames.get(pfn);
                    let right = state.is_free_of(order) && state.mt() == mt;
                    if !right || self.region(pfn) != region || state.place() != place {
                        return Err(format!("frame {pfn:#x} is on a wrong list"));
                    }
                    listed[region] += 1 << order;
                    count += 1;
                }
                if count != list.len() {
                    return Err(format!("a list counts {} and has {count}", list.len()));
                }
            }
        }
        if listed != census.free {
            return Err(format!(
                "lists hold {listed:?}, frames say {:?}",
                census.free
            ));
        }
        Ok(())
    }

    /// Every used block has one owner: a pool entry or an LRU list.
    fn check_owners(&self, census: &Census) -> Result<(), String> {
        let mut owned = 0;
        for (pool, pages) in self.pools.iter().enumerate() {
            for (index, &pfn) in pages.iter().enumerate() {
                let state = self.frames.get(pfn);
                let back = state.pool_entry() == (pool as u32, index as u32);
                if state.kind() != Kind::Used || state.on_lru() || !back {
                    return Err(format!("frame {pfn:#x} is not what pool {pool} thinks"));
                }
            }
            owned += pages.len() as u64;
        }
        let mut cached = 0;
        for (active, list) in self.lru.iter().enumerate() {
            let mut count = 0u32;
            for (place, pfn) in list.iter() {
                let state = self.frames.get(pfn);
                let right = state.on_lru() && state.active() == (active == 1);
                if !right || state.place() != place {
                    return Err(format!("frame {pfn:#x} is on a wrong LRU list"));
                }
                count += 1;
            }
            if count != list.len() {
                return Err(format!("LRU list {active} counts wrong"));
            }
            cached += u64::from(count);
        }
        if cached != census.lru || owned + cached != census.used_heads {
            return Err(format!(
                "{owned} blocks in pools and {cached} on LRU lists, {} used",
                census.used_heads
            ));
        }
        Ok(())
    }
}
