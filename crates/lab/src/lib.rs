// SPDX-License-Identifier: MIT OR Apache-2.0
//! The laboratory: every experiment of the project.

pub mod claims;
pub mod figures;
pub mod hardware;
pub mod recorded;
pub mod server_model;
pub mod setup;
pub mod translation;
pub mod whatif;
