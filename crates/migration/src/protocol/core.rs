// SPDX-License-Identifier: MIT OR Apache-2.0
//! A core's side of the protocol: what it asks for on a miss, and what it does with each message.
//!
//! Where lines lie (arrays of bounded size, or a place for each line) and what data mean (values,
//! or "is this the last write?") is the owner's; every decision is here, so that the checker
//! explores the transitions that the simulator times.

use super::private::Cached;
use super::types::{LineAddr, LineRequest, Mapping, Message, Outbox, Party, Protocol, RequestKind};

/// Where the lines of a core's private caches lie.
pub trait PrivateLines<V> {
    /// The state of a line that is held, or on its way out.
    fn line(&mut self, line: LineAddr) -> Option<&mut Cached<V>>;
    /// Takes in a granted line, in place of what is held of it. Returns the line, as it was held,
    /// that has to go for it.
    fn put(&mut self, line: LineAddr, cached: Cached<V>) -> Option<(LineAddr, Cached<V>)>;
    /// Keeps a line that is written back ([`Cached::Evicting`]) until its home has answered.
    fn leave(&mut self, line: LineAddr, cached: Cached<V>);
    /// Takes a line out, wherever it is.
    fn take(&mut self, line: LineAddr) -> Option<Cached<V>>;
}

/// What the accesses of a core find and do.
pub trait Observer<V, T> {
    /// A load, or a store (`write`), that missed was given this value with its line.
    fn given(&mut self, line: LineAddr, value: V, write: bool);
    /// A store takes effect in the private caches: returns the value it leaves there.
    fn store(&mut self, line: LineAddr) -> V;
    /// The value of a store that is to take effect in the last-level cache.
    fn store_once(&mut self) -> V;
    /// An access is over.
    fn ended(&mut self, token: T);
}

/// Pages whose lines bypass the private caches: each run of pages that moves together takes an MSHR
/// entry with the non-cacheable mark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MarkedPages {
    /// First and last page of each run, ascending.
    runs: Vec<(u64, u64)>,
}

impl MarkedPages {
    /// Whether a line's page is marked.
    pub fn contains(&self, rules: &Protocol, line: LineAddr) -> bool {
        let page = rules.page(line);
        let mut runs = self.runs.iter();
        runs.any(|&(first, last)| (first..=last).contains(&page))
    }

    /// MSHR entries that the marks take.
    pub fn entries(&self) -> usize {
        self.runs.len()
    }

    /// Takes an entry for a run of pages, if marks may take one more. Without it each access to
    /// the pages is refused and asked for uncached.
    fn insert(&mut self, rules: &Protocol, run: (u64, u64)) {
        if let Err(place) = self.runs.binary_search(&run)
            && self.runs.len() < usize::from(rules.mark_entries)
        {
            self.runs.insert(place, run);
        }
    }

    /// Marks the source.
    fn mark(&mut self, rules: &Protocol, map: Mapping) {
        let last = LineAddr(map.src.0 + u64::from(map.lines) - 1);
        self.insert(rules, (rules.page(map.src), rules.page(last)));
    }

    /// Lets the pages of both sides go: the destination may bear a mark of a former migration.
    fn unmark(&mut self, rules: &Protocol, map: Mapping) {
        self.runs.retain(|run| !begins_in(rules, map, run));
    }
}

fn begins_in(rules: &Protocol, map: Mapping, run: &(u64, u64)) -> bool {
    let first = LineAddr(run.0 * u64::from(rules.page_lines));
    map.locate(first).is_some()
}

/// An access that waits for its line (an MSHR).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Miss<T> {
    /// The line, under the mapping that the core's TLB gave.
    pub line: LineAddr,
    /// Store or load.
    pub write: bool,
    /// Neither: a flush instruction.
    flush: bool,
    /// The owner's name of the access.
    token: T,
    /// Accesses to the same line that came later: name, and whether a store.
    joined: Vec<(T, bool)>,
}

impl<T: Copy> Miss<T> {
    /// Names of the accesses that wait for the line.
    pub fn tokens(&self) -> impl Iterator<Item = T> {
        let joined = self.joined.iter().map(|&(token, _)| token);
        std::iter::once(self.token).chain(joined)
    }
}

/// What became of an access that no private cache could perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issued {
    /// Nothing: no MSHR is free, or the line is being written back. Try again later.
    Refused,
    /// An earlier miss brings the line.
    Joined,
    /// The home was asked.
    Asked,
}

/// The private caches and MSHRs of a core.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CoreSide<L, T> {
    /// Lines in the private caches.
    pub lines: L,
    misses: Vec<Miss<T>>,
    marks: MarkedPages,
}

