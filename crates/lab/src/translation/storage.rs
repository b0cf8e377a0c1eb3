// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perforated Pages: the memory that a perforated 2 MB frame takes beside a plain one, counted on
//! the page tables that the simulator walks.

use crate::experiment::{Experiment, Outcome, Progress};
use ample_translate::{HoleMap, IdealFrames, Space, USER_RW, bits};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

const BYTES_2M: u64 = 2 << 20;
const NODE_BYTES: u64 = 4096;

/// How many frames to map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageParams {
    /// Perforated 2 MB frames.
    pub frames: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerforatedStorage {
    /// Frames mapped.
    pub frames: u64,
    /// Bitmap of holes of a frame: the distance of one frame's bitmap from the next's.
    pub bitmap_bytes: u64,
    /// Shadow nodes of the page table, for each frame.
    pub shadow_node_bytes: u64,
    /// Bits of the page-table entry that hold the filter.
    pub filter_bits: u32,
    /// Bitmap and shadow node ÷ frame.
    pub share_of_frame: f64,
    /// The same without a shadow node, which a frame needs only while a hole of it is mapped
    /// elsewhere.
    pub share_of_frame_without_shadow: f64,
}

/// Memory of perforated pages.
pub struct Storage;

impl Experiment for Storage {
    type Parameters = StorageParams;
    type Outcome = PerforatedStorage;

    fn run(params: &StorageParams, _progress: Progress<'_>) -> Result<PerforatedStorage> {
        let count = params.frames;
        ensure!(
            (1..=1 << 20).contains(&count),
            "frames is {count}, but must be from 1 to 1048576"
        );
        let mut memory = IdealFrames::new((count + 2) * 2 * BYTES_2M);
        let mut space = Space::new(0, 4, &mut memory)?;
        // A hole in each group of 64 pages: every bit of the filter is set.
        let holes: HoleMap = [1; 8];
        for n in 0..count {
            let pfn = n * (BYTES_2M >> 12);
            space.map_perforated((n + 1) * BYTES_2M, pfn, holes, USER_RW, &mut memory)?;
        }
        let leaf = space.table.find(BYTES_2M).context("it was just mapped")?;
        let filter = leaf.entry >> bits::FILTER_SHIFT & 0xff;
        let place = |page| space.bitmap_pa(0, page).context("a block without a bitmap");
        let bitmap_bytes = place(511)? + 8 - place(0)?;
        let shadow_node_bytes = space.table.shadow_count() as u64 * NODE_BYTES / count;
        let share = |bytes: u64| bytes as f64 / BYTES_2M as f64;
        Ok(PerforatedStorage {
            frames: count,
            bitmap_bytes,
            shadow_node_bytes,
            filter_bits: filter.count_ones(),
            share_of_frame: share(bitmap_bytes + shadow_node_bytes),
            share_of_frame_without_shadow: share(bitmap_bytes),
        })
    }
}

impl Outcome for PerforatedStorage {
    const SCHEMA: &'static str = "ample.perforated-storage/1";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_takes_a_bitmap_of_a_line_and_a_node() {
        let shipped = crate::shipped_parameters("perforated-storage", false).expect("shipped");
        let result = Storage::run(&shipped, &|_| ()).expect("runs");
        let counted = (
            result.bitmap_bytes,
            result.shadow_node_bytes,
            result.filter_bits,
        );
        assert_eq!(counted, (64, 4096, 8));
    }
}
