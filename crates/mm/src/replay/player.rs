// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plays the steps of a recording on one server.

use super::ledger::Op;
use super::start::Start;
use crate::alloc::request::AllocRequest;
use crate::config::Config;
use crate::memory::{BLOCK_ORDER, PoolId};
use crate::run::{Sample, sample};
use crate::server::{ServerError, ServerModel};
use ample_pfn::{Coverage, Metrics, PageClass, is_movable};

/// Position of a block that found no memory.
const UNPLACED: u32 = u32::MAX;
/// Flag of a position: the block has a pool of its own.
const OWN: u32 = 1 << 31;

/// A server, and where on it each block of the recording is.
#[derive(Debug)]
pub struct Player {
    server: ServerModel,
    /// Position in `owners`, or a pool with [`OWN`], by block number.
    places: Vec<u32>,
    /// The pool of all small blocks, and which block each entry of it is.
    small: PoolId,
    owners: Vec<u32>,
    /// Empty pools for blocks that may be split by the model, or that came in parts.
    spare: Vec<PoolId>,
    /// Entries of `owners` that wait for the number of their block.
    pieces: Vec<u32>,
    time_ns: u64,
    /// Samples so far.
    pub samples: Vec<Sample>,
    /// Blocks that found no memory.
    pub unplaced: u64,
    /// Pages of the snapshot that found none.
    pub unplaced_at_start: u64,
    /// Movable blocks that were served as single pages instead.
    pub fallbacks: u64,
}

impl Player {
    /// A fresh server with `prefill_pages` of page cache.
    pub fn new(config: &Config, prefill_pages: u64) -> Result<Player, ServerError> {
        let mut server = ServerModel::new(config)?;
        let small = server.new_pool();
        let count = prefill_pages.min(u64::from(server.frames())) as u32;
        server.read_cache(PageClass::File, count, 0);
        Ok(Player::on(server, small))
    }

    /// A server that holds the pages of a snapshot as blocks of their own.
    pub fn starting_from(config: &Config, start: &Start) -> Result<Player, ServerError> {
        let mut server = ServerModel::before_pages(config, &start.layout, &start.classes)?;
        let small = server.new_pool();
        let (mut owners, mut places) = (Vec::new(), Vec::new());
        let mut unplaced = 0;
        server.place_pages(&start.classes, |server, block, _, pfn| {
            let index = block as usize;
            if index >= places.len() {
                places.resize(index + 1, UNPLACED);
            }
            if let Some(pfn) = pfn {
                server.kernel.give(small, pfn);
                places[index] = owners.len() as u32;
                owners.push(block);
            } else {
                unplaced += 1;
            }
        });
        Ok(Player {
            places,
            owners,
            unplaced_at_start: unplaced,
            ..Player::on(server, small)
        })
    }

    fn on(server: ServerModel, small: PoolId) -> Player {
        Player {
            server,
            places: Vec::new(),
            small,
            owners: Vec::new(),
            spare: Vec::new(),
            pieces: Vec::new(),
            time_ns: 0,
            samples: Vec::new(),
            unplaced: 0,
            unplaced_at_start: 0,
            fallbacks: 0,
        }
    }

    /// The server as it is now.
    pub fn server(&mut self) -> &mut ServerModel {
        &mut self.server
    }

    /// Plays steps in order.
    pub fn play(&mut self, ops: &[Op]) {
        for &op in ops {
            match op {
                Op::Alloc {
                    block,
                    cpu,
                    order,
                    class,
                    atomic,
                    light,
                } => {
                    let mut request = AllocRequest::new(class).order(u32::from(order));
                    (request.atomic, request.light) = (atomic, light);
                    let place = self.alloc(block, &request, usize::from(cpu));
                    self.put(block, place);
                }
                Op::Free { block, cpu } => self.free(block, usize::from(cpu)),
                Op::Split { block } => self.split(block),
                Op::Piece { block } => {
                    let place = self.pieces.pop().unwrap_or(UNPLACED);
                    if let Some(owner) = self.owners.get_mut(place as usize) {
                        *owner = block;
                    }
                    self.put(block, place);
                }
                Op::Tick { elapsed_ns } => {
                    self.time_ns += elapsed_ns;
                    self.server.tick(elapsed_ns);
                }
                Op::Sample => {
                    self.take_sample();
                }
            }
        }
    }

