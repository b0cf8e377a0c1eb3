// SPDX-License-Identifier: MIT OR Apache-2.0
//! A database in the manner of MySQL on TPC-C: B+-trees in a buffer pool of 16 KB pages, new-order
//! and payment transactions, many threads with stacks of their own, global structures in static
//! memory, a mapped log.

use super::fit::largest;
use super::micro::{IMAGE_STACK_BYTES, image_of};
use crate::{Access, Backing, Program, Recorder, Region, RegionLayout};
use ample_kit::random::{SplitMix64, mix64};

const PAGE: u64 = 16 << 10;
const KEY_BYTES: u64 = 16;

/// A bulk-loaded B+-tree: every node full but the last of each level, so that a key's path is
/// arithmetic and nothing is stored.
#[derive(Clone, Debug)]
struct Tree {
    rows: u64,
    rows_per_leaf: u64,
    row_bytes: u64,
    /// First page and page count of each level, leaves first.
    levels: Vec<(u64, u64)>,
}

const FANOUT: u64 = PAGE / KEY_BYTES - 24;

impl Tree {
    fn new(rows: u64, row_bytes: u64, next_page: &mut u64) -> Self {
        let rows_per_leaf = (PAGE - 256) / row_bytes;
        let mut levels = Vec::new();
        let mut count = rows.div_ceil(rows_per_leaf);
        loop {
            levels.push((*next_page, count));
            *next_page += count;
            if count == 1 {
                break;
            }
            count = count.div_ceil(FANOUT);
        }
        Tree {
            rows,
            rows_per_leaf,
            row_bytes,
            levels,
        }
    }
}

/// Transactions that run at once, each on a stack of its own.
const THREADS: u64 = 256;
const STACK_BYTES: u64 = 64 << 10;
const STATIC_BYTES: u64 = 24 << 20;
const LOG_BYTES: u64 = 64 << 20;
/// A log that makes up what is left of a given footprint is as large as this at least.
const LEAST_LOG_BYTES: u64 = 8 << 20;
const CODE_BYTES: u64 = 8 << 20;
const DATA_BYTES: u64 = 1 << 20;

/// A TPC-C database in memory: warehouses in B-trees and rows behind a buffer pool.
pub struct Tpcc {
    layout: RegionLayout,
    pool: u64,
    page_hash: u64,
    hash_slots: u64,
    stacks: Vec<u64>,
    globals: u64,
    log: u64,
    log_bytes: u64,
    log_at: u64,
    trees: Vec<Tree>,
    warehouses: u64,
    rng: SplitMix64,
    pages: u64,
    /// Transactions finished.
    pub transactions: u64,
}

const WAREHOUSE: usize = 0;
const DISTRICT: usize = 1;
const CUSTOMER: usize = 2;
const ITEM: usize = 3;
const STOCK: usize = 4;
const ORDER_LINE: usize = 5;

/// The trees of so many warehouses, in the order of their numbers, and the pages of them all.
fn trees(warehouses: u64) -> (Vec<Tree>, u64) {
    let mut pages = 0;
    let trees = vec![
        Tree::new(warehouses, 120, &mut pages),
        Tree::new(warehouses * 10, 130, &mut pages),
        Tree::new(warehouses * 30_000, 680, &mut pages),
        Tree::new(100_000, 90, &mut pages),
        Tree::new(warehouses * 100_000, 330, &mut pages),
        Tree::new(warehouses * 300_000, 70, &mut pages),
    ];
    (trees, pages)
}

/// Slots of the hash table of so many pages, 8 bytes each.
fn hash_slots(pages: u64) -> u64 {
    (pages * 2).next_power_of_two()
}

impl Tpcc {
    /// `warehouses` warehouses (about 100 MB each with TPC-C's row counts).
    pub fn new(warehouses: u64, seed: u64) -> Self {
        Tpcc::with_log(warehouses, LOG_BYTES, seed)
    }

    /// As many warehouses as fit into `bytes` bytes with all else, at least one. The log makes up
    /// what is left.
    pub(super) fn of_bytes(bytes: u64, seed: u64) -> Self {
        let without_log = |warehouses: u64| {
            let (_, pages) = trees(warehouses);
            let fixed = CODE_BYTES + DATA_BYTES + IMAGE_STACK_BYTES + STATIC_BYTES;
            pages * PAGE + hash_slots(pages) * 8 + fixed + THREADS * STACK_BYTES
        };
        let fits = |warehouses| without_log(warehouses) + LEAST_LOG_BYTES <= bytes;
        let warehouses = largest(1 << 20, fits);
        let left = bytes.saturating_sub(without_log(warehouses));
        let log_bytes = left.max(LEAST_LOG_BYTES) / 4096 * 4096;
        Tpcc::with_log(warehouses, log_bytes, seed)
    }

    fn with_log(warehouses: u64, log_bytes: u64, seed: u64) -> Self {
        let (trees, pages) = trees(warehouses);
        let mut layout = RegionLayout::new();
        let pool = layout.anonymous("buffer pool", pages * PAGE);
        let hash_slots = hash_slots(pages);
        let page_hash = layout.anonymous("page hash", hash_slots * 8);
        image_of(&mut layout, CODE_BYTES, DATA_BYTES);
        let globals = layout.image("bss", STATIC_BYTES, Backing::Static);
        let log = layout.file("log", log_bytes);
        let stacks = (0..THREADS)
            .map(|thread| layout.stack(&format!("stack {thread}"), STACK_BYTES))
            .collect();
        Tpcc {
            layout,
            pool,
            page_hash,
            hash_slots,
            stacks,
            globals,
            log,
            log_bytes,
            log_at: 0,
            trees,
            warehouses,
            rng: SplitMix64::scattered(seed),
            pages,
            transactions: 0,
        }
    }

