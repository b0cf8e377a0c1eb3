// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use ample_pfn::{Layout, Pfn};
use std::collections::HashSet;

fn start(classes: &[PageClass]) -> Start {
    let layout = Layout::single(Pfn(0), classes.len() as u64);
    Start::new(layout, classes.to_vec()).expect("a start")
}

fn alloc(block: u32, order: u8, class: PageClass) -> Op {
    Op::Alloc {
        block,
        cpu: 0,
        order,
        class,
        atomic: false,
        light: false,
    }
}

fn free(block: u32) -> Op {
    Op::Free { block, cpu: 0 }
}

fn tick(elapsed_ns: u64) -> Op {
    Op::Tick { elapsed_ns }
}

/// Steps that a server could take: blocks are used while they live. Pages in use at the end by
/// class, but those of the snapshot.
fn pages_left(ops: &[Op], snapshot: u32) -> HashMap<PageClass, u64> {
    let mut live: HashMap<u32, (PageClass, u8)> = HashMap::new();
    let mut before: HashSet<u32> = (0..snapshot).collect();
    let (mut pieces, mut class_of_pieces) = (0, PageClass::Slab);
    for op in ops {
        match *op {
            Op::Alloc {
                block,
                order,
                class,
                ..
            } => {
                assert_eq!(live.insert(block, (class, order)), None, "{block}");
            }
            Op::Free { block, .. } => {
                let known = live.remove(&block).is_some() || before.remove(&block);
                assert!(known, "{block} is not live");
            }
            Op::Split { block } => {
                let (class, order) = live.insert(block, (class_of_pieces, 0)).expect("live");
                live.insert(block, (class, 0));
                (pieces, class_of_pieces) = ((1 << order) - 1, class);
            }
            Op::Piece { block } => {
                assert!(pieces > 0);
                pieces -= 1;
                assert_eq!(live.insert(block, (class_of_pieces, 0)), None);
            }
            Op::Tick { .. } | Op::Sample => {}
        }
    }
    let mut left = HashMap::new();
    for (class, order) in live.into_values() {
        *left.entry(class).or_insert(0) += 1 << order;
    }
    left
}

/// Pages 0 to 2 are of the snapshot. A slab block of order 3 that is split and freed in part, a
/// network block that lives 50 ms, reclaimable slab, and memory that moves.
fn recording() -> Vec<Op> {
    let mut ops = vec![
        alloc(3, 3, PageClass::Slab),
        alloc(4, 2, PageClass::Network),
        tick(50_000_000),
        free(4),
        alloc(4, 0, PageClass::SlabReclaimable),
        alloc(5, 9, PageClass::Anon),
        tick(2_000_000_000),
        Op::Split { block: 3 },
    ];
    ops.extend((6..13).map(|block| Op::Piece { block }));
    ops.extend([free(3), free(8), free(12), free(1), free(5)]);
    ops
}

const PAGES: [PageClass; 3] = [PageClass::Slab, PageClass::PageTable, PageClass::Slab];

fn changed(change: &Change) -> Vec<Op> {
    change.apply(recording(), &start(&PAGES), 13)
}

#[test]
fn nothing_changes_unless_it_shall() {
    assert_eq!(changed(&Change::AsRecorded), recording());
    let everything_stays = Change::Lasting { least_ns: 0 };
    let left = pages_left(&changed(&everything_stays), 3);
    assert_eq!(left, pages_left(&recording(), 3));
}

#[test]
fn single_pages_stand_for_a_block_and_for_its_parts() {
    let ops = changed(&Change::SinglePages);
    let is_single = |op: &Op| match op {
        Op::Alloc { order, class, .. } => *order == 0 || is_movable(*class),
        Op::Split { .. } | Op::Piece { .. } => false,
        _ => true,
    };
    assert!(ops.iter().all(is_single), "{ops:?}");
    assert_eq!(pages_left(&ops, 3), pages_left(&recording(), 3));
}

#[test]
fn reclaimable_slab_becomes_other_slab() {
    let left = pages_left(&changed(&Change::OneType), 3);
    assert_eq!(left, HashMap::from([(PageClass::Slab, 6)]));
}

#[test]
fn short_lives_and_classes_are_left_out() {
    let asked = |ops: &[Op], of: PageClass| {
        let mut allocs = ops.iter();
        allocs.any(|op| matches!(op, Op::Alloc { class, .. } if *class == of))
    };
    let brief = changed(&Change::Lasting {
        least_ns: 1_000_000_000,
    });
    assert!(!asked(&brief, PageClass::Network) && asked(&brief, PageClass::Slab));
    assert_eq!(pages_left(&brief, 3), pages_left(&recording(), 3));

    let ops = changed(&Change::Without(&[PageClass::Slab]));
    assert!(!asked(&ops, PageClass::Slab) && asked(&ops, PageClass::Network));
    // The page of the snapshot is freed all the same.
    assert!(ops.contains(&free(1)));
    let left = pages_left(&ops, 3);
    assert_eq!(left, HashMap::from([(PageClass::SlabReclaimable, 1)]));
}

#[test]
fn any_block_of_a_kind_dies_in_place_of_the_recorded_one() {
    let mut ops: Vec<Op> = (3..103).map(|n| alloc(n, 1, PageClass::Network)).collect();
    ops.extend((3..53).map(free));
    ops.extend((3..53).map(|n| alloc(n, 1, PageClass::Network)));
    ops.extend((3..103).map(free));
    let freed = |seed| {
        let ops = Change::AnyAge { seed }.apply(ops.clone(), &start(&PAGES), 103);
        assert!(pages_left(&ops, 3).is_empty());
        let mut freed = Vec::new();
        let frees = ops.into_iter().filter_map(|op| match op {
            Op::Free { block, .. } => Some(block),
            _ => None,
        });
        freed.extend(frees.take(50));
        freed
    };
    let (one, again, two) = (freed(1), freed(1), freed(2));
    assert_eq!(one, again);
    assert_ne!(one, two);
    let late = one.iter().filter(|&&block| block >= 103 + 50).count();
    assert!((15..35).contains(&late), "{late} of 50");
    // Memory that moves keeps its order; pages of the snapshot may go in place of slab pages.
    for seed in 0..20 {
        let left = pages_left(&changed(&Change::AnyAge { seed }), 3);
        assert!(!left.contains_key(&PageClass::Anon));
        assert!((5..=7).contains(&left[&PageClass::Slab]), "{left:?}");
    }
}
