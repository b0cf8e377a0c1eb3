// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an operating system does for translation: address spaces, physical frames, faults, events
//! and their prices.

pub mod class_frames;
mod events;
mod faults;
pub mod frames;
mod mirror;
pub mod primary;
pub(crate) mod roots;
pub mod segment;
pub mod settings;
pub mod space;
mod switch;
