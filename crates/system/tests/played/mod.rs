// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest's driver and a memory that are played: what a kernel under an emulator would do.

use ample_migration::protocol::Design;
use ample_system::engine::alias::{AliasOrder, PageAliases, PageMove};
use ample_system::engine::device::{EngineDevice, EngineError};
use ample_system::engine::shared::SharedMemory;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub const PAGE: u64 = 4096;
pub const HIGH: u64 = 1 << 32;
/// Pages of the played memory, half of them above the devices.
pub const PAGES: u64 = 64;
pub const LOW: u64 = PAGES / 2 * PAGE;

pub const INSTALL: u64 = 1;
pub const MIGRATE: u64 = 2;
pub const CLEAR: u64 = 3;
pub const RESET: u64 = 4;

/// The address of a page.
pub fn address(page: u64) -> u64 {
    match page * PAGE < LOW {
        true => page * PAGE,
        false => HIGH + page * PAGE - LOW,
    }
}

/// The page at an address.
pub fn page_at(address: u64) -> usize {
    let offset = if address < HIGH {
        assert!(address < LOW, "{address:#x} is a device's");
        address
    } else {
        address - HIGH + LOW
    };
    assert!(offset < PAGES * PAGE && offset.is_multiple_of(PAGE));
    (offset / PAGE) as usize
}

/// Pages of which each holds a number, arranged as the plugin does it.
#[derive(Debug)]
pub struct PlayedMemory {
    /// By frame of the file.
    bytes: Vec<u64>,
    /// By page: the frame that its place shows, and the one that it owns.
    shown: Vec<usize>,
    backing: Vec<usize>,
    pub orders: Vec<AliasOrder>,
    /// Refuse the next order with this.
    pub refuse: Option<i32>,
}

impl PlayedMemory {
    pub fn new() -> Self {
        PlayedMemory {
            bytes: (100..100 + PAGES).collect(),
            shown: (0..PAGES as usize).collect(),
            backing: (0..PAGES as usize).collect(),
            orders: Vec::new(),
            refuse: None,
        }
    }

    pub fn read(&self, page: u64) -> u64 {
        self.bytes[self.shown[page as usize]]
    }

    pub fn write(&mut self, page: u64, value: u64) {
        self.bytes[self.shown[page as usize]] = value;
    }
}

impl PageAliases for PlayedMemory {
    fn order(&mut self, order: AliasOrder, pages: PageMove) -> io::Result<()> {
        if let Some(error) = self.refuse.take() {
            return Err(io::Error::from_raw_os_error(error));
        }
        assert_eq!(pages.pages, 1);
        let (from, to) = (
            page_at(pages.source_bytes),
            page_at(pages.destination_bytes),
        );
        assert_eq!(self.shown[from], self.backing[from]);
        match order {
            AliasOrder::Both => {
                assert_eq!(self.shown[to], self.backing[to]);
                self.shown[to] = self.backing[from];
            }
            AliasOrder::Settle => {
                assert_eq!(self.shown[to], self.backing[from]);
                self.shown[from] = self.backing[to];
                self.backing.swap(from, to);
            }
            AliasOrder::Undo => {
                assert_eq!(self.shown[to], self.backing[from]);
                self.shown[to] = self.backing[to];
            }
        }
        self.orders.push(order);
        Ok(())
    }
}

/// A record as the guest reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenRecord {
    pub source: u64,
    pub destination: u64,
    pub pages: u32,
    pub doorbell: u32,
    pub status: u32,
    pub tag: u32,
}

/// The driver's side of the shared memory.
#[derive(Debug)]
pub struct PlayedDriver {
    file: File,
    pub written: u64,
    pub read: u64,
    pub tag: u32,
}

impl PlayedDriver {
    pub fn new(file: File) -> Self {
        PlayedDriver {
            file,
            written: 0,
            read: 0,
            tag: 0,
        }
    }

    pub fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        u64::from_le_bytes(bytes)
    }

    pub fn set(&self, at: u64, value: u64) {
        self.file.write_all_at(&value.to_le_bytes(), at).unwrap();
    }

    /// Writes a register and says so.
    pub fn write(&mut self, register: u32, value: u64) {
        self.tag += 1;
        let at = 4096 + 16 * (self.written % 1024);
        self.set(at, u64::from(register) | u64::from(self.tag) << 32);
        self.set(at + 8, value);
        self.written += 1;
        self.set(64, self.written);
    }

    /// Writes a whole descriptor.
    pub fn submit(&mut self, source: u64, destination: u64, doorbell: u64) {
        self.write(0, source);
        self.write(1, destination);
        self.write(2, 1);
        self.write(3, doorbell);
    }

    /// The next record, if there is one.
    pub fn record(&mut self) -> Option<SeenRecord> {
        if self.word(128) == self.read {
            return None;
        }
        let at = 20480 + 32 * (self.read % 1024);
        let words = [0, 8, 16, 24].map(|offset| self.word(at + offset));
        self.read += 1;
        self.set(136, self.read);
        Some(SeenRecord {
            source: words[0],
            destination: words[1],
            pages: words[2] as u32,
            doorbell: (words[2] >> 32) as u32,
            status: words[3] as u32,
            tag: (words[3] >> 32) as u32,
        })
    }
}

/// An engine with its driver and a memory.
#[derive(Debug)]
pub struct PlayedGuest {
    pub device: EngineDevice,
    pub shared: SharedMemory,
    pub driver: PlayedDriver,
    pub memory: PlayedMemory,
    _directory: tempfile::TempDir,
}

pub fn opened(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

impl PlayedGuest {
    pub fn new(design: Design, table_entries: u8) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("engine");
        let shared = SharedMemory::create(&path, design, table_entries, PAGES * PAGE).unwrap();
        PlayedGuest {
            device: EngineDevice::new(design, table_entries, (PAGES * PAGE, LOW), 2),
            shared,
            driver: PlayedDriver::new(opened(&path)),
            memory: PlayedMemory::new(),
            _directory: directory,
        }
    }

    /// Lets the engine take all that it takes.
    pub fn serve(&mut self) -> Result<(), EngineError> {
        while self.device.serve(&mut self.shared, &mut self.memory)? {}
        Ok(())
    }

    /// Submits a descriptor of two pages; returns the status of its record.
    pub fn ask(&mut self, from: u64, to: u64, doorbell: u64) -> u32 {
        self.ask_at(address(from), address(to), doorbell)
    }

    /// The same for two addresses.
    pub fn ask_at(&mut self, source: u64, destination: u64, doorbell: u64) -> u32 {
        self.driver.submit(source, destination, doorbell);
        self.serve().unwrap();
        let record = self.driver.record().expect("each doorbell has a record");
        assert_eq!(
            (record.tag, record.doorbell),
            (self.driver.tag, doorbell as u32)
        );
        if !(16..=21).contains(&record.status) && record.status != 0 {
            let given = (record.source, record.destination, record.pages);
            assert_eq!(given, (source, destination, 1));
        }
        assert_eq!(self.driver.record(), None, "one record a doorbell");
        record.status
    }
}
