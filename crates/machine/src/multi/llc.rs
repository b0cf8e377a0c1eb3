// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data array of the last level: what lies in it, what must come from memory, and what the
//! copy engine fetches before it needs it.

use super::below::{Fill, Held, Reader, Ready};
use super::memory::CoherentMemory;
use ample_memory::Arrival;
use ample_migration::protocol::{
    Directory, Envelope, LineAddr, LineRequest, Mapping, Message, Phase, RequestKind, Role,
};

impl CoherentMemory {
    /// Data that come into a slice fill its array.
    pub(super) fn note_data_in(&mut self, now: u64, s: u8, message: &Message<u64>) {
        let line = match *message {
            Message::Request(LineRequest {
                line,
                kind: RequestKind::WriteBack(_),
                ..
            }) => line,
            Message::ProbeReply {
                at, data: Some(_), ..
            } => at,
            Message::CopyWrite { map, index, .. } => map.line(Role::Destination, index),
            _ => return,
        };
        self.fill_llc(now, s, line, true);
    }

    /// Puts a line into a slice, or marks it dirty there. What leaves for it goes to memory.
    fn fill_llc(&mut self, now: u64, s: u8, line: LineAddr, dirty: bool) {
        let tags = &mut self.slices[usize::from(s)].tags;
        match dirty {
            true => tags.write_back(&mut self.dram, line.0, now),
            false if tags.cache.holds(line.0) => {}
            false => tags.install(&mut self.dram, line.0, ((), false), now),
        }
    }

    /// Puts a clean line into the last level, as a long run before would have.
    pub fn warm(&mut self, line: LineAddr) {
        let home = self.rules.home(line);
        self.fill_llc(0, home, line, false);
    }

    /// When a slice has the data of `line` in hand.
    pub(super) fn data_ready(&mut self, now: u64, s: u8, line: LineAddr, reader: Reader) -> Ready {
        let dirty = reader == Reader::Writer;
        let latency = self.params.slice_cycles();
        let tags = &mut self.slices[usize::from(s)].tags;
        let on_arrival = |earliest| Ready::OnArrival {
            line,
            earliest,
            extra: 0,
        };
        if tags.cache.lookup(line.0, dirty).is_some() {
            let fill = match self.arriving.is_empty() {
                true => None,
                false => self.arriving.get(&line),
            };
            return match fill {
                None => Ready::At(now + latency),
                Some(Fill::Asked(_)) => on_arrival(now + latency),
                Some(&Fill::At(at)) => {
                    self.arriving.remove(&line);
                    Ready::At(at.max(now + latency))
                }
            };
        }
        let ready = self.ask_memory(line, now + latency / 2, reader);
        let tags = &mut self.slices[usize::from(s)].tags;
        tags.install(&mut self.dram, line.0, ((), dirty), now);
        debug_assert!(
            ready.is_none_or(|at| at > now),
            "an answer before the question"
        );
        ready.map_or_else(|| on_arrival(now), Ready::At)
    }

    /// When the engine goes on after a line that it has just copied within its slice, if it has.
    pub(super) fn copied_here(&mut self, now: u64, s: u8) -> Ready {
        let Some((map, index)) = self.out.copied_here.take() else {
            return Ready::At(now);
        };
        let ready = self.data_ready(now, s, map.line(Role::Source, index), Reader::Engine);
        let filled = match ready {
            Ready::At(at) => at,
            Ready::OnArrival { earliest, .. } => earliest,
        };
        self.fill_llc(filled, s, map.line(Role::Destination, index), true);
        ready.later(self.params.slice_cycles() / 4)
    }

    /// What the engine of a slice reads from memory before it copies: the whole page when an
    /// entry is installed, or some lines ahead of the one it works on. Only the data array is
    /// filled; the protocol does not notice.
    pub(super) fn fetch_early(&mut self, now: u64, s: u8, message: &Message<u64>) {
        let engine = self.params.engine;
        let lines = match *message {
            Message::Install(map) if engine.fetch_at_install => Some((map, 0, map.lines)),
            Message::Turn(map) | Message::EngineStep(map) if engine.read_ahead_lines > 0 => {
                let slice = &self.slices[usize::from(s)].protocol;
                let copying = slice.table.get(map).filter(|e| e.phase == Phase::Copying);
                copying.map(|entry| (map, entry.next, u32::from(engine.read_ahead_lines)))
            }
            _ => None,
        };
        if let Some((map, from, count)) = lines {
            self.fetch_lines(now, s, map, from, count);
        }
    }

    fn fetch_lines(&mut self, now: u64, s: u8, map: Mapping, from: u32, count: u32) {
        let rules = self.rules;
        let own = |line: &LineAddr| rules.home(*line) == s;
        let lines = (from..map.lines).map(|i| map.line(Role::Source, i));
        for line in lines.filter(own).take(count as usize) {
            let slice = &mut self.slices[usize::from(s)];
            // A line that a core owns will come from there.
            let owned = matches!(
                slice.protocol.lines.peek(line).map(|home| home.directory),
                Some(Directory::Owned { .. })
            );
            if owned || slice.tags.cache.holds(line.0) {
                continue;
            }
            let arrives =
                self.ask_memory(line, now + self.params.slice_cycles() / 2, Reader::Engine);
            self.fill_llc(now, s, line, false);
            if let Some(at) = arrives {
                self.arriving.insert(line, Fill::At(at));
            }
        }
    }

    /// Asks memory for a line: when it will be there, if that is known.
    pub(super) fn ask_memory(&mut self, line: LineAddr, at: u64, reader: Reader) -> Option<u64> {
        self.counters.llc_misses += 1;
        let first = self.params.engine.copies_first && reader == Reader::Engine;
        let known = self.dram.read(line, at, first);
        if known.is_none() {
            let asked = || Fill::Asked(Vec::new());
            self.arriving.entry(line).or_insert_with(asked);
        }
        known
    }

    /// Sends a message when it is ready; returns when it arrives, if that is known.
    pub(super) fn post(&mut self, ready: Ready, envelope: Envelope<u64>) -> Option<u64> {
        match ready {
            Ready::At(at) => Some(self.ring.post(at, envelope)),
            Ready::OnArrival {
                line,
                earliest,
                extra,
            } => {
                let held = Held {
                    envelope,
                    earliest,
                    extra,
                };
                match self.arriving.get_mut(&line) {
                    Some(Fill::Asked(waiting)) => {
                        waiting.push(held);
                        None
                    }
                    _ => Some(self.ring.post(earliest + extra, envelope)),
                }
            }
        }
    }

    /// Lets memory issue its commands up to `until`.
    pub(super) fn run_memory(&mut self, until: u64) {
        for Arrival { line, at } in self.dram.run_until(until) {
            let line = LineAddr(line);
            match self.arriving.remove(&line) {
                // Fetched early: whoever wants it first will wait.
                Some(Fill::Asked(waiting)) if waiting.is_empty() => {
                    self.arriving.insert(line, Fill::At(at));
                }
                Some(Fill::Asked(waiting)) => {
                    for held in waiting {
                        let ready = at.max(held.earliest) + held.extra;
                        self.ring.post(ready, held.envelope);
                    }
                }
                Some(known) => {
                    self.arriving.insert(line, known);
                }
                None => {}
            }
        }
    }
}
