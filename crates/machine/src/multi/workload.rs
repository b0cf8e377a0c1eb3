// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic servers: every core serves requests back to back, packets come and go through
//! rings of network buffers that a NIC reads and writes.

use super::rings::{BUFFER_PAGES_EACH, PacketRings};
use super::{
    BadParams, CoreAccess, CoreParams, CoreProgram, MemoryParams, MultiCore, OsParams, PAGE_LINES,
    PagePlacement,
};
use ample_kit::random::SplitMix64;
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
    /// Mean cycles between two DMA accesses of the NIC; 0: none. 5 at 2 GHz: 200 Gb/s.
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
                dma_cycles: 5,
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
                dma_cycles: 5,
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

/// What a request looks up and what the kernel does for it, where that differs from a service's
/// own shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Requests {
    /// Exponent of the popularity of keys (Zipf); 0: all alike, as the shape has it.
    pub key_skew: f64,
    /// A look-up touches a bucket and an item that lies within one page, instead of a page for
    /// each of its loads.
    pub item_in_one_page: bool,
    /// Share of a request's accesses that the kernel makes to its own data.
    pub kernel_share: f64,
}

impl Requests {
    fn keyed(&self) -> bool {
        self.key_skew > 0.0 || self.item_in_one_page
    }

    /// Rank of a key among `keys`, by the continuous form of Zipf's law, whose distribution
    /// function is inverted in closed form.
    fn rank(&self, keys: u64, unit: f64) -> u64 {
        let n = keys as f64;
        let power = 1.0 - self.key_skew;
        let rank = match power.abs() < 1e-9 {
            true => n.powf(unit),
            false => ((n.powf(power) - 1.0) * unit + 1.0).powf(1.0 / power),
        };
        (rank as u64 - 1).min(keys - 1)
    }
}

/// Kernel data of a core: sockets, packet headers, queues.
const KERNEL_PAGES: u32 = 256;
/// Pages of 4 KB in one of 2 MB, with which the kernel maps its data.
const LARGE_PAGE: u32 = 512;

/// Instructions between two looks at an empty ring.
const POLL_GAP: u32 = 39;

/// Destinations that are free at first.
const SPARE_GROUPS: u32 = 64;

/// The program of all cores.
#[derive(Clone)]
pub struct Server {
    shape: Shape,
    requests: Requests,
    /// Accesses of the kernel in each request.
    kernel_accesses: u32,
    cores: u32,
    rngs: Vec<SplitMix64>,
    nic: SplitMix64,
    rings: PacketRings,
    /// Accesses left of the current request of each core.
    left: Vec<u32>,
    /// Instructions in which cores waited for packets or buffers.
    waited: u64,
    /// The key each core looks up.
    keys: Vec<u64>,
}

impl Server {
    /// A server on `cores` cores.
    pub fn new(service: Service, cores: u8, seed: u64) -> Self {
        let table_pages = service.shape().table_pages;
        Self::with_table(service, cores, table_pages, Requests::default(), seed)
    }

    /// A server that looks things up in this many pages of shared data.
    pub fn with_table(
        service: Service,
        cores: u8,
        table_pages: u32,
        requests: Requests,
        seed: u64,
    ) -> Self {
        let mut seeds = SplitMix64::new(seed);
        let rngs = (0..cores)
            .map(|_| SplitMix64::new(seeds.next_u64()))
            .collect();
        let shape = Shape {
            table_pages,
            ..service.shape()
        };
        let own =
            shape.hot_accesses + shape.lookups * shape.chain + shape.receives() + shape.sends();
        let of_own = requests.kernel_share / (1.0 - requests.kernel_share);
        Self {
            shape,
            requests,
            kernel_accesses: (f64::from(own) * of_own).round() as u32,
            cores: u32::from(cores),
            rngs,
            nic: SplitMix64::new(seeds.next_u64()),
            rings: PacketRings::new(
                u32::from(cores),
                (shape.received_lines, shape.sent_lines),
                Self::buffer_pages(cores) + u32::from(cores) * shape.hot_pages + table_pages,
            ),
            left: vec![0; usize::from(cores)],
            waited: 0,
            keys: vec![0; usize::from(cores)],
        }
    }

