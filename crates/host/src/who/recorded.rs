// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owners as `page_owner` recorded them: by the function that asked for memory.

use super::owners::{OwnerId, OwnerList, OwnerName};
use super::tally::ranked;
use super::{OwnerKind, Who};
use crate::{PageRuns, printable};
use ample_pfn::{PageClass, Pfn, PfnRange, Source};

/// Functions that allocate for others, by how their names begin after underscores: the page and
/// slab allocators, vmalloc, and the page cache (Linux 6.1 to 6.18).
const ALLOCATORS: &str = "alloc_contig alloc_frozen alloc_page alloc_slab allocate_slab \
    do_kmalloc do_kmem_cache filemap_alloc filemap_get_folio folio_alloc get_free_page \
    get_page_from_freelist get_zeroed_page kmalloc kmem_cache_alloc krealloc kvmalloc kvzalloc \
    memcg_ new_slab obj_cgroup pagecache_get_page post_alloc_hook prep_new_page save_stack \
    set_page_owner slab_alloc vmalloc vzalloc";

/// What stands for the stack of pages that are older than the recorder (`mm/page_owner.c`).
const EARLY: [&str; 2] = ["register_early_stack", "register_dummy_stack"];

/// Who allocated a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocationSite {
    /// The innermost function that is not an allocator, with its module.
    pub function: Option<String>,
    /// The control group that is charged.
    pub cgroup: Option<String>,
    /// When, in nanoseconds since boot.
    pub since_ns: Option<u64>,
}

impl AllocationSite {
    /// Takes in the line that a record begins with: `Page allocated via order 0, …, ts 5 ns`.
    pub fn begin(line: &str) -> AllocationSite {
        let since = line.split(", ts ").nth(1).unwrap_or("");
        AllocationSite {
            since_ns: since.split(' ').next().and_then(|ns| ns.parse().ok()),
            ..AllocationSite::default()
        }
    }

    /// Takes in a line below it: one of the stack (` function+0x1/0x2 [module]`), or who is
    /// charged.
    pub fn line(&mut self, line: &str) {
        if let Some((_, group)) = line
            .strip_prefix("Charged ")
            .and_then(|rest| rest.split_once("memcg "))
        {
            self.cgroup = Some(printable(group));
        }
        let Some(frame) = line.strip_prefix(' ').filter(|_| self.function.is_none()) else {
            return;
        };
        let (function, rest) = frame.split_once('+').unwrap_or((frame, ""));
        let bare = function.trim_start_matches('_');
        if ALLOCATORS.split(' ').any(|start| bare.starts_with(start)) {
            return;
        }
        if EARLY.contains(&function) {
            self.function = Some("before page_owner started".into());
            return;
        }
        let module = rest
            .split_once(' ')
            .map_or(String::new(), |(_, m)| format!(" {m}"));
        self.function = Some(printable(&format!("{function}{module}")));
    }
}

/// Collects the owners while pages are read in ascending order.
#[derive(Debug, Default)]
pub struct RecordedOwners {
    uptime_ns: u64,
    owners: OwnerList,
    held: Vec<(PfnRange, OwnerId)>,
    /// Record and class of the frame before, and its owner.
    last: Option<(u64, PageClass, OwnerId)>,
}

impl RecordedOwners {
    /// Nothing yet, on a machine that has been up for so long.
    pub fn new(uptime_seconds: u64) -> RecordedOwners {
        RecordedOwners {
            uptime_ns: uptime_seconds.saturating_mul(1_000_000_000),
            ..RecordedOwners::default()
        }
    }

    /// Takes in a frame with its record, if it has one: the record's first frame, and the site.
    pub fn push(&mut self, pfn: u64, class: PageClass, record: Option<(u64, &AllocationSite)>) {
        if class.source() == Source::None {
            return;
        }
        let start = record.map_or(u64::MAX, |(start, _)| start);
        let owner = match self.last {
            Some((last, of, owner)) if (last, of) == (start, class) => owner,
            _ => self.owner(class, record.map(|(_, site)| site)),
        };
        self.last = Some((start, class, owner));
        match self.held.last_mut() {
            Some((range, last)) if *last == owner && range.end.0 == pfn => range.end = Pfn(pfn + 1),
            _ => self
                .held
                .push((PfnRange::new(Pfn(pfn), Pfn(pfn + 1)), owner)),
        }
    }

