// SPDX-License-Identifier: MIT OR Apache-2.0
//! A workload as its file describes it.

use serde::{Deserialize, Serialize};

/// One workload, as its file describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Short name, as used on the command line.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Goes on from the pages of a snapshot: they are this load's own, its kernel memory is that
    /// of the first source of its kind, its user memory that of the first process, and shares refer
    /// to all memory that can be allocated. Without a snapshot, and by default, it boots.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
    /// User processes.
    #[serde(default)]
    pub process: Vec<Process>,
    /// Kernel memory, by source.
    #[serde(default)]
    pub kernel: Vec<KernelSpec>,
    /// Page cache.
    #[serde(default)]
    pub cache: PageCacheSpec,
    /// Swap for user memory.
    #[serde(default, skip_serializing_if = "SwapSpec::is_none")]
    pub swap: SwapSpec,
    /// Long-term pins of user memory.
    #[serde(default)]
    pub pins: Pins,
    /// Redeployments of everything.
    #[serde(default)]
    pub deploy: Deploy,
    /// Huge pages the workload asks for at the end of a run.
    #[serde(default)]
    pub huge: HugeDemand,
}

impl Workload {
    /// The same load with other kernel memory: all of it times `kernel_factor`, and bursts
    /// `burst_factor` times as high and as rare, so that their mean stays.
    pub fn with_kernel(mut self, kernel_factor: f64, burst_factor: f64) -> Workload {
        for source in &mut self.kernel {
            source.level_ratio *= kernel_factor;
            source.boot_ratio *= kernel_factor;
            source.burst_ratio *= kernel_factor * burst_factor;
            source.burst_every_s *= burst_factor;
        }
        self
    }
}

/// A group of like processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// What it is.
    pub name: String,
    /// How many there are.
    #[serde(default = "one")]
    pub count: u32,
    /// Memory of all of them together, as a share of the machine's.
    pub memory_ratio: f64,
    /// `anon` or `shmem`.
    #[serde(default)]
    pub kind: UserMemory,
    /// Share of faults that lie in ranges fit for 2 MB pages.
    #[serde(default)]
    pub huge_ratio: f64,
    /// Seconds from start to full size.
    #[serde(default = "minute")]
    pub grow_s: f64,
    /// Share of its memory that is freed and faulted again every hour.
    #[serde(default)]
    pub churn_per_hour: f64,
    /// Mean seconds between restarts of one process; 0: never.
    #[serde(default)]
    pub restart_s: f64,
    /// Threads, 16 KB of kernel stack each.
    #[serde(default = "one")]
    pub threads: u32,
}

/// What user memory is backed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserMemory {
    /// Anonymous memory, which huge pages may back.
    #[default]
    Anon,
    /// Shared memory and tmpfs.
    Shmem,
}

/// One source of kernel memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// What it is.
    pub name: String,
    /// Page class by name, such as `network` or `slab`.
    pub class: String,
    /// Mean size as a share of memory.
    pub level_ratio: f64,
    /// What it takes at boot as a share of memory, before it comes down to its level: what stays
    /// lies scattered over the blocks of that peak. 0: no such peak.
    #[serde(default)]
    pub boot_ratio: f64,
    /// Order of its blocks.
    #[serde(default)]
    pub order: u32,
    /// Asks for its blocks without waiting, and takes single pages where there is none.
    #[serde(default)]
    pub single_page_fallback: bool,
    /// Share of the pool that is replaced every hour.
    #[serde(default)]
    pub churn_per_hour: f64,
    /// Share of memory by which it grows every hour, until it has twice its level.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trend_per_hour: f64,
    /// Whether old blocks are replaced first (rings) instead of any (random lifetimes).
    #[serde(default)]
    pub fifo: bool,
    /// Half the swing of a daily or shorter wave around the level, as a share of it.
    #[serde(default)]
    pub wave_ratio: f64,
    /// Period of the wave in seconds.
    #[serde(default = "day")]
    pub wave_s: f64,
    /// Height of a burst as a share of memory.
    #[serde(default)]
    pub burst_ratio: f64,
    /// Mean seconds between bursts; 0: none.
    #[serde(default)]
    pub burst_every_s: f64,
    /// Mean length of a burst in seconds.
    #[serde(default = "minute")]
    pub burst_s: f64,
    /// Seconds from boot to the level; 0: there at boot.
    #[serde(default)]
    pub grow_s: f64,
    /// Cannot sleep (`GFP_ATOMIC`).
    #[serde(default)]
    pub atomic: bool,
    /// Inherently long-lived.
    #[serde(default)]
    pub long_lived: bool,
}

