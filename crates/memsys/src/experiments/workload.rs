// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic servers: every core serves requests back to back, packets come and go through
//! network buffers that a NIC reads and writes.

use crate::timed::{Op, PAGE_LINES, Program, Rng};
use serde::{Deserialize, Serialize};

/// A server's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// A web server: long requests, small hot data, large packets.
    Nginx,
    /// A key-value cache: short requests, dependent look-ups in a large table.
    Memcached,
    /// Nothing but private hot data; no NIC. For figure 13.
    Idle,
}

/// Shape of a service's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    /// Accesses that are neither packet nor table.
    hot_accesses: u32,
    /// Lines of the private hot data of a core.
    hot_pages: u32,
    /// Look-ups in shared data, each of `chain` dependent loads.
    lookups: u32,
    chain: u32,
    /// Pages of shared data.
    table_pages: u32,
    /// Lines received and sent for each request.
    received_lines: u32,
    sent_lines: u32,
    /// Instructions between two accesses.
    gap: u32,
    /// Mean cycles between two DMA accesses of the NIC.
    dma_cycles: u64,
}

impl Service {
    fn shape(self) -> Shape {
        match self {
            Self::Nginx => Shape {
                hot_accesses: 2400,
                hot_pages: 40,
                lookups: 6,
                chain: 2,
                table_pages: 2048,
                received_lines: 8,
                sent_lines: 48,
                gap: 3,
                dma_cycles: 60,
            },
            Self::Memcached => Shape {
                hot_accesses: 700,
                hot_pages: 30,
                lookups: 4,
                chain: 4,
                table_pages: 8192,
                received_lines: 2,
                sent_lines: 16,
                gap: 3,
                dma_cycles: 60,
            },
            Self::Idle => Shape {
                hot_accesses: 1000,
                hot_pages: 1,
                lookups: 0,
                chain: 0,
                table_pages: 0,
                received_lines: 0,
                sent_lines: 0,
                gap: 60,
                dma_cycles: 0,
            },
        }
    }
}

/// Network buffer pages, shared by all cores and the NIC: a pool as a driver keeps one.
pub const BUFFER_PAGES: u32 = 64;

/// The program of all cores.
#[derive(Clone)]
pub struct Server {
    shape: Shape,
    cores: u32,
    rngs: Vec<Rng>,
    nic: Rng,
    /// Accesses left of the current request of each core, and its packet's place.
    left: Vec<(u32, u64)>,
    dma_at: u64,
}

impl Server {
    /// A server on `cores` cores.
    pub fn new(service: Service, cores: u8, seed: u64) -> Self {
        Self::with_table(service, cores, service.shape().table_pages, seed)
    }

    /// A server that looks things up in this many pages of shared data.
    pub fn with_table(service: Service, cores: u8, table_pages: u32, seed: u64) -> Self {
        let mut seeds = Rng::new(seed);
        let rngs = (0..cores).map(|_| Rng::new(seeds.next_u64())).collect();
        Self {
            shape: Shape {
                table_pages,
                ..service.shape()
            },
            cores: u32::from(cores),
            rngs,
            nic: Rng::new(seeds.next_u64()),
            left: vec![(0, 0); usize::from(cores)],
            dma_at: 0,
        }
    }

    /// Pages of data of this server.
    pub fn data_pages(&self) -> u32 {
        BUFFER_PAGES + self.cores * self.shape.hot_pages + self.shape.table_pages
    }

    /// Pages of data of such a server. The first [`BUFFER_PAGES`] are network buffers.
    pub fn pages(service: Service, cores: u8) -> u32 {
        let shape = service.shape();
        BUFFER_PAGES + u32::from(cores) * shape.hot_pages + shape.table_pages
    }

    /// Line `place` of the pool, which the packets use in turn.
    fn buffer(place: u64) -> (u32, u32) {
        let lines = u64::from(BUFFER_PAGES) * PAGE_LINES;
        let line = place % lines;
        ((line / PAGE_LINES) as u32, (line % PAGE_LINES) as u32)
    }

    fn packet_lines(&self) -> u32 {
        self.shape.received_lines + self.shape.sent_lines
    }
}

impl Program for Server {
    fn next(&mut self, core: u8) -> Op {
        let c = usize::from(core);
        let s = self.shape;
        let chain = s.lookups * s.chain;
        let total = s.hot_accesses + chain + self.packet_lines();
        let rng = &mut self.rngs[c];
        if self.left[c].0 == 0 {
            let lines = u64::from(BUFFER_PAGES) * PAGE_LINES;
            self.left[c] = (total, rng.below(lines));
        }
        let step = total - self.left[c].0;
        self.left[c].0 -= 1;
        let place = self.left[c].1;
        let gap = (rng.below(2 * u64::from(s.gap) + 1)) as u32;
        let op = |page, index, write, dependent| Op {
            gap,
            page,
            index,
            write,
            dependent,
        };
        let packet_first = s.received_lines;
        if step < packet_first {
            let (page, index) = Self::buffer(place + u64::from(step));
            return op(page, index, false, false);
        }
        if step < packet_first + chain {
            let page = rng.below(u64::from(s.table_pages)) as u32;
            let index = rng.below(PAGE_LINES) as u32;
            let dependent = !(step - packet_first).is_multiple_of(s.chain);
            let page = BUFFER_PAGES + self.cores * s.hot_pages + page;
            return op(page, index, rng.below(10) == 0, dependent);
        }
        if step >= total - s.sent_lines {
            let (page, index) = Self::buffer(place + u64::from(total - step) + 64);
            return op(page, index, true, false);
        }
        // Hot data: mostly the first pages, as stacks and connection state are.
        let skew = rng.unit();
        let hot = (f64::from(s.hot_pages) * skew * skew * skew) as u32;
        let page = BUFFER_PAGES + u32::from(core) * s.hot_pages + hot;
        let index = rng.below(PAGE_LINES) as u32;
        op(page, index, rng.below(4) == 0, false)
    }

    fn next_dma(&mut self) -> Option<(u64, Op)> {
        if self.shape.dma_cycles == 0 {
            return None;
        }
        let wait = 1 + self.nic.below(2 * self.shape.dma_cycles);
        // Received packets are written, sent ones read, in proportion.
        let share = self.nic.below(u64::from(self.packet_lines()));
        self.dma_at += 1;
        if self.dma_at.is_multiple_of(16) {
            self.dma_at = self.nic.below(u64::from(BUFFER_PAGES) * PAGE_LINES);
        }
        let (page, index) = Self::buffer(self.dma_at);
        let op = Op {
            gap: 0,
            page,
            index,
            write: share < u64::from(self.shape.received_lines),
            dependent: false,
        };
        Some((wait, op))
    }
}
