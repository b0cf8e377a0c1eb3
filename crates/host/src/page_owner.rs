// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owners of pages, from the kernel's page_owner (boot option `page_owner=on`).
//!
//! The file lists every allocated block in ascending order of frames, with the allocation's
//! migratetype and stack; about 580 bytes a block, so it is read as a stream beside the pages.
//! Format: `print_page_owner()`, `mm/page_owner.c`, Linux 6.12.

use crate::who::recorded::{AllocationSite, RecordedOwners};
use crate::{HostError, PageRuns, Root, Who};
use ample_pfn::{PageClass, Pfn};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// Where debugfs has the file.
pub const PAGE_OWNER: &str = "sys/kernel/debug/page_owner";
/// Largest order that is believed.
const MAX_ORDER: u32 = 20;
/// A longer line is not from page_owner.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// What the stack of an allocation says about its purpose: the class, and parts of the names of
/// functions that only such allocations go through. The innermost function that matches decides.
const STACKS: [(PageClass, &str); 5] = [
    (
        PageClass::PageTable,
        "pte_alloc pmd_alloc pud_alloc p4d_alloc pgd_alloc",
    ),
    (PageClass::KernelStack, "alloc_thread_stack dup_task_struct"),
    (
        PageClass::Network,
        "skb sock_ tcp_ udp_ napi_ page_pool netif_ netlink virtnet_ \
         unix_stream sk_page_frag",
    ),
    (
        PageClass::FsBuffer,
        "ext4_ xfs_ btrfs_ jbd2_ nfs_ fuse_ iomap_ bio_ bdev_ grow_buffers \
         grow_dev_folio erofs_ squashfs_ f2fs_",
    ),
    (PageClass::Dma, "dma_ iommu_"),
];

/// One allocated block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    start: u64,
    end: u64,
    movable: bool,
    reclaimable: bool,
    /// By the stack, if it says anything.
    purpose: Option<PageClass>,
    /// Who asked, where that is kept.
    site: Option<AllocationSite>,
}

/// The owners of pages, read in step with the pages.
#[derive(Debug)]
pub struct Owners {
    lines: BufReader<File>,
    path: PathBuf,
    line: usize,
    record: Option<Record>,
    ended: bool,
    recorded: Option<RecordedOwners>,
}

impl Owners {
    /// Opens the file below `root`.
    ///
    /// # Errors
    /// [`HostError::Io`]: debugfs not mounted, no root, or `page_owner=on` not given at boot.
    pub fn open(root: &Root) -> Result<Owners, HostError> {
        let lines = BufReader::with_capacity(1 << 18, root.open(PAGE_OWNER)?);
        let path = root.path(PAGE_OWNER);
        Ok(Owners {
            lines,
            path,
            line: 0,
            record: None,
            ended: false,
            recorded: None,
        })
    }

    /// Keeps who allocated unmovable pages, for [`Owners::who`], from now on.
    pub fn keep(&mut self, uptime_seconds: u64) {
        self.recorded = Some(RecordedOwners::new(uptime_seconds));
    }

    /// Who holds the unmovable pages that were refined; `None` if that was not kept.
    pub fn who(&self, pages: &PageRuns) -> Option<Who> {
        Some(self.recorded.as_ref()?.who(pages))
    }

    /// Refines the classes of consecutive frames from `start`. Chunks must come in ascending
    /// order.
    ///
    /// # Errors
    /// [`HostError::Parse`] with the line of a record that cannot be understood.
    pub fn refine(&mut self, start: Pfn, classes: &mut [PageClass]) -> Result<(), HostError> {
        for (pfn, class) in (start.0..).zip(classes) {
            while !self.ended && self.record.as_ref().is_none_or(|record| record.end <= pfn) {
                self.next_record()?;
            }
            let owner = self
                .record
                .as_ref()
                .filter(|record| record.start <= pfn && pfn < record.end);
            *class = refined(*class, owner);
            if let Some(recorded) = &mut self.recorded {
                let site = owner.and_then(|record| Some((record.start, record.site.as_ref()?)));
                recorded.push(pfn, *class, site);
            }
        }
        Ok(())
    }

    fn bad(&self, what: impl Into<String>) -> HostError {
        HostError::parse(&self.path, self.line, what)
    }

    /// The next line without its end; `None` at the end of the file.
    fn next_line(&mut self) -> Result<Option<String>, HostError> {
        let mut bytes = Vec::new();
        let mut limited = std::io::Read::take(&mut self.lines, MAX_LINE_BYTES);
        let read = limited
            .read_until(b'\n', &mut bytes)
            .map_err(|error| HostError::io(&self.path, error))?;
        self.line += 1;
        if read as u64 == MAX_LINE_BYTES {
            return Err(self.bad("line too long for page_owner"));
        }
        let text = String::from_utf8_lossy(&bytes);
        Ok((read > 0).then(|| text.trim_end_matches('\n').to_string()))
    }

