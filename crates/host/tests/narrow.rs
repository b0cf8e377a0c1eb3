// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans without CAP_SYS_ADMIN. Needs root, BTF and a firmware's map; elsewhere it says so and
//! passes.
#![cfg(feature = "bpf")]

use ample_host::{ReaderChoice, Scan, ScanOptions, give_up_sys_admin, scan_live};
use ample_pfn::PageClass;

/// Bit of CAP_SYS_ADMIN (`include/uapi/linux/capability.h`).
const SYS_ADMIN: u64 = 1 << 21;

/// The rights that this thread has and can have.
fn held() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let sets = status.lines().filter_map(|line| {
        line.strip_prefix("CapEff:")
            .or(line.strip_prefix("CapPrm:"))
    });
    sets.map(|set| u64::from_str_radix(set.trim(), 16).unwrap())
        .fold(0, |all, set| all | set)
}

/// Frames that are memory.
fn memory_pages(scan: &Scan) -> u64 {
    let runs = scan.pages.iter();
    runs.filter(|(_, class)| *class != PageClass::Hole)
        .map(|(range, _)| range.pages())
        .sum()
}

/// Once is enough: what needs the right is asked before it is given up, and threads that are
/// started later do not have it either.
#[test]
fn scans_go_on_without_the_right() {
    match give_up_sys_admin() {
        Ok(true) => {}
        other => {
            eprintln!("skipped: {other:?}");
            return;
        }
    }
    assert_eq!(held() & SYS_ADMIN, 0);
    let scan = || {
        scan_live(&ScanOptions {
            reader: ReaderChoice::Bpf,
            ..ScanOptions::default()
        })
    };
    let first = scan().expect("a scan with fewer rights");
    let second = std::thread::spawn(move || {
        assert_eq!(held() & SYS_ADMIN, 0);
        scan().expect("a scan of another thread")
    });
    let second = second.join().unwrap();
    assert_eq!(first.meta.reader, "bpf");
    assert_eq!(memory_pages(&first), memory_pages(&second));
    assert!(!give_up_sys_admin().expect("nothing to give up"));
}
