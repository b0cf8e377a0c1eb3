// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine the checker explores: cores, a NIC, slices, and messages in no particular order.
//!
//! Data are one bit: *is this the last write?* A write makes its own copy fresh and all others
//! stale, so that runs of any length have finitely many states. This is exact because the
//! protocol never looks at data.

use super::config::{CheckConfig, DeadLine};
use crate::protocol::{
    Busy, Cached, Controller, CoreSide, Directory, Envelope, HomeLine, LineAddr, LineStore,
    Mapping, Message, OsMigration, Party, PlantedFault, PrivateLines, Protocol, RequestKind, Role,
    Slice, Todo, VirtualFunction,
};

/// Lines a slice is home of, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FewLines<V = bool>(pub Vec<(LineAddr, HomeLine<V>)>);

impl<V> LineStore<V> for FewLines<V> {
    fn line(&mut self, at: LineAddr) -> &mut HomeLine<V> {
        let found = self.0.iter_mut().find(|(line, _)| *line == at);
        &mut found.expect("the slice is home of the line").1
    }
}

/// The private cache of a core: a place for each line, so that only the checker evicts; or with
/// room for one line that can be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EachLine<V = bool>(pub Vec<Cached<V>>, pub CacheRoom);

/// How many lines a private cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CacheRoom {
    /// All there are.
    All,
    /// One; those that are written back have a place of their own.
    One,
}

impl<V: Copy> PrivateLines<V> for EachLine<V> {
    fn line(&mut self, line: LineAddr) -> Option<&mut Cached<V>> {
        Some(&mut self.0[line.0 as usize])
    }

    fn put(&mut self, line: LineAddr, cached: Cached<V>) -> Option<(LineAddr, Cached<V>)> {
        self.0[line.0 as usize] = cached;
        let held = (0..).map(LineAddr).zip(&mut self.0);
        let mut others = held.filter(|(at, held)| *at != line && held.readable().is_some());
        let (victim, held) = others.next().filter(|_| self.1 == CacheRoom::One)?;
        Some((victim, std::mem::take(held)))
    }

    fn leave(&mut self, line: LineAddr, cached: Cached<V>) {
        self.0[line.0 as usize] = cached;
    }

    fn take(&mut self, line: LineAddr) -> Option<Cached<V>> {
        Some(std::mem::replace(
            &mut self.0[line.0 as usize],
            Cached::Invalid,
        ))
    }
}

/// A core with its TLB and private cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelCore {
    /// For each page of data: the side its TLB entry names.
    pub tlb: Vec<Option<Role>>,
    /// Private cache, marks, and accesses that wait, each with its number.
    pub side: CoreSide<EachLine, u8>,
    /// Numbers of the accesses under way, a bit each.
    pub open: u8,
    /// Of these, the stores.
    pub stores: u8,
    /// Of these, the flush instructions.
    pub flushes: u8,
}

impl ModelCore {
    /// The state of a line in the private cache.
    pub fn cached(&self, line: LineAddr) -> Cached<bool> {
        self.side.lines.0[line.0 as usize]
    }

    /// All lines of the private cache.
    pub fn lines(&self) -> impl Iterator<Item = (LineAddr, Cached<bool>)> {
        let lines = self.side.lines.0.iter().copied();
        (0..).map(LineAddr).zip(lines)
    }

    /// Sets the state of a line.
    pub fn set(&mut self, line: LineAddr, cached: Cached<bool>) {
        self.side.lines.0[line.0 as usize] = cached;
    }
}

/// The NIC: a TLB behind an IOTLB, no cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelNic {
    /// Device TLB.
    pub tlb: Vec<Option<Role>>,
    /// Translations that the IOMMU caches.
    pub iotlb: Vec<Option<Role>>,
    /// Answers of the IOMMU that are under way.
    pub translating: Vec<Option<Role>>,
    /// The DMA that waits, at most one at a time: its line, and whether it writes.
    pub pending: Option<(LineAddr, bool)>,
}

