// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seeded mutations of good traces, more than 10^5 of them: bytes flipped, cut, doubled, swapped
//! and overwritten, in the plain file, inside a compressed stream and on the stream itself. A
//! reader answers with the original accesses or an error with a place, and never panics.
//! AMPLE_MUTATIONS sets the number of cases of each kind of file, AMPLE_SEED the seed.

mod formats;

use ample_kit::random::SplitMix64;
use ample_trace::import::{champsim, decompressed, drmemtrace, gem5, lackey, perf};
use ample_trace::{Access, Consumer, TraceError, TraceHeader, TraceReader, TraceWriter};
use std::io::Write;

type Read = fn(&[u8]) -> Result<Vec<Access>, TraceError>;

/// Accesses read at most: a mutated stream may decompress to far more than it should.
const LIMIT: usize = 20_000;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// A reader of foreign traces as a function that gathers.
macro_rules! gathering {
    ($name:ident, $reader:ident) => {
        fn $name(bytes: &[u8]) -> Result<Vec<Access>, TraceError> {
            let mut all = Vec::new();
            $reader(bytes, |access| {
                all.push(access);
                all.len() < LIMIT
            })?;
            Ok(all)
        }
    };
}

gathering!(read_champsim, champsim);
gathering!(read_lackey, lackey);
gathering!(read_drmemtrace, drmemtrace);
gathering!(read_gem5, gem5);
gathering!(read_perf, perf);

fn read_own(bytes: &[u8]) -> Result<Vec<Access>, TraceError> {
    let mut reader = TraceReader::new(decompressed(bytes)?)?;
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while all.len() < LIMIT && reader.next_block(&mut block)? {
        all.append(&mut block);
    }
    Ok(all)
}

fn champsim_file(rng: &mut SplitMix64) -> Vec<u8> {
    let mut file = Vec::new();
    for step in 0..60u64 {
        let mut record = [0u8; 64];
        record[..8].copy_from_slice(&(0x40_0000 + step * 4).to_le_bytes());
        record[10] = 1 + rng.below(9) as u8;
        record[12] = 1 + rng.below(9) as u8;
        if rng.below(2) == 0 {
            record[32..40].copy_from_slice(&(0x7f00_0000 + rng.below(1 << 20)).to_le_bytes());
        }
        if rng.below(4) == 0 {
            record[16..24].copy_from_slice(&(0x7f00_0000 + rng.below(1 << 20)).to_le_bytes());
        }
        file.extend(record);
    }
    file
}

fn lackey_file(rng: &mut SplitMix64) -> Vec<u8> {
    let mut text = String::from("==1== Lackey\n");
    for step in 0..150u64 {
        let (va, what) = (0x1ff_e000 + rng.below(1 << 16), rng.below(4));
        let line = match what {
            0 => format!("I  {:08x},3\n", 0x40_0000 + step * 3),
            1 => format!(" L {va:08x},8\n"),
            2 => format!(" S {va:08x},4\n"),
            _ => format!(" M {va:08x},2\n"),
        };
        text.push_str(&line);
    }
    text.into_bytes()
}

fn own_file(rng: &mut SplitMix64) -> Vec<u8> {
    let accesses: Vec<Access> = (0..200)
        .map(|_| Access::load(rng.next_u64() >> 16, rng.below(40) as u16))
        .collect();
    let mut file = Vec::new();
    let mut writer = TraceWriter::new(&mut file, &TraceHeader::default()).unwrap();
    assert!(writer.consume(&accesses));
    writer.finish().unwrap();
    file
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut out = liblzma::write::XzEncoder::new(Vec::new(), 0);
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// One to four changes at places from `from` on.
fn mutate(rng: &mut SplitMix64, bytes: &mut Vec<u8>, from: usize) {
    for _ in 0..=rng.below(4) {
        let length = bytes.len() as u64;
        if length <= from as u64 {
            return;
        }
        let at = from + rng.below(length - from as u64) as usize;
        match rng.below(6) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.next_u64() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.remove(at)),
            4 => {
                let end = (at + 1 + rng.below(32) as usize).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let end = (at + 1 + rng.below(8) as usize).min(bytes.len());
                bytes[at..end].fill([0, 0x7f, 0xff][rng.below(3) as usize]);
            }
        }
    }
}

/// Bytes at the start that say which compression this is: without them it is another file.
const COMPRESSION_MAGIC: usize = 6;

