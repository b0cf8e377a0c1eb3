// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of DynamoRIO's drmemtrace, one file a thread, as it leaves them after conversion from raw
//! form (`clients/drcachesim/common/trace_entry.h`, versions 2 to 8 of the format).

use super::instructions::Instructions;
use super::members;
use super::records::next_record;
use crate::access::error::TraceError;
use crate::{Access, AccessKind};
use std::io::{BufReader, Read};

/// Bytes of an entry: type, size, address or value.
const ENTRY_BYTES: usize = 12;

/// Types of entries.
mod kind {
    use std::ops::RangeInclusive;

    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const INSTRUCTIONS: RangeInclusive<u16> = 10..=16;
    pub(super) const BUNDLE: u16 = 17;
    pub(super) const HEADER: u16 = 25;
    pub(super) const FOOTER: u16 = 26;
    pub(super) const MARKER: u16 = 28;
    pub(super) const NO_FETCH: u16 = 29;
    pub(super) const MAYBE_FETCH: u16 = 30;
    pub(super) const SYSENTER: u16 = 31;
    pub(super) const TAKEN_JUMP: u16 = 48;
    pub(super) const UNTAKEN_JUMP: u16 = 49;
}

/// The marker that says what kind of trace this is, and what it may say.
const FILE_TYPE: u16 = 9;
/// Addresses that hit a small cache were left out while the trace was recorded.
const FILTERED: u64 = 0x1 | 0x80 | 0x100;
/// Recorded on a machine whose addresses, and so entries, are shorter.
const ARCHITECTURES_32: u64 = 0x10 | 0x20;

/// What a file of this format starts with, unpacked: a header entry of size 0.
pub(crate) fn is_start(start: &[u8]) -> bool {
    let Some(Entry { kind, size, value }) = start.first_chunk().map(Entry::of) else {
        return false;
    };
    kind == kind::HEADER && size == 0 && (1..=0xff).contains(&value)
}

#[derive(Clone, Copy)]
struct Entry {
    kind: u16,
    size: u16,
    value: u64,
}

impl Entry {
    fn of(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let [k0, k1, s0, s1, value @ ..] = *bytes;
        Entry {
            kind: u16::from_le_bytes([k0, k1]),
            size: u16::from_le_bytes([s0, s1]),
            value: u64::from_le_bytes(value),
        }
    }
}

struct Reader<V> {
    instructions: Instructions,
    /// Instructions so far.
    count: u64,
    /// Where the last one ends: bundles go on from there.
    next: u64,
    /// Entries so far.
    entries: u64,
    ended: bool,
    visit: V,
}

impl<V: FnMut(Access) -> bool> Reader<V> {
    fn error(&self, what: String) -> TraceError {
        TraceError::Syntax {
            place: format!("entry {}", self.entries),
            what,
        }
    }

    fn instruction(&mut self, address: u64, bytes: u64, is_fetched: bool) -> bool {
        self.count += 1;
        self.next = address.wrapping_add(bytes);
        self.instructions.another();
        let fetch = is_fetched.then(|| self.instructions.fetch(address));
        fetch.flatten().is_none_or(&mut self.visit)
    }

    /// An entry that stands for several instructions, whose lengths are the bytes of its value.
    fn bundle(&mut self, entry: Entry) -> Result<bool, TraceError> {
        let lengths = entry.value.to_le_bytes();
        let Some(lengths) = lengths.get(..usize::from(entry.size)) else {
            let size = entry.size;
            return Err(self.error(format!("a bundle of {size} instructions, 8 at most fit")));
        };
        let mut goes_on = true;
        for &length in lengths {
            goes_on = goes_on && self.instruction(self.next, u64::from(length), true);
        }
        Ok(goes_on)
    }

    fn refuse(&self, file_type: u64) -> Result<(), TraceError> {
        let what = match file_type {
            bits if bits & FILTERED != 0 => {
                "the trace was filtered by a cache while it was recorded, its hits are missing; \
                 record without -L0_filter"
            }
            bits if bits & ARCHITECTURES_32 != 0 => {
                "the trace is of a 32-bit machine; 64-bit ones are read"
            }
            _ => return Ok(()),
        };
        Err(self.error(what.into()))
    }

    /// Takes an entry; false if `visit` wants no more.
    fn entry(&mut self, entry: Entry) -> Result<bool, TraceError> {
        let Entry { kind, size, value } = entry;
        let bytes = u64::from(size);
        Ok(match kind {
            kind::READ | kind::WRITE => {
                let kind = match kind {
                    kind::READ => AccessKind::Load,
                    _ => AccessKind::Store,
                };
                let access = self.instructions.access(kind, value, bytes, 0);
                (self.visit)(access)
            }
            kind if kind::INSTRUCTIONS.contains(&kind) => self.instruction(value, bytes, true),
            kind::MAYBE_FETCH | kind::SYSENTER | kind::TAKEN_JUMP | kind::UNTAKEN_JUMP => {
                self.instruction(value, bytes, true)
            }
            kind::NO_FETCH => self.instruction(value, bytes, false),
            kind::BUNDLE => self.bundle(entry)?,
            kind::MARKER if size == FILE_TYPE => {
                self.refuse(value)?;
                true
            }
            kind::FOOTER => {
                self.ended = true;
                true
            }
            // Prefetches, flushes, threads, markers, encodings.
            0..=kind::UNTAKEN_JUMP => true,
            _ => {
                let newest = kind::UNTAKEN_JUMP;
                return Err(self.error(format!("type {kind}; those up to {newest} are known")));
            }
        })
    }

    /// Reads one member of the file to its end.
    fn member(&mut self, input: &mut dyn Read) -> Result<bool, TraceError> {
        let mut bytes = [0; ENTRY_BYTES];
        while next_record(input, &mut bytes).map_err(|what| self.error(what))? {
            let entry = Entry::of(&bytes);
            if self.entries == 0 && entry.kind != kind::HEADER {
                return Err(
                    self.error("no header of drmemtrace (raw traces need raw2trace)".into())
                );
            }
            if !self.entry(entry)? {
                return Ok(false);
            }
            self.entries += 1;
        }
        Ok(true)
    }
}

/// Reads one thread of a drmemtrace trace (plain, gzip or zip) and hands every access to `visit`
/// until it returns false; returns the number of instructions. Prefetches are left out, and no
/// dependences are known: entries name no registers.
///
/// # Errors
/// If the file is no such trace, was filtered, holds a type of entry that is not known, or ends
/// before its footer: the number of the entry.
pub fn drmemtrace<R: Read>(input: R, visit: impl FnMut(Access) -> bool) -> Result<u64, TraceError> {
    let mut reader = Reader {
        instructions: Instructions::new(),
        count: 0,
        next: 0,
        entries: 0,
        ended: false,
        visit,
    };
    let mut whole = true;
    members(input, &mut |member| {
        whole = reader.member(&mut BufReader::new(member))?;
        Ok(whole)
    })?;
    if whole && !reader.ended {
        return Err(reader.error("the trace ends without its footer: it was cut short".into()));
    }
    Ok(reader.count)
}