    fn next_record(&mut self) -> Result<(), HostError> {
        let (order, mut site) = loop {
            let Some(line) = self.next_line()? else {
                self.ended = true;
                self.record = None;
                return Ok(());
            };
            if let Some(rest) = line.strip_prefix("Page allocated via order ") {
                let digits = rest.split(',').next().unwrap_or("");
                let order = digits
                    .parse::<u32>()
                    .ok()
                    .filter(|&order| order <= MAX_ORDER);
                let order = order.ok_or_else(|| self.bad("order is not a number up to 20"))?;
                let site = self
                    .recorded
                    .is_some()
                    .then(|| AllocationSite::begin(&line));
                break (order, site);
            }
            if !line.is_empty() {
                return Err(self.bad("expected `Page allocated via order …`"));
            }
        };
        let place = self.next_line()?.unwrap_or_default();
        let (start, kind) =
            parse_place(&place).ok_or_else(|| self.bad("expected `PFN … type …`"))?;
        let after = self.record.as_ref().map_or(0, |record| record.start);
        if start < after {
            return Err(self.bad("frames are not in ascending order"));
        }
        let mut purpose = None;
        while let Some(line) = self.next_line()?.filter(|line| !line.is_empty()) {
            purpose = purpose.or_else(|| purpose_of(&line));
            site.iter_mut().for_each(|site| site.line(&line));
        }
        self.record = Some(Record {
            start,
            end: start.saturating_add(1 << order),
            movable: kind == "Movable" || kind == "CMA",
            reclaimable: kind == "Reclaimable",
            purpose,
            site,
        });
        Ok(())
    }
}

/// Frame (`0x…` since 5.19, decimal before) and the migratetype of the allocation.
fn parse_place(line: &str) -> Option<(u64, &str)> {
    let mut words = line.strip_prefix("PFN ")?.split_whitespace();
    let pfn = words.next()?;
    let pfn = match pfn.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => pfn.parse().ok()?,
    };
    (words.next()? == "type").then_some(())?;
    Some((pfn, words.next()?))
}

/// The class that one line of a stack (` function+0x12/0x34`) stands for.
fn purpose_of(line: &str) -> Option<PageClass> {
    let function = line.strip_prefix(' ')?.split('+').next()?;
    let mut stacks = STACKS.into_iter();
    let names = |parts: &str| parts.split(' ').any(|part| function.contains(part));
    stacks.find_map(|(class, parts)| names(parts).then_some(class))
}

/// What flags and owner together say. Flags are newer than the owner's record and win where they
/// are certain.
fn refined(class: PageClass, owner: Option<&Record>) -> PageClass {
    match (class, owner) {
        // Allocated pages have a record, so this one is in a per-CPU list.
        (PageClass::Bare, None) => PageClass::FreePcp,
        // Isolated, or on its way to an LRU list.
        (PageClass::Bare, Some(owner)) if owner.movable => PageClass::LruOther,
        (
            PageClass::Bare | PageClass::KernelOther | PageClass::KernelCompound,
            Some(Record {
                purpose: Some(purpose),
                ..
            }),
        ) => *purpose,
        (PageClass::Bare, Some(_)) => PageClass::KernelOther,
        (PageClass::Slab, Some(owner)) if owner.reclaimable => PageClass::SlabReclaimable,
        // In the page cache and yet not allocated movable: block-device metadata.
        (PageClass::File, Some(owner)) if !owner.movable => PageClass::FsMetadata,
        (class, _) => class,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Page allocated via order 0, mask 0x1(GFP_KERNEL), pid 1, tgid 1 (init), ts 5 ns
PFN 0x2 type Unmovable Block 0 type Unmovable Flags 0x0()
 post_alloc_hook+0x1/0x2
 skb_page_frag_refill+0x1/0x2
 ext4_readdir+0x1/0x2

Page allocated via order 1, mask 0x2(GFP_USER), pid 1, tgid 1 (init), ts 6 ns
PFN 4 type Movable Block 0 type Unmovable Flags 0x0()
 post_alloc_hook+0x1/0x2
Page has been migrated, last migrate reason: compaction
Charged to memcg x

Page allocated via order 0, mask 0x2(GFP_NOFS), pid 1, tgid 1 (init), ts 6 ns
PFN 0x7 type Unmovable Block 0 type Unmovable Flags 0x0()
 bdev_getblk+0x1/0x2

";

    fn refine(text: &str, classes: &mut [PageClass]) -> Result<(), HostError> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(PAGE_OWNER);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        let mut owners = Owners::open(&Root::offline(directory.path())).unwrap();
        // In two chunks, so that a record spans their border.
        let (first, second) = classes.split_at_mut(5);
        owners.refine(Pfn(0), first)?;
        owners.refine(Pfn(5), second)
    }

    #[test]
    fn owners_turn_bare_pages_into_what_they_are() {
        let mut classes = [PageClass::Bare; 8];
        classes[3] = PageClass::Free;
        classes[7] = PageClass::File;
        refine(TEXT, &mut classes).unwrap();
        let expected = [
            PageClass::FreePcp,
            PageClass::FreePcp,
            PageClass::Network,
            PageClass::Free,
            PageClass::LruOther,
            PageClass::LruOther,
            PageClass::FreePcp,
            PageClass::FsMetadata,
        ];
        assert_eq!(classes, expected);
    }

    #[test]
    fn nonsense_is_named_by_line() {
        let error = |text: &str| {
            refine(text, &mut [PageClass::Bare; 8])
                .unwrap_err()
                .to_string()
        };
        assert!(error("hello\n").contains("page_owner:1: expected `Page allocated"));
        assert!(error("Page allocated via order 99, x\n").contains(":1: order"));
        assert!(error("Page allocated via order 0, x\nPFN x\n").contains(":2: expected `PFN"));
        assert!(error("Page allocated via order 0, x\n").contains(":2: expected `PFN"));
        let twice = TEXT.replace("PFN 0x7", "PFN 0x1");
        assert!(error(&twice).contains("ascending"), "{}", error(&twice));
        assert!(error(&"x".repeat(100_000)).contains("too long"));
    }
}