/// A state of the whole machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Cores by number.
    pub cores: Vec<ModelCore>,
    /// The device that writes by DMA.
    pub nic: ModelNic,
    /// Slices of the last-level cache.
    pub slices: Vec<Slice<FewLines>>,
    /// Work queue and completion records.
    pub controller: Controller,
    /// One migration for each page of data.
    pub os: Vec<OsMigration>,
    /// Whether it is the second one of its page.
    pub moved_again: Vec<bool>,
    /// Messages under way, sorted: any may arrive next.
    pub net: Vec<Envelope<bool>>,
    /// Whether the host's function has been reset.
    pub was_reset: bool,
    /// What went wrong in the step that led here.
    pub error: Option<&'static str>,
}

impl State {
    /// Page `p` of data lies in lines `2pL..` (source) and moves to `2pL + L..`.
    pub fn initial(config: &CheckConfig) -> Self {
        let rules = &config.rules;
        let lines = config.lines();
        let total = u64::from(config.pages) * 2 * u64::from(lines);
        let mut slices: Vec<_> = (0..rules.slices)
            .map(|id| Slice::new(id, FewLines(Vec::new())))
            .collect();
        for at in (0..total).map(LineAddr) {
            let is_source = (at.0 / u64::from(lines)) % 2 == 0;
            let home = usize::from(rules.home(at));
            slices[home].lines.0.push((at, HomeLine::new(is_source)));
        }
        let pages = usize::from(config.pages);
        let core = ModelCore {
            tlb: vec![None; pages],
            side: CoreSide::new(EachLine(vec![Cached::Invalid; total as usize], config.room)),
            open: 0,
            stores: 0,
            flushes: 0,
        };
        let mut state = Self {
            cores: vec![core; usize::from(rules.cores)],
            nic: ModelNic {
                tlb: vec![None; pages],
                iotlb: vec![None; pages],
                translating: vec![None; pages],
                pending: None,
            },
            slices,
            controller: Controller::default(),
            os: (0..config.pages)
                .map(|p| OsMigration::new(config.mapping(p)))
                .collect(),
            moved_again: vec![false; pages],
            net: Vec::new(),
            was_reset: false,
            error: None,
        };
        if config.guest {
            let map = config.mapping(1);
            state.controller.grant(VirtualFunction {
                function: config.function(1),
                first: map.src,
                lines: 2 * u64::from(map.lines),
                entries: 1,
            });
        }
        if let Some(dead) = config.dead_line {
            let tag = config.mapping(0).dst;
            let (cached, directory) = match dead {
                DeadLine::Modified => (Cached::Modified(false), Directory::Owned { tag, owner: 0 }),
                DeadLine::Shared => (Cached::Shared(false), Directory::Shared { tag, sharers: 1 }),
            };
            state.cores[0].set(tag, cached);
            state.home_line(config, tag).directory = directory;
        }
        state
    }

    /// The rules, with the slices that are left.
    pub fn rules(&self, config: &CheckConfig) -> Protocol {
        Protocol {
            slices: self.slices.len() as u8,
            ..config.rules
        }
    }

    /// Whether the last slice may be taken offline: when nothing is under way, as for each change
    /// of the hash. Migrations that rest, *installed* or *copied*, may be in the tables, which are
    /// then the same in all slices.
    pub fn can_go_offline(&self, config: &CheckConfig) -> bool {
        let all = self.slices.len() == usize::from(config.rules.slices);
        let moving = config.rules.fault == Some(PlantedFault::OfflineWhileMoving);
        let engine = |message| matches!(message, Message::EngineStep(_) | Message::Turn(_));
        let mut lines = self.slices.iter().flat_map(|slice| &slice.lines.0);
        let mut net = self.net.iter();
        all && self.slices.len() > 1
            && net.all(|envelope| moving && engine(envelope.message))
            && lines.all(|(_, line)| !line.is_busy())
    }

