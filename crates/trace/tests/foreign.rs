// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of DynamoRIO, gem5 and perf, written here byte by byte as their formats say.

mod formats;

use ample_trace::files::{self, FileWriter, Format};
use ample_trace::import::{drmemtrace, gem5, perf};
use ample_trace::{Access, AccessKind, TraceError, TraceHeader};
use formats::{
    Elastic, drmemtrace_file, elastic_file, entry, message, packet_file, perf_file, zip,
};
use std::path::PathBuf;

type Reader = fn(&[u8], &mut dyn FnMut(Access) -> bool) -> Result<u64, TraceError>;

const DRMEMTRACE: Reader = |bytes, visit| drmemtrace(bytes, visit);
const GEM5: Reader = |bytes, visit| gem5(bytes, visit);
const PERF: Reader = |bytes, visit| perf(bytes, visit);

fn read(reader: Reader, bytes: &[u8]) -> Result<(u64, Vec<Access>), TraceError> {
    let mut all = Vec::new();
    let count = reader(bytes, &mut |access| {
        all.push(access);
        true
    })?;
    Ok((count, all))
}

fn refusal(reader: Reader, bytes: &[u8]) -> String {
    let error = read(reader, bytes).expect_err("the file is wrong");
    error.to_string()
}

/// Instructions that these accesses stand for.
fn instructions(all: &[Access]) -> u64 {
    all.iter().map(Access::instructions).sum()
}

fn short(all: &[Access]) -> Vec<(AccessKind, u64, u16, u8)> {
    let short = |a: &Access| (a.kind, a.va, a.gap, a.bytes);
    all.iter().map(short).collect()
}

use AccessKind::{Fetch, Load, Store};

