// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is explored: sizes, design, and what may happen.

use super::state::CacheRoom;
use crate::protocol::{Design, HOST, LineAddr, Mapping, PlantedFault, Protocol, SliceHash};

/// The function of the guest.
const GUEST: u8 = 2;

/// A bounded machine.
#[derive(Clone, Debug)]
pub struct CheckConfig {
    /// For tables of results.
    pub name: &'static str,
    /// Design, cores, slices, lines of a page, table size, planted fault.
    pub rules: Protocol,
    /// Pages of data, each of which migrates once.
    pub pages: u8,
    /// Whether each may migrate a second time: the frame that it left lives again while late
    /// messages of the first migration are under way.
    pub second_move: bool,
    /// Whether a NIC reads and writes.
    pub nic: bool,
    /// Whether the NIC has a TLB of its own. Without one each DMA is translated by the IOMMU.
    pub device_tlb: bool,
    /// Whether the answer to a translation request of the NIC may be late.
    pub late_translations: bool,
    /// Whether the host's function is reset once, at any time.
    pub reset: bool,
    /// Whether the second page is a guest's, which moves it through a virtual function.
    pub guest: bool,
    /// Accesses that a core may have under way at once.
    pub accesses: u8,
    /// Miss-status entries of a core, for accesses and marks.
    pub mshrs: u8,
    /// Whether private caches lose lines at any time.
    pub evictions: bool,
    /// How many lines a private cache holds.
    pub room: CacheRoom,
    /// Whether cores execute flush instructions.
    pub flushes: bool,
    /// Whether directories take lines back for want of room, at any time.
    pub recalls: bool,
    /// Whether the last slice is taken offline once, at any time at which that is allowed.
    pub offline: bool,
    /// Whether the OS may abort.
    pub aborts: bool,
    /// What core 0 holds of the destination's former life.
    pub dead_line: Option<DeadLine>,
    /// Whether acknowledgements arrive at once. They only end a wait, so that a late one allows
    /// nothing that an early one does not; fewer states.
    pub prompt_answers: bool,
    /// Whether answers to accesses arrive at once; fewer states.
    pub prompt_data: bool,
    /// Whether states that differ in the names of cores count once.
    pub symmetry: bool,
}

/// A line of a page that is free, in a private cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLine {
    /// It has been written.
    Modified,
    /// It has been read, and others may have it too.
    Shared,
}

impl CheckConfig {
    /// Two cores, no NIC, one line, one page, two slices, all events allowed.
    pub fn new(name: &'static str, design: Design) -> Self {
        Self {
            name,
            rules: Protocol {
                design,
                memory_lines: 4096,
                cores: 2,
                slices: 2,
                hash: SliceHash::Modulo,
                parallel_slices: false,
                copy_window: 1,
                announce: true,
                mark_entries: 1,
                table_entries: 2,
                queue_entries: 2,
                fault: None,
                page_lines: 1,
                page_orders: u32::MAX,
            },
            pages: 1,
            second_move: false,
            nic: false,
            device_tlb: true,
            late_translations: false,
            reset: false,
            guest: false,
            accesses: 1,
            // Beside the entries of marks there is one for the miss.
            mshrs: 2,
            evictions: true,
            room: CacheRoom::All,
            flushes: false,
            recalls: false,
            offline: false,
            aborts: design == Design::Cacheable,
            dead_line: None,
            prompt_answers: true,
            prompt_data: false,
            symmetry: true,
        }
    }

    /// With this error planted.
    pub fn with_fault(mut self, fault: PlantedFault) -> Self {
        self.rules.fault = Some(fault);
        self
    }

    /// Lines of a page.
    pub fn lines(&self) -> u32 {
        self.rules.page_lines
    }

    /// The function that moves page `p`.
    pub fn function(&self, p: usize) -> u8 {
        match self.guest && p == 1 {
            true => GUEST,
            false => HOST,
        }
    }

    /// The migration of page `p`.
    pub fn mapping(&self, p: u8) -> Mapping {
        let first = u64::from(p) * 2 * u64::from(self.lines());
        Mapping {
            src: LineAddr(first),
            dst: LineAddr(first + u64::from(self.lines())),
            lines: self.lines(),
        }
    }
}
