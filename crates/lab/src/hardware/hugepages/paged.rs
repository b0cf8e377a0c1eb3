// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server behind TLBs, and one run of it.

use super::super::stats::advance;
use super::super::{Requests, Server, Service};
use super::HugePageParams;
use crate::stop;
use ample_machine::multi::{
    CoreAccess, CoreParams, CoreProgram, MemoryParams, MultiCore, OsParams, PAGE_BYTES,
    PagePlacement,
};
use ample_migration::protocol::LineAddr;
use ample_translate::{Engine, HitLevel, IdealFrames, Intent, PageSize, Port, presets, schemes};
use anyhow::{Context, Result};

/// First page-table line: behind all data (64 GB).
const TABLES_FIRST_LINE: u64 = 1 << 31;
/// Look-ups before the timed run: twice the lines of the last level.
const WARM_UP_LOOKUPS: u32 = 1 << 19;
/// A large page.
const BLOCK_BYTES: u64 = 2 << 20;
/// Where the server's pages begin in its address space.
const BASE: u64 = 1 << 40;

/// Notes what a walk reads; the memory system gives it time.
#[derive(Default)]
struct Noted(Vec<LineAddr>);

impl Port for Noted {
    fn walk_start(&mut self, now: u64) -> u64 {
        now
    }

    fn read(&mut self, pa: u64, now: u64) -> (u64, HitLevel) {
        self.0.push(LineAddr(TABLES_FIRST_LINE + pa / 64));
        (now, HitLevel::Unknown)
    }

    fn walk_end(&mut self, _start: u64, _end: u64) {}
}

/// A server whose accesses go through TLBs.
struct Paged {
    server: Server,
    engines: Vec<Engine>,
    noted: Noted,
}

impl Paged {
    fn new(server: Server, cores: u8, size: PageSize) -> Result<Self> {
        let config = presets::by_name("contiguitas-table1")?;
        let bytes = |pages: u32| (u64::from(pages) * PAGE_BYTES).next_multiple_of(BLOCK_BYTES);
        let (user, all) = (bytes(server.user_pages()), bytes(server.data_pages()));
        let engine = || -> Result<Engine> {
            stop::checkpoint();
            // Equal frame sources: the page tables of all cores lie at the same addresses.
            let frames = Box::new(IdealFrames::new(1 << 40));
            let mut engine = Engine::new(&config, schemes::paging(), frames, 1)?;
            // Buffers and the cores' own data keep 4 KB pages; the table is what gains. The
            // kernel maps its data with large pages either way.
            engine.premap(BASE, BLOCK_BYTES, PageSize::K4)?;
            engine.premap(BASE + BLOCK_BYTES, user - BLOCK_BYTES, size)?;
            engine.premap(BASE + user, all - user, PageSize::M2)?;
            Ok(engine)
        };
        Ok(Self {
            server,
            engines: (0..cores).map(|_| engine()).collect::<Result<_>>()?,
            noted: Noted::default(),
        })
    }

    /// Look-ups without time until TLBs and the last level are as after a long run: what their
    /// translations and data touch, in order, and all of the kernel's data. `other` makes requests
    /// as the server does.
    fn warm_up(&mut self, mut other: Server) -> Vec<LineAddr> {
        let mut lines = Vec::new();
        let cores = self.engines.len() as u32;
        for n in 0..WARM_UP_LOOKUPS {
            if n % 4096 == 0 {
                stop::checkpoint();
            }
            let core = (n % cores) as u8;
            let (page, index) = other.look_up(core, n / cores);
            let op = CoreAccess {
                gap: 0,
                page,
                index,
                write: false,
                dependent: false,
            };
            self.translation(core, &op, &mut lines);
            let first = u64::from(page) * PAGE_BYTES / 64;
            lines.push(LineAddr(first + u64::from(index)));
        }
        let kernel = self.server.kernel_pages();
        let page_lines = PAGE_BYTES / 64;
        let kernel = u64::from(kernel.start) * page_lines..u64::from(kernel.end) * page_lines;
        lines.extend(kernel.map(LineAddr));
        lines
    }

    fn walks(&self) -> u64 {
        self.engines.iter().map(|e| e.mmu.stats.walks()).sum()
    }
}

