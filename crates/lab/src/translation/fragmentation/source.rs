// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the frames come from, and how fragmented they are.

use crate::server_model::check_memory;
use ample_host::{ScanOptions, scan_live, snapshot};
use ample_mm::{Config, PolicyKind, Workload, pages_after};
use ample_pfn::{Definition, Mobility, PageClass};
use ample_translate::{ClassFrames, FrameSource, FrameUse};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One source of frames: exactly one of `live`, `snapshot` and `workload`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentationSource {
    /// Name in the result.
    pub name: String,
    /// Scan this machine.
    #[serde(default)]
    pub live: bool,
    /// A snapshot (`ample scan --format snapshot`).
    pub snapshot: Option<PathBuf>,
    /// A workload of the server model.
    pub workload: Option<String>,
    #[serde(default = "linux")]
    pub policy: PolicyKind,
    /// Memory of the simulated server, bytes.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Simulated seconds.
    #[serde(default)]
    pub duration_s: f64,
}

fn linux() -> PolicyKind {
    PolicyKind::Linux
}

/// One source's memory, under definition O; what the data cannot tell counts as unmovable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryState {
    /// FragmentationSource.
    pub source: String,
    pub seed: u64,
    /// 2 MB blocks with any memory.
    pub blocks: u64,
    /// Share of them with an unmovable frame.
    pub holed_share: f64,
    /// Unmovable frames in such a block, mean.
    pub holes_per_holed_block: f64,
    /// Share of holed blocks with at most 32 unmovable frames.
    pub few_holes_share: f64,
    /// Longest run of free frames, bytes: a segment without moving anything.
    pub longest_free_run_bytes: u64,
    /// Longest run without an unmovable frame, bytes: a segment after compaction.
    pub longest_movable_run_bytes: u64,
}

/// What an allocator could do with a frame. What a reader cannot tell counts as unmovable.
pub fn frame_use(class: PageClass) -> FrameUse {
    use PageClass::{Hole, HwPoison, Offline, Reserved};
    match class {
        Hole | Reserved | Offline | HwPoison => FrameUse::Unmovable,
        class if class.is_free() => FrameUse::Free,
        class if class.verdict(Definition::O) == Mobility::Movable => FrameUse::Movable,
        _ => FrameUse::Unmovable,
    }
}

impl FragmentationSource {
    /// The use of each frame, blocks without any memory left out.
    ///
    /// # Errors
    /// If the source cannot be read or simulated.
    pub(super) fn frames(&self, seed: u64) -> Result<Vec<FrameUse>> {
        let classes = match (&self.workload, &self.snapshot, self.live) {
            (Some(workload), None, false) => self.simulate(workload, seed)?,
            (None, Some(path), false) => read(path)?,
            (None, None, true) => scan_live(&ScanOptions::default())
                .context("scanning this machine (needs root)")?
                .pages
                .expand(),
            _ => anyhow::bail!(
                "source '{}' must have exactly one of live, snapshot and workload",
                self.name
            ),
        };
        let memory = |block: &&[PageClass]| block.iter().any(|&c| c != PageClass::Hole);
        let blocks = classes.chunks_exact(512).filter(memory);
        Ok(blocks.flatten().map(|&c| frame_use(c)).collect())
    }

    fn simulate(&self, workload: &str, seed: u64) -> Result<Vec<PageClass>> {
        check_memory(self.memory_bytes)?;
        let config = Config {
            memory_bytes: self.memory_bytes,
            seed,
            ..Config::new(self.policy)
        };
        let workload = Workload::load(workload)?;
        let told = |_| crate::stop::checkpoint();
        Ok(pages_after(&config, &workload, self.duration_s, &told)?)
    }
}

fn read(path: &Path) -> Result<Vec<PageClass>> {
    let scan = snapshot::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(scan.pages.expand())
}

/// Describes the memory of a source.
pub(super) fn state(source: &str, seed: u64, frames: &[FrameUse]) -> MemoryState {
    let holes = |block: &[FrameUse]| {
        block
            .iter()
            .filter(|&&frame| frame == FrameUse::Unmovable)
            .count()
    };
    let holed: Vec<usize> = frames
        .chunks_exact(512)
        .map(holes)
        .filter(|&holes| holes > 0)
        .collect();
    let blocks = (frames.len() / 512) as u64;
    let longest = |compaction| {
        let memory = ClassFrames::new(frames.to_vec(), compaction);
        memory.longest_run() * 4096
    };
    let count = holed.len().max(1) as f64;
    MemoryState {
        source: source.to_owned(),
        seed,
        blocks,
        holed_share: holed.len() as f64 / blocks.max(1) as f64,
        holes_per_holed_block: holed.iter().sum::<usize>() as f64 / count,
        few_holes_share: holed.iter().filter(|&&h| h <= 32).count() as f64 / count,
        longest_free_run_bytes: longest(false),
        longest_movable_run_bytes: longest(true),
    }
}
