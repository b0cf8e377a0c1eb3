// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registers of a function: a descriptor written a word at a time, and the doorbell that
//! submits it. (ENQCMD writes a whole descriptor at once; a slice in Verilog and a guest without
//! that instruction have these.)

use super::controller::Command;
use super::status::Status;
use super::types::{LineAddr, Mapping, Protocol};

/// Bytes of a cache line: registers hold addresses in bytes, the protocol counts lines.
const LINE_BYTES: u64 = 64;

/// A register that software writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Register {
    /// Physical address of the source, in bytes.
    Source,
    /// Physical address of the destination, in bytes.
    Destination,
    /// Pages to move.
    Pages,
    /// What to do with them: 1 install, 2 migrate, 3 clear, 4 reset the function.
    Doorbell,
}

/// What a doorbell asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DoorbellOrder {
    /// Submit this descriptor.
    Submit(Command),
    /// Reset the function.
    Reset,
}

/// Registers of one function. Source, destination and size may be written in any order and more
/// than once; the last value counts. A descriptor that was taken leaves them empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Portal {
    source_bytes: Option<u64>,
    destination_bytes: Option<u64>,
    pages: Option<u64>,
}

impl Portal {
    /// Takes a write. `None` when it only fills a register.
    ///
    /// # Errors
    /// Why a doorbell is refused; the registers then stay as they are. What depends on the function
    /// and on the table is the [`Controller`](super::controller::Controller)'s to say.
    pub fn write(
        &mut self,
        rules: &Protocol,
        register: Register,
        value: u64,
    ) -> Result<Option<DoorbellOrder>, Status> {
        match register {
            Register::Source => self.source_bytes = Some(value),
            Register::Destination => self.destination_bytes = Some(value),
            Register::Pages => self.pages = Some(value),
            Register::Doorbell => return self.ring(rules, value).map(Some),
        }
        Ok(None)
    }

    fn ring(&mut self, rules: &Protocol, what: u64) -> Result<DoorbellOrder, Status> {
        if what == 4 {
            *self = Self::default();
            return Ok(DoorbellOrder::Reset);
        }
        let (Some(src), Some(dst), Some(pages)) =
            (self.source_bytes, self.destination_bytes, self.pages)
        else {
            return Err(Status::Incomplete);
        };
        if !(1..=3).contains(&what) {
            return Err(Status::UnknownCommand);
        }
        let page_bytes = LINE_BYTES * u64::from(rules.page_lines);
        if !src.is_multiple_of(page_bytes) || !dst.is_multiple_of(page_bytes) {
            return Err(Status::Unaligned);
        }
        let lines = pages.checked_mul(u64::from(rules.page_lines));
        let lines = lines.and_then(|lines| u32::try_from(lines).ok());
        let map = Mapping {
            src: LineAddr(src / LINE_BYTES),
            dst: LineAddr(dst / LINE_BYTES),
            // More than the field holds is more than memory.
            lines: lines.ok_or(Status::OutsideMemory)?,
        };
        rules.check_range(map, || true)?;
        *self = Self::default();
        Ok(DoorbellOrder::Submit(match what {
            1 => Command::Migrate { map, start: false },
            2 => Command::Migrate { map, start: true },
            _ => Command::Clear { map },
        }))
    }
}
