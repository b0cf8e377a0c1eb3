// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes and latencies of the memory system.

pub use ample_memory::LINE_BYTES;
use ample_memory::{BadParams, CacheConfig, DramConfig};
use ample_migration::protocol::{Design, Protocol, SliceHash};
use serde::{Deserialize, Serialize};

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

fn bad(field: &'static str, reason: impl Into<String>) -> BadParams {
    BadParams::new(field, reason)
}

impl MemoryParams {
    /// Table 1 of Contiguitas: 8 cores at 2 GHz, 32 KB L1, 256 KB L2, 2 MB slices, DDR4-3200
    /// with 16 banks, 64 GB.
    ///
    /// Not in the table: 16 MSHRs, ring stops of 2 cycles, and 20 ns (40 cycles) of controller
    /// and fabric for each access to memory. The last level's 40 cycles are split into 32 in the
    /// slice and 8 for an average trip of 2 stops each way on a ring of 8.
    pub fn table1() -> Self {
        Self {
            cores: 8,
            clock_ghz: 2.0,
            l1: CacheConfig::new(32, 8, 2),
            l2: CacheConfig::new(256, 8, 14),
            llc_slice: CacheConfig::new(2048, 16, 32),
            slices: 8,
            hash: SliceHash::XorFold,
            mshrs: 16,
            hop_cycles: 2,
            dram: DramConfig::ddr4_3200(1, 16, 20.0),
            frames: (64 << 30) / 4096,
            engine: EngineParams {
                design: Design::NonCacheable,
                table_entries: 16,
                queue_entries: 16,
                table_cycles: 0,
                step_cycles: 1,
                parallel_slices: false,
                copy_window_lines: 1,
                read_ahead_lines: 0,
                fetch_at_install: false,
                announce: true,
            },
        }
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
        if !(self.clock_ghz > 0.0 && self.clock_ghz.is_finite()) {
            return Err(bad("clock_ghz", "must be a positive number"));
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
            cores: self.cores,
            slices: self.slices,
            hash: self.hash,
            parallel_slices: self.engine.parallel_slices,
            copy_window: self.engine.copy_window_lines,
            announce: self.engine.announce,
            page_lines: PAGE_LINES as u32,
            table_entries: self.engine.table_entries,
            queue_entries: self.engine.queue_entries,
            fault: None,
        }
    }
}
