// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project's own trace format: delta-coded, compressed in checked blocks.
//!
//! ```text
//! file   = "AMPLTRC1", u32 header length, header (JSON: TraceHeader), u32 CRC of the header,
//!          block*, end
//! block  = u32 records (> 0), u32 raw bytes, u32 stored bytes, u32 CRC-32 of the raw bytes,
//!          zstd frame
//! end    = u32 0, u64 records in all
//! record = control byte, [gap], address delta, [extras]
//! ```
//! All integers are little-endian. The control byte holds the kind (2 bits), which of four recent
//! addresses the delta is against (2 bits), whether extras follow (1 bit) and the gap (3 bits; 7:
//! a varint follows). Deltas are zigzag varints. A run on built-in programs takes 1 to 4 bytes an
//! access.

use crate::error::{FirstError, TraceError};
use crate::{Access, Consumer, Kind, Region};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

const MAGIC: &[u8; 8] = b"AMPLTRC1";
const RECORDS_PER_BLOCK: usize = 64 << 10;
/// Nothing a writer makes comes near these; a reader refuses more before it allocates.
const MAX_RAW_BYTES: u32 = 4 << 20;
const MAX_HEADER_BYTES: u32 = 16 << 20;

/// What a trace says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHeader {
    /// Program or command.
    pub program: String,
    /// Its address space.
    pub regions: Vec<Region>,
    /// Recording was ended by hand.
    #[serde(default)]
    pub partial: bool,
}

#[derive(Clone, Debug)]
struct Coder {
    recent: [u64; 4],
    next: usize,
}

impl Coder {
    fn new() -> Self {
        Coder {
            recent: [0; 4],
            next: 0,
        }
    }

    /// The recent address closest to `va`.
    fn closest(&self, va: u64) -> usize {
        let distance = |i: usize| (va.wrapping_sub(self.recent[i]) as i64).unsigned_abs();
        (0..4).min_by_key(|&i| distance(i)).unwrap_or(0)
    }

