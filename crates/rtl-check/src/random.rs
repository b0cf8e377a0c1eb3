// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random sequences: pages that the host and guests move while cores and a device use them,
//! commands that make no sense, resets.

use crate::server::ServerTraffic;
use crate::trace::PageNumbering;
use crate::world::World;
use ample_kit::random::Xoshiro256;
use ample_migration::protocol::{
    Command, Completion, HOST, LineAddr, Mapping, OsMigration, OsPhase, Protocol, Role, Status,
    VirtualFunction,
};
use std::io::Write;

/// A page of data, where it lies, and what moves it.
struct Page {
    lines: u32,
    at: u64,
    os: Option<OsMigration>,
    /// The guest whose frames it lies in.
    guest: u8,
    /// Who moves it: the host or that guest.
    mover: u8,
}

/// The driver of a random run.
pub struct RandomRun<W: Write> {
    world: World<W>,
    random: Xoshiro256,
    pages: Vec<Page>,
    /// First lines of free frames, by size.
    free: Vec<(u32, u64)>,
    /// Translations: of each core, then of the device and of its IOMMU.
    tlbs: Vec<Vec<Option<u64>>>,
    /// How often a descriptor makes no sense, in 1000 steps.
    bad_per_mille: u32,
    /// A server's accesses; none: every page is as good as any other.
    server: Option<ServerTraffic>,
    /// The page that moved last, while it moves.
    moving: Option<usize>,
}

/// The guest that has the frames of large pages, the one of small pages, and one without any.
const GUESTS: [u8; 3] = [1, 2, 3];

/// Frames of either size for each page of data, so that moves never want for a frame.
const FRAMES: u64 = 2;

impl<W: Write> RandomRun<W> {
    /// A machine with `small` and `large` pages of data.
    pub fn new(
        world: World<W>,
        sizes: PageNumbering,
        (small, large): (u32, u32),
        seed: u64,
    ) -> Self {
        let mut run = Self {
            world,
            random: Xoshiro256::new(seed),
            pages: Vec::new(),
            free: Vec::new(),
            tlbs: Vec::new(),
            bad_per_mille: 20,
            server: None,
            moving: None,
        };
        run.lay_out(sizes, small, large);
        run
    }

    /// A machine whose cores and device do what a server's do, while the host moves its network
    /// buffers.
    pub fn serving(
        world: World<W>,
        traffic: ServerTraffic,
        sizes: PageNumbering,
        seed: u64,
    ) -> Self {
        let mut run = Self::new(world, sizes, (0, 0), seed);
        let lines = 1 << sizes.small_log2;
        let page = |n: u32| Page {
            lines,
            at: u64::from(n) * u64::from(lines),
            os: None,
            guest: HOST,
            mover: HOST,
        };
        let pages = traffic.pages();
        run.pages = (0..pages).map(page).collect();
        run.free = (pages..pages + ServerTraffic::SPARE_FRAMES)
            .map(|n| (lines, page(n).at))
            .collect();
        run.tlbs = vec![vec![None; run.pages.len()]; run.world.cores.len() + 2];
        run.bad_per_mille = 0;
        run.server = Some(traffic);
        run
    }

    fn lay_out(&mut self, sizes: PageNumbering, small: u32, large: u32) {
        let mut next = 0;
        let mut frames = |guest: u8, lines: u32, pages: u32, run: &mut Self| {
            let first = next;
            for _ in 0..pages {
                for frame in 0..FRAMES {
                    match frame {
                        0 => run.pages.push(Page {
                            lines,
                            at: next,
                            os: None,
                            guest,
                            mover: HOST,
                        }),
                        _ => run.free.push((lines, next)),
                    }
                    next += u64::from(lines);
                }
            }
            run.world.grant(VirtualFunction {
                function: guest,
                first: LineAddr(first),
                lines: next - first,
                entries: guest,
            });
        };
        frames(GUESTS[0], 1 << sizes.large_log2, large, self);
        frames(GUESTS[1], 1 << sizes.small_log2, small, self);
        let agents = self.world.cores.len() + 2;
        self.tlbs = vec![vec![None; self.pages.len()]; agents];
    }

    /// All is as after power-on, in another configuration.
    pub fn reset(&mut self, rules: Protocol) {
        self.world.reset(rules);
        for page in &mut self.pages {
            if let Some(os) = page.os.take() {
                self.free.push((page.lines, os.map.dst.0));
            }
        }
        for tlb in &mut self.tlbs {
            tlb.fill(None);
        }
    }

    /// Whether somebody still reads the trace, and how many events it has.
    pub fn progress(&self) -> (bool, u64) {
        (self.world.tracer.is_open(), self.world.tracer.events)
    }

    /// The machine, at the end.
    pub fn into_world(self) -> World<W> {
        self.world
    }

