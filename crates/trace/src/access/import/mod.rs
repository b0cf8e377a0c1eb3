// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of other tools: ChampSim's 64-byte instruction records, DynamoRIO's drmemtrace, gem5's
//! packets and elastic traces, the text of Valgrind's lackey and of `perf mem`; each also inside
//! gzip or xz, drmemtrace inside zip.

mod champsim;
pub(super) mod drmemtrace;
pub(super) mod gem5;
mod instructions;
mod lackey;
mod lines;
pub(super) mod perf;
mod records;
mod wire;
mod zip;

pub use champsim::champsim;
pub use drmemtrace::drmemtrace;
pub use gem5::gem5;
pub use lackey::lackey;
pub use perf::perf;

use crate::access::error::TraceError;
use std::io::{BufRead, BufReader, Read};

/// Opens a possibly compressed stream by its first bytes: gzip, xz, or as it is.
///
/// # Errors
/// If reading fails.
pub fn decompressed<'a, R: Read + 'a>(input: R) -> Result<Box<dyn Read + 'a>, TraceError> {
    let mut input = BufReader::new(input);
    let start = input
        .fill_buf()
        .map_err(|source| TraceError::Io { at: 0, source })?;
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(input)));
    }
    if start.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        return Ok(Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(
            input,
        )));
    }
    Ok(Box::new(input))
}

/// Hands the members of a zip archive to `visit` in their order until it returns false, or what any
/// other stream holds, uncompressed.
///
/// # Errors
/// Those of `visit`; if the archive is damaged.
pub fn members<R: Read>(
    input: R,
    visit: &mut dyn FnMut(&mut dyn Read) -> Result<bool, TraceError>,
) -> Result<(), TraceError> {
    let mut input = BufReader::new(input);
    let start = input
        .fill_buf()
        .map_err(|source| TraceError::Io { at: 0, source })?;
    if start.starts_with(&zip::MEMBER) {
        return zip::each_member(input, visit);
    }
    visit(&mut decompressed(input)?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, AccessKind};
    use std::io::Write;

    fn record(ip: u64, dest: u8, source: u8, load: u64, store: u64) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..8].copy_from_slice(&ip.to_le_bytes());
        bytes[10] = dest;
        bytes[12] = source;
        bytes[16..24].copy_from_slice(&store.to_le_bytes());
        bytes[32..40].copy_from_slice(&load.to_le_bytes());
        bytes
    }

    fn sample() -> Vec<u8> {
        [
            record(0x1000, 1, 0, 0x8000, 0),
            record(0x1004, 2, 1, 0, 0),
            record(0x1008, 3, 2, 0x9000, 0),
            record(0x1040, 0, 0, 0, 0xa000),
        ]
        .concat()
    }

    fn read(file: &[u8]) -> Result<Vec<Access>, TraceError> {
        let mut all = Vec::new();
        champsim(file, |access| {
            all.push(access);
            true
        })?;
        Ok(all)
    }

    #[test]
    fn champsim_records_become_accesses_with_dependences() {
        let all = read(&sample()).unwrap();
        let kinds: Vec<_> = all.iter().map(|a| (a.kind, a.va, a.gap, a.dep)).collect();
        assert_eq!(
            kinds,
            [
                (AccessKind::Fetch, 0x1000, 0, 0),
                (AccessKind::Load, 0x8000, 0, 0),
                // Through register 2, which the instruction between computed from register 1.
                (AccessKind::Load, 0x9000, 1, 1),
                (AccessKind::Fetch, 0x1040, 0, 0),
                (AccessKind::Store, 0xa000, 0, 0),
            ]
        );
    }

    #[test]
    fn dependences_count_no_fetches() {
        let file = [
            record(0x1000, 40, 0, 0x8000, 0),
            record(0x1040, 0, 40, 0x9000, 0),
        ];
        let all = read(&file.concat()).unwrap();
        let loads: Vec<_> = all.iter().map(|a| (a.kind, a.dep)).collect();
        assert_eq!(
            loads,
            [
                (AccessKind::Fetch, 0),
                (AccessKind::Load, 0),
                (AccessKind::Fetch, 0),
                (AccessKind::Load, 1)
            ]
        );
    }

    #[test]
    fn compressed_traces_read_the_same_and_damage_is_an_error() {
        let plain = sample();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&plain).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(&plain).unwrap();
        for packed in [gz.finish().unwrap(), xz.finish().unwrap()] {
            assert_eq!(read(&packed).unwrap(), read(&plain).unwrap());
            for cut in 1..packed.len() {
                assert!(read(&packed[..cut]).is_err(), "cut at {cut}");
            }
        }
        let error = read(&plain[..100]).unwrap_err().to_string();
        assert!(
            error.contains("record 1") && error.contains("36 of 64"),
            "{error}"
        );
    }

    #[test]
    fn an_instruction_with_two_accesses_is_one() {
        let mut both = record(0x1000, 1, 0, 0x8000, 0xa000);
        both[40..48].copy_from_slice(&0x9000u64.to_le_bytes());
        let file = [both, record(0x1004, 2, 1, 0x8008, 0)].concat();
        let all = read(&file).unwrap();
        let joined: Vec<_> = all.iter().map(|a| (a.va, a.joined)).collect();
        let expected = [
            (0x1000, false),
            (0x8000, false),
            (0x9000, true),
            (0xa000, true),
        ];
        assert_eq!(joined[..4], expected);
        assert_eq!(all.iter().map(Access::instructions).sum::<u64>(), 2);
    }

    #[test]
    fn lackey_text_is_read_and_bad_lines_are_named() {
        let text = "==12== header\nI  04001000,3\n L 1ffe00,8\nI  04001003,3\n M 1ffe08,4\n";
        let mut all = Vec::new();
        let mut instructions = 0;
        let count = lackey(text.as_bytes(), |a| {
            all.push((a.kind, a.va));
            instructions += a.instructions();
            true
        });
        assert_eq!((count.unwrap(), instructions), (4, 2));
        assert_eq!(
            all,
            [
                (AccessKind::Fetch, 0x0400_1000),
                (AccessKind::Load, 0x001f_fe00),
                (AccessKind::Load, 0x001f_fe08),
                (AccessKind::Store, 0x001f_fe08)
            ]
        );
        for bad in ["X 12,3", " L zz,8", " L 12", " L 12,x", "L"] {
            let text = format!("I  1000,3\n{bad}\n");
            let error = lackey(text.as_bytes(), |_| true).unwrap_err().to_string();
            assert!(error.starts_with("line 2:"), "{error}");
        }
    }
}