    /// A close address takes its predecessor's place, so that four streams keep four places.
    fn remember(&mut self, base: usize, va: u64) {
        let near = (va.wrapping_sub(self.recent[base]) as i64).unsigned_abs() < 1 << 16;
        let place = if near { base } else { self.next };
        if !near {
            self.next = (self.next + 1) % 4;
        }
        self.recent[place] = va;
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn get_varint(raw: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = raw.split_first()?;
        *raw = rest;
        let bits = u64::from(byte & 127);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 128 {
            return Some(value);
        }
    }
    None
}

fn encode(coder: &mut Coder, out: &mut Vec<u8>, access: &Access) {
    let base = coder.closest(access.va);
    let extras = u8::from(access.dep != 0)
        | u8::from(access.bytes != default_bytes(access.kind)) << 1
        | u8::from(access.thread != 0) << 2;
    let gap = access.gap.min(7) as u8;
    out.push(access.kind as u8 | (base as u8) << 2 | u8::from(extras != 0) << 4 | gap << 5);
    if gap == 7 {
        put_varint(out, u64::from(access.gap));
    }
    let delta = access.va.wrapping_sub(coder.recent[base]) as i64;
    put_varint(out, (delta << 1 ^ delta >> 63) as u64);
    if extras != 0 {
        out.push(extras);
        if access.dep != 0 {
            put_varint(out, u64::from(access.dep));
        }
        if extras & 2 != 0 {
            out.push(access.bytes);
        }
        if extras & 4 != 0 {
            out.push(access.thread);
        }
    }
    coder.remember(base, access.va);
}

fn default_bytes(kind: Kind) -> u8 {
    if kind == Kind::Fetch { 64 } else { 8 }
}

fn decode(coder: &mut Coder, raw: &mut &[u8]) -> Option<Access> {
    let (&control, rest) = raw.split_first()?;
    *raw = rest;
    let kind = [Kind::Load, Kind::Store, Kind::Fetch]
        .get(control as usize & 3)
        .copied()?;
    let base = control as usize >> 2 & 3;
    let mut gap = u16::from(control >> 5);
    if gap == 7 {
        gap = u16::try_from(get_varint(raw)?).ok()?;
    }
    let zigzag = get_varint(raw)?;
    let delta = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
    let va = coder.recent[base].wrapping_add(delta as u64);
    let mut access = Access {
        va,
        gap,
        dep: 0,
        kind,
        bytes: default_bytes(kind),
        thread: 0,
    };
    let byte = |raw: &mut &[u8]| {
        let (&byte, rest) = raw.split_first()?;
        *raw = rest;
        Some(byte)
    };
    if control & 16 != 0 {
        let extras = byte(raw)?;
        if extras & 1 != 0 {
            access.dep = u16::try_from(get_varint(raw)?).ok()?;
        }
        if extras & 2 != 0 {
            access.bytes = byte(raw)?;
        }
        if extras & 4 != 0 {
            access.thread = byte(raw)?;
        }
    }
    coder.remember(base, va);
    Some(access)
}

/// Writes the start of a trace; returns its bytes.
pub(crate) fn write_header(out: &mut dyn Write, header: &TraceHeader) -> Result<u64, TraceError> {
    let text = serde_json::to_vec(header).map_err(|e| TraceError::Syntax {
        place: "header".into(),
        what: e.to_string(),
    })?;
    let mut start = MAGIC.to_vec();
    start.extend((text.len() as u32).to_le_bytes());
    start.extend(&text);
    start.extend(crc32fast::hash(&text).to_le_bytes());
    out.write_all(&start)
        .map_err(|source| TraceError::Io { at: 0, source })?;
    Ok(start.len() as u64)
}

/// Writes a trace; also a [`Consumer`], so that a program can run straight into a file.
pub struct TraceWriter<W: Write> {
    out: W,
    coder: Coder,
    raw: Vec<u8>,
    pending: u32,
    records: u64,
    bytes: u64,
    first_error: FirstError,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(mut out: W, header: &TraceHeader) -> Result<Self, TraceError> {
        let bytes = write_header(&mut out, header)?;
        Ok(TraceWriter {
            out,
            coder: Coder::new(),
            raw: Vec::new(),
            pending: 0,
            records: 0,
            bytes,
            first_error: FirstError::default(),
        })
    }

    /// Appends one access.
    ///
    /// # Errors
    /// If writing fails.
    pub fn push(&mut self, access: &Access) -> Result<(), TraceError> {
        encode(&mut self.coder, &mut self.raw, access);
        self.pending += 1;
        self.records += 1;
        if self.pending as usize == RECORDS_PER_BLOCK {
            self.end_block()
        } else {
            Ok(())
        }
    }

    fn write(&mut self, data: &[u8]) -> Result<(), TraceError> {
        let at = self.bytes;
        self.bytes += data.len() as u64;
        self.out
            .write_all(data)
            .map_err(|source| TraceError::Io { at, source })
    }

    fn end_block(&mut self) -> Result<(), TraceError> {
        if self.pending == 0 {
            return Ok(());
        }
        let stored = zstd::bulk::compress(&self.raw, 3).map_err(|source| TraceError::Io {
            at: self.bytes,
            source,
        })?;
        let mut head = Vec::with_capacity(16);
        for number in [
            self.pending,
            self.raw.len() as u32,
            stored.len() as u32,
            crc32fast::hash(&self.raw),
        ] {
            head.extend(number.to_le_bytes());
        }
        self.write(&head)?;
        self.write(&stored)?;
        self.raw.clear();
        self.pending = 0;
        // Each block can be read by itself.
        self.coder = Coder::new();
        Ok(())
    }

    /// Ends the trace; returns records and bytes written.
    ///
    /// # Errors
    /// If writing fails, or failed while a program ran into this writer.
    pub fn finish(self) -> Result<(u64, u64), TraceError> {
        let records = self.records;
        let (bytes, _) = self.into_inner()?;
        Ok((records, bytes))
    }

