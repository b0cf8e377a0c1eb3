// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two made CPUs that take turns: what they find in the last-level cache, shared and apart, and
//! that a recording of them comes to the same figures.

mod made;

use ample_kit::random::SplitMix64;
use ample_machine::MachineConfig;
use ample_system::cpu::Cpu;
use ample_system::file::{FileHeader, RecordingWriter};
use ample_system::hardware::{CoreTiming, Hardware, LastCounts, SystemCore, SystemModel};
use ample_system::report::SystemRun;
use ample_system::run::{ReplayedMachine, replay};
use ample_system::sample::SamplePlan;
use ample_system::tally::SpaceCounts;
use ample_system::wire::Decoder;
use made::Made;

/// What the two CPUs do, turn by turn: a CPU's number and its words.
type TurnsMade = Vec<(usize, Vec<u64>)>;

fn model(timing: CoreTiming, private_caches: bool) -> SystemModel {
    SystemModel {
        machine: MachineConfig::preset("skylake").unwrap(),
        schemes: vec!["paging".into(), "colt".into()],
        pcid: false,
        timing,
        private_caches,
    }
}

fn turn(number: usize) -> u64 {
    3 << 59 | 13 << 48 | number as u64
}

/// Two guests whose frames are the same, in turns of random length.
fn made(seed: u64) -> TurnsMade {
    let mut guests = [seed, seed + 1].map(|seed| Made::new(seed, 3));
    let mut random = SplitMix64::new(seed);
    let mut taken = [0; 2];
    let mut turns = TurnsMade::new();
    for number in 0..400 {
        let cpu = number % 2;
        let guest = &mut guests[cpu];
        for _ in 0..random.below(600) {
            guest.access();
            guest.event();
        }
        if number >= 398 {
            guest.end();
        }
        let words = &guest.words[taken[cpu]..];
        turns.push((cpu, [&[turn(number + 1)], words].concat()));
        taken[cpu] = guest.words.len();
    }
    turns
}

/// Each CPU in one turn: it loads 64 pages, line after line.
fn same_lines_in_turn() -> TurnsMade {
    // Present, writable, accessed, dirty.
    let leaf = |page: u64| (0x10_0000 + (page << 12)) | 0x63;
    let one = |cpu: usize| {
        let mut words = vec![turn(cpu + 1), 3 << 59 | 1 << 48, 7, 0x1000, 0];
        for page in 0..64u64 {
            let va = 0x40_0000 + (page << 12);
            words.push(va | 3 << 59 | 9 << 48 | 4 << 56);
            let path = [(0x1000, 0x2063), (0x2000, 0x3063), (0x3010, 0x4063)];
            words.extend(path.into_iter().flat_map(|(at, entry)| [at, entry]));
            words.extend([0x4000 + 8 * page, leaf(page)]);
            let line = page & !7;
            words.extend((line..line + 8).map(leaf));
            words.extend((0..64).map(|line| va + 64 * line));
        }
        words.extend([3 << 59 | 2 << 48, 7, 64 * 64]);
        (cpu, words)
    };
    vec![one(0), one(1)]
}

fn simulated(turns: &TurnsMade, private_caches: bool) -> Vec<Cpu<SystemCore>> {
    let model = model(CoreTiming::All, private_caches);
    let cores = model.cores("paging", 2).unwrap();
    let mut cpus: Vec<Cpu<SystemCore>> = cores.into_iter().map(Cpu::new).collect();
    let mut decoders = [0, 1].map(Decoder::new);
    for (cpu, words) in turns {
        let decoded = decoders[*cpu].decode(words, &mut cpus[*cpu]);
        assert_eq!(decoded, Ok(words.len()));
    }
    cpus
}

fn last_levels(cpus: &[Cpu<SystemCore>]) -> Vec<LastCounts> {
    cpus.iter()
        .map(|cpu| cpu.hardware().last_level().unwrap())
        .collect()
}

fn replayed(turns: &TurnsMade, model: SystemModel) -> SystemRun {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("made.sys");
    let header = FileHeader {
        cpus: 2,
        ..FileHeader::default()
    };
    let mut writer = RecordingWriter::create(&file, &header).unwrap();
    for (cpu, words) in turns {
        writer.put(*cpu, words).unwrap();
    }
    writer.finish().unwrap();
    replay(&ReplayedMachine { file, model }, || false, |_| ()).unwrap()
}

#[test]
fn what_one_cpu_has_loaded_another_finds_only_in_a_shared_level() {
    let turns = same_lines_in_turn();
    let [first, second] = last_levels(&simulated(&turns, false))[..] else {
        panic!("two CPUs");
    };
    assert!(first.misses >= 64 * 64 && first.of_others == 0, "{first:?}");
    // Its own caches are as cold as those of the first: it asks for the same lines.
    let expected = LastCounts {
        lookups: first.lookups,
        misses: 0,
        of_others: first.lookups,
    };
    assert_eq!(second, expected);
    assert_eq!(last_levels(&simulated(&turns, true)), [first; 2]);
}

#[test]
fn a_recording_comes_to_what_its_words_come_to() {
    let turns = made(3);
    let cpus = simulated(&turns, false);
    let report = replayed(&turns, model(CoreTiming::All, false));
    let paging = &report.schemes[0];
    assert!(report.shared_last_level);
    assert_eq!(paging.last_level, last_levels(&cpus));
    eprintln!("{:?}", paging.last_level);
    let found = |counts: &LastCounts| counts.of_others > 0;
    assert!(paging.last_level.iter().all(found));
    let mut total = SpaceCounts::default();
    cpus.iter().for_each(|cpu| total += cpu.total());
    assert_eq!(paging.user.counts, total.user);
    assert_eq!(paging.kernel.counts, total.kernel);
    assert_eq!((report.events.turns, report.regions), (400, 1));

    // The order among the CPUs matters: one after the other they find other lines.
    let mut after = turns;
    after.sort_by_key(|&(cpu, _)| cpu);
    assert_ne!(paging.last_level, last_levels(&simulated(&after, false)));
}

#[test]
fn two_runs_are_the_same_and_second_levels_see_no_difference() {
    let turns = made(11);
    let sampled = CoreTiming::Sampled(SamplePlan {
        period: 4_000,
        lead: 300,
        window: 300,
        ..SamplePlan::USUAL
    });
    for timing in [CoreTiming::All, sampled] {
        let reports = [(); 2].map(|()| replayed(&turns, model(timing, false)));
        assert_eq!(reports[0].schemes, reports[1].schemes);
        let apart = replayed(&turns, model(timing, true));
        assert!(!apart.shared_last_level);
        for (shared, apart) in reports[0].schemes.iter().zip(&apart.schemes) {
            // What the private levels ask for does not depend on what is below them.
            let lookups = |counts: &LastCounts| counts.lookups;
            assert!(
                shared
                    .last_level
                    .iter()
                    .map(lookups)
                    .eq(apart.last_level.iter().map(lookups))
            );
            assert_ne!(shared.last_level, apart.last_level);
        }
    }
}
