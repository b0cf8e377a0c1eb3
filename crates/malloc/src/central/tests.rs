// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lists of a class against a set: whatever way objects go back, each is handed out to one.

use super::*;
use std::collections::BTreeSet;

/// Random numbers of a linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % end
    }
}

/// Objects go back in random order, which takes neighbours from different spans, in batches of all
/// lengths, through the transfer cache, past it, and out of it again.
#[test]
fn every_object_is_handed_out_once_whatever_way_it_goes_back() {
    let mut random = Random(1);
    for class in [1, 6, 17, 33, 47, 58] {
        let (mut live, mut held) = (Vec::new(), BTreeSet::new());
        for _ in 0..2000 {
            let count = 1 + random.below(MAX_BATCH);
            match random.below(5) {
                0 | 1 => {
                    let mut out = [0; MAX_BATCH];
                    let taken = take(class, 0, &mut out[..count]);
                    for &object in &out[..taken] {
                        assert!(held.insert(object), "{object:#x} is live");
                        live.push(object);
                    }
                }
                2 | 3 => {
                    let count = count.min(live.len());
                    let mut back = Vec::new();
                    for _ in 0..count {
                        back.push(live.swap_remove(random.below(live.len())));
                    }
                    assert!(back.iter().all(|object| held.remove(object)));
                    if random.below(2) == 0 {
                        put(class, &back);
                    } else {
                        put_away(class, &back);
                    }
                }
                _ => drain_transfer(class, random.below(2) == 0),
            }
        }
        put_away(class, &live);
    }
}

/// What nobody waits for must not keep spans in use.
#[test]
fn objects_that_are_put_away_do_not_stay_in_the_transfer_cache() {
    // No other test uses objects of this size.
    let class = 77;
    let mut out = [0; MAX_BATCH];
    let count = take(class, 0, &mut out);
    assert!(sizes(class).spans > 0);
    put_away(class, &out[..count]);
    let sizes = sizes(class);
    assert_eq!((sizes.transfer_objects, sizes.spans), (0, 0));
}