    /// One step.
    pub fn step(&mut self) {
        let net = self.world.net.len() as u32;
        match self.random.below(100) {
            0..60 if net > 0 => {
                let place = self.random.below(net) as usize;
                self.world.deliver(place);
            }
            0..75 => self.access(),
            75..80 => self.device(),
            80..83 if self.server.is_none() => self.evict(),
            83..88 if self.world.controller.has_work() => self.world.take_command(),
            88..99 => self.os_step(),
            _ if self.server.is_some() => self.access(),
            _ => self.submit_nonsense(),
        }
        self.read_records();
    }

    fn any_page(&mut self) -> usize {
        self.random.below(self.pages.len() as u32) as usize
    }

    /// A page that may be moved: of a server the one that moves, else one of its buffers.
    fn movable_page(&mut self) -> usize {
        let Some(traffic) = &self.server else {
            return self.any_page();
        };
        let buffers = traffic.buffers();
        self.moving = self.moving.filter(|page| self.pages[*page].os.is_some());
        self.moving
            .unwrap_or_else(|| self.random.below(buffers) as usize)
    }

    /// A line of a page under the translation that an agent has; it walks when it has none.
    fn translate(&mut self, agent: usize, page: usize) -> LineAddr {
        let index = self.random.below(self.pages[page].lines);
        self.translated(agent, page, index)
    }

    fn translated(&mut self, agent: usize, page: usize, index: u32) -> LineAddr {
        let at = match &self.pages[page].os {
            Some(os) => os.map.line(os.pte, 0).0,
            None => self.pages[page].at,
        };
        let base = *self.tlbs[agent][page].get_or_insert(at);
        LineAddr(base + u64::from(index))
    }

    fn access(&mut self) {
        let core = self.random.below(u32::from(self.world.rules.cores)) as u8;
        if let Some(op) = self.server.as_mut().map(|traffic| traffic.next(core)) {
            let line = self.translated(usize::from(core), op.page as usize, op.index);
            self.world.access(core, line, op.write);
            self.make_room(core);
            return;
        }
        let page = self.any_page();
        let line = self.translate(usize::from(core), page);
        let write = self.random.chance(0.5);
        self.world.access(core, line, write);
    }

    /// A private cache of a server holds so many lines; any of them goes.
    fn make_room(&mut self, core: u8) {
        let held = &self.world.cores[usize::from(core)].lines.0;
        if held.len() <= ServerTraffic::PRIVATE_LINES {
            return;
        }
        let all = self.pages.len() as u64 * u64::from(self.pages[0].lines);
        let from = LineAddr(self.random.next_u64() % all);
        let after = held.range(from..).next().or(held.iter().next());
        if let Some((&line, _)) = after {
            self.world.evict(core, line);
        }
    }

    fn device(&mut self) {
        if self.world.device.is_some() {
            return;
        }
        let dma = self.server.as_mut().and_then(ServerTraffic::next_dma);
        let page = match (&dma, &self.server) {
            (Some(op), _) => op.page as usize,
            (None, Some(_)) => return,
            (None, None) => self.any_page(),
        };
        let device = usize::from(self.world.rules.cores);
        // The device's TLB fills from the IOTLB.
        if self.tlbs[device][page].is_none() {
            self.translate(device + 1, page);
            self.tlbs[device][page] = self.tlbs[device + 1][page];
        }
        if let Some(op) = dma {
            let line = self.translated(device, page, op.index);
            self.world.device_access(line, op.write);
            return;
        }
        let line = self.translate(device, page);
        let write = self.random.chance(0.5);
        self.world.device_access(line, write);
    }

    fn evict(&mut self) {
        let core = self.random.below(u32::from(self.world.rules.cores)) as u8;
        let held = &self.world.cores[usize::from(core)].lines.0;
        if held.is_empty() {
            return;
        }
        let nth = self.random.below(held.len() as u32) as usize;
        let line = *held.keys().nth(nth).expect("below the number of lines");
        self.world.evict(core, line);
    }

    fn os_step(&mut self) {
        let page = self.movable_page();
        let rules = self.world.rules;
        let mover = self.pages[page].mover;
        let Some(os) = &mut self.pages[page].os else {
            // A server's buffers move one at a time.
            if self.server.is_none() || self.moving.is_none() {
                self.begin(page);
            }
            return;
        };
        if let Some(command) = os.next_command(&rules) {
            if self.world.submit(mover, command) {
                os.submitted(&rules);
            }
        } else if os.can_abort() && self.random.chance(0.05) {
            os.abort(&rules);
        } else {
            self.invalidate(page);
        }
    }

