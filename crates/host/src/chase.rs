// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measured latency of dependent random loads over memory in pages of a chosen size.
//!
//! The loads are uniform over all lines of a range and each address takes in the value loaded
//! before, so that no two overlap. Uniform loads miss a cache or TLB of `E` of `W` entries with
//! probability 1 − E/W whatever it replaces: the figure does not hang on unpublished policies.
//!
//! Loads of one line of each page tell translation from data: of so many pages the lines fit into a
//! near cache, while their translations miss the TLBs.
//!
//! A chain goes through words that its maker chooses, in the order that he chooses, round and
//! round: of strided words it is known which sets of a TLB and which tables they use.

use crate::clock::thread_ns;
use crate::{HostError, Root};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};
use serde::{Deserialize, Serialize};
use std::ffi::c_void;
use std::hint::black_box;

/// Pages behind a range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageBacking {
    /// 4 KB pages: transparent huge pages are advised against.
    Small,
    /// 2 MB transparent huge pages, asked for by `madvise`.
    Thp,
    /// 1 GB pages of HugeTLB, which must have been reserved.
    Huge1G,
    /// 4 KB pages on the frames of 2 MB pages: transparent huge pages that were taken apart. What
    /// they cost more than [`PageBacking::Thp`] is one more level of the guest's own table.
    Split,
}

/// Which lines of a range are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadPattern {
    /// Every line of it, uniformly.
    #[default]
    Lines,
    /// One line of each 4 KB, at a place of its own.
    Pages,
}

impl PageBacking {
    /// Words for messages.
    pub fn name(self) -> &'static str {
        match self {
            PageBacking::Small => "4 KB pages",
            PageBacking::Thp => "2 MB transparent huge pages",
            PageBacking::Huge1G => "1 GB pages",
            PageBacking::Split => "4 KB pages on frames in order",
        }
    }

    /// What to do when the kernel refuses.
    pub(crate) fn hint(self) -> &'static str {
        match self {
            PageBacking::Huge1G => {
                "; reserve some as root: write their number to \
                 /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"
            }
            _ => "; ask for less",
        }
    }
}

/// Anonymous memory in pages of a chosen size, touched, freed when dropped.
pub struct TestMemory {
    start: *mut c_void,
    mapped_bytes: usize,
    /// First word that belongs to the range: aligned to its page size.
    first_word: usize,
    words: usize,
    backing: PageBacking,
}

const WORDS_PER_LINE: u64 = 8;
const ALIGN_2M: usize = 2 << 20;

impl TestMemory {
    /// Maps and touches `bytes`, a multiple of 4096 (of 1 GB for [`PageBacking::Huge1G`]).
    ///
    /// # Errors
    /// If the kernel does not give the memory; for 1 GB pages the message says how to get some.
    pub fn new(bytes: u64, backing: PageBacking) -> Result<TestMemory, HostError> {
        let mut memory = TestMemory::untouched(bytes, backing)?;
        memory.touch(0..bytes / 4096)?;
        Ok(memory)
    }

    /// Maps `bytes` and touches the page of each of the words at `offsets`, in bytes: the rest
    /// costs no memory with [`PageBacking::Small`].
    ///
    /// # Errors
    /// As [`TestMemory::new`].
    ///
    /// # Panics
    /// If an offset lies outside.
    pub fn sparse(
        bytes: u64,
        backing: PageBacking,
        offsets: &[u64],
    ) -> Result<TestMemory, HostError> {
        let mut memory = TestMemory::untouched(bytes, backing)?;
        memory.touch(offsets.iter().map(|offset| offset / 4096))?;
        Ok(memory)
    }

