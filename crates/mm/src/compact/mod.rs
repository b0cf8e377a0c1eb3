// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compaction and migration (`mm/compaction.c`, `mm/migrate.c`, 6.12).

pub(crate) mod kcompactd;
pub(crate) mod migrate;
pub(crate) mod range;
pub(crate) mod scan;
pub(crate) mod skip;
pub(crate) mod state;
