// SPDX-License-Identifier: MIT OR Apache-2.0
//! A memcached-like store with the kernel's half of each request: receiving, the socket, waking
//! up, sending. Its objects lie where a kernel's allocators put them, in pages all over the direct
//! map; the driver's own arrays lie in vmalloc memory.

use super::stores::KeyValueStore;
use crate::{Access, Program, Recorder, Region};
use ample_kit::random::SplitMix64;

/// Connections: what memcached allows unless told otherwise.
const CONNECTIONS: u64 = 1024;
/// Buffers of the receive and of the transmit ring.
const RING: u64 = 512;
/// Bytes of the driver's arrays.
const DRIVER_BYTES: u64 = 2 * RING * 32;
/// Least memory of a machine whose footprint is given.
const LEAST_MEMORY_BYTES: u64 = 256 << 20;
/// Chunks of 32 KB that responses are written into, one after another.
const FRAGMENTS: u64 = 256;
const FRAGMENT_BYTES: u64 = 32 << 10;
/// Buckets of the table of established connections, 16 bytes each.
const HASH_BUCKETS: u64 = 512 << 10;
/// Bytes of a response with its headers.
const RESPONSE_BYTES: u64 = 1152;
/// Instructions between two accesses of the kernel.
const GAP: u16 = 12;

/// What the kernel keeps for one connection, each in a page of its own.
#[derive(Clone, Copy)]
struct Connection {
    socket: u64,
    file: u64,
    event: u64,
    bucket: u64,
}

/// The store behind a network stack.
pub struct NetworkedStore {
    store: KeyValueStore,
    connections: Vec<Connection>,
    receive_buffers: Vec<u64>,
    packet_heads: Vec<u64>,
    fragments: Vec<u64>,
    stack: u64,
    per_cpu: u64,
    rings: u64,
    driver: u64,
    rng: SplitMix64,
    request: u64,
}

impl NetworkedStore {
    /// A memcached of about `bytes` bytes, on a machine of four times as much memory. The direct
    /// map of that is not among the bytes.
    pub(super) fn of_bytes(value_bytes: u64, bytes: u64, seed: u64) -> Self {
        let own = bytes.saturating_sub(DRIVER_BYTES);
        let items = KeyValueStore::items_of(value_bytes, own);
        let store = KeyValueStore::memcached(items, value_bytes, seed);
        NetworkedStore::new(store, (4 * bytes).max(LEAST_MEMORY_BYTES), seed)
    }

    /// A store on a machine of so much memory, all of it in the direct map.
    pub fn new(mut store: KeyValueStore, memory_bytes: u64, seed: u64) -> Self {
        let direct = store.layout.direct_map(memory_bytes);
        let driver = store.layout.vmalloc("driver", DRIVER_BYTES);
        let mut rng = SplitMix64::scattered(seed ^ 0x6e65_7477);
        let mut next = place(direct, memory_bytes);
        let mut objects = |count: u64, bytes: u64| -> Vec<u64> {
            (0..count).map(|_| next(&mut rng, bytes)).collect()
        };
        let sockets = objects(CONNECTIONS, 2048);
        let files = objects(CONNECTIONS, 256);
        let events = objects(CONNECTIONS, 128);
        let receive_buffers = objects(RING, 2048);
        let packet_heads = objects(4 * RING, 256);
        let fragments = objects(FRAGMENTS, FRAGMENT_BYTES);
        let table = objects(1, HASH_BUCKETS * 16)[0];
        let single = objects(3, 16 << 10);
        let connections = (0..CONNECTIONS as usize).map(|at| Connection {
            socket: sockets[at],
            file: files[at],
            event: events[at],
            bucket: table + rng.below(HASH_BUCKETS) * 16,
        });
        NetworkedStore {
            connections: connections.collect(),
            store,
            receive_buffers,
            packet_heads,
            fragments,
            stack: single[0],
            per_cpu: single[1],
            rings: single[2],
            driver,
            rng,
            request: 0,
        }
    }

