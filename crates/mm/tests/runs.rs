// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole runs: determinism, workload files and their errors, starting from a snapshot.

use ample_mm::workload::shipped_workloads;
use ample_mm::{
    AllocRequest, Config, HwClasses, Marks, PolicyKind, RunResult, ServerError, ServerModel,
    Workload, run,
};
use ample_pfn::{Layout, PageClass, Pfn};

#[test]
fn shipped_workloads_run_under_every_policy_and_stay_consistent() {
    for name in shipped_workloads() {
        let workload = Workload::load(name).expect("a shipped workload");
        assert_eq!(workload.name, name);
        for kind in PolicyKind::ALL {
            let mut config = Config::new(kind);
            config.memory_bytes = 256 << 20;
            let result = run(&config, &workload, 400.0, 200.0, &|_| {}).expect("a server");
            assert_eq!(result.samples.len(), 3, "{name} {}", kind.name());
            assert_eq!(result.metrics.total.memory_bytes, 256 << 20);
            if kind.confines() {
                let last = &result.samples[2];
                let low = last.low_region_bytes.expect("a border") as f64;
                assert!(last.unmovable_2m_ratio <= low / f64::from(256 << 20) + 1e-9);
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_run_and_another_seed_another() {
    let workload = Workload::load("web").expect("shipped");
    let with = |seed| {
        let mut config = Config::new(PolicyKind::Linux);
        config.memory_bytes = 256 << 20;
        config.seed = seed;
        let result = run(&config, &workload, 300.0, 100.0, &|_| {}).expect("a server");
        serde_json::to_string(&result).expect("JSON")
    };
    assert_eq!(with(7), with(7));
    assert_ne!(with(7), with(8));
}

/// The page cache is as short of memory whether a border keeps the free pages of the kernel from
/// it or not, and refaults are booked all the same.
#[test]
fn free_pages_below_a_border_do_not_hide_refaults() {
    let workload = Workload::load("thrash").expect("shipped");
    let refaults = |kind| {
        let mut config = Config::new(kind);
        config.memory_bytes = 512 << 20;
        let result = run(&config, &workload, 1800.0, 900.0, &|_| {}).expect("a server");
        result.counters.refaults as f64
    };
    let linux = refaults(PolicyKind::Linux);
    assert!(linux > 100_000.0, "{linux} refaults");
    for kind in [PolicyKind::Static, PolicyKind::Contiguitas] {
        let ratio = refaults(kind) / linux;
        assert!((0.8..1.3).contains(&ratio), "{}: {ratio}", kind.name());
    }
}

/// Kernel memory that grows while page cache is read needs whole blocks that are free, or nearly.
/// With the reserve that Linux has on a small machine reclaim and compaction keep some; with 0.1 %
/// of it, two of them hold all that is free, and pages are taken one by one from blocks of cache.
#[test]
fn the_reserve_of_a_small_machine_keeps_growing_kernel_memory_together() {
    let text = "name = \"x\"\ntitle = \"x\"\n[[kernel]]\nname = \"n\"\nclass = \"slab\"\n\
                level_ratio = 0.2\ngrow_s = 600\n[cache]\nboot_ratio = 0.9\nread_per_hour = 45\n";
    let workload = Workload::parse(text, "w.toml").expect("valid");
    let grown = |marks| {
        let config = Config {
            memory_bytes: 1 << 30,
            marks,
            ..Config::new(PolicyKind::Linux)
        };
        run(&config, &workload, 600.0, 600.0, &|_| {}).expect("a server")
    };
    let ratio = |run: &RunResult| run.samples.last().expect("a sample").unmovable_2m_ratio;
    let scaled = grown(None);
    let guest = grown(Some(Marks {
        min: 5632,
        low: 7040,
        high: 8448,
    }));
    assert_eq!(guest.counters.pages_stolen, 0);
    assert!((0.19..0.22).contains(&ratio(&guest)), "{}", ratio(&guest));
    assert!(scaled.counters.pages_stolen > 1000);
    assert!(ratio(&scaled) > 2.0 * ratio(&guest), "{}", ratio(&scaled));
}

#[test]
fn wrong_workloads_name_file_line_and_field() {
    let head = "name = \"x\"\ntitle = \"x\"\n[[kernel]]\nname = \"n\"\n";
    let cases = r#"
class = "anon"; level_ratio = 0.1 => w.toml:5: kernel.class: must be a kernel page
class = "slab"; level_ratio = 1.5 => w.toml:6: kernel.level_ratio: must be a share
class = "slab"; level_ratio = -1 => w.toml:6: kernel.level_ratio: must be a share
class = "slab"; level_ratio = nan => w.toml:6: kernel.level_ratio: must be a share
class = "slab"; level = 0.1 => w.toml:6: unknown field `level`
class = "slab" => w.toml:3: missing field `level_ratio`
class = "slab"; level_ratio = 0.1; order = 11 => w.toml:7: kernel.order: must be
class = "network"; level_ratio = 0.1; single_page_fallback = true => w.toml:7: kernel.single_page
class = "slab; level_ratio = 0.1 => w.toml:5:
class = "slab"; level_ratio = 0.99 => w.toml:1: process.memory_ratio: all levels"#;
    for (tail, message) in cases.lines().filter_map(|case| case.split_once(" => ")) {
        let tail = tail.replace("; ", "\n") + "\n";
        let text = format!("{head}{tail}");
        let error = Workload::parse(&text, "w.toml")
            .expect_err(&tail)
            .to_string();
        assert!(error.starts_with(message), "{error}\nexpected {message}");
    }
    let error = Workload::load("wbe")
        .expect_err("no such workload")
        .to_string();
    assert!(error.contains("shipped are web, cache-a"), "{error}");
    let error = Workload::load("./no/such.toml")
        .expect_err("no file")
        .to_string();
    assert!(error.starts_with("./no/such.toml: "), "{error}");
}

#[test]
fn impossible_machines_are_refused() {
    let mut config = Config::new(PolicyKind::Linux);
    config.memory_bytes = 1 << 20;
    assert!(matches!(
        ServerModel::new(&config),
        Err(ServerError::TooSmall { .. })
    ));
    config.memory_bytes = 1 << 50;
    assert!(matches!(
        ServerModel::new(&config),
        Err(ServerError::TooLarge { .. })
    ));
    let layout = Layout::single(Pfn(0), 32768);
    let wrong = ServerModel::from_pages(&config, &layout, &[PageClass::Free; 5]);
    assert!(matches!(
        wrong,
        Err(ServerError::WrongLength { given: 5, .. })
    ));
}

/// A machine with a hole, firmware, kernel memory all over and page cache.
fn snapshot() -> (Layout, Vec<PageClass>) {
    let layout = Layout::single(Pfn(1), 131_071);
    let classes = (1..131_072u32).map(|pfn| match (pfn / 512, pfn % 512) {
        (100..110, _) => PageClass::Hole,
        (0, 0..160) => PageClass::Reserved,
        (_, 7) => PageClass::Network,
        (_, 8..100) => PageClass::Anon,
        (_, 100..=299) => PageClass::File,
        (0..8, _) => PageClass::Slab,
        (_, 301) => PageClass::FreePcp,
        _ => PageClass::Free,
    });
    (layout, classes.collect())
}

#[test]
fn a_snapshot_keeps_its_pages_under_every_policy() {
    let (layout, classes) = snapshot();
    let count = |class| classes.iter().filter(|c| **c == class).count() as u64;
    for kind in PolicyKind::ALL {
        let server =
            ServerModel::from_pages(&Config::new(kind), &layout, &classes).expect("a server");
        server
            .check()
            .unwrap_or_else(|why| panic!("{}: {why}", kind.name()));
        let metrics = server.metrics();
        for class in [
            PageClass::Network,
            PageClass::Anon,
            PageClass::File,
            PageClass::Slab,
        ] {
            let pages = metrics.total.class_pages.get(class.name()).copied();
            assert_eq!(
                pages,
                Some(count(class)),
                "{} {}",
                kind.name(),
                class.name()
            );
        }
        if kind == PolicyKind::Linux {
            let o = metrics.total.o.expect("owners are known");
            // Every block but the hole's ten holds a network page.
            assert_eq!(o.sizes[0].unmovable_blocks.high, 246);
        }
    }
}

/// 20 blocks of kernel memory, each half full, below 236 of user memory.
fn apart(strays: u32) -> Vec<PageClass> {
    let class = |pfn: u32| match (pfn / 512, pfn % 512) {
        (0..20, 0..256) => PageClass::Slab,
        (0..20, 300) => PageClass::File,
        (100, in_block) if in_block < strays => PageClass::Network,
        (20.., 0..300) => PageClass::Anon,
        _ => PageClass::Free,
    };
    (1..131_072).map(class).collect()
}

#[test]
fn kernel_memory_that_is_apart_already_stays_where_it_is_under_contiguitas() {
    let layout = Layout::single(Pfn(1), 131_071);
    let spoiled = |kind, strays| {
        let server = ServerModel::from_pages(&Config::new(kind), &layout, &apart(strays)).unwrap();
        server.check().unwrap();
        let o = server.metrics().total.o.expect("owners are known");
        o.sizes[0].unmovable_blocks.high
    };
    for kind in [PolicyKind::Contiguitas, PolicyKind::ContiguitasHw] {
        assert_eq!(spoiled(kind, 0), 20);
        // One page in the middle of memory: it was not apart, and is placed anew.
        assert!(spoiled(kind, 1) < 15);
    }
}

/// Pages that the hardware moved in a region of one class that was thinned out, for each set of
/// classes.
fn moved_by_hardware(class: PageClass) -> [u64; 4] {
    HwClasses::ALL.map(|hw_classes| {
        let mut config = Config::new(PolicyKind::ContiguitasHw);
        config.memory_bytes = 256 << 20;
        config.policy.hw_classes = hw_classes;
        let mut server = ServerModel::new(&config).expect("a valid configuration");
        let pool = server.new_pool();
        server.allocate(pool, &AllocRequest::new(class), 12_000, 0);
        // Few are left everywhere: the server releases at random.
        server.release(pool, 10_000, 0);
        for _ in 0..20 {
            server.tick(1_000_000_000);
        }
        server.check().expect("a consistent server");
        server.counters().hw_migrated_pages
    })
}

#[test]
fn hardware_moves_the_classes_that_it_is_given_and_no_other() {
    for (class, first) in [
        (PageClass::Network, 0),
        (PageClass::PageTable, 1),
        (PageClass::Slab, 2),
        (PageClass::SlabReclaimable, 2),
        (PageClass::KernelStack, 3),
    ] {
        let moved = moved_by_hardware(class);
        for (set, &pages) in moved.iter().enumerate() {
            assert_eq!(pages > 0, set >= first, "{class:?}: {moved:?}");
        }
    }
}

#[test]
fn a_policy_without_classes_moves_all() {
    let policy = Config::new(PolicyKind::ContiguitasHw).policy;
    let mut json = serde_json::to_value(&policy).expect("JSON");
    json.as_object_mut().expect("fields").remove("hw_classes");
    let read: ample_mm::PolicyConfig = serde_json::from_value(json).expect("a policy");
    assert_eq!(read.hw_classes, HwClasses::All);
}

/// A run of half an hour on 512 MB of a shipped workload.
fn half_an_hour(name: &str, change: impl FnOnce(&mut Config)) -> ample_mm::RunResult {
    let mut config = Config::new(PolicyKind::Contiguitas);
    config.memory_bytes = 512 << 20;
    change(&mut config);
    let workload = Workload::load(name).expect("shipped");
    run(&config, &workload, 1800.0, 900.0, &|_| {}).expect("a server")
}

/// Services that pin a fifth of memory when they start hold it below the border.
#[test]
fn what_a_service_pins_at_its_start_lies_below_the_border() {
    let pinned = half_an_hour("pinning", |_| ());
    let pages = (512u64 << 20 >> 12) as f64;
    let held = pinned.metrics.total.class_pages["pinned"] as f64 / pages;
    assert!((0.15..=0.21).contains(&held), "{held}");
    assert_eq!(pinned.counters.pin_migrations, pinned.counters.long_pins);
    let low = pinned
        .samples
        .last()
        .and_then(|s| s.low_region_bytes)
        .expect("a border");
    assert!(low as f64 > 0.2 * f64::from(512 << 20), "{low}");
}

/// A full server swaps, and what it swaps comes back; nobody is killed.
#[test]
fn a_full_server_swaps_out_and_in() {
    let swapping = half_an_hour("swapping", |_| ());
    let (out, back) = (
        swapping.counters.swapped_pages,
        swapping.counters.swapped_in_pages,
    );
    assert!(back > 1000 && out >= back, "{out} out, {back} back");
    assert_eq!(swapping.counters.oom_kills, 0);
}

/// With storage that is too slow, reclaim meets dirty pages and leaves them.
#[test]
fn dirty_pages_are_passed_by() {
    let writing = half_an_hour("writing", |_| ());
    assert!(writing.counters.dirty_passed_pages > 1000);
    let clean = half_an_hour("web", |_| ());
    assert_eq!(clean.counters.dirty_passed_pages, 0);
}