    /// Takes the last slice offline: its lines go to the homes that the hash then gives.
    pub fn go_offline(&mut self, config: &CheckConfig) {
        let gone = self.slices.pop().map(|slice| slice.lines.0);
        let last = Party::Slice(self.slices.len() as u8);
        self.net.retain(|envelope| envelope.to != last);
        let rules = self.rules(config);
        let left = self.slices.iter_mut();
        let all = left.flat_map(|slice| std::mem::take(&mut slice.lines.0));
        let mut all: Vec<_> = all.chain(gone.into_iter().flatten()).collect();
        all.sort_unstable_by_key(|(at, _)| *at);
        for (at, line) in all {
            let home = usize::from(rules.home(at));
            self.slices[home].lines.0.push((at, line));
        }
    }

    /// Begins the second migration of a page. Sides are named anew: the page lies in the source.
    pub fn move_again(&mut self, page: usize) {
        let Mapping { src, dst, lines } = self.os[page].map;
        let (src, dst) = match self.os[page].pte {
            Role::Source => (src, dst),
            Role::Destination => (dst, src),
        };
        self.os[page] = OsMigration::new(Mapping { src, dst, lines });
        self.moved_again[page] = true;
        let devices = [
            &mut self.nic.tlb,
            &mut self.nic.iotlb,
            &mut self.nic.translating,
        ];
        let tlbs = self.cores.iter_mut().map(|core| &mut core.tlb);
        for tlb in tlbs.chain(devices) {
            // All of them are clean: what they hold is where the page lies.
            tlb[page] = tlb[page].map(|_| Role::Source);
        }
    }

    /// The line at its home.
    pub fn home_line(&mut self, config: &CheckConfig, at: LineAddr) -> &mut HomeLine<bool> {
        let home = usize::from(self.rules(config).home(at));
        self.slices[home].lines.line(at)
    }

    /// Page of data and index within it of a physical line.
    pub fn logical(config: &CheckConfig, line: LineAddr) -> (usize, u32) {
        let lines = u64::from(config.lines());
        ((line.0 / (2 * lines)) as usize, (line.0 % lines) as u32)
    }

    /// Whether a private cache has a line of data, under either name.
    pub fn is_cached(&self, of: (usize, u32), config: &CheckConfig) -> bool {
        let held = |(line, cached): (LineAddr, Cached<bool>)| {
            cached.readable().is_some() && Self::logical(config, line) == of
        };
        self.cores.iter().any(|core| core.lines().any(held))
    }

    /// Calls `f` for every copy of a line of data, wherever it is.
    pub fn each_copy(
        &mut self,
        config: &CheckConfig,
        of: (usize, u32),
        mut f: impl FnMut(&mut bool),
    ) {
        let same = |line: LineAddr| Self::logical(config, line) == of;
        for slice in &mut self.slices {
            let lines = slice.lines.0.iter_mut();
            lines
                .filter(|(at, _)| same(*at))
                .for_each(|(_, line)| f(&mut line.data));
        }
        for core in &mut self.cores {
            for (at, cached) in core.side.lines.0.iter_mut().enumerate() {
                if same(LineAddr(at as u64)) {
                    match cached {
                        Cached::Invalid => {}
                        Cached::Shared(v) | Cached::Exclusive(v) | Cached::Modified(v) => f(v),
                        Cached::Evicting { data, .. } => f(data),
                    }
                }
            }
        }
        for envelope in &mut self.net {
            if let Some((line, data)) = carried(&mut envelope.message)
                && same(line)
            {
                f(data);
            }
        }
        self.net.sort_unstable();
    }

    /// A write has taken effect: all copies are stale. The caller then makes one fresh.
    pub fn stale_all(&mut self, config: &CheckConfig, line: LineAddr) {
        self.each_copy(config, Self::logical(config, line), |fresh| *fresh = false);
    }

