// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies below the last level: memory that serves in order and knows at once when a line will
//! be there, or one that reorders and says so later.

use super::lines::LineMap;
use ample_memory::{Arrival, BadParams, Dram, DramConfig, MainMemory, ReorderingDram};
use ample_migration::protocol::{Envelope, LineAddr};

/// Main memory, as its configuration has it.
#[derive(Clone)]
pub(super) enum MemoryBelow {
    InOrder(Dram),
    Reordering(ReorderingDram),
}

impl MemoryBelow {
    pub(super) fn new(config: &DramConfig, unit_ns: f64) -> Result<Self, BadParams> {
        Ok(match &config.reorder {
            None => Self::InOrder(Dram::new(config, unit_ns)?),
            Some(reorder) => Self::Reordering(ReorderingDram::new(config, reorder, unit_ns)?),
        })
    }

    /// Asks for a line, before others that wait if `first`; when it will be there, if that is
    /// known.
    pub(super) fn read(&mut self, line: LineAddr, now: u64, first: bool) -> Option<u64> {
        match self {
            Self::InOrder(dram) => return Some(dram.read(line.0, now)),
            Self::Reordering(dram) if first => dram.read_first(line.0, now),
            Self::Reordering(dram) => dram.read(line.0, now),
        }
        None
    }

    pub(super) fn next_event(&self) -> Option<u64> {
        match self {
            Self::InOrder(_) => None,
            Self::Reordering(dram) => dram.next_event(),
        }
    }

    pub(super) fn run_until(&mut self, until: u64) -> Vec<Arrival> {
        match self {
            Self::InOrder(_) => Vec::new(),
            Self::Reordering(dram) => dram.run_until(until).collect(),
        }
    }
}

impl MainMemory for MemoryBelow {
    fn write(&mut self, line: u64, now: u64) {
        match self {
            Self::InOrder(dram) => dram.write(line, now),
            Self::Reordering(dram) => dram.write(line, now),
        }
    }
}

/// Who wants a line of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A core or a device.
    Agent,
    /// One that changes the line here.
    Writer,
    /// The copy engine.
    Engine,
}

/// When something can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    At(u64),
    /// `extra` cycles after this line has come from memory, and after `earliest`.
    OnArrival {
        line: LineAddr,
        earliest: u64,
        extra: u64,
    },
}

impl Ready {
    /// The same, some cycles later.
    pub(super) fn later(self, cycles: u64) -> Self {
        match self {
            Self::At(at) => Self::At(at + cycles),
            Self::OnArrival {
                line,
                earliest,
                extra,
            } => Self::OnArrival {
                line,
                earliest,
                extra: extra + cycles,
            },
        }
    }
}

/// A message that waits for a line from memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) envelope: Envelope<u64>,
    pub(super) earliest: u64,
    pub(super) extra: u64,
}

/// A line on its way from memory, which the data array has room for already.
#[derive(Clone, Debug)]
pub(super) enum Fill {
    /// It is there at this cycle.
    At(u64),
    /// Memory has not said; these messages wait.
    Asked(Vec<Held>),
}

/// Lines on their way.
pub(super) type Fills = LineMap<Fill>;

/// A message that waits for its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parked {
    pub(super) since: u64,
    /// The copy engine has the line in hand.
    pub(super) by_engine: bool,
    pub(super) envelope: Envelope<u64>,
}
