// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics: one page of text, or one JSON object, written without allocating.
//!
//! Every figure is read under the lock of the part it belongs to, so parts are consistent in
//! themselves and nearly so with each other.

pub mod classes;
mod json;
mod text;

pub use json::{format_json, format_metrics};
pub use text::format_text;

use crate::heap::HeapSizes;
use crate::heap::{pageheap, span};
use crate::os::meta;
use crate::os::report::write_all;
use crate::os::vm::real;
use crate::units::{NATIVE_BYTES, PAGE_BYTES};
use crate::{cache, central, size_class};
use core::fmt::{self, Write};

/// The version of the JSON object.
pub const SCHEMA: &str = "ample.malloc-stats/1";

/// How bytes reach a file descriptor; false if they do not.
pub type Send = fn(i32, &[u8]) -> bool;

/// A buffered file descriptor.
pub struct Out {
    fd: i32,
    send: Send,
    failed: bool,
    len: usize,
    bytes: [u8; 4096],
}

impl Out {
    /// Writes to `fd`.
    pub const fn new(fd: i32) -> Self {
        Self::by(fd, write_all)
    }

    /// Writes to `fd` by `send`.
    pub const fn by(fd: i32, send: Send) -> Self {
        Out {
            fd,
            send,
            failed: false,
            len: 0,
            bytes: [0; 4096],
        }
    }

    /// Writes what is buffered, unless something before it was lost.
    pub fn flush(&mut self) {
        self.failed = self.failed || !(self.send)(self.fd, &self.bytes[..self.len]);
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
    /// Number of spans.
    pub spans: usize,
    /// Whether per-CPU caches work by restartable sequences.
    pub rseq: bool,
    /// Whether a background thread runs.
    pub background: bool,
    /// Waits for hugepages that the system had none of, and those that were cut short.
    pub collapse_waits: [u64; 2],
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
            collapse_waits: pageheap::waits(),
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
        stats.in_central = stats
            .in_central
            .saturating_sub(heap.filler.hole_natives * NATIVE_BYTES);
        let used = heap.in_use_pages() * PAGE_BYTES;
        let free = stats.in_central + stats.in_transfer_caches + stats.in_cpu_caches;
        stats.in_use = used.saturating_sub(free);
        stats.backed = heap.backed_pages() * PAGE_BYTES;
        stats.page_heap_free = stats.backed.saturating_sub(used);
        (stats.metadata_used, stats.metadata_mapped) = meta::usage_bytes();
        stats.reserved = real::reserved_bytes();
        stats.spans = span::live();
        stats.background = crate::os::threads::has_background();
        stats.kernel = if with_kernel { kernel_view() } else { None };
        stats
    }
}

/// Reads the kernel's view; `None` without `/proc`.
pub fn kernel_view() -> Option<Kernel> {
    let mut text = [0; 2048];
    let text = crate::os::sys::read_file(c"/proc/self/smaps_rollup", &mut text)?;
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

/// Whether nobody holds a lock that a reading takes: a signal handler, which may have interrupted
/// the thread that holds one, may read.
pub fn is_readable() -> bool {
    pageheap::is_free() && span::is_free() && central::is_free() && cache::is_free()
}

/// How statistics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StatsForm {
    /// A page of text.
    Text,
    /// One JSON object.
    Json,
    /// OpenMetrics 1.0, without the size classes.
    Metrics,
}

impl StatsForm {
    /// The form of that number, in the order of declaration; text of others.
    pub const fn from_number(number: u8) -> StatsForm {
        match number {
            1 => StatsForm::Json,
            2 => StatsForm::Metrics,
            _ => StatsForm::Text,
        }
    }
}

/// Writes the statistics to a file descriptor.
pub fn write(fd: i32, form: StatsForm) {
    write_by(fd, write_all, form);
}

/// The same by `send`.
pub fn write_by(fd: i32, send: Send, form: StatsForm) {
    let (mut out, stats) = (Out::by(fd, send), Stats::read(true));
    let _ = match form {
        StatsForm::Text => format_text(&mut out, &stats),
        StatsForm::Json => format_json(&mut out, &stats),
        StatsForm::Metrics => format_metrics(&mut out, &stats),
    };
    out.flush();
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
    fn metrics_are_names_with_numbers_and_an_end() {
        let mut text = String::new();
        format_metrics(&mut text, &Stats::default()).unwrap();
        let lines = text.strip_suffix("# EOF\n").expect("the end").lines();
        let mut names: Vec<&str> = lines
            .map(|line| {
                let (name, value) = line.split_once(' ').expect("a name and a value");
                assert!(name.starts_with("ample_malloc_") && value.parse::<u64>().is_ok());
                name
            })
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert!(count > 40 && names.len() == count);
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
