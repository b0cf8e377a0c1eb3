// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies in transfer caches and is not needed there goes back to its spans.

use super::{CENTRAL, TRANSFER_SLOTS, put_in_spans, rows};

/// Moves objects that no CPU needed since the last call from the transfer cache to their spans; all
/// objects if `all`.
pub fn drain_transfer(class: usize, all: bool) {
    rows().for_each(|row| drain_transfer_of(class, row, all));
}

fn drain_transfer_of(class: usize, row: usize, all: bool) {
    let central = &CENTRAL[row][class];
    let mut objects = [0; TRANSFER_SLOTS];
    let count = {
        let mut transfer = central.transfer.lock();
        let count = if all { transfer.count } else { transfer.low } as usize;
        // The lowest objects have waited longest.
        objects[..count].copy_from_slice(&transfer.objects[..count]);
        let total = transfer.count as usize;
        transfer.objects.copy_within(count..total, 0);
        transfer.count -= count as u16;
        transfer.low = transfer.count;
        count
    };
    if count > 0 {
        put_in_spans(class, row, &objects[..count]);
    }
}
