// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two physical pages as one memory: what the engine asks of whoever holds the guest's memory.

use crate::ring::word;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// A source and a destination, equally long and apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMove {
    /// Physical address of the source.
    pub source_bytes: u64,
    /// Physical address of the destination.
    pub destination_bytes: u64,
    /// Pages of 4 KB.
    pub pages: u64,
}

/// What is to become of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AliasOrder {
    /// Both names reach the source's bytes.
    Both,
    /// After [`Both`](Self::Both): the destination keeps these bytes, the source gets those that
    /// the destination had.
    Settle,
    /// After [`Both`](Self::Both): each has its own again.
    Undo,
}

/// Who can make two pages of a guest one.
pub trait PageAliases {
    /// Carries an order out; when it returns, it holds for every CPU and device of the guest.
    ///
    /// # Errors
    /// If it cannot be carried out: the guest's memory is then not as the engine says.
    fn order(&mut self, order: AliasOrder, pages: PageMove) -> io::Result<()>;
}

/// The plugin in the emulator's process (`plugin/ample_engine.c`).
#[derive(Debug)]
pub struct PluginLink {
    stream: UnixStream,
}

impl PluginLink {
    /// The plugin at the other end of `stream`.
    pub fn new(stream: UnixStream) -> Self {
        PluginLink { stream }
    }
}

impl PageAliases for PluginLink {
    fn order(&mut self, order: AliasOrder, pages: PageMove) -> io::Result<()> {
        let operation = match order {
            AliasOrder::Both => 1,
            AliasOrder::Settle => 2,
            AliasOrder::Undo => 3,
        };
        let PageMove {
            source_bytes,
            destination_bytes,
            pages,
        } = pages;
        let request = [operation, source_bytes, destination_bytes, pages];
        self.stream
            .write_all(&request.map(u64::to_le_bytes).concat())?;
        let mut answer = [0; 8];
        self.stream.read_exact(&mut answer)?;
        match i32::try_from(word(&answer).cast_signed()) {
            Ok(0) => Ok(()),
            Ok(error) => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
            Err(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
