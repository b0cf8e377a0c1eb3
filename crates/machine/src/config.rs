// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole machines: a core, its memory and its translation hardware, as presets.

use crate::single::{CoreConfig, TimedCore};
use ample_memory::{LastLevel, LastPort, MemoryConfig, PrivateMemory};
use ample_translate::{Engine, IdealFrames, MmuConfig, Scheme, presets};
use anyhow::{Context, Result, anyhow};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// A core with its caches, translation hardware and DRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineConfig {
    /// Name of the preset it came from.
    pub name: String,
    /// The core without its caches and translation hardware.
    pub core: CoreConfig,
    /// Caches and DRAM.
    pub memory: MemoryConfig,
    /// Translation hardware.
    pub mmu: MmuConfig,
    /// Physical memory, bytes.
    pub memory_bytes: u64,
    /// The machine of several cores that the same file may describe; it is read elsewhere.
    #[serde(default, skip_serializing)]
    pub multi: IgnoredAny,
}

impl MachineConfig {
    /// The machine of a file in `experiments/machines/`.
    ///
    /// # Errors
    /// If there is none; the message lists those that exist.
    pub fn preset(name: &str) -> Result<Self> {
        let text = presets::file(name).map_err(|e| anyhow!(e))?;
        toml::from_str(text).with_context(|| format!("machine {name}"))
    }

    /// An engine for this machine over unfragmented memory.
    ///
    /// # Errors
    /// If the translation hardware cannot be built.
    pub fn engine(&self, scheme: Box<dyn Scheme>) -> Result<Engine> {
        self.engine_over(scheme, IdealFrames::new(self.memory_bytes))
    }

    /// An engine for this machine as a guest of a virtual machine that has run for long: its 4 KB
    /// pages lie scattered, so that each has a line of the host's page table to itself.
    ///
    /// # Errors
    /// If the translation hardware cannot be built.
    pub fn guest_engine(&self, scheme: Box<dyn Scheme>) -> Result<Engine> {
        self.engine_over(scheme, IdealFrames::new(self.memory_bytes).scattered())
    }

    fn engine_over(&self, scheme: Box<dyn Scheme>, frames: IdealFrames) -> Result<Engine> {
        let units = u64::from(self.core.width);
        Engine::new(&self.mmu, scheme, Box::new(frames), units).map_err(|e| anyhow!(e))
    }

    /// A core of this machine around an engine.
    ///
    /// # Errors
    /// If a cache cannot be built.
    pub fn core(&self, engine: Engine) -> Result<TimedCore<PrivateMemory>> {
        self.core_over(engine, LastLevel::new(&self.memory.llc, "llc")?)
    }

    /// A core of this machine around an engine and above a given last level.
    ///
    /// # Errors
    /// As [`core`](Self::core).
    pub fn core_over<L: LastPort>(
        &self,
        engine: Engine,
        last: L,
    ) -> Result<TimedCore<PrivateMemory<L>>> {
        let units = u64::from(self.core.width);
        let memory = PrivateMemory::over(&self.memory, units, 1.0 / self.core.ghz, last)?;
        Ok(TimedCore::new(&self.core, engine, memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_translate::schemes;

    #[test]
    fn every_file_describes_a_machine_that_can_be_built() {
        for (name, _) in presets::PRESETS {
            let machine = MachineConfig::preset(name).unwrap();
            assert_eq!(machine.name, *name);
            machine.check().unwrap();
            let engine = machine.engine(schemes::paging()).unwrap();
            machine.core(engine).unwrap();
        }
    }
}
