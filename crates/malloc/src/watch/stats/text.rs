// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics as a page of text.

use super::{Stats, classes};
use crate::heap::{HeapSizes, limit, pageheap};
use crate::os::numa;
use crate::os::vm::real;
use crate::units::{DENSITIES, HUGE_BYTES, NATIVE_BYTES, PAGE_BYTES};
use core::fmt::{self, Write};

fn line(out: &mut impl Write, bytes: usize, text: impl fmt::Display) -> fmt::Result {
    writeln!(
        out,
        "  {bytes:>16} ({:>9.1} MiB)  {text}",
        bytes as f64 / 1_048_576.0
    )
}

/// A percentage; 0 of nothing.
pub(super) fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 * 100.0 / whole as f64
    }
}

/// What the densities mean, in objects per span.
const OBJECTS: [&str; DENSITIES] = [
    "1-2 objects",
    "3-4 objects",
    "5-8 objects",
    "9-16 objects",
    "17 and more objects",
    "cold objects",
];

/// The page of text.
pub fn format_text(out: &mut impl Write, stats: &Stats) -> fmt::Result {
    let heap = &stats.heap;
    writeln!(out, "ample-malloc: bytes")?;
    for (bytes, text) in [
        (stats.in_use, "in use by the application"),
        (stats.page_heap_free, "free in the page heap"),
        (stats.in_central, "free in central lists and span tails"),
        (stats.in_transfer_caches, "free in transfer caches"),
        (stats.in_cpu_caches, "free in CPU caches"),
        (stats.metadata_used, "metadata"),
        (stats.backed + stats.metadata_used, "= backed memory"),
        (stats.reserved, "address space reserved"),
    ] {
        line(out, bytes, text)?;
    }
    for (bytes, text) in limit::bytes().into_iter().zip(["soft limit", "hard limit"]) {
        if bytes > 0 {
            line(out, bytes, text)?;
        }
    }
    let hugetlb = real::hugetlb_bytes();
    if hugetlb > 0 {
        line(out, hugetlb, "of that on HugeTLB pages")?;
    }
    if let Some(kernel) = stats.kernel {
        let (rss, huge) = (kernel.rss, kernel.anon_huge);
        line(out, rss, "resident, the whole process, by the kernel")?;
        let share = percent(huge, rss);
        writeln!(out, "  {huge:>16} ({share:>9.1} %)    of that on hugepages")?;
    }
    let kind = if stats.rseq {
        "restartable sequences"
    } else {
        "shared, with locks (no rseq)"
    };
    writeln!(out, "caches: {} in use, {kind}", stats.caches)?;
    writeln!(
        out,
        "  {} misses, {} overflows",
        stats.underflows, stats.overflows
    )?;
    let background = if stats.background {
        "background thread"
    } else {
        "on the slow path"
    };
    writeln!(out, "upkeep: {background}; spans: {}", stats.spans)?;
    format_nodes(out)?;
    format_filler(out, heap)?;
    format_rest(out, stats)?;
    classes::format_text(out, classes::in_use())
}

fn format_nodes(out: &mut impl Write) -> fmt::Result {
    if numa::nodes() == 1 {
        return Ok(());
    }
    let refused = numa::refused();
    writeln!(
        out,
        "NUMA: {} nodes, {refused} binds refused",
        numa::nodes()
    )?;
    for node in 0..numa::nodes() {
        let sizes = pageheap::sizes_of(node);
        line(out, sizes.used_pages * PAGE_BYTES, "used, of")?;
        let backed = sizes.backed_pages() * PAGE_BYTES;
        match numa::kernel_node(node) {
            Some(kernel) => line(out, backed, format_args!("backed on node {kernel}"))?,
            None => line(
                out,
                backed,
                format_args!("backed for pretended node {node}"),
            )?,
        }
    }
    Ok(())
}

fn format_filler(out: &mut impl Write, heap: &HeapSizes) -> fmt::Result {
    let filler = &heap.filler;
    let free = filler.free_backed_pages() * PAGE_BYTES;
    writeln!(out, "HugeFiller: {} hugepages", filler.hugepages)?;
    for (used, objects) in filler.used_pages.iter().zip(OBJECTS) {
        line(
            out,
            used * PAGE_BYTES,
            format_args!("used, spans of {objects}"),
        )?;
    }
    line(out, free, "free, backed")?;
    line(out, filler.released_pages * PAGE_BYTES, "free, released")?;
    let holes = filler.hole_natives * NATIVE_BYTES;
    line(out, holes, "released inside spans in use")?;
    let [d0, d1, d2, d3, d4, cold] = filler.regular;
    writeln!(
        out,
        "  hugepages: {d0} + {d1} + {d2} + {d3} + {d4} whole, {cold} cold, {} donated, {} partly \
         released, {} released",
        filler.donated, filler.partly_released, filler.released
    )?;
    writeln!(
        out,
        "  broken: {} hugepages, {:.1} % of used pages; {} native by the system",
        filler.broken_hugepages,
        percent(
            filler.broken_used_pages - filler.hole_pages(),
            filler.used() - filler.hole_pages()
        ),
        filler.native_hugepages
    )
}

fn format_rest(out: &mut impl Write, stats: &Stats) -> fmt::Result {
    let heap = &stats.heap;
    let cache = &heap.cache;
    writeln!(
        out,
        "HugeCache: {} hugepages of at most {}",
        heap.cache_hugepages, heap.cache_limit_hugepages
    )?;
    writeln!(
        out,
        "  {} hits, {} misses, {} hugepages overflowed, {} regretted",
        cache.hits, cache.misses, cache.overflow_hugepages, cache.regret_hugepages
    )?;
    writeln!(out, "HugeRegion: {} regions", heap.regions)?;
    line(out, heap.region_used_pages * PAGE_BYTES, "used")?;
    line(out, heap.region_backed_hugepages * HUGE_BYTES, "backed")?;
    writeln!(out, "Large spans")?;
    line(out, heap.large_pages * PAGE_BYTES, "on whole hugepages")?;
    let slack = heap.slack_pages * PAGE_BYTES;
    line(out, slack, "slack, donated to the filler")?;
    writeln!(
        out,
        "HugeAllocator: {} hugepages reserved, {} free, {} lost",
        heap.reserved_hugepages, heap.free_hugepages, heap.leaked_hugepages
    )?;
    writeln!(out, "Release")?;
    line(out, heap.released_bytes as usize, "given back so far")?;
    let broken = heap.subreleased_bytes as usize;
    line(out, broken, "of that by breaking hugepages")?;
    writeln!(
        out,
        "  {} hugepages rebuilt, {} attempts refused",
        heap.rebuilds.collapsed, heap.rebuilds.refused
    )?;
    writeln!(
        out,
        "  {} hugepages found to be native, {} of them rebuilt by the system",
        heap.rebuilds.found_native, heap.rebuilds.found_whole
    )?;
    let [waits, cut_short] = stats.collapse_waits;
    writeln!(out, "  {waits} waits for hugepages, {cut_short} cut short")
}
