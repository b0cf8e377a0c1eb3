// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plays a workload on a server, one simulated second at a time.

mod cache;
mod pins;

use super::source::Source;
use super::spec::{Process, UserMemory, Workload};
use crate::alloc::request::AllocRequest;
use crate::memory::{BLOCK_PAGES, PoolId, begins_group};
use crate::server::ServerModel;
use ample_kit::random::Xoshiro256 as Rng;
use ample_pfn::{PageClass, is_movable};

/// Turns that the sources of a workload take in one second, so that their pages interleave.
const TURNS: u32 = 8;
/// Memory for which khugepaged makes one huge page a second at most, in pages (64 GB: its
/// default of 4096 scanned pages every ten seconds).
const KHUGEPAGED_PAGES: f64 = (64u64 << 18) as f64;

/// One running process.
#[derive(Debug)]
struct Running {
    group: usize,
    pool: PoolId,
    tables: PoolId,
    stacks: PoolId,
    /// What it pinned when it started.
    pinned: PoolId,
    /// All of its memory, in swap or pinned too.
    pages: u64,
    age_s: f64,
    cpu: usize,
}

/// The state of a workload on one server.
#[derive(Debug)]
pub(crate) struct Driver {
    workload: Workload,
    /// Pages that the ratios refer to.
    pages: f64,
    event_ratio: f64,
    /// Pages evicted so far, and those of them that no read has followed yet.
    evicted: u64,
    evicted_unread: f64,
    processes: Vec<Running>,
    sources: Vec<Source>,
    pinned: PoolId,
    short: Vec<u32>,
    next_deploy_s: f64,
    deploy_left: f64,
    time_s: f64,
    rng: Rng,
}

impl Driver {
    /// Boots the workload: long-lived kernel memory and the cached system image first.
    pub(crate) fn new(server: &mut ServerModel, workload: &Workload, event_ratio: f64) -> Driver {
        let snapshot = server.take_snapshot();
        let continues = workload.continues && snapshot.placed > 0;
        let own = if continues { snapshot.placed } else { 0 };
        let pages = (server.free_pages() + own) as f64;
        let mut rng = server.kernel.rng.fork(0x776f_726b);
        // One load drives all sources of a server: they rise and fall together.
        let phase = rng.unit();
        let sources: Vec<Source> = workload
            .kernel
            .iter()
            .map(|spec| Source::new(server, spec, phase))
            .collect();
        let mut processes = Vec::new();
        for (group, spec) in workload.process.iter().enumerate() {
            for _ in 0..spec.count {
                processes.push(Running {
                    group,
                    pool: server.new_pool(),
                    tables: server.new_pool(),
                    stacks: server.new_pool(),
                    pinned: server.new_pool(),
                    pages: 0,
                    age_s: 0.0,
                    cpu: processes.len(),
                });
            }
        }
        set_up_swap(server, workload, pages, &processes);
        let mut driver = Driver {
            pages,
            event_ratio,
            evicted: 0,
            evicted_unread: 0.0,
            processes,
            sources,
            pinned: server.new_pool(),
            short: Vec::new(),
            next_deploy_s: workload.deploy.every_s,
            deploy_left: 0.0,
            time_s: 0.0,
            rng,
            workload: workload.clone(),
        };
        if continues {
            driver.adopt(server, &snapshot.pools);
        } else {
            driver.boot(server);
        }
        driver
    }

    fn boot(&mut self, server: &mut ServerModel) {
        for long_lived in [true, false] {
            for source in &mut self.sources {
                if let Some(ratio) = source.at_boot(long_lived) {
                    let pages = ratio * self.pages;
                    source.adjust(server, pages, f64::INFINITY, &mut self.rng);
                }
            }
        }
        let cached = (self.workload.cache.boot_ratio * self.pages) as u32;
        server.read_cache(PageClass::File, cached, 0);
    }

