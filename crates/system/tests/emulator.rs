// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines of a few instructions under the emulator: every walk is known, and so is what is
//! refused. Needs gcc and qemu-system-x86_64 9.2 or later; without them there is nothing to test.

mod emulated;

use ample_machine::MachineConfig;
use ample_system::file::RecordingReader;
use ample_system::guest::Guest;
use ample_system::hardware::{CoreTiming, SystemModel};
use ample_system::report::SystemRun;
use ample_system::run::{ReplayedMachine, RunOptions, replay, run};
use ample_system::wire::{CpuEvent, CpuWatcher, Decoder};
use ample_trace::Access;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Whether an emulator is there that plugins can watch as they need to.
fn emulator() -> bool {
    emulated::emulator((9, 2))
}

/// Assembles the tiny machine with a macro defined; returns its image.
fn assembled(directory: &Path, what: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/tiny.S");
    let (object, image) = (directory.join("tiny.o"), directory.join("tiny.elf"));
    let assemble = Command::new("gcc")
        .args(["-m32", "-c", &format!("-D{what}"), "-o"])
        .args([&object, &source])
        .status();
    assert!(assemble.unwrap().success());
    let link = Command::new("ld")
        .args(["-m", "elf_i386", "-Ttext", "0x100000", "-o"])
        .args([&image, &object])
        .status();
    assert!(link.unwrap().success());
    image
}

fn model(timing: CoreTiming) -> SystemModel {
    SystemModel {
        machine: MachineConfig::preset("skylake").unwrap(),
        schemes: vec!["paging".into(), "colt".into()],
        pcid: false,
        timing,
        private_caches: false,
    }
}

fn options(kernel: PathBuf, out: Option<PathBuf>) -> RunOptions {
    RunOptions {
        guest: Guest {
            verify: true,
            ..emulated::guest(kernel, 1)
        },
        model: model(CoreTiming::None),
        limit: Duration::from_secs(120),
        out,
    }
}

fn ran(what: &str, out: Option<PathBuf>) -> anyhow::Result<SystemRun> {
    let directory = tempfile::tempdir()?;
    let kernel = assembled(directory.path(), what);
    run(&options(kernel, out), || false, |_| ())
}

