// SPDX-License-Identifier: MIT OR Apache-2.0
//! In-memory stores: a memcached-like cache with Zipf keys and a redis-like dictionary with
//! uniformly random GETs. Hash chains are real; only the values' bytes are not kept.

use super::fit::largest;
use super::micro::{IMAGE_STACK_BYTES, image_of};
use crate::{Access, Program, Recorder, Region, RegionLayout};
use ample_kit::random::{SplitMix64, Zipf, mix64};

const NONE: u32 = u32::MAX;

/// A chained hash table over `items` keys: the part both stores share.
struct Table {
    heads: Vec<u32>,
    next: Vec<u32>,
    mask: u64,
}

impl Table {
    fn new(items: u32) -> Self {
        let buckets = buckets(items.into());
        let mut table = Table {
            heads: vec![NONE; buckets as usize],
            next: vec![NONE; items as usize],
            mask: buckets - 1,
        };
        for item in 0..items {
            let bucket = table.bucket(item);
            table.next[item as usize] = table.heads[bucket as usize];
            table.heads[bucket as usize] = item;
        }
        table
    }

    fn bucket(&self, item: u32) -> u64 {
        mix64(u64::from(item)) & self.mask
    }
}

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    Memcached,
    Redis,
}

/// A key-value server: for each request it reads a connection's buffer, parses, looks the key up
/// and copies the value out.
pub struct KeyValueStore {
    pub(super) layout: RegionLayout,
    flavour: Flavour,
    table: Table,
    zipf: Option<Zipf>,
    rng: SplitMix64,
    items: u32,
    value_bytes: u64,
    base: StoreBases,
    request: u64,
}

#[derive(Clone, Copy)]
struct StoreBases {
    heads: u64,
    items: u64,
    entries: u64,
    buffers: u64,
    data: u64,
    stack: u64,
}

/// Bytes of an item's header (memcached) or of its string object (redis).
const HEADER_BYTES: u64 = 56;
/// Bytes of a dictionary entry.
const ENTRY_BYTES: u64 = 32;
/// Bytes of a value of memcached's, and of redis's, in the programs by name.
pub(super) const MEMCACHED_VALUE_BYTES: u64 = 1024;
pub(super) const REDIS_VALUE_BYTES: u64 = 512;
const CONNECTIONS: u64 = 64;
/// Bytes of a connection's buffer.
const BUFFER_BYTES: u64 = 16 << 10;
const CODE_BYTES: u64 = 512 << 10;
const DATA_BYTES: u64 = 256 << 10;

/// Bytes from one item to the next.
fn stride(value_bytes: u64) -> u64 {
    (HEADER_BYTES + value_bytes).next_multiple_of(64)
}

/// Buckets of a table of so many items.
fn buckets(items: u64) -> u64 {
    (items * 2 / 3).next_power_of_two()
}

impl KeyValueStore {
    /// Memcached: slab items behind a hash table, Zipf(0.99) keys, one SET in ten.
    pub fn memcached(items: u32, value_bytes: u64, seed: u64) -> Self {
        KeyValueStore::new(Flavour::Memcached, items, value_bytes, seed)
    }

    /// Redis: dictionary entries, objects and strings each a separate allocation, random GETs.
    pub fn redis(items: u32, value_bytes: u64, seed: u64) -> Self {
        KeyValueStore::new(Flavour::Redis, items, value_bytes, seed)
    }

    /// Most items of a store of such values that takes `bytes` bytes, at least one.
    pub(super) fn items_of(value_bytes: u64, bytes: u64) -> u32 {
        let taken = |items: u64| {
            let fixed = CONNECTIONS * BUFFER_BYTES + CODE_BYTES + DATA_BYTES + IMAGE_STACK_BYTES;
            items * (stride(value_bytes) + ENTRY_BYTES) + buckets(items) * 8 + fixed
        };
        let most = u64::from(u32::MAX - 1);
        largest(most, |items| taken(items) <= bytes) as u32
    }

