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
            Err(error) => prop_assert!(format!("{error:#}").contains("m.toml")),
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