#[test]
fn drmemtrace_entries_become_accesses() {
    let file = drmemtrace_file(&[
        entry(10, 4, 0x1000),
        entry(47, 3, 0xc0_8548),
        entry(48, 2, 0x1004),
        entry(10, 3, 0x1010),
        entry(0, 8, 0x8000),
        entry(1, 200, 0x8008),
        entry(4, 64, 0x9000),
        entry(29, 2, 0x1010),
        entry(0, 4, 0x8010),
        // A bundle of three instructions, the second of which begins in the next line.
        entry(10, 2, 0x103a),
        entry(17, 3, u64::from_le_bytes([4, 4, 4, 0, 0, 0, 0, 0])),
        entry(1, 1, 0x7000),
    ]);
    let (instructions, all) = read(DRMEMTRACE, &file).expect("it is whole");
    assert_eq!(instructions, 8);
    let expected = [
        (Fetch, 0x1000, 0, 64),
        (Load, 0x8000, 2, 8),
        (Store, 0x8008, 0, 64),
        (Load, 0x8010, 0, 4),
        (Fetch, 0x1040, 0, 64),
        (Store, 0x7000, 3, 1),
    ];
    assert_eq!(short(&all), expected);
    // The store behind the load is of one instruction with it. The last of the bundle has none.
    assert!(all[2].joined && !all[1].joined && !all[3].joined);
    assert_eq!(self::instructions(&all), instructions);
    let half = file.len() / 24 * 12;
    for packed in [zip(&[&file]), zip(&[&file[..half], &file[half..]])] {
        let (count, same) = read(DRMEMTRACE, &packed).expect("it is whole");
        assert_eq!((count, same), (instructions, all.clone()));
        for cut in 1..packed.len() - 42 {
            assert!(read(DRMEMTRACE, &packed[..cut]).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn archives_that_are_not_read_are_refused() {
    let archive = zip(&[&drmemtrace_file(&[entry(10, 4, 0x1000)])]);
    let changed = |at: usize, value: u8| {
        let mut bytes = archive.clone();
        bytes[at] = value;
        refusal(DRMEMTRACE, &bytes)
    };
    // Flags, method, checksum; then sizes of 64 bits that no field holds.
    for (at, value, why) in [
        (6, 1, "flags 0x1"),
        (6, 8, "flags 0x8"),
        (8, 93, "compression 93"),
        (14, archive[14] ^ 1, "checksum"),
    ] {
        let told = changed(at, value);
        assert!(told.contains(why), "{told} has no {why}");
    }
    let mut large = archive.clone();
    large[18..22].fill(0xff);
    assert!(refusal(DRMEMTRACE, &large).contains("no size"));
    // With such a field the same archive is whole again.
    let packed = u64::from(archive[18]);
    let field = [&[1, 0, 16, 0][..], &[0; 8], &packed.to_le_bytes()].concat();
    large[28] = field.len() as u8;
    large.splice(35..35, field);
    assert_eq!(read(DRMEMTRACE, &large).expect("it is whole").0, 1);
}

#[test]
fn drmemtrace_files_that_would_mislead_are_refused() {
    for (value, why) in [
        (0x1, "filtered"),
        (0xe80, "filtered"),
        (0x110, "filtered"),
        (0x20, "32"),
    ] {
        let file = drmemtrace_file(&[entry(28, 9, value)]);
        let told = refusal(DRMEMTRACE, &file);
        assert!(told.starts_with("entry 1:") && told.contains(why), "{told}");
    }
    assert!(read(DRMEMTRACE, &drmemtrace_file(&[entry(28, 9, 0xe40)])).is_ok());
    let told = refusal(DRMEMTRACE, &drmemtrace_file(&[entry(50, 0, 0)]));
    assert!(told.contains("type 50"), "{told}");
    let told = refusal(DRMEMTRACE, &drmemtrace_file(&[entry(17, 9, 0)]));
    assert!(told.contains("bundle of 9"), "{told}");
    let told = refusal(DRMEMTRACE, &entry(0, 8, 0x8000));
    assert!(told.contains("raw2trace"), "{told}");
    let whole = drmemtrace_file(&[entry(10, 4, 0x1000)]);
    let told = refusal(DRMEMTRACE, &whole[..whole.len() - 12]);
    assert!(told.contains("footer"), "{told}");
    let told = refusal(DRMEMTRACE, &whole[..whole.len() - 5]);
    assert!(told.contains("7 of 12"), "{told}");
}

#[test]
fn gem5_packets_become_accesses() {
    // Read, write, fetch twice from one line, an answer.
    let file = packet_file(&[
        [(2, 1), (3, 0x8000), (4, 4), (5, 0)],
        [(2, 4), (3, 0x8040), (4, 128), (5, 0)],
        [(2, 1), (3, 0x1000), (4, 64), (5, 0x100)],
        [(2, 1), (3, 0x1004), (4, 4), (5, 0x100)],
        [(2, 2), (3, 0x8000), (4, 4), (5, 0)],
    ]);
    let (count, all) = read(GEM5, &file).expect("it is whole");
    assert_eq!(count, 2);
    let expected = [
        (Load, 0x8000, 0, 4),
        (Store, 0x8040, 0, 64),
        (Fetch, 0x1000, 0, 64),
    ];
    assert_eq!(short(&all), expected);
    let told = refusal(GEM5, &file[..file.len() - 1]);
    assert!(
        told.starts_with("message 5:") && told.contains("ends after"),
        "{told}"
    );
    for (bytes, why) in [
        (b"gem6".to_vec(), "does not start with gem5"),
        (b"gem5".to_vec(), "does not start with gem5"),
        ([b"gem5".to_vec(), vec![0xff; 12]].concat(), "damaged"),
        (
            [b"gem5".to_vec(), vec![0xff, 0xff, 0xff, 0x7f]].concat(),
            "at most are read",
        ),
        ([b"gem5".to_vec(), message(&[(9, 1)])].concat(), "header"),
        ([b"gem5".to_vec(), vec![2, 0x0a, 9]].concat(), "damaged"),
        ([file.clone(), message(&[(2, 1)])].concat(), "address"),
    ] {
        let told = refusal(GEM5, &bytes);
        assert!(told.contains(why), "{told} has no {why}");
    }
}

#[test]
fn elastic_traces_of_gem5_keep_dependences_and_gaps() {
    let load = |sequence, va, after: &[u64]| Elastic::new(sequence, 1, va, after);
    let file = elastic_file(&[
        load(7, 0x8000, &[]),
        Elastic::new(8, 3, 0, &[7]),
        load(9, 0x9000, &[8]),
        Elastic {
            weight: 5,
            ..Elastic::new(12, 2, 0xa000, &[7])
        },
        load(13, 0xb000, &[999]),
    ]);
    let (count, all) = read(GEM5, &file).expect("it is whole");
    assert_eq!(count, 4);
    let found: Vec<_> = all.iter().map(|a| (a.kind, a.va, a.gap, a.dep)).collect();
    // The computation stands in the gap, and hands on what it took from the first load.
    let expected = [
        (Load, 0x8000, 0, 0),
        (Load, 0x9000, 1, 1),
        (Store, 0xa000, 5, 2),
        (Load, 0xb000, 0, 0),
    ];
    assert_eq!(found, expected);
    let told = refusal(GEM5, &elastic_file(&[Elastic::new(1, 0, 0, &[])]));
    assert!(told.contains("neither load"), "{told}");
}

#[test]
fn samples_of_perf_are_read_in_any_of_its_columns() {
    let (count, all) = read(PERF, perf_file().as_bytes()).expect("it is right");
    assert_eq!(count, 3);
    let expected = [
        (Load, 0x7f00_0000_1008, 0, 8),
        (Store, 0x7f00_0000_2010, 0, 8),
        (Fetch, 0x40_0040, 0, 64),
    ];
    assert_eq!(short(&all), expected);
    let separated = "# PID, TID, IP, ADDR, PHYS ADDR, LOCAL WEIGHT, DSRC, SYMBOL\n\
                     7,7,0x401000,0x7f0000001008,0x0000000012345678,9,0x68100142,/bin/a b:f\n";
    let (_, all) = read(PERF, separated.as_bytes()).expect("it is right");
    assert_eq!(short(&all), [(Load, 0x7f00_0000_1008, 0, 8)]);
    for (bad, why) in [
        ("1 2 0x3 0x4 5 0x2 a:b\n", "columns before"),
        ("", "is empty"),
        ("# PID, TID\n", "ADDR and DSRC"),
        (
            "# PID, TID, IP, ADDR, LOCAL WEIGHT, DSRC, SYMBOL\n1 2 3 4 5 6 7\n",
            "hexadecimal",
        ),
    ] {
        let told = refusal(PERF, bad.as_bytes());
        assert!(told.starts_with("line ") && told.contains(why), "{told}");
    }
}

fn file_of(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("ample-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("writable");
    path
}

#[test]
fn formats_are_found_by_how_files_start() {
    let threads = drmemtrace_file(&[entry(10, 4, 0x1000), entry(0, 8, 0x8000)]);
    let packets = packet_file(&[[(2, 1), (3, 0x8000), (4, 4), (5, 0)]]);
    for (name, bytes, format) in [
        ("one", threads.clone(), Format::Drmemtrace),
        ("two", zip(&[&threads]), Format::Drmemtrace),
        ("three", packets, Format::Gem5),
        ("four", perf_file().into_bytes(), Format::Perf),
    ] {
        let path = file_of(name, &bytes);
        let found = Format::of_file(&path).expect("its start tells");
        assert_eq!(found, format, "{name}");
        let mut accesses = 0;
        files::read(&path, found, u64::MAX, &mut |block| {
            accesses += block.len();
            true
        })
        .expect("readable");
        assert!(accesses > 0, "{name}");
        let written = FileWriter::create(&path, format, &TraceHeader::default());
        let told = written.err().expect("it is only read").to_string();
        assert!(told.contains("only read"), "{told}");
        std::fs::remove_file(path).expect("removable");
    }
}

/// The seeds of the fuzz targets, by target.
const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds");

/// The seeds of the fuzz targets that are whole files are what the formats' writers here make.
#[test]
fn seeds_of_the_fuzzer_are_current() {
    let thread = drmemtrace_file(&[
        entry(28, 9, 0xe40),
        entry(10, 4, 0x1000),
        entry(0, 8, 0x8000),
        entry(17, 2, 0x0404),
    ]);
    let packets = packet_file(&[[(2, 1), (3, 0x8000), (4, 4), (5, 0)]]);
    let elastic = elastic_file(&[Elastic::new(7, 1, 0x8000, &[]), Elastic::new(8, 3, 0, &[7])]);
    for (name, bytes) in [
        ("drmemtrace.zip", zip(&[&thread])),
        ("drmemtrace", thread),
        ("gem5.packets", packets),
        ("gem5.elastic", elastic),
        ("perf", perf_file().into_bytes()),
    ] {
        let target = name.split('.').next().unwrap_or(name);
        let path = format!("{SEEDS}/{target}/{name}");
        if std::env::var_os("AMPLE_SEEDS").is_some() {
            std::fs::write(&path, &bytes).expect("writable");
        }
        let there = std::fs::read(&path).expect("AMPLE_SEEDS=1 writes it");
        // Archives are packed differently by each backend of the deflater.
        let content = |bytes: &[u8]| match name.ends_with("zip") {
            true => format!("{:?}", read(DRMEMTRACE, bytes).expect("an archive")),
            false => format!("{bytes:?}"),
        };
        let current = content(&there) == content(&bytes);
        assert!(current, "{name}: AMPLE_SEEDS=1 writes it anew");
    }
}

/// What the fuzzer kept, because it led somewhere new in a reader, is read without a panic: as a
/// trace, or refused with a message.
#[test]
fn what_the_fuzzer_kept_is_read_or_refused() {
    for (target, format) in [("drmemtrace", DRMEMTRACE), ("gem5", GEM5), ("perf", PERF)] {
        let mut files = 0;
        for file in std::fs::read_dir(format!("{SEEDS}/{target}")).expect("a folder of seeds") {
            let bytes = std::fs::read(file.expect("readable").path()).expect("readable");
            if let Err(told) = read(format, &bytes) {
                assert!(!told.to_string().is_empty());
            }
            files += 1;
        }
        assert!(files > 0, "{target}");
    }
}
