// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes and latencies of the memory system.

use super::core::CoreParams;
use crate::check::MOST_CYCLES;
pub use ample_memory::LINE_BYTES;
use ample_memory::{BadParams, CacheConfig, DramConfig};
use ample_migration::protocol::{Design, Protocol, SliceHash};
use ample_translate::presets;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// Lines of a 4 KB page.
pub const PAGE_LINES: u64 = 64;

/// The page migration hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineParams {
    /// Cacheable or not.
    pub design: Design,
    /// Entries of each slice's table.
    pub table_entries: u8,
    /// Descriptors in the work queue.
    pub queue_entries: u8,
    /// Cycles the table adds to each request at a slice; 0 when it is looked up beside the tags.
    pub table_cycles: u64,
    /// Cycles between two steps of the engine.
    pub step_cycles: u64,
    /// All slices at once.
    pub parallel_slices: bool,
    /// Lines a slice may have on their way at once while it copies (the paper: 1).
    pub copy_window_lines: u8,
    /// Lines the engine reads from memory ahead of the one it copies (the paper: 0).
    pub read_ahead_lines: u8,
    /// Slices fetch their lines of the source into the last level when an entry is installed,
    /// while its rows are open.
    pub fetch_at_install: bool,
    /// Tell the private caches when copying starts (non-cacheable design).
    pub announce: bool,
    /// MSHR entries of a core that marks of pages may take; fewer than all.
    pub mark_entries: u8,
    /// Marks have entries of their own instead: what those in the MSHRs cost is the difference.
    #[serde(default)]
    pub marks_apart: bool,
    /// The memory controller serves the engine's reads before those of cores and devices.
    #[serde(default)]
    pub copies_first: bool,
}

/// The memory system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryParams {
    /// Cores, 1 to 64.
    pub cores: u8,
    /// Core clock.
    pub clock_ghz: f64,
    /// Private first level.
    pub l1: CacheConfig,
    /// Private second level; includes the first.
    pub l2: CacheConfig,
    /// One slice of the last level.
    pub llc_slice: CacheConfig,
    /// Number of slices of the last-level cache.
    pub slices: u8,
    /// Address → slice.
    pub hash: SliceHash,
    /// Misses outstanding a core.
    pub mshrs: u32,
    /// Cycles for each stop on the ring.
    pub hop_cycles: u64,
    /// Timing and geometry of the memory.
    pub dram: DramConfig,
    /// Physical memory in 4 KB frames.
    pub frames: u64,
    /// Migration hardware.
    pub engine: EngineParams,
}

/// A server of several cores.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct MultiCoreConfig {
    core: CoreParams,
    memory: MemoryParams,
}

/// Table 1 of Contiguitas: the table `multi` of `experiments/machines/contiguitas-table1.toml`.
static TABLE1: LazyLock<MultiCoreConfig> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct MachineFile {
        multi: MultiCoreConfig,
    }
    let text = presets::file("contiguitas-table1").expect("a shipped machine");
    let file: MachineFile = toml::from_str(text).expect("a shipped machine that is tested");
    file.multi
});

impl CoreParams {
    /// A core of table 1 of Contiguitas.
    pub fn table1() -> Self {
        TABLE1.core
    }
}

fn bad(field: &'static str, reason: impl Into<String>) -> BadParams {
    BadParams::new(field, reason)
}

impl MemoryParams {
    /// The memory system of table 1 of Contiguitas.
    pub fn table1() -> Self {
        TABLE1.memory
    }

    /// Table 1 with another number of cores and as many slices.
    pub fn with_cores(cores: u8) -> Self {
        Self {
            cores,
            slices: cores,
            ..Self::table1()
        }
    }

    /// Cycles of a slice from a request to the data.
    pub(super) fn slice_cycles(&self) -> u64 {
        self.llc_slice.latency_cycles.into()
    }

    /// Cycles of the second level, from the core.
    pub(super) fn l2_cycles(&self) -> u64 {
        self.l2.latency_cycles.into()
    }

    /// Checks everything that could not be built.
    ///
    /// # Errors
    /// Names the first parameter that is wrong and says what is accepted.
    pub fn check(&self) -> Result<(), BadParams> {
        if !(1..=64).contains(&self.cores) {
            return Err(bad(
                "cores",
                format!("{}; 1 to 64 are simulated", self.cores),
            ));
        }
        if !(1..=64).contains(&self.slices) {
            let reason = format!("{}; 1 to 64 are simulated", self.slices);
            return Err(bad("slices", reason));
        }
        if !(0.01..=100.0).contains(&self.clock_ghz) {
            let reason = format!("{}; valid: 0.01 to 100", self.clock_ghz);
            return Err(bad("clock_ghz", reason));
        }
        let steps = [
            ("hop_cycles", self.hop_cycles),
            ("engine.table_cycles", self.engine.table_cycles),
            ("engine.step_cycles", self.engine.step_cycles),
        ];
        for (field, cycles) in steps {
            if cycles > MOST_CYCLES {
                return Err(bad(field, format!("{cycles}; valid: 0 to {MOST_CYCLES}")));
            }
        }
        self.l1.check("l1")?;
        self.l2.check("l2")?;
        self.llc_slice.check("llc_slice")?;
        if self.l1.bytes > self.l2.bytes {
            return Err(bad("l1", "larger than l2, which must contain it"));
        }
        if self.mshrs == 0 {
            return Err(bad("mshrs", "0; a miss needs at least 1"));
        }
        self.dram.check()?;
        if self.frames < 2 {
            return Err(bad("frames", "a migration needs at least 2"));
        }
        if self.engine.copy_window_lines == 0 {
            return Err(bad(
                "engine",
                "copy_window_lines: 0; a copy needs at least 1",
            ));
        }
        if u32::from(self.engine.mark_entries) >= self.mshrs {
            let reason = format!(
                "mark_entries: {} of {} mshrs; a core whose entries all hold marks cannot miss",
                self.engine.mark_entries, self.mshrs
            );
            return Err(bad("engine", reason));
        }
        if self.engine.table_entries == 0 || self.engine.queue_entries == 0 {
            let reason = "table_entries and queue_entries must be at least 1";
            return Err(bad("engine", reason));
        }
        if u64::from(self.engine.table_entries) * 2 > self.frames {
            let reason = format!(
                "{} concurrent migrations need {} frames, there are {}",
                self.engine.table_entries,
                u64::from(self.engine.table_entries) * 2,
                self.frames
            );
            return Err(bad("engine", reason));
        }
        Ok(())
    }

    /// The rules the protocol works by.
    pub fn rules(&self) -> Protocol {
        Protocol {
            design: self.engine.design,
            memory_lines: self.frames * PAGE_LINES,
            cores: self.cores,
            slices: self.slices,
            hash: self.hash,
            parallel_slices: self.engine.parallel_slices,
            copy_window: self.engine.copy_window_lines,
            announce: self.engine.announce,
            mark_entries: self.engine.mark_entries,
            page_lines: PAGE_LINES as u32,
            page_orders: u32::MAX,
            table_entries: self.engine.table_entries,
            queue_entries: self.engine.queue_entries,
            fault: None,
        }
    }
}
