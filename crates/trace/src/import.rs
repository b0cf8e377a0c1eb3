// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of other tools: ChampSim's 64-byte instruction records (raw, gzip or xz) and the text of
//! Valgrind's lackey.

use crate::error::TraceError;
use crate::{Access, Kind};
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

/// ChampSim's `input_instr`: ip, branch flags, registers, two store and four load addresses.
const CHAMPSIM_RECORD: usize = 64;

/// Reads a ChampSim trace and hands every access to `visit` until it returns false; returns the
/// number of instructions. Dependences between registers become dependences between accesses.
///
/// # Errors
/// If the file ends inside a record (also inside a damaged compressed stream): the record's number.
pub fn champsim<R: Read>(
    input: R,
    mut visit: impl FnMut(Access) -> bool,
) -> Result<u64, TraceError> {
    let mut input = decompressed(input)?;
    let mut record = [0u8; CHAMPSIM_RECORD];
    let mut instructions = 0u64;
    let mut gap = 0u16;
    let mut line = u64::MAX;
    // Loads and stores so far: what dependences are counted in.
    let mut accesses = 0u64;
    // For each register the number of the load that last wrote it, counted from one.
    let mut writer = [0u64; 256];
    loop {
        let mut filled = 0;
        while filled < CHAMPSIM_RECORD {
            match input.read(&mut record[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(source) => {
                    return Err(TraceError::Syntax {
                        place: format!("record {instructions}"),
                        what: format!("the compressed stream is damaged: {source}"),
                    });
                }
            }
        }
        match filled {
            0 => return Ok(instructions),
            CHAMPSIM_RECORD => {}
            _ => {
                return Err(TraceError::Syntax {
                    place: format!("record {instructions}"),
                    what: format!("the trace ends after {filled} of 64 bytes"),
                });
            }
        }
        instructions += 1;
        let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"));
        let ip = word(0);
        if ip >> 6 != line {
            line = ip >> 6;
            if !visit(Access::fetch(line << 6)) {
                return Ok(instructions);
            }
        }
        let sources = &record[12..16];
        let newest = sources
            .iter()
            .map(|&r| writer[r as usize])
            .max()
            .unwrap_or(0);
        let mut loaded = 0;
        let mut any = false;
        for (at, kind) in [
            (32, Kind::Load),
            (40, Kind::Load),
            (48, Kind::Load),
            (56, Kind::Load),
            (16, Kind::Store),
            (24, Kind::Store),
        ] {
            let va = word(at);
            if va == 0 {
                continue;
            }
            accesses += 1;
            let dep = if newest == 0 { 0 } else { accesses - newest };
            let dep = u16::try_from(dep).unwrap_or(0);
            let own_gap = if any { 0 } else { gap };
            if !visit(Access {
                va,
                gap: own_gap,
                dep,
                kind,
                bytes: 8,
                thread: 0,
            }) {
                return Ok(instructions);
            }
            if kind == Kind::Load {
                loaded = accesses;
            }
            any = true;
        }
        for &register in record[10..12].iter().filter(|&&r| r != 0) {
            writer[register as usize] = loaded.max(if any { 0 } else { newest });
        }
        gap = if any { 0 } else { gap.saturating_add(1) };
    }
}

/// Lines of this many bytes are refused.
const LINE_BYTES: u64 = 4096;

/// Reads lackey's `--trace-mem=yes` text; returns the number of accesses.
///
/// # Errors
/// If a line cannot be understood: its number.
pub fn lackey<R: Read>(input: R, mut visit: impl FnMut(Access) -> bool) -> Result<u64, TraceError> {
    let mut accesses = 0;
    let mut gap = 0u16;
    let mut fetched = u64::MAX;
    let mut input = BufReader::new(decompressed(input)?);
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        let read = input.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line);
        let place = || format!("line {number}");
        match read {
            Ok(0) => break,
            Ok(_) => {}
            Err(source) => {
                return Err(TraceError::Syntax {
                    place: place(),
                    what: format!("the compressed stream is damaged: {source}"),
                });
            }
        }
        let bad = |what: &str| TraceError::Syntax {
            place: place(),
            what: format!(
                "{what}: '{}'",
                String::from_utf8_lossy(&line[..line.len().min(60)]).trim_end()
            ),
        };
        if line.len() as u64 == LINE_BYTES {
            return Err(bad("longer than any line of lackey's"));
        }
        let Ok(text) = std::str::from_utf8(&line) else {
            return Err(bad("not text"));
        };
        if text.trim().is_empty() || text.starts_with("==") || text.starts_with("--") {
            continue;
        }
        let mut words = text.split_whitespace();
        let what = words.next().unwrap_or_default();
        let place = words.next().ok_or_else(|| bad("no address"))?;
        let (va, bytes) = place.split_once(',').ok_or_else(|| bad("no size"))?;
        let va = u64::from_str_radix(va, 16).map_err(|_| bad("not a hexadecimal address"))?;
        let bytes: u32 = bytes.parse().map_err(|_| bad("not a size"))?;
        let bytes = bytes.clamp(1, 64) as u8;
        let kinds: &[Kind] = match what {
            "I" => {
                gap = gap.saturating_add(1);
                if va >> 6 == fetched {
                    continue;
                }
                fetched = va >> 6;
                &[Kind::Fetch]
            }
            "L" => &[Kind::Load],
            "S" => &[Kind::Store],
            "M" => &[Kind::Load, Kind::Store],
            _ => return Err(bad("not one of I, L, S, M")),
        };
        for &kind in kinds {
            accesses += 1;
            let access = match kind {
                Kind::Fetch => Access::fetch(fetched << 6),
                _ => Access {
                    va,
                    gap: gap.saturating_sub(1),
                    dep: 0,
                    kind,
                    bytes,
                    thread: 0,
                },
            };
            if !visit(access) {
                return Ok(accesses);
            }
            if kind != Kind::Fetch {
                gap = 0;
            }
        }
    }
    Ok(accesses)
}

#[cfg(test)]
mod tests {
    use super::*;
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
                (Kind::Fetch, 0x1000, 0, 0),
                (Kind::Load, 0x8000, 0, 0),
                // Through register 2, which the instruction between computed from register 1.
                (Kind::Load, 0x9000, 1, 1),
                (Kind::Fetch, 0x1040, 0, 0),
                (Kind::Store, 0xa000, 0, 0),
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
                (Kind::Fetch, 0),
                (Kind::Load, 0),
                (Kind::Fetch, 0),
                (Kind::Load, 1)
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
    fn lackey_text_is_read_and_bad_lines_are_named() {
        let text = "==12== header\nI  04001000,3\n L 1ffe00,8\nI  04001003,3\n M 1ffe08,4\n";
        let mut all = Vec::new();
        let count = lackey(text.as_bytes(), |a| {
            all.push((a.kind, a.va));
            true
        });
        assert_eq!(count.unwrap(), 4);
        assert_eq!(
            all,
            [
                (Kind::Fetch, 0x0400_1000),
                (Kind::Load, 0x001f_fe00),
                (Kind::Load, 0x001f_fe08),
                (Kind::Store, 0x001f_fe08)
            ]
        );
        for bad in ["X 12,3", " L zz,8", " L 12", " L 12,x", "L"] {
            let text = format!("I  1000,3\n{bad}\n");
            let error = lackey(text.as_bytes(), |_| true).unwrap_err().to_string();
            assert!(error.starts_with("line 2:"), "{error}");
        }
    }
}
