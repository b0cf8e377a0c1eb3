// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics: one page of text, or one JSON object, written without allocating.
//!
//! Every figure is read under the lock of the part it belongs to, so parts are consistent in
//! themselves and nearly so with each other.

pub mod classes;

use crate::heap::HeapSizes;
use crate::report::write_all;
use crate::units::{DENSITIES, HUGE_BYTES, PAGE_BYTES};
use crate::vm::real;
use crate::{cache, central, meta, numa, pageheap, size_class, span};
use core::fmt::{self, Write};

/// The version of the JSON object.
pub const SCHEMA: &str = "ample.malloc-stats/1";

/// A buffered file descriptor.
pub struct Out {
    fd: i32,
    len: usize,
    bytes: [u8; 4096],
}

impl Out {
    /// Writes to `fd`.
    pub const fn new(fd: i32) -> Self {
        Out {
            fd,
            len: 0,
            bytes: [0; 4096],
        }
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) {
        write_all(self.fd, &self.bytes[..self.len]);
        self.len = 0;
    }
}

impl Write for Out {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            if self.len == self.bytes.len() {
                self.flush();
            }
            let len = rest.len().min(self.bytes.len() - self.len);
            self.bytes[self.len..self.len + len].copy_from_slice(&rest[..len]);
            self.len += len;
            rest = &rest[len..];
        }
        Ok(())
    }
}

/// Everything that is reported, in bytes unless the name says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Live objects, rounded up to their classes or pages.
    pub in_use: usize,
    /// Free objects in per-CPU (or shared) caches.
    pub in_cpu_caches: usize,
    /// Free objects in transfer caches.
    pub in_transfer_caches: usize,
    /// Free objects in spans, and the tails of spans that hold no object.
    pub in_central: usize,
    /// Pages free and backed in the page heap.
    pub page_heap_free: usize,
    /// Memory that the page heap believes to be backed.
    pub backed: usize,
    /// Metadata used and mapped.
    pub metadata_used: usize,
    /// See `metadata_used`.
    pub metadata_mapped: usize,
    /// Address space reserved.
    pub reserved: usize,
    /// Misses of the per-CPU caches.
    pub underflows: u64,
    /// Frees that found a full cache.
    pub overflows: u64,
    /// Caches in use.
    pub caches: usize,
    /// Spans.
    pub spans: usize,
    /// Whether per-CPU caches work by restartable sequences.
    pub rseq: bool,
    /// Whether a background thread runs.
    pub background: bool,
    /// The page heap's parts.
    pub heap: HeapSizes,
    /// The kernel's view of this process, if it shows it: RSS and transparent hugepages.
    pub kernel: Option<Kernel>,
}

/// What `/proc/self/smaps_rollup` says, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Resident memory of the process.
    pub rss: usize,
    /// Anonymous transparent hugepages.
    pub anon_huge: usize,
}

/// Bytes of live objects, rounded to their classes.
pub fn bytes_in_use() -> usize {
    Stats::read(false).in_use
}

impl Stats {
    /// Reads all parts; the kernel's view costs a walk of the page tables.
    pub fn read(with_kernel: bool) -> Stats {
        let heap = pageheap::sizes();
        let mut stats = Stats {
            heap,
            rseq: cache::uses_rseq(),
            ..Stats::default()
        };
        for class in 1..size_class::CLASSES {
            let sizes = central::sizes(class);
            let info = &size_class::TABLE[class];
            let span_bytes = usize::from(info.pages) * PAGE_BYTES;
            let tail = span_bytes - usize::from(info.objects) * info.bytes as usize;
            stats.in_central += sizes.free_objects * info.bytes as usize + sizes.spans * tail;
            stats.in_transfer_caches += sizes.transfer_objects * info.bytes as usize;
        }
        cache::for_each_sizes(|slab| {
            stats.in_cpu_caches += slab.bytes;
            stats.underflows += slab.underflows;
            stats.overflows += slab.overflows;
            stats.caches += 1;
        });
        let used = heap.used_pages * PAGE_BYTES;
        let free = stats.in_central + stats.in_transfer_caches + stats.in_cpu_caches;
        stats.in_use = used.saturating_sub(free);
        stats.backed = heap.backed_pages() * PAGE_BYTES;
        stats.page_heap_free = stats.backed.saturating_sub(used);
        (stats.metadata_used, stats.metadata_mapped) = meta::usage_bytes();
        stats.reserved = real::reserved_bytes();
        stats.spans = span::live();
        stats.background = crate::upkeep::has_background();
        stats.kernel = if with_kernel { kernel_view() } else { None };
        stats
    }
}

