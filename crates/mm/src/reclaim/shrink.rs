// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reclaim of page cache and of slab pages (`mm/vmscan.c`, 6.12). Without swap, anonymous and
//! shared memory stay where they are until their owner frees them.

use super::swap;
use crate::kernel::SimKernel;
use crate::memory::{LOW, begins_group};
use ample_pfn::PageClass;

/// Share of slab pages whose last object a shrinker can free: the others hold a hostage.
const SHRINK_SUCCESS: f64 = 0.1;

/// Tries to free `goal` pages that help `region`; pages looked at and pages freed.
pub(crate) fn reclaim(kernel: &mut SimKernel, region: usize, goal: u32) -> (u32, u32) {
    let user = user_helps(kernel, region);
    shrink(kernel, region, goal, user)
}

/// The same for a task that waits for it.
pub(crate) fn reclaim_directly(kernel: &mut SimKernel, region: usize, goal: u32) -> (u32, u32) {
    let user = kernel.rules.reclaims_node || user_helps(kernel, region);
    shrink(kernel, region, goal, user)
}

/// Whether what users give back lies where `region` allocates.
fn user_helps(kernel: &SimKernel, region: usize) -> bool {
    region != LOW || kernel.rules.mixing
}

/// Shrinks the slab caches and, if asked to, page cache and user memory.
fn shrink(kernel: &mut SimKernel, region: usize, goal: u32, user: bool) -> (u32, u32) {
    let mut scanned = 0;
    let mut freed = 0;
    if user {
        (scanned, freed) = swap::shrink_user(kernel, goal);
        let (cache_scanned, cache_freed) = shrink_cache(kernel, region, goal - freed.min(goal));
        scanned += cache_scanned;
        freed += cache_freed;
    }
    // Shrinkers run in proportion (`shrink_slab`): one slab page looked at for 16 of cache.
    let slab_goal = if user { goal / 16 } else { goal };
    let (slab_scanned, slab_freed) = shrink_slab(kernel, slab_goal);
    (scanned + slab_scanned, freed + slab_freed)
}

fn shrink_cache(kernel: &mut SimKernel, region: usize, goal: u32) -> (u32, u32) {
    let (mut scanned, mut freed, mut passed) = (0, 0, 0);
    let dirty = kernel.writeback.share_of(kernel.lru.len());
    while freed < goal && scanned < 8 * goal {
        if begins_group(scanned) {
            kernel.lru.touch_tails(kernel.zone.frames());
        }
        let frames = kernel.zone.frames_mut();
        let Some(pfn) = kernel.lru.next_victim(frames) else {
            break;
        };
        scanned += 1;
        let state = frames.get(pfn);
        if state.referenced() {
            kernel.lru.activate(frames, pfn);
        } else if state.short_pinned() || kernel.zone.region(pfn) < region {
            kernel.lru.rotate(kernel.zone.frames_mut(), pfn);
        } else if dirty > 0.0 && kernel.rng.chance(dirty) {
            passed += 1;
            kernel.lru.rotate(kernel.zone.frames_mut(), pfn);
        } else {
            evict(kernel, pfn);
            freed += 1;
        }
    }
    kernel.counters.dirty_passed_pages += u64::from(passed);
    kernel.writeback.flush(passed);
    (scanned, freed)
}

/// Frees a page-cache page.
fn evict(kernel: &mut SimKernel, pfn: u32) {
    kernel.lru.remove(kernel.zone.frames_mut(), pfn);
    kernel.free_to_buddy(pfn);
}

/// Runs the shrinkers over `count` slab pages; pages looked at and pages freed.
fn shrink_slab(kernel: &mut SimKernel, count: u32) -> (u32, u32) {
    let mut freed = 0;
    for _ in 0..count {
        let shrinkable = kernel.pools.shrinkable();
        if shrinkable.is_empty() {
            return (0, 0);
        }
        let pool = shrinkable[kernel.rng.below(shrinkable.len() as u32) as usize];
        let len = kernel.pools.len(pool);
        if len == 0 || !kernel.rng.chance(SHRINK_SUCCESS) {
            continue;
        }
        let index = kernel.rng.below(len);
        let pfn = kernel.take_from(pool, index);
        let state = kernel.zone.state(pfn);
        debug_assert_eq!(state.class(), PageClass::SlabReclaimable);
        freed += 1 << state.order();
        kernel.free_to_buddy(pfn);
    }
    kernel.counters.slab_shrunk_pages += u64::from(freed);
    (count, freed)
}

/// Drops up to `count` cache pages from `pfn` on, as when their file is deleted.
pub(crate) fn drop_file(kernel: &mut SimKernel, pfn: u32, count: u32) {
    let dirty = kernel.writeback.share_of(kernel.lru.len());
    let frames = kernel.zone.frames();
    let file = kernel.lru.file_of(frames, pfn, count);
    kernel.writeback.clean(file.len() as f64 * dirty);
    frames.touch(file.iter().copied());
    for pfn in file {
        if !kernel.zone.state(pfn).short_pinned() {
            evict(kernel, pfn);
        }
    }
}