/// One step of a core: who takes it, by which rules, and what it leads to.
pub struct CoreStep<'a, V, O> {
    /// The rules of the machine.
    pub rules: &'a Protocol,
    /// Number of the core.
    pub core: u8,
    /// Told of accesses and data.
    pub observer: &'a mut O,
    /// Messages to send.
    pub out: &'a mut Outbox<V>,
}

impl<V, O> CoreStep<'_, V, O> {
    fn reply(&mut self, home: u8, message: Message<V>) {
        let (from, to) = (Party::Agent(self.core), Party::Slice(home));
        self.out.send(from, to, message);
    }

    fn tell_controller(&mut self, message: Message<V>) {
        let from = Party::Agent(self.core);
        self.out.send(from, Party::Controller, message);
    }

    fn request(&mut self, line: LineAddr, kind: RequestKind<V>) {
        let request = LineRequest::new(self.core, line, kind);
        self.reply(self.rules.home(line), Message::Request(request));
    }
}

impl<L, T: Copy> CoreSide<L, T> {
    /// A core without misses and marks.
    pub fn new(lines: L) -> Self {
        Self {
            lines,
            misses: Vec::new(),
            marks: MarkedPages::default(),
        }
    }

    /// First and last page of each run of marked pages, ascending.
    pub fn marks(&self) -> &[(u64, u64)] {
        &self.marks.runs
    }

    /// Accesses that wait, one for each line.
    pub fn misses(&self) -> &[Miss<T>] {
        &self.misses
    }

    /// An access that the private caches could not perform ([`Cached::permits`]); `capacity` MSHR
    /// entries are there for lines that are waited for and for marks.
    pub fn miss<V: Copy, O: Observer<V, T>>(
        &mut self,
        step: &mut CoreStep<'_, V, O>,
        line: LineAddr,
        (write, token): (bool, T),
        capacity: usize,
    ) -> Issued
    where
        L: PrivateLines<V>,
    {
        if let Some(Cached::Evicting { .. }) = self.lines.line(line) {
            return Issued::Refused;
        }
        if let Some(miss) = self.misses.iter_mut().find(|m| m.line == line) {
            miss.joined.push((token, write));
            return Issued::Joined;
        }
        if self.misses.len() + self.marks.entries() >= capacity {
            return Issued::Refused;
        }
        let miss = Miss {
            line,
            write,
            flush: false,
            token,
            joined: Vec::new(),
        };
        self.ask(step, miss);
        Issued::Asked
    }

    /// A flush instruction (CLFLUSH): takes a line out of all private caches. The home asks those
    /// that have it, this core as well. It ends like an access that bypasses the private caches.
    pub fn flush<V: Copy, O: Observer<V, T>>(
        &mut self,
        step: &mut CoreStep<'_, V, O>,
        line: LineAddr,
        token: T,
        capacity: usize,
    ) -> Issued
    where
        L: PrivateLines<V>,
    {
        let leaves = matches!(self.lines.line(line), Some(Cached::Evicting { .. }));
        let waits = self.misses.iter().any(|miss| miss.line == line);
        if leaves || waits || self.misses.len() + self.marks.entries() >= capacity {
            return Issued::Refused;
        }
        let miss = Miss {
            line,
            write: false,
            flush: true,
            token,
            joined: Vec::new(),
        };
        self.ask(step, miss);
        Issued::Asked
    }

    /// Asks the home for the line of a miss: to be cached, unless its page is marked.
    fn ask<V: Copy, O: Observer<V, T>>(&mut self, step: &mut CoreStep<'_, V, O>, miss: Miss<T>) {
        let once = self.marks.contains(step.rules, miss.line);
        self.ask_for(step, miss, once);
    }

    /// Asks the home for the line of a miss: to be cached, or (`once`) to be performed there.
    fn ask_for<V: Copy, O: Observer<V, T>>(
        &mut self,
        step: &mut CoreStep<'_, V, O>,
        miss: Miss<T>,
        once: bool,
    ) {
        debug_assert!(self.misses.iter().all(|m| m.line != miss.line));
        let kind = match (once, miss.write) {
            _ if miss.flush => RequestKind::Flush,
            (false, false) => RequestKind::GetShared,
            (false, true) => RequestKind::GetModified,
            (true, false) => RequestKind::ReadOnce,
            (true, true) => RequestKind::WriteOnce(step.observer.store_once()),
        };
        step.request(miss.line, kind);
        self.misses.push(miss);
    }

    fn take_miss(&mut self, line: LineAddr) -> Option<Miss<T>> {
        let place = self.misses.iter().position(|m| m.line == line);
        debug_assert!(place.is_some(), "an answer that nobody waits for: {line:?}");
        Some(self.misses.swap_remove(place?))
    }

