// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes things that hold unmovable pages and finds them under their names. Needs root and BTF;
//! elsewhere it says so and passes.
#![cfg(feature = "bpf")]

use ample_host::{OwnerKind, ReaderChoice, Root, ScanOptions, Who, scan_live};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io::Write;
use std::os::unix::net::UnixStream;

/// Share by which a count may miss what was made.
const TOLERANCE: f64 = 0.1;

fn who() -> Option<Who> {
    let scan = scan_live(&ScanOptions {
        root: Root::live(),
        reader: ReaderChoice::Bpf,
        who: true,
        ..ScanOptions::default()
    });
    match scan {
        Ok(scan) => Some(scan.meta.who.expect("the BPF reader sees owners")),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Pages of this program under a kind.
fn own_pages(who: &Who, kind: OwnerKind) -> u64 {
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
    let of_kind = who.owners.iter().filter(|own| own.kind == kind);
    let own = of_kind.filter(|own| own.name == comm.trim());
    own.map(|own| own.pages).sum()
}

fn close(found: u64, made: u64, what: &str) {
    let (found, made) = (found as f64, made as f64);
    assert!(
        (found - made).abs() <= TOLERANCE * made,
        "{what}: found {found} of {made} pages"
    );
}

/// Fills 400 pipes of 16 pages.
fn pipes() -> (Vec<(std::io::PipeReader, std::io::PipeWriter)>, u64) {
    const PIPES: u64 = 400;
    let full = || {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&[1; 16 * 4096]).unwrap();
        (reader, writer)
    };
    ((0..PIPES).map(|_| full()).collect(), PIPES * 16)
}

/// Floods sockets that nobody reads; what one message holds beyond its head lies in pages.
fn sockets() -> (Vec<(UnixStream, UnixStream)>, u64) {
    const MESSAGE: usize = 32 << 10;
    let mut sent = 0;
    let mut flood = || {
        let (mut one, other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        while let Ok(bytes) = one.write(&[1; MESSAGE]) {
            sent += bytes as u64;
        }
        (one, other)
    };
    let pairs = (0..64).map(|_| flood()).collect();
    (pairs, sent / 4096)
}

/// Touches one page in each of many 2 MB blocks, so that each needs a page table.
struct Sparse(*mut std::ffi::c_void);

impl Sparse {
    const TABLES: usize = 3000;
    const BLOCK: usize = 2 << 20;

    fn new() -> Sparse {
        let bytes = Sparse::TABLES * Sparse::BLOCK;
        let (protection, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        );
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) };
        let start = start.unwrap();
        // SAFETY: exactly the mapping made above; the advice does not change what it holds.
        unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) }.unwrap();
        for block in 0..Sparse::TABLES {
            // SAFETY: inside the mapping, which is writable and used by nobody else.
            unsafe {
                start
                    .cast::<u8>()
                    .add(block * Sparse::BLOCK)
                    .write_volatile(1)
            };
        }
        Sparse(start)
    }
}

impl Drop for Sparse {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`.
        let _ = unsafe { munmap(self.0, Sparse::TABLES * Sparse::BLOCK) };
    }
}

/// Pages of a slab cache by `/proc/slabinfo`.
fn slab_pages(cache: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/slabinfo").unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{cache} ")))
        .unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    // name active objects size per-slab pages-per-slab : tunables a b c : slabdata active slabs
    number(5) * number(14)
}

#[test]
fn what_was_made_is_found_under_its_name() {
    let Some(before) = who() else { return };
    let (pipes, pipe_pages) = pipes();
    let (sockets, socket_pages) = sockets();
    let sparse = Sparse::new();
    let dentries =
        (0..40_000).filter(|n| std::fs::metadata(format!("/tmp/ample-none-{n}")).is_ok());
    assert_eq!(dentries.count(), 0);
    let after = who().expect("it worked before");
    let grown = |kind| own_pages(&after, kind) - own_pages(&before, kind);
    close(grown(OwnerKind::Pipe), pipe_pages, "pipes");
    close(grown(OwnerKind::Socket), socket_pages, "sockets");
    close(
        grown(OwnerKind::PageTable),
        Sparse::TABLES as u64,
        "page tables",
    );
    let slab = |name: &str| {
        let own = after
            .owners
            .iter()
            .filter(|own| own.kind == OwnerKind::Slab);
        own.filter(|own| own.name == name)
            .map(|own| own.pages)
            .sum::<u64>()
    };
    close(slab("dentry"), slab_pages("dentry"), "dentries");
    drop((pipes, sockets, sparse));
    let unknown = after.unknown_pages() as f64 / after.pages() as f64;
    eprintln!(
        "{:.1} % have no name; hints: {:?}",
        100.0 * unknown,
        after.hints
    );
    after.check().unwrap();
    for owner in &after.owners {
        assert!(owner.alone_2m <= owner.blocks_2m && owner.alone_1g <= owner.blocks_1g);
        assert!(owner.blocks_2m <= owner.pages, "{owner:?}");
    }
}

/// What the owners hold together is what the classes say, but for page cache of block devices.
#[test]
fn owners_add_up_to_the_sources() {
    let Ok(mut scan) = scan_live(&ScanOptions {
        reader: ReaderChoice::Bpf,
        who: true,
        ..ScanOptions::default()
    }) else {
        return eprintln!("skipped: no BPF reader here");
    };
    let sizes = ample_pfn::SizeList::standard();
    let Ok(builder) = ample_pfn::MetricsBuilder::collect(&mut scan, &sizes);
    let metrics = builder.finish(&scan.meta.coverage);
    let sources: u64 = metrics
        .total
        .sources
        .iter()
        .map(|source| source.pages)
        .sum();
    let who = scan.meta.who.expect("the BPF reader sees owners");
    let metadata = who
        .owners
        .iter()
        .filter(|own| own.kind == OwnerKind::FileSystem);
    let metadata: u64 = metadata.map(|own| own.pages).sum();
    assert_eq!(who.pages() - metadata, sources);
}