    /// Reads and writes `lines` lines of an object.
    fn lines(&self, recorder: &mut Recorder<'_>, object: u64, lines: u64) {
        for line in 0..lines {
            let va = object + line * 64;
            recorder.push(Access::load(va, GAP));
            if line % 2 == 0 {
                recorder.push(Access::store(va + 8, GAP));
            }
        }
    }

    /// The kernel's stack and per-CPU data, which stay in the caches and in the TLB.
    fn hot(&self, recorder: &mut Recorder<'_>, accesses: u64) {
        for i in 0..accesses {
            recorder.push(Access::load(self.stack + (i * 56) % 2048, GAP));
            recorder.push(Access::store(self.stack + (i * 40) % 2048, GAP));
            if i % 4 == 0 {
                recorder.push(Access::load(self.per_cpu + (i * 192) % 4096, GAP));
            }
        }
    }

    fn packet_head(&self, offset: u64) -> u64 {
        let heads = self.packet_heads.len() as u64;
        self.packet_heads[((self.request * 2 + offset) % heads) as usize]
    }

    /// From the descriptor of a packet to its data in the program's buffer.
    fn receive(&self, recorder: &mut Recorder<'_>, connection: Connection) {
        let slot = self.request % RING;
        let buffer = self.receive_buffers[slot as usize];
        recorder.push(Access::load(self.rings + slot * 16, GAP));
        recorder.push(Access::load(self.driver + slot * 32, GAP));
        self.lines(recorder, self.packet_head(0), 3);
        self.hot(recorder, 12);
        // Headers, then the established connection: bucket, socket.
        self.lines(recorder, buffer, 2);
        recorder.push(Access::load(connection.bucket, GAP));
        recorder.push(Access::load(connection.socket, GAP).after(1));
        self.lines(recorder, connection.socket, 8);
        // The program is woken and asks which descriptor is ready, then reads.
        self.lines(recorder, connection.event, 2);
        self.lines(recorder, connection.file, 3);
        self.hot(recorder, 16);
        self.lines(recorder, buffer + 128, 2);
    }

    /// From the program's buffer to a packet in the transmit ring.
    fn send(&self, recorder: &mut Recorder<'_>, connection: Connection) {
        let slot = self.request % RING;
        let fragments = FRAGMENT_BYTES / RESPONSE_BYTES;
        let chunk = self.fragments[(self.request / fragments % FRAGMENTS) as usize];
        let data = chunk + self.request % fragments * RESPONSE_BYTES;
        self.lines(recorder, connection.file, 1);
        self.lines(recorder, connection.socket + 512, 8);
        self.lines(recorder, self.packet_head(1), 3);
        for line in 0..RESPONSE_BYTES / 64 {
            recorder.push(Access::store(data + line * 64, 2));
        }
        self.hot(recorder, 16);
        recorder.push(Access::store(self.rings + RING * 16 + slot * 16, GAP));
        recorder.push(Access::store(self.driver + (RING + slot) * 32, GAP));
    }
}

/// Places objects at random, none across a page that it need not cross.
fn place(direct: u64, memory_bytes: u64) -> impl FnMut(&mut SplitMix64, u64) -> u64 {
    move |rng, bytes| {
        let pages = bytes.div_ceil(4096);
        let page = rng.below(memory_bytes / 4096 - pages + 1);
        let slots = (4096 / bytes.min(4096)).max(1);
        direct + page * 4096 + rng.below(slots) * bytes
    }
}

impl Program for NetworkedStore {
    fn name(&self) -> &str {
        "memcached-net"
    }

    fn regions(&self) -> &[Region] {
        self.store.regions()
    }

    fn step(&mut self, recorder: &mut Recorder<'_>) {
        let connection = self.connections[self.rng.below(CONNECTIONS) as usize];
        self.receive(recorder, connection);
        self.store.step(recorder);
        self.send(recorder, connection);
        self.request += 1;
    }
}
