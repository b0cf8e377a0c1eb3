// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network buffers as a driver keeps them: for each core a ring of buffers that the NIC fills and
//! the core empties, and one the other way around. Each packet has a descriptor in a ring of its
//! own, which its producer writes behind the packet and its consumer reads before it. A buffer is
//! used again once all others of its ring have been.

use super::PAGE_LINES;

/// Buffer pages of a core: the first half for packets received, the other for packets sent.
pub const BUFFER_PAGES_EACH: u32 = 8;
/// Buffers in one page: 2 KB for a packet received, 4 KB for one sent.
const RECEIVED_EACH: u64 = 2;
const SENT_EACH: u64 = 1;
/// Descriptors of 16 bytes in a line.
const LINE_DESCRIPTORS: u64 = 4;
/// Where descriptors of packets sent begin in a core's page of them.
const SENT_DESCRIPTORS: u32 = PAGE_LINES as u32 / 2;

/// Where a line lies: page and line within it.
type Place = (u32, u32);

/// Buffers that one side fills and the other empties, in turn.
#[derive(Clone, Debug)]
struct BufferRing {
    first_page: u32,
    buffers_each: u64,
    /// Lines that a packet takes of its buffer.
    packet_lines: u32,
    /// Page and first line of its descriptors.
    descriptors: Place,
    /// Packets produced and consumed so far.
    produced: u64,
    consumed: u64,
}

impl BufferRing {
    fn slots(&self) -> u64 {
        u64::from(BUFFER_PAGES_EACH / 2) * self.buffers_each
    }

    fn has_room(&self) -> bool {
        self.produced - self.consumed < self.slots()
    }

    fn has_packet(&self) -> bool {
        self.produced > self.consumed
    }

    fn line(&self, packet: u64, index: u32) -> Place {
        let slot = packet % self.slots();
        let page = self.first_page + (slot / self.buffers_each) as u32;
        let lines = PAGE_LINES / self.buffers_each;
        (page, (slot % self.buffers_each * lines) as u32 + index)
    }

    fn descriptor(&self, packet: u64) -> Place {
        let slot = packet % self.slots();
        let (page, first) = self.descriptors;
        (page, first + (slot / LINE_DESCRIPTORS) as u32)
    }
}

/// What the NIC is doing: one packet of a core.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    core: usize,
    receives: bool,
    /// Lines and the descriptor that are over.
    done: u32,
}

/// The rings of all cores, and the NIC that serves them in turn.
#[derive(Clone, Debug)]
pub(super) struct PacketRings {
    received: Vec<BufferRing>,
    sent: Vec<BufferRing>,
    transfer: Option<Transfer>,
    /// Ring that the NIC looks at next: cores, each with both of its rings.
    turn: usize,
}

impl PacketRings {
    /// Empty rings; each core has a page of descriptors from `descriptor_page` on.
    pub(super) fn new(cores: u32, lines: (u32, u32), descriptor_page: u32) -> Self {
        let ring = |core: u32, half: u32, buffers_each, packet_lines| BufferRing {
            first_page: core * BUFFER_PAGES_EACH + half * BUFFER_PAGES_EACH / 2,
            buffers_each,
            packet_lines,
            descriptors: (descriptor_page + core, half * SENT_DESCRIPTORS),
            produced: 0,
            consumed: 0,
        };
        let all = |half, each, lines| (0..cores).map(|c| ring(c, half, each, lines)).collect();
        Self {
            received: all(0, RECEIVED_EACH, lines.0),
            sent: all(1, SENT_EACH, lines.1),
            transfer: None,
            turn: 0,
        }
    }

    /// Whether a core has a packet to serve.
    pub(super) fn has_packet(&self, core: usize) -> bool {
        self.received[core].has_packet()
    }

    /// Whether a core has a buffer for its answer.
    pub(super) fn has_room(&self, core: usize) -> bool {
        self.sent[core].has_room()
    }

    /// Step `step` of reading a packet: its descriptor, then its lines.
    pub(super) fn read(&self, core: usize, step: u32) -> Place {
        let ring = &self.received[core];
        match step {
            0 => ring.descriptor(ring.consumed),
            line => ring.line(ring.consumed, line - 1),
        }
    }

    /// Step `step` of writing an answer: its lines, then its descriptor.
    pub(super) fn write(&self, core: usize, step: u32) -> Place {
        let ring = &self.sent[core];
        match step < ring.packet_lines {
            true => ring.line(ring.produced, step),
            false => ring.descriptor(ring.produced),
        }
    }