    fn new(flavour: Flavour, items: u32, value_bytes: u64, seed: u64) -> Self {
        let table = Table::new(items);
        let mut layout = RegionLayout::new();
        let stride = stride(value_bytes);
        let base = StoreBases {
            heads: layout.anonymous("hash table", (table.mask + 1) * 8),
            items: layout.anonymous("items", u64::from(items) * stride),
            entries: layout.anonymous("entries", u64::from(items) * ENTRY_BYTES),
            buffers: layout.anonymous("connections", CONNECTIONS * BUFFER_BYTES),
            data: 0,
            stack: 0,
        };
        image_of(&mut layout, CODE_BYTES, DATA_BYTES);
        let find = |name: &str| {
            layout
                .regions()
                .iter()
                .find(|r| r.name == name)
                .map_or(0, |region| region.base)
        };
        let base = StoreBases {
            data: find("data"),
            stack: find("stack"),
            ..base
        };
        let zipf = (flavour == Flavour::Memcached).then(|| Zipf::new(u64::from(items), 0.99));
        let rng = SplitMix64::scattered(seed);
        KeyValueStore {
            layout,
            flavour,
            table,
            zipf,
            rng,
            items,
            value_bytes,
            base,
            request: 0,
        }
    }

    fn item_va(&self, item: u32) -> u64 {
        self.base.items + u64::from(item) * stride(self.value_bytes)
    }

    /// Reading and parsing: the connection's buffer, stack and static data; mostly in cache.
    fn parse(&mut self, recorder: &mut Recorder<'_>) {
        let connection = self.request % CONNECTIONS;
        let buffer = self.base.buffers + connection * BUFFER_BYTES;
        for i in 0..40u64 {
            recorder.push(Access::load(self.base.stack + (i * 72) % 4096, 14));
            recorder.push(Access::load(buffer + (i * 16) % 1024, 14));
            recorder.push(Access::store(self.base.stack + (i * 40) % 4096, 10));
            recorder.push(Access::load(
                self.base.data + mix64(i) % (64 << 10) / 8 * 8,
                12,
            ));
        }
    }

    fn copy_value(&mut self, recorder: &mut Recorder<'_>, item: u32, write: bool) {
        let buffer = self.base.buffers + (self.request % CONNECTIONS) * BUFFER_BYTES + (8 << 10);
        let value = self.item_va(item) + HEADER_BYTES;
        for offset in (0..self.value_bytes).step_by(32) {
            let (from, to) = match write {
                true => (buffer + offset % 4096, value + offset),
                false => (value + offset, buffer + offset % 4096),
            };
            recorder.push(Access {
                bytes: 32,
                ..Access::load(from, 1)
            });
            recorder.push(Access {
                bytes: 32,
                ..Access::store(to, 1)
            });
        }
        if self.flavour == Flavour::Memcached {
            recorder.push(Access::store(self.item_va(item) + 16, 4));
        }
    }
}

impl Program for KeyValueStore {
    fn name(&self) -> &str {
        match self.flavour {
            Flavour::Memcached => "memcached",
            Flavour::Redis => "redis",
        }
    }

    fn regions(&self) -> &[Region] {
        self.layout.regions()
    }

    /// One request, from the parsed line to the copied value.
    fn step(&mut self, recorder: &mut Recorder<'_>) {
        self.parse(recorder);
        let rank = match &self.zipf {
            Some(zipf) => zipf.sample(&mut self.rng),
            None => self.rng.below(u64::from(self.items)),
        };
        // A key's popularity says nothing about where it lies.
        let item = (mix64(rank ^ 0x5eed) % u64::from(self.items)) as u32;
        let bucket = self.table.bucket(item);
        recorder.push(Access::load(self.base.heads + bucket * 8, 20));
        let mut at = self.table.heads[bucket as usize];
        while at != NONE {
            if self.flavour == Flavour::Redis {
                // Entries were allocated as the keys came: in another order than the strings.
                let entry = self.base.entries + u64::from(at) * ENTRY_BYTES;
                recorder.push(Access::load(entry, 2).after(1));
            }
            let header = self.item_va(at);
            recorder.push(Access::load(header, 4).after(1));
            recorder.push(Access::load(header + 32, 6).after(1));
            if at == item {
                break;
            }
            at = self.table.next[at as usize];
        }
        assert_eq!(at, item, "every key is in the table");
        let write = self.flavour == Flavour::Memcached && self.rng.below(10) == 0;
        self.copy_value(recorder, item, write);
        self.request += 1;
    }
}
