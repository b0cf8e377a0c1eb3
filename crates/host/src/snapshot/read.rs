// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading snapshots from anywhere: nothing in the file is believed before it is checked.

use super::{
    CRC_BYTES, Description, HEADER_BYTES, MAGIC, MAX_DESCRIPTION_BYTES, MAX_RUN_BYTES,
    MAX_SPAN_PAGES, VERSION,
};
use crate::{PageRuns, Scan};
use ample_pfn::{Layout, format_bytes};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest file: every field at its limit.
const MAX_FILE_BYTES: u64 = MAX_RUN_BYTES + MAX_DESCRIPTION_BYTES as u64 + 4096;

/// Why a snapshot was refused.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file could not be opened or read.
    #[error("cannot read snapshot {}: {cause}", path.display())]
    Io {
        /// The snapshot file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The contents are not a snapshot that this version understands.
    #[error("snapshot{}: byte {offset} ({field}): {what}", at(path))]
    Format {
        /// The file, when there is one.
        path: Option<PathBuf>,
        /// Position in the file.
        offset: u64,
        /// Name of the field there.
        field: &'static str,
        /// What is wrong.
        what: String,
    },
}

fn at(path: &Option<PathBuf>) -> String {
    path.as_ref()
        .map_or(String::new(), |path| format!(" {}", path.display()))
}

/// Reads a snapshot file.
///
/// # Errors
/// [`SnapshotError`] with file, position and field.
pub fn read(path: &Path) -> Result<Scan, SnapshotError> {
    let io = |cause| SnapshotError::Io {
        path: path.to_path_buf(),
        cause,
    };
    let mut bytes = Vec::new();
    let mut file = ample_kit::files::open(path, MAX_FILE_BYTES).map_err(io)?;
    // The head first, so that a foreign file of any size is refused at once.
    file.by_ref()
        .take(HEADER_BYTES as u64)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    let result = Header::parse(&bytes).and_then(|_| {
        file.read_to_end(&mut bytes).map_err(io)?;
        decode(&bytes)
    });
    result.map_err(|error| match error {
        SnapshotError::Format {
            offset,
            field,
            what,
            ..
        } => SnapshotError::Format {
            path: Some(path.to_path_buf()),
            offset,
            field,
            what,
        },
        error => error,
    })
}

/// Reads a snapshot from memory.
///
/// # Errors
/// [`SnapshotError::Format`] with position and field.
pub fn decode(bytes: &[u8]) -> Result<Scan, SnapshotError> {
    let header = Header::parse(bytes)?;
    let body = header.body(bytes)?;
    let runs_at = (HEADER_BYTES + header.description_bytes) as u64;
    let description = describe(&body[..header.description_bytes])?;
    let invalid = |what: String| format_error(HEADER_BYTES as u64, "zones", what);
    let layout = Layout::new(description.zones).map_err(|error| invalid(error.to_string()))?;
    if layout.span().pages() > MAX_SPAN_PAGES {
        let limit = format_bytes(MAX_SPAN_PAGES * 4096);
        return Err(invalid(format!("the zones span more than {limit}")));
    }
    if let Some(who) = &description.meta.who {
        who.check()
            .map_err(|what| format_error(HEADER_BYTES as u64, "who", what))?;
    }
    let runs = header.decompress(&body[header.description_bytes..], runs_at)?;
    let pages = PageRuns::from_encoded(layout.span(), runs)
        .map_err(|error| format_error(runs_at, "runs", format!("uncompressed {error}")))?;
    Ok(Scan {
        meta: description.meta,
        layout,
        pages,
    })
}

fn format_error(offset: u64, field: &'static str, what: impl Into<String>) -> SnapshotError {
    SnapshotError::Format {
        path: None,
        offset,
        field,
        what: what.into(),
    }
}

struct Header {
    description_bytes: usize,
    run_bytes: u64,
    compressed_bytes: u64,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Header, SnapshotError> {
        let magic = &bytes[..bytes.len().min(MAGIC.len())];
        if magic != &MAGIC[..magic.len()] || magic.is_empty() {
            let what = "not an ample snapshot (made by `ample scan --format snapshot`)";
            return Err(format_error(0, "magic", what));
        }
        if bytes.len() < HEADER_BYTES {
            let what = format!("cut off: {} bytes of {HEADER_BYTES}", bytes.len());
            return Err(format_error(bytes.len() as u64, "header", what));
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        if word(8) != VERSION {
            let what = format!("version {}, this program reads {VERSION}", word(8));
            return Err(format_error(8, "version", what));
        }
        let header = Header {
            description_bytes: word(12) as usize,
            run_bytes: long(16),
            compressed_bytes: long(24),
        };
        let too_long = |at, field, bytes: u64, limit: u64| {
            Err(format_error(
                at,
                field,
                format!("{bytes} bytes, the limit is {limit}"),
            ))
        };
        if header.description_bytes > MAX_DESCRIPTION_BYTES {
            let bytes = header.description_bytes as u64;
            return too_long(
                12,
                "description length",
                bytes,
                MAX_DESCRIPTION_BYTES as u64,
            );
        }
        if header.run_bytes > MAX_RUN_BYTES {
            return too_long(16, "runs length", header.run_bytes, MAX_RUN_BYTES);
        }
        if header.compressed_bytes > MAX_RUN_BYTES {
            return too_long(
                24,
                "compressed length",
                header.compressed_bytes,
                MAX_RUN_BYTES,
            );
        }
        Ok(header)
    }

    /// Description and compressed runs, after the lengths and the checksum were checked.
    fn body<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], SnapshotError> {
        let body = self.description_bytes + self.compressed_bytes as usize;
        let expected = HEADER_BYTES + body + CRC_BYTES;
        if bytes.len() != expected {
            let what = if bytes.len() < expected {
                "cut off"
            } else {
                "has bytes after its end"
            };
            let what = format!("{what}: {} bytes, expected {expected}", bytes.len());
            return Err(format_error(
                bytes.len().min(expected) as u64,
                "length",
                what,
            ));
        }
        let (content, crc) = bytes.split_at(expected - CRC_BYTES);
        let stored = u32::from_le_bytes(crc.try_into().expect("4 bytes"));
        let computed = crc32fast::hash(content);
        if stored != computed {
            let what = format!("damaged: CRC-32 is {computed:#010x}, stored {stored:#010x}");
            return Err(format_error(content.len() as u64, "checksum", what));
        }
        Ok(&content[HEADER_BYTES..])
    }

    /// Memory grows with what comes out, never with what the header promises.
    fn decompress(&self, compressed: &[u8], at: u64) -> Result<Vec<u8>, SnapshotError> {
        let fail = |what: String| format_error(at, "runs", what);
        let decoder = zstd::stream::Decoder::with_buffer(compressed)
            .map_err(|error| fail(format!("zstd: {error}")))?;
        let mut runs = Vec::new();
        decoder
            .take(self.run_bytes + 1)
            .read_to_end(&mut runs)
            .map_err(|error| fail(format!("zstd: {error}")))?;
        if runs.len() as u64 != self.run_bytes {
            return Err(fail(format!(
                "uncompressed length is not the {} bytes that byte 16 says",
                self.run_bytes
            )));
        }
        Ok(runs)
    }
}

fn describe(bytes: &[u8]) -> Result<Description, SnapshotError> {
    serde_json::from_slice(bytes).map_err(|error| {
        // serde_json counts columns from 1; the description is one line.
        let offset = HEADER_BYTES + error.column().saturating_sub(1);
        format_error(offset as u64, "description", error.to_string())
    })
}
