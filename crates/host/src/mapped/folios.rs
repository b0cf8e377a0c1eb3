// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folios behind frames, by `/proc/kpageflags`.

use crate::flags::{COMPOUND_HEAD, COMPOUND_TAIL};
use ample_pfn::{BASE_PAGE_BYTES, PAGES_PER_PAGEBLOCK, Pfn};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A folio whose pages are being counted.
#[derive(Default)]
struct Folio {
    pages: u64,
    held: u64,
}

/// Bytes of the frames marked in `frames` by the size of their folio, and the 2 MB blocks that they
/// lie in with the pages held. A frame whose flags cannot be read counts as a folio of its own.
pub fn read(frames: &[u64], flags: &File) -> (BTreeMap<u64, u64>, Vec<(Pfn, u32)>) {
    let (mut sizes, mut blocks) = (BTreeMap::new(), Vec::new());
    let mut folio = Folio::default();
    let words = (PAGES_PER_PAGEBLOCK / 64) as usize;
    let mut bytes = vec![0; PAGES_PER_PAGEBLOCK as usize * 8];
    let mut next = 0;
    for (block, marks) in (0u64..).zip(frames.chunks(words)) {
        let held: u32 = marks.iter().map(|word| word.count_ones()).sum();
        if held == 0 {
            continue;
        }
        let first = block * PAGES_PER_PAGEBLOCK;
        blocks.push((Pfn(first), held));
        let read = flags.read_at(&mut bytes, first * 8).unwrap_or(0);
        bytes[read..].fill(0);
        if block != next {
            end(&mut folio, &mut sizes);
        }
        next = block + 1;
        let (entries, _) = bytes.as_chunks::<8>();
        for (at, entry) in entries.iter().enumerate() {
            let entry = u64::from_ne_bytes(*entry);
            let marked = marks
                .get(at / 64)
                .is_some_and(|word| word >> (at % 64) & 1 == 1);
            // The tails of a 1 GB page go on from block to block.
            if entry & COMPOUND_TAIL == 0 || folio.pages == 0 {
                end(&mut folio, &mut sizes);
            }
            folio.pages += 1;
            folio.held += u64::from(marked);
            if entry & (COMPOUND_HEAD | COMPOUND_TAIL) == 0 {
                end(&mut folio, &mut sizes);
            }
        }
    }
    end(&mut folio, &mut sizes);
    (sizes, blocks)
}

/// Counts a folio; its size is a power of two, also where its beginning was not seen.
fn end(folio: &mut Folio, sizes: &mut BTreeMap<u64, u64>) {
    if folio.held > 0 {
        let size_bytes = folio.pages.next_power_of_two() * BASE_PAGE_BYTES;
        *sizes.entry(size_bytes).or_default() += folio.held * BASE_PAGE_BYTES;
    }
    *folio = Folio::default();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn frames_count_in_the_folio_that_holds_them() {
        let mut flags = vec![0u64; 3 * 512];
        flags[16] = COMPOUND_HEAD;
        flags[17..20].fill(COMPOUND_TAIL);
        flags[512] = COMPOUND_HEAD;
        flags[513..3 * 512].fill(COMPOUND_TAIL);
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = flags.iter().flat_map(|word| word.to_ne_bytes()).collect();
        file.write_all(&bytes).unwrap();
        let mut frames = vec![0u64; 3 * 8];
        // Frame 3, a half of the folio at 16, and two frames of the large one.
        frames[0] = 1 << 3 | 0b11 << 16;
        frames[8] = 1;
        frames[23] = 1 << 63;
        let (sizes, blocks) = read(&frames, &file);
        // Of the large folio the blocks 1 and 2 are seen: 4 MB.
        let expected = [(4096, 4096), (4 * 4096, 2 * 4096), (4 << 20, 2 * 4096)];
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(blocks, [(Pfn(0), 3), (Pfn(512), 1), (Pfn(1024), 1)]);
    }
}
