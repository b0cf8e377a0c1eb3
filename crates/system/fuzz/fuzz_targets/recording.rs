// SPDX-License-Identifier: MIT OR Apache-2.0
//! No bytes make the reader of a recorded machine, or the translation hardware that its words go
//! to, panic, hang or allocate without bound.
//!
//! The input is read as a file, and, because nothing random gets through a decompressor, as the raw
//! bytes of one block, from which a file is made that is right in all lengths and sums. Its first
//! two bytes say how many words that block has; what is left of the last one is dropped.
#![no_main]

use ample_machine::MachineConfig;
use ample_system::cpu::Cpu;
use ample_system::file::RecordingReader;
use ample_system::hardware::{CoreTiming, SystemModel};
use ample_system::wire::Decoder;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// More CPUs would cost time and show nothing else.
const CPUS: usize = 2;

static MODEL: LazyLock<SystemModel> = LazyLock::new(|| SystemModel {
    machine: MachineConfig::preset("skylake").expect("a preset"),
    schemes: vec!["paging".into()],
    pcid: true,
    timing: CoreTiming::None,
    private_caches: false,
});

fuzz_target!(|bytes: &[u8]| {
    simulate(bytes);
    if let Some((words, raw)) = bytes.split_first_chunk() {
        simulate(&assembled(u32::from(u16::from_le_bytes(*words)), raw));
    }
});

fn assembled(words: u32, raw: &[u8]) -> Vec<u8> {
    let header = br#"{"kernel":"","append":"","memory_bytes":1048576,"cpus":2}"#;
    let stored = zstd::bulk::compress(raw, 1).expect("memory for a few bytes");
    let mut file = b"AMPSYS02".to_vec();
    file.extend((header.len() as u32).to_le_bytes());
    file.extend(header);
    file.extend(crc32fast::hash(header).to_le_bytes());
    for word in [words, raw.len() as u32, stored.len() as u32, crc32fast::hash(raw)] {
        file.extend(word.to_le_bytes());
    }
    file.extend(stored);
    file.extend(u32::MAX.to_le_bytes());
    file.extend(u64::from(words).to_le_bytes());
    file
}

/// As `ample system replay` does, up to the first error.
fn simulate(bytes: &[u8]) {
    let Ok(mut reader) = RecordingReader::new(bytes) else { return };
    if reader.header().cpus > CPUS {
        return;
    }
    let hardware = MODEL.functional("paging", CPUS).expect("a scheme that there is");
    let mut cpus: Vec<_> = hardware.into_iter().map(Cpu::new).collect();
    let mut decoders: Vec<_> = (0..CPUS).map(Decoder::new).collect();
    while let Ok(Ok((cpu, words))) = reader.next_part() {
        if decoders[cpu].decode(words, &mut cpus[cpu]).is_err() {
            return;
        }
    }
    for cpu in &mut cpus {
        cpu.finish();
        cpu.total();
    }
}
