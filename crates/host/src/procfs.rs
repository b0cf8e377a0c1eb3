// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reader over `/proc/kpageflags`.
//!
//! The kernel's side of the read costs 40–70 ns a page whatever the chunk; parsing adds 1–2 ns.
//! Reading is by section (128 MB of memory, 256 KB of flags), which is also the unit in which
//! some kernels initialise `struct page`.
//!
//! `kpagecount` is not read: the one thing that it could add to a class, "mapped or not", is
//! the flag `MMAP`. `kpagecgroup` is read for pages without any flag only: a page that is
//! charged to a memory cgroup is in use and not free in a per-CPU list.

use crate::flags::{classify, follows_head};
use crate::{HostError, Reader, Root, System};
use ample_pfn::{Coverage, Layout, PageClass, PageSource, Pfn, PfnRange};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Frames of a section of the sparse memory model on x86-64 (`SECTION_SIZE_BITS` = 27).
const SECTION_PAGES: u64 = 1 << 15;
const WORD_BYTES: usize = 8;
/// Bare runs this close together are fetched from `kpagecgroup` in one read.
const JOIN_GAP_PAGES: usize = 8;

/// Reads page flags through `/proc`.
#[derive(Debug)]
pub struct ProcfsReader {
    root: Root,
    system: System,
    flags: File,
    cgroups: Option<File>,
    /// Pages per zone that the buddy allocator does not manage, on a kernel that initialises
    /// memory lazily; 0 elsewhere.
    unmanaged_pages: Vec<u64>,
    /// What is left of them in this reading.
    budget: Vec<u64>,
    lazy_pages: u64,
    pcp_pages: u64,
    charged_pages: u64,
}

impl ProcfsReader {
    /// Opens the flags of the machine below `root`.
    ///
    /// # Errors
    /// [`HostError::Io`] when `/proc/kpageflags` cannot be opened: without `CAP_SYS_ADMIN`, or
    /// when the kernel has no `CONFIG_PROC_PAGE_MONITOR`.
    pub fn open(root: &Root, system: &System) -> Result<ProcfsReader, HostError> {
        let flags = root.open("proc/kpageflags")?;
        // A kernel that initialises memory lazily counts that memory as free without listing
        // it. Elsewhere flag-less sections are no sign of anything.
        let lazy = system.unlisted_free_pages() >= SECTION_PAGES;
        let budget = |zone: &crate::ZoneCounters| {
            if lazy {
                zone.present_pages.saturating_sub(zone.managed_pages)
            } else {
                0
            }
        };
        Ok(ProcfsReader {
            root: root.clone(),
            budget: Vec::new(),
            unmanaged_pages: system
                .layout
                .zones()
                .iter()
                .map(|zone| {
                    let named =
                        |c: &&crate::ZoneCounters| c.node == zone.node && c.name == zone.name;
                    system.zones.iter().find(named).map_or(0, budget)
                })
                .collect(),
            flags,
            cgroups: root.open("proc/kpagecgroup").ok(),
            pcp_pages: system.pcp_pages(),
            system: system.clone(),
            lazy_pages: 0,
            charged_pages: 0,
        })
    }

    /// Fills `words` from the file at `pfn`; returns the number of whole words there were.
    fn fill(file: &File, pfn: Pfn, words: &mut [u8]) -> std::io::Result<usize> {
        let mut done = 0;
        while done < words.len() {
            let at = pfn.0 * WORD_BYTES as u64 + done as u64;
            match file.read_at(&mut words[done..], at) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done / WORD_BYTES)
    }

    /// Calls a section that has no flag anywhere uninitialised, as far as the zone has memory
    /// that the buddy allocator does not manage.
    fn mark_lazy(&mut self, start: Pfn, classes: &mut [PageClass]) {
        let pages = classes.len() as u64;
        let Some(zone) = self.system.layout.zone_of(start) else {
            return;
        };
        let budget = &mut self.budget[zone];
        if pages <= *budget && classes.iter().all(|&class| class == PageClass::Bare) {
            *budget -= pages;
            self.lazy_pages += pages;
            classes.fill(PageClass::Uninitialised);
        }
    }

    /// Turns bare pages that are charged to a memory cgroup into kernel pages known to be in
    /// use. A failed read leaves them bare.
    fn mark_charged(&mut self, start: Pfn, classes: &mut [PageClass], words: &mut [u8]) {
        let Some(file) = &self.cgroups else { return };
        for (from, to) in bare_stretches(classes) {
            let part = &mut words[..(to - from) * WORD_BYTES];
            let read = ProcfsReader::fill(file, Pfn(start.0 + from as u64), part).unwrap_or(0);
            let inodes = part.chunks_exact(WORD_BYTES).take(read);
            for (class, inode) in classes[from..to].iter_mut().zip(inodes) {
                if *class == PageClass::Bare && inode.iter().any(|&byte| byte != 0) {
                    *class = PageClass::KernelOther;
                    self.charged_pages += 1;
                }
            }
        }
    }
}

/// Stretches of bare pages, joined over short gaps, as index ranges.
fn bare_stretches(classes: &[PageClass]) -> Vec<(usize, usize)> {
    let mut stretches: Vec<(usize, usize)> = Vec::new();
    for (index, _) in classes
        .iter()
        .enumerate()
        .filter(|&(_, &c)| c == PageClass::Bare)
    {
        match stretches.last_mut() {
            Some((_, end)) if index <= *end + JOIN_GAP_PAGES => *end = index + 1,
            _ => stretches.push((index, index + 1)),
        }
    }
    stretches
}

