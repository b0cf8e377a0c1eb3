// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reader that copies `struct page` in bulk through a BPF program.

mod events;
mod fields;
mod format;
mod kernel;
mod pageblocks;
mod traffic;
mod who;

pub(crate) use self::events::EventPrograms;
pub use self::traffic::TrafficRecorder;

use self::kernel::BpfPrograms;
use crate::procfs::sections;
use crate::structpage::{PAGE_WORDS, PageDecoder};
use crate::who::evidence::Evidence;
use crate::{HostError, PageRuns, PageblockRun, Reader, Root, System, Who};
use ample_pfn::{Coverage, Layout, PageClass, PageSource, Pfn, PfnRange};

/// Bytes of one `struct page`.
const PAGE_BYTES: u64 = 8 * PAGE_WORDS as u64;
/// `struct page`s in 4 KB, the unit in which the memory map is itself mapped.
const SMALLEST_COPY_PAGES: u64 = 4096 / PAGE_BYTES;

/// Finds where the memory map lies, for readers that are opened later with fewer rights.
///
/// # Errors
/// As [`BpfReader::open`].
pub(crate) fn resolve_memory_map() -> Result<(), HostError> {
    BpfPrograms::load()?.memory_map_base().map(drop)
}

/// Reads `struct page` through BPF: reference counts, page types, pins and slab caches.
pub struct BpfReader {
    layout: Layout,
    ram: Vec<PfnRange>,
    kernel: BpfPrograms,
    decoder: PageDecoder,
    base: u64,
    unreadable_pages: u64,
    uptime_seconds: u64,
    evidence: Option<Evidence>,
}

impl BpfReader {
    /// Loads the programs and finds the memory map.
    ///
    /// # Errors
    /// [`HostError::Bpf`] with the reason: an offline root, no BTF, no privilege, a kernel whose
    /// `struct page` this version does not know.
    pub fn open(root: &Root, system: &System) -> Result<BpfReader, HostError> {
        if !root.is_live() {
            return Err(HostError::Bpf(
                "it reads the running kernel, not a saved tree".into(),
            ));
        }
        let mut kernel = BpfPrograms::load()?;
        let format = format::page_format(&kernel.layout()).map_err(HostError::Bpf)?;
        let base = kernel.memory_map_base()?;
        Ok(BpfReader {
            uptime_seconds: system.uptime_seconds.unwrap_or(0),
            evidence: None,
            layout: system.layout.clone(),
            ram: system.ram.clone(),
            decoder: PageDecoder::new(format, base),
            kernel,
            base,
            unreadable_pages: 0,
        })
    }

    /// Address of the `struct page` of frame 0.
    pub(crate) fn memory_map(&self) -> u64 {
        self.base
    }

    /// Decodes the chunk that was copied last, asking for slab caches not met before.
    fn decode(&mut self, start: Pfn, classes: &mut [PageClass]) {
        let mark = self.decoder.mark();
        let words = classes.len() * PAGE_WORDS;
        self.decoder
            .decode(start.0, &self.kernel.buffer()[..words], classes);
        let mut unknown = std::mem::take(&mut self.decoder.unknown_caches);
        if unknown.is_empty() {
            return;
        }
        unknown.sort_unstable();
        unknown.dedup();
        for cache in unknown {
            // A cache that cannot be read was being destroyed.
            let reclaimable = self.kernel.cache_is_reclaimable(cache).unwrap_or(false);
            self.decoder.learn_cache(cache, reclaimable);
        }
        self.decoder.rewind(mark);
        self.decoder
            .decode(start.0, &self.kernel.buffer()[..words], classes);
        self.decoder.unknown_caches.clear();
    }

    /// Copies and hands out one range. Where the memory map has a gap the range is halved until
    /// the gap stands alone; its frames stay holes.
    fn read(
        &mut self,
        range: PfnRange,
        classes: &mut [PageClass],
        sink: &mut dyn FnMut(Pfn, &[PageClass]),
    ) -> Result<(), HostError> {
        let address = self.base.wrapping_add(range.start.0 * PAGE_BYTES);
        if self.kernel.copy(address, range.pages() * PAGE_BYTES)? {
            let classes = &mut classes[..range.pages() as usize];
            self.decode(range.start, classes);
            if let Some(evidence) = &mut self.evidence {
                let words = classes.len() * PAGE_WORDS;
                evidence.push(range.start, &self.kernel.buffer()[..words], classes);
            }
            sink(range.start, classes);
        } else if range.pages() <= SMALLEST_COPY_PAGES {
            self.unreadable_pages += range.pages();
        } else {
            let half = (range.pages() / 2).next_multiple_of(SMALLEST_COPY_PAGES);
            let middle = Pfn(range.start.0 + half);
            self.read(PfnRange::new(range.start, middle), classes, sink)?;
            self.read(PfnRange::new(middle, range.end), classes, sink)?;
        }
        Ok(())
    }
}

impl PageSource for BpfReader {
    type Error = HostError;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn for_each_chunk(&mut self, sink: &mut dyn FnMut(Pfn, &[PageClass])) -> Result<(), HostError> {
        let chunk_pages = (self.kernel.buffer().len() / PAGE_WORDS) as u64;
        let mut classes = vec![PageClass::Hole; chunk_pages as usize];
        let ram = self.ram.clone();
        for part in sections(&ram) {
            let mut start = part.start;
            while start < part.end {
                let end = Pfn(start.0 - start.0 % chunk_pages + chunk_pages).min(part.end);
                self.read(PfnRange::new(start, end), &mut classes, sink)?;
                start = end;
            }
        }
        Ok(())
    }
}

impl Reader for BpfReader {
    fn name(&self) -> &'static str {
        "bpf"
    }

    fn coverage(&self) -> Coverage {
        Coverage {
            ambiguous_free_pages: Some(0),
            owners: false,
        }
    }

    fn restrict(&mut self, ranges: Vec<PfnRange>) {
        self.ram = ranges;
    }

    fn pageblocks(&mut self) -> Result<Option<Vec<PageblockRun>>, HostError> {
        pageblocks::read(&mut self.kernel, self.base, &self.ram).map(Some)
    }

    fn keep_owners(&mut self) -> Result<(), HostError> {
        self.evidence = Some(who::evidence(&mut self.kernel, self.decoder.format()));
        Ok(())
    }

    fn who(&mut self, pages: &PageRuns) -> Result<Option<Who>, HostError> {
        let Some(evidence) = &self.evidence else {
            return Ok(None);
        };
        who::who(
            &mut self.kernel,
            self.base,
            evidence,
            pages,
            self.uptime_seconds,
        )
        .map(Some)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "struct page was copied by a BPF program: reference counts tell pages free in \
             per-CPU lists from pages in use, so there are no intervals"
                .to_string(),
        ];
        if self.unreadable_pages > 0 {
            notes.push(format!(
                "{} pages have no readable struct page and are taken for holes",
                self.unreadable_pages
            ));
        }
        notes
    }
}