    /// A core has served its packet: the answer can be sent, the buffer used again.
    pub(super) fn served(&mut self, core: usize) {
        debug_assert!(self.has_packet(core) && self.has_room(core), "core {core}");
        self.received[core].consumed += 1;
        self.sent[core].produced += 1;
    }

    /// Where a core looks while it waits for a packet, or for a buffer.
    pub(super) fn polled(&self, core: usize) -> Place {
        self.received[core].descriptor(self.received[core].consumed)
    }

    /// The NIC's next access, and whether it writes: packets that come in never run out.
    pub(super) fn next_dma(&mut self) -> Option<(Place, bool)> {
        let transfer = match self.transfer {
            Some(transfer) => transfer,
            None => self.next_transfer()?,
        };
        let Transfer {
            core,
            receives,
            done,
        } = transfer;
        let ring = match receives {
            true => &mut self.received[core],
            false => &mut self.sent[core],
        };
        let lines = ring.packet_lines;
        let place = match (receives, done) {
            (true, n) if n < lines => ring.line(ring.produced, n),
            (true, _) => ring.descriptor(ring.produced),
            (false, 0) => ring.descriptor(ring.consumed),
            (false, n) => ring.line(ring.consumed, n - 1),
        };
        self.transfer = (done < lines).then_some(Transfer {
            done: done + 1,
            ..transfer
        });
        if self.transfer.is_none() {
            match receives {
                true => ring.produced += 1,
                false => ring.consumed += 1,
            }
        }
        Some((place, receives))
    }

    fn next_transfer(&mut self) -> Option<Transfer> {
        let rings = 2 * self.received.len();
        for n in 0..rings {
            let turn = (self.turn + n) % rings;
            let (core, receives) = (turn / 2, turn.is_multiple_of(2));
            let has_work = match receives {
                true => self.received[core].has_room(),
                false => self.sent[core].has_packet(),
            };
            if has_work {
                self.turn = (turn + 1) % rings;
                let done = 0;
                return Some(Transfer {
                    core,
                    receives,
                    done,
                });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_kit::random::SplitMix64;
    use std::collections::HashSet;

    const LINES: (u32, u32) = (8, 48);

    /// Packets of two cores with a NIC that runs ahead or behind at random: what is read has been
    /// written since it was last read, in order, and no buffer is used while another is older.
    #[test]
    fn what_is_read_has_been_written_and_buffers_come_in_turn() {
        for seed in 1..=50 {
            let mut rng = SplitMix64::new(seed);
            let mut rings = PacketRings::new(2, LINES, 16);
            let mut fresh = HashSet::new();
            let mut first_pages = Vec::new();
            let mut served = [0; 2];
            while served != [40, 40] {
                let core = rng.below(2) as usize;
                if rng.below(100) < 97 {
                    if let Some((place, write)) = rings.next_dma() {
                        match write {
                            true => assert!(fresh.insert(place) || place.0 >= 16, "seed {seed}"),
                            false => assert!(fresh.remove(&place) || place.0 >= 16, "seed {seed}"),
                        }
                    }
                } else if served[core] < 40 && rings.has_packet(core) && rings.has_room(core) {
                    for step in 1..=LINES.0 {
                        assert!(fresh.remove(&rings.read(core, step)), "seed {seed}");
                    }
                    for step in 0..LINES.1 {
                        assert!(fresh.insert(rings.write(core, step)), "seed {seed}");
                    }
                    if core == 0 {
                        first_pages.push(rings.read(0, 1).0);
                    }
                    rings.served(core);
                    served[core] += 1;
                }
            }
            let turns: Vec<u32> = (0..40).map(|n| n / 2 % 4).collect();
            assert_eq!(first_pages, turns, "seed {seed}");
        }
    }

    #[test]
    fn rings_do_not_share_lines() {
        let rings = PacketRings::new(3, LINES, 24);
        let mut places = HashSet::new();
        for (ring, lines) in (rings.received.iter().map(|r| (r, LINES.0)))
            .chain(rings.sent.iter().map(|r| (r, LINES.1)))
        {
            for packet in 0..ring.slots() {
                for line in 0..lines {
                    let place = ring.line(packet, line);
                    assert!(place.1 < PAGE_LINES as u32 && place.0 < 24);
                    assert!(places.insert(place), "{place:?} twice");
                }
            }
            let (page, line) = ring.descriptor(ring.slots() - 1);
            assert!((24..27).contains(&page) && line < PAGE_LINES as u32);
        }
    }
}
