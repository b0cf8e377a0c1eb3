// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics as one JSON object, and as OpenMetrics.

use super::{SCHEMA, Stats, classes};
use crate::heap::{limit, pageheap};
use crate::os::numa;
use crate::os::vm::real;
use crate::units::{Density, HUGE_BYTES, NATIVE_BYTES, PAGE_BYTES};
use core::fmt::{self, Write};

/// The numbers of the object that do not depend on the machine, by name.
fn numbers(stats: &Stats) -> [(&'static str, usize); 51] {
    let heap = &stats.heap;
    let (filler, rebuilds) = (&heap.filler, &heap.rebuilds);
    let used = |density: Density| filler.used_pages[density.index()] * PAGE_BYTES;
    let broken = filler.broken_used_pages * PAGE_BYTES;
    let free_backed = filler.free_backed_pages() * PAGE_BYTES;
    [
        ("in_use_bytes", stats.in_use),
        ("page_heap_free_bytes", stats.page_heap_free),
        ("central_free_bytes", stats.in_central),
        ("transfer_free_bytes", stats.in_transfer_caches),
        ("cpu_cache_free_bytes", stats.in_cpu_caches),
        ("metadata_bytes", stats.metadata_used),
        ("metadata_mapped_bytes", stats.metadata_mapped),
        ("backed_bytes", stats.backed),
        ("reserved_bytes", stats.reserved),
        ("soft_limit_bytes", limit::bytes()[0]),
        ("limit_bytes", limit::bytes()[1]),
        ("limit_refused", limit::refused() as usize),
        ("hugetlb_bytes", real::hugetlb_bytes()),
        ("guarded_objects", crate::watch::guarded::count()),
        ("spans", stats.spans),
        ("caches", stats.caches),
        ("cache_underflows", stats.underflows as usize),
        ("cache_overflows", stats.overflows as usize),
        ("filler_hugepages", filler.hugepages),
        ("filler_used_bytes", filler.used() * PAGE_BYTES),
        ("filler_used_sparsest_bytes", used(Density::SPARSE)),
        ("filler_used_densest_bytes", used(Density::DENSE)),
        ("filler_used_cold_bytes", used(Density::COLD)),
        ("filler_free_backed_bytes", free_backed),
        ("filler_released_bytes", filler.released_pages * PAGE_BYTES),
        ("filler_hole_bytes", filler.hole_natives * NATIVE_BYTES),
        ("filler_broken_hugepages", filler.broken_hugepages),
        ("filler_broken_used_bytes", broken),
        ("hugecache_hugepages", heap.cache_hugepages),
        ("hugecache_limit_hugepages", heap.cache_limit_hugepages),
        ("hugecache_hits", heap.cache.hits as usize),
        ("hugecache_misses", heap.cache.misses as usize),
        (
            "hugecache_overflow_hugepages",
            heap.cache.overflow_hugepages as usize,
        ),
        (
            "hugecache_regret_hugepages",
            heap.cache.regret_hugepages as usize,
        ),
        ("regions", heap.regions),
        ("region_used_bytes", heap.region_used_pages * PAGE_BYTES),
        (
            "region_backed_bytes",
            heap.region_backed_hugepages * HUGE_BYTES,
        ),
        ("large_bytes", heap.large_pages * PAGE_BYTES),
        ("slack_bytes", heap.slack_pages * PAGE_BYTES),
        ("free_address_hugepages", heap.free_hugepages),
        ("released_bytes", heap.released_bytes as usize),
        ("subreleased_bytes", heap.subreleased_bytes as usize),
        ("native_hugepages", filler.native_hugepages),
        ("found_native_hugepages", rebuilds.found_native as usize),
        ("found_whole_hugepages", rebuilds.found_whole as usize),
        ("collapsed_hugepages", rebuilds.collapsed as usize),
        ("collapse_refused", rebuilds.refused as usize),
        ("collapse_waits", stats.collapse_waits[0] as usize),
        ("collapse_waits_cut_short", stats.collapse_waits[1] as usize),
        ("numa_nodes", numa::nodes()),
        ("numa_refused_binds", numa::refused() as usize),
    ]
}

/// The JSON object.
pub fn format_json(out: &mut impl Write, stats: &Stats) -> fmt::Result {
    write!(out, "{{\"schema\":\"{SCHEMA}\"")?;
    for (name, value) in numbers(stats) {
        write!(out, ",\"{name}\":{value}")?;
    }
    json_nodes(out)?;
    classes::format_json(out, classes::in_use())?;
    let mut number = |name: &str, value: usize| write!(out, ",\"{name}\":{value}");
    match stats.kernel {
        Some(kernel) => {
            number("rss_bytes", kernel.rss)?;
            number("anon_huge_bytes", kernel.anon_huge)?;
        }
        None => write!(out, ",\"rss_bytes\":null,\"anon_huge_bytes\":null")?,
    }
    let caches = if stats.rseq { "rseq" } else { "shared" };
    let upkeep = if stats.background {
        "thread"
    } else {
        "slow path"
    };
    writeln!(
        out,
        ",\"cache_kind\":\"{caches}\",\"upkeep\":\"{upkeep}\"}}"
    )
}

/// OpenMetrics 1.0: a line for each number, of unknown type, and an end.
pub fn format_metrics(out: &mut impl Write, stats: &Stats) -> fmt::Result {
    let kernel = stats.kernel.into_iter().flat_map(|kernel| {
        [
            ("rss_bytes", kernel.rss),
            ("anon_huge_bytes", kernel.anon_huge),
        ]
    });
    for (name, value) in numbers(stats).into_iter().chain(kernel) {
        writeln!(out, "ample_malloc_{name} {value}")?;
    }
    writeln!(out, "# EOF")
}

/// What each node's heap has in use and backed, where there are several.
fn json_nodes(out: &mut impl Write) -> fmt::Result {
    let several = if numa::nodes() > 1 { numa::nodes() } else { 0 };
    for node in 0..several {
        let sizes = pageheap::sizes_of(node);
        let (used, backed) = (sizes.used_pages, sizes.backed_pages());
        write!(out, ",\"numa_node{node}_used_bytes\":{}", used * PAGE_BYTES)?;
        write!(
            out,
            ",\"numa_node{node}_backed_bytes\":{}",
            backed * PAGE_BYTES
        )?;
    }
    Ok(())
}
