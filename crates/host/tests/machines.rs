// SPDX-License-Identifier: MIT OR Apache-2.0
//! Saved `/proc` trees: made-up machines whose answers are known.

use ample_host::{ReaderChoice, Root, ScanOptions, scan_live};
use ample_pfn::{MetricsBuilder, PageClass, SizeList};
use std::path::Path;

const LRU_ANON: u64 = 1 << 5 | 1 << 12 | 1 << 14;
const BUDDY: u64 = 1 << 10;
const SLAB: u64 = 1 << 7;

/// Writes a tree: 4 pageblocks of DMA32 and, after a 2 MB hole, 4 of Normal.
struct Machine {
    flags: Vec<u64>,
    cgroups: Option<Vec<u64>>,
    pcp_pages: u64,
    unlisted_bytes: u64,
    managed_normal: u64,
}

const NORMAL: usize = 5 * 512;
const END: usize = 9 * 512;

impl Machine {
    fn new() -> Machine {
        Machine {
            flags: vec![LRU_ANON; END],
            cgroups: None,
            pcp_pages: 0,
            unlisted_bytes: 0,
            managed_normal: 2048,
        }
    }

    fn write(&self, directory: &Path) {
        let proc = directory.join("proc");
        std::fs::create_dir_all(proc.join("sys/kernel")).unwrap();
        let put = |name: &str, text: &[u8]| std::fs::write(proc.join(name), text).unwrap();
        put(
            "iomem",
            b"00000000-007fffff : System RAM\n00a00000-011fffff : System RAM\n",
        );
        let zoneinfo = format!(
            "Node 0, zone DMA32\n  pages free 0\n spanned 2048\n present 2048\n managed 2048\n\
             \x20 start_pfn: 0\nNode 0, zone Normal\n  pages free 0\n spanned 2048\n \
             present 2048\n managed {}\n  pagesets\n    cpu: 0\n  count: {}\n start_pfn: {}\n",
            self.managed_normal, self.pcp_pages, NORMAL
        );
        put("zoneinfo", zoneinfo.as_bytes());
        put(
            "buddyinfo",
            b"Node 0, zone DMA32 0 0 0\nNode 0, zone Normal 0 0 0\n",
        );
        let free_kb = self.unlisted_bytes / 1024;
        put(
            "meminfo",
            format!("MemTotal: 16384 kB\nMemFree: {free_kb} kB\n").as_bytes(),
        );
        put("sys/kernel/osrelease", b"6.12.1-golden\n");
        put("uptime", b"3600.25 100.00\n");
        let words = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        put("kpageflags", &words(&self.flags));
        if let Some(cgroups) = &self.cgroups {
            put("kpagecgroup", &words(cgroups));
        }
    }

    fn scan(&self) -> ample_host::Scan {
        let directory = tempfile::tempdir().unwrap();
        self.write(directory.path());
        let root = Root::offline(directory.path());
        scan_live(&ScanOptions {
            root,
            reader: ReaderChoice::Auto,
            ..ScanOptions::default()
        })
        .unwrap()
    }
}

fn metrics(scan: &mut ample_host::Scan) -> ample_pfn::GroupMetrics {
    let builder = MetricsBuilder::collect(scan, &SizeList::standard()).unwrap();
    builder.finish(&scan.meta.coverage).total
}

#[test]
fn a_kernel_with_pages_of_64_kb_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let machine = Machine::new();
    machine.write(directory.path());
    let meminfo = directory.path().join("proc/meminfo");
    std::fs::write(meminfo, "MemTotal: 262140 kB\nMemFree: 0 kB\n").unwrap();
    let options = ScanOptions {
        root: Root::offline(directory.path()),
        reader: ReaderChoice::Auto,
        ..ScanOptions::default()
    };
    let error = scan_live(&options).err().unwrap().to_string();
    assert!(error.contains("pages are of 64 KiB"), "{error}");
}

/// A kernel that initialises memory when it is asked for (deferred_init=lazy) counts it in MemTotal
/// from the start and as managed once it is initialised: soon after boot a quarter of it.
#[test]
fn memory_that_is_initialised_late_does_not_look_like_large_pages() {
    let directory = tempfile::tempdir().unwrap();
    Machine::new().write(directory.path());
    let zoneinfo = directory.path().join("proc/zoneinfo");
    let text = std::fs::read_to_string(&zoneinfo).unwrap();
    std::fs::write(&zoneinfo, text.replace("managed 2048", "managed 512")).unwrap();
    let system = ample_host::System::read(&Root::offline(directory.path())).unwrap();
    assert_eq!(system.counters["MemTotal_bytes"], 16 << 20);
}

