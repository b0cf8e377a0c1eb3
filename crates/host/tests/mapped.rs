// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this process has in memory, against what the kernel counts itself. Needs root; elsewhere
//! it says so and passes.

use ample_host::{MappedMemory, MappedTarget, PageBacking, TestMemory, read_mapped};
use ample_pfn::Order;
use std::io::Write;
use std::sync::Mutex;

const BLOCK: u64 = 2 << 20;
/// Held by tests that map memory: they share the process whose memory one of them counts.
static MEMORY: Mutex<()> = Mutex::new(());

fn read(target: &MappedTarget) -> Option<MappedMemory> {
    match read_mapped(target, &[Order(4), Order(9), Order(18)]) {
        // Without CAP_SYS_ADMIN frames read as zero.
        Ok(memory) if memory.present_bytes > 0 => Some(memory),
        Ok(_) => {
            eprintln!("skipped: frames are hidden");
            None
        }
        Err(error) if error.is_permission() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Bytes that the kernel counts under a name for the whole process.
fn smaps(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name}:")))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

fn huge(memory: &MappedMemory) -> u64 {
    let large = memory
        .folio_bytes
        .iter()
        .filter(|(size, _)| **size >= BLOCK);
    large.map(|(_, bytes)| bytes).sum()
}

#[test]
fn huge_pages_of_this_process_are_those_of_smaps() {
    let _alone = MEMORY.lock();
    let own = MappedTarget::Process(std::process::id());
    let Some(before) = read(&own) else { return };
    let counted = smaps("AnonHugePages");
    let memory = TestMemory::new(16 * BLOCK, PageBacking::Thp).unwrap();
    let small = TestMemory::new(8 * BLOCK, PageBacking::Small).unwrap();
    let (after, counted) = (read(&own).unwrap(), smaps("AnonHugePages") - counted);
    assert_eq!(huge(&after) - huge(&before), counted);
    let [before, after] = [before, after].map(|memory| memory.sizes[1]);
    assert_eq!(
        after.contiguous_stretches - before.contiguous_stretches,
        counted / BLOCK
    );
    let scattered = after.scattered_bytes - before.scattered_bytes;
    let expected = 24 * BLOCK - counted;
    // Each range begins anywhere in its mapping, and the heap grows a little.
    assert!(
        scattered.abs_diff(expected) <= 2 * BLOCK,
        "{scattered} of {expected}"
    );
    drop((memory, small));
}

#[test]
fn a_file_is_looked_at_where_it_is_cached() {
    let _alone = MEMORY.lock();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&vec![1; 3 * BLOCK as usize + 5000]).unwrap();
    let Some(memory) = read(&MappedTarget::File(file.path().into())) else {
        return;
    };
    assert_eq!(memory.present_bytes, 3 * BLOCK + 2 * 4096);
    let nothing = read_mapped(&MappedTarget::File("/dev/zero".into()), &[]).unwrap_err();
    assert!(
        nothing.to_string().contains("not a regular file"),
        "{nothing}"
    );
}

#[test]
fn what_does_not_exist_is_named() {
    let error = |target| read_mapped(&target, &[]).unwrap_err().to_string();
    if std::fs::File::open("/proc/kpageflags").is_err() {
        return eprintln!("skipped: no root");
    }
    assert!(error(MappedTarget::Process(u32::MAX)).contains("4294967295"));
    assert!(error(MappedTarget::Group("/no/such".into())).contains("/no/such"));
}