    /// Such a server on the cores of table 1, whose buffers move `group_pages` at once.
    ///
    /// # Errors
    /// When the memory cannot be built.
    pub fn machine(
        service: Service,
        memory: &MemoryParams,
        os: OsParams,
        group_pages: u32,
        seed: u64,
    ) -> Result<MultiCore<Self>, BadParams> {
        let placement = PagePlacement {
            pages: Self::pages(service, memory.cores).next_multiple_of(group_pages),
            spare: SPARE_GROUPS,
            group_pages,
            is_large_page: false,
        };
        let program = Self::new(service, memory.cores, seed);
        MultiCore::new(memory, CoreParams::table1(), os, program, placement, seed)
    }

    /// Pages of data of this server, the kernel's among them.
    pub fn data_pages(&self) -> u32 {
        match self.kernel_accesses {
            0 => self.user_pages(),
            _ => self.kernel_first_page() + self.cores * KERNEL_PAGES,
        }
    }

    /// Pages of the server's own data.
    pub fn user_pages(&self) -> u32 {
        self.table_first_page() + self.shape.table_pages + self.cores
    }

    fn hot_first_page(&self) -> u32 {
        self.cores * BUFFER_PAGES_EACH
    }

    fn table_first_page(&self) -> u32 {
        self.hot_first_page() + self.cores * self.shape.hot_pages
    }

    /// Network buffers, the first pages of a server.
    pub fn buffer_pages(cores: u8) -> u32 {
        u32::from(cores) * BUFFER_PAGES_EACH
    }

    /// Pages of the kernel's data; empty when the kernel does nothing.
    pub fn kernel_pages(&self) -> std::ops::Range<u32> {
        self.kernel_first_page().min(self.data_pages())..self.data_pages()
    }

    /// Where the kernel's data begin: at a 2 MB page of their own.
    fn kernel_first_page(&self) -> u32 {
        self.user_pages().next_multiple_of(LARGE_PAGE)
    }

    /// Pages of data of such a server: network buffers, each core's own, the table, and a page of
    /// descriptors for each core.
    pub fn pages(service: Service, cores: u8) -> u32 {
        let shape = service.shape();
        let own = u32::from(cores) * (shape.hot_pages + 1);
        Self::buffer_pages(cores) + own + shape.table_pages
    }

    /// Load `step` of the look-ups of a request on a core: page and line.
    pub fn look_up(&mut self, core: u8, step: u32) -> (u32, u32) {
        let pages = u64::from(self.shape.table_pages);
        let (page, index) = if self.requests.keyed() {
            self.look_key_up(usize::from(core), step, pages)
        } else {
            let rng = &mut self.rngs[usize::from(core)];
            (rng.below(pages), rng.below(PAGE_LINES))
        };
        (self.table_first_page() + page as u32, index as u32)
    }

    /// The same within the table: a key's bucket, then its item.
    fn look_key_up(&mut self, core: usize, step: u32, pages: u64) -> (u64, u64) {
        let place = u64::from(step % self.shape.chain);
        let rng = &mut self.rngs[core];
        if place == 0 {
            self.keys[core] = match self.requests.key_skew > 0.0 {
                true => self.requests.rank(pages * KEYS_PER_PAGE, rng.unit()),
                false => rng.below(pages * KEYS_PER_PAGE),
            };
        }
        let together = self.requests.item_in_one_page;
        let part = if together { place.min(1) } else { place };
        let mut lies = SplitMix64::new(self.keys[core] * u64::from(self.shape.chain) + part);
        let (page, index) = (lies.below(pages), lies.below(PAGE_LINES));
        (page, (index + place - part) % PAGE_LINES)
    }

    /// One of the first pages of a range, mostly, as stacks and connection state are used.
    fn skewed(&mut self, core: usize, pages: u32) -> u32 {
        let skew = self.rngs[core].unit();
        (f64::from(pages) * skew * skew * skew) as u32
    }
}

