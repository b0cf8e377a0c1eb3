// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a replay gives.

use super::ledger::{Repairs, SnapshotUse};
use super::player::Player;
use super::table::FrameTable;
use crate::config::{Config, PolicyKind};
use crate::counters::Counters;
use crate::run::{Ratios, Sample};
use ample_pfn::{BASE_PAGE_BYTES, Definition, Metrics};
use ample_trace::pages::ReadCounts;
use serde::Serialize;

/// The traced kernel at one moment, rebuilt from the frames it chose. Without a snapshot only
/// pages allocated since the recording began are in it, and shares of unmovable blocks are lower
/// bounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelSample {
    /// Seconds since the first event.
    pub time_s: f64,
    /// Pages of allocated blocks, those of the snapshot included.
    pub live_pages: u64,
    /// Of these, the unmovable ones (definition O, from the migratetype of the event).
    pub unmovable_pages: u64,
    /// Unmovable pages ÷ all pages of memory, free ones included.
    pub unmovable_page_ratio: f64,
    /// 2 MB blocks with an unmovable page ÷ all 2 MB blocks.
    pub unmovable_2m_ratio: f64,
    /// Memory in 2 MB blocks without an unmovable page.
    pub potential_2m_ratio: f64,
    /// Memory in 32 MB blocks without an unmovable page.
    pub potential_32m_ratio: f64,
    /// Memory in 1 GB blocks without an unmovable page; `None` below 1 GB of memory.
    pub potential_1g_ratio: Option<f64>,
}

impl KernelSample {
    pub(super) fn of(table: &FrameTable, memory_bytes: u64, time_s: f64) -> KernelSample {
        let (live_pages, unmovable_pages) = table.pages();
        let pages = memory_bytes / BASE_PAGE_BYTES;
        let share = |order: u32| {
            let blocks = pages >> order;
            let held = table.unmovable_blocks(order).min(blocks);
            (blocks > 0).then(|| held as f64 / blocks as f64)
        };
        let potential = |order| share(order).map(|held| 1.0 - held);
        KernelSample {
            time_s,
            live_pages,
            unmovable_pages,
            unmovable_page_ratio: unmovable_pages as f64 / pages.max(1) as f64,
            unmovable_2m_ratio: share(9).unwrap_or(0.0),
            potential_2m_ratio: potential(9).unwrap_or(0.0),
            potential_32m_ratio: potential(13).unwrap_or(0.0),
            potential_1g_ratio: potential(18),
        }
    }

    /// From the whole memory of the machine, as the servers are measured.
    pub(super) fn measured(table: &FrameTable, metrics: &Metrics, time_s: f64) -> KernelSample {
        let (live_pages, unmovable_pages) = table.pages();
        let ratios = Ratios::of(&metrics.total);
        let has_1g = metrics.total.memory_bytes >= 1 << 30;
        KernelSample {
            time_s,
            live_pages,
            unmovable_pages,
            unmovable_page_ratio: ratios.unmovable_page,
            unmovable_2m_ratio: ratios.unmovable_2m[Definition::O as usize],
            potential_2m_ratio: ratios.potential_2m,
            potential_32m_ratio: ratios.potential_32m,
            potential_1g_ratio: has_1g.then_some(ratios.potential_1g),
        }
    }
}

/// One server that played the recording.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyResult {
    /// Policy under which the recording was played.
    pub policy: PolicyKind,
    /// Seed to repeat it with.
    pub seed: u64,
    /// Memory of the server.
    pub memory_bytes: u64,
    /// Blocks of the recording that found no memory here.
    pub unplaced_blocks: u64,
    /// Pages of the snapshot that found none.
    pub unplaced_snapshot_pages: u64,
    /// Movable blocks that were served as single pages here.
    pub fallback_blocks: u64,
    /// Samples, the first before the first event, the last at the end.
    pub samples: Vec<Sample>,
    /// All metrics at the end.
    pub metrics: Metrics,
    /// Event counts of the server.
    pub counters: Counters,
    /// Stall time of kernel memory.
    pub stall_unmovable_ns: u64,
    /// Stall time of user memory and page cache.
    pub stall_movable_ns: u64,
}

impl PolicyResult {
    pub(super) fn of(player: &mut Player, config: &Config) -> PolicyResult {
        let metrics = player.take_sample();
        let server = player.server();
        debug_assert_eq!(server.check(), Ok(()));
        let [stall_unmovable_ns, stall_movable_ns] = server.pressure().total_ns;
        PolicyResult {
            policy: server.policy(),
            seed: config.seed,
            memory_bytes: metrics.total.memory_bytes,
            counters: server.counters().clone(),
            unplaced_blocks: player.unplaced,
            unplaced_snapshot_pages: player.unplaced_at_start,
            fallback_blocks: player.fallbacks,
            samples: std::mem::take(&mut player.samples),
            metrics,
            stall_unmovable_ns,
            stall_movable_ns,
        }
    }
}

/// Everything a replay gives.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayResult {
    /// What was on the lines of the recording.
    pub counts: ReadCounts,
    /// What had to be repaired.
    pub repairs: Repairs,
    /// Length of the recording.
    pub duration_s: f64,
    /// Memory that shares of the traced kernel refer to.
    pub memory_bytes: u64,
    /// CPUs of the recording.
    pub cpus: usize,
    /// Blocks allocated during the recording and not freed.
    pub live_blocks: u64,
    /// What the replay started from, if a snapshot was given.
    pub snapshot: Option<SnapshotUse>,
    /// The traced kernel over time.
    pub kernel: Vec<KernelSample>,
    /// Each server.
    pub policies: Vec<PolicyResult>,
}
