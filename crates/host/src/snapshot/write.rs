// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing snapshots.

use super::{Description, MAGIC, VERSION};
use crate::Scan;
use std::io;
use std::path::Path;

/// Compression level: the run stream is small, so time matters little.
const ZSTD_LEVEL: i32 = 15;

/// The snapshot of a scan as bytes.
///
/// # Errors
/// When compression fails, which means that memory ran out.
pub fn encode(scan: &Scan) -> io::Result<Vec<u8>> {
    let zones = scan.layout.zones().to_vec();
    let description = serde_json::to_vec(&Description {
        zones,
        meta: scan.meta.clone(),
    })?;
    let runs = scan.pages.encoded();
    let compressed = zstd::bulk::compress(runs, ZSTD_LEVEL)?;
    let mut bytes = Vec::with_capacity(64 + description.len() + compressed.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let length = u32::try_from(description.len()).map_err(io::Error::other)?;
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&(runs.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&(compressed.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&description);
    bytes.extend_from_slice(&compressed);
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    Ok(bytes)
}

/// Writes a snapshot to a file, replacing it whole.
///
/// # Errors
/// I/O errors of the file.
pub fn write(scan: &Scan, path: &Path) -> io::Result<()> {
    ample_kit::files::write(path, encode(scan)?)
}
