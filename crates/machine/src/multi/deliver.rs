// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages that arrive: what a party makes of them, and when its answers leave.

use super::below::{Parked, Reader, Ready};
use super::memory::CoherentMemory;
use super::private::Completed;
use ample_migration::protocol::{
    Busy, Envelope, LineAddr, LineStore, Message, Party, Role, Taken, Todo,
};

fn is_the_engines(busy: &Busy<u64>) -> bool {
    let engine = |todo: &Todo<u64>| matches!(todo, Todo::Engine(_));
    match busy {
        Busy::Probing { todo, .. } => engine(todo),
        Busy::Copying | Busy::Copied => true,
        Busy::Free | Busy::AwaitUnblock => false,
    }
}

impl CoherentMemory {
    /// Delivers all messages up to and including cycle `until`.
    pub fn run_until(&mut self, until: u64) {
        while let Some(at) = self.next_event().filter(|&at| at <= until) {
            if self.dram.next_event() == Some(at) {
                self.run_memory(at);
            } else if let Some((at, envelope)) = self.ring.take(at) {
                self.deliver(at, envelope);
            }
        }
    }

    fn deliver(&mut self, now: u64, envelope: Envelope<u64>) {
        self.counters.messages += 1;
        match envelope.to {
            Party::Slice(s) => self.deliver_to_slice(now, s, envelope),
            Party::Controller => {
                let record = self
                    .controller
                    .handle(&self.rules, envelope.message, &mut self.out);
                self.records.extend(record.map(|record| (now, record)));
                self.flush(now, None, Ready::At(now));
            }
            Party::Agent(a) if a < self.params.cores => {
                self.followed.answered(now, &envelope);
                self.deliver_to_core(now, a, envelope.message);
            }
            Party::Agent(_) => {
                if let Message::Once { line, .. } = envelope.message {
                    let asked = self.devices.get_mut(&line);
                    let asked = asked.expect("a device that is answered has asked");
                    let (agent, token) = asked.pop_front().expect("empty queues are removed");
                    if asked.is_empty() {
                        self.devices.remove(&line);
                    }
                    let at = now;
                    self.completed.push(Completed { agent, token, at });
                }
            }
        }
    }

    fn deliver_to_slice(&mut self, now: u64, s: u8, envelope: Envelope<u64>) {
        let slice = &mut self.slices[usize::from(s)];
        debug_assert_eq!(slice.protocol.id, s, "the message is another slice's");
        let start = now.max(slice.free_at);
        slice.free_at = start + 2;
        self.at_slice(start, s, envelope);
        if let Message::ProbeReply { at, .. } | Message::Unblock { at } = envelope.message {
            self.wake(start + 2, s, at);
        }
        while let Some(at) = self.out.freed.pop() {
            self.wake(start + 2, s, at);
        }
    }

    /// Gives a message to a slice; it is put aside when its line is busy.
    fn at_slice(&mut self, now: u64, s: u8, envelope: Envelope<u64>) {
        let slice = &mut self.slices[usize::from(s)].protocol;
        match slice.handle(&self.rules, envelope.message, &mut self.out) {
            Taken::Busy(at) => {
                let by_engine = is_the_engines(&slice.lines.line(at).busy);
                let parked = Parked {
                    since: now,
                    by_engine,
                    envelope,
                };
                self.waiting.entry(at).or_default().push_back(parked);
            }
            Taken::Yes => {
                self.note_data_in(now, s, &envelope.message);
                let engine = self.copied_here(now, s);
                self.flush(now, Some(s), engine);
                self.fetch_early(now, s, &envelope.message);
            }
        }
    }

    /// Delivers what waited for line `at`, until it is busy again.
    fn wake(&mut self, now: u64, s: u8, at: LineAddr) {
        while !self.slices[usize::from(s)]
            .protocol
            .lines
            .line(at)
            .is_busy()
            && let Some(queue) = self.waiting.get_mut(&at)
        {
            let parked = queue.pop_front();
            if queue.is_empty() {
                self.waiting.remove(&at);
            }
            if let Some(parked) = parked {
                if parked.by_engine {
                    let waited = now.saturating_sub(parked.since);
                    self.followed.waited(&parked.envelope, waited);
                }
                self.at_slice(now, s, parked.envelope);
            }
        }
    }

    /// Sends what a party produced at cycle `now`; `slice` says which one, if it was a slice, and
    /// `engine` when its engine goes on.
    pub(super) fn flush(&mut self, now: u64, slice: Option<u8>, engine: Ready) {
        let written = self.out.performed.take().is_some_and(|performed| {
            self.shadow.performed(&performed);
            performed.written.is_some()
        });
        let tag_cycles = self.params.slice_cycles() / 4;
        let mut sent = std::mem::take(&mut self.out.sent);
        for envelope in sent.drain(..) {
            let table = self.params.engine.table_cycles;
            let at = |cycles: u64| Ready::At(now + cycles);
            let ready = match (envelope.message, slice) {
                (Message::Data { at, .. }, Some(s)) => {
                    self.data_ready(now, s, at, Reader::Agent).later(table)
                }
                (Message::Once { line, .. }, Some(s)) => {
                    let reader = if written {
                        Reader::Writer
                    } else {
                        Reader::Agent
                    };
                    self.data_ready(now, s, line, reader).later(table)
                }
                (Message::CopyWrite { map, index, .. }, Some(s)) => {
                    self.data_ready(now, s, map.line(Role::Source, index), Reader::Engine)
                }
                (Message::EngineStep(_), _) => engine.later(self.params.engine.step_cycles),
                // The purge looks at one line a cycle.
                (Message::Installed(map), _) => at(tag_cycles + u64::from(map.lines)),
                (Message::Request(_), Some(_)) => {
                    self.counters.forwards += 1;
                    at(tag_cycles + table)
                }
                (Message::Nack { .. }, _) => {
                    self.counters.nacks += 1;
                    at(tag_cycles + table)
                }
                (_, Some(_)) => at(tag_cycles),
                (_, None) => at(0),
            };
            let arrives = self.post(ready, envelope);
            if let (Message::Request(_), Some(_), Some(at)) = (envelope.message, slice, arrives) {
                self.followed.forwarded(&envelope, at - now);
            }
        }
        self.out.sent = sent;
        debug_assert!(self.out.performed.is_none() && self.out.copied_here.is_none());
    }
}