#[test]
fn a_hole_is_found_although_its_flags_are_zero() {
    let mut machine = Machine::new();
    machine.flags[2048..NORMAL].fill(0);
    let mut scan = machine.scan();
    let total = metrics(&mut scan);
    assert_eq!(total.memory_bytes, 16 << 20);
    assert_eq!(total.k.unmovable_pages.high, 0);
    assert_eq!(scan.pages.expand()[2048], PageClass::Hole);
    assert_eq!(scan.meta.kernel, "6.12.1-golden");
    assert_eq!(scan.meta.uptime_seconds, Some(3600));
    assert_eq!(scan.meta.unix_time_seconds, None);
}

#[test]
fn one_slab_page_spoils_one_block_and_slab_with_false_anon_is_slab() {
    let mut machine = Machine::new();
    machine.flags[512..1024].fill(BUDDY);
    machine.flags[700] = SLAB | 1 << 12;
    let total = metrics(&mut machine.scan());
    assert_eq!(total.sizes[0].blocks, 8);
    assert_eq!(total.k.sizes[0].unmovable_blocks.high, 1);
    assert_eq!(total.k.sizes[0].unmovable_blocks.low, 1);
    assert_eq!(total.free_bytes, 511 * 4096);
    assert!(total.o.is_none(), "flags know no owners");
}

#[test]
fn per_cpu_lists_bound_the_bare_pages() {
    let mut machine = Machine::new();
    machine.flags[10] = 0;
    machine.flags[600..604].fill(0);
    machine.pcp_pages = 2;
    let total = metrics(&mut machine.scan());
    assert_eq!(
        (total.k.unmovable_pages.low, total.k.unmovable_pages.high),
        (3, 5)
    );
    let blocks = total.k.sizes[0].unmovable_blocks;
    assert_eq!((blocks.low, blocks.high), (1, 2));
    assert_eq!(total.p.sizes[0].unmovable_blocks.low, 2);
}

#[test]
fn a_page_charged_to_a_cgroup_is_in_use() {
    let mut machine = Machine::new();
    machine.flags[600..604].fill(0);
    let mut cgroups = vec![7; END];
    cgroups[602] = 0;
    machine.cgroups = Some(cgroups);
    machine.pcp_pages = 100;
    let mut scan = machine.scan();
    let total = metrics(&mut scan);
    assert_eq!(
        (total.k.unmovable_pages.low, total.k.unmovable_pages.high),
        (3, 4)
    );
    let classes = scan.pages.expand();
    assert_eq!(classes[600], PageClass::KernelOther);
    assert_eq!(classes[602], PageClass::Bare);
    assert_eq!(classes[599], PageClass::Anon);
}

#[test]
fn flag_less_sections_are_free_only_where_the_kernel_counts_unlisted_memory() {
    let mut machine = Machine::new();
    machine.flags[NORMAL..].fill(0);
    machine.managed_normal = 0;
    let total = metrics(&mut machine.scan());
    assert_eq!(
        total.k.unmovable_pages.high, 2048,
        "a booted machine: in use"
    );
    machine.unlisted_bytes = 1 << 30;
    let mut scan = machine.scan();
    let total = metrics(&mut scan);
    assert_eq!(total.k.unmovable_pages.high, 0, "lazily initialised: free");
    assert_eq!(total.free_bytes, 8 << 20);
    assert!(
        scan.meta
            .notes
            .iter()
            .any(|note| note.contains("not initialised"))
    );
}

#[test]
fn a_short_flags_file_leaves_holes() {
    let mut machine = Machine::new();
    machine.flags.truncate(NORMAL + 5);
    let total = metrics(&mut machine.scan());
    assert_eq!(total.memory_bytes, (2048 + 5) * 4096);
}

#[test]
fn missing_and_malformed_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let options = ScanOptions {
        root: Root::offline(directory.path()),
        reader: ReaderChoice::Procfs,
        ..ScanOptions::default()
    };
    let error = scan_live(&options).unwrap_err().to_string();
    assert!(error.contains("proc/zoneinfo"), "{error}");
    Machine::new().write(directory.path());
    std::fs::write(directory.path().join("proc/iomem"), "nonsense\n").unwrap();
    let error = scan_live(&options).unwrap_err().to_string();
    assert!(error.contains("proc/iomem:1:"), "{error}");
}
