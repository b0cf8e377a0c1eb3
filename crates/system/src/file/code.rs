// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words as bytes: an access is a control byte, its size and gap where they are not what they most
//! often are, and the distance from the CPU's last address of the same kind and mode. Other words
//! follow a control byte of kind 3 as they are.
//!
//! ```text
//! control byte = kind (2 bits), kernel mode, same instruction, gap follows, size follows
//!              | 3 (2 bits), 0
//!              | 3 (2 bits), 1, CPU (4 bits): whose the words are that follow
//! ```

use crate::guest::CPUS;
use crate::wire::record_words;
use std::ops::Range;

const GAP: u8 = 1 << 4;
const SIZE: u8 = 1 << 5;
/// Bits of a word that a control byte stands for, and where they are in a word.
const KIND_SHIFT: u32 = 59;
const ADDRESS: u64 = (1 << 48) - 1;

/// In a control byte of kind 3: another CPU, and where its number is.
const CPU: u8 = 1 << 2;
const CPU_SHIFT: u32 = 3;

/// What has gone before in a block.
#[derive(Clone, Debug, Default)]
struct State {
    address: [u64; 6],
    size: [u8; 6],
}

/// Distance between addresses of 48 bits as a number that is small where they are near.
fn zigzag(delta: u64) -> u64 {
    let signed = (delta << 16) as i64 >> 16;
    ((signed << 1) ^ (signed >> 63)) as u64
}

fn unzigzag(code: u64) -> u64 {
    (code >> 1) ^ (code & 1).wrapping_neg()
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(byte)
}

/// Codes words of one block one record after another.
#[derive(Clone, Debug, Default)]
pub(super) struct Encoder {
    /// By CPU.
    states: [State; CPUS],
    /// Whose words come; at the beginning of a block nobody's.
    cpu: Option<usize>,
    /// What has been coded.
    pub(super) bytes: Vec<u8>,
}

impl Encoder {
    /// Codes whole records of a CPU until there are `most` bytes or more; returns how many words
    /// that took. Where a block ends depends on the words alone, not on the parts they come in.
    pub(super) fn encode(&mut self, cpu: usize, words: &[u64], most: usize) -> usize {
        if self.cpu.replace(cpu) != Some(cpu) {
            self.bytes.push(3 | CPU | (cpu as u8) << CPU_SHIFT);
        }
        let mut at = 0;
        while let Some(&word) = words.get(at).filter(|_| self.bytes.len() < most) {
            let kind = (word >> KIND_SHIFT & 3) as u8;
            if kind == 3 {
                self.bytes.push(kind);
                let length = record_words(word);
                for word in &words[at..at + length] {
                    self.bytes.extend(word.to_le_bytes());
                }
                at += length;
            } else {
                self.access(cpu, word, kind);
                at += 1;
            }
        }
        at
    }

    fn access(&mut self, cpu: usize, word: u64, kind: u8) {
        let state = &mut self.states[cpu];
        let mode = (word >> 61 & 3) as u8;
        let (gap, size) = ((word >> 48) as u8, (word >> 56 & 7) as u8);
        let place = usize::from(kind * 2 + (mode & 1));
        let resized = state.size[place] != size;
        let flags = if gap != 0 { GAP } else { 0 } | if resized { SIZE } else { 0 };
        self.bytes.push(kind | mode << 2 | flags);
        if resized {
            self.bytes.push(size);
            state.size[place] = size;
        }
        if gap != 0 {
            self.bytes.push(gap);
        }
        let address = word & ADDRESS;
        let delta = address.wrapping_sub(state.address[place]);
        put_varint(&mut self.bytes, zigzag(delta));
        state.address[place] = address;
    }
}

/// The words that `bytes`, a whole block, stand for: appended to `words`, with the CPU of each
/// part of them. None if they stand for none.
pub(super) fn decode(mut bytes: &[u8], words: &mut Vec<u64>) -> Option<Vec<(usize, Range<usize>)>> {
    let mut states: [State; CPUS] = Default::default();
    let mut parts: Vec<(usize, Range<usize>)> = Vec::new();
    while let Some(control) = take_byte(&mut bytes) {
        let (kind, mode) = (control & 3, control >> 2 & 3);
        if control & (3 | CPU) == 3 | CPU {
            let at = words.len();
            if let Some((_, part)) = parts.last_mut() {
                part.end = at;
            }
            parts.push((usize::from(control >> CPU_SHIFT) % CPUS, at..at));
            continue;
        }
        let state = &mut states[parts.last()?.0];
        if kind == 3 {
            let (first, _) = bytes.split_first_chunk::<8>()?;
            let word = u64::from_le_bytes(*first);
            if word >> KIND_SHIFT & 3 != 3 {
                return None;
            }
            let (all, rest) = bytes.split_at_checked(8 * record_words(word))?;
            words.extend(all.chunks_exact(8).map(crate::ring::word));
            bytes = rest;
            continue;
        }
        let place = usize::from(kind * 2 + (mode & 1));
        if control & SIZE != 0 {
            state.size[place] = take_byte(&mut bytes)? & 7;
        }
        let gap = match control & GAP {
            0 => 0,
            _ => take_byte(&mut bytes)?,
        };
        let delta = unzigzag(take_varint(&mut bytes)?);
        let address = state.address[place].wrapping_add(delta) & ADDRESS;
        state.address[place] = address;
        words.push(
            address
                | u64::from(gap) << 48
                | u64::from(state.size[place]) << 56
                | u64::from(kind) << KIND_SHIFT
                | u64::from(mode) << 61,
        );
    }
    parts.last_mut()?.1.end = words.len();
    Some(parts)
}