/// Mutates `file` in all ways and reads it back. `checked`: the format has checksums of its own,
/// so that even a changed plain file gives the original accesses or an error.
fn torment(name: &str, file: &[u8], read: Read, checked: bool) {
    let cases = setting("AMPLE_MUTATIONS", 40_000);
    let seed = setting("AMPLE_SEED", 1);
    let mut rng = SplitMix64::scattered(seed);
    let original = read(file).expect("the unchanged file reads");
    let packed = [gz(file), xz(file)];
    for (i, packed) in packed.iter().enumerate() {
        assert_eq!(
            read(packed).expect("packed"),
            original,
            "{name}, packing {i}"
        );
    }
    let mut noticed = 0u64;
    for case in 0..cases {
        let way = case % 8;
        let bytes = match way {
            // The stream itself: its checksum must notice.
            0..=5 => {
                let mut bytes = packed[usize::from(way > 2)].clone();
                mutate(&mut rng, &mut bytes, COMPRESSION_MAGIC);
                bytes
            }
            _ => {
                let mut bytes = file.to_vec();
                mutate(&mut rng, &mut bytes, 0);
                // Every eighth mutated file travels inside a sound stream.
                match (way, case / 8 % 8) {
                    (7, 0) => gz(&bytes),
                    (7, 1) => xz(&bytes),
                    _ => bytes,
                }
            }
        };
        match read(&bytes) {
            Ok(all) => {
                let must_match = checked || way <= 5;
                assert!(
                    !must_match || all == original,
                    "{name}: case {case} of seed {seed} read something else; rerun with \
                     AMPLE_SEED={seed}"
                );
            }
            Err(error) => {
                noticed += 1;
                let text = error.to_string();
                let placed = [
                    "at byte", "record", "line", "AMPLTRC1", "entry", "message", "member",
                ];
                assert!(placed.iter().any(|p| text.contains(p)), "{name}: {text}");
            }
        }
    }
    assert!(
        noticed > cases / 2,
        "{name}: only {noticed} of {cases} changes noticed"
    );
}

#[test]
fn mutated_champsim_traces() {
    torment(
        "champsim",
        &champsim_file(&mut SplitMix64::scattered(7)),
        read_champsim,
        false,
    );
}

#[test]
fn mutated_lackey_traces() {
    torment(
        "lackey",
        &lackey_file(&mut SplitMix64::scattered(7)),
        read_lackey,
        false,
    );
}

#[test]
fn mutated_drmemtrace_traces() {
    let rng = &mut SplitMix64::scattered(7);
    let entries: Vec<Vec<u8>> = (0..200u64)
        .map(|step| match rng.below(3) {
            0 => formats::entry(10, 4, 0x40_0000 + 4 * step),
            kind => formats::entry(kind as u16 - 1, 8, 0x7f00_0000 + rng.below(1 << 20)),
        })
        .collect();
    let file = formats::drmemtrace_file(&entries);
    torment("drmemtrace", &file, read_drmemtrace, false);
    // Its own container is a zip archive, whose checksums must notice.
    let archive = formats::zip(&[&file]);
    let original = read_drmemtrace(&archive).expect("the unchanged archive reads");
    for case in 0..setting("AMPLE_MUTATIONS", 40_000) / 8 {
        let mut bytes = archive.clone();
        mutate(rng, &mut bytes, COMPRESSION_MAGIC);
        if let Ok(all) = read_drmemtrace(&bytes) {
            assert_eq!(all, original, "case {case}");
        }
    }
}

#[test]
fn mutated_gem5_traces() {
    let rng = &mut SplitMix64::scattered(7);
    let packets: Vec<[(u64, u64); 4]> = (0..150)
        .map(|_| {
            let command = [1, 4][rng.below(2) as usize];
            [
                (2, command),
                (3, 0x8000_0000 + rng.below(1 << 30)),
                (4, 8),
                (5, 0),
            ]
        })
        .collect();
    torment("packets", &formats::packet_file(&packets), read_gem5, false);
    let records: Vec<formats::Elastic> = (1..150)
        .map(|at| formats::Elastic::new(at, 1 + rng.below(3), 0x7f00_0000 + at * 64, &[at - 1]))
        .collect();
    torment(
        "elastic",
        &formats::elastic_file(&records),
        read_gem5,
        false,
    );
}

#[test]
fn mutated_samples() {
    torment("perf", formats::perf_file().as_bytes(), read_perf, false);
}

#[test]
fn mutated_own_traces() {
    torment(
        "own format",
        &own_file(&mut SplitMix64::scattered(7)),
        read_own,
        true,
    );
}

#[test]
fn an_endless_line_is_refused_early() {
    struct Endless(u64);
    impl std::io::Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            buffer.fill(b'L');
            self.0 += buffer.len() as u64;
            assert!(self.0 < 1 << 20, "the reader goes on for ever");
            Ok(buffer.len())
        }
    }
    let error = lackey(Endless(0), |_| true).unwrap_err().to_string();
    assert!(error.starts_with("line 1:"), "{error}");
}
