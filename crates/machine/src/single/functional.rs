// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functional runs: translation hardware without time. Every count is exact; nothing is timed.

use ample_trace::{Access, AccessKind, Consumer, MapChange, Program, Recorder};
use ample_translate::engine::BadAccess;
use ample_translate::{Engine, Intent};
use anyhow::Result;
use std::ops::Range;

/// Translates blocks of accesses and remembers the first that could not be.
pub struct FunctionalRun<'a> {
    engine: &'a mut Engine,
    /// The access that stopped the run, with its number.
    pub failed: Option<(u64, BadAccess)>,
    accesses: u64,
    /// Whether many accesses walk, so that reading entries ahead pays.
    far: bool,
}

/// Whether `walks` in a block of `accesses` are enough for reading ahead.
pub(super) fn walks_often(walks: u64, accesses: usize) -> bool {
    walks * 8 > accesses as u64
}

impl<'a> FunctionalRun<'a> {
    /// A consumer that runs on `engine`.
    pub fn new(engine: &'a mut Engine) -> Self {
        FunctionalRun {
            engine,
            failed: None,
            accesses: 0,
            far: false,
        }
    }
}

/// What a kind of access intends.
#[inline(always)]
pub fn intent_of(kind: AccessKind) -> Intent {
    match kind {
        AccessKind::Load => Intent::Read,
        AccessKind::Store => Intent::Write,
        AccessKind::Fetch => Intent::Fetch,
    }
}

impl Consumer for FunctionalRun<'_> {
    fn consume(&mut self, block: &[Access]) -> bool {
        let walks = self.engine.mmu.stats.walks();
        let of = |access: &Access| (access.va, intent_of(access.kind));
        if let Err((at, bad)) = self.engine.translate_block(block, of, self.far) {
            self.failed = Some((self.accesses + at as u64, bad));
            return false;
        }
        self.accesses += block.len() as u64;
        self.far = walks_often(self.engine.mmu.stats.walks() - walks, block.len());
        true
    }

    /// Unmapped memory leaves the tables and the TLBs; of other rights only the invalidations
    /// matter here. A range that cannot be changed (a 1 GB page across its border) stays.
    fn remap(&mut self, change: MapChange, range: Range<u64>) {
        let _ = match change {
            MapChange::Mapped | MapChange::Unmapped => self.engine.unmap_range(&range),
            MapChange::Protected => self.engine.protect_range(&range, 0, 0),
        };
    }
}

/// Runs `program` for `budget` accesses; returns how many were made.
///
/// # Errors
/// If an access cannot be translated: which one, where and why.
pub fn run_functional(engine: &mut Engine, program: &mut dyn Program, budget: u64) -> Result<u64> {
    let name = program.name().to_owned();
    let mut run = FunctionalRun::new(engine);
    let mut recorder = Recorder::new(&mut run, budget);
    program.run(&mut recorder);
    recorder.flush();
    let emitted = recorder.emitted();
    match run.failed {
        Some((number, bad)) => anyhow::bail!("{name}, access {number}: {bad}"),
        None => Ok(emitted),
    }
}
