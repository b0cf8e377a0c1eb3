// SPDX-License-Identifier: MIT OR Apache-2.0
//! One channel: its queues, its banks, and which command comes next.

use super::{Arrival, ReorderConfig, Timing};
use std::collections::VecDeque;

/// A line to be read or written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) line: u64,
    pub(super) bank: usize,
    pub(super) row: u64,
    pub(super) write: bool,
    /// A read that passes those of others in the queue.
    pub(super) first: bool,
    /// When it reaches the controller.
    pub(super) arrives: u64,
    /// What it took to open its row: 0 nothing, 1 an activation, 2 a precharge too.
    pub(super) opened: usize,
}

/// A command of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Activate {
        bank: usize,
        row: u64,
    },
    Precharge {
        bank: usize,
    },
    Column {
        bank: usize,
        row: u64,
        write: bool,
    },
    #[cfg(test)]
    Refresh,
}

#[derive(Clone, Copy, Debug, Default)]
struct BankState {
    open: Option<u64>,
    /// Column commands since its row was opened.
    served: u32,
    activate_at: u64,
    column_at: u64,
    precharge_at: u64,
}

/// What to do now, or when to look again.
enum Choice {
    Issue(usize, Command),
    LookAt(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Channel {
    config: ReorderConfig,
    timing: Timing,
    banks: Vec<BankState>,
    /// Times of the last four activations, the oldest first, plus one each; 0: none.
    activations: [u64; 4],
    read_at: u64,
    write_at: u64,
    next_refresh: u64,
    /// When the command bus is free.
    command_at: u64,
    /// By arrival; not in a queue yet.
    incoming: VecDeque<Request>,
    reads: Vec<Request>,
    writes: Vec<Request>,
    is_draining: bool,
    /// When to look next.
    wake: u64,
    pub(super) row_state: [u64; 3],
    #[cfg(test)]
    pub(super) log: Vec<(u64, Command)>,
}

impl Channel {
    pub(super) fn new(config: ReorderConfig, timing: Timing, banks: u32) -> Self {
        Self {
            config,
            timing,
            banks: vec![BankState::default(); banks as usize],
            activations: [0; 4],
            read_at: 0,
            write_at: 0,
            next_refresh: match timing.trefi {
                0 => u64::MAX,
                trefi => trefi,
            },
            command_at: 0,
            incoming: VecDeque::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            is_draining: false,
            wake: u64::MAX,
            row_state: [0; 3],
            #[cfg(test)]
            log: Vec::new(),
        }
    }

    pub(super) fn next_event(&self) -> Option<u64> {
        (self.wake != u64::MAX).then_some(self.wake)
    }

    pub(super) fn submit(&mut self, request: Request) {
        let place = self
            .incoming
            .partition_point(|other| other.arrives <= request.arrives);
        self.incoming.insert(place, request);
        self.wake = self.wake.min(request.arrives.max(self.command_at));
    }

    pub(super) fn run_until(&mut self, until: u64, arrivals: &mut Vec<Arrival>) {
        while self.wake <= until {
            let now = self.wake;
            self.admit(now, arrivals);
            self.refresh(now);
            self.wake = match self.choose(now) {
                Choice::Issue(place, command) => {
                    self.issue(now, place, command, arrivals);
                    self.command_at = now + self.timing.clock;
                    self.command_at
                }
                Choice::LookAt(at) => at,
            };
        }
    }

    /// Takes in what has arrived, as far as the queues have room. A read of a line that waits to
    /// be written is answered from the queue; a second write of it replaces the first.
    fn admit(&mut self, now: u64, arrivals: &mut Vec<Arrival>) {
        while let Some(&request) = self.incoming.front() {
            let known = self.writes.iter().any(|w| w.line == request.line);
            let has_room = known
                || match request.write {
                    true => self.writes.len() < self.config.write_entries as usize,
                    false => self.reads.len() < self.config.read_entries as usize,
                };
            if request.arrives > now || !has_room {
                return;
            }
            self.incoming.pop_front();
            match (request.write, known) {
                (true, true) => self.row_state[0] += 1,
                (true, false) => self.writes.push(request),
                (false, true) => {
                    self.row_state[0] += 1;
                    let (line, at) = (request.line, now + self.timing.burst);
                    arrivals.push(Arrival { line, at });
                }
                (false, false) => {
                    let place = match request.first {
                        true => self.reads.partition_point(|read| read.first),
                        false => self.reads.len(),
                    };
                    self.reads.insert(place, request);
                }
            }
        }
    }

    /// Refreshes that are due by `now`: all rows are closed, and the banks are busy.
    fn refresh(&mut self, now: u64) {
        while self.next_refresh <= now {
            let due = self.next_refresh;
            let open = self.banks.iter().filter(|bank| bank.open.is_some());
            let closing = open.map(|bank| bank.precharge_at.max(due) + self.timing.trp);
            let closed = self.banks.iter().filter(|bank| bank.open.is_none());
            let waiting = closed.map(|bank| bank.activate_at);
            let start = closing.chain(waiting).max().unwrap_or(due).max(due);
            let end = start + self.timing.trfc;
            for bank in &mut self.banks {
                bank.open = None;
                bank.activate_at = bank.activate_at.max(end);
            }
            #[cfg(test)]
            self.log.push((start, Command::Refresh));
            self.next_refresh += self.timing.trefi;
        }
    }

    /// Whether writes are served now: from the high to the low mark, or while no read waits.
    fn turn(&mut self) -> bool {
        let waiting = self.writes.len();
        let none = self.reads.is_empty();
        self.is_draining = match self.is_draining {
            true => waiting > 0 && (waiting > self.config.write_low as usize || none),
            false => waiting >= self.config.write_high as usize || (none && waiting > 0),
        };
        self.is_draining
    }

    /// First column commands to open rows, then what opens rows for the oldest requests.
    fn choose(&mut self, now: u64) -> Choice {
        let write = self.turn();
        let queue = match write {
            true => &self.writes,
            false => &self.reads,
        };
        let bus_at = if write { self.write_at } else { self.read_at };
        let mut look_at = self.incoming.front().map_or(u64::MAX, |r| r.arrives);
        if look_at <= now {
            // It waits for room, which only a column command makes.
            look_at = u64::MAX;
        }
        let (mut passed, mut hit) = (0u64, 0u64);
        for (place, request) in queue.iter().enumerate() {
            let bank = &self.banks[request.bank];
            let bit = 1 << request.bank;
            if bank.open != Some(request.row) {
                passed |= bit;
                continue;
            }
            if passed & bit != 0 && bank.served >= self.config.row_hits {
                continue;
            }
            hit |= bit;
            let at = bank.column_at.max(bus_at);
            if at <= now {
                let (bank, row) = (request.bank, request.row);
                return Choice::Issue(place, Command::Column { bank, row, write });
            }
            look_at = look_at.min(at);
        }
        // The oldest request of each bank, unless its open row is wanted.
        let mut seen = hit;
        for (place, request) in queue.iter().enumerate() {
            let bit = 1 << request.bank;
            if seen & bit != 0 {
                continue;
            }
            seen |= bit;
            let bank = &self.banks[request.bank];
            let (at, command) = match bank.open {
                None => {
                    let (bank, row) = (request.bank, request.row);
                    (self.activate_at(bank), Command::Activate { bank, row })
                }
                Some(_) => {
                    let bank = request.bank;
                    (self.banks[bank].precharge_at, Command::Precharge { bank })
                }
            };
            if at <= now {
                return Choice::Issue(place, command);
            }
            look_at = look_at.min(at);
        }
        Choice::LookAt(look_at)
    }

    /// When a bank's row may be opened: its own rules, tRRD, and four activations a window.
    fn activate_at(&self, bank: usize) -> u64 {
        let after = |time: u64, distance: u64| match time {
            0 => 0,
            time => time - 1 + distance,
        };
        let window = after(self.activations[0], self.timing.tfaw);
        let last = after(self.activations[3], self.timing.trrd);
        self.banks[bank].activate_at.max(window).max(last)
    }

    fn issue(&mut self, now: u64, place: usize, command: Command, arrivals: &mut Vec<Arrival>) {
        let timing = self.timing;
        let queue = match self.is_draining {
            true => &mut self.writes,
            false => &mut self.reads,
        };
        match command {
            Command::Activate { bank, row } => {
                queue[place].opened = queue[place].opened.max(1);
                let state = &mut self.banks[bank];
                (state.open, state.served) = (Some(row), 0);
                state.column_at = now + timing.trcd;
                state.precharge_at = now + timing.tras;
                self.activations.rotate_left(1);
                self.activations[3] = now + 1;
            }
            Command::Precharge { bank } => {
                queue[place].opened = 2;
                let state = &mut self.banks[bank];
                state.open = None;
                state.activate_at = now + timing.trp;
            }
            Command::Column { bank, write, .. } => {
                let request = queue.remove(place);
                self.row_state[request.opened] += 1;
                let state = &mut self.banks[bank];
                state.served += 1;
                let latency = if write { timing.cwl } else { timing.cl };
                let end = now + latency + timing.burst;
                let (read_at, write_at, precharge_at) = match write {
                    true => (end + timing.twtr, now + timing.tccd, end + timing.twr),
                    false => {
                        // Two clocks between the data of a read and those of a write.
                        let turn = end + 2 * timing.clock;
                        (
                            now + timing.tccd,
                            turn.saturating_sub(timing.cwl),
                            now + timing.trtp,
                        )
                    }
                };
                state.precharge_at = state.precharge_at.max(precharge_at);
                self.read_at = self.read_at.max(read_at);
                self.write_at = self.write_at.max(write_at);
                if !write {
                    let line = request.line;
                    arrivals.push(Arrival { line, at: end });
                }
            }
            #[cfg(test)]
            Command::Refresh => {}
        }
        #[cfg(test)]
        self.log.push((now, command));
    }

    /// Whether a request that has arrived finds no room.
    #[cfg(test)]
    pub(super) fn has_waiting(&self) -> bool {
        !self.incoming.is_empty()
    }
}
