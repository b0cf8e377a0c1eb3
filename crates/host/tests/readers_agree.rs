// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two readers look at the same machine in two unrelated ways; they must see the same pages.
//! Needs root and BTF; elsewhere it says so and passes.
#![cfg(feature = "bpf")]

use ample_host::{
    BpfReader, ProcfsReader, Reader, ReaderChoice, Root, Scan, ScanOptions, System, scan_live,
};
use ample_pfn::{MetricsBuilder, MigrateType, PageClass, Pfn, PfnRange, SizeList};
use std::collections::BTreeMap;

/// Pages that may differ between two readings of a page that looked the same before and after:
/// the machine is running, and torn states exist.
const TOLERATED_SHARE: f64 = 0.002;

fn scan(reader: ReaderChoice) -> Result<Scan, ample_host::HostError> {
    scan_live(&ScanOptions {
        root: Root::live(),
        reader,
        ..ScanOptions::default()
    })
}

/// Whether a class by page flags and a class by `struct page` can be the same page.
fn agree(flags: PageClass, page: PageClass) -> bool {
    use PageClass::*;
    let user = |class| matches!(class, Anon | File | Shmem | HugeTlb | Mlocked);
    match flags {
        // In use by the kernel or free in a per-CPU list: that flags cannot tell is the point.
        Bare => !matches!(
            page,
            Free | Slab | SlabReclaimable | PageTable | Reserved | Hole
        ),
        // Kernels that initialise lazily hide the flags of a whole section, also of the
        // reserved pages in it.
        Uninitialised => matches!(page, Uninitialised | Reserved | Hole),
        Slab => matches!(page, Slab | SlabReclaimable),
        KernelCompound => matches!(page, KernelCompound | Network),
        KernelOther => matches!(page, KernelOther | KernelCompound | Network | MovableOps),
        class if user(class) => page == class || page == Pinned,
        class => page == class,
    }
}

/// Frames compared at a time: few enough that the machine hardly moves meanwhile.
const WINDOW_PAGES: u64 = 1 << 15;

fn read(reader: &mut dyn Reader, window: PfnRange) -> Vec<PageClass> {
    let mut classes = vec![PageClass::Hole; window.pages() as usize];
    reader.restrict(vec![window]);
    reader
        .for_each_chunk(&mut |start, chunk| {
            let at = (start.0 - window.start.0) as usize;
            classes[at..at + chunk.len()].copy_from_slice(chunk);
        })
        .unwrap();
    classes
}

#[test]
fn procfs_and_bpf_see_the_same_pages() {
    let root = Root::live();
    let readers = System::read(&root).and_then(|system| {
        let (procfs, bpf) = (
            ProcfsReader::open(&root, &system)?,
            BpfReader::open(&root, &system)?,
        );
        Ok((system, procfs, bpf))
    });
    let (system, mut procfs, mut bpf) = match readers {
        Ok(readers) => readers,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let mut differing = BTreeMap::<(&str, &str), u64>::new();
    let mut stable = 0u64;
    for range in &system.ram {
        let first = range.start.0 / WINDOW_PAGES;
        for window in first..range.end.0.div_ceil(WINDOW_PAGES) {
            let all = PfnRange::new(Pfn(window * WINDOW_PAGES), Pfn((window + 1) * WINDOW_PAGES));
            let window = all.intersect(*range);
            let before = read(&mut procfs, window);
            let pages = read(&mut bpf, window);
            let after = read(&mut procfs, window);
            for ((&first, &page), &second) in before.iter().zip(&pages).zip(&after) {
                if first == second && first != PageClass::Hole {
                    stable += 1;
                    if !agree(first, page) {
                        *differing.entry((first.name(), page.name())).or_default() += 1;
                    }
                }
            }
        }
    }
    let wrong: u64 = differing.values().sum();
    eprintln!("{stable} stable pages, {wrong} differ: {differing:?}");
    assert!(stable > 0);
    assert!(
        wrong as f64 <= TOLERATED_SHARE * stable as f64,
        "{wrong} of {stable} stable pages differ (flags, struct page): {differing:?}"
    );
}

/// What flags leave open, reference counts decide, within the interval.
#[test]
fn the_exact_value_lies_in_the_interval() {
    let (Ok(mut procfs), Ok(mut bpf)) = (scan(ReaderChoice::Procfs), scan(ReaderChoice::Bpf))
    else {
        eprintln!("skipped: needs root and BTF");
        return;
    };
    let [open, exact] = [&mut procfs, &mut bpf].map(|scan| {
        let Ok(builder) = MetricsBuilder::collect(scan, &SizeList::standard());
        builder.finish(&scan.meta.coverage).total
    });
    let (open, exact) = (open.k, exact.k);
    assert_eq!(exact.unmovable_pages.low, exact.unmovable_pages.high);
    // Reserved pages in sections whose flags the kernel hides are no part of the interval.
    let slack = exact.unmovable_pages.high / 10 + bpf_only_reserved(&procfs, &bpf);
    let low = open.unmovable_pages.low.saturating_sub(slack);
    let high = open.unmovable_pages.high + slack;
    let value = exact.unmovable_pages.high;
    assert!(
        (low..=high).contains(&value),
        "{value} is not in {low}..={high}"
    );
}

fn bpf_only_reserved(procfs: &Scan, bpf: &Scan) -> u64 {
    let reserved = |scan: &Scan| -> u64 {
        let runs = scan
            .pages
            .iter()
            .filter(|(_, class)| *class == PageClass::Reserved);
        runs.map(|(range, _)| range.pages()).sum()
    };
    reserved(bpf).saturating_sub(reserved(procfs))
}

/// Blocks of a migratetype as `/proc/pagetypeinfo` counts them, over all zones.
fn pagetypeinfo(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/pagetypeinfo").ok()?;
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with("Number of blocks type"));
    let header: Vec<&str> = lines.next()?.split_whitespace().skip(4).collect();
    let column = header.iter().position(|&title| title == name)?;
    // Node 0, zone Normal 1 2 3 …
    let count = |line: &str| line.split_whitespace().nth(4 + column)?.parse::<u64>().ok();
    lines.map(count).sum()
}

#[test]
fn pageblock_types_are_those_that_the_kernel_counts() {
    let (Ok(scan), Some(movable), Some(reclaimable)) = (
        scan(ReaderChoice::Bpf),
        pagetypeinfo("Movable"),
        pagetypeinfo("Reclaimable"),
    ) else {
        eprintln!("skipped: needs root, BTF and /proc/pagetypeinfo");
        return;
    };
    let runs = scan
        .meta
        .pageblocks
        .unwrap_or_else(|| panic!("{:?}", scan.meta.notes));
    let blocks = |wanted: MigrateType| -> u64 {
        runs.iter()
            .filter(|run| run.migratetype == wanted)
            .map(|run| run.blocks)
            .sum()
    };
    for (name, ours, kernel) in [
        ("movable", blocks(MigrateType::Movable), movable),
        ("reclaimable", blocks(MigrateType::Reclaimable), reclaimable),
    ] {
        eprintln!("{name}: {ours} by sections, {kernel} by pagetypeinfo");
        // The kernel claims and gives back blocks between the two readings.
        assert!(
            ours.abs_diff(kernel) <= 8 + kernel / 20,
            "{name}: {ours}, kernel {kernel}"
        );
    }
}