impl Default for KernelSpec {
    /// A source without a name that holds nothing.
    fn default() -> KernelSpec {
        KernelSpec {
            name: String::new(),
            class: String::new(),
            level_ratio: 0.0,
            boot_ratio: 0.0,
            order: 0,
            single_page_fallback: false,
            churn_per_hour: 0.0,
            trend_per_hour: 0.0,
            fifo: false,
            wave_ratio: 0.0,
            wave_s: day(),
            burst_ratio: 0.0,
            burst_every_s: 0.0,
            burst_s: minute(),
            grow_s: 0.0,
            atomic: false,
            long_lived: false,
        }
    }
}

/// Page cache: it fills what is left of memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PageCacheSpec {
    /// New pages read every hour, as a share of memory.
    pub read_per_hour: f64,
    /// Share of reads that touch a page that is already cached.
    pub reuse_ratio: f64,
    /// Share of memory whose cached files are deleted every hour.
    pub drop_per_hour: f64,
    /// Cache at boot (image, packages), as a share of memory.
    pub boot_ratio: f64,
    /// Of the reads that follow an eviction, the share that finds its page evicted although it
    /// was still wanted.
    pub refault_ratio: f64,
    /// Share of the new pages that are written instead of read: dirty until they are on storage.
    #[serde(skip_serializing_if = "is_zero")]
    pub write_ratio: f64,
    /// What storage takes every hour, as a share of memory.
    #[serde(skip_serializing_if = "is_zero")]
    pub written_back_per_hour: f64,
}

/// Swap: where reclaim puts anonymous memory of processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SwapSpec {
    /// Size as a share of memory; 0: there is none.
    pub size_ratio: f64,
    /// Share of what reclaim frees that it takes from processes, the rest being page cache.
    pub reclaim_ratio: f64,
    /// Share of what lies in swap that is wanted again every hour.
    pub wanted_per_hour: f64,
}

impl SwapSpec {
    fn is_none(&self) -> bool {
        *self == SwapSpec::default()
    }
}

/// Long-term pins (`FOLL_LONGTERM`) of the first process group's memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pins {
    /// Pinned memory as a share of the machine's.
    pub level_ratio: f64,
    /// Mean seconds a pin is held.
    pub hold_s: f64,
    /// Memory that the processes of that group pin while they grow, and hold until they end, as a
    /// share of the machine's: what is registered for RDMA, a GPU or io_uring when a service
    /// starts.
    #[serde(skip_serializing_if = "is_zero")]
    pub start_ratio: f64,
}

/// A deploy restarts every process at once and reads new files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Deploy {
    /// Seconds between deploys; 0: none.
    pub every_s: f64,
    /// New files read, as a share of memory.
    pub read_ratio: f64,
}

/// Huge pages asked for at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HugeDemand {
    /// 2 MB HugeTLB pages, as a share of memory.
    pub hugetlb_2m_ratio: f64,
    /// 1 GB HugeTLB pages, as a share of memory.
    pub hugetlb_1g_ratio: f64,
    /// Share of the processes that have stopped by then: 1 when the workload restarts as a whole,
    /// less when a deployment restarts one process after another.
    pub stopped_ratio: f64,
}

impl Default for HugeDemand {
    fn default() -> HugeDemand {
        HugeDemand {
            hugetlb_2m_ratio: 0.0,
            hugetlb_1g_ratio: 0.0,
            stopped_ratio: 1.0,
        }
    }
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn one() -> u32 {
    1
}

fn minute() -> f64 {
    60.0
}

fn day() -> f64 {
    86_400.0
}
