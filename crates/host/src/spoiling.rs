// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who spoils pageblocks: events of allocations, gathered by who made them.

use crate::cgroups::Cgroups;
use crate::symbols::KernelSymbols;
use crate::{HostError, Root, Scan};
use ample_pfn::{Definition, MigrateType, Mobility, PAGES_PER_PAGEBLOCK, PageClass, Pfn};
use std::collections::HashMap;

/// What an allocation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// It put the first unmovable page into a pageblock that held none.
    Spoiled,
    /// It was unmovable and was served from the free lists of movable memory
    /// (`mm_page_alloc_extfrag`).
    Fallback,
}

/// One allocation that harmed contiguity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoilEvent {
    /// Monotonic time in nanoseconds.
    pub time_ns: u64,
    /// First frame allocated.
    pub pfn: Pfn,
    /// Number of the control group of the task.
    pub cgroup: u64,
    /// Process (thread group).
    pub pid: u32,
    /// Flags of the request as the running kernel numbers them; 0 for a fallback, whose event
    /// does not carry them.
    pub gfp: u32,
    /// What it did.
    pub kind: Harm,
    /// Order of the request.
    pub order: u8,
    /// Migratetype of the request.
    pub asked: MigrateType,
    /// Name of the thread, as it calls itself.
    pub task: String,
    /// Return addresses, innermost first.
    pub stack: Vec<u64>,
}

/// One place in the kernel, on behalf of one process name in one control group.
#[derive(Clone, Debug)]
pub struct SpoilSite {
    /// Thread name; kernel threads without their number, `[interrupt]` for interrupts.
    pub process: String,
    /// Path of the control group; `None` in interrupts and when it is gone.
    pub cgroup: Option<String>,
    /// Innermost function outside the allocators.
    pub caller: String,
    /// Functions, innermost first, beginning with `caller`.
    pub stack: Vec<String>,
    /// Migratetype asked for.
    pub asked: MigrateType,
    /// Orders asked for, a bit each.
    pub orders: u32,
    /// Flags of the last request that spoiled a block, as the running kernel numbers them.
    pub gfp: u32,
    /// Pageblocks that it spoiled, by number; a block that was clean again in between is there
    /// twice.
    pub blocks: Vec<u32>,
    /// Requests served from movable memory.
    pub fallbacks: u64,
}

#[derive(PartialEq, Eq, Hash)]
struct SiteKey {
    process: String,
    cgroup: Option<String>,
    stack: Vec<String>,
    asked: MigrateType,
}

/// The sites of a watch.
#[derive(Default)]
pub struct SpoilSites {
    symbols: KernelSymbols,
    cgroups: Cgroups,
    sites: Vec<SpoilSite>,
    index: HashMap<SiteKey, usize>,
}

impl SpoilSites {
    /// No site yet; names come from the kernel that runs.
    ///
    /// # Errors
    /// [`HostError`] when the kernel's symbols cannot be read.
    pub fn of_running_kernel() -> Result<SpoilSites, HostError> {
        Ok(SpoilSites {
            symbols: KernelSymbols::read(&Root::live())?,
            ..SpoilSites::default()
        })
    }

    /// Counts one event.
    pub fn add(&mut self, event: &SpoilEvent) {
        let names: Vec<String> = event
            .stack
            .iter()
            // A return address may lie right behind the end of the function that called.
            .map(|address| self.symbols.name(address.saturating_sub(1)))
            .collect();
        let (stack, context) = split(names);
        let process = match context {
            Context::Interrupt => "[interrupt]".to_string(),
            Context::KernelThread => kernel_thread(&event.task),
            Context::Task => event.task.clone(),
        };
        let cgroup = match context {
            Context::Interrupt => None,
            _ => self.cgroups.path(event.cgroup),
        };
        let site = SpoilSite {
            process: process.clone(),
            cgroup: cgroup.clone(),
            caller: stack.first().cloned().unwrap_or_default(),
            stack: stack.clone(),
            asked: event.asked,
            orders: 0,
            gfp: 0,
            blocks: Vec::new(),
            fallbacks: 0,
        };
        let key = SiteKey {
            process,
            cgroup,
            stack,
            asked: event.asked,
        };
        let next = self.sites.len();
        let at = *self.index.entry(key).or_insert(next);
        if at == next {
            self.sites.push(site);
        }
        let site = &mut self.sites[at];
        site.orders |= 1 << event.order.min(31);
        match event.kind {
            Harm::Fallback => site.fallbacks += 1,
            Harm::Spoiled => {
                site.gfp = event.gfp;
                let first = event.pfn.0 / PAGES_PER_PAGEBLOCK;
                let last = (event.pfn.0 + (1 << event.order.min(31)) - 1) / PAGES_PER_PAGEBLOCK;
                site.blocks
                    .extend((first..=last).map(|block| u32::try_from(block).unwrap_or(u32::MAX)));
            }
        }
    }

