// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of gem5 in Protocol Buffers: packets that a monitor saw (`src/proto/packet.proto`), and
//! the elastic traces of its out-of-order core (`src/proto/inst_dep_record.proto`).

use super::decompressed;
use super::instructions::Instructions;
use super::wire::{Field, Fields, MESSAGE_BYTES, stream_varint};
use crate::access::error::TraceError;
use crate::{Access, AccessKind};
use std::collections::{HashMap, VecDeque};
use std::io::{BufReader, Read};

/// What every file of gem5's starts with.
pub(crate) const MAGIC: &[u8; 4] = b"gem5";

/// `MemCmd::ReadReq` and `WriteReq`, the same in every version.
const READ_REQUEST: u64 = 1;
const WRITE_REQUEST: u64 = 4;
/// `Request::INST_FETCH`.
const INSTRUCTION_FETCH: u64 = 0x100;
/// Instructions back that a dependence of an elastic trace is looked for.
const WINDOW: usize = 1 << 16;

/// The two kinds of files. Both have an object, a version and a frequency; an elastic trace's
/// header goes on with a number (its window), that of packets with text.
#[derive(Clone, Copy)]
enum Kind {
    Packets,
    Elastic,
}

/// A message's fields by number: the numbers that are there once.
#[derive(Default)]
struct Message {
    once: [Option<u64>; 13],
}

impl Message {
    fn get(&self, field: usize) -> Option<u64> {
        self.once[field]
    }
}

/// Which load an instruction's value comes from, by its sequence number.
#[derive(Default)]
struct Dependences {
    loads: HashMap<u64, u64>,
    order: VecDeque<u64>,
}

impl Dependences {
    fn put(&mut self, sequence: u64, load: u64) {
        if self.loads.insert(sequence, load).is_none() {
            self.order.push_back(sequence);
        }
        if self.order.len() > WINDOW {
            let oldest = self.order.pop_front();
            self.loads
                .remove(&oldest.expect("it is longer than the window"));
        }
    }

    fn newest(&self, sequences: &[u64]) -> u64 {
        let loads = sequences.iter().filter_map(|at| self.loads.get(at));
        loads.copied().max().unwrap_or(0)
    }
}

struct Reader<V> {
    instructions: Instructions,
    dependences: Dependences,
    /// Loads and stores so far.
    accesses: u64,
    visit: V,
}

impl<V: FnMut(Access) -> bool> Reader<V> {
    fn packet(&mut self, packet: &Message) -> Result<bool, &'static str> {
        let [command, address, bytes] = [2, 3, 4].map(|field| packet.get(field));
        let (Some(command), Some(va), Some(bytes)) = (command, address, bytes) else {
            return Err("a packet without command, address or size");
        };
        let is_fetch = packet.get(5).unwrap_or(0) & INSTRUCTION_FETCH != 0;
        let kind = match command {
            READ_REQUEST if is_fetch => {
                let fetch = self.instructions.fetch(va);
                return Ok(fetch.is_none_or(&mut self.visit));
            }
            READ_REQUEST => AccessKind::Load,
            WRITE_REQUEST => AccessKind::Store,
            // Answers, writebacks, prefetches: nothing that a program asked for.
            _ => return Ok(true),
        };
        self.accesses += 1;
        // Which instruction it belongs to is not told.
        self.instructions.another();
        let access = self.instructions.access(kind, va, bytes, 0);
        Ok((self.visit)(access))
    }

    fn record(&mut self, record: &Message, registers: &[u64]) -> Result<bool, &'static str> {
        let (Some(sequence), Some(kind)) = (record.get(1), record.get(2)) else {
            return Err("a record without sequence number or type");
        };
        if let Some(fetch) = record.get(10).and_then(|pc| self.instructions.fetch(pc))
            && !(self.visit)(fetch)
        {
            return Ok(false);
        }
        // Committed instructions that were left out before this one.
        self.instructions.more(record.get(9).unwrap_or(0));
        self.instructions.another();
        let newest = self.dependences.newest(registers);
        let kind = match kind {
            1 => AccessKind::Load,
            2 => AccessKind::Store,
            3 => {
                self.dependences.put(sequence, newest);
                return Ok(true);
            }
            _ => return Err("a record that is neither load, store nor computation"),
        };
        let address = record.get(11).filter(|&va| va != 0).or(record.get(3));
        let va = address.ok_or("a load or store without an address")?;
        self.accesses += 1;
        let back = if newest == 0 {
            0
        } else {
            self.accesses - newest
        };
        if kind == AccessKind::Load {
            self.dependences.put(sequence, self.accesses);
        }
        let bytes = record.get(4).unwrap_or(8);
        let access = self.instructions.access(kind, va, bytes, back);
        Ok((self.visit)(access))
    }
}