    fn untouched(bytes: u64, backing: PageBacking) -> Result<TestMemory, HostError> {
        let slack = if backing == PageBacking::Huge1G {
            0
        } else {
            ALIGN_2M
        };
        let mapped_bytes = bytes as usize + slack;
        let flags = match backing {
            PageBacking::Huge1G => MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_1GB,
            _ => MapFlags::PRIVATE | MapFlags::NORESERVE,
        };
        let failed = |cause| refused(bytes, backing, cause);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory
        // of this process.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        }
        .map_err(failed)?;
        let skip = match backing {
            PageBacking::Huge1G => 0,
            _ => (start as usize).next_multiple_of(ALIGN_2M) - start as usize,
        };
        let memory = TestMemory {
            start,
            mapped_bytes,
            first_word: skip / 8,
            words: bytes as usize / 8,
            backing,
        };
        match backing {
            PageBacking::Small => memory.advise(Advice::LinuxNoHugepage)?,
            PageBacking::Thp | PageBacking::Split => memory.advise(Advice::LinuxHugepage)?,
            PageBacking::Huge1G => {}
        }
        Ok(memory)
    }

    fn advise(&self, advice: Advice) -> Result<(), HostError> {
        // SAFETY: exactly the mapping that was made; the advices given change nothing it holds.
        unsafe { madvise(self.start, self.mapped_bytes, advice) }
            .map_err(|cause| refused(self.words as u64 * 8, self.backing, cause))
    }

    /// Touches these pages of the range, and takes huge pages apart where that was asked for.
    fn touch(&mut self, pages: impl Iterator<Item = u64>) -> Result<(), HostError> {
        let words = self.words_mut();
        for page in pages {
            words[page as usize * 512] = black_box(0);
        }
        match self.backing {
            PageBacking::Split => self.take_apart(),
            _ => Ok(()),
        }
    }

    /// Makes 4 KB pages of the huge ones, on the same frames: the kernel takes a huge page apart
    /// when part of it gets other rights, and does not put it together again.
    fn take_apart(&self) -> Result<(), HostError> {
        for word in (0..self.words).step_by(ALIGN_2M / 8) {
            for rights in [
                MprotectFlags::READ,
                MprotectFlags::READ | MprotectFlags::WRITE,
            ] {
                // SAFETY: one page of the mapping that was made; nothing writes to it between the
                // two calls, after which it has the rights that it had.
                unsafe {
                    mprotect(
                        self.start.byte_add(8 * (self.first_word + word)),
                        4096,
                        rights,
                    )
                }
                .map_err(|cause| refused(self.words as u64 * 8, self.backing, cause))?;
            }
        }
        self.advise(Advice::LinuxNoHugepage)
    }

    /// Makes a chain: the word at each of these offsets, in bytes, names the next, the last the
    /// first.
    ///
    /// # Panics
    /// If an offset lies outside.
    pub fn link(&mut self, offsets: &[u64]) {
        let words = self.words_mut();
        for (at, &offset) in offsets.iter().enumerate() {
            words[offset as usize / 8] = offsets[(at + 1) % offsets.len()] / 8;
        }
    }

    /// Processor time of `hops` loads along the chain from the word at an offset, in ns a hop.
    pub fn ns_per_link(&self, from: u64, hops: u64) -> f64 {
        let words = self.words();
        let started = thread_ns();
        black_box(follow(words, from / 8, hops));
        (thread_ns() - started) as f64 / hops as f64
    }

    fn words(&self) -> &[u64] {
        // SAFETY: the range lies inside the mapping, which lives as long as `self`, is readable
        // and holds zeros or what `words_mut` wrote; every bit pattern is a valid u64.
        unsafe {
            let first = self.start.cast::<u64>().add(self.first_word);
            std::slice::from_raw_parts(first, self.words)
        }
    }

    fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `words`; the mapping is writable and `self` is borrowed mutably.
        unsafe {
            let first = self.start.cast::<u64>().add(self.first_word);
            std::slice::from_raw_parts_mut(first, self.words)
        }
    }

    /// Share of the mapping that the kernel backs with transparent huge pages, from
    /// `/proc/self/smaps`; None if it does not say.
    pub fn thp_share(&self) -> Option<f64> {
        let text = Root::live().read("proc/self/smaps").ok()?;
        let address = self.start as usize + self.first_word * 8;
        let kilobytes = huge_kilobytes(&text, address as u64)?;
        Some((kilobytes * 1024) as f64 / (self.words * 8) as f64)
    }

    /// The page frames behind the range, one for each 4 KB, from `/proc/self/pagemap`; None if the
    /// kernel does not tell (it tells root).
    pub fn frames(&self) -> Option<Vec<u64>> {
        let pages = 0..self.words as u64 * 8 / 4096;
        self.frames_at(&pages.map(|page| page << 12).collect::<Vec<u64>>())
    }

    /// The page frames behind the words at these offsets, in bytes; None as with
    /// [`TestMemory::frames`].
    pub fn frames_at(&self, offsets: &[u64]) -> Option<Vec<u64>> {
        const FRAME: u64 = (1 << 55) - 1;
        let pagemap = std::fs::File::open("/proc/self/pagemap").ok()?;
        let first = (self.start as u64 + self.first_word as u64 * 8) / 4096;
        let frame = |offset: &u64| {
            let (mut entry, page) = ([0; 8], first + offset / 4096);
            std::os::unix::fs::FileExt::read_exact_at(&pagemap, &mut entry, page * 8).ok()?;
            Some(u64::from_ne_bytes(entry) & FRAME).filter(|&frame| frame != 0)
        };
        offsets.iter().map(frame).collect()
    }

    /// Processor time of `hops` dependent loads over the first `bytes` of the range, in ns a hop.
    ///
    /// # Panics
    /// If `bytes` is less than a line (a page, if one line of each page is loaded) or more than the
    /// range.
    pub fn ns_per_hop(&self, bytes: u64, pattern: LoadPattern, hops: u64, seed: u64) -> f64 {
        let words = &self.words()[..bytes as usize / 8];
        let loaded = match pattern {
            LoadPattern::Lines => bytes / 64,
            LoadPattern::Pages => bytes / 4096,
        };
        assert!(loaded > 0, "nothing to load in {bytes} bytes");
        let started = thread_ns();
        black_box(match pattern {
            LoadPattern::Lines => hop(words, loaded, hops, seed, |line| line),
            LoadPattern::Pages => hop(words, loaded, hops, seed, line_of_page),
        });
        (thread_ns() - started) as f64 / hops as f64
    }
}

fn refused(bytes: u64, backing: PageBacking, cause: rustix::io::Errno) -> HostError {
    HostError::TestMemory {
        bytes,
        backing,
        cause: cause.into(),
    }
}

/// The loop under test of a chain: each load's value is the number of the next word.
#[inline(never)]
fn follow(words: &[u64], from: u64, hops: u64) -> u64 {
    let mut at = from;
    for _ in 0..hops {
        at = words.get(at as usize).copied().unwrap_or(0);
    }
    at
}

/// The loop under test: a linear congruential generator runs ahead of the loads; what makes the
/// loads wait for each other is the loaded value, which is always 0.
#[inline(never)]
fn hop(words: &[u64], some: u64, hops: u64, seed: u64, line_of: impl Fn(u64) -> u64) -> u64 {
    let mut state = seed;
    let mut loaded = 0u64;
    for _ in 0..hops {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        let line = line_of(((state >> 32) * some) >> 32);
        let word = line * WORDS_PER_LINE + loaded;
        loaded = words.get(word as usize).copied().unwrap_or(0);
    }
    loaded
}