    /// TPC-C's non-uniform choice in `0..bound`.
    fn nurand(&mut self, a: u64, bound: u64) -> u64 {
        ((self.rng.below(a + 1) | self.rng.below(bound)) + 42) % bound
    }

    /// Work outside the trees: parsing, optimiser, locks; the thread's stack and global data.
    fn work(&mut self, recorder: &mut Recorder<'_>, thread: u64, accesses: u64) {
        let stack = self.stacks[thread as usize];
        for i in 0..accesses {
            let hash = mix64(self.rng.next_u64());
            let local = stack + (hash % 6144) / 8 * 8;
            recorder.push(Access::load(local, 12));
            recorder.push(Access::store(stack + (i * 56) % 8192, 10));
            if i % 24 == 0 {
                // Latches, dictionary cache, statistics: most of it in few hot pages.
                let wide = if hash >> 60 == 0 {
                    STATIC_BYTES
                } else {
                    96 << 10
                };
                let place = (hash >> 16) % wide / 8 * 8;
                recorder.push(Access::load(self.globals + place, 8));
            }
        }
    }

    fn log(&mut self, recorder: &mut Recorder<'_>, bytes: u64) {
        for offset in (0..bytes).step_by(32) {
            let place = (self.log_at + offset) % self.log_bytes;
            recorder.push(Access::store(self.log + place, 2));
        }
        self.log_at = (self.log_at + bytes) % self.log_bytes;
    }

    /// Finds a row from the root down and reads (or changes) it.
    fn row(&mut self, recorder: &mut Recorder<'_>, tree: usize, key: u64, write: bool) {
        let tree = self.trees[tree].clone();
        debug_assert!(key < tree.rows);
        let leaf = key / tree.rows_per_leaf;
        for level in (0..tree.levels.len()).rev() {
            let (first, count) = tree.levels[level];
            let index = leaf / FANOUT.pow(level as u32);
            debug_assert!(index < count);
            let page = first + index;
            let slot = mix64(page) & (self.hash_slots - 1);
            recorder.push(Access::load(self.page_hash + slot * 8, 12));
            // Pages lie in the pool in the order they once came in.
            let frame = mix64(page ^ 0xb0f) % self.pages;
            let base = self.pool + frame * PAGE;
            recorder.push(Access::load(base, 6).after(1));
            let entries = if level == 0 {
                tree.rows_per_leaf
            } else {
                FANOUT
            };
            let width = if level == 0 {
                tree.row_bytes
            } else {
                KEY_BYTES
            };
            let target = if level == 0 {
                key % tree.rows_per_leaf
            } else {
                leaf / FANOUT.pow(level as u32 - 1) % FANOUT
            };
            let (mut low, mut high) = (0, entries);
            while high - low > 1 {
                let middle = (low + high) / 2;
                recorder.push(Access::load(base + 128 + middle * width, 6).after(1));
                if middle <= target {
                    low = middle
                } else {
                    high = middle
                }
            }
            if level == 0 {
                for offset in (0..width).step_by(64) {
                    let va = base + 128 + target * width + offset;
                    recorder.push(if write {
                        Access::store(va, 3)
                    } else {
                        Access::load(va, 3)
                    });
                }
            }
        }
    }

    fn new_order(&mut self, recorder: &mut Recorder<'_>, thread: u64) {
        let warehouse = self.rng.below(self.warehouses);
        let district = warehouse * 10 + self.rng.below(10);
        let customer = district * 3000 + self.nurand(1023, 3000);
        self.work(recorder, thread, 150);
        self.row(recorder, WAREHOUSE, warehouse, false);
        self.row(recorder, DISTRICT, district, true);
        self.row(recorder, CUSTOMER, customer, false);
        for _ in 0..5 + self.rng.below(11) {
            let item = self.nurand(8191, 100_000);
            let from = if self.rng.below(100) == 0 {
                self.rng.below(self.warehouses)
            } else {
                warehouse
            };
            self.work(recorder, thread, 60);
            self.row(recorder, ITEM, item, false);
            self.row(recorder, STOCK, from * 100_000 + item, true);
            let line = warehouse * 300_000 + self.rng.below(300_000);
            self.row(recorder, ORDER_LINE, line, true);
            self.log(recorder, 256);
        }
    }

    fn payment(&mut self, recorder: &mut Recorder<'_>, thread: u64) {
        let warehouse = self.rng.below(self.warehouses);
        let district = warehouse * 10 + self.rng.below(10);
        let customer = district * 3000 + self.nurand(1023, 3000);
        self.work(recorder, thread, 150);
        self.row(recorder, WAREHOUSE, warehouse, true);
        self.row(recorder, DISTRICT, district, true);
        self.row(recorder, CUSTOMER, customer, true);
        self.log(recorder, 512);
    }
}

impl Program for Tpcc {
    fn name(&self) -> &str {
        "tpcc"
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    fn step(&mut self, recorder: &mut Recorder<'_>) {
        // The scheduler brings the threads on in turn.
        let thread = self.transactions % THREADS;
        if self.rng.below(88) < 45 {
            self.new_order(recorder, thread);
        } else {
            self.payment(recorder, thread);
        }
        self.transactions += 1;
    }
}
