// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writers of the formats of DynamoRIO, gem5 and perf, for tests of their readers.
// Each test takes its own part of this.
#![allow(dead_code)]

use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::io::Write;

/// An entry of drmemtrace: type, size, address or value.
pub fn entry(kind: u16, size: u16, value: u64) -> Vec<u8> {
    let kind = kind.to_le_bytes().into_iter();
    kind.chain(size.to_le_bytes())
        .chain(value.to_le_bytes())
        .collect()
}

/// A thread's file between its header and its footer.
pub fn drmemtrace_file(entries: &[Vec<u8>]) -> Vec<u8> {
    let (header, footer) = (entry(25, 0, 5), entry(26, 0, 0));
    [header, entries.concat(), footer].concat()
}

/// A zip archive of such members, the first as it is and the others deflated.
pub fn zip(members: &[&[u8]]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (at, member) in members.iter().enumerate() {
        let method: u16 = if at == 0 && members.len() > 1 { 0 } else { 8 };
        let packed = match method {
            0 => member.to_vec(),
            _ => {
                let mut deflate = DeflateEncoder::new(Vec::new(), Compression::fast());
                deflate.write_all(member).expect("written");
                deflate.finish().expect("deflated")
            }
        };
        archive.extend(b"PK\x03\x04\x14\0\0\0");
        archive.extend(method.to_le_bytes());
        archive.extend([0; 4]);
        archive.extend(crc32fast::hash(member).to_le_bytes());
        archive.extend((packed.len() as u32).to_le_bytes());
        archive.extend((member.len() as u32).to_le_bytes());
        archive.extend([5, 0, 0, 0]);
        archive.extend(format!("part{at}").bytes());
        archive.extend(packed);
    }
    // Of the directory no reader from the start takes more than its signature.
    archive.extend(b"PK\x01\x02");
    archive.extend([0; 42]);
    archive
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn field(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn text_field(number: u64, text: &str) -> Vec<u8> {
    let head = [varint(number << 3 | 2), varint(text.len() as u64)].concat();
    [&head, text.as_bytes()].concat()
}

fn with_length(body: Vec<u8>) -> Vec<u8> {
    [varint(body.len() as u64), body].concat()
}

/// A message of numbers, behind its length.
pub fn message(fields: &[(u64, u64)]) -> Vec<u8> {
    let body: Vec<Vec<u8>> = fields.iter().map(|&(at, value)| field(at, value)).collect();
    with_length(body.concat())
}

/// A trace of packets of these fields.
pub fn packet_file(packets: &[[(u64, u64); 4]]) -> Vec<u8> {
    let header = [
        text_field(1, "system.monitor"),
        field(2, 0),
        field(3, 1_000_000_000_000),
        text_field(4, "\u{8}\u{1}"),
    ];
    let mut file = [b"gem5".to_vec(), with_length(header.concat())].concat();
    for (tick, packet) in packets.iter().enumerate() {
        file.extend(message(&[&[(1, tick as u64)], &packet[..]].concat()));
    }
    file
}

/// A record of an elastic trace.
pub struct Elastic {
    pub sequence: u64,
    pub kind: u64,
    pub va: u64,
    pub weight: u64,
    pub after: Vec<u64>,
}

impl Elastic {
    pub fn new(sequence: u64, kind: u64, va: u64, after: &[u64]) -> Self {
        Elastic {
            sequence,
            kind,
            va,
            weight: 0,
            after: after.to_vec(),
        }
    }
}

/// An elastic trace.
pub fn elastic_file(records: &[Elastic]) -> Vec<u8> {
    let header = [
        text_field(1, "cpu"),
        field(3, 1_000_000_000_000),
        field(4, 120),
    ];
    let mut file = [b"gem5".to_vec(), with_length(header.concat())].concat();
    for record in records {
        let mut fields = vec![(1, record.sequence), (2, record.kind), (7, 500)];
        if record.va != 0 {
            fields.extend([(3, record.va & 0xffff), (4, 8), (11, record.va)]);
        }
        if record.weight != 0 {
            fields.push((9, record.weight));
        }
        fields.extend(record.after.iter().map(|&at| (8, at)));
        file.extend(message(&fields));
    }
    file
}

/// What `perf mem -D report` prints: a load, a store, one without an address, a fetch.
pub fn perf_file() -> String {
    "# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL\n \
     4711  4711 0x0000000000401136 0x00007f0000001008    34 0x68100142 /usr/bin/app:main\n \
     4711  4712 0x0000000000401140 0x00007f0000002010     0 0x05080184 /usr/bin/app:put value\n \
     4711  4712 0x0000000000401140 0x0000000000000000     0 0x05080142 /usr/bin/app:put\n \
     4711  4711 0x0000000000400040 0x0000000000400044     1 0x00000010 ???:???\n"
        .into()
}
