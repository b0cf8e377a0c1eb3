// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocation of one block: per-CPU lists, watermarks, the slow path
//! (`mm/page_alloc.c`, 6.12: `rmqueue`, `__alloc_pages_slowpath`).

use super::costly::alloc_costly;
use super::request::AllocRequest;
use crate::compact::scan::direct_compact;
use crate::config::CostlyRequests;
use crate::kernel::SimKernel;
use crate::memory::{
    BLOCK_ORDER, CpuLists, FrameState, Frames, FreeList, HIGH, LOW, MAX_ORDER, PCP_BATCH,
    PCP_ORDERS, PoolId, Slot, Zone,
};
use crate::policy::Policy;
use crate::psi::{RECLAIM_NS, Stall};
use crate::reclaim::{kswapd, shrink};
use ample_pfn::MigrateType;

/// Pages one round of direct reclaim tries to free (`SWAP_CLUSTER_MAX`); more where compaction
/// needs more room than that (`compact_gap`).
const RECLAIM_BATCH: u32 = 32;

/// Rounds of reclaim before a request fails (`MAX_RECLAIM_RETRIES`); where compaction may help, as
/// many at each of its three priorities (`MAX_COMPACT_RETRIES`); and for orders above
/// `PAGE_ALLOC_COSTLY_ORDER` a quarter of that at the first two (`should_compact_retry`).
fn retries(order: u32) -> u32 {
    match order {
        0 => 16,
        1..PCP_ORDERS => 48,
        _ => 5,
    }
}

/// Allocates a block; its first frame, or `None` when there is no memory for it. The caller hands
/// it to a pool or to the LRU lists, or frees it.
#[inline]
pub(crate) fn alloc(
    kernel: &mut SimKernel,
    policy: &mut dyn Policy,
    request: &AllocRequest,
    cpu: usize,
) -> Option<u32> {
    let pfn = match get_page(kernel, policy, request, cpu) {
        Some(pfn) => pfn,
        None => alloc_slow(kernel, policy, request, cpu)?,
    };
    kernel.counters.allocs += 1;
    kernel.zone.set_used(pfn, request.order, request.class);
    Some(pfn)
}

/// The per-CPU list that a request is served from first; `None` if it goes past them.
#[inline]
fn hot_slot(kernel: &SimKernel, request: &AllocRequest, cpu: usize) -> Option<Slot> {
    if request.order >= PCP_ORDERS || request.long_lived {
        return None;
    }
    let mt = request.migratetype();
    let region = kernel.route(mt)[0];
    let mt = kernel.type_in(region, mt);
    Some(kernel.cpus.slot(cpu, region, request.order, mt))
}

/// Takes up to `most` blocks from a per-CPU list, the last freed first; `keep` is given each with
/// its state to be. How many there were.
#[inline]
fn take_hot(
    (cpus, zone): (&mut CpuLists, &mut Zone),
    slot: Slot,
    request: &AllocRequest,
    most: u32,
    mut keep: impl FnMut(&mut Frames, u32, FrameState),
) -> u32 {
    let state = FrameState::used(request.order, request.class);
    let taken = cpus.take_newest(slot, most);
    let count = taken.len() as u32;
    for pfn in taken {
        zone.count_used(pfn, request.order, request.class, true);
        keep(zone.frames_mut(), pfn, state);
    }
    count
}

/// Moves up to `most` blocks from the per-CPU list of a request into a pool; how many.
pub(crate) fn hot_into_pool(
    kernel: &mut SimKernel,
    pool: PoolId,
    request: &AllocRequest,
    cpu: usize,
    most: u32,
) -> u32 {
    let Some(slot) = hot_slot(kernel, request, cpu) else {
        return 0;
    };
    let mut end = kernel.pools.end(pool);
    let memory = (&mut kernel.cpus, &mut kernel.zone);
    let count = take_hot(memory, slot, request, most, |frames, pfn, state| {
        end.push(frames, pfn, state);
    });
    kernel.counters.allocs += u64::from(count);
    count
}

/// As [`hot_into_pool`], into the page cache.
pub(crate) fn hot_into_cache(
    kernel: &mut SimKernel,
    request: &AllocRequest,
    cpu: usize,
    most: u32,
) -> u32 {
    let Some(slot) = hot_slot(kernel, request, cpu) else {
        return 0;
    };
    let lru = &mut kernel.lru;
    let memory = (&mut kernel.cpus, &mut kernel.zone);
    let count = take_hot(memory, slot, request, most, |frames, pfn, state| {
        lru.add(frames, pfn, state);
    });
    kernel.counters.allocs += u64::from(count);
    count
}

