// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics on demand.

use crate::options::Options;

/// Applies the options.
pub fn configure(_options: &Options) {}
/// Called once the library is loaded.
pub fn loaded() {}