/// The next message, into `bytes`; false at the end.
fn message(input: &mut dyn Read, bytes: &mut Vec<u8>) -> Result<bool, String> {
    let damaged = |source| format!("the stream is damaged: {source}");
    let Some(length) = stream_varint(input).map_err(damaged)? else {
        return Ok(false);
    };
    if length > MESSAGE_BYTES {
        return Err(format!(
            "a message of {length} bytes; {MESSAGE_BYTES} at most are read"
        ));
    }
    bytes.clear();
    let read = input.take(length).read_to_end(bytes).map_err(damaged)? as u64;
    if read < length {
        return Err(format!(
            "the trace ends after {read} of {length} bytes of a message"
        ));
    }
    Ok(true)
}

/// Takes a message apart: what is there once, and every field to `each`.
fn fields(bytes: &[u8], mut each: impl FnMut(Field)) -> Result<Message, String> {
    let mut message = Message::default();
    let mut fields = Fields(bytes);
    while let Some(field) = fields.next() {
        let (number, content) = field.ok_or("the message is damaged")?;
        let place = usize::try_from(number).ok();
        if let Some(slot) = place.and_then(|at| message.once.get_mut(at)) {
            *slot = content.or(*slot);
        }
        each((number, content));
    }
    Ok(message)
}

fn kind_of(header: &[u8]) -> Result<Kind, String> {
    let mut is_elastic = false;
    let header = fields(header, |(number, content)| {
        is_elastic |= number == 4 && content.is_some();
    })?;
    if header.get(3).is_none() {
        return Err("the first message is no header of a packet or elastic trace".into());
    }
    Ok(if is_elastic {
        Kind::Elastic
    } else {
        Kind::Packets
    })
}

/// Reads a trace of packets or an elastic trace (plain or gzip) and hands every access to `visit`
/// until it returns false; returns the number of loads and stores. Packets carry no instructions
/// between them, and the address that the monitor saw; elastic traces have virtual addresses and
/// dependences.
///
/// # Errors
/// If the file is no such trace, or is damaged: the number of the message.
pub fn gem5<R: Read>(input: R, visit: impl FnMut(Access) -> bool) -> Result<u64, TraceError> {
    let at = |number: u64| {
        move |what: String| TraceError::Syntax {
            place: format!("message {number}"),
            what,
        }
    };
    let mut input = BufReader::new(decompressed(input)?);
    let mut magic = Vec::new();
    let started = input.by_ref().take(4).read_to_end(&mut magic);
    started.map_err(|source| at(0)(format!("the stream is damaged: {source}")))?;
    let mut bytes = Vec::new();
    if magic != MAGIC || !message(&mut input, &mut bytes).map_err(at(0))? {
        return Err(at(0)(
            "no file of gem5's: it does not start with gem5 and a header".into(),
        ));
    }
    let kind = kind_of(&bytes).map_err(at(0))?;
    let mut reader = Reader {
        instructions: Instructions::new(),
        dependences: Dependences::default(),
        accesses: 0,
        visit,
    };
    let mut registers = Vec::new();
    for number in 1u64.. {
        if !message(&mut input, &mut bytes).map_err(at(number))? {
            break;
        }
        registers.clear();
        let found = fields(&bytes, |(field, content)| {
            registers.extend(content.filter(|_| field == 8));
        });
        let found = found.map_err(at(number))?;
        let goes_on = match kind {
            Kind::Packets => reader.packet(&found),
            Kind::Elastic => reader.record(&found, &registers),
        };
        if !goes_on.map_err(|what| at(number)(what.into()))? {
            break;
        }
    }
    Ok(reader.accesses)
}
