// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects are taken from spans and put back.

use super::*;
use crate::size_class::{Class, TABLE};
use crate::units::PAGE_SHIFT;
use proptest::prelude::*;
use std::collections::BTreeSet;

const PAGE: usize = 16;

/// A new span of a class, which only the caller knows.
fn span_of<'a>(class: usize) -> (u32, &'a mut Span, &'static Class) {
    let info = &TABLE[class];
    let id = create(PAGE, info.pages.into(), class as u8, info.objects.into()).unwrap();
    // SAFETY: nobody else knows the span.
    (id, unsafe { get(id) }, info)
}

/// Takes objects, at most so many at a time.
fn take_all(span: &mut Span, info: &Class, at_once: usize) -> Vec<usize> {
    let (mut taken, mut out) = (Vec::new(), vec![0; at_once]);
    loop {
        // SAFETY: the test alone knows the span.
        let count = unsafe { span.take(&mut out, info.bytes as usize) };
        if count == 0 {
            return taken;
        }
        taken.extend(&out[..count]);
    }
}

/// Puts objects back run by run, as far as they are the span's; how many. `Err` with the place of a
/// wrong one.
fn put(span: &mut Span, info: &Class, objects: &[usize]) -> Result<usize, usize> {
    let mut done = 0;
    while done < objects.len() {
        let offset = objects[done].wrapping_sub(PAGE << PAGE_SHIFT);
        let Some(index) = info.object_at(offset) else {
            break;
        };
        // SAFETY: the test alone knows the span.
        let run = unsafe { span.marks(info, index).put_run(info, &objects[done..]) };
        done += run.map_err(|at| done + at)?;
    }
    Ok(done)
}

#[test]
fn objects_are_taken_once_and_put_back_once() {
    for class in [1, 8, 9, 30, 60, 96] {
        let (id, span, info) = span_of(class);
        let taken = take_all(span, info, 7);
        let seen: BTreeSet<usize> = taken.iter().copied().collect();
        assert_eq!(seen.len(), taken.len());
        assert_eq!(seen.len(), usize::from(info.objects));
        assert_eq!(span.free, 0);
        // Runs end at objects of other spans, whatever the order.
        let mut objects: Vec<usize> = seen.into_iter().collect();
        objects.reverse();
        objects.push(1 << 40);
        for part in objects.chunks(5) {
            let own = part.iter().filter(|&&object| object != 1 << 40).count();
            assert_eq!(put(span, info, part), Ok(own));
            if own > 0 {
                let again = put(span, info, &part[own - 1..]);
                assert_eq!(again, Err(0), "a second free is noticed");
            }
        }
        assert_eq!(span.free, info.objects);
        destroy(&[id]);
    }
}

#[test]
fn an_object_twice_in_one_run_is_noticed() {
    let (id, span, info) = span_of(2);
    let out = take_all(span, info, 4);
    assert_eq!(put(span, info, &[out[0], out[1], out[0]]), Err(2));
    assert_eq!(put(span, info, &[out[2], out[3] + 16]), Err(1));
    destroy(&[id]);
}

#[test]
fn marks_hold_the_objects_of_their_half_and_nothing_else() {
    for class in [1, 2, 30, 64] {
        let (id, span, info) = span_of(class);
        let (base, bytes) = (PAGE << PAGE_SHIFT, info.bytes as usize);
        let count = usize::from(info.objects);
        for index in [0, count / 2, count - 1] {
            // SAFETY: the test alone knows the span.
            let marks = unsafe { span.marks(info, index) };
            let held = |object: usize| marks.hold(base + object * bytes);
            let half = |object: usize| object / INLINE == index / INLINE;
            assert!((0..count).all(|object| held(object) == half(object)));
            assert!(!held(count) && !marks.hold(base - 1));
        }
        assert!(!SpanMarks::NONE.hold(0));
        destroy(&[id]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    /// What is put back in whatever order comes out again, lowest first, and nothing else does.
    #[test]
    fn a_span_hands_out_what_is_put_back(
        class in prop::sample::select(vec![1usize, 2, 7, 30, 45]),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..300),
        at_once in 1..70usize,
    ) {
        let (id, span, info) = span_of(class);
        let mut live = take_all(span, info, 64);
        let mut freed = Vec::new();
        for index in order {
            if !live.is_empty() {
                freed.push(live.swap_remove(index.index(live.len())));
            }
        }
        prop_assert_eq!(put(span, info, &freed), Ok(freed.len()));
        prop_assert_eq!(usize::from(span.free), freed.len());
        freed.sort_unstable();
        prop_assert_eq!(take_all(span, info, at_once), freed);
        prop_assert_eq!(span.free, 0);
        destroy(&[id]);
    }
}