/// One pass over the regions that the request may use (`get_page_from_freelist`).
#[inline]
pub(super) fn get_page(
    kernel: &mut SimKernel,
    policy: &mut dyn Policy,
    request: &AllocRequest,
    cpu: usize,
) -> Option<u32> {
    let mt = request.migratetype();
    for &region in kernel.route(mt) {
        let mt = kernel.type_in(region, mt);
        if request.order < PCP_ORDERS && !request.long_lived {
            let slot = kernel.cpus.slot(cpu, region, request.order, mt);
            if kernel.cpus.is_empty(slot) {
                refill(kernel, policy, request, slot);
            }
            if let Some(pfn) = kernel.cpus.pop(slot) {
                return Some(pfn);
            }
        } else if watermark_ok(kernel, request, region) && request.order <= MAX_ORDER {
            let order = request.order;
            let list = FreeList { region, order, mt };
            let found = (kernel.zone.take(list)).or_else(|| policy.fallback(kernel, list));
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// Whether the request leaves the region its reserve; wakes kswapd on the way down.
fn watermark_ok(kernel: &mut SimKernel, request: &AllocRequest, region: usize) -> bool {
    let free = kernel.zone.free_pages(region);
    let marks = kernel.watermarks.of(region);
    if free < marks.low + (1 << request.order) {
        kernel.watermarks.wake(region);
    }
    if kernel.watermarks.is_awake(region) {
        kswapd::step(kernel, region);
    }
    let mut reserve = if request.atomic {
        marks.min / 2
    } else {
        marks.min
    };
    // `lowmem_reserve_ratio`: requests that could use the upper zone leave the lower one
    // 1/32 of the upper.
    if region == LOW && request.migratetype() == MigrateType::Movable {
        reserve += kernel.zone.region_pages(HIGH) / 32;
    }
    kernel.zone.free_pages(region) >= reserve + (1 << request.order)
}

#[cold]
fn refill(kernel: &mut SimKernel, policy: &mut dyn Policy, request: &AllocRequest, slot: Slot) {
    let FreeList { region, order, mt } = slot.list;
    if !watermark_ok(kernel, request, region) {
        return;
    }
    let mut wanted = PCP_BATCH >> order;
    kernel.zone.touch_free(region, order, mt, wanted);
    while wanted > 0 {
        let run = kernel.zone.take_run(slot.list, wanted);
        let run = run.or_else(|| Some((policy.fallback(kernel, slot.list)?, 1)));
        let Some((first, count)) = run else {
            break;
        };
        // The block it came from may be of another type (a stolen page): it still goes to
        // the list of the request, and back to its block's list when freed.
        let frames = kernel.zone.frames_mut();
        kernel.cpus.refill(frames, slot, first, count);
        wanted -= count;
    }
}

#[cold]
fn alloc_slow(
    kernel: &mut SimKernel,
    policy: &mut dyn Policy,
    request: &AllocRequest,
    cpu: usize,
) -> Option<u32> {
    let mt = request.migratetype();
    let stall = Stall::of(mt);
    let region = kernel.route(mt)[0];
    // A huge page at fault asks for nothing in the background either (`GFP_TRANSHUGE_LIGHT`).
    if request.order < BLOCK_ORDER || !request.light {
        kernel.kcompactd.note_request(request.order);
        kernel.watermarks.wake_for(region, request.order);
    }
    if request.order >= PCP_ORDERS
        && kernel.rules.costly == CostlyRequests::Kernel
        && !request.atomic
        && !request.light
    {
        let found = alloc_costly(kernel, policy, request, cpu, true);
        if found.is_none() {
            note_failure(kernel, stall);
        }
        return found;
    }
    for round in 0..retries(request.order) {
        if policy.relieve(kernel, request, round)
            && let Some(pfn) = get_page(kernel, policy, request, cpu)
        {
            return Some(pfn);
        }
        if request.atomic || request.light {
            break;
        }
        // The first attempt may be deferred; the next has a higher priority, which no deferral
        // holds back (`should_compact_retry`, orders up to 3).
        let compacts = request.order > 0 && (round > 0 || !kernel.deferral.defers(request.order));
        if compacts && direct_compact(kernel, request.order, mt, round > 0) {
            if let Some(pfn) = get_page(kernel, policy, request, cpu) {
                return Some(pfn);
            }
            if request.order >= BLOCK_ORDER && round > 0 {
                break;
            }
        }
        let goal = RECLAIM_BATCH.max(2 << request.order);
        let (scanned, freed) = shrink::reclaim_directly(kernel, region, goal);
        kernel.psi.stall(stall, u64::from(scanned) * RECLAIM_NS);
        kernel.counters.direct_reclaimed_pages += u64::from(freed);
        if freed == 0 && round == 0 {
            kernel.drain_all();
        }
        if let Some(pfn) = get_page(kernel, policy, request, cpu) {
            return Some(pfn);
        }
        if freed == 0 && round > 2 {
            break;
        }
    }
    if !request.light {
        note_failure(kernel, stall);
    }
    None
}

fn note_failure(kernel: &mut SimKernel, stall: Stall) {
    match stall {
        Stall::Unmovable => kernel.counters.failed_unmovable += 1,
        Stall::Movable => kernel.counters.failed_movable += 1,
    }
}
