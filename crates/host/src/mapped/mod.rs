// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a process, of a control group or of a cached file: which of it lies in large
//! folios, and which could.
//!
//! `/proc/PID/pagemap` gives the frame of each page, `/proc/kpageflags` the folio of each frame. A
//! page that several processes map counts once where frames are counted, and once for each mapping
//! where addresses are.

mod file;
mod folios;
mod target;

pub use target::MappedTarget;

use crate::{HostError, Root};
use ample_pfn::{BASE_PAGE_BYTES, Order, Pfn};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Entries of pagemap read at a time.
const CHUNK_PAGES: u64 = 1 << 15;
/// Bits of a pagemap entry (`Documentation/admin-guide/mm/pagemap.rst`).
const PRESENT: u64 = 1 << 63;
const PFN_MASK: u64 = (1 << 55) - 1;

/// Memory of one block size: aligned stretches of addresses of that size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MappedSize {
    /// Size of the stretches.
    pub size_bytes: u64,
    /// Aligned stretches inside one mapping of which at least a page is present.
    pub stretches: u64,
    /// Of these, stretches that one aligned block of memory backs wholly.
    pub contiguous_stretches: u64,
    /// Bytes present in stretches that are not contiguous: what could be.
    pub scattered_bytes: u64,
}

/// What a process, a control group or a file has in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MappedMemory {
    /// What was looked at.
    pub name: String,
    /// Processes that were read.
    pub processes: u64,
    /// Bytes in memory, each page once.
    pub present_bytes: u64,
    /// Bytes by size of the folio that holds them.
    pub folio_bytes: BTreeMap<u64, u64>,
    /// By size of stretches of addresses.
    pub sizes: Vec<MappedSize>,
    /// First frames of the 2 MB blocks that hold a page of it, ascending, with the pages held.
    #[serde(skip)]
    pub blocks: Vec<(Pfn, u32)>,
}

/// A mapping: addresses `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MappedRange {
    start: u64,
    end: u64,
}

/// Collects the frames behind mappings.
struct Collector {
    sizes: Vec<(Order, MappedSize)>,
    /// One bit a frame.
    frames: Vec<u64>,
}

impl Collector {
    fn new(orders: &[Order]) -> Collector {
        let size = |&order: &Order| {
            let size_bytes = order.bytes();
            (
                order,
                MappedSize {
                    size_bytes,
                    ..MappedSize::default()
                },
            )
        };
        Collector {
            sizes: orders.iter().map(size).collect(),
            frames: Vec::new(),
        }
    }

    /// Reads the entries of a mapping and takes in what is present.
    fn mapping(&mut self, pagemap: &File, range: MappedRange) -> std::io::Result<()> {
        let mut stretches: Vec<Stretch> = self
            .sizes
            .iter()
            .map(|(order, _)| Stretch::new(*order, range))
            .collect();
        let (first, end) = (range.start / BASE_PAGE_BYTES, range.end / BASE_PAGE_BYTES);
        let mut bytes = vec![0; (CHUNK_PAGES * 8) as usize];
        let mut page = first;
        while page < end {
            let count = CHUNK_PAGES.min(end - page);
            let bytes = &mut bytes[..(count * 8) as usize];
            let read = pagemap.read_at(bytes, page * 8)? / 8;
            if read == 0 {
                break;
            }
            let (words, _) = bytes[..read * 8].as_chunks::<8>();
            for (at, word) in (page..).zip(words) {
                let entry = u64::from_ne_bytes(*word);
                let frame = Some(entry & PFN_MASK).filter(|&pfn| entry & PRESENT != 0 && pfn > 0);
                if let Some(frame) = frame {
                    self.frame(frame);
                }
                for (stretch, (_, size)) in stretches.iter_mut().zip(&mut self.sizes) {
                    stretch.page(at, frame, size);
                }
            }
            page += read as u64;
        }
        for (stretch, (_, size)) in stretches.iter_mut().zip(&mut self.sizes) {
            stretch.finish(size);
        }
        Ok(())
    }

    fn frame(&mut self, pfn: u64) {
        let word = (pfn / 64) as usize;
        if word >= self.frames.len() {
            self.frames.resize(word + 1, 0);
        }
        self.frames[word] |= 1 << (pfn % 64);
    }

    fn finish(self, name: String, processes: u64, flags: &File) -> MappedMemory {
        let (folio_bytes, blocks) = folios::read(&self.frames, flags);
        MappedMemory {
            name,
            processes,
            present_bytes: folio_bytes.values().sum(),
            folio_bytes,
            sizes: self.sizes.into_iter().map(|(_, size)| size).collect(),
            blocks,
        }
    }
}