    fn owner(&mut self, class: PageClass, site: Option<&AllocationSite>) -> OwnerId {
        let site = match (site, class) {
            (Some(site), _) => site,
            (None, PageClass::Reserved) => {
                return self
                    .owners
                    .id(OwnerName::new(OwnerKind::Boot, "taken at boot"));
            }
            (None, PageClass::HwPoison | PageClass::Offline) => {
                return self
                    .owners
                    .id(OwnerName::new(OwnerKind::Offline, class.name()));
            }
            (None, _) => {
                return self
                    .owners
                    .id(OwnerName::new(OwnerKind::Unknown, "no record"));
            }
        };
        let name = site.function.as_deref().unwrap_or("no stack");
        let owner = self.owners.id(OwnerName {
            cgroup: site.cgroup.clone(),
            ..OwnerName::new(kind_of(class), name)
        });
        if let Some(since) = site.since_ns {
            let age_ns = self.uptime_ns.saturating_sub(since);
            self.owners.age(owner, age_ns / 1_000_000_000);
        }
        owner
    }

    /// Who holds the pages that were read.
    pub fn who(&self, pages: &PageRuns) -> Who {
        ranked(&self.owners, &self.held, pages)
    }
}

fn kind_of(class: PageClass) -> OwnerKind {
    match class {
        PageClass::Slab | PageClass::SlabReclaimable => OwnerKind::Slab,
        PageClass::PageTable => OwnerKind::PageTable,
        PageClass::KernelStack => OwnerKind::KernelStack,
        PageClass::Network => OwnerKind::Socket,
        PageClass::FsBuffer | PageClass::FsMetadata => OwnerKind::FileSystem,
        PageClass::Pinned => OwnerKind::Pin,
        _ => OwnerKind::Allocation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_function_that_is_not_an_allocator_names_the_owner() {
        let mut site = AllocationSite::begin(
            "Page allocated via order 0, mask 0x1(GFP), pid 1, tgid 1 (a, ts), ts 7000000000 ns",
        );
        for line in [
            " post_alloc_hook+0x1/0x2",
            " __alloc_pages_noprof+0x1/0x2",
            " ___slab_alloc+0x1/0x2",
            " kmem_cache_alloc_noprof+0x1/0x2",
            " ext4_alloc_inode+0x1/0x2 [ext4]",
            " alloc_inode+0x1/0x2",
            "Charged (via objcg) to offline memcg a\x1bb",
        ] {
            site.line(line);
        }
        assert_eq!(site.function.as_deref(), Some("ext4_alloc_inode [ext4]"));
        assert_eq!(site.cgroup.as_deref(), Some("a\\u{1b}b"));
        assert_eq!(site.since_ns, Some(7_000_000_000));
        let mut early = AllocationSite::default();
        early.line(" register_early_stack+0x1/0x2");
        assert_eq!(early.function.as_deref(), Some("before page_owner started"));
    }

    #[test]
    fn owners_without_a_record_are_counted_as_such() {
        let mut owners = RecordedOwners::new(10);
        let site = AllocationSite {
            function: Some("skb_page_frag_refill".into()),
            since_ns: Some(4_000_000_000),
            ..AllocationSite::default()
        };
        for pfn in 0..4 {
            owners.push(pfn, PageClass::Network, Some((0, &site)));
        }
        owners.push(4, PageClass::Anon, None);
        owners.push(5, PageClass::Reserved, None);
        owners.push(6, PageClass::Slab, None);
        let mut encoder = crate::RunEncoder::new(&ample_pfn::Layout::single(Pfn(0), 1024));
        encoder.push(Pfn(0), &[PageClass::Free; 1024]);
        let who = owners.who(&encoder.finish());
        let of = |kind| {
            let own = who
                .owners
                .iter()
                .find(|own| own.kind == kind)
                .expect("an owner");
            (own.pages, own.blocks_2m, own.alone_2m, own.age_seconds)
        };
        assert_eq!(of(OwnerKind::Socket), (4, 1, 0, Some(6)));
        assert_eq!(of(OwnerKind::Boot), (1, 1, 0, None));
        assert_eq!(who.unknown_pages(), 1);
        assert_eq!(who.pages(), 6);
    }
}