/// Accesses of a recording that are of the same instruction as the one before.
fn joined_in(file: &Path) -> usize {
    struct Joined(usize);
    impl CpuWatcher for Joined {
        fn access(&mut self, access: Access, _: bool) {
            self.0 += usize::from(access.joined);
        }
        fn event(&mut self, _: CpuEvent<'_>) {}
    }
    let mut reader = RecordingReader::open(file).unwrap();
    let mut seen = Joined(0);
    while let Ok((cpu, words)) = reader.next_part().unwrap() {
        Decoder::new(cpu).decode(words, &mut seen).unwrap();
    }
    seen.0
}

#[test]
fn every_walk_of_a_tiny_machine_is_known() {
    if !emulator() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tiny.sys");
    let report = ran("COUNTS", Some(file.clone())).unwrap();
    let paging = &report.schemes[0];
    let counts = &paging.user.counts;
    // Nothing of it runs at an address of the kernel's half.
    assert_eq!(paging.kernel.counts.instructions, 0);
    assert_eq!(counts.loads, 8 * 64 + 5);
    assert_eq!(counts.stores, 6);
    let loops = 64 + 64 + 64 + 1 + 64 + 64;
    assert_eq!(counts.walks_data, loops + 1 + 1 + 1 + 1 + 1 + 1 + 1);
    // At the begin, after CR3, after CR4 twice in one line of code, and at another address.
    assert_eq!(counts.walks_fetch, 4);
    assert_eq!(counts.walks_by_size, [64 * 5 + 4, 4 + 4, 0]);
    assert_eq!((paging.untranslated, paging.malformed), (0, 0));
    assert_eq!(paging.kernel_fills_not_global, 0);
    let events = &report.events;
    assert_eq!(
        (events.cr3_writes, events.invlpg, events.flushes),
        (1, 3, 2)
    );
    assert_eq!((report.regions, &report.points), (1, &vec![vec![9]]));
    // Eight instructions around the loads of each loop, and what is between.
    assert_eq!(report.instructions[0], counts.instructions);
    assert_eq!(
        (report.recorder.mismatches, report.recorder.unmapped),
        (0, 0)
    );
    assert_eq!(report.recorder.compared, 8 * 64 + 11);
    // CoLT finds eight neighbours in each line.
    assert!(report.schemes[1].user.counts.walks_data < counts.walks_data / 4);

    // What reads and writes is one instruction with two accesses; no other word shares one.
    assert_eq!(joined_in(&file), 2);

    let again = ReplayedMachine {
        file,
        model: model(CoreTiming::None),
    };
    let replayed = replay(&again, || false, |_| ()).unwrap();
    assert_eq!(replayed.schemes, report.schemes);
    assert_eq!(replayed.digests, report.digests);
    assert_eq!(replayed.events, report.events);

    let timed = ReplayedMachine {
        model: model(CoreTiming::All),
        ..again
    };
    let timed = replay(&timed, || false, |_| ()).unwrap();
    assert_eq!(timed.schemes[0].user.counts.walks_data, counts.walks_data);
    assert!(timed.schemes[0].user.walk_percent.unwrap() > 1.0);
}

#[test]
fn two_cpus_come_in_their_turns() {
    if !emulator() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pair.sys");
    let mut options = options(assembled(directory.path(), "PAIR"), Some(file.clone()));
    options.guest.cpus = 2;
    options.model = model(CoreTiming::All);
    let report = run(&options, || false, |_| ()).unwrap();
    assert_eq!(report.recorder.mismatches, 0);
    let turns: Vec<u64> = report.events_by_cpu.iter().map(|cpu| cpu.turns).collect();
    // Each waits for the other twenty times, and one more turn tells of the end.
    assert!(turns.iter().all(|&turns| turns > 20), "{turns:?}");
    let last_level = &report.schemes[0].last_level;
    // The second CPU reads the first one's 64 lines, their page tables and the code.
    assert!(last_level[1].of_others >= 64 + 8, "{last_level:?}");

    let again = run(&options, || false, |_| ()).unwrap();
    let apart = ReplayedMachine {
        file: file.clone(),
        model: SystemModel {
            private_caches: true,
            ..model(CoreTiming::All)
        },
    };
    let shared = ReplayedMachine {
        file,
        model: model(CoreTiming::All),
    };
    let replayed = replay(&shared, || false, |_| ()).unwrap();
    for other in [again, replayed] {
        assert_eq!(other.digests, report.digests);
        assert_eq!(other.schemes, report.schemes);
        assert_eq!(other.events_by_cpu, report.events_by_cpu);
    }
    let apart = replay(&apart, || false, |_| ()).unwrap();
    let misses = |run: &SystemRun| run.schemes[0].last_level[1].misses;
    assert!(misses(&report) + 64 <= misses(&apart), "{last_level:?}");
}

#[test]
fn a_full_disk_is_told() {
    if !emulator() {
        return;
    }
    let error = ran("COUNTS", Some("/dev/full".into())).unwrap_err();
    let told = format!("{error:#}");
    assert!(told.contains("writing /dev/full: No space left"), "{told}");
}

#[test]
fn two_runs_do_the_same() {
    if !emulator() {
        return;
    }
    let runs = [(); 2].map(|()| ran("COUNTS", None).unwrap());
    assert_eq!(runs[0].digests, runs[1].digests);
    assert_eq!(runs[0].schemes, runs[1].schemes);
}

#[test]
fn what_cannot_be_followed_is_refused_by_name() {
    if !emulator() {
        return;
    }
    let refused = |what: &str| format!("{:#}", ran(what, None).unwrap_err());
    for (what, why) in [
        ("UNPAGED", "not in long mode"),
        ("VIRTUAL", "a virtual machine of its own"),
        ("SILENT", "without a marker"),
    ] {
        assert!(refused(what).contains(why), "{what}: {}", refused(what));
    }
}

/// The emulator refuses it before the guest is booted, and says which version it has.
#[test]
fn a_plugin_of_another_version_is_told() {
    if !emulator() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("other.c");
    let shown = r#"__attribute__((visibility("default"))) int"#;
    let text = format!(
        "{shown} qemu_plugin_version = 99; {shown} qemu_plugin_install(void) {{ return 0; }}"
    );
    std::fs::write(&source, text).unwrap();
    let other = directory.path().join("other.so");
    let built = Command::new("gcc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&other, &source])
        .status();
    assert!(built.unwrap().success());
    let mut options = options(assembled(directory.path(), "COUNTS"), None);
    options.guest.emulator = vec!["-plugin".into(), other.display().to_string()];
    let error = run(&options, || false, |_| ()).unwrap_err();
    assert!(format!("{error:#}").contains("API version 99"), "{error:#}");
}

#[test]
fn a_region_that_does_not_end_is_reported_at_the_end() {
    if !emulator() {
        return;
    }
    let report = ran("ENDLESS", None).unwrap();
    assert_eq!(report.regions, 1);
    assert!(report.schemes[0].user.counts.instructions > 0);
}

#[test]
fn a_guest_that_hangs_is_ended_at_its_limit() {
    if !emulator() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let kernel = directory.path().join("nothing");
    std::fs::write(&kernel, [0; 4096]).unwrap();
    let mut options = options(kernel.clone(), None);
    options.limit = Duration::from_secs(3);
    let error = run(&options, || false, |_| ()).unwrap_err();
    assert!(
        format!("{error:#}").contains("did not end within 3 s"),
        "{error:#}"
    );
    options.guest.kernel = directory.path().join("absent");
    let error = run(&options, || false, |_| ()).unwrap_err();
    assert!(
        format!("{error:#}").contains("there is no kernel"),
        "{error:#}"
    );
    options.guest.kernel = kernel;
    options.guest.cpus = 17;
    let error = run(&options, || false, |_| ()).unwrap_err();
    assert!(format!("{error:#}").contains("1 to 16"), "{error:#}");
}
