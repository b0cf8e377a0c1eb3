// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words in a CPU's ring, as `plugin/` writes them.
//!
//! ```text
//! access  = bits 0-47 virtual address, 48-55 gap, 56-58 log2 of the bytes, 59-60 kind (0 load,
//!           1 store, 2 fetch), 61 kernel mode, 62 same instruction as the access before
//! control = kind 3: bits 0-47 payload, 48-55 operation, 56-58 pairs (of a mapping), then more
//!           words as the operation has them
//! ```
//! The gap is the number of instructions without an access since the access before; a control word
//! of its own adds what does not fit. Addresses have 48 bits and are sign-extended here: a guest
//! with five levels of page tables is refused.

use ample_trace::{Access, AccessKind};
use thiserror::Error;

/// Something that is no access, between two of a CPU's accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuEvent<'a> {
    /// The region of interest begins for this CPU.
    Begin {
        /// What the guest's marker carries.
        value: u64,
        /// The root of its page tables and the flags beside it.
        cr3: u64,
        /// Instructions that this CPU has executed since it was started.
        instructions: u64,
    },
    /// The region of interest ends.
    End {
        /// What the guest's marker carries.
        value: u64,
        /// Instructions that this CPU has executed since it was started.
        instructions: u64,
    },
    /// A marker inside the region.
    Point(u64),
    /// Another root of page tables; without process-context identifiers all that is not global
    /// leaves the TLBs.
    Cr3(u64),
    /// INVLPG of the page around an address.
    Invlpg(u64),
    /// CR0 or CR4 was written: everything leaves the TLBs, global entries too.
    Flush,
    /// An interrupt or exception of this vector is delivered.
    Interrupt(u8),
    /// IRET: an interrupt's or exception's handler returns.
    Return,
    /// The guest's page tables, on the way to the page of an address.
    Mapping(TablePath<'a>),
    /// What the recorder counted itself.
    Recorder(RecorderStats),
    /// The guest does what is not modelled.
    Refused(GuestRefusal),
    /// A turn of this CPU begins: what follows comes after every word of turns with a lower
    /// number, whosever they are. The first has number 1.
    Turn(u64),
}

/// The way through the guest's page tables to one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePath<'a> {
    /// An address in the page.
    pub va: u64,
    /// Physical address and entry of each level, in turn, from the root; the last maps the page.
    pub path: &'a [u64],
    /// The eight entries of the 64-byte line around the last.
    pub line: &'a [u64],
}

/// What the recorder counted itself on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderStats {
    /// Instructions since the CPU was started.
    pub instructions: u64,
    /// Accesses whose physical address the emulator and the page tables disagree on.
    pub mismatches: u64,
    /// Accesses to pages that the page tables did not map when they were looked at.
    pub unmapped: u64,
    /// Accesses compared with the emulator's physical address.
    pub compared: u64,
}

/// Why a guest cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GuestRefusal {
    /// Five levels of page tables.
    #[error("the guest has five levels of page tables (CR4.LA57); boot it with no5lvl")]
    FiveLevels,
    /// No paging, or 32-bit paging.
    #[error(
        "the guest is not in long mode with paging at its marker; only 64-bit kernels are read"
    )]
    NoLongMode,
    /// It drops translations by process-context identifiers.
    #[error("the guest uses INVPCID, and with it process-context identifiers; add nopcid")]
    Invpcid,
    /// A hypervisor inside the guest.
    #[error("the guest runs a virtual machine of its own, whose page tables are not followed")]
    Virtual,
    /// Something else.
    #[error("the recorder refuses the guest for a reason ({0}) that this version does not know")]
    Unknown(u64),
}

/// The stream breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// There is no such operation.
    #[error("word {at} of CPU {cpu} is of the unknown operation {operation}")]
    Operation {
        /// CPU whose ring it is.
        cpu: usize,
        /// Number of the word.
        at: u64,
        /// What was found.
        operation: u8,
    },
    /// A mapping of no level or more than there are.
    #[error("word {at} of CPU {cpu} tells of {pairs} levels of page tables")]
    Levels {
        /// CPU whose ring it is.
        cpu: usize,
        /// Number of the word.
        at: u64,
        /// What was found.
        pairs: usize,
    },
}

