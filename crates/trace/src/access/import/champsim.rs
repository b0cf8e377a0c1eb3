// SPDX-License-Identifier: MIT OR Apache-2.0
//! ChampSim's instruction records.

use super::decompressed;
use super::instructions::Instructions;
use super::records::next_record;
use crate::access::error::TraceError;
use crate::{Access, AccessKind};
use std::io::Read;

/// Bytes of an `input_instr`: instruction pointer, branch flags, registers, two store and four
/// load addresses.
const RECORD_BYTES: usize = 64;
/// Offsets of the addresses, in the order in which an instruction uses them.
const ADDRESSES: [(usize, AccessKind); 6] = [
    (32, AccessKind::Load),
    (40, AccessKind::Load),
    (48, AccessKind::Load),
    (56, AccessKind::Load),
    (16, AccessKind::Store),
    (24, AccessKind::Store),
];

type Record = [u8; RECORD_BYTES];

fn word(record: &Record, at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"))
}

/// What is known of the instructions so far.
struct State {
    instructions: Instructions,
    /// Loads and stores so far: what dependences are counted in.
    accesses: u64,
    /// For each register the number of the load that last wrote it, counted from one.
    writer: [u64; 256],
}

impl State {
    /// Hands on the accesses of one instruction; false if `visit` wants no more.
    fn instruction(&mut self, record: &Record, visit: &mut impl FnMut(Access) -> bool) -> bool {
        self.instructions.another();
        if let Some(fetch) = self.instructions.fetch(word(record, 0))
            && !visit(fetch)
        {
            return false;
        }
        let written = |&register: &u8| self.writer[register as usize];
        let newest = record[12..16].iter().map(written).max().unwrap_or(0);
        let mut loaded = 0;
        let mut any = false;
        for (at, kind) in ADDRESSES {
            let va = word(record, at);
            if va == 0 {
                continue;
            }
            self.accesses += 1;
            let dep = if newest == 0 {
                0
            } else {
                self.accesses - newest
            };
            if !visit(self.instructions.access(kind, va, 8, dep)) {
                return false;
            }
            if kind == AccessKind::Load {
                loaded = self.accesses;
            }
            any = true;
        }
        for &register in record[10..12].iter().filter(|&&r| r != 0) {
            self.writer[register as usize] = loaded.max(if any { 0 } else { newest });
        }
        true
    }
}

/// Reads a ChampSim trace and hands every access to `visit` until it returns false; returns the
/// number of instructions. Dependences between registers become dependences between accesses.
///
/// # Errors
/// If the file ends inside a record (also inside a damaged compressed stream): the record's number.
pub fn champsim<R: Read>(
    input: R,
    mut visit: impl FnMut(Access) -> bool,
) -> Result<u64, TraceError> {
    let mut input = decompressed(input)?;
    let mut record = [0u8; RECORD_BYTES];
    let mut instructions = 0;
    let mut state = State {
        instructions: Instructions::new(),
        accesses: 0,
        writer: [0; 256],
    };
    let bad = |number: u64| {
        move |what| TraceError::Syntax {
            place: format!("record {number}"),
            what,
        }
    };
    while next_record(&mut input, &mut record).map_err(bad(instructions))? {
        instructions += 1;
        if !state.instruction(&record, &mut visit) {
            break;
        }
    }
    Ok(instructions)
}