    /// Takes over the pages of a snapshot ([`Workload::continues`]). What no process and no source
    /// of the workload stands for stays where it is.
    fn adopt(&mut self, server: &mut ServerModel, held: &[(PageClass, PoolId)]) {
        let source = |reclaimable: bool| {
            let kind =
                |source: &&Source| (source.class() == PageClass::SlabReclaimable) == reclaimable;
            self.sources.iter().find(kind).map(Source::adopting_pool)
        };
        let (kernel, reclaimable) = (source(false), source(true));
        let process = self.processes.first();
        let (user, tables) = (process.map(|p| p.pool), process.map(|p| p.tables));
        for &(class, pool) in held {
            let target = match class {
                PageClass::Anon => user,
                PageClass::PageTable => tables.or(kernel),
                PageClass::SlabReclaimable => reclaimable,
                class if is_movable(class) => None,
                _ => kernel,
            };
            if let Some(target) = target {
                server.move_entries(pool, target);
            }
        }
        if let Some(process) = self.processes.first_mut() {
            process.pages = server.pool_len(process.pool) as u64;
        }
        for process in &mut self.processes {
            process.age_s = self.workload.process[process.group].grow_s;
        }
    }

    /// One simulated second.
    pub(crate) fn second(&mut self, server: &mut ServerModel) {
        self.time_s += 1.0;
        self.deploys(server);
        self.short_pins(server);
        for source in &mut self.sources {
            source.start_bursts(self.pages, &mut self.rng);
        }
        for process in 0..self.processes.len() {
            self.age(server, process);
        }
        for _ in 0..TURNS {
            let turn = 1.0 / f64::from(TURNS);
            for process in 0..self.processes.len() {
                self.fault(server, process, turn);
            }
            for source in 0..self.sources.len() {
                self.kernel_turn(server, source, turn);
            }
            self.cache_turn(server, turn);
        }
        self.long_pins(server);
        self.start_pins(server);
        self.swap_in(server);
        self.khugepaged(server);
        server.tick(1_000_000_000);
    }

    fn spec(&self, process: usize) -> &Process {
        &self.workload.process[self.processes[process].group]
    }

    fn deploys(&mut self, server: &mut ServerModel) {
        let every = self.workload.deploy.every_s;
        if every > 0.0 && self.time_s >= self.next_deploy_s {
            self.next_deploy_s += every;
            self.deploy_left = self.workload.deploy.read_ratio * self.pages;
            for process in 0..self.processes.len() {
                self.restart(server, process);
            }
        }
    }

    /// Ends processes and drops their memory: what a deployment finds before it starts anew
    /// (Contiguitas §5.1, partial fragmentation). All of them, unless the workload says otherwise.
    pub(crate) fn stop_processes(&mut self, server: &mut ServerModel) {
        let stopped = |process: usize| (process as f64 * self.workload.huge.stopped_ratio) as u64;
        let ends: Vec<usize> = (0..self.processes.len())
            .filter(|&process| stopped(process + 1) > stopped(process))
            .collect();
        for process in ends {
            self.restart(server, process);
        }
        self.drop_short_pins(server);
    }

    /// A process ends and starts again from nothing.
    fn restart(&mut self, server: &mut ServerModel, process: usize) {
        let running = &mut self.processes[process];
        for pool in [running.pool, running.tables, running.stacks, running.pinned] {
            server.release_all(pool, running.cpu);
        }
        server.kernel.swap.take_back(running.pool, u64::MAX);
        running.pages = 0;
        running.age_s = 0.0;
    }

    /// Restarts by chance; frees what the process drops this second.
    fn age(&mut self, server: &mut ServerModel, process: usize) {
        let spec = self.spec(process);
        let (restart_s, churn) = (spec.restart_s, spec.churn_per_hour);
        self.processes[process].age_s += 1.0;
        if restart_s > 0.0 && self.rng.chance(1.0 / restart_s) {
            self.restart(server, process);
            return;
        }
        let running = &self.processes[process];
        let pages = running.pages as f64 * churn / 3600.0;
        let goal = u64::from(self.rng.round(pages));
        let mut freed = 0;
        let mut turns = 0;
        while freed < goal {
            let running = &self.processes[process];
            let kernel = &server.kernel;
            if begins_group(turns) {
                let frames = kernel.zone.frames();
                kernel.pools.touch_removals(frames, running.pool, &self.rng);
            }
            turns += 1;
            let len = kernel.pools.len(running.pool);
            if len == 0 {
                break;
            }
            let index = self.rng.below(len);
            let pfn = kernel.pools.entries(running.pool)[index as usize];
            let pages = 1u64 << kernel.zone.state(pfn).order();
            // A huge page goes as a whole, and seldom: in proportion to what is asked.
            if pages > 1 && !self.rng.chance((goal - freed) as f64 / pages as f64) {
                break;
            }
            server.free_entry(running.pool, index, running.cpu);
            freed += pages;
        }
        self.processes[process].pages -= freed.min(self.processes[process].pages);
    }