    /// Adds a sample; the metrics it came from.
    pub fn take_sample(&mut self) -> Metrics {
        let metrics = self.server.tallies().finish(&Coverage::exact());
        let seconds = self.time_ns as f64 / 1e9;
        self.samples
            .push(sample(&self.server, &metrics.total, seconds));
        metrics
    }

    #[inline]
    fn put(&mut self, block: u32, place: u32) {
        let index = block as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, UNPLACED);
        }
        self.places[index] = place;
    }

    #[inline]
    fn alloc(&mut self, block: u32, request: &AllocRequest, cpu: usize) -> u32 {
        // Compaction may split a huge page, which adds entries to its pool.
        if request.order >= BLOCK_ORDER {
            if let Some(pool) = self.own_pool() {
                if self.server.allocate(pool, request, 1, cpu) == 1 {
                    return OWN | pool.0;
                }
                self.spare.push(pool);
            }
        } else if self.server.allocate(self.small, request, 1, cpu) == 1 {
            self.owners.push(block);
            return self.owners.len() as u32 - 1;
        }
        self.alloc_parts(request, cpu)
    }

    /// An empty pool; `None` when a million blocks have one already.
    fn own_pool(&mut self) -> Option<PoolId> {
        let more = self.server.kernel.pools.room_for_more();
        (self.spare.pop()).or_else(|| more.then(|| self.server.new_pool()))
    }

    /// User memory and page cache fall back to single pages; kernel memory cannot.
    #[cold]
    fn alloc_parts(&mut self, request: &AllocRequest, cpu: usize) -> u32 {
        if request.order > 0
            && is_movable(request.class)
            && let Some(pool) = self.own_pool()
        {
            let count = 1 << request.order;
            let single = AllocRequest::new(request.class);
            if self.server.allocate(pool, &single, count, cpu) == count {
                self.fallbacks += 1;
                return OWN | pool.0;
            }
            self.server.release_all(pool, cpu);
            self.spare.push(pool);
        }
        self.unplaced += 1;
        UNPLACED
    }

    #[inline]
    fn free(&mut self, block: u32, cpu: usize) {
        let place = std::mem::replace(&mut self.places[block as usize], UNPLACED);
        if place == UNPLACED {
            return;
        }
        if place & OWN != 0 {
            let pool = PoolId(place & !OWN);
            self.server.release_all(pool, cpu);
            self.spare.push(pool);
            return;
        }
        self.server.free_entry(self.small, place, cpu);
        self.owners.swap_remove(place as usize);
        if let Some(&moved) = self.owners.get(place as usize) {
            self.places[moved as usize] = place;
        }
        debug_assert_eq!(self.owners.len(), self.server.pool_len(self.small));
    }

    /// Single pages of a block, as entries of the small pool; all but the first wait in
    /// `pieces`, the next one last.
    fn split(&mut self, block: u32) {
        self.pieces.clear();
        let place = self.places[block as usize];
        if place == UNPLACED {
            return;
        }
        let kernel = &mut self.server.kernel;
        if place & OWN == 0 {
            let head = kernel.pools.entries(self.small)[place as usize];
            kernel.pools.split(kernel.zone.frames_mut(), head);
            let first = self.owners.len() as u32;
            let len = kernel.pools.len(self.small);
            self.owners.resize(len as usize, NO_OWNER);
            self.pieces.extend((first..len).rev());
            return;
        }
        let pool = PoolId(place & !OWN);
        if let &[head] = kernel.pools.entries(pool) {
            kernel.pools.split(kernel.zone.frames_mut(), head);
        }
        // From the last page to the first, which keeps the number of the block.
        while let Some(last) = kernel.pools.len(pool).checked_sub(1) {
            let page = kernel.take_from(pool, last);
            kernel.give(self.small, page);
            self.pieces.push(self.owners.len() as u32);
            self.owners.push(NO_OWNER);
        }
        self.spare.push(pool);
        let first = self.pieces.pop().unwrap_or(UNPLACED);
        if let Some(owner) = self.owners.get_mut(first as usize) {
            *owner = block;
        }
        self.put(block, first);
    }
}

/// Owner of an entry until its [`Op::Piece`] comes.
const NO_OWNER: u32 = u32::MAX;
