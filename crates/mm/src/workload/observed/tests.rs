// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::{Config, PolicyKind, ServerModel, run_on};
use ample_pfn::{Layout, Pfn};
use ample_trace::pages::{Gfp, Task};

const MEMORY: u64 = 1 << 18;

fn request(gfp: Gfp, order: u8, migratetype: u8) -> StreamOrigin {
    StreamOrigin::Request(Traced {
        order,
        migratetype,
        gfp,
        task: Task::Other,
    })
}

/// 1 GB: an eighth user memory, an eighth page cache, a sixteenth kernel memory.
fn before() -> [u64; CLASS_COUNT] {
    let mut pages = [0; CLASS_COUNT];
    pages[PageClass::Anon as usize] = MEMORY / 8;
    pages[PageClass::File as usize] = MEMORY / 8;
    pages[PageClass::KernelOther as usize] = MEMORY / 32;
    pages[PageClass::Slab as usize] = MEMORY / 32;
    pages[PageClass::Free as usize] = MEMORY - 5 * MEMORY / 16;
    pages
}

fn quiet(seconds: f64) -> Observed {
    Observed {
        seconds,
        before_pages: before(),
        streams: Vec::new(),
        kernel_change_pages: vec![0.0; seconds as usize],
    }
}

#[test]
fn a_quiet_machine_stays_as_it_is() {
    let workload = quiet(600.0).fit("host");
    assert!(workload.continues);
    assert_eq!(workload.kernel.len(), 2, "{:?}", workload.kernel);
    assert_eq!(workload.kernel[0].level_ratio, 1.0 / 16.0);
    assert_eq!(workload.kernel[0].churn_per_hour, 0.0);
    assert_eq!(workload.kernel[0].trend_per_hour, 0.0);
    assert_eq!(workload.process[0].memory_ratio, 0.125);
    assert_eq!(workload.cache.read_per_hour, 0.0);
    // What is printed is read back as it was.
    let text = toml::to_string(&workload).unwrap();
    assert_eq!(Workload::parse(&text, "host.toml").unwrap(), workload);
}

#[test]
fn littles_law_gives_the_level_of_what_passes_by() {
    let mut observed = quiet(600.0);
    let mut lifetimes = [0; 32];
    // 100 pages a second live between 4 and 8 seconds.
    lifetimes[13] = 60_000;
    // And far more than that live for less than a second.
    lifetimes[3] = 10_000_000;
    observed.streams.push(PageStream {
        origin: request(Gfp::DIRECT_RECLAIM, 0, 0),
        allocated_pages: 10_060_000,
        freed_pages: 10_060_000,
        lifetimes_pages: lifetimes,
    });
    let workload = observed.fit("host");
    let passing = &workload.kernel[1];
    assert!(passing.name.contains("passes by"), "{passing:?}");
    let pages = passing.level_ratio * MEMORY as f64;
    // 8192 × 0.75 ms is 6.144 s.
    assert!((pages - 614.4).abs() < 0.1, "{pages}");
    assert!((passing.churn_per_hour - 3600.0 / 6.144).abs() < 0.1);
    // What was there already is less by what passes.
    let staying = workload.kernel[0].level_ratio * MEMORY as f64;
    assert!((staying + pages - MEMORY as f64 / 16.0).abs() < 1e-6);
}

#[test]
fn a_trend_must_rise_above_its_scatter_and_bursts_have_height_and_length() {
    let mut observed = quiet(600.0);
    let noise = |at: usize| if at.is_multiple_of(2) { 3.0 } else { -3.0 };
    observed.kernel_change_pages = (0..600).map(|at| at as f64 * 2.0 + noise(at)).collect();
    let growing = observed.fit("host").kernel[0].clone();
    let pages_per_hour = growing.trend_per_hour * MEMORY as f64;
    assert!((pages_per_hour - 7200.0).abs() < 1.0, "{pages_per_hour}");
    // Four bursts of a thousand pages, ten seconds each.
    let burst = |at: usize| if at % 150 > 140 { 1000.0 } else { 0.0 };
    observed.kernel_change_pages = (0..600).map(burst).collect();
    let bursts = observed.fit("host").kernel[0].clone();
    assert_eq!(bursts.trend_per_hour, 0.0);
    assert_eq!(bursts.burst_every_s, 150.0);
    let height = bursts.burst_ratio * MEMORY as f64;
    assert!((900.0..1000.0).contains(&height), "{height}");
    assert!((8.0..=10.0).contains(&bursts.burst_s), "{bursts:?}");
}

#[test]
fn cache_that_is_freed_while_memory_is_full_was_reclaimed() {
    let mut observed = quiet(3600.0);
    observed.streams.push(PageStream {
        origin: request(Gfp::HIGHMEM.and(Gfp::NORETRY), 0, 1),
        allocated_pages: MEMORY,
        freed_pages: MEMORY + MEMORY / 64,
        lifetimes_pages: [0; 32],
    });
    let with_room = observed.fit("host").cache;
    assert_eq!(
        (with_room.read_per_hour, with_room.drop_per_hour > 1.0),
        (1.0, true)
    );
    observed.before_pages[PageClass::Free as usize] = MEMORY / 64;
    let full = observed.fit("host").cache;
    let ratio = full.drop_per_hour / full.read_per_hour;
    assert!((ratio - 1.0 / 64.0).abs() < 1e-9, "{full:?}");
    // The kernel took as much: nothing was deleted.
    observed.streams.push(PageStream {
        origin: request(Gfp::default(), 0, 0),
        allocated_pages: MEMORY / 64,
        freed_pages: 0,
        lifetimes_pages: [0; 32],
    });
    assert_eq!(observed.fit("host").cache.drop_per_hour, 0.0);
}

/// The pages of `before()`, in that order.
fn pages() -> Vec<PageClass> {
    let mut pages = Vec::new();
    for class in PageClass::all() {
        let count = before()[class as usize] as usize;
        pages.extend(std::iter::repeat_n(class, count));
    }
    pages
}

#[test]
fn the_pages_of_a_snapshot_are_the_loads_own() {
    let layout = Layout::single(Pfn(0), MEMORY);
    for policy in [PolicyKind::Linux, PolicyKind::Contiguitas] {
        let config = Config::new(policy);
        let run = |workload: &Workload| {
            let server = ServerModel::from_pages(&config, &layout, &pages()).unwrap();
            run_on(server, &config, workload, 120.0, 60.0, &|_| {})
        };
        let still = run(&quiet(600.0).fit("host"));
        let share = |run: &crate::RunResult| run.samples.last().unwrap().unmovable_page_ratio;
        // Page tables for the user memory come on top: 68 pages.
        assert!(
            (share(&still) - 1.0 / 16.0).abs() < 0.001,
            "{}",
            share(&still)
        );
        let mut halved = quiet(600.0).fit("host");
        halved.kernel[0].level_ratio /= 2.0;
        let halved = run(&halved);
        assert!(
            (share(&halved) - 1.0 / 32.0).abs() < 0.001,
            "{}",
            share(&halved)
        );
    }
}