/// Takes what a CPU does, in its order.
pub trait CpuWatcher {
    /// A load, a store or a fetch of another line; `kernel`: the code that does it is the kernel's.
    fn access(&mut self, access: Access, kernel: bool);
    /// Anything else.
    fn event(&mut self, event: CpuEvent<'_>);
}

/// Turns the words of one CPU into accesses and events.
#[derive(Clone, Debug)]
pub struct Decoder {
    cpu: usize,
    /// Words taken so far.
    taken: u64,
    /// Instructions of gap words that belong before the next access.
    gap: u64,
}

/// Number of control operations, as the plugin writes them.
mod operation {
    pub const BEGIN: u8 = 1;
    pub const END: u8 = 2;
    pub const POINT: u8 = 3;
    pub const CR3: u8 = 4;
    pub const INVLPG: u8 = 5;
    pub const FLUSH: u8 = 6;
    pub const INTERRUPT: u8 = 7;
    pub const RETURN: u8 = 8;
    pub const MAPPING: u8 = 9;
    pub const GAP: u8 = 10;
    pub const REFUSED: u8 = 11;
    pub const STATS: u8 = 12;
    pub const TURN: u8 = 13;
}

/// Words of the record that a word begins.
pub(crate) fn record_words(word: u64) -> usize {
    let pairs = (word >> 56 & 7) as usize;
    match (word >> 59 & 3, (word >> 48) as u8) {
        (3, operation::BEGIN) => 4,
        (3, operation::END) => 3,
        (3, operation::POINT | operation::CR3) => 2,
        (3, operation::STATS) => 5,
        (3, operation::MAPPING) => 1 + 2 * pairs + 8,
        _ => 1,
    }
}

/// The number of the turn that a record's first word begins, if it begins one.
pub(crate) fn turn_of(word: u64) -> Option<u64> {
    let begins = (word >> 59 & 3, (word >> 48) as u8) == (3, operation::TURN);
    begins.then_some(word & ((1 << 48) - 1))
}

/// An address of 48 bits, sign-extended.
#[inline(always)]
fn address(word: u64) -> u64 {
    ((word << 16) as i64 >> 16) as u64
}

impl Decoder {
    /// For the ring of CPU number `cpu`.
    pub fn new(cpu: usize) -> Self {
        Decoder {
            cpu,
            taken: 0,
            gap: 0,
        }
    }

    /// Hands over the whole records in `words`; returns how many words these were.
    ///
    /// # Errors
    /// If a word is none that the protocol has; records before it have been handed over.
    pub fn decode(
        &mut self,
        words: &[u64],
        watcher: &mut impl CpuWatcher,
    ) -> Result<usize, WireError> {
        let mut at = 0;
        let done = loop {
            let Some(&word) = words.get(at) else {
                break Ok(at);
            };
            if word >> 59 & 3 != 3 {
                let access = self.access(word);
                watcher.access(access, word >> 61 & 1 != 0);
                at += 1;
                continue;
            }
            match self.control(&words[at..], self.taken + at as u64, watcher) {
                Ok(0) => break Ok(at),
                Ok(length) => at += length,
                Err(error) => break Err(error),
            }
        };
        self.taken += at as u64;
        done
    }

    #[inline(always)]
    fn access(&mut self, word: u64) -> Access {
        let kind = [AccessKind::Load, AccessKind::Store, AccessKind::Fetch];
        let mut gap = word >> 48 & 0xff;
        if self.gap != 0 {
            gap += std::mem::take(&mut self.gap);
        }
        Access {
            va: address(word),
            gap: gap.min(u64::from(u16::MAX)) as u16,
            dep: 0,
            kind: kind[(word >> 59 & 3) as usize],
            bytes: 1 << (word >> 56 & 7).min(6),
            thread: 0,
            joined: word >> 62 & 1 != 0,
        }
    }