    /// The sites, most blocks spoiled first, then most fallbacks, then by name.
    pub fn ranked(&self) -> Vec<&SpoilSite> {
        let mut sites: Vec<&SpoilSite> = self.sites.iter().collect();
        sites.sort_by(|a, b| {
            let weight = |site: &SpoilSite| (site.blocks.len(), site.fallbacks);
            weight(b)
                .cmp(&weight(a))
                .then_with(|| (&a.stack, &a.process).cmp(&(&b.stack, &b.process)))
        });
        sites
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Context {
    Task,
    KernelThread,
    Interrupt,
}

/// Functions that an interrupt or a softirq enters the kernel by (x86 and arm64, 6.12 to 6.18).
const INTERRUPT_ENTRIES: [&str; 8] = [
    "handle_softirqs",
    "__do_softirq",
    "__irq_exit_rcu",
    "common_interrupt",
    "sysvec_apic_timer_interrupt",
    "sysvec_call_function_single",
    "el1_interrupt",
    "el0_interrupt",
];

/// How a tracepoint calls its programs (`kernel/trace/bpf_trace.c`): further inside is the watch.
const WATCH_ENTRY: &str = "bpf_trace_run";

/// Beginnings of names that belong to the allocators.
const ALLOCATORS: [&str; 30] = [
    "__traceiter_",
    "rmqueue",
    "__rmqueue",
    "get_page_from_freelist",
    "alloc_pages",
    "__alloc_pages",
    "alloc_frozen_pages",
    "__alloc_frozen_pages",
    "alloc_page_interleave",
    "folio_alloc",
    "__folio_alloc",
    "vma_alloc_folio",
    "__get_free_pages",
    "get_free_pages",
    "get_zeroed_page",
    "allocate_slab",
    "new_slab",
    "___slab_alloc",
    "__slab_alloc",
    "slab_alloc",
    "refill_",
    "kmem_cache_alloc",
    "__kmem_cache_alloc",
    "__kmalloc",
    "___kmalloc",
    "kmalloc",
    "__kvmalloc",
    "kvmalloc",
    "krealloc",
    "__do_kmalloc",
];

/// Cuts what the allocators and the watch add at the inner end, and, in an interrupt, the
/// interrupted task at the outer end; tells which kind of context it is.
fn split(mut names: Vec<String>) -> (Vec<String>, Context) {
    if let Some(watch) = names.iter().position(|name| name.starts_with(WATCH_ENTRY)) {
        names.drain(..=watch);
    }
    let inside = names
        .iter()
        .position(|name| !ALLOCATORS.iter().any(|start| name.starts_with(start)))
        .unwrap_or(0);
    names.drain(..inside);
    let thread = names.iter().any(|name| name == "kthread");
    let entry = names
        .iter()
        .position(|name| INTERRUPT_ENTRIES.contains(&name.as_str()));
    // ksoftirqd runs softirqs as a thread; an interrupt on top of a thread comes from outside.
    let softirq_thread = names.iter().any(|name| name == "run_ksoftirqd");
    let context = match entry {
        Some(entry) if !softirq_thread => {
            names.truncate(entry + 1);
            Context::Interrupt
        }
        _ if thread => Context::KernelThread,
        _ => Context::Task,
    };
    (names, context)
}

/// `kworker/3:1H` and `kworker/u8:0` are one name.
fn kernel_thread(task: &str) -> String {
    task.split('/').next().unwrap_or(task).to_string()
}

/// Which pageblocks from frame 0 on hold something that is unmovable by definition K, or a hole.
pub fn spoiled_blocks(scan: &Scan) -> Vec<bool> {
    let frames = scan.pages.span().end.0;
    let mut spoiled = vec![true; frames.div_ceil(PAGES_PER_PAGEBLOCK) as usize];
    let first = scan.pages.span().start.0.div_ceil(PAGES_PER_PAGEBLOCK) as usize;
    let whole = (frames / PAGES_PER_PAGEBLOCK) as usize;
    if first < whole {
        spoiled[first..whole].fill(false);
    }
    for (range, class) in scan.pages.iter() {
        let holds = class == PageClass::Hole || class.verdict(Definition::K) == Mobility::Unmovable;
        if holds && !range.is_empty() {
            let from = (range.start.0 / PAGES_PER_PAGEBLOCK) as usize;
            let to = ((range.end.0 - 1) / PAGES_PER_PAGEBLOCK) as usize;
            spoiled[from..=to].fill(true);
        }
    }
    spoiled
}

#[cfg(test)]
mod tests;