    /// As [`finish`](Self::finish); returns bytes written and the stream beneath.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub(crate) fn into_inner(mut self) -> Result<(u64, W), TraceError> {
        self.first_error.check()?;
        self.end_block()?;
        let mut end = 0u32.to_le_bytes().to_vec();
        end.extend(self.records.to_le_bytes());
        self.write(&end)?;
        self.out.flush().map_err(|source| TraceError::Io {
            at: self.bytes,
            source,
        })?;
        Ok((self.bytes, self.out))
    }
}

impl<W: Write> Consumer for TraceWriter<W> {
    fn consume(&mut self, block: &[Access]) -> bool {
        let written = block.iter().try_for_each(|access| self.push(access));
        self.first_error.keep(written)
    }
}

/// Reads a trace block by block.
pub struct TraceReader<R: Read> {
    input: R,
    /// What the trace says about itself.
    pub header: TraceHeader,
    at: u64,
    records: u64,
    ended: bool,
}

impl<R: Read> TraceReader<R> {
    /// Opens a trace.
    ///
    /// # Errors
    /// If it is none, or its header is damaged.
    pub fn new(input: R) -> Result<Self, TraceError> {
        let header = TraceHeader::default();
        let mut reader = TraceReader {
            input,
            header,
            at: 0,
            records: 0,
            ended: false,
        };
        let mut magic = [0; 8];
        if reader.fill(&mut magic).is_err() || &magic != MAGIC {
            return Err(TraceError::Magic);
        }
        let length = reader.u32()?;
        if length > MAX_HEADER_BYTES {
            return Err(reader.damaged(8, format!("a header of {length} bytes")));
        }
        let mut text = vec![0; length as usize];
        reader.fill(&mut text)?;
        let crc = reader.u32()?;
        if crc32fast::hash(&text) != crc {
            return Err(reader.damaged(12, "the header's checksum is wrong".into()));
        }
        reader.header = serde_json::from_slice(&text)
            .map_err(|e| reader.damaged(12, format!("the header does not parse: {e}")))?;
        Ok(reader)
    }

    /// What comes after the header, unread.
    pub(crate) fn input(&mut self) -> &mut R {
        &mut self.input
    }