    /// Grows a process towards the size that its age calls for.
    fn fault(&mut self, server: &mut ServerModel, process: usize, turn: f64) {
        let spec = self.spec(process);
        let full = spec.memory_ratio * self.pages / f64::from(spec.count);
        let (huge_ratio, grow_s) = (spec.huge_ratio, spec.grow_s.max(1.0));
        let class = match spec.kind {
            UserMemory::Anon => PageClass::Anon,
            UserMemory::Shmem => PageClass::Shmem,
        };
        let stacks = spec.threads;
        let running = &mut self.processes[process];
        let goal = full * (running.age_s / grow_s).min(1.0);
        let missing = (goal - running.pages as f64).max(0.0);
        let pace = (full / grow_s * turn).max(1.0);
        // Memory fit for huge pages is touched 2 MB at a time, other memory as it is needed.
        let huge_ratio = if class == PageClass::Anon {
            huge_ratio
        } else {
            0.0
        };
        let unit = if huge_ratio > 0.0 {
            f64::from(BLOCK_PAGES)
        } else {
            1.0
        };
        if missing < unit {
            return;
        }
        let mut left = self.rng.round(missing.min((2.0 * pace).max(unit)));
        if left == 0 {
            return;
        }
        let have = server.pool_len(running.stacks) as u32;
        if have < stacks {
            let request = AllocRequest::new(PageClass::KernelStack).order(2);
            server.allocate(running.stacks, &request, stacks - have, running.cpu);
        }
        while left > 0 {
            let huge = huge_ratio > 0.0 && self.rng.chance(huge_ratio);
            let got = if huge {
                server.fault_huge(running.pool, running.cpu)
            } else {
                let few = left.min(BLOCK_PAGES);
                server.allocate(running.pool, &AllocRequest::new(class), few, running.cpu)
            };
            running.pages += u64::from(got);
            left = left.saturating_sub(got.max(1));
            if got == 0 {
                self.kill_largest(server);
                return;
            }
        }
        let tables = (running.pages / u64::from(BLOCK_PAGES)) as u32 + 4;
        let have = server.pool_len(running.tables) as u32;
        let request = AllocRequest::new(PageClass::PageTable);
        server.allocate(
            running.tables,
            &request,
            tables.saturating_sub(have),
            running.cpu,
        );
    }

    /// The out-of-memory killer.
    fn kill_largest(&mut self, server: &mut ServerModel) {
        let largest = (0..self.processes.len()).max_by_key(|&p| self.processes[p].pages);
        if let Some(process) = largest {
            server.kernel.counters.oom_kills += 1;
            self.restart(server, process);
        }
    }

    fn kernel_turn(&mut self, server: &mut ServerModel, index: usize, turn: f64) {
        let source = &mut self.sources[index];
        let goal = source.goal(self.pages, self.time_s);
        let pace = source.pace(self.pages) * turn;
        source.adjust(server, goal, pace, &mut self.rng);
        source.churn(server, turn, &mut self.rng);
    }

    fn khugepaged(&mut self, server: &mut ServerModel) {
        let rounds = self.rng.round(self.pages / KHUGEPAGED_PAGES);
        for _ in 0..rounds {
            if self.processes.is_empty() {
                return;
            }
            let process = self.rng.below(self.processes.len() as u32) as usize;
            if self.spec(process).huge_ratio > 0.0 {
                let running = &self.processes[process];
                server.collapse(running.pool, running.cpu);
            }
        }
    }
}

/// Gives the machine the swap that the workload asks for.
fn set_up_swap(server: &mut ServerModel, workload: &Workload, pages: f64, processes: &[Running]) {
    let spec = &workload.swap;
    if spec.size_ratio == 0.0 {
        return;
    }
    let swap = &mut server.kernel.swap;
    swap.set_up((spec.size_ratio * pages) as u64, spec.reclaim_ratio);
    for process in processes {
        if workload.process[process.group].kind == UserMemory::Anon {
            swap.add_pool(process.pool);
        }
    }
}
