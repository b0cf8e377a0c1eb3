// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running one workload under one policy, with samples of the metrics on the way; runs on a
//! server that another workload has worn in; the pages of a server at the end of a run.

use crate::config::{Config, PolicyKind};
use crate::counters::Counters;
use crate::psi::Stall;
use crate::server::{ServerError, ServerModel};
use crate::workload::{Driver, Workload};
use ample_pfn::{
    BASE_PAGE_BYTES, BlockTally, Coverage, Definition, GroupMetrics, Metrics, PageClass,
    PageSource, Pfn, RatioInterval,
};
use serde::Serialize;

/// The metrics that a curve over time is drawn from, at one moment. Ratios under definition O
/// unless the name says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Simulated seconds since boot.
    pub time_s: f64,
    /// Free memory, per-CPU lists included.
    pub free_bytes: u64,
    /// Unmovable 4 KB pages ÷ all pages.
    pub unmovable_page_ratio: f64,
    /// 2 MB blocks with an unmovable page ÷ all 2 MB blocks.
    pub unmovable_2m_ratio: f64,
    /// The same under definition K.
    pub unmovable_2m_ratio_k: f64,
    /// The same under definition P.
    pub unmovable_2m_ratio_p: f64,
    /// Memory in 2 MB blocks without an unmovable page.
    pub potential_2m_ratio: f64,
    /// Memory in 32 MB blocks without an unmovable page.
    pub potential_32m_ratio: f64,
    /// Memory in 1 GB blocks without an unmovable page.
    pub potential_1g_ratio: f64,
    /// Free pages in 2 MB blocks that hold an unmovable page ÷ pages of those blocks.
    pub internal_fragmentation_ratio: f64,
    /// Memory below the border; `None` without one.
    pub low_region_bytes: Option<u64>,
    /// Ten-second stall average for kernel memory, in basis points of time.
    pub pressure_unmovable_bp: u32,
    /// The same for user memory and page cache.
    pub pressure_movable_bp: u32,
}

/// What huge pages could be had at the end of the run: THP coverage while the workload runs, and
/// the HugeTLB pages that it obtains when it restarts there.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HugeResult {
    /// Anonymous memory in 2 MB pages ÷ all anonymous memory.
    pub thp_coverage_ratio: Option<f64>,
    /// 2 MB HugeTLB pages asked for.
    pub hugetlb_2m_wanted: u32,
    /// 2 MB HugeTLB pages obtained.
    pub hugetlb_2m_got: u32,
    /// 1 GB HugeTLB pages asked for.
    pub hugetlb_1g_wanted: u32,
    /// 1 GB HugeTLB pages obtained.
    pub hugetlb_1g_got: u32,
}

/// Everything one run gives.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// Workload name.
    pub workload: String,
    /// Policy under which the workload ran.
    pub policy: PolicyKind,
    /// Seed to repeat it with.
    pub seed: u64,
    /// Memory of the server.
    pub memory_bytes: u64,
    /// Simulated seconds.
    pub duration_s: f64,
    /// Samples, the first right after boot, the last at the end.
    pub samples: Vec<Sample>,
    /// All metrics at the end, before the huge-page demand.
    pub metrics: Metrics,
    /// Event counts at the end, before the huge-page demand.
    pub counters: Counters,
    /// Stall time of the whole run for kernel memory.
    pub stall_unmovable_ns: u64,
    /// Stall time of the whole run for user memory and page cache.
    pub stall_movable_ns: u64,
    /// Huge pages at the end.
    pub huge: HugeResult,
    /// First frame of the maps.
    #[serde(skip)]
    pub map_first: Pfn,
    /// 2 MB blocks right after boot.
    #[serde(skip)]
    pub map_before: Vec<BlockTally>,
    /// 2 MB blocks at the end, before the huge-page demand.
    #[serde(skip)]
    pub map_after: Vec<BlockTally>,
}

/// Runs `workload` on a fresh server for `duration_s` simulated seconds and samples every
/// `sample_every_s`. `progress` is told the share done, now and then.
///
/// # Errors
/// [`ServerError`] when the memory size is out of range.
pub fn run(
    config: &Config,
    workload: &Workload,
    duration_s: f64,
    sample_every_s: f64,
    progress: &dyn Fn(f64),
) -> Result<RunResult, ServerError> {
    let server = ServerModel::new(config)?;
    Ok(run_on(
        server,
        config,
        workload,
        duration_s,
        sample_every_s,
        progress,
    ))
}