    /// The private caches lose a line for want of room.
    pub fn evict<V: Copy, O>(&mut self, step: &mut CoreStep<'_, V, O>, line: LineAddr)
    where
        L: PrivateLines<V>,
    {
        if let Some(cached) = self.lines.take(line) {
            self.depart(step, line, cached);
        }
    }

    /// A line has been taken out: a modified one goes home, and is kept until it has arrived.
    fn depart<V: Copy, O>(
        &mut self,
        step: &mut CoreStep<'_, V, O>,
        line: LineAddr,
        mut cached: Cached<V>,
    ) where
        L: PrivateLines<V>,
    {
        if let Some(data) = cached.evict() {
            self.lines.leave(line, cached);
            step.request(line, RequestKind::WriteBack(data));
        }
    }

    /// Takes a message.
    pub fn receive<V: Copy, O: Observer<V, T>>(
        &mut self,
        step: &mut CoreStep<'_, V, O>,
        message: Message<V>,
    ) where
        L: PrivateLines<V>,
    {
        match message {
            Message::Data {
                line,
                at,
                home,
                data,
                grant,
            } => {
                step.reply(home, Message::Unblock { at });
                let mut cached = Cached::Invalid;
                cached.fill(grant, data);
                self.fill(step, line, cached);
            }
            Message::Once { line, .. } => self.done_once(step, line),
            Message::Nack { line } => {
                let page = step.rules.page(line);
                self.marks.insert(step.rules, (page, page));
                if let Some(miss) = self.take_miss(line) {
                    self.ask_for(step, miss, true);
                }
            }
            Message::WriteBackDone { line } => {
                if let Some(cached @ Cached::Evicting { .. }) = self.lines.line(line) {
                    cached.write_back_done();
                    self.lines.take(line);
                }
            }
            Message::Probe {
                line,
                at,
                home,
                probe,
            } => {
                let agent = step.core;
                let (data, kept) = match self.lines.line(line) {
                    Some(cached) => cached.probe(probe),
                    None => (None, false),
                };
                if let Some(Cached::Invalid) = self.lines.line(line) {
                    self.lines.take(line);
                }
                let answer = Message::ProbeReply {
                    at,
                    agent,
                    data,
                    kept,
                };
                step.reply(home, answer);
            }
            Message::Mark(map) => {
                self.marks.mark(step.rules, map);
                step.tell_controller(Message::Marked(map));
            }
            Message::Unmark(map) => {
                self.marks.unmark(step.rules, map);
                step.tell_controller(Message::Unmarked(map));
            }
            _ => unreachable!("not a message for a core"),
        }
    }

    /// A line has come for the access that asked for it, and for those that joined: loads are
    /// over, and stores too when the line may be written. The others ask again.
    fn fill<V: Copy, O: Observer<V, T>>(
        &mut self,
        step: &mut CoreStep<'_, V, O>,
        line: LineAddr,
        mut cached: Cached<V>,
    ) where
        L: PrivateLines<V>,
    {
        let (Some(miss), Some(value)) = (self.take_miss(line), cached.readable()) else {
            return;
        };
        step.observer.given(line, value, miss.write);
        if miss.write {
            debug_assert!(cached.is_writable());
            cached = Cached::Modified(step.observer.store(line));
        }
        step.observer.ended(miss.token);
        let mut later: Option<Miss<T>> = None;
        for (token, write) in miss.joined {
            match (cached.permits(write), &mut later) {
                (Some(_), _) => {
                    if write {
                        cached = Cached::Modified(step.observer.store(line));
                    }
                    step.observer.ended(token);
                }
                (None, Some(miss)) => miss.joined.push((token, write)),
                (None, None) => {
                    let joined = Vec::new();
                    later = Some(Miss {
                        line,
                        write,
                        flush: false,
                        token,
                        joined,
                    });
                }
            }
        }
        if let Some((victim, old)) = self.lines.put(line, cached) {
            self.depart(step, victim, old);
        }
        if let Some(miss) = later {
            self.ask(step, miss);
        }
    }

    /// An access was performed in the last level. Those that joined are, one after the other.
    fn done_once<V: Copy, O: Observer<V, T>>(
        &mut self,
        step: &mut CoreStep<'_, V, O>,
        line: LineAddr,
    ) {
        let Some(mut miss) = self.take_miss(line) else {
            return;
        };
        step.observer.ended(miss.token);
        if !miss.joined.is_empty() {
            (miss.token, miss.write) = miss.joined.remove(0);
            miss.flush = false;
            self.ask(step, miss);
        }
    }
}
