// SPDX-License-Identifier: MIT OR Apache-2.0
//! A whole machine under simulated translation hardware: QEMU boots a kernel, a plugin of ours puts
//! what each CPU does into a ring ([`wire`], [`ring`]), and what is behind the rings sees every
//! access of kernel and programs, in the order of the CPUs' turns ([`turns`]), together with the
//! guest's own page tables ([`cpu`]).

pub mod cpu;
mod emulator;
pub mod engine;
pub mod file;
pub mod follow;
pub mod guest;
pub mod hardware;
pub mod names;
pub mod report;
pub mod ring;
pub mod run;
pub mod sample;
mod scratch;
pub mod tally;
pub mod turns;
pub mod wire;
