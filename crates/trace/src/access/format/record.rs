// SPDX-License-Identifier: MIT OR Apache-2.0
//! One record: an access in bytes.

use crate::{Access, AccessKind};

/// The recent addresses that deltas are taken against; encoder and decoder keep the same four.
#[derive(Clone, Debug)]
pub(super) struct Coder {
    recent: [u64; 4],
    next: usize,
}

impl Coder {
    /// Before the first record of a block.
    pub(super) fn new() -> Self {
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

/// Appends the record of an access.
pub(super) fn encode(coder: &mut Coder, out: &mut Vec<u8>, access: &Access) {
    let base = coder.closest(access.va);
    let extras = u8::from(access.dep != 0)
        | u8::from(access.bytes != default_bytes(access.kind)) << 1
        | u8::from(access.thread != 0) << 2
        | u8::from(access.joined) << 3;
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

fn default_bytes(kind: AccessKind) -> u8 {
    if kind == AccessKind::Fetch { 64 } else { 8 }
}

/// Takes a record off the front of `raw`; `None` if there is no whole one.
pub(super) fn decode(coder: &mut Coder, raw: &mut &[u8]) -> Option<Access> {
    let (&control, rest) = raw.split_first()?;
    *raw = rest;
    let kind = [AccessKind::Load, AccessKind::Store, AccessKind::Fetch]
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
        joined: false,
    };
    let byte = |raw: &mut &[u8]| {
        let (&byte, rest) = raw.split_first()?;
        *raw = rest;
        Some(byte)
    };
    if control & 16 != 0 {
        let extras = byte(raw)?;
        if extras > 15 {
            return None;
        }
        access.joined = extras & 8 != 0;
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
