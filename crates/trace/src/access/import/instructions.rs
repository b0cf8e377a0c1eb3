// SPDX-License-Identifier: MIT OR Apache-2.0
//! What readers of other tools' traces know of the instructions so far.

use crate::{Access, AccessKind};

/// Bytes of the line that a fetch brings.
const LINE_BITS: u32 = 6;

/// Instructions since the last access, and the line that the last one lay in.
pub(super) struct Instructions {
    /// Those since the last access, the one at hand included.
    gap: u16,
    line: u64,
}

impl Instructions {
    pub(super) fn new() -> Self {
        Instructions {
            gap: 0,
            line: u64::MAX,
        }
    }

    /// One more instruction, whose access (if it has one) comes later.
    pub(super) fn another(&mut self) {
        self.more(1);
    }

    /// So many more instructions.
    pub(super) fn more(&mut self, count: u64) {
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        self.gap = self.gap.saturating_add(count);
    }

    /// The fetch of an instruction, if it lies in another line than the one before.
    pub(super) fn fetch(&mut self, address: u64) -> Option<Access> {
        let line = address >> LINE_BITS;
        let is_new = line != self.line;
        self.line = line;
        is_new.then(|| Access::fetch(line << LINE_BITS))
    }

    /// A load or store of the instruction at hand.
    pub(super) fn access(&mut self, kind: AccessKind, va: u64, bytes: u64, dep: u64) -> Access {
        let since = std::mem::take(&mut self.gap);
        Access {
            va,
            gap: since.saturating_sub(1),
            dep: u16::try_from(dep).unwrap_or(0),
            kind,
            bytes: bytes.clamp(1, 64) as u8,
            thread: 0,
            joined: since == 0,
        }
    }
}
