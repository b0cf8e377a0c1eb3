// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model's counts of TLB misses and walks against a second model that shares no code with it,
//! to the access: on made guests, and on a recorded one where `AMPLE_SYSTEM_FILE` names it.

mod made;
mod second;

use ample_machine::MachineConfig;
use ample_system::cpu::Cpu;
use ample_system::file::RecordingReader;
use ample_system::hardware::{CoreTiming, Functional, SystemModel};
use ample_system::wire::{CpuWatcher, Decoder};
use made::Made;
use second::Second;
use std::path::Path;

fn model() -> Cpu<Functional> {
    let model = SystemModel {
        machine: MachineConfig::preset("skylake").unwrap(),
        schemes: Vec::new(),
        pcid: false,
        timing: CoreTiming::None,
        private_caches: false,
    };
    Cpu::new(model.functional("paging", 1).unwrap().remove(0))
}

fn counted(cpu: &Cpu<Functional>) -> [u64; 4] {
    let total = cpu.total();
    let mut sum = total.user;
    sum += total.kernel;
    [
        sum.l1d_misses,
        sum.walks_data,
        sum.l1i_misses,
        sum.walks_fetch,
    ]
}

fn feed(words: &[u64], watcher: &mut impl CpuWatcher) {
    assert_eq!(Decoder::new(0).decode(words, watcher), Ok(words.len()));
}

#[test]
fn made_guests_miss_as_often_in_both() {
    for seed in 1..=5 {
        let mut made = Made::new(seed, 3);
        for _ in 0..60_000 {
            made.access();
            made.event();
        }
        made.end();
        let (mut cpu, mut second) = (model(), Second::new());
        feed(&made.words, &mut cpu);
        feed(&made.words, &mut second);
        assert_eq!(
            (cpu.untranslated, cpu.malformed, second.unknown),
            (0, 0, 0),
            "seed {seed}"
        );
        assert_eq!(counted(&cpu), second.counts, "seed {seed}");
        assert!(
            second.counts.iter().all(|&count| count > 1000),
            "{:?}",
            second.counts
        );
    }
}

/// A load or a fetch of a page that nothing maps, after `gap` instructions.
fn access(fetch: bool, kernel: bool, gap: u64) -> u64 {
    let va = if kernel { 0x8000_0000_0000 } else { 0x1000 };
    va | gap << 48 | u64::from(fetch) << 60 | u64::from(kernel) << 61
}

#[test]
fn instructions_before_a_fetch_are_of_the_mode_before() {
    let words = [
        // a region begins: value, CR3, instructions so far
        3 << 59 | 1 << 48,
        7,
        0x1000,
        100,
        access(true, false, 0),
        access(false, false, 3),
        // an interrupt and the return from it
        access(true, true, 5),
        access(false, true, 20),
        access(true, false, 2),
        access(false, false, 1),
    ];
    let mut cpu = model();
    feed(&words, &mut cpu);
    let total = cpu.total();
    assert_eq!(total.user.instructions, 3 + 1 + 5 + 1 + 1);
    assert_eq!(total.kernel.instructions, 20 + 1 + 2);
    assert_eq!((total.user.fetches, total.kernel.fetches), (2, 1));
}

#[test]
fn a_recorded_guest_misses_as_often_in_both() {
    let Some(path) = std::env::var_os("AMPLE_SYSTEM_FILE") else {
        eprintln!("skipped: AMPLE_SYSTEM_FILE names no recording");
        return;
    };
    let mut reader = RecordingReader::open(Path::new(&path)).unwrap();
    let cpus = reader.header().cpus;
    let mut all: Vec<(Decoder, Cpu<Functional>, Decoder, Second)> = (0..cpus)
        .map(|cpu| (Decoder::new(cpu), model(), Decoder::new(cpu), Second::new()))
        .collect();
    while let Ok((cpu, words)) = reader.next_part().unwrap() {
        let (decoder, cpu, again, second) = &mut all[cpu];
        decoder.decode(words, cpu).unwrap();
        again.decode(words, second).unwrap();
    }
    for (at, (_, cpu, _, second)) in all.iter().enumerate() {
        eprintln!("CPU {at}: {:?}", second.counts);
        assert_eq!((cpu.untranslated, cpu.malformed, second.unknown), (0, 0, 0));
        assert_eq!(counted(cpu), second.counts, "CPU {at}");
    }
}
