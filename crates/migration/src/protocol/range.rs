// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which ranges may move, whatever the table holds: one rule for the doorbell, the front end, the
//! timed machine and the hardware in `hw/rtl`.

use super::status::Status;
use super::types::{LineAddr, Mapping, Protocol};

impl Protocol {
    /// Whether the table has entries for pages of this many small pages: a power of two, of those
    /// in [`page_orders`](Self::page_orders).
    pub fn has_size(&self, pages: u32) -> bool {
        pages.is_power_of_two() && self.page_orders >> pages.trailing_zeros() & 1 == 1
    }

    /// Refuses a range with the least code that applies. `owned` says whether it belongs to the
    /// function that asks.
    ///
    /// # Errors
    /// `Unaligned`: an address is no multiple of the size that moves (of a small page, where the
    /// table has no such size), or the size none of a small page. `NotYours`: not `owned`.
    /// `OutsideMemory`: an end beyond memory. `BadRange`: a size that the table does not have, or
    /// source = destination.
    pub(super) fn check_range(
        &self,
        map: Mapping,
        owned: impl FnOnce() -> bool,
    ) -> Result<(), Status> {
        let has_size = self.has_size(map.lines / self.page_lines);
        let unit = if has_size { map.lines } else { self.page_lines };
        let crooked = |first: LineAddr| !first.0.is_multiple_of(u64::from(unit));
        if crooked(map.src) || crooked(map.dst) || !map.lines.is_multiple_of(self.page_lines) {
            return Err(Status::Unaligned);
        }
        if !owned() {
            return Err(Status::NotYours);
        }
        let within = |first: LineAddr| {
            let end = first.0.checked_add(u64::from(map.lines));
            end.is_some_and(|end| end <= self.memory_lines)
        };
        if !(within(map.src) && within(map.dst)) {
            return Err(Status::OutsideMemory);
        }
        // Multiples of one size are the same or apart.
        if !has_size || map.src == map.dst {
            return Err(Status::BadRange);
        }
        Ok(())
    }
}
