// SPDX-License-Identifier: MIT OR Apache-2.0
//! The migration protocol as pure state machines: no time, no randomness, no capacity of caches.
//!
//! Parties take one [`Message`] at a time and send others. The timed memory system
//! delivers them after delays; the model checker delivers them in every
//! possible order. Both run this code.

mod controller;
mod core;
mod engine;
mod faults;
mod home;
mod os;
mod portal;
mod private;
mod range;
mod slice;
mod status;
mod table;
mod types;

pub use self::core::{CoreSide, CoreStep, Issued, MarkedPages, Miss, Observer, PrivateLines};
pub use controller::{Command, Completion, Controller, HOST, QueueFull, VirtualFunction};
pub use faults::{FAULTS, PlantedFault};
pub use home::{Busy, Directory, HomeLine, Todo};
pub use os::{OsMigration, OsPhase};
pub use portal::{DoorbellOrder, Portal, Register};
pub use private::Cached;
pub use slice::{LineStore, Slice};
pub use status::Status;
pub use table::{MetadataEntry, MetadataTable, Phase};
pub use types::{
    Design, Envelope, Grant, LineAddr, LineRequest, Mapping, Message, Outbox, Party, Performed,
    Probe, Protocol, RequestKind, Role, SliceHash, Taken,
};
