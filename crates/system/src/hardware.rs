// SPDX-License-Identifier: MIT OR Apache-2.0
//! What simulates a CPU: its translation hardware alone, or a timed core around it.

use crate::sample::{SamplePlan, Sampled, Window};
use ample_machine::{AccessOrder, MachineConfig, PrivateMemory, TimedCore, intent_of};
pub use ample_memory::LastCounts;
use ample_memory::{LastPort, SharedLast};
use ample_trace::Access;
use ample_translate::{Engine, NoMemory, schemes};
use anyhow::Result;

/// A simulated CPU.
pub trait Hardware {
    /// Its translation hardware.
    fn engine(&self) -> &Engine;
    /// The same, to change.
    fn engine_mut(&mut self) -> &mut Engine;
    /// Runs one access, in kernel mode or not; false if its page is not mapped or its rights do not
    /// allow it.
    fn run(&mut self, access: &Access, kernel: bool) -> bool;
    /// Time measured so far, and the part of it with a walk under way, in a unit of its own.
    fn clock(&self) -> (u64, u64);
    /// Whether the time of the last access was measured.
    fn measuring(&self) -> bool;
    /// The windows in which time was measured, where it was not all the time.
    fn windows(&self) -> &[Window] {
        &[]
    }
    /// What it has asked of the last-level cache, where it has caches.
    fn last_level(&self) -> Option<LastCounts> {
        None
    }
}

/// Translation without time: every count is exact.
pub struct Functional(pub Engine);

impl Hardware for Functional {
    fn engine(&self) -> &Engine {
        &self.0
    }

    fn engine_mut(&mut self) -> &mut Engine {
        &mut self.0
    }

    #[inline(always)]
    fn run(&mut self, access: &Access, _kernel: bool) -> bool {
        let intent = intent_of(access.kind);
        let translated = self.0.translate(access.va, intent, 0, &mut NoMemory);
        translated.is_ok()
    }

    fn clock(&self) -> (u64, u64) {
        (0, 0)
    }

    fn measuring(&self) -> bool {
        false
    }
}

/// A core with two private levels of caches above a last level that is shared, or its own.
pub type SystemCore = TimedCore<PrivateMemory<SharedLast>>;

impl<L: LastPort> Hardware for TimedCore<PrivateMemory<L>> {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    #[inline]
    fn run(&mut self, access: &Access, _kernel: bool) -> bool {
        TimedCore::run(self, access).is_ok()
    }

    fn clock(&self) -> (u64, u64) {
        TimedCore::clock(self)
    }

    fn measuring(&self) -> bool {
        true
    }

    fn last_level(&self) -> Option<LastCounts> {
        Some(self.memory.last_counts())
    }
}

/// Which of the accesses get a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CoreTiming {
    /// None: translation alone.
    None,
    /// All, by a core with caches behind each CPU.
    All,
    /// Those of windows; caches see all.
    Sampled(SamplePlan),
}

/// What to simulate, of a guest or of a recording.
#[derive(Clone, Debug)]
pub struct SystemModel {
    /// The machine whose translation hardware, and with `timed` cores and caches, are simulated.
    pub machine: MachineConfig,
    /// Schemes, all on the same accesses.
    pub schemes: Vec<String>,
    /// The guest has no process-context identifiers; its entries are tagged all the same and
    /// outlive a change of address space, as they would if it had.
    pub pcid: bool,
    /// Whether a core with caches is behind each CPU, and when it is simulated.
    pub timing: CoreTiming,
    /// Whether each core has a last-level cache to itself; else all share one.
    pub private_caches: bool,
}

impl SystemModel {
    /// The translation hardware under a scheme, for a guest with four levels of page tables.
    fn engine(&self, scheme: &str) -> Result<Engine> {
        let mut config = self.machine.mmu.clone();
        config.levels = 4;
        config.pcid &= self.pcid;
        let units = u64::from(self.machine.core.width);
        Ok(Engine::mirrored(&config, schemes::by_name(scheme)?, units)?)
    }

    /// CPUs without time, under one scheme.
    ///
    /// # Errors
    /// If there is no such scheme, or the hardware cannot be built.
    pub fn functional(&self, scheme: &str, cpus: usize) -> Result<Vec<Functional>> {
        let one = |_| Ok(Functional(self.engine(scheme)?));
        (0..cpus).map(one).collect()
    }

    /// Whether cores of that many CPUs share a last-level cache.
    pub fn shares(&self, cpus: usize) -> bool {
        self.timing != CoreTiming::None && cpus > 1 && !self.private_caches
    }

    /// Each core's way to its last-level cache: one for all, or one each.
    fn last_levels(&self, cpus: usize) -> Result<Vec<SharedLast>> {
        let config = &self.machine.memory.llc;
        let (caches, cores) = match self.private_caches {
            true => (cpus, 1),
            false => (1, cpus),
        };
        let mut ways = Vec::with_capacity(cpus);
        for _ in 0..caches {
            ways.extend(SharedLast::for_cores(config, cores)?);
        }
        Ok(ways)
    }

    /// CPUs with a core and caches, under one scheme. They see accesses in the order of the guest's
    /// program, in which all of them start: a recording names no dependences. TLBs count what they
    /// count without a core.
    ///
    /// # Errors
    /// As [`functional`](Self::functional).
    pub fn cores(&self, scheme: &str, cpus: usize) -> Result<Vec<SystemCore>> {
        let mut machine = self.machine.clone();
        machine.core.order = AccessOrder::Program;
        let last_levels = self.last_levels(cpus)?.into_iter();
        last_levels
            .map(|last| machine.core_over(self.engine(scheme)?, last))
            .collect()
    }

    /// The same with cores that run in windows.
    ///
    /// # Errors
    /// As [`functional`](Self::functional), or if the windows cannot be.
    pub fn sampled(
        &self,
        scheme: &str,
        plan: SamplePlan,
        cpus: usize,
    ) -> Result<Vec<Sampled<PrivateMemory<SharedLast>>>> {
        plan.check()?;
        let units = u64::from(self.machine.core.width);
        let cores = self.cores(scheme, cpus)?.into_iter().enumerate();
        let sampled = |(cpu, core)| Sampled::new(core, plan, units, cpu);
        Ok(cores.map(sampled).collect())
    }
}