    fn damaged(&self, at: u64, what: String) -> TraceError {
        TraceError::Damaged {
            at,
            what,
            good_records: self.records,
        }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), TraceError> {
        let at = self.at;
        self.input
            .read_exact(buffer)
            .map_err(|source| match source.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    self.damaged(at, "the file ends in the middle".into())
                }
                _ => TraceError::Io { at, source },
            })?;
        self.at += buffer.len() as u64;
        Ok(())
    }

    fn u32(&mut self) -> Result<u32, TraceError> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// The next block of accesses; None after the end. After an error the trace is over.
    ///
    /// # Errors
    /// If the block is damaged; the position is the block's.
    pub fn next_block(&mut self, accesses: &mut Vec<Access>) -> Result<bool, TraceError> {
        accesses.clear();
        if self.ended {
            return Ok(false);
        }
        self.ended = true;
        let at = self.at;
        let records = self.u32()?;
        if records == 0 {
            let (low, high) = (self.u32()?, self.u32()?);
            let total = u64::from(low) | u64::from(high) << 32;
            if total != self.records {
                let what = format!("{} records found, {total} announced", self.records);
                return Err(self.damaged(at, what));
            }
            return Ok(false);
        }
        let (raw_bytes, stored_bytes, crc) = (self.u32()?, self.u32()?, self.u32()?);
        if raw_bytes > MAX_RAW_BYTES || stored_bytes > MAX_RAW_BYTES || records > raw_bytes {
            let what = format!(
                "impossible block ({records} records, {raw_bytes} bytes, {stored_bytes} stored)"
            );
            return Err(self.damaged(at, what));
        }
        let mut stored = vec![0; stored_bytes as usize];
        self.fill(&mut stored)?;
        let raw = zstd::bulk::decompress(&stored, raw_bytes as usize)
            .map_err(|e| self.damaged(at, format!("the block does not decompress: {e}")))?;
        if raw.len() != raw_bytes as usize || crc32fast::hash(&raw) != crc {
            return Err(self.damaged(at, "the block's checksum is wrong".into()));
        }
        let mut coder = Coder::new();
        let mut rest = raw.as_slice();
        for _ in 0..records {
            match decode(&mut coder, &mut rest) {
                Some(access) => accesses.push(access),
                None => return Err(self.damaged(at, "a record does not decode".into())),
            }
        }
        if !rest.is_empty() {
            return Err(self.damaged(at, format!("{} bytes after the last record", rest.len())));
        }
        self.records += u64::from(records);
        self.ended = false;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Program, Recorder, Scale, programs};
    use proptest::prelude::*;

    fn access() -> impl Strategy<Value = Access> {
        (
            any::<u64>(),
            any::<u16>(),
            any::<u16>(),
            0usize..3,
            any::<u8>(),
            any::<u8>(),
        )
            .prop_map(|(va, gap, dep, kind, bytes, thread)| {
                let kind = [Kind::Load, Kind::Store, Kind::Fetch][kind];
                Access {
                    va,
                    gap,
                    dep,
                    kind,
                    bytes,
                    thread,
                }
            })
    }

    fn written(accesses: &[Access]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = TraceWriter::new(&mut file, &TraceHeader::default()).unwrap();
        assert!(writer.consume(accesses));
        writer.finish().unwrap();
        file
    }

    fn read_all(file: &[u8]) -> Result<Vec<Access>, TraceError> {
        let mut reader = TraceReader::new(file)?;
        let (mut all, mut block) = (Vec::new(), Vec::new());
        while reader.next_block(&mut block)? {
            all.extend_from_slice(&block);
        }
        Ok(all)
    }

    proptest! {
        #[test]
        fn reads_back_what_was_written(accesses in proptest::collection::vec(access(), 0..300)) {
            prop_assert_eq!(read_all(&written(&accesses)).unwrap(), accesses);
        }

        #[test]
        fn damage_is_found_or_harmless(
            accesses in proptest::collection::vec(access(), 1..100),
            place in any::<proptest::sample::Index>(),
            flip in 1u8..=255,
        ) {
            let mut file = written(&accesses);
            let at = place.index(file.len());
            file[at] ^= flip;
            if let Ok(read) = read_all(&file) {
                prop_assert_eq!(read, accesses, "byte {} changed and nobody noticed", at);
            }
        }

        #[test]
        fn a_cut_file_is_an_error(
            accesses in proptest::collection::vec(access(), 1..50),
            place in any::<proptest::sample::Index>(),
        ) {
            let file = written(&accesses);
            let cut = place.index(file.len());
            prop_assert!(read_all(&file[..cut]).is_err());
        }
    }

    #[test]
    fn programs_take_at_most_four_bytes_an_access() {
        for name in programs::NAMES {
            let mut program = programs::by_name(name, Scale::Tiny, 1).unwrap();
            let header = TraceHeader {
                program: (*name).into(),
                regions: program.regions().to_vec(),
                partial: false,
            };
            let mut file = Vec::new();
            let mut writer = TraceWriter::new(&mut file, &header).unwrap();
            let mut recorder = Recorder::new(&mut writer, 200_000);
            program.run(&mut recorder);
            recorder.flush();
            let (records, bytes) = writer.finish().unwrap();
            assert!(
                bytes <= records * 4,
                "{name}: {bytes} bytes for {records} records"
            );
        }
        // Also for the worst case, uniformly random over 32 GB.
        let mut gups = programs::Gups::new(32 << 30, 1);
        let mut file = Vec::new();
        let mut writer = TraceWriter::new(&mut file, &TraceHeader::default()).unwrap();
        let mut recorder = Recorder::new(&mut writer, 200_000);
        gups.run(&mut recorder);
        recorder.flush();
        let (records, bytes) = writer.finish().unwrap();
        assert!(bytes <= records * 4, "{bytes} bytes for {records} records");
    }
}
