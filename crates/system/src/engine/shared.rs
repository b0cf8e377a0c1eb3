// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the engine and the guest's driver share: 64 KiB, which the guest sees as a device's memory.
//! The file is read and written with system calls: no memory is shared with safe code.
//!
//! ```text
//! 0      magic, version, design (0 non-cacheable, 1 cacheable), entries of the table, bytes of the
//!        guest's memory, entries of the ring of writes, entries of the ring of records
//! 64     written    by the guest: register writes so far
//! 72     taken      by the engine: register writes taken
//! 128    completed  by the engine: records so far
//! 136    read       by the guest: records read
//! 4096   register writes of 16 bytes: u32 register, u32 tag, u64 value
//! 20480  records of 32 bytes: u64 source, u64 destination, u32 pages, u32 doorbell, u32 status,
//!        u32 tag
//! ```
//! Numbers are little-endian, u64 unless it says otherwise. Counters never go back; the place of
//! number `n` in a ring is `n` modulo its entries. A counter counts once two readings agree: a
//! reading that falls between two writes of the other side is done again.

use crate::ring::word;
use ample_migration::protocol::Design;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use thiserror::Error;

/// Bytes that engine and guest share.
pub const SHARED_BYTES: u64 = 64 << 10;
/// Entries of each ring.
pub const RING_ENTRIES: u64 = 1024;

const MAGIC: u64 = u64::from_le_bytes(*b"AMPMOVE1");
const VERSION: u64 = 1;
const WRITTEN: u64 = 64;
const TAKEN: u64 = 72;
const COMPLETED: u64 = 128;
const READ: u64 = 136;
const WRITES: u64 = 4096;
const WRITE_BYTES: u64 = 16;
const RECORDS: u64 = 20480;
const RECORD_BYTES: u64 = 32;

/// Why shared memory cannot be used.
#[derive(Debug, Error)]
pub enum SharedError {
    /// Its file cannot be read or written.
    #[error("the memory shared with the guest: {0}")]
    Io(#[from] io::Error),
    /// The guest's driver breaks the layout.
    #[error(
        "the guest's driver is malformed: it says that {what} is {found}, and the engine is at \
         {known}"
    )]
    Malformed {
        /// Name of the counter in the layout above.
        what: &'static str,
        /// What it holds.
        found: u64,
        /// The engine's own counter beside it.
        known: u64,
    },
}

/// A write of the guest to a register of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterWrite {
    /// 0 source, 1 destination, 2 pages, 3 doorbell.
    pub register: u32,
    /// Comes back in the record of a doorbell.
    pub tag: u32,
    /// Bytes of an address, pages, or what the doorbell asks for.
    pub value: u64,
}

/// How a descriptor ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineRecord {
    /// Physical address of the source; 0 where the doorbell refused.
    pub source_bytes: u64,
    /// Physical address of the destination, likewise.
    pub destination_bytes: u64,
    /// Pages, likewise.
    pub pages: u32,
    /// What it asked for: 1 install, 2 migrate, 3 clear, 4 reset.
    pub doorbell: u32,
    /// A code of [`Status`](ample_migration::protocol::Status); 0 after a reset.
    pub status: u32,
    /// Repeats the tag of the doorbell that it answers.
    pub tag: u32,
}

/// The engine's side of the shared memory.
#[derive(Debug)]
pub struct SharedMemory {
    file: File,
    taken: u64,
    /// Register writes that are known to be there.
    written: u64,
    completed: u64,
}

impl SharedMemory {
    /// Makes the file at `path`, for an engine of this design with `table_entries` entries in a
    /// guest with `memory_bytes` of memory.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(
        path: &Path,
        design: Design,
        table_entries: u8,
        memory_bytes: u64,
    ) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        file.set_len(SHARED_BYTES)?;
        let head = [
            MAGIC,
            VERSION,
            u64::from(design == Design::Cacheable),
            u64::from(table_entries),
            memory_bytes,
            RING_ENTRIES,
            RING_ENTRIES,
        ];
        file.write_all_at(&head.map(u64::to_le_bytes).concat(), 0)?;
        Ok(SharedMemory {
            file,
            taken: 0,
            written: 0,
            completed: 0,
        })
    }

    /// A counter of the guest, which lies between `least` and `least` + a ring.
    fn counter(&self, what: &'static str, at: u64, least: u64) -> Result<u64, SharedError> {
        let read = || -> io::Result<u64> {
            let mut bytes = [0; 8];
            self.file.read_exact_at(&mut bytes, at)?;
            Ok(word(&bytes))
        };
        let mut found = read()?;
        loop {
            let again = read()?;
            if again == found {
                break;
            }
            found = again;
        }
        match found.checked_sub(least) {
            Some(ahead) if ahead <= RING_ENTRIES => Ok(found),
            _ => Err(SharedError::Malformed {
                what,
                found,
                known: least,
            }),
        }
    }

    /// Takes the next register write; None if there is none.
    ///
    /// # Errors
    /// If the file cannot be read, or the guest has written more than the ring holds.
    pub fn take(&mut self) -> Result<Option<RegisterWrite>, SharedError> {
        if self.taken == self.written {
            self.written = self.counter("written", WRITTEN, self.taken)?;
        }
        if self.taken == self.written {
            return Ok(None);
        }
        let place = self.taken & (RING_ENTRIES - 1);
        let mut bytes = [0; WRITE_BYTES as usize];
        self.file
            .read_exact_at(&mut bytes, WRITES + WRITE_BYTES * place)?;
        self.taken += 1;
        self.file.write_all_at(&self.taken.to_le_bytes(), TAKEN)?;
        let [first, value] = [0, 8].map(|at| word(&bytes[at..]));
        Ok(Some(RegisterWrite {
            register: first as u32,
            tag: (first >> 32) as u32,
            value,
        }))
    }

    /// Records that can be written before the guest has read one.
    ///
    /// # Errors
    /// If the file cannot be read, or the guest says that it has read what is not there.
    pub fn room(&self) -> Result<u64, SharedError> {
        let oldest = self.completed.saturating_sub(RING_ENTRIES);
        let read = self.counter("read", READ, oldest)?;
        match self.completed.checked_sub(read) {
            Some(unread) => Ok(RING_ENTRIES - unread),
            None => Err(SharedError::Malformed {
                what: "read",
                found: read,
                known: self.completed,
            }),
        }
    }

    /// Writes a record, for which there is room.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn post(&mut self, record: EngineRecord) -> Result<(), SharedError> {
        let place = self.completed & (RING_ENTRIES - 1);
        let addresses = [record.source_bytes, record.destination_bytes];
        let rest = [record.pages, record.doorbell, record.status, record.tag];
        let mut bytes = addresses.map(u64::to_le_bytes).concat();
        bytes.extend(rest.map(u32::to_le_bytes).concat());
        self.file
            .write_all_at(&bytes, RECORDS + RECORD_BYTES * place)?;
        self.completed += 1;
        self.file
            .write_all_at(&self.completed.to_le_bytes(), COMPLETED)?;
        Ok(())
    }

    /// Records written so far.
    pub fn completed(&self) -> u64 {
        self.completed
    }
}

/// For the emulator, which maps it.
impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
