// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths made by hand, each for one rule: what is kept of them, what they change, what it costs.

use crate::guest::Reads;
use ample_translate::*;

/// A way to a page, made by hand: `frames` are those of the nodes, root first, then the page's.
fn way(va: u64, frames: &[u64], upper: u64, leaf: u64) -> Vec<(u64, u64)> {
    let shift = |level: usize| 3 + 9 * level as u32;
    (0..frames.len() - 1)
        .map(|index| {
            let level = 4 - index;
            let at = frames[index] << 12 | (va >> shift(level) & 511) << 3;
            let last = index + 2 == frames.len();
            let flags = if last { leaf } else { upper };
            (at, frames[index + 1] << 12 | flags | bits::PRESENT)
        })
        .collect()
}

const RW: u64 = bits::WRITE | bits::USER;
const VA: u64 = 0x40_0020_3000;

#[test]
fn the_leaf_has_the_rights_of_the_whole_path() {
    let mut space = Space::mirrored(1, 4, 7);
    let rights = bits::WRITE | bits::USER | bits::NO_EXECUTE;
    for bits_off in 0..4u64 {
        for level in 0..4 {
            let mut path = way(VA, &[7, 8, 9, 10, 100], RW, RW);
            path[level].1 &= !(bits_off << 1);
            path[level].1 |= if bits_off == 0 { bits::NO_EXECUTE } else { 0 };
            space.mirror(VA, &path).unwrap();
            let off = RW & !(bits_off << 1);
            let expected = off | if bits_off == 0 { bits::NO_EXECUTE } else { 0 };
            assert_eq!(space.lookup(VA).unwrap().flags & rights, expected);
        }
    }
}

#[test]
fn software_bits_and_the_pat_bit_stay_outside() {
    let mut space = Space::mirrored(1, 4, 7);
    let all = !bits::FRAME & !bits::LARGE;
    let base = 5 << 9;
    for (frames, level, pat) in [
        (&[7, 8, 9, 10, base | 3][..], 1, bits::LARGE),
        (&[7, 8, 9, base][..], 2, bits::LARGE | 1 << 12),
        (&[7, 8, 1 << 18][..], 3, bits::LARGE | 1 << 12),
    ] {
        let path = way(VA, frames, RW, all | pat);
        space.mirror(VA, &path).unwrap();
        let leaf = space.table.find(VA).unwrap();
        assert_eq!(leaf.size.level(), level);
        assert_eq!(leaf.entry & !bits::HARDWARE, 0);
        let frame = (leaf.entry & bits::FRAME) >> 12;
        assert_eq!(Some(&frame), frames.last());
        space.assert_sound();
    }
}

#[test]
fn each_change_leaves_the_invalidation_it_needs() {
    let mut space = Space::mirrored(1, 4, 7);
    let page = |size| Inval::Page {
        va: VA & !(PageSize::bytes(size) - 1),
        size,
    };
    let mut step = |frames: &[u64], upper, leaf, found, bumps: bool, left: &[Inval]| {
        let before = space.generation;
        let path = way(VA, frames, upper, leaf);
        assert_eq!(space.mirror(VA, &path), Ok(found));
        assert_eq!(space.generation > before, bumps, "{found:?}");
        assert_eq!(std::mem::take(&mut space.pending), left, "{found:?}");
        space.assert_sound();
    };
    let small = &[7, 8, 9, 10, 100];
    let accessed = RW | bits::ACCESSED | bits::DIRTY;
    let (k4, m2, g1) = (page(PageSize::K4), page(PageSize::M2), page(PageSize::G1));
    let rights = Mirrored::Bits { rights: true };
    let state = Mirrored::Bits { rights: false };
    let large = RW | bits::LARGE;
    step(small, RW, RW, Mirrored::New, true, &[]);
    step(small, RW, RW, Mirrored::Same, false, &[]);
    step(small, RW, accessed, state, false, &[]);
    step(small, RW | bits::ACCESSED, RW, state, false, &[]);
    step(small, bits::USER, RW, rights, true, &[k4]);
    step(small, RW, RW, rights, true, &[k4]);
    step(small, RW, RW | bits::GLOBAL, rights, true, &[k4]);
    step(&[7, 8, 9, 10, 101], RW, RW, Mirrored::Moved, true, &[k4]);
    step(&[7, 8, 9, 11, 101], RW, RW, Mirrored::Moved, true, &[k4]);
    step(&[7, 8, 9, 512], RW, large, Mirrored::Moved, true, &[k4]);
    step(&[7, 8, 9, 1024], RW, large, Mirrored::Moved, true, &[m2]);
    step(&[7, 8, 1 << 18], RW, large, Mirrored::Moved, true, &[m2]);
    step(small, RW, RW, Mirrored::Moved, true, &[g1]);
    let generation = space.generation;
    assert!(space.forget(VA) && !space.forget(VA));
    let forgotten = Inval::Page {
        va: VA,
        size: PageSize::K4,
    };
    assert_eq!(space.pending, [forgotten]);
    assert_eq!(space.generation, generation + 1);
    assert_eq!(space.table.node_count(), 1);
    space.assert_sound();
}

