// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a traced allocation was for, guessed from its flags and its task.
//!
//! A page event carries no owner. These rules read the habits of the callers in Linux 6.12 from
//! the flags; the first that holds decides. Whether a page is movable never is a guess: that is
//! the migratetype of the event. The table with the reasons is in `docs/replay.md`.

use ample_pfn::{MigrateType, PageClass};
use ample_trace::pages::{Gfp, Task, Traced};

/// Order of a kernel stack of 16 KB.
const STACK_ORDER: u8 = 2;
/// Order of the fragments that sockets and drivers carve buffers from (32 KB).
const FRAGMENT_ORDER: u8 = 3;
/// Order of a 2 MB page.
const HUGE_ORDER: u8 = 9;
/// Migratetypes as the events print them (`enum migratetype`).
const MOVABLE: u8 = MigrateType::Movable as u8;
const RECLAIMABLE: u8 = MigrateType::Reclaimable as u8;

/// The class of a traced allocation.
#[inline]
pub fn classify(traced: &Traced) -> PageClass {
    match traced.migratetype {
        MOVABLE => movable(traced),
        RECLAIMABLE => PageClass::SlabReclaimable,
        _ => kernel(traced),
    }
}

fn movable(traced: &Traced) -> PageClass {
    let gfp = traced.gfp;
    if gfp.has(Gfp::HIGHMEM) && traced.order >= HUGE_ORDER && gfp.has(Gfp::NOMEMALLOC) {
        // GFP_TRANSHUGE: a fault or khugepaged.
        return PageClass::Anon;
    }
    if gfp.has(Gfp::HIGHMEM.and(Gfp::ZERO)) {
        return PageClass::Anon;
    }
    // Writers reserve dirty memory, readahead gives up early, metadata has no HIGHMEM.
    let file = gfp.has(Gfp::WRITE) || gfp.has(Gfp::NORETRY) || !gfp.has(Gfp::HIGHMEM);
    if file {
        PageClass::File
    } else {
        PageClass::LruOther
    }
}

fn kernel(traced: &Traced) -> PageClass {
    let (gfp, order) = (traced.gfp, traced.order);
    if gfp.has(Gfp::DMA) || gfp.has(Gfp::DMA32) {
        return PageClass::Dma;
    }
    if gfp.has(Gfp::ACCOUNT.and(Gfp::ZERO)) && !gfp.has(Gfp::HIGHMEM) {
        if order == 0 {
            return PageClass::PageTable;
        }
        if order == STACK_ORDER && !gfp.has(Gfp::COMP) {
            return PageClass::KernelStack;
        }
    }
    if network(traced) {
        return PageClass::Network;
    }
    if gfp.has(Gfp::COMP.and(Gfp::NORETRY)) {
        return PageClass::Slab;
    }
    if gfp.has(Gfp::HARDWALL) && !gfp.has(Gfp::HIGHMEM) {
        return PageClass::FsMetadata;
    }
    let no_fs = gfp.has(Gfp::DIRECT_RECLAIM.and(Gfp::IO)) && !gfp.has(Gfp::FS);
    if traced.task == Task::FileSystem || no_fs {
        return PageClass::FsBuffer;
    }
    if order > 0 && gfp.has(Gfp::COMP) {
        return PageClass::KernelCompound;
    }
    PageClass::KernelOther
}