/// Classifies the words of consecutive frames into `classes`.
fn classify_words(words: &[u8], classes: &mut [PageClass]) {
    let (mut seen, mut class) = (0u64, classify(0));
    for (word, slot) in words.chunks_exact(WORD_BYTES).zip(classes) {
        let flags = u64::from_ne_bytes(word.try_into().expect("8 bytes"));
        // Neighbours mostly have equal flags.
        if flags != seen {
            let own = classify(flags);
            let keeps_head = follows_head(flags) && own == PageClass::File;
            class = if keeps_head { class } else { own };
            seen = flags;
        }
        *slot = class;
    }
}

/// Parts of `ram` of at most one section, none crossing a section border.
pub(crate) fn sections(ram: &[PfnRange]) -> impl Iterator<Item = PfnRange> + '_ {
    ram.iter().flat_map(|&range| {
        let mut next = range.start;
        std::iter::from_fn(move || {
            let border = Pfn((next.0 / SECTION_PAGES + 1) * SECTION_PAGES);
            let part = PfnRange::new(next, border.min(range.end));
            next = part.end;
            (!part.is_empty()).then_some(part)
        })
    })
}

impl PageSource for ProcfsReader {
    type Error = HostError;

    fn layout(&self) -> &Layout {
        &self.system.layout
    }

    fn for_each_chunk(&mut self, sink: &mut dyn FnMut(Pfn, &[PageClass])) -> Result<(), HostError> {
        self.budget.clone_from(&self.unmanaged_pages);
        (self.lazy_pages, self.charged_pages) = (0, 0);
        let mut read_pages = 0;
        let mut words = vec![0u8; SECTION_PAGES as usize * WORD_BYTES];
        let mut classes = vec![PageClass::Hole; SECTION_PAGES as usize];
        let ram = self.system.ram.clone();
        for part in sections(&ram) {
            let words = &mut words[..part.pages() as usize * WORD_BYTES];
            let path = || self.root.path("proc/kpageflags");
            let read = ProcfsReader::fill(&self.flags, part.start, words)
                .map_err(|error| HostError::io(&path(), error))?;
            read_pages += read;
            let classes = &mut classes[..read];
            classify_words(&words[..read * WORD_BYTES], classes);
            self.mark_lazy(part.start, classes);
            self.mark_charged(part.start, classes, words);
            sink(part.start, classes);
        }
        if read_pages == 0 {
            let path = self.root.path("proc/kpageflags");
            let what = "holds no page of the memory that /proc/iomem names";
            return Err(HostError::parse(&path, 0, what));
        }
        // Per-CPU lists breathe while we read: the bound is the larger of before and after.
        if let Ok(zones) = crate::proc::zones(&self.root) {
            let after = zones.iter().map(|zone| zone.pcp_pages).sum();
            self.pcp_pages = self.pcp_pages.max(after);
        }
        Ok(())
    }
}

impl Reader for ProcfsReader {
    fn name(&self) -> &'static str {
        "procfs"
    }

    fn coverage(&self) -> Coverage {
        let unlisted = self
            .system
            .unlisted_free_pages()
            .saturating_sub(self.lazy_pages);
        Coverage {
            ambiguous_free_pages: Some(self.pcp_pages + unlisted),
            owners: false,
        }
    }

    fn restrict(&mut self, ranges: Vec<PfnRange>) {
        self.system.ram = ranges;
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "page flags show neither reference counts nor owners: pages without a flag are in \
             use by the kernel or free in a per-CPU list, hence the intervals"
                .to_string(),
        ];
        if self.lazy_pages > 0 {
            notes.push(format!(
                "{} pages lie in sections that the kernel has not initialised yet \
                 (no flag on any page, not managed by the buddy allocator); counted as free",
                self.lazy_pages
            ));
        }
        if self.charged_pages > 0 {
            notes.push(format!(
                "{} flag-less pages are charged to a memory cgroup and therefore in use",
                self.charged_pages
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags;

    #[test]
    fn sections_split_at_borders_only() {
        let ram = [
            PfnRange::new(Pfn(1), Pfn(159)),
            PfnRange::new(Pfn(32_000), Pfn(66_000)),
        ];
        let parts: Vec<_> = sections(&ram)
            .map(|part| (part.start.0, part.end.0))
            .collect();
        let expected = [
            (1, 159),
            (32_000, 32_768),
            (32_768, 65_536),
            (65_536, 66_000),
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn tails_of_old_kernels_follow_their_head() {
        let head = flags::LRU | flags::ANON | flags::THP | flags::COMPOUND_HEAD;
        let tail = flags::THP | flags::COMPOUND_TAIL;
        let words: Vec<u8> = [
            head,
            tail,
            tail,
            flags::SLAB,
            flags::SLAB | flags::COMPOUND_TAIL,
        ]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
        let mut classes = [PageClass::Hole; 5];
        classify_words(&words, &mut classes);
        let expected = [
            PageClass::Anon,
            PageClass::Anon,
            PageClass::Anon,
            PageClass::Slab,
            PageClass::Slab,
        ];
        assert_eq!(classes, expected);
    }

    #[test]
    fn bare_pages_are_fetched_in_joined_stretches() {
        let mut classes = [PageClass::Anon; 64];
        for index in [3, 4, 10, 40] {
            classes[index] = PageClass::Bare;
        }
        assert_eq!(bare_stretches(&classes), [(3, 11), (40, 41)]);
    }
}