/// Items of 512 bytes fill a page.
const KEYS_PER_PAGE: u64 = 8;

impl Shape {
    /// Accesses of a core to a packet received and its descriptor.
    fn receives(&self) -> u32 {
        self.received_lines + u32::from(self.received_lines > 0)
    }

    /// The same for a packet sent.
    fn sends(&self) -> u32 {
        self.sent_lines + u32::from(self.sent_lines > 0)
    }
}

impl Server {
    /// Where access `step` of a core's request goes, and whether it writes and depends.
    fn step(&mut self, core: u8, step: u32, total: u32) -> (u32, u32, bool, bool) {
        let (c, s) = (usize::from(core), self.shape);
        let (chain, sends) = (s.lookups * s.chain, s.sends());
        let packet_end = s.receives();
        let lookups_end = packet_end + chain;
        if step < packet_end {
            let (page, index) = self.rings.read(c, step);
            return (page, index, false, false);
        }
        if step < lookups_end {
            let (page, index) = self.look_up(core, step - packet_end);
            let dependent = !(step - packet_end).is_multiple_of(s.chain);
            return (page, index, self.rngs[c].below(10) == 0, dependent);
        }
        if step >= total - sends {
            let (page, index) = self.rings.write(c, step + sends - total);
            return (page, index, true, false);
        }
        let page = match step < lookups_end + self.kernel_accesses {
            true => {
                let first = self.kernel_first_page() + u32::from(core) * KERNEL_PAGES;
                first + self.skewed(c, KERNEL_PAGES)
            }
            false => {
                let first = self.hot_first_page() + u32::from(core) * s.hot_pages;
                first + self.skewed(c, s.hot_pages)
            }
        };
        let rng = &mut self.rngs[c];
        let index = rng.below(PAGE_LINES) as u32;
        (page, index, rng.below(4) == 0, false)
    }

    /// Whether a core can go on with its request: there is a packet to serve at its beginning,
    /// and a buffer for the answer when that is written.
    fn can_go_on(&self, core: usize, step: u32, total: u32) -> bool {
        let has_nic = self.shape.dma_cycles > 0;
        match step {
            0 => !has_nic || self.rings.has_packet(core),
            step if step == total - self.shape.sends() => !has_nic || self.rings.has_room(core),
            _ => true,
        }
    }
}

impl CoreProgram for Server {
    fn next(&mut self, core: u8) -> CoreAccess {
        let c = usize::from(core);
        let s = self.shape;
        let chain = s.lookups * s.chain;
        let total = s.hot_accesses + chain + s.receives() + s.sends() + self.kernel_accesses;
        if self.left[c] == 0 {
            self.left[c] = total;
        }
        let step = total - self.left[c];
        if !self.can_go_on(c, step, total) {
            self.waited += u64::from(POLL_GAP) + 1;
            let (page, index) = self.rings.polled(c);
            return CoreAccess {
                gap: POLL_GAP,
                page,
                index,
                write: false,
                dependent: false,
            };
        }
        self.left[c] -= 1;
        let gap = (self.rngs[c].below(2 * u64::from(s.gap) + 1)) as u32;
        let (page, index, write, dependent) = self.step(core, step, total);
        if self.left[c] == 0 && s.dma_cycles > 0 {
            self.rings.served(c);
        }
        CoreAccess {
            gap,
            page,
            index,
            write,
            dependent,
        }
    }

    fn next_dma(&mut self) -> Option<(u64, Option<CoreAccess>)> {
        if self.shape.dma_cycles == 0 {
            return None;
        }
        let wait = 1 + self.nic.below(2 * self.shape.dma_cycles);
        let op = self
            .rings
            .next_dma()
            .map(|((page, index), write)| CoreAccess {
                gap: 0,
                page,
                index,
                write,
                dependent: false,
            });
        Some((wait, op))
    }

    fn waited_instructions(&self) -> u64 {
        self.waited
    }
}