impl CoreProgram for Paged {
    fn next(&mut self, core: u8) -> CoreAccess {
        self.server.next(core)
    }

    fn next_dma(&mut self) -> Option<(u64, Option<CoreAccess>)> {
        self.server.next_dma()
    }

    fn waited_instructions(&self) -> u64 {
        self.server.waited_instructions()
    }

    fn translation(&mut self, core: u8, op: &CoreAccess, reads: &mut Vec<LineAddr>) -> u64 {
        let va = BASE + u64::from(op.page) * PAGE_BYTES + u64::from(op.index) * 64;
        let intent = if op.write {
            Intent::Write
        } else {
            Intent::Read
        };
        let engine = &mut self.engines[usize::from(core)];
        let done = engine.translate(va, intent, 0, &mut self.noted);
        reads.append(&mut self.noted.0);
        // Everything is mapped: there is no fault to take.
        done.map_or(0, |translated| translated.done)
    }

    fn invalidate(&mut self, core: u8, page: u32) {
        let va = BASE + u64::from(page) * PAGE_BYTES;
        let mmu = &mut self.engines[usize::from(core)].mmu;
        mmu.invalidate(
            &ample_translate::Inval::Page {
                va,
                size: PageSize::K4,
            },
            1,
        );
    }
}

/// What one run yields.
#[derive(Clone, Copy)]
pub(super) struct HugePageRun {
    pub(super) ipc: f64,
    pub(super) walks_per_1000: f64,
    pub(super) reads_per_walk: f64,
    pub(super) walk_cycles_ratio: f64,
}

pub(super) fn simulate(
    parameters: &HugePageParams,
    requests: Requests,
    (table_gb, rate_per_s): (f64, f64),
    seed: u64,
    size: PageSize,
) -> Result<HugePageRun> {
    let memory = MemoryParams {
        engine: parameters.way.engine(MemoryParams::table1().engine),
        ..MemoryParams::table1()
    };
    let service = Service::Memcached;
    let table_pages = (table_gb * f64::from(1 << 30)) as u64 / PAGE_BYTES;
    let table_pages = u32::try_from(table_pages)?;
    let server = |seed| Server::with_table(service, memory.cores, table_pages, requests, seed);
    let core = CoreParams::table1();
    let mut paged = Paged::new(server(seed), memory.cores, size)?;
    let warm = paged.warm_up(server(!seed));
    let placement = PagePlacement::single(paged.server.data_pages(), 64);
    let mut machine = MultiCore::new(&memory, core, OsParams::default(), paged, placement, seed)?;
    warm.into_iter().for_each(|line| machine.memory.warm(line));
    let per_us = memory.clock_ghz * 1e3;
    let start = (parameters.warm_up_us * per_us) as u64;
    advance(&mut machine, 0, start);
    let before = (
        machine.work(),
        machine.program().walks(),
        machine.walk_reads,
        machine.walk_cycles,
    );
    let end = start + (parameters.measured_us * per_us) as u64;
    let interval = per_us * 1e6 / rate_per_s.max(1e-9);
    let mut next = start as f64 + interval / 2.0;
    let buffers = Server::buffer_pages(memory.cores);
    let (mut page, mut now) = (0, start);
    while rate_per_s > 0.0 && next < end as f64 {
        advance(&mut machine, now, next as u64);
        now = next as u64;
        machine
            .requests
            .push((page % buffers, parameters.way.mover()));
        (page, next) = (page + 1, next + interval);
    }
    advance(&mut machine, now, end);
    machine
        .check_values()
        .with_context(|| format!("seed {seed}"))?;
    let instructions = (machine.work() - before.0) as f64;
    let walks = (machine.program().walks() - before.1) as f64;
    let core_cycles = (end - start) as f64 * f64::from(memory.cores);
    Ok(HugePageRun {
        ipc: instructions / core_cycles,
        walks_per_1000: 1000.0 * walks / instructions,
        reads_per_walk: (machine.walk_reads - before.2) as f64 / walks.max(1.0),
        walk_cycles_ratio: (machine.walk_cycles - before.3) as f64 / core_cycles,
    })
}