/// Reads the kernel's view; `None` without `/proc`.
pub fn kernel_view() -> Option<Kernel> {
    let saved = crate::sys::errno();
    let mut text = [0u8; 2048];
    // SAFETY: opens a file by a constant name and reads it into a buffer of the given length.
    let len = unsafe {
        let name = c"/proc/self/smaps_rollup";
        let fd = libc::open(name.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let len = if fd < 0 {
            -1
        } else {
            libc::read(fd, text.as_mut_ptr().cast(), text.len())
        };
        if fd >= 0 {
            libc::close(fd);
        }
        len
    };
    crate::sys::set_errno(saved);
    let text = core::str::from_utf8(text.get(..usize::try_from(len).ok()?)?).ok()?;
    Some(Kernel {
        rss: kib_field(text, "Rss:")?,
        anon_huge: kib_field(text, "AnonHugePages:")?,
    })
}

fn kib_field(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib: usize = line[name.len()..]
        .trim()
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .ok()?;
    Some(kib << 10)
}

/// Writes the page of text.
pub fn write_text(fd: i32) {
    let mut out = Out::new(fd);
    let _ = format_text(&mut out, &Stats::read(true));
    out.flush();
}

/// Writes the JSON object.
pub fn write_json(fd: i32) {
    let mut out = Out::new(fd);
    let _ = format_json(&mut out, &Stats::read(true));
    out.flush();
}

fn line(out: &mut impl Write, bytes: usize, text: impl fmt::Display) -> fmt::Result {
    writeln!(
        out,
        "  {bytes:>16} ({:>9.1} MiB)  {text}",
        bytes as f64 / 1_048_576.0
    )
}

/// A percentage; 0 of nothing.
fn percent(part: usize, whole: usize) -> f64 {
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
];

/// The page of text.
pub fn format_text(out: &mut impl Write, stats: &Stats) -> fmt::Result {
    let heap = &stats.heap;
    writeln!(out, "ample-malloc: bytes")?;
    line(out, stats.in_use, "in use by the application")?;
    line(out, stats.page_heap_free, "free in the page heap")?;
    line(
        out,
        stats.in_central,
        "free in central lists and span tails",
    )?;
    line(out, stats.in_transfer_caches, "free in transfer caches")?;
    line(out, stats.in_cpu_caches, "free in CPU caches")?;
    line(out, stats.metadata_used, "metadata")?;
    line(out, stats.backed + stats.metadata_used, "= backed memory")?;
    line(out, stats.reserved, "address space reserved")?;
    let hugetlb = real::hugetlb_bytes();
    if hugetlb > 0 {
        line(out, hugetlb, "of that on HugeTLB pages")?;
    }
    if let Some(kernel) = stats.kernel {
        line(
            out,
            kernel.rss,
            "resident, the whole process, by the kernel",
        )?;
        let share = percent(kernel.anon_huge, kernel.rss);
        writeln!(
            out,
            "  {:>16} ({share:>9.1} %)    of that on hugepages",
            kernel.anon_huge
        )?;
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
    format_rest(out, heap)?;
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
        match numa::kernel_node(node) {
            Some(kernel) => line(
                out,
                sizes.backed_pages() * PAGE_BYTES,
                format_args!("backed on node {kernel}"),
            )?,
            None => line(
                out,
                sizes.backed_pages() * PAGE_BYTES,
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
        writeln!(
            out,
            "  {:>16} ({:>9.1} MiB)  used, spans of {objects}",
            used * PAGE_BYTES,
            (used * PAGE_BYTES) as f64 / 1_048_576.0
        )?;
    }
    line(out, free, "free, backed")?;
    line(out, filler.released_pages * PAGE_BYTES, "free, released")?;
    let [d0, d1, d2, d3, d4] = filler.regular;
    writeln!(
        out,
        "  hugepages: {d0} + {d1} + {d2} + {d3} + {d4} whole, {} donated, {} partly released, {} \
         released",
        filler.donated, filler.partly_released, filler.released
    )?;
    writeln!(
        out,
        "  broken: {} hugepages, {:.1} % of used pages",
        filler.broken_hugepages,
        percent(filler.broken_used_pages, filler.used())
    )
}

fn format_rest(out: &mut impl Write, heap: &HeapSizes) -> fmt::Result {
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
    line(
        out,
        heap.slack_pages * PAGE_BYTES,
        "slack, donated to the filler",
    )?;
    writeln!(
        out,
        "HugeAllocator: {} hugepages reserved, {} free, {} lost",
        heap.reserved_hugepages, heap.free_hugepages, heap.leaked_hugepages
    )?;
    writeln!(out, "Release")?;
    line(out, heap.released_bytes as usize, "given back so far")?;
    line(
        out,
        heap.subreleased_bytes as usize,
        "of that by breaking hugepages",
    )?;
    writeln!(
        out,
        "  {} hugepages rebuilt, {} attempts refused",
        heap.collapsed, heap.collapse_refused
    )
}

/// The JSON object.
pub fn format_json(out: &mut impl Write, stats: &Stats) -> fmt::Result {
    let heap = &stats.heap;
    let filler = &heap.filler;
    write!(out, "{{\"schema\":\"{SCHEMA}\"")?;
    let mut number = |name: &str, value: usize| write!(out, ",\"{name}\":{value}");
    number("in_use_bytes", stats.in_use)?;
    number("page_heap_free_bytes", stats.page_heap_free)?;
    number("central_free_bytes", stats.in_central)?;
    number("transfer_free_bytes", stats.in_transfer_caches)?;
    number("cpu_cache_free_bytes", stats.in_cpu_caches)?;
    number("metadata_bytes", stats.metadata_used)?;
    number("metadata_mapped_bytes", stats.metadata_mapped)?;
    number("backed_bytes", stats.backed)?;
    number("reserved_bytes", stats.reserved)?;
    number("hugetlb_bytes", real::hugetlb_bytes())?;
    number("guarded_objects", crate::guarded::count())?;
    number("spans", stats.spans)?;
    number("caches", stats.caches)?;
    number("cache_underflows", stats.underflows as usize)?;
    number("cache_overflows", stats.overflows as usize)?;
    number("filler_hugepages", filler.hugepages)?;
    number("filler_used_bytes", filler.used() * PAGE_BYTES)?;
    number(
        "filler_used_sparsest_bytes",
        filler.used_pages[0] * PAGE_BYTES,
    )?;
    number(
        "filler_used_densest_bytes",
        filler.used_pages[DENSITIES - 1] * PAGE_BYTES,
    )?;
    number(
        "filler_free_backed_bytes",
        filler.free_backed_pages() * PAGE_BYTES,
    )?;
    number("filler_released_bytes", filler.released_pages * PAGE_BYTES)?;
    number("filler_broken_hugepages", filler.broken_hugepages)?;
    number(
        "filler_broken_used_bytes",
        filler.broken_used_pages * PAGE_BYTES,
    )?;
    number("hugecache_hugepages", heap.cache_hugepages)?;
    number("hugecache_limit_hugepages", heap.cache_limit_hugepages)?;
    number("hugecache_hits", heap.cache.hits as usize)?;
    number("hugecache_misses", heap.cache.misses as usize)?;
    number(
        "hugecache_overflow_hugepages",
        heap.cache.overflow_hugepages as usize,
    )?;
    number(
        "hugecache_regret_hugepages",
        heap.cache.regret_hugepages as usize,
    )?;
    number("regions", heap.regions)?;
    number("region_used_bytes", heap.region_used_pages * PAGE_BYTES)?;
    number(
        "region_backed_bytes",
        heap.region_backed_hugepages * HUGE_BYTES,
    )?;
    number("large_bytes", heap.large_pages * PAGE_BYTES)?;
    number("slack_bytes", heap.slack_pages * PAGE_BYTES)?;
    number("free_address_hugepages", heap.free_hugepages)?;
    number("released_bytes", heap.released_bytes as usize)?;
    number("subreleased_bytes", heap.subreleased_bytes as usize)?;
    number("collapsed_hugepages", heap.collapsed as usize)?;
    number("collapse_refused", heap.collapse_refused as usize)?;
    number("numa_nodes", numa::nodes())?;
    number("numa_refused_binds", numa::refused() as usize)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_one_object() {
        let mut text = String::new();
        format_json(&mut text, &Stats::default()).unwrap();
        assert!(text.starts_with("{\"schema\":\"ample.malloc-stats/1\","));
        assert!(text.trim_end().ends_with('}'));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        assert!(text.contains("\"rss_bytes\":null") && !text.contains(",,"));
        assert_eq!(text.matches('"').count() % 2, 0);
    }

    #[test]
    fn the_text_names_every_component() {
        let mut text = String::new();
        format_text(&mut text, &Stats::default()).unwrap();
        for part in [
            "HugeFiller",
            "HugeCache",
            "HugeRegion",
            "HugeAllocator",
            "Release",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn fields_of_the_kernel_are_found() {
        let text =
            "00400000-7ff [rollup]\nRss:                1024 kB\nAnonHugePages:      2048 kB\n";
        assert_eq!(kib_field(text, "Rss:"), Some(1 << 20));
        assert_eq!(kib_field(text, "AnonHugePages:"), Some(2 << 20));
        assert_eq!(kib_field(text, "Swap:"), None);
    }
}