#[test]
fn a_line_brings_the_neighbours() {
    let mut space = Space::mirrored(1, 4, 7);
    let leaf = |frame: u64| frame << 12 | RW | bits::PRESENT | 1 << 9;
    let line = [100, 101, 102, 103, 104, 105, 106, 107].map(leaf);
    assert!(space.mirror_line(VA, &line).is_err());
    let path = way(VA, &[7, 8, 9, 10, 103], bits::USER, RW);
    space.mirror(VA, &path).unwrap();
    assert_eq!(space.mirror_line(VA, &line), Ok(true));
    assert_eq!(space.mirror_line(VA, &line), Ok(false));
    assert!(space.pending.is_empty());
    let neighbour = (VA & !0x7fff) + (6 << 12);
    let found = space.lookup(neighbour + 5).unwrap();
    assert_eq!((found.pa, found.flags & RW), ((106 << 12) + 5, bits::USER));
    let mut other = line;
    (other[6], other[1]) = (0, leaf(1));
    assert_eq!(space.mirror_line(VA, &other), Ok(true));
    let size = PageSize::K4;
    let gone = [1, 6].map(|at| Inval::Page {
        va: (VA & !0x7fff) + (at << 12),
        size,
    });
    assert_eq!(space.pending, gone);
    assert_eq!(space.lookup(neighbour), None);
    space.assert_sound();
}

/// More roots than identifiers: those loaded least recently lose their tables, never their place
/// in a translation.
#[test]
fn roots_beyond_the_identifiers_reuse_them() {
    for name in ["paging", "rmm"] {
        let mut config = presets::by_name("skylake").unwrap();
        config.pcid = true;
        let scheme = schemes::by_name(name).unwrap();
        let mut engine = Engine::mirrored(&config, scheme, 1).unwrap();
        let mut read = |root: u64, mirror: bool| {
            engine.load_root(root);
            let path = way(VA, &[root, 8, 9, 10, 2 * root], RW, RW);
            if mirror {
                engine.mirror(VA, &path).unwrap();
            }
            let answer = engine.translate(VA, Intent::Read, 0, &mut NoMemory);
            assert!(engine.spaces.len() <= 4095);
            answer.ok().map(|t| t.pa)
        };
        for root in 1..5000 {
            assert_eq!(read(root, true), Some(((2 * root) << 12) + (VA & 0xfff)));
        }
        assert_eq!(read(4000, false), Some((8000 << 12) + (VA & 0xfff)));
        assert_eq!(read(1, false), None);
    }
}

const KERNEL: u64 = 0xffff_8880_0000_5000;

/// Addresses read for one access, after its path has been told.
fn reads(engine: &mut Engine, va: u64, frames: &[u64], leaf: u64) -> Vec<u64> {
    let path = way(va, frames, RW, leaf);
    engine.mirror(va, &path).unwrap();
    let mut port = Reads::default();
    let answer = engine.translate(va, Intent::Read, 0, &mut port).unwrap();
    assert_eq!(answer.pa >> 12, *frames.last().unwrap());
    port.0
}