/// As [`run`], on a server that already holds pages.
pub fn run_on(
    mut server: ServerModel,
    config: &Config,
    workload: &Workload,
    duration_s: f64,
    sample_every_s: f64,
    progress: &dyn Fn(f64),
) -> RunResult {
    let mut driver = Driver::new(&mut server, workload, config.event_ratio);
    let before = server.tallies();
    let (map_first, _, map_before) = before.blocks();
    let map_before = map_before.to_vec();
    let mut samples = vec![sample(&server, &before.total(&Coverage::exact()), 0.0)];
    let mut last = before;
    let seconds = duration_s.max(0.0).round() as u64;
    let every = (sample_every_s.max(1.0)).round() as u64;
    for second in 1..=seconds {
        driver.second(&mut server);
        if second % every == 0 || second == seconds {
            last = server.tallies();
            let total = last.total(&Coverage::exact());
            samples.push(sample(&server, &total, second as f64));
        }
        if second % 32 == 0 {
            progress(second as f64 / seconds as f64);
        }
    }
    // By node and zone only here: a sample is of the whole machine.
    let metrics = last.finish(&Coverage::exact());
    let map_after = last.blocks().2.to_vec();
    let counters = server.counters().clone();
    let [stall_unmovable_ns, stall_movable_ns] = server.pressure().total_ns;
    let thp_coverage_ratio = server.kernel.zone.thp_coverage();
    driver.stop_processes(&mut server);
    let huge = HugeResult {
        thp_coverage_ratio,
        ..hugetlb_demand(&mut server, workload)
    };
    progress(1.0);
    RunResult {
        workload: workload.name.clone(),
        policy: server.policy(),
        seed: config.seed,
        memory_bytes: metrics.total.memory_bytes,
        duration_s: seconds as f64,
        samples,
        metrics,
        counters,
        stall_unmovable_ns,
        stall_movable_ns,
        huge,
        map_first,
        map_before,
        map_after,
    }
}

/// Runs `duration_s` simulated seconds; `progress` is told the share done, now and then.
fn drive(server: &mut ServerModel, driver: &mut Driver, duration_s: f64, progress: &dyn Fn(f64)) {
    let seconds = duration_s.max(0.0).round() as u64;
    for second in 1..=seconds {
        driver.second(server);
        if second % 32 == 0 {
            progress(second as f64 / seconds as f64);
        }
    }
}

/// Runs `workload` on a fresh server and looks at it after each of `at_s` simulated seconds, given
/// in any order; the metrics are in the same order. A look changes nothing: each is what a run of
/// that length ends with. `progress` is told the share done, now and then.
///
/// # Errors
/// [`ServerError`] when the memory size is out of range.
pub fn looks(
    config: &Config,
    workload: &Workload,
    at_s: &[u64],
    progress: &dyn Fn(f64),
) -> Result<Vec<GroupMetrics>, ServerError> {
    let mut server = ServerModel::new(config)?;
    let mut driver = Driver::new(&mut server, workload, config.event_ratio);
    let mut order: Vec<usize> = (0..at_s.len()).collect();
    order.sort_by_key(|&index| at_s[index]);
    let end = order.last().map_or(0, |&index| at_s[index]);
    let mut found = vec![None; at_s.len()];
    let mut second = 0;
    for index in order {
        while second < at_s[index] {
            driver.second(&mut server);
            second += 1;
            if second % 32 == 0 {
                progress(second as f64 / end as f64);
            }
        }
        found[index] = Some(server.tallies().total(&Coverage::exact()));
    }
    progress(1.0);
    Ok(found.into_iter().flatten().collect())
}

/// Runs `workload` on a fresh server for `duration_s` simulated seconds and gives the use of each
/// frame, from the first frame of memory on. `progress` is told the share done, now and then.
///
/// # Errors
/// [`ServerError`] when the memory size is out of range.
pub fn pages_after(
    config: &Config,
    workload: &Workload,
    duration_s: f64,
    progress: &dyn Fn(f64),
) -> Result<Vec<PageClass>, ServerError> {
    let mut server = ServerModel::new(config)?;
    let mut driver = Driver::new(&mut server, workload, config.event_ratio);
    drive(&mut server, &mut driver, duration_s, progress);
    let mut pages = Vec::with_capacity(server.frames() as usize);
    let Ok(()) = server.for_each_chunk(&mut |_, classes| pages.extend_from_slice(classes));
    Ok(pages)
}

/// Runs `workload` for `duration_s` simulated seconds; `before`: another workload has run on the
/// server for so many seconds, its processes have ended, what the kernel keeps of it stays.
/// `progress` is told the share done of each of the two, now and then.
///
/// # Errors
/// [`ServerError`] when the memory size is out of range.
pub fn run_after(
    config: &Config,
    before: Option<(&Workload, f64)>,
    workload: &Workload,
    duration_s: f64,
    progress: &dyn Fn(f64),
) -> Result<RunResult, ServerError> {
    let mut server = ServerModel::new(config)?;
    if let Some((first, first_s)) = before {
        let mut driver = Driver::new(&mut server, first, config.event_ratio);
        drive(&mut server, &mut driver, first_s, progress);
        driver.stop_processes(&mut server);
    }
    let once = duration_s;
    Ok(run_on(server, config, workload, duration_s, once, progress))
}