    /// Puts a message under way.
    pub fn send(&mut self, envelope: Envelope<bool>) {
        let place = self.net.partition_point(|e| *e <= envelope);
        self.net.insert(place, envelope);
    }

    /// Nothing under way, every access answered, every migration over.
    pub fn is_quiet(&self) -> bool {
        use crate::protocol::OsPhase::{Done, Refused};
        self.net.is_empty()
            && !self.controller.has_work()
            && self.nic.pending.is_none()
            && self.cores.iter().all(|c| c.open == 0)
            && self
                .os
                .iter()
                .all(|os| matches!(os.phase, Done | Refused(_)))
    }

    /// The same state with cores renamed: core `c` becomes `to[c]`.
    fn renamed(&self, to: &[u8]) -> Self {
        let mut new = self.clone();
        let agent = |a: u8| to.get(usize::from(a)).copied().unwrap_or(a);
        let bits = |set: u64| {
            (0..to.len())
                .filter(|c| set >> c & 1 == 1)
                .fold(0, |new, c| new | 1u64 << to[c])
        };
        for (c, core) in self.cores.iter().enumerate() {
            new.cores[usize::from(to[c])] = core.clone();
        }
        for os in &mut new.os {
            let devices = os.stale_tlbs >> to.len() << to.len();
            os.stale_tlbs = devices | u128::from(bits(os.stale_tlbs as u64));
        }
        for (_, line) in new.slices.iter_mut().flat_map(|s| &mut s.lines.0) {
            match &mut line.directory {
                Directory::Idle => {}
                Directory::Shared { sharers, .. } => *sharers = bits(*sharers),
                Directory::Owned { owner, .. } => *owner = agent(*owner),
            }
            if let Busy::Probing { waiting, todo, .. } = &mut line.busy {
                *waiting = bits(*waiting);
                if let Todo::Serve(request) = todo {
                    request.agent = agent(request.agent);
                }
            }
        }
        for envelope in &mut new.net {
            for node in [&mut envelope.from, &mut envelope.to] {
                if let Party::Agent(a) = node {
                    *a = agent(*a);
                }
            }
            match &mut envelope.message {
                Message::Request(request) => request.agent = agent(request.agent),
                Message::ProbeReply { agent: a, .. } => *a = agent(*a),
                Message::Handover { owner, .. } => *owner = agent(*owner),
                _ => {}
            }
        }
        new.net.sort_unstable();
        new
    }

    /// Cores are alike: the renaming with the least cores stands for all of them. Ties (equal
    /// cores that differ in who knows of them) keep their order, which costs states, not
    /// soundness.
    pub fn representative(self) -> Self {
        let mut order: Vec<u8> = (0..self.cores.len() as u8).collect();
        order.sort_by(|&a, &b| {
            let key = |c: u8| (&self.cores[usize::from(c)], self.stale_bits(c));
            key(a).cmp(&key(b))
        });
        if order.is_sorted() {
            return self;
        }
        let mut to = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            to[usize::from(old)] = new as u8;
        }
        self.renamed(&to)
    }

    fn stale_bits(&self, core: u8) -> u32 {
        self.os
            .iter()
            .fold(0, |bits, os| bits << 1 | (os.stale_tlbs >> core & 1) as u32)
    }
}

/// The line and data a message carries, if it carries a copy.
fn carried(message: &mut Message<bool>) -> Option<(LineAddr, &mut bool)> {
    match message {
        Message::Request(request) => match &mut request.kind {
            RequestKind::WriteBack(v) => Some((request.line, v)),
            _ => None,
        },
        Message::ProbeReply { at, data, .. } => data.as_mut().map(|v| (*at, v)),
        Message::Data { line, data, .. } => Some((*line, data)),
        Message::CopyWrite { map, index, data } => Some((map.line(Role::Source, *index), data)),
        _ => None,
    }
}
