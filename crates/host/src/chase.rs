// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measured latency of dependent random loads over memory in pages of a chosen size.
//!
//! The loads are uniform over all lines of a range and each address takes in the value loaded
//! before, so that no two overlap. Uniform loads miss a cache or TLB of `E` of `W` entries with
//! probability 1 − E/W whatever it replaces: the figure does not hang on unpublished policies.
//!
//! Loads of one line of each page tell translation from data: of so many pages the lines fit into a
//! near cache, while their translations miss the TLBs.

use crate::{HostError, Root};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::time::{ClockId, clock_gettime};
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
}

const WORDS_PER_LINE: u64 = 8;
const ALIGN_2M: usize = 2 << 20;

impl TestMemory {
    /// Maps and touches `bytes`, a multiple of 4096 (of 1 GB for [`PageBacking::Huge1G`]).
    ///
    /// # Errors
    /// If the kernel does not give the memory; for 1 GB pages the message says how to get some.
    pub fn new(bytes: u64, backing: PageBacking) -> Result<TestMemory, HostError> {
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
        let failed = |cause: rustix::io::Errno| HostError::TestMemory {
            bytes,
            backing,
            cause: cause.into(),
        };
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
        let mut memory = TestMemory {
            start,
            mapped_bytes,
            first_word: skip / 8,
            words: bytes as usize / 8,
        };
        let advice = match backing {
            PageBacking::Small => Some(Advice::LinuxNoHugepage),
            PageBacking::Thp => Some(Advice::LinuxHugepage),
            PageBacking::Huge1G => None,
        };
        if let Some(advice) = advice {
            // SAFETY: exactly the mapping made above; neither advice changes what it holds.
            unsafe { madvise(start, mapped_bytes, advice) }.map_err(failed)?;
        }
        for word in memory.words_mut().iter_mut().step_by(512) {
            *word = black_box(0);
        }
        Ok(memory)
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
        const FRAME: u64 = (1 << 55) - 1;
        let pagemap = std::fs::File::open("/proc/self/pagemap").ok()?;
        let first = (self.start as usize + self.first_word * 8) / 4096;
        let mut entries = vec![0; self.words * 8 / 4096 * 8];
        std::os::unix::fs::FileExt::read_exact_at(&pagemap, &mut entries, first as u64 * 8).ok()?;
        let frames = entries.as_chunks().0.iter();
        let frames: Vec<u64> = frames.map(|e| u64::from_ne_bytes(*e) & FRAME).collect();
        frames.iter().all(|&frame| frame != 0).then_some(frames)
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

/// Clock of this core while it is busy, GHz: a chain of multiplications and exclusive ors takes
/// four cycles a link on every x86-64 of the last fifteen years. Median of nine.
pub fn clock_ghz() -> f64 {
    const LINKS: u64 = 2_000_000;
    let mut rounds: Vec<f64> = (0..9u64)
        .map(|round| {
            let started = thread_ns();
            let (mut x, factor) = (black_box(round | 1u64), black_box(0x9e37_79b9_7f4a_7c15u64));
            for link in 0..LINKS {
                x = x.wrapping_mul(factor) ^ link;
            }
            black_box(x);
            (4 * LINKS) as f64 / (thread_ns() - started).max(1) as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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
