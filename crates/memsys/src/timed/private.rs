// SPDX-License-Identifier: MIT OR Apache-2.0
//! The private caches of one core: an L1 of tags inside an L2 that holds the lines, MSHRs with
//! non-cacheable marks, and lines on their way out.

use super::cache::SetAssoc;
use super::memory::LineMap;
use super::params::MemoryParams;
use super::shadow::Shadow;
use crate::protocol::{Cached, Grant, LineAddr, Mapping, Message, Role};

#[derive(Clone, Debug)]
struct Mshr {
    line: LineAddr,
    write: bool,
    once: bool,
    /// Accesses that joined later: token and whether a store.
    joined: Vec<(u64, bool)>,
    token: u64,
}

/// What a miss needs.
pub enum Miss {
    /// Try again later.
    Refused,
    /// An earlier miss will bring the line.
    Joined,
    /// Ask the home; `true`: once, without caching.
    Send(bool),
}

/// What a message to the core leads to.
#[derive(Default)]
pub struct Reply {
    /// An answer to this slice.
    pub to_home: Option<(u8, Message<u64>)>,
    /// A modified line that had to leave.
    pub write_back: Option<(LineAddr, u64)>,
    /// A request: line, store, once.
    pub ask: Option<(LineAddr, bool, bool)>,
}

/// The caches.
#[derive(Clone)]
pub struct PrivateCache {
    id: u8,
    l1: SetAssoc<()>,
    l2: SetAssoc<Cached<u64>>,
    l1_cycles: u64,
    l2_cycles: u64,
    leaving: LineMap<Cached<u64>>,
    mshrs: Vec<Mshr>,
    capacity: usize,
    marks: Vec<Mapping>,
    /// Accesses that ended in the last message: token and extra cycles.
    pub ended: Vec<(u64, u64)>,
}