/// What a walk reads shows what the page-walk caches know: one entry where they know the table of
/// small pages, all four where they have been emptied.
#[test]
fn every_flush_empties_the_walk_caches_and_global_pages_outlive_a_load() {
    for pcid in [false, true] {
        let mut config = presets::by_name("skylake").unwrap();
        config.pcid = pcid;
        let scheme = schemes::by_name("paging").unwrap();
        let mut engine = Engine::mirrored(&config, scheme, 1).unwrap();
        engine.load_root(7);
        let global = RW | bits::GLOBAL;
        let kernel = [20, 21, 22, 200];
        let at = |root: u64| [&[root][..], &kernel[..]].concat();
        let count = |engine: &mut Engine, page: u64| {
            let frames = [7, 8, 9, 10, 100 + page];
            reads(engine, VA + (page << 12), &frames, RW).len()
        };
        assert_eq!(reads(&mut engine, KERNEL, &at(7), global).len(), 4);
        assert_eq!((count(&mut engine, 0), count(&mut engine, 1)), (4, 1));
        engine.invalidate_page(VA);
        assert_eq!((count(&mut engine, 2), count(&mut engine, 0)), (4, 1));
        engine.invalidate_page(KERNEL);
        assert_eq!((count(&mut engine, 3), count(&mut engine, 4)), (4, 1));
        let gone = engine.translate(KERNEL, Intent::Read, 0, &mut NoMemory);
        assert_eq!(gone.unwrap_err().fault, Fault::NotPresent);
        assert_eq!(reads(&mut engine, KERNEL, &at(7), global).len(), 4);
        engine.load_root(7);
        assert_eq!((count(&mut engine, 4), count(&mut engine, 5)), (4, 1));
        engine.load_root(70);
        // Known already, whatever root it came by; its neighbour is found through the new root.
        let mut port = Reads::default();
        let known = engine.translate(KERNEL, Intent::Read, 0, &mut port);
        assert_eq!((known.map(|t| t.pa >> 12), port.0.len()), (Ok(200), 0));
        let mut next = at(70);
        next[4] = 201;
        let places = reads(&mut engine, KERNEL + 0x1000, &next, global);
        assert_eq!((places.len(), places[0] >> 12), (4, 70));
        engine.load_root(7);
        let kept = count(&mut engine, 6);
        assert_eq!(kept, if pcid { 1 } else { 4 });
        engine.flush_all();
        assert_eq!((count(&mut engine, 7), count(&mut engine, 8)), (4, 1));
        assert_eq!(reads(&mut engine, KERNEL, &at(7), global).len(), 4);
        assert_eq!(engine.mmu.stats.kernel_fills_not_global, 0);
    }
}

/// Ranges of the kernel half are as global as their pages: a load of a root takes those that are
/// not, and leaves the others to serve the next root.
#[test]
fn a_schemes_own_entries_go_with_the_pages_they_hold() {
    for (leaf, walks) in [(RW, 2), (RW | bits::GLOBAL, 1)] {
        let config = MmuConfig {
            l1d: vec![TlbArray::new(&[PageSize::K4], Geometry::full(1))],
            l2: vec![],
            ..presets::by_name("skylake").unwrap()
        };
        let scheme = schemes::by_name("rmm").unwrap();
        let mut engine = Engine::mirrored(&config, scheme, 1).unwrap();
        for root in [7, 70] {
            engine.load_root(root);
            for page in [0, 1] {
                let path = way(
                    KERNEL + (page << 12),
                    &[root, 8, 9, 10, 100 + page],
                    RW,
                    leaf,
                );
                engine.mirror(KERNEL + (page << 12), &path).unwrap();
            }
            for page in [0, 1, 0] {
                let va = KERNEL + (page << 12);
                let answer = engine.translate(va, Intent::Read, 0, &mut NoMemory);
                assert_eq!(answer.map(|t| t.pa), Ok((100 + page) << 12));
            }
        }
        assert_eq!(engine.mmu.stats.walks_data, walks);
        let fills = engine.mmu.stats.kernel_fills_not_global;
        assert_eq!(fills, if walks == 2 { 6 } else { 0 });
    }
}

/// Ranges built for the old owner of an identifier are not those of the new one, though both have
/// seen as many changes.
#[test]
fn a_reused_identifier_brings_no_ranges_along() {
    let config = MmuConfig {
        pcid: true,
        ..presets::by_name("skylake").unwrap()
    };
    let scheme = schemes::by_name("rmm").unwrap();
    let mut engine = Engine::mirrored(&config, scheme, 1).unwrap();
    let read = |engine: &mut Engine, root: u64, frames: [u64; 2]| {
        engine.load_root(root);
        let pages = [0, 1].map(|page| VA + (page << 12));
        for (va, frame) in pages.into_iter().zip(frames) {
            let path = way(va, &[root, 8, 9, 10, frame], RW, RW);
            engine.mirror(va, &path).unwrap();
        }
        for (va, frame) in pages.into_iter().zip(frames) {
            let answer = engine.translate(va, Intent::Read, 0, &mut NoMemory);
            assert_eq!(answer.map(|t| t.pa >> 12), Ok(frame));
        }
    };
    read(&mut engine, 1, [100, 101]);
    (2..=4094).for_each(|root| engine.load_root(root));
    read(&mut engine, 5000, [300, 200]);
    assert_eq!((engine.spaces.len(), engine.space().asid), (4095, 1));
}
