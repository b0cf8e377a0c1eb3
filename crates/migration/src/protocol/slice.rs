// SPDX-License-Identifier: MIT OR Apache-2.0
//! A slice of the last-level cache: routing by the metadata table, and the coherence of the
//! lines it is home of. The copy engine of the slice is in `engine.rs`.
//!
//! While a line has not been copied, the home of its *source* name orders all accesses to it,
//! whichever mapping they use; once it has been copied, the home of its destination name does.
//! Without such a single place two slices could each find "no copy under the opposite mapping"
//! at the same moment.

use super::faults::PlantedFault;
use super::home::{Busy, Directory, HomeLine, Plan, Todo};
use super::table::{MetadataEntry, MetadataTable, Phase};
use super::types::{
    Design, Envelope, LineAddr, LineRequest, Message, Outbox, Party, Performed, Probe, Protocol,
    RequestKind, Role, Taken,
};

/// Where a slice keeps its lines: a map in the simulator, a short list in the model checker.
pub trait LineStore<V> {
    /// The line, created with its initial data when it was never touched.
    fn line(&mut self, at: LineAddr) -> &mut HomeLine<V>;
}

/// A slice of the last-level cache, home of the lines that hash to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slice<S> {
    /// Number of the slice.
    pub id: u8,
    /// Its metadata table.
    pub table: MetadataTable,
    /// Lines of which it is the home.
    pub lines: S,
}

enum Route {
    Local(LineAddr),
    Forward { slice: u8, resolved: bool },
    Nack,
}

impl<S> Slice<S> {
    /// An empty slice.
    pub fn new(id: u8, lines: S) -> Self {
        Self {
            id,
            table: MetadataTable::default(),
            lines,
        }
    }

    pub(super) fn node(&self) -> Party {
        Party::Slice(self.id)
    }

    fn route<V: Copy>(&self, rules: &Protocol, request: &LineRequest<V>) -> Route {
        let line = request.line;
        let Some((entry, role, index)) = self.table.find(line) else {
            return self.towards(rules, line, line, true);
        };
        let map = entry.map;
        let other_side = map.line(Role::Destination, index);
        if role == Role::Source {
            if request.resolved {
                return self.towards(rules, other_side, other_side, true);
            }
            if !self.is_copied(rules, entry, index) {
                return self.towards(rules, line, line, false);
            }
            let wants_copy = matches!(
                request.kind,
                RequestKind::GetShared | RequestKind::GetModified
            );
            if wants_copy
                && rules.design == Design::NonCacheable
                && !rules.has(PlantedFault::NoNack)
            {
                return Route::Nack;
            }
            return self.towards(rules, other_side, other_side, true);
        }
        if request.resolved || entry.phase == Phase::Done {
            return self.towards(rules, line, line, true);
        }
        let source = map.line(Role::Source, index);
        if rules.home(source) != self.id {
            return self.towards(rules, source, source, false);
        }
        if self.is_copied(rules, entry, index) {
            self.towards(rules, line, line, true)
        } else {
            Route::Local(source)
        }
    }

    /// Serve `local` here when this is the home of `at`, else send the request there.
    fn towards(&self, rules: &Protocol, at: LineAddr, local: LineAddr, resolved: bool) -> Route {
        match rules.home(at) {
            slice if slice == self.id => Route::Local(local),
            slice => Route::Forward { slice, resolved },
        }
    }

    fn is_copied(&self, rules: &Protocol, entry: &MetadataEntry, index: u32) -> bool {
        entry.is_copied(index)
            || (rules.has(PlantedFault::PointerOffByOne)
                && entry.phase == Phase::Copying
                && index == entry.pointer)
    }

    /// Takes one message. On [`Taken::Busy`] nothing has changed.
    pub fn handle<V: Copy>(
        &mut self,
        rules: &Protocol,
        message: Message<V>,
        out: &mut Outbox<V>,
    ) -> Taken
    where
        S: LineStore<V>,
    {
        match message {
            Message::Request(request) => return self.request(rules, request, out),
            Message::ProbeReply {
                at,
                agent,
                data,
                kept,
            } => match self.lines.line(at).answer(agent, data, kept) {
                Some(Todo::Serve(request)) => return self.serve(rules, at, request, out),
                Some(Todo::Engine(map)) => self.engine_probed(rules, map, at, out),
                Some(Todo::Recall) | None => {}
            },
            Message::Unblock { at } => {
                let line = self.lines.line(at);
                debug_assert!(
                    matches!(line.busy, Busy::AwaitUnblock),
                    "{at:?} waits for nobody"
                );
                line.busy = Busy::Free;
            }
            other => return self.engine_message(rules, other, out),
        }
        Taken::Yes
    }

