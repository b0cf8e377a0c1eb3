// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole machines: a core, its memory and its translation hardware, as presets.

use crate::cache::CacheConfig;
use crate::core::{CoreConfig, TimedCore};
use crate::dram::DramConfig;
use crate::memory::{MemoryConfig, PrivateMemory};
use ample_translate::{Engine, IdealFrames, MmuConfig, Scheme, presets};
use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineConfig {
    /// Name of the preset it came from.
    pub name: String,
    /// Core.
    pub core: CoreConfig,
    /// Caches and DRAM.
    pub memory: MemoryConfig,
    /// Translation hardware.
    pub mmu: MmuConfig,
    /// Physical memory, bytes.
    pub memory_bytes: u64,
}

/// Names of all machine presets.
pub const PRESETS: &[&str] = &[
    "directseg-sandybridge",
    "perforated-skylake",
    "contiguitas-table1",
    "skylake",
    "sapphire-rapids",
    "champsim-default",
    "zen4",
];

fn memory(l1d: CacheConfig, l2: CacheConfig, llc: CacheConfig, dram: DramConfig) -> MemoryConfig {
    MemoryConfig {
        l1d,
        l1i: CacheConfig::new(32, 8, 4),
        l2,
        llc,
        mshrs: 10,
        prefetch_lines: 4,
        walks_use_l1: true,
        dram,
    }
}

impl MachineConfig {
    /// The preset of a name.
    ///
    /// # Errors
    /// If there is none; the message lists those that exist.
    pub fn preset(name: &str) -> Result<Self> {
        let mmu = presets::by_name(name).map_err(|e| anyhow!(e))?;
        let l1 = CacheConfig::new;
        let (core, memory) = match name {
            // 2 × Xeon E5-2430 (Direct Segments, table 1): 2.2 GHz, 15 MB of last level. The real
            // one has 20 ways; 16 ways of the same size are modelled.
            "directseg-sandybridge" => (
                CoreConfig {
                    ghz: 2.2,
                    width: 4,
                    rob: 168,
                    store_buffer: 36,
                },
                memory(
                    l1(32, 8, 4),
                    l1(256, 8, 12),
                    l1(15360, 16, 30),
                    DramConfig::ddr3_1066(3, 16, 30.0),
                ),
            ),
            "perforated-skylake" => (
                CoreConfig {
                    ghz: 2.0,
                    width: 4,
                    rob: 224,
                    store_buffer: 56,
                },
                memory(
                    l1(32, 8, 4),
                    l1(256, 8, 12),
                    l1(8192, 16, 35),
                    DramConfig::ddr4_3200(1, 16, 20.0),
                ),
            ),
            "contiguitas-table1" => (
                CoreConfig {
                    ghz: 2.0,
                    width: 4,
                    rob: 200,
                    store_buffer: 56,
                },
                memory(
                    l1(32, 8, 2),
                    l1(256, 8, 14),
                    l1(16384, 16, 40),
                    DramConfig::ddr4_3200(1, 16, 20.0),
                ),
            ),
            "skylake" => (
                CoreConfig {
                    ghz: 3.0,
                    width: 4,
                    rob: 224,
                    store_buffer: 56,
                },
                memory(
                    l1(32, 8, 4),
                    l1(1024, 16, 14),
                    l1(22528, 11, 60),
                    DramConfig::ddr4_3200(6, 16, 35.0),
                ),
            ),
            "sapphire-rapids" => (
                CoreConfig {
                    ghz: 3.0,
                    width: 6,
                    rob: 512,
                    store_buffer: 112,
                },
                MemoryConfig {
                    mshrs: 16,
                    ..memory(
                        l1(48, 12, 5),
                        l1(2048, 16, 15),
                        l1(61440, 15, 75),
                        DramConfig::ddr4_3200(8, 32, 45.0),
                    )
                },
            ),
            "champsim-default" => (
                CoreConfig {
                    ghz: 4.0,
                    width: 4,
                    rob: 352,
                    store_buffer: 72,
                },
                MemoryConfig {
                    prefetch_lines: 0,
                    ..memory(
                        l1(48, 12, 5),
                        l1(512, 8, 15),
                        l1(2048, 16, 35),
                        DramConfig::ddr4_3200(1, 8, 10.0),
                    )
                },
            ),
            _ => (
                CoreConfig {
                    ghz: 3.7,
                    width: 6,
                    rob: 320,
                    store_buffer: 64,
                },
                MemoryConfig {
                    mshrs: 24,
                    ..memory(
                        l1(32, 8, 4),
                        l1(1024, 8, 14),
                        l1(32768, 16, 50),
                        DramConfig::ddr4_3200(12, 32, 75.0),
                    )
                },
            ),
        };
        Ok(MachineConfig {
            name: name.to_owned(),
            core,
            memory,
            mmu,
            memory_bytes: 1 << 40,
        })
    }

    /// An engine for this machine over unfragmented memory.
    ///
    /// # Errors
    /// If the translation hardware cannot be built.
    pub fn engine(&self, scheme: Box<dyn Scheme>) -> Result<Engine> {
        let frames = Box::new(IdealFrames::new(self.memory_bytes));
        Engine::new(&self.mmu, scheme, frames, u64::from(self.core.width)).map_err(|e| anyhow!(e))
    }

    /// A core of this machine around an engine.
    ///
    /// # Errors
    /// If a cache cannot be built.
    pub fn core(&self, engine: Engine) -> Result<TimedCore<PrivateMemory>> {
        let units = u64::from(self.core.width);
        let memory = PrivateMemory::new(&self.memory, units, 1.0 / self.core.ghz)?;
        Ok(TimedCore::new(&self.core, engine, memory))
    }
}