/// The aligned stretch of addresses that is being read.
struct Stretch {
    order: Order,
    /// Pages of the mapping that lie in whole stretches.
    inside: std::ops::Range<u64>,
    /// Frame that the first page of the stretch must have.
    expected: Option<u64>,
    present: u64,
    in_line: u64,
}

impl Stretch {
    fn new(order: Order, range: MappedRange) -> Stretch {
        let pages = order.pages();
        let first = range
            .start
            .div_ceil(BASE_PAGE_BYTES)
            .next_multiple_of(pages);
        let end = range.end / BASE_PAGE_BYTES / pages * pages;
        Stretch {
            order,
            inside: first..end.max(first),
            expected: None,
            present: 0,
            in_line: 0,
        }
    }

    fn page(&mut self, page: u64, frame: Option<u64>, size: &mut MappedSize) {
        if !self.inside.contains(&page) {
            return;
        }
        let offset = page % self.order.pages();
        if offset == 0 {
            self.finish(size);
            self.expected = frame.filter(|pfn| pfn.is_multiple_of(self.order.pages()));
        }
        if let Some(frame) = frame {
            self.present += 1;
            self.in_line += u64::from(self.expected.is_some_and(|first| first + offset == frame));
        }
    }

    fn finish(&mut self, size: &mut MappedSize) {
        if self.present > 0 {
            size.stretches += 1;
            match self.in_line == self.order.pages() {
                true => size.contiguous_stretches += 1,
                false => size.scattered_bytes += self.present * BASE_PAGE_BYTES,
            }
        }
        (self.present, self.in_line) = (0, 0);
    }
}

/// Looks at what `target` has in memory, by stretches of the sizes `orders`.
///
/// # Errors
/// [`HostError::Io`] when there is no such process, group or file, or without root. A process that
/// ends meanwhile is left out.
pub fn read_mapped(target: &MappedTarget, orders: &[Order]) -> Result<MappedMemory, HostError> {
    let root = Root::live();
    let flags = root.open("proc/kpageflags")?;
    let mut collector = Collector::new(orders);
    let name = target.name();
    if let MappedTarget::File(path) = target {
        file::collect(path, &mut collector)?;
        return Ok(collector.finish(name, 0, &flags));
    }
    let pids = target.processes()?;
    let mut read = 0;
    for pid in &pids {
        match process(&root, *pid, &mut collector) {
            Ok(()) => read += 1,
            Err(error) if pids.len() == 1 => return Err(error),
            Err(_) => {}
        }
    }
    Ok(collector.finish(name, read, &flags))
}

fn process(root: &Root, pid: u32, collector: &mut Collector) -> Result<(), HostError> {
    let name = format!("proc/{pid}/pagemap");
    let pagemap = root.open(&name)?;
    let maps = root.read(&format!("proc/{pid}/maps"))?;
    for range in maps.lines().filter_map(mapped_range) {
        let read = collector.mapping(&pagemap, range);
        read.map_err(|error| HostError::io(&root.path(&name), error))?;
    }
    Ok(())
}

/// The addresses of a line of `/proc/PID/maps`; the page that the kernel puts into every process
/// has no entry in pagemap.
fn mapped_range(line: &str) -> Option<MappedRange> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let range = MappedRange {
        start: hex(start)?,
        end: hex(end)?,
    };
    (range.end >> 63 == 0).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_aligned_frames_in_a_line_are_contiguous() {
        let range = mapped_range("10000-40000 rw-p 0 00:00 0 [heap]").unwrap();
        let (order, mut size) = (Order(4), MappedSize::default());
        let mut stretch = Stretch::new(order, range);
        // Pages 16 to 63: one stretch in line, one off by a frame, one with two pages.
        for page in 16..64 {
            let frame = match page {
                16..32 => Some(page + 16),
                32..48 => Some(page + 17),
                48 | 50 => Some(page + 48),
                _ => None,
            };
            stretch.page(page, frame, &mut size);
        }
        stretch.finish(&mut size);
        assert_eq!((size.stretches, size.contiguous_stretches), (3, 1));
        assert_eq!(size.scattered_bytes, 18 * 4096);
        assert_eq!(
            mapped_range("ffffffffff600000-ffffffffff601000 --xp 0"),
            None
        );
        assert_eq!(mapped_range("nonsense"), None);
    }
}
