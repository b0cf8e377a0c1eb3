// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of the page heap: every span that is made and freed, 24 bytes each.
//!
//! A file is the eight bytes `AMPLEPH1` and then records of three little-endian 64-bit words: time
//! in nanoseconds; page number; and, from the lowest bit, kind (8 bits: 1 new, 2 delete, 3 grow),
//! log2 of the alignment in pages (8), density (8: 0 to 4), 8 unused bits, and the length in pages
//! (32). The lengths of a program's spans are far fewer than its mallocs, so that recording costs
//! little and a replay over pretended memory takes seconds (paper section 6.2).

use crate::os::report;
use crate::units::Density;

/// The first bytes of a trace.
pub const MAGIC: &[u8; 8] = b"AMPLEPH1";
/// Bytes in a record.
pub const RECORD_BYTES: usize = 24;
const BUFFER_RECORDS: usize = 2048;

/// What happened to a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A span was made.
    New,
    /// A span was freed.
    Delete,
    /// A span grew in place to the length.
    Grow,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time in nanoseconds.
    pub time_ns: u64,
    /// First page number: the span's name.
    pub page: u64,
    /// Length of the span in pages.
    pub len_pages: u32,
    /// log2 of the alignment in pages.
    pub align_log2: u8,
    /// Where the span lies.
    pub density: Density,
    /// What happened.
    pub kind: Kind,
}

impl Event {
    /// An event of a sparse span without alignment.
    pub const fn plain(kind: Kind, time_ns: u64, page: u64, len_pages: u32) -> Event {
        Event {
            time_ns,
            page,
            len_pages,
            align_log2: 0,
            density: Density::SPARSE,
            kind,
        }
    }

    /// The bytes of the event in a trace file, little-endian.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let kind = match self.kind {
            Kind::New => 1u64,
            Kind::Delete => 2,
            Kind::Grow => 3,
        };
        let word = kind
            | u64::from(self.align_log2) << 8
            | (self.density.index() as u64) << 16
            | u64::from(self.len_pages) << 32;
        let mut record = [0; RECORD_BYTES];
        record[..8].copy_from_slice(&self.time_ns.to_le_bytes());
        record[8..16].copy_from_slice(&self.page.to_le_bytes());
        record[16..].copy_from_slice(&word.to_le_bytes());
        record
    }

    /// The event of a record; `None` if it is none.
    pub fn decode(record: &[u8; RECORD_BYTES]) -> Option<Event> {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&record[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let last = word(16);
        let kind = match last & 0xff {
            1 => Kind::New,
            2 => Kind::Delete,
            3 => Kind::Grow,
            _ => return None,
        };
        let density = Density::from_index((last >> 16) as u8)?;
        let align_log2 = (last >> 8) as u8;
        let len_pages = (last >> 32) as u32;
        if align_log2 > 34 || len_pages == 0 {
            return None;
        }
        Some(Event {
            time_ns: word(0),
            page: word(8),
            len_pages,
            align_log2,
            density,
            kind,
        })
    }
}

/// Writes the page heap's calls to a file, under the heap's lock.
pub struct Recorder {
    /// The descriptor plus one; 0 for none.
    fd_plus_one: i32,
    count: usize,
    buffer: *mut [u8; RECORD_BYTES],
}

// SAFETY: the buffer is the recorder's own.
unsafe impl Send for Recorder {}

impl Recorder {
    /// Records nothing.
    pub const fn off() -> Self {
        Recorder {
            fd_plus_one: 0,
            count: 0,
            buffer: core::ptr::null_mut(),
        }
    }

    /// Starts to write to a file descriptor, which the recorder closes; false without memory.
    pub fn start(&mut self, fd: i32) -> bool {
        self.stop();
        if self.buffer.is_null() {
            let Some(buffer) = crate::os::meta::allocate(RECORD_BYTES * BUFFER_RECORDS, 64) else {
                return false;
            };
            self.buffer = buffer.as_ptr().cast();
        }
        self.fd_plus_one = fd + 1;
        report::write_all(fd, MAGIC)
    }

    /// Writes what is buffered and ends the recording.
    pub fn stop(&mut self) {
        self.flush();
        if self.fd_plus_one > 0 {
            // SAFETY: the descriptor is the recorder's.
            unsafe { libc::close(self.fd_plus_one - 1) };
            self.fd_plus_one = 0;
        }
    }

    /// Forgets a recording that belongs to the parent process.
    pub fn abandon(&mut self) {
        self.fd_plus_one = 0;
        self.count = 0;
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) {
        if self.count > 0 {
            // SAFETY: the buffer holds `count` records.
            let bytes = unsafe {
                core::slice::from_raw_parts(self.buffer.cast::<u8>(), self.count * RECORD_BYTES)
            };
            if !report::write_all(self.fd_plus_one - 1, bytes) {
                report::warn(format_args!(
                    "writing the page-heap trace failed; recording ends"
                ));
                self.fd_plus_one = 0;
            }
            self.count = 0;
        }
    }

    /// Whether calls are written.
    #[inline]
    pub const fn is_on(&self) -> bool {
        self.fd_plus_one != 0
    }

    #[inline]
    fn add(&mut self, event: impl FnOnce() -> Event) {
        if !self.is_on() {
            return;
        }
        if self.count == BUFFER_RECORDS {
            self.flush();
        }
        // SAFETY: `count` is below the buffer's length.
        unsafe { self.buffer.add(self.count).write(event().encode()) };
        self.count += 1;
    }

    /// A span was made.
    #[inline]
    pub fn allocate(&mut self, time: u64, page: usize, len: usize, align: usize, density: Density) {
        self.add(|| Event {
            align_log2: align.ilog2() as u8,
            density,
            ..Event::plain(Kind::New, time, page as u64, len as u32)
        });
    }

    /// A span was freed, or grew to a length.
    #[inline]
    pub fn note(&mut self, kind: Kind, time_ns: u64, page: usize, len: usize) {
        self.add(|| Event::plain(kind, time_ns, page as u64, len as u32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_survive_the_round_trip(
            time_ns in any::<u64>(),
            page in any::<u64>(),
            len_pages in 1..u32::MAX,
            align_log2 in 0..=34u8,
            density in 0..5u8,
            kind in 0..3u8,
        ) {
            let kind = [Kind::New, Kind::Delete, Kind::Grow][usize::from(kind)];
            let density = Density::from_index(density).unwrap();
            let event = Event { time_ns, page, len_pages, align_log2, density, kind };
            prop_assert_eq!(Event::decode(&event.encode()), Some(event));
        }

        #[test]
        fn any_bytes_are_an_event_or_refused(record in any::<[u8; RECORD_BYTES]>()) {
            if let Some(event) = Event::decode(&record) {
                prop_assert!(event.len_pages > 0);
            }
        }
    }
}