/// Socket fragments (`skb_page_frag_refill`, `page_frag_cache`), receive rings (`page_pool`,
/// `dev_alloc_pages`).
fn network(traced: &Traced) -> bool {
    let gfp = traced.gfp;
    if gfp.may_reclaim() || !gfp.has(Gfp::KSWAPD_RECLAIM) {
        return false;
    }
    if gfp.has(Gfp::MEMALLOC) {
        return true;
    }
    if gfp.has(Gfp::COMP.and(Gfp::NORETRY)) {
        // The slab allocator asks the same way, but at this order with neither flag.
        let fragment = gfp.has(Gfp::IO) || gfp.has(Gfp::NOMEMALLOC);
        return traced.order == FRAGMENT_ORDER && fragment;
    }
    gfp.has(Gfp::HIGH) || traced.task == Task::NetworkSoftirq
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(order: u8, migratetype: u8, gfp: &str, task: Task) -> PageClass {
        classify(&Traced {
            order,
            migratetype,
            gfp: Gfp::parse(gfp.as_bytes()),
            task,
        })
    }

    /// Order, migratetype, class and flags of each row of the table in `docs/replay.md`, the flags
    /// as real kernels printed them.
    const ROWS: &str = "\
0 1 anon GFP_HIGHUSER_MOVABLE|__GFP_ZERO|__GFP_COMP
9 1 anon GFP_TRANSHUGE_LIGHT|__GFP_NORETRY|__GFP_THISNODE
0 1 lru-other GFP_HIGHUSER_MOVABLE|__GFP_COMP
2 1 file GFP_HIGHUSER_MOVABLE|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP
0 1 file GFP_HIGHUSER_MOVABLE|__GFP_WRITE|__GFP_COMP
0 1 file GFP_NOFS|__GFP_NOFAIL|__GFP_COMP|__GFP_MOVABLE
0 2 slab-reclaimable GFP_KERNEL|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP|__GFP_RECLAIMABLE
0 0 page-table GFP_KERNEL_ACCOUNT|__GFP_COMP|__GFP_ZERO
0 0 page-table GFP_KERNEL_ACCOUNT|__GFP_ZERO
2 0 kernel-stack GFP_KERNEL_ACCOUNT|__GFP_ZERO
0 0 slab GFP_KERNEL|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP
0 0 slab GFP_NOWAIT|__GFP_NORETRY|__GFP_COMP
3 0 slab GFP_ATOMIC|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP
2 0 slab __GFP_IO|__GFP_FS|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP|__GFP_NOMEMALLOC
3 0 network __GFP_IO|__GFP_FS|__GFP_KSWAPD_RECLAIM|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP
0 0 network GFP_ATOMIC|__GFP_NOWARN
0 0 network GFP_ATOMIC|__GFP_NOWARN|__GFP_COMP|__GFP_MEMALLOC
0 0 fs-metadata GFP_NOFS|__GFP_NOFAIL|__GFP_COMP|__GFP_HARDWALL
0 0 fs-buffer GFP_NOFS
0 0 dma GFP_KERNEL|GFP_DMA32
3 0 kernel-compound GFP_KERNEL|__GFP_COMP
0 0 kernel-other GFP_HIGHUSER|__GFP_ACCOUNT
0 0 kernel-other GFP_NOWAIT
";

    #[test]
    fn flags_of_known_callers_get_their_class() {
        for row in ROWS.lines() {
            let [order, migratetype, expected, gfp] = row.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{row}");
            };
            let number = |text: &str| text.parse().expect(row);
            let found = class(number(order), number(migratetype), gfp, Task::Other);
            assert_eq!(found.name(), expected, "{gfp}");
        }
    }

    #[test]
    fn the_task_decides_where_the_flags_do_not() {
        let of = |gfp, task| class(0, 0, gfp, task);
        assert_eq!(of("GFP_NOWAIT", Task::NetworkSoftirq), PageClass::Network);
        assert_eq!(of("GFP_KERNEL", Task::FileSystem), PageClass::FsBuffer);
    }

    /// The guess never contradicts the event's own migratetype.
    #[test]
    fn movability_follows_the_migratetype() {
        for bits in 0..1u32 << 12 {
            for migratetype in 0..6 {
                let traced = Traced {
                    order: (bits % 11) as u8,
                    migratetype,
                    gfp: Gfp(bits.wrapping_mul(0x9e37_79b9)),
                    task: Task::Other,
                };
                let movable = ample_pfn::is_movable(classify(&traced));
                assert_eq!(movable, migratetype == 1, "{traced:?}");
            }
        }
    }
}
