// SPDX-License-Identifier: MIT OR Apache-2.0
//! The buddy free lists of one region.

use super::frames::Frames;
use super::list::List;
use super::state::{FrameKind, FrameState, requested_type};
use super::units::{MAX_ORDER, TYPES};
use ample_pfn::MigrateType;

const ORDERS: usize = MAX_ORDER as usize + 1;
/// Order of a band when placement is biased: 32 MB.
const BAND_SHIFT: u32 = 13;

/// The orders that each type has a block of, as bits. As many entries as two bits can name, so
/// that an index needs no check.
type Orders = [u16; 4];

#[inline]
fn row(mt: MigrateType) -> usize {
    debug_assert!((mt as usize) < TYPES, "{mt:?} has no lists");
    mt as usize & 3
}

/// Free lists by order and type. With more than one band, each band of addresses has its own
/// lists, so that the allocator can prefer the end away from the border.
///
/// Invariants: a bit of `mask` is set exactly where the list is not empty; `free_pages` is the
/// sum over the lists; each frame on a list has the state that says so.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    shift: u32,
    lists: Vec<List>,
    mask: Vec<Orders>,
    free_pages: u64,
}

impl Area {
    /// Empty lists for `frames` frames, by bands of 32 MB if `banded`.
    pub(crate) fn new(frames: u32, banded: bool) -> Area {
        let shift = if banded { BAND_SHIFT } else { 31 };
        let bands = (frames.saturating_sub(1) >> shift) as usize + 1;
        Area {
            shift,
            lists: vec![List::EMPTY; bands * ORDERS * TYPES],
            mask: vec![Orders::default(); bands],
            free_pages: 0,
        }
    }

    /// Pages on the lists.
    #[inline]
    pub(crate) fn free_pages(&self) -> u64 {
        self.free_pages
    }

    #[inline]
    fn list(band: usize, order: u32, mt: MigrateType) -> usize {
        (band * ORDERS + order as usize) * TYPES + row(mt)
    }

    #[inline]
    fn band(&self, pfn: u32) -> usize {
        (pfn >> self.shift) as usize
    }

    /// Puts a block that is in no list on its list, at the tail to be taken late.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        frames: &mut Frames,
        pfn: u32,
        order: u32,
        mt: MigrateType,
        tail: bool,
    ) {
        debug_assert_eq!(pfn & ((1 << order) - 1), 0, "not aligned to its order");
        let band = self.band(pfn);
        let list = &mut self.lists[Area::list(band, order, mt)];
        let place = if tail {
            list.push_tail(frames, pfn)
        } else {
            list.push_head(frames, pfn)
        };
        self.mask[band][row(mt)] |= 1 << order;
        self.free_pages += 1 << order;
        frames.set(pfn, FrameState::free(FrameKind::Free, order, mt).at(place));
    }

    /// Takes a free block off its list; its order. The frame is left inside nothing.
    #[inline]
    pub(crate) fn remove(&mut self, frames: &mut Frames, pfn: u32) -> u32 {
        let state = frames.get(pfn);
        debug_assert_eq!(state.kind(), FrameKind::Free, "frame {pfn:#x}");
        let (order, mt) = (state.order(), state.mt());
        let band = self.band(pfn);
        let list = &mut self.lists[Area::list(band, order, mt)];
        list.remove(state.place());
        if list.len() == 0 {
            self.mask[band][row(mt)] &= !(1 << order);
        }
        self.free_pages -= 1 << order;
        frames.set(pfn, FrameState::INTERIOR);
        order
    }

    /// The block that is taken next for `order`, and its own order: from the smallest list of
    /// `mt` that has one, in the first band, or in the last one if `near_border`.
    #[inline]
    pub(crate) fn next(
        &self,
        order: u32,
        mt: MigrateType,
        near_border: bool,
    ) -> Option<(u32, u32)> {
        let (band, found) = self.find(order, mt, near_border)?;
        let pfn = self.lists[Area::list(band, found, mt)].head()?;
        Some((pfn, found))
    }

    #[inline]
    fn find(&self, order: u32, mt: MigrateType, near_border: bool) -> Option<(usize, u32)> {
        let hit = |mask: &Orders| mask[row(mt)] >> order != 0;
        let band = if near_border {
            self.mask.iter().rposition(hit)?
        } else {
            self.mask.iter().position(hit)?
        };
        let rest = self.mask[band][row(mt)] >> order;
        Some((band, order + rest.trailing_zeros()))
    }

    /// Bit `o` set: a block of exactly order `o` is on a list of `mt`.
    #[inline]
    pub(crate) fn orders(&self, mt: MigrateType) -> u16 {
        self.mask
            .iter()
            .fold(0, |orders, mask| orders | mask[row(mt)])
    }

    /// The first block of exactly `order` on a list of `mt`.
    pub(crate) fn first(&self, order: u32, mt: MigrateType) -> Option<u32> {
        let held = |mask: &Orders| mask[row(mt)] >> order & 1 == 1;
        let band = self.mask.iter().position(held)?;
        self.lists[Area::list(band, order, mt)].head()
    }

    /// Free blocks of exactly `order`, of any type.
    pub(crate) fn count(&self, order: u32) -> u64 {
        let lists = self.lists.chunks(TYPES).skip(order as usize);
        let lists = lists.step_by(ORDERS).flatten();
        lists.map(|list| u64::from(list.len())).sum()
    }

    /// The blocks that are taken next, up to `count` of each order, gaps left in.
    #[inline]
    pub(crate) fn next_blocks(
        &self,
        order: u32,
        mt: MigrateType,
        count: u32,
    ) -> impl Iterator<Item = u32> + '_ {
        let found = self.find(order, mt, false);
        found.into_iter().flat_map(move |(band, _)| {
            let lists = (order..=MAX_ORDER).map(move |o| Area::list(band, o, mt));
            lists.flat_map(move |list| self.lists[list].near_head(count))
        })
    }

    /// Verifies the invariants; `owns` says which frames belong to the region.
    ///
    /// # Errors
    /// A sentence about the first violation.
    pub(crate) fn check(&self, frames: &Frames, owns: impl Fn(u32) -> bool) -> Result<(), String> {
        let mut pages = 0;
        for (index, list) in self.lists.iter().enumerate() {
            let mt = requested_type((index % TYPES) as u32);
            let order = (index / TYPES % ORDERS) as u32;
            let band = index / TYPES / ORDERS;
            let mut count = 0;
            for (place, pfn) in list.iter() {
                let state = frames.get(pfn);
                let right = state.is_free_of(order) && state.mt() == mt && state.place() == place;
                if !right || self.band(pfn) != band || !owns(pfn) {
                    return Err(format!("frame {pfn:#x} is on a wrong list"));
                }
                count += 1;
            }
            if count != list.len() {
                return Err(format!("a list counts {} and has {count}", list.len()));
            }
            if (self.mask[band][row(mt)] >> order & 1 == 1) != (count > 0) {
                return Err(format!("the mask is wrong for order {order}, {mt:?}"));
            }
            pages += u64::from(count) << order;
        }
        if pages != self.free_pages {
            return Err(format!("{pages} pages listed, {} counted", self.free_pages));
        }
        Ok(())
    }
}