impl PrivateCache {
    pub(super) fn new(id: u8, params: &MemoryParams) -> Self {
        Self {
            id,
            l1: SetAssoc::new(&params.l1),
            l2: SetAssoc::new(&params.l2),
            l1_cycles: params.l1.latency_cycles,
            l2_cycles: params.l2.latency_cycles,
            leaving: LineMap::default(),
            mshrs: Vec::new(),
            capacity: params.mshrs as usize,
            marks: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Performs the access when the caches allow it; returns its latency.
    pub(super) fn hit(&mut self, line: LineAddr, write: bool, shadow: &mut Shadow) -> Option<u64> {
        let in_l1 = self.l1.touch(line).is_some();
        let cached = self.l2.touch(line)?;
        let value = cached.readable()?;
        if write && !cached.is_writable() {
            return None;
        }
        shadow.check(line, value);
        if write {
            *cached = Cached::Modified(shadow.store(line));
        }
        if in_l1 {
            return Some(self.l1_cycles);
        }
        self.l1.insert(line, ());
        Some(self.l2_cycles)
    }

    pub(super) fn miss(&mut self, line: LineAddr, write: bool, token: u64) -> Miss {
        if self.leaving.contains_key(&line) {
            return Miss::Refused;
        }
        if let Some(mshr) = self.mshrs.iter_mut().find(|m| m.line == line) {
            mshr.joined.push((token, write));
            return Miss::Joined;
        }
        if self.mshrs.len() >= self.capacity {
            return Miss::Refused;
        }
        let once = self.is_marked(line);
        self.mshrs.push(Mshr {
            line,
            write,
            once,
            joined: Vec::new(),
            token,
        });
        Miss::Send(once)
    }

    fn is_marked(&self, line: LineAddr) -> bool {
        self.marks
            .iter()
            .any(|map| matches!(map.locate(line), Some((Role::Source, _))))
    }

    pub(super) fn message(&mut self, message: Message<u64>, shadow: &mut Shadow) -> Reply {
        let mut reply = Reply::default();
        match message {
            Message::Data {
                line,
                at,
                home,
                data,
                grant,
            } => {
                reply.to_home = Some((home, Message::Unblock { at }));
                self.fill(line, data, grant, shadow, &mut reply);
            }
            Message::Once { line, .. } => self.once_done(line, &mut reply),
            Message::Nack { line } => {
                // The page is marked as a whole by the announcement; a refusal marks its line's
                // page of 64 lines.
                let base = LineAddr(line.0 & !63);
                self.mark(Mapping {
                    src: base,
                    dst: LineAddr(u64::MAX - 64),
                    lines: 64,
                });
                if let Some(mshr) = self.mshrs.iter_mut().find(|m| m.line == line) {
                    mshr.once = true;
                    reply.ask = Some((line, mshr.write, true));
                }
            }
            Message::WriteBackDone { line } => {
                self.leaving.remove(&line);
            }
            Message::Probe {
                line,
                at,
                home,
                probe,
            } => {
                let (data, kept) = match self.leaving.get_mut(&line) {
                    Some(cached) => cached.probe(probe),
                    None => match self.l2.peek(line) {
                        Some(cached) => cached.probe(probe),
                        None => (None, false),
                    },
                };
                if !kept {
                    self.l1.remove(line);
                    self.l2.remove(line);
                }
                let answer = Message::ProbeReply {
                    at,
                    agent: self.id,
                    data,
                    kept,
                };
                reply.to_home = Some((home, answer));
            }
            Message::Mark(map) => self.mark(map),
            Message::Unmark(map) => self.marks.retain(|m| map.locate(m.src).is_none()),
            _ => unreachable!("not a message for a core"),
        }
        reply
    }

    fn mark(&mut self, map: Mapping) {
        if !self.is_marked(map.src) {
            self.marks.push(map);
        }
    }

    fn take_mshr(&mut self, line: LineAddr) -> Option<Mshr> {
        let place = self.mshrs.iter().position(|m| m.line == line)?;
        Some(self.mshrs.swap_remove(place))
    }

    fn fill(
        &mut self,
        line: LineAddr,
        data: u64,
        grant: Grant,
        shadow: &mut Shadow,
        reply: &mut Reply,
    ) {
        let Some(mshr) = self.take_mshr(line) else {
            return;
        };
        shadow.check(line, data);
        let mut cached = Cached::Invalid;
        cached.fill(grant, data);
        if mshr.write {
            cached = Cached::Modified(shadow.store(line));
        }
        self.ended.push((mshr.token, 0));
        let mut later: Option<Mshr> = None;
        for (token, write) in mshr.joined {
            if write && !cached.is_writable() {
                match &mut later {
                    Some(mshr) => mshr.joined.push((token, true)),
                    None => {
                        later = Some(Mshr {
                            line,
                            write: true,
                            once: false,
                            joined: Vec::new(),
                            token,
                        });
                    }
                }
                continue;
            }
            if write {
                cached = Cached::Modified(shadow.store(line));
            }
            self.ended.push((token, 0));
        }
        if let Some(mut mshr) = later {
            mshr.once = self.is_marked(line);
            reply.ask = Some((line, true, mshr.once));
            self.mshrs.push(mshr);
        }
        self.l1.insert(line, ());
        if let Some((victim, mut old)) = self.l2.insert(line, cached) {
            self.l1.remove(victim);
            if let Some(data) = old.evict() {
                self.leaving.insert(victim, old);
                reply.write_back = Some((victim, data));
            }
        }
    }

    fn once_done(&mut self, line: LineAddr, reply: &mut Reply) {
        let Some(mut mshr) = self.take_mshr(line) else {
            return;
        };
        self.ended.push((mshr.token, 0));
        // Those that joined are served one after the other, each in the last level.
        if !mshr.joined.is_empty() {
            let (token, write) = mshr.joined.remove(0);
            mshr.once = self.is_marked(line);
            (mshr.token, mshr.write) = (token, write);
            reply.ask = Some((line, write, mshr.once));
            self.mshrs.push(mshr);
        }
    }
}
