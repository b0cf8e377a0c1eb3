// SPDX-License-Identifier: MIT OR Apache-2.0
//! The migration engine of Contiguitas-HW as a device of an emulated machine: the guest's kernel
//! submits `Migrate` and `Clear`, the protocol's own code decides, and while a migration is
//! installed two physical pages are one memory for every CPU and device of the guest.

pub mod alias;
pub mod device;
pub mod run;
pub mod server;
pub mod shared;