    fn request<V: Copy>(
        &mut self,
        rules: &Protocol,
        request: LineRequest<V>,
        out: &mut Outbox<V>,
    ) -> Taken
    where
        S: LineStore<V>,
    {
        match self.route(rules, &request) {
            Route::Local(at) => self.serve(rules, at, request, out),
            Route::Forward { slice, resolved } => {
                let origin = request.origin.or_else(|| self.count_forward(request.line));
                let request = LineRequest {
                    resolved,
                    origin,
                    ..request
                };
                out.send(self.node(), Party::Slice(slice), Message::Request(request));
                Taken::Yes
            }
            Route::Nack => {
                let line = request.line;
                debug_assert_eq!(request.origin, None, "the home of the source refuses");
                out.send(
                    self.node(),
                    Party::Agent(request.agent),
                    Message::Nack { line },
                );
                Taken::Yes
            }
        }
    }

    /// The directory needs room: takes a line back from the private caches, so that none holds what
    /// the directory does not list.
    pub fn recall<V: Copy>(&mut self, rules: &Protocol, at: LineAddr, out: &mut Outbox<V>) -> Taken
    where
        S: LineStore<V>,
    {
        let line = self.lines.line(at);
        if line.is_busy() {
            return Taken::Busy(at);
        }
        let Some((tag, cores)) = line.directory.holders() else {
            return Taken::Yes;
        };
        if rules.has(PlantedFault::RecallKeepsCopies) {
            line.directory = Directory::Idle;
            return Taken::Yes;
        }
        let probe = Probe::Invalidate;
        line.busy = Busy::Probing {
            probe,
            waiting: cores,
            todo: Todo::Recall,
        };
        send_probes(self.id, at, probe, tag, cores, out);
        Taken::Yes
    }

    /// Counts a request that this slice is the first to forward; returns its number.
    fn count_forward(&mut self, line: LineAddr) -> Option<u8> {
        let entry = self.table.find_mut(line)?;
        entry.forwards += 1;
        Some(self.id)
    }

    /// A request has found its home: the slice that forwarded it first need not wait any longer.
    fn tell_origin<V: Copy>(
        &mut self,
        rules: &Protocol,
        request: LineRequest<V>,
        out: &mut Outbox<V>,
    ) -> LineRequest<V> {
        let line = request.line;
        match request.origin {
            None => {}
            Some(own) if own == self.id => self.forward_served(rules, line, out),
            Some(slice) => out.send(self.node(), Party::Slice(slice), Message::Served { line }),
        }
        LineRequest {
            origin: None,
            ..request
        }
    }

    /// Serves a request on line `at`, of which this slice is the home.
    fn serve<V: Copy>(
        &mut self,
        rules: &Protocol,
        at: LineAddr,
        request: LineRequest<V>,
        out: &mut Outbox<V>,
    ) -> Taken
    where
        S: LineStore<V>,
    {
        let (me, id) = (self.node(), self.id);
        if self.lines.line(at).is_busy() {
            return Taken::Busy(at);
        }
        let request = self.tell_origin(rules, request, out);
        let home = self.lines.line(at);
        let agent = Party::Agent(request.agent);
        let line = request.line;
        match home.plan(rules, &request) {
            Plan::Probe { probe, tag, cores } => {
                home.busy = Busy::Probing {
                    probe,
                    waiting: cores,
                    todo: Todo::Serve(request),
                };
                send_probes(id, at, probe, tag, cores, out);
            }
            Plan::Grant(grant) => {
                home.record(line, request.agent, grant);
                home.busy = Busy::AwaitUnblock;
                let data = home.data;
                let message = Message::Data {
                    line,
                    at,
                    home: id,
                    data,
                    grant,
                };
                out.send(me, agent, message);
            }
            Plan::InPlace => {
                let before = home.data;
                let written = match request.kind {
                    RequestKind::WriteOnce(v) => Some(v),
                    _ => None,
                };
                home.data = written.unwrap_or(before);
                out.performed = Some(Performed {
                    at,
                    line,
                    before,
                    written,
                });
                out.send(me, agent, Message::Once { line, data: before });
            }
            Plan::WriteBack { current } => {
                if let (true, RequestKind::WriteBack(data)) = (current, request.kind) {
                    home.data = data;
                    home.directory = Default::default();
                }
                out.send(me, agent, Message::WriteBackDone { line });
            }
        }
        Taken::Yes
    }
}

/// Asks each core in the bit set.
pub(super) fn send_probes<V>(
    home: u8,
    at: LineAddr,
    probe: Probe,
    line: LineAddr,
    cores: u64,
    out: &mut Outbox<V>,
) {
    debug_assert_ne!(cores, 0, "a line that waits for nobody stays closed");
    let mut left = cores;
    while left != 0 {
        let core = left.trailing_zeros() as u8;
        left &= left - 1;
        out.sent.push(Envelope {
            from: Party::Slice(home),
            to: Party::Agent(core),
            message: Message::Probe {
                line,
                at,
                home,
                probe,
            },
        });
    }
}
