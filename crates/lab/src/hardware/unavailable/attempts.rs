// SPDX-License-Identifier: MIT OR Apache-2.0
//! What might bring the delays of accesses down to one invalidation, and the copy under load to the
//! two microseconds of the paper: changes of the operating system, the engine and the memory
//! controller, each tried with both designs on eight cores.

use super::super::Way;
use super::super::stats::{SeedEnds, SeedFigures, pairs, parallel};
use super::breakdown::{MigrationTimes, breakdown};
use super::params::UnavailableParams;
use super::watched::{Change, SeenFigures, WatchedCase, watch};
use crate::experiment::Progress;
use ample_kit::statistics::MedianRange;
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// One change and design.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRow {
    /// What differs from the paper's machine.
    pub what: String,
    /// Hardware that moves the page.
    pub way: Way,
    /// Longest delay of an access in each migration, in core cycles.
    pub longest: MedianRange,
    /// Over all migrations.
    #[serde(flatten)]
    pub figures: AttemptFigures,
    /// Over those of one seed.
    pub seeds: SeedEnds<AttemptFigures>,
}

/// What some migrations come to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptFigures {
    /// Longest part of a delay that was the kernel's work, in core cycles.
    pub kernel_max: f64,
    /// That was a wait for a line in the hands of the copy engine, in core cycles.
    pub engine_max: f64,
    /// Copying alone, on a busy server.
    pub copy_ns: f64,
    /// From the start to the freed source, on a busy server.
    pub total_ns: f64,
}

impl SeedFigures for AttemptFigures {
    fn with(self, other: Self, choose: fn(f64, f64) -> f64) -> Self {
        Self {
            kernel_max: choose(self.kernel_max, other.kernel_max),
            engine_max: choose(self.engine_max, other.engine_max),
            copy_ns: choose(self.copy_ns, other.copy_ns),
            total_ns: choose(self.total_ns, other.total_ns),
        }
    }
}

impl AttemptFigures {
    fn of(seen: &SeenFigures, times: &MigrationTimes) -> AttemptFigures {
        AttemptFigures {
            kernel_max: seen.kernel_max,
            engine_max: seen.engine_max,
            copy_ns: times.copy_ns,
            total_ns: times.total_ns,
        }
    }
}

const ATTEMPTS: [(&str, Change); 10] = [
    ("none", |_, _| {}),
    ("INVLPG of 100 cycles", |_, os| os.invlpg_cycles = 100),
    ("one step of a migration at each kernel entry", |_, os| {
        os.one_step_an_entry = true;
    }),
    ("memory serves copies first", |m, _| {
        m.engine.copies_first = true
    }),
    ("read 4 lines ahead", |m, _| m.engine.read_ahead_lines = 4),
    ("fetch the page at installation", |m, _| {
        m.engine.fetch_at_install = true;
    }),
    ("2 lines on their way", |m, _| {
        m.engine.copy_window_lines = 2
    }),
    ("4 lines on their way", |m, _| {
        m.engine.copy_window_lines = 4
    }),
    ("parallel slices", |m, _| m.engine.parallel_slices = true),
    ("4 lines on their way, one step at each entry", |m, os| {
        m.engine.copy_window_lines = 4;
        os.one_step_an_entry = true;
    }),
];

/// Tries the changes that are asked for.
pub(super) fn attempts(
    params: &UnavailableParams,
    progress: Progress<'_>,
) -> Result<Vec<AttemptRow>> {
    let names = ATTEMPTS.map(|(what, _)| what);
    for asked in &params.attempts {
        ensure!(
            names.contains(&asked.as_str()),
            "attempts: {asked:?} is none of {names:?}"
        );
    }
    let wanted =
        |what: &str| params.attempts.is_empty() || params.attempts.iter().any(|a| a == what);
    let changes: Vec<_> = ATTEMPTS
        .into_iter()
        .filter(|(what, _)| wanted(what))
        .collect();
    let jobs = pairs(&changes, &[Way::NonCacheable, Way::Cacheable]);
    let rows = parallel(&jobs, progress, |&((what, change), way)| {
        let case = WatchedCase {
            way,
            remote_tlbs: 7,
            is_large: false,
            change,
        };
        let seen = watch(params, case)?.row;
        let times = breakdown(params, way.design(), change)?;
        Ok(AttemptRow {
            what: what.into(),
            way,
            longest: seen.longest,
            figures: AttemptFigures::of(&seen.figures, &times.times),
            seeds: SeedEnds {
                least: AttemptFigures::of(&seen.seeds.least, &times.seeds.least),
                greatest: AttemptFigures::of(&seen.seeds.greatest, &times.seeds.greatest),
            },
        })
    })?;
    Ok(rows.into_iter().flatten().collect())
}