fn high(ratio: RatioInterval) -> f64 {
    ratio.high.unwrap_or(0.0)
}

/// The metrics that samples are made of, under definition O unless indexed by definition.
pub(crate) struct Ratios {
    pub(crate) unmovable_page: f64,
    /// By [`Definition`].
    pub(crate) unmovable_2m: [f64; 3],
    pub(crate) potential_2m: f64,
    pub(crate) potential_32m: f64,
    pub(crate) potential_1g: f64,
    pub(crate) internal_fragmentation: f64,
}

impl Ratios {
    pub(crate) fn of(total: &GroupMetrics) -> Ratios {
        let of = |definition| total.definition(definition).unwrap_or(&total.k);
        let o = of(Definition::O);
        let at = |bytes: u64| o.sizes.iter().find(|size| size.size_bytes == bytes);
        let potential = |bytes| at(bytes).map_or(0.0, |size| high(size.potential_ratio));
        let unmovable = |definition: Definition| {
            let smallest = of(definition).sizes.first();
            smallest.map_or(0.0, |size| high(size.unmovable_ratio))
        };
        Ratios {
            unmovable_page: high(o.unmovable_page_ratio),
            unmovable_2m: Definition::ALL.map(unmovable),
            potential_2m: potential(2 << 20),
            potential_32m: potential(32 << 20),
            potential_1g: potential(1 << 30),
            internal_fragmentation: high(o.internal_fragmentation_ratio),
        }
    }
}

/// A sample of a server whose present metrics are `total`.
pub(crate) fn sample(server: &ServerModel, total: &GroupMetrics, time_s: f64) -> Sample {
    let ratios = Ratios::of(total);
    let [k, p, o] = ratios.unmovable_2m;
    Sample {
        time_s,
        free_bytes: total.free_bytes,
        unmovable_page_ratio: ratios.unmovable_page,
        unmovable_2m_ratio: o,
        unmovable_2m_ratio_k: k,
        unmovable_2m_ratio_p: p,
        potential_2m_ratio: ratios.potential_2m,
        potential_32m_ratio: ratios.potential_32m,
        potential_1g_ratio: ratios.potential_1g,
        internal_fragmentation_ratio: ratios.internal_fragmentation,
        low_region_bytes: server.border_pages().map(|pages| pages * BASE_PAGE_BYTES),
        pressure_unmovable_bp: server.pressure().pressure_bp(Stall::Unmovable, false),
        pressure_movable_bp: server.pressure().pressure_bp(Stall::Movable, false),
    }
}

/// The workload, restarting on the machine as it is now, asks for its HugeTLB pages.
fn hugetlb_demand(server: &mut ServerModel, workload: &Workload) -> HugeResult {
    let frames = f64::from(server.frames());
    let wanted = &workload.huge;
    let (two_m, one_g) = (server.new_pool(), server.new_pool());
    let hugetlb_1g_wanted = (wanted.hugetlb_1g_ratio * frames / f64::from(1 << 18)).round() as u32;
    let hugetlb_2m_wanted = (wanted.hugetlb_2m_ratio * frames / 512.0).round() as u32;
    let hugetlb_1g_got = server.hugetlb_1g(one_g, hugetlb_1g_wanted);
    let hugetlb_2m_got = server.hugetlb_2m(two_m, hugetlb_2m_wanted);
    HugeResult {
        thp_coverage_ratio: None,
        hugetlb_2m_wanted,
        hugetlb_2m_got,
        hugetlb_1g_wanted,
        hugetlb_1g_got,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyKind;

    #[test]
    fn what_a_fragmenter_pins_stays_after_it() {
        let config = Config {
            memory_bytes: 512 << 20,
            ..Config::new(PolicyKind::Linux)
        };
        let load = |name: &str| Workload::load(name).unwrap();
        let (web, fragmenter) = (load("web"), load("fragmenter-full"));
        let fresh = run_after(&config, None, &web, 60.0, &|_| {}).unwrap();
        let worn = run_after(&config, Some((&fragmenter, 600.0)), &web, 60.0, &|_| {}).unwrap();
        let unmovable = |run: &RunResult| run.samples[0].unmovable_2m_ratio;
        let (worn, fresh) = (unmovable(&worn), unmovable(&fresh));
        assert!(worn > 2.0 * fresh, "{worn} and {fresh}");
    }

    #[test]
    fn every_frame_is_there_and_the_same_seed_gives_the_same_pages() {
        let config = Config {
            memory_bytes: 256 << 20,
            ..Config::new(PolicyKind::Linux)
        };
        let workload = Workload::load("web").unwrap();
        let pages = pages_after(&config, &workload, 60.0, &|_| {}).unwrap();
        assert_eq!(pages.len(), 65_536);
        assert!(pages.contains(&PageClass::Anon) && pages.contains(&PageClass::Network));
        assert_eq!(
            pages_after(&config, &workload, 60.0, &|_| {}).unwrap(),
            pages
        );
    }
}
