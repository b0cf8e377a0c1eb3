// SPDX-License-Identifier: MIT OR Apache-2.0
//! What completion records say, and the numbers of docs/contiguitas-hw.md.

/// What a completion record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Both mappings may be used from now on.
    Installed,
    /// Every line is at the destination.
    Copied,
    /// The entry is gone from all slices.
    Cleared,
    /// The doorbell was rung before source, destination and size were written.
    Incomplete,
    /// The doorbell knows no such command.
    UnknownCommand,
    /// An address is no multiple of the size that moves.
    Unaligned,
    /// A frame does not belong to the virtual function that asks.
    NotYours,
    /// A frame lies beyond the end of memory.
    OutsideMemory,
    /// The size is zero or none of the table's, or source and destination are the same page.
    BadRange,
    /// No such migration, or it is another function's.
    NotFound,
    /// Copying is under way: it can neither be started twice nor be taken back.
    CopyInProgress,
    /// A page of the descriptor already takes part in another migration.
    Overlap,
    /// No free entry in the metadata table, or of the function's share of it. Submit again after a
    /// `Clear`.
    TableFull,
    /// The function was reset before the descriptor was taken.
    Dropped,
}

impl Status {
    /// The number in a completion record. Of several reasons the one with the least is given.
    pub fn code(self) -> u8 {
        match self {
            Self::Installed => 1,
            Self::Copied => 2,
            Self::Cleared => 3,
            Self::Incomplete => 16,
            Self::UnknownCommand => 17,
            Self::Unaligned => 18,
            Self::NotYours => 19,
            Self::OutsideMemory => 20,
            Self::BadRange => 21,
            Self::NotFound => 22,
            Self::CopyInProgress => 23,
            Self::Overlap => 24,
            Self::TableFull => 25,
            Self::Dropped => 26,
        }
    }
}
