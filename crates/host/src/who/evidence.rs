// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `struct page` itself says about the owner of an unmovable page, as runs.

use crate::structpage::{PAGE_WORDS, PageFormat};
use ample_pfn::{PageClass, Pfn, PfnRange, Source};

/// Neighbouring unmovable pages that say the same about their owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvidenceRun {
    pub range: PfnRange,
    pub class: PageClass,
    /// Slab cache, page pool or address space: a kernel address, or 0.
    pub key: u64,
    /// `memcg_data`: who is charged.
    pub charge: u64,
    /// One compound page: whoever holds a part of it holds all of it.
    pub compound: bool,
}

/// Words of `struct page` that name an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvidenceWords {
    pub compound_head: usize,
    pub mapping: usize,
    pub slab_cache: Option<usize>,
    pub page_pool: Option<usize>,
    pub charge: Option<usize>,
}

impl EvidenceWords {
    pub fn of(format: &PageFormat, page_pool: Option<usize>, charge: Option<usize>) -> Self {
        EvidenceWords {
            compound_head: format.compound_head,
            mapping: format.mapping,
            slab_cache: format.slab_cache,
            page_pool,
            charge,
        }
    }
}

/// Collects the runs while pages are read in ascending order.
#[derive(Debug)]
pub struct Evidence {
    words: EvidenceWords,
    pub runs: Vec<EvidenceRun>,
}

impl Evidence {
    pub fn new(words: EvidenceWords) -> Evidence {
        Evidence {
            words,
            runs: Vec::new(),
        }
    }

    /// Takes in consecutive pages from `start`, with their classes.
    pub fn push(&mut self, start: Pfn, words: &[u64], classes: &[PageClass]) {
        let (pages, _) = words.as_chunks::<PAGE_WORDS>();
        for ((pfn, page), &class) in (start.0..).zip(pages).zip(classes) {
            if class.source() != Source::None || class == PageClass::File {
                self.page(pfn, page, class);
            }
        }
    }

    fn page(&mut self, pfn: u64, page: &[u64; PAGE_WORDS], class: PageClass) {
        let tail = page[self.words.compound_head] & 1 == 1;
        let last = self.runs.last_mut();
        let last = last.filter(|run| run.range.end.0 == pfn && run.class == class);
        let word = |index: Option<usize>| index.map_or(0, |index| page[index]);
        let run = EvidenceRun {
            range: PfnRange::new(Pfn(pfn), Pfn(pfn + 1)),
            class,
            key: match class {
                PageClass::Slab | PageClass::SlabReclaimable => word(self.words.slab_cache),
                PageClass::Network => word(self.words.page_pool),
                PageClass::File => page[self.words.mapping],
                _ => 0,
            },
            charge: match class {
                PageClass::PageTable
                | PageClass::KernelOther
                | PageClass::KernelCompound
                | PageClass::Pinned => word(self.words.charge),
                _ => 0,
            },
            compound: class == PageClass::KernelCompound,
        };
        let same =
            |last: &EvidenceRun| (last.key, last.charge) == (run.key, run.charge) && !run.compound;
        match last {
            // The words of a tail mean other things; it belongs to the head before it.
            Some(last) if tail || same(last) => last.range.end = run.range.end,
            _ if tail => self.runs.push(EvidenceRun {
                key: 0,
                charge: 0,
                ..run
            }),
            _ => self.runs.push(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: EvidenceWords = EvidenceWords {
        compound_head: 1,
        mapping: 3,
        slab_cache: Some(1),
        page_pool: Some(2),
        charge: Some(7),
    };

    #[test]
    fn tails_belong_to_their_head_and_compound_pages_stand_apart() {
        let head = |charge: u64| [0, 0, 0, 0, 0, 0, 0, charge];
        let tail = [0, 0xff01, 0, 0, 0, 0, 0, 99];
        let slab = [0, 0x1000, 0, 0, 0, 0, 0, 5];
        let pages = [head(1), tail, head(1), tail, slab, slab, head(3)];
        let compound = PageClass::KernelCompound;
        let classes = [
            compound,
            compound,
            compound,
            compound,
            PageClass::Slab,
            PageClass::Slab,
            PageClass::Anon,
        ];
        let mut evidence = Evidence::new(WORDS);
        evidence.push(Pfn(100), pages.as_flattened(), &classes);
        // A tail whose head was not met says nothing.
        evidence.push(Pfn(200), &tail, &[compound]);
        let seen: Vec<_> = evidence
            .runs
            .iter()
            .map(|run| (run.range.start.0, run.range.pages(), run.key, run.charge))
            .collect();
        let expected = [
            (100, 2, 0, 1),
            (102, 2, 0, 1),
            (104, 2, 0x1000, 0),
            (200, 1, 0, 0),
        ];
        assert_eq!(seen, expected);
    }
}