    fn begin(&mut self, page: usize) {
        let (lines, at) = (self.pages[page].lines, self.pages[page].at);
        let fits: Vec<usize> = (0..self.free.len())
            .filter(|&f| self.free[f].0 == lines)
            .collect();
        if fits.is_empty() {
            return;
        }
        let chosen = fits[self.random.below(fits.len() as u32) as usize];
        let (_, frame) = self.free.swap_remove(chosen);
        let guest = self.server.is_none() && self.random.chance(0.5);
        self.pages[page].mover = if guest { self.pages[page].guest } else { HOST };
        self.moving = Some(page);
        self.pages[page].os = Some(OsMigration::new(Mapping {
            src: LineAddr(at),
            dst: LineAddr(frame),
            lines,
        }));
    }

    /// One stale TLB changes, when its agent has no access under way.
    fn invalidate(&mut self, page: usize) {
        let rules = self.world.rules;
        let cores = usize::from(rules.cores);
        let agent = self.random.below(cores as u32 + 2) as usize;
        let busy = match agent {
            core if core < cores => !self.world.cores[core].misses().is_empty(),
            device if device == cores => self.world.device.is_some(),
            _ => false,
        };
        let Some(os) = &mut self.pages[page].os else {
            return;
        };
        let tlb = 1 << agent;
        if !busy && os.may_invalidate(&rules, tlb) {
            self.tlbs[agent][page] = None;
            os.invalidated(&rules, tlb);
        }
    }

    /// Completion records go to the migrations that they are about; refusals of nonsense to nobody.
    fn read_records(&mut self) {
        let rules = self.world.rules;
        for Completion {
            command, status, ..
        } in std::mem::take(&mut self.world.records)
        {
            let mine = |os: &OsMigration| os.map == command.map();
            let page = self
                .pages
                .iter_mut()
                .find(|page| page.os.as_ref().is_some_and(mine));
            let Some(page) = page else { continue };
            let Some(os) = &mut page.os else { continue };
            os.completed(&rules, status);
            if let OsPhase::Refused(status) = os.phase {
                panic!("the operating system was refused a command: {status:?}");
            }
            if os.phase == OsPhase::Done {
                let moved = os.pte == Role::Destination;
                let (src, dst) = (os.map.src.0, os.map.dst.0);
                let (at, left) = if moved { (dst, src) } else { (src, dst) };
                page.at = at;
                page.os = None;
                self.free.push((page.lines, left));
            }
        }
    }

    /// A descriptor that has to be refused: the queue is empty, so that it is taken at once.
    fn submit_nonsense(&mut self) {
        // Of the host, of either guest, or of one that has no frames.
        let function = self.random.below(1 + GUESTS.len() as u32) as u8;
        if self.random.below(40) == 0 {
            return self.world.reset_function(function);
        }
        if self.world.controller.has_work() || self.random.below(1000) >= 50 * self.bad_per_mille {
            return;
        }
        let command = self.nonsense();
        let mut trial = self.world.controller.clone();
        let rules = &self.world.rules;
        let mut out = ample_migration::protocol::Outbox::<bool>::default();
        let refused = trial.submit_as(rules, function, command).is_ok()
            && trial
                .take_next(rules, &mut out)
                .is_some_and(|c| !matches!(c.status, Status::TableFull));
        if refused && self.world.submit(function, command) {
            self.world.take_command();
            // Its record is not for a migration that is under way.
            self.world.records.clear();
        }
    }

    /// A descriptor that has to be refused, or nearly so.
    fn nonsense(&mut self) -> Command {
        let page = self.any_page();
        let (lines, at) = (self.pages[page].lines, self.pages[page].at);
        let other = self.any_page();
        let known = self.pages[other].os.as_ref().map(|os| os.map);
        // For a large page often no multiple of its size.
        let elsewhere = LineAddr(self.pages[other].at);
        let map = |src: u64, dst: LineAddr| Mapping {
            src: LineAddr(src),
            dst,
            lines,
        };
        let start = self.random.chance(0.5);
        let rules_end = self.world.rules.memory_lines;
        let beyond = LineAddr(rules_end - u64::from(lines));
        let free = self.free.iter().find(|frame| frame.0 == lines);
        match self.random.below(8) {
            // Good for the host and for the guest that has the frames.
            7 => Command::Migrate {
                map: map(at, LineAddr(free.map_or(at, |frame| frame.1))),
                start,
            },
            5 => Command::Migrate {
                map: map(at, LineAddr(rules_end)),
                start,
            },
            6 => Command::Clear {
                map: map(rules_end, beyond),
            },
            0 => Command::Migrate {
                map: map(at, LineAddr(at)),
                start,
            },
            1 => Command::Clear {
                map: map(at, elsewhere),
            },
            2 => Command::Migrate {
                map: known.unwrap_or(map(at, LineAddr(at))),
                start,
            },
            3 => Command::Clear {
                map: known.unwrap_or(map(at, elsewhere)),
            },
            _ => Command::Migrate {
                map: known.map_or(map(at, LineAddr(at)), |m| Mapping {
                    src: m.dst,
                    dst: m.src,
                    lines: m.lines,
                }),
                start,
            },
        }
    }
}