/// The line of a page that is loaded: lines of all pages at one place would share a few sets of
/// each cache.
fn line_of_page(page: u64) -> u64 {
    page * 64 + (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

/// `AnonHugePages` of the mapping that holds `address`, kB.
fn huge_kilobytes(smaps: &str, address: u64) -> Option<u64> {
    let mut inside = false;
    for line in smaps.lines() {
        let head = line.split(' ').next().unwrap_or("");
        if let Some((low, high)) = head.split_once('-') {
            let hex = |text| u64::from_str_radix(text, 16);
            if let (Ok(low), Ok(high)) = (hex(low), hex(high)) {
                inside = (low..high).contains(&address);
            }
        } else if inside && head == "AnonHugePages:" {
            return line.split_whitespace().nth(1)?.parse().ok();
        }
    }
    None
}

impl Drop for TestMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; no slice of it outlives `self`.
        let unmapped = unsafe { munmap(self.start, self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pages_are_small_and_every_size_can_be_measured() {
        let memory = TestMemory::new(8 << 20, PageBacking::Small).unwrap();
        assert_eq!(memory.thp_share(), Some(0.0));
        for bytes in [64, 4096, 8 << 20] {
            assert!(memory.ns_per_hop(bytes, LoadPattern::Lines, 1000, 1) > 0.0);
        }
        assert!(memory.ns_per_hop(8 << 20, LoadPattern::Pages, 1000, 1) > 0.0);
        // Root is told the frames, all of them different.
        if let Some(mut frames) = memory.frames() {
            frames.sort_unstable();
            frames.dedup();
            assert_eq!(frames.len(), 2048);
        }
    }

    /// Where the kernel gave huge pages and tells frames, those of a block stay in order.
    #[test]
    fn huge_pages_that_were_taken_apart_are_small_pages_in_order() {
        let huge = TestMemory::new(4 << 20, PageBacking::Thp).unwrap();
        let split = TestMemory::new(4 << 20, PageBacking::Split).unwrap();
        assert_eq!(split.thp_share(), Some(0.0));
        if huge.thp_share() == Some(1.0)
            && let Some(frames) = split.frames()
        {
            for block in frames.chunks(512) {
                assert!(block.windows(2).all(|pair| pair[1] == pair[0] + 1));
            }
        }
    }

    #[test]
    fn a_chain_goes_round_the_words_it_was_made_of() {
        let offsets: Vec<u64> = [5, 0, 9, 2].iter().map(|at| at * 4160).collect();
        let mut memory = TestMemory::sparse(1 << 20, PageBacking::Small, &offsets).unwrap();
        memory.link(&offsets);
        for (hops, at) in [(0, 0), (1, 1), (3, 3), (4, 0), (401, 1)] {
            let word = follow(memory.words(), offsets[0] / 8, hops);
            assert_eq!(word, offsets[at] / 8, "{hops} hops");
        }
        assert!(memory.ns_per_link(offsets[2], 1000) > 0.0);
    }

    #[test]
    fn loads_stay_inside_and_depend_on_what_they_load() {
        // With a 1 in every word each hop lands on the word after the line's first.
        let words = [1u64; 8 * 100];
        assert_eq!(hop(&words, 100, 1000, 7, |line| line), 1);
        assert_eq!(hop(&[0u64; 8], 1, 1000, 7, |line| line), 0);
        // The last page is inside, too: all places but those are 1.
        let mut pages = vec![1u64; 512 * 3];
        for page in 0..3 {
            pages[line_of_page(page) as usize * 8] = 0;
        }
        assert_eq!(hop(&pages, 3, 1000, 7, line_of_page), 0);
    }

    #[test]
    fn missing_huge_pages_are_explained() {
        // More 1 GB pages than any machine of today has.
        let error = match TestMemory::new(1 << 46, PageBacking::Huge1G) {
            Ok(_) => panic!("64 TB in 1 GB pages"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("nr_hugepages"), "{error}");
    }

    #[test]
    fn smaps_are_read_by_address() {
        let text = "1000-2000 rw-p 0 00:00 0\nRss: 4 kB\nAnonHugePages:       0 kB\n\
                    200000-600000 rw-p 0 00:00 0\nAnonHugePages:    2048 kB\n";
        assert_eq!(huge_kilobytes(text, 0x300000), Some(2048));
        assert_eq!(huge_kilobytes(text, 0x1000), Some(0));
        assert_eq!(huge_kilobytes(text, 0x3000), None);
    }
}
