// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the classes of a slab share its memory.

use super::*;
use crate::cache;

fn local() -> Local {
    let slab = CpuSlab::create(0, 0).expect("memory");
    Local { slab, offset: 0 }
}

impl Local {
    /// An object, from the slab if that has one.
    fn take(self, class: usize) -> usize {
        match self.pop(class) {
            0 => self.pop_slow(class),
            object => object,
        }
    }

    fn give(self, class: usize, object: usize) {
        if !self.push(class, object) {
            self.push_slow(class, object);
        }
    }
}

fn capacity(local: Local, class: usize) -> usize {
    let header = local.slab.header(class);
    (header.end - header.begin).into()
}

/// A slab once grew to its limit by what another CPU had allocated, and no request ever came.
#[test]
fn a_slab_fills_only_for_those_who_come_back() {
    let class = 40;
    let batch = usize::from(TABLE[class].batch);
    let (maker, user) = (local(), local());
    let made: Vec<usize> = (0..6 * batch).map(|_| maker.pop_slow(class)).collect();
    made.iter()
        .for_each(|&object| user.push_slow(class, object));
    assert!(capacity(maker, class) <= batch + 1);
    assert!(capacity(user, class) <= batch + 1);
    // One that allocates as much as it frees holds it all from the second time on.
    let mut own: Vec<usize> = (0..6 * batch).map(|_| user.pop_slow(class)).collect();
    for _ in 0..2 {
        own.drain(..)
            .for_each(|object| user.push_slow(class, object));
        own.extend((0..6 * batch).map(|_| user.pop_slow(class)));
    }
    assert!(
        capacity(user, class) >= 4 * batch,
        "{}",
        capacity(user, class)
    );
    own.drain(..)
        .for_each(|object| user.push_slow(class, object));
}

/// What other classes held once kept its memory until the whole slab was full.
#[test]
fn a_class_out_of_use_is_emptied() {
    let before: Vec<usize> = (20..24).collect();
    let after: Vec<usize> = (3..20).chain(30..36).collect();
    let user = local();
    let use_all = |classes: &[usize]| {
        for _ in 0..20 {
            for &class in classes {
                let batch = usize::from(TABLE[class].batch);
                let own: Vec<usize> = (0..3 * batch).map(|_| user.take(class)).collect();
                own.into_iter().for_each(|object| user.give(class, object));
            }
        }
    };
    use_all(&before);
    assert!(before.iter().all(|&class| capacity(user, class) > 0));
    use_all(&after);
    assert!(before.iter().all(|&class| capacity(user, class) == 0));
    assert!(after.iter().any(|&class| capacity(user, class) > 0));
}

/// What a class had in its transfer cache stayed there, each object with a span around it.
#[test]
fn a_class_out_of_use_leaves_nothing_on_the_way_to_others() {
    // No other test uses objects of these classes.
    let before: Vec<usize> = (54..57).collect();
    let after: Vec<usize> = (62..70).collect();
    let user = local();
    let use_all = |classes: &[usize]| {
        for _ in 0..20 {
            for &class in classes {
                let batch = usize::from(TABLE[class].batch);
                let own: Vec<usize> = (0..12 * batch).map(|_| user.take(class)).collect();
                own.into_iter().for_each(|object| user.give(class, object));
            }
        }
    };
    use_all(&before);
    let on_the_way = |&class: &usize| central::sizes(class).transfer_objects;
    assert!(before.iter().map(on_the_way).sum::<usize>() > 0);
    use_all(&after);
    assert_eq!(before.iter().map(on_the_way).sum::<usize>(), 0);
    assert!(before.iter().all(|&class| central::sizes(class).spans == 0));
}

/// A class that needed room once took all that others had left, which then had none.
#[test]
fn classes_in_use_share_the_slab() {
    let user = local();
    let mut seed = 1u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    let mut objects = vec![(0, 0); 8192];
    for _ in 0..500_000 {
        let (at, class) = (random(8192), 1 + random(47));
        let (old_class, old) = core::mem::replace(&mut objects[at], (class, user.take(class)));
        if old != 0 {
            user.give(old_class, old);
        }
    }
    let misses = user.slab.misses();
    assert!(misses < 9_000, "{misses}");
    for (class, object) in objects.into_iter().filter(|&(class, _)| class != 0) {
        user.give(class, object);
    }
}

/// Where there are no restartable sequences, slabs that nobody used any more kept what they had.
#[test]
fn a_shared_slab_out_of_use_is_emptied() {
    // No other test takes objects of this class from shared slabs.
    let class = 45;
    let made: Vec<usize> = (0..8).map(|_| pop_slow(class)).collect();
    made.iter().for_each(|&object| push_slow(class, object));
    assert!(cache::objects_of(class) > 0);
    cache::drain(false);
    assert!(cache::objects_of(class) > 0, "it was in use just before");
    cache::drain(false);
    assert_eq!(cache::objects_of(class), 0);
}

/// The counts of misses are not exact: another thread may put an older one back.
#[test]
fn lost_counts_of_misses_do_no_harm() {
    let user = local();
    user.slab.swept_at.store(7, Ordering::Relaxed);
    user.sweep(1);
    assert_eq!(user.slab.swept_at.load(Ordering::Relaxed), 7);
}
