// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines that nobody has checked by hand: any text is refused or can be built, and what is
//! accepted runs.

use ample_lab::machines;
use ample_machine::MachineConfig;
use ample_trace::{Access, AccessKind, Consumer};
use ample_translate::{PageSize, presets, schemes};
use proptest::prelude::*;
use std::path::Path;

/// Runs a machine for so many accesses, natively.
fn run(machine: &MachineConfig, scheme: &str, accesses: u64) {
    let scheme = schemes::by_name(scheme).unwrap();
    let mut engine = machine.engine(scheme).unwrap();
    engine.premap(0, 32 << 20, PageSize::K4).unwrap();
    engine.premap(32 << 20, 32 << 20, PageSize::M2).unwrap();
    let mut core = machine.core(engine).unwrap();
    let access = |number: u64| Access {
        kind: [AccessKind::Load, AccessKind::Store][usize::from(number.is_multiple_of(3))],
        ..Access::load(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 38 & !7, 3)
    };
    let all: Vec<Access> = (0..accesses).map(access).collect();
    for block in all.chunks(1000) {
        assert!(core.consume(block), "{:?}", core.failed);
    }
}

/// The text of a machine as a user might have it.
fn read(text: &str) -> anyhow::Result<MachineConfig> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("m.toml");
    std::fs::write(&path, text)?;
    machines::named(path.to_str().unwrap())
}

/// Numbers that descriptions go wrong with.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u64..20).prop_map(|n| n.to_string()),
        (0u32..40).prop_map(|n| (1u64 << n).to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:?}")),
        Just("\"absent\"".to_owned()),
        Just("[]".to_owned()),
    ]
}

/// A preset with some of its numbers replaced.
fn mutated(preset: usize, changes: &[(usize, String)]) -> String {
    let text = presets::PRESETS[preset % presets::PRESETS.len()].1;
    let mut words: Vec<String> = text.split_inclusive(' ').map(str::to_owned).collect();
    let digits = |word: &String| word.starts_with(|c: char| c.is_ascii_digit());
    let places: Vec<usize> = (0..words.len()).filter(|&at| digits(&words[at])).collect();
    for (place, to) in changes {
        let word = &mut words[places[place % places.len()]];
        let rest = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_' || c == '.');
        *word = format!("{to}{rest}");
    }
    words.concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_refused_with_a_reason_or_runs(
        preset in 0usize..16,
        changes in prop::collection::vec((0usize..200, number()), 0..4),
    ) {
        match read(&mutated(preset, &changes)) {
            Err(error) => {
                let told = format!("{error:#}");
                prop_assert!(told.contains("m.toml"), "{}", told);
            }
            // A cache of gigabytes is valid, but too much for a test.
            Ok(machine) if machine.memory.llc.bytes + machine.memory.l2.bytes < 1 << 27
                && machine.memory.l1d.bytes + machine.memory.l1i.bytes < 1 << 27 =>
            {
                run(&machine, "paging", 10_000);
            }
            Ok(_) => {}
        }
    }

    #[test]
    fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m.toml");
        std::fs::write(&path, bytes).unwrap();
        prop_assert!(machines::named(path.to_str().unwrap()).is_err());
    }

    #[test]
    fn any_setting_is_refused_or_made(key in "[a-z0-9_.]{0,30}", value in number()) {
        for key in [key.as_str(), "mmu.l2.0.geometry.ways", "mmu.pwc", "mmu.l1d", "memory"] {
            if let Ok(setting) = ample_lab::files::setting(&format!("{key}={value}")) {
                let _ = machines::changed("skylake", &[setting]);
            }
        }
    }
}

#[test]
fn every_preset_runs_under_every_scheme_that_needs_no_mapping() {
    for (name, _) in presets::PRESETS {
        for scheme in ["paging", "colt", "rmm", "perforated"] {
            run(&machines::named(name).unwrap(), scheme, 2_000);
        }
    }
}

#[test]
fn files_that_are_none_are_refused() {
    for path in ["/dev/zero", "/", "/none/such.toml"] {
        if path != "/dev/zero" || Path::new(path).exists() {
            assert!(machines::named(path).is_err(), "{path}");
        }
    }
}

/// The default configuration that ChampSim ships (`champsim_config.json` and the defaults of its
/// page-table walker, as of 2024): 16 MSHRs of the first level, DDR4-3200 24-24-24-52 with 8 bank
/// groups of 4 banks and rows of 1024 columns of 8 bytes; caches and TLBs by sets and ways,
/// latencies added up from the core.
#[test]
fn champsim_default_is_the_published_table() {
    let machine = MachineConfig::preset("champsim-default").unwrap();
    let memory = &machine.memory;
    assert_eq!(memory.mshrs, 16);
    let caches = [&memory.l1d, &memory.l1i, &memory.l2, &memory.llc];
    let shapes = caches.map(|c| (c.bytes / 64 / u64::from(c.ways), c.ways));
    assert_eq!(shapes, [(64, 12), (64, 8), (1024, 8), (2048, 16)]);
    let cycles = [&memory.l1d, &memory.l2, &memory.llc].map(|c| c.latency_cycles);
    assert_eq!(cycles, [5, 5 + 10, 5 + 10 + 20]);
    let dram = &memory.dram;
    assert_eq!([dram.cl, dram.trcd, dram.trp, dram.tras], [24, 24, 24, 52]);
    assert_eq!((dram.channels, dram.banks), (1, 8 * 4));
    assert_eq!(dram.row_bytes, 1024 * 8);
    assert_eq!(dram.tck_ns, 2.0 / 3.2);
    let mmu = &machine.mmu;
    let sets = |g: &ample_translate::Geometry| (g.entries / g.ways, g.ways);
    assert_eq!((mmu.levels, mmu.walkers, mmu.l2_cycles), (5, 5, 8));
    assert_eq!(sets(&mmu.l1d[0].geometry), (16, 4));
    assert_eq!(sets(&mmu.l1i[0].geometry), (16, 4));
    assert_eq!(sets(&mmu.l2[0].geometry), (128, 12));
    let ample_translate::PwcKind::PerLevel(arrays) = &mmu.pwc else {
        panic!("one cache a level");
    };
    let arrays: Vec<_> = arrays.iter().map(sets).collect();
    assert_eq!(arrays, [(4, 8), (2, 4), (1, 4), (1, 2)]);
    assert_eq!((machine.core.rob, machine.core.store_buffer), (352, 72));
}