    /// Hands one control record over; returns its words, 0 if they are not all there.
    fn control(
        &mut self,
        words: &[u64],
        at: u64,
        watcher: &mut impl CpuWatcher,
    ) -> Result<usize, WireError> {
        let cpu = self.cpu;
        let word = words[0];
        let (code, payload) = ((word >> 48) as u8, word & ((1 << 48) - 1));
        let pairs = (word >> 56 & 7) as usize;
        if !(operation::BEGIN..=operation::TURN).contains(&code) {
            let operation = code;
            return Err(WireError::Operation { cpu, at, operation });
        }
        if code == operation::MAPPING && !(1..=4).contains(&pairs) {
            return Err(WireError::Levels { cpu, at, pairs });
        }
        let more = record_words(word) - 1;
        let Some(rest) = words.get(1..=more) else {
            return Ok(0);
        };
        if code == operation::GAP {
            self.gap += payload;
            return Ok(1);
        }
        watcher.event(event_of(code, payload, rest));
        Ok(1 + more)
    }
}

/// The event of a control word that has all of its further words.
fn event_of(code: u8, payload: u64, rest: &[u64]) -> CpuEvent<'_> {
    match code {
        operation::BEGIN => CpuEvent::Begin {
            value: rest[0],
            cr3: rest[1],
            instructions: rest[2],
        },
        operation::END => CpuEvent::End {
            value: rest[0],
            instructions: rest[1],
        },
        operation::POINT => CpuEvent::Point(rest[0]),
        operation::CR3 => CpuEvent::Cr3(rest[0]),
        operation::INVLPG => CpuEvent::Invlpg(address(payload)),
        operation::FLUSH => CpuEvent::Flush,
        operation::INTERRUPT => CpuEvent::Interrupt(payload as u8),
        operation::RETURN => CpuEvent::Return,
        operation::MAPPING => {
            let (path, line) = rest.split_at(rest.len() - 8);
            let va = address(payload);
            CpuEvent::Mapping(TablePath { va, path, line })
        }
        operation::STATS => CpuEvent::Recorder(RecorderStats {
            instructions: rest[0],
            mismatches: rest[1],
            unmapped: rest[2],
            compared: rest[3],
        }),
        operation::REFUSED => CpuEvent::Refused(match payload {
            1 => GuestRefusal::FiveLevels,
            2 => GuestRefusal::NoLongMode,
            3 => GuestRefusal::Invpcid,
            4 => GuestRefusal::Virtual,
            reason => GuestRefusal::Unknown(reason),
        }),
        operation::TURN => CpuEvent::Turn(payload),
        code => unreachable!("operation {code} has been looked at"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came, in its order.
    #[derive(Default)]
    struct Seen(Vec<String>);

    impl CpuWatcher for Seen {
        fn access(&mut self, access: Access, kernel: bool) {
            let Access {
                va,
                gap,
                kind,
                bytes,
                joined,
                ..
            } = access;
            let told = format!("{kind:?} {va:x} {bytes} gap {gap} {joined} {kernel}");
            self.0.push(told);
        }

        fn event(&mut self, event: CpuEvent<'_>) {
            self.0.push(format!("{event:?}"));
        }
    }

    fn control(operation: u8, payload: u64) -> u64 {
        3 << 59 | u64::from(operation) << 48 | payload
    }

    #[test]
    fn words_mean_what_the_plugin_writes() {
        let words = [
            0x4000_0008 | 5 << 48 | 3 << 56,
            0xffff_8000_0000 | 1 << 59 | 1 << 61 | 1 << 62,
            control(operation::GAP, 70_000),
            0x40 | 2 << 59 | 6 << 56 | 1 << 48,
            control(operation::INVLPG, 0xffff_8123_4000),
            control(operation::CR3, 0),
            0x1234_5000,
            control(operation::INTERRUPT, 14),
            control(operation::REFUSED, 3),
            control(operation::TURN, 70),
        ];
        let mut seen = Seen::default();
        assert_eq!(Decoder::new(0).decode(&words, &mut seen), Ok(words.len()));
        let expected = [
            "Load 40000008 8 gap 5 false false",
            "Store ffffffff80000000 1 gap 0 true true",
            // More than the field of an access holds is the most that it holds.
            "Fetch 40 64 gap 65535 false false",
            "Invlpg(18446744071581188096)",
            "Cr3(305418240)",
            "Interrupt(14)",
            "Refused(Invpcid)",
            "Turn(70)",
        ];
        assert_eq!(seen.0[..3], expected[..3]);
        assert_eq!(seen.0[3], format!("Invlpg({})", 0xffff_ffff_8123_4000_u64));
        assert_eq!(seen.0[4..], expected[4..]);
    }

    #[test]
    fn a_record_that_is_not_whole_waits() {
        let mut words = vec![8, control(operation::MAPPING, 0x1000) | 4 << 56];
        words.extend(1..=16);
        for length in 0..words.len() {
            let mut seen = Seen::default();
            let taken = Decoder::new(0).decode(&words[..length], &mut seen);
            assert_eq!(taken, Ok(length.min(1)));
        }
        let mut seen = Seen::default();
        assert_eq!(Decoder::new(0).decode(&words, &mut seen), Ok(18));
        assert!(
            seen.0[1].contains("path: [1, 2, 3, 4, 5, 6, 7, 8]"),
            "{}",
            seen.0[1]
        );
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_place() {
        let refused = |word: u64| {
            let words = [8, 16, word];
            Decoder::new(3)
                .decode(&words, &mut Seen::default())
                .unwrap_err()
        };
        let at = 2;
        for code in [0, 14, 255] {
            let operation = code;
            let expected = WireError::Operation {
                cpu: 3,
                at,
                operation,
            };
            assert_eq!(refused(control(code, 0)), expected);
        }
        for pairs in [0, 5, 7] {
            let word = control(operation::MAPPING, 0) | (pairs as u64) << 56;
            assert_eq!(refused(word), WireError::Levels { cpu: 3, at, pairs });
        }
    }
}
