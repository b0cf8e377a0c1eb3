// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sampled runs against runs in which every access has its time: what is counted is the same, and
//! the intervals hold the full run's figures as often as they say.

mod made;

use ample_machine::MachineConfig;
use ample_system::cpu::Cpu;
use ample_system::hardware::{CoreTiming, Hardware, SystemModel};
use ample_system::sample::{SamplePlan, SampledFigure, SamplingReport};
use ample_system::tally::{Counts, SpaceCounts};
use ample_system::wire::{CpuWatcher, Decoder};
use made::Made;

/// A short period, as made guests are short.
const PLAN: SamplePlan = SamplePlan {
    period: 4_000,
    lead: 300,
    window: 300,
    seed: 0,
    enough_percent: None,
};

fn model() -> SystemModel {
    SystemModel {
        machine: MachineConfig::preset("skylake").unwrap(),
        schemes: vec!["paging".into()],
        pcid: false,
        timing: CoreTiming::All,
        private_caches: false,
    }
}

fn words(seed: u64) -> Vec<u64> {
    let mut made = Made::new(seed, 3);
    for _ in 0..300_000 {
        made.access();
        made.event();
    }
    made.end();
    made.words
}

fn fed<H: Hardware>(words: &[u64], hardware: H) -> Cpu<H> {
    let mut cpu = Cpu::new(hardware);
    feed(words, &mut cpu);
    cpu
}

fn feed(words: &[u64], watcher: &mut impl CpuWatcher) {
    assert_eq!(Decoder::new(0).decode(words, watcher), Ok(words.len()));
}

fn without_time(mut counts: SpaceCounts) -> SpaceCounts {
    for mode in [&mut counts.user, &mut counts.kernel] {
        (mode.time_units, mode.walk_units, mode.timed_instructions) = (0, 0, 0);
    }
    counts
}

/// Cycles of an instruction and percent of them with a walk under way.
fn figures(counts: &SpaceCounts, width: f64) -> [f64; 2] {
    let mut sum: Counts = counts.user;
    sum += counts.kernel;
    let cycles = sum.time_units as f64 / width;
    [
        cycles / sum.timed_instructions as f64,
        100.0 * sum.walk_units as f64 / sum.time_units as f64,
    ]
}

#[test]
fn intervals_hold_what_a_full_run_measures() {
    let model = model();
    let width = f64::from(model.machine.core.width);
    let (mut held, mut all) = ([0; 2], 0);
    for guest in 1..=3 {
        let words = words(guest);
        let full = fed(&words, model.cores("paging", 1).unwrap().remove(0));
        let expected = figures(&full.total(), width);
        for seed in 1..=5 {
            let plan = SamplePlan { seed, ..PLAN };
            let sampled = fed(&words, model.sampled("paging", plan, 1).unwrap().remove(0));
            assert_eq!(
                without_time(sampled.total()),
                without_time(full.total()),
                "what is counted does not depend on the windows"
            );
            let report = SamplingReport::of(plan, sampled.hardware().windows(), width);
            let found = [report.cycles_per_instruction, report.walk_percent];
            let near = |(figure, expected): (&SampledFigure, &f64)| {
                (figure.value.unwrap() - expected).abs() <= figure.half_width.unwrap()
            };
            for (held, near) in held.iter_mut().zip(found.iter().zip(&expected).map(near)) {
                *held += usize::from(near);
            }
            all += 1;
            assert!(report.windows > 40, "{}", report.windows);
            assert!(report.instructions * 5 < full.instructions);
        }
    }
    eprintln!("{held:?} of {all} intervals hold");
    assert!(
        held.iter().all(|&held| held * 10 >= all * 9),
        "{held:?} of {all}"
    );
}
