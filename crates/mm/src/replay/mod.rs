// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replay of page events recorded on a real kernel: the same allocations and frees, in the same
//! order, on a server under each policy, beside what the traced kernel made of them.
//!
//! A recording is text of tracefs, `trace-cmd report` or `perf script`, plain or zstd. Guide, with
//! the recording commands and the limits: `docs/replay.md`.

mod change;
mod classify;
mod error;
mod ledger;
mod observe;
mod player;
mod result;
mod start;
mod survey;
mod table;

pub use change::Change;
pub use classify::classify;
pub use error::ReplayError;
pub use ledger::{Ledger, Op, Repairs, SnapshotUse};
pub use result::{KernelSample, PolicyResult, ReplayResult};
pub use start::Start;
pub use survey::{FarFrames, Survey};

use crate::config::Config;
use ample_pfn::BASE_PAGE_BYTES;
use ample_trace::pages::{PageEvent, PageEventReader};
use player::Player;
use rayon::prelude::*;
use std::fs::File;
use std::path::{Path, PathBuf};

/// How to read and replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayOptions {
    /// Share of unreadable lines above which the file is not a page-event trace.
    pub max_unreadable_ratio: f64,
    /// Samples of the metrics, spread evenly over the recording; at least 2.
    pub samples: u32,
    /// Share of memory that page cache fills before the first event.
    pub prefill_ratio: f64,
}

impl Default for ReplayOptions {
    fn default() -> ReplayOptions {
        ReplayOptions {
            max_unreadable_ratio: 0.01,
            samples: 64,
            prefill_ratio: 0.0,
        }
    }
}

#[derive(Clone, Debug)]
enum Origin {
    File(PathBuf),
    Bytes(Vec<u8>),
}

/// A recording that was read through once.
#[derive(Clone, Debug)]
pub struct KernelReplay {
    origin: Origin,
    name: String,
    options: ReplayOptions,
    survey: Survey,
}

/// Events between two rounds of the players.
const ROUND_EVENTS: usize = 1 << 16;
/// Simulated time between two ticks of a server's background work.
const TICK_NS: u64 = 100_000_000;
/// Ticks for the longest pause; longer ones are stretched.
const PAUSE_TICKS: u64 = 600;

impl KernelReplay {
    /// Reads a file through.
    ///
    /// # Errors
    /// [`ReplayError`] if it cannot be read or is no page-event trace.
    pub fn open(path: &Path, options: ReplayOptions) -> Result<KernelReplay, ReplayError> {
        let name = path.display().to_string();
        KernelReplay::survey_of(Origin::File(path.to_path_buf()), name, options)
    }

    /// Reads a recording in memory through; `name` is for messages.
    ///
    /// # Errors
    /// As [`KernelReplay::open`].
    pub fn from_bytes(
        bytes: Vec<u8>,
        name: &str,
        options: ReplayOptions,
    ) -> Result<KernelReplay, ReplayError> {
        KernelReplay::survey_of(Origin::Bytes(bytes), name.to_string(), options)
    }

    fn survey_of(
        origin: Origin,
        name: String,
        options: ReplayOptions,
    ) -> Result<KernelReplay, ReplayError> {
        let mut replay = KernelReplay {
            origin,
            name,
            options,
            survey: Survey::default(),
        };
        let mut reader = replay.reader()?;
        let mut survey = Survey::default();
        while let Some(event) = reader.next_event()? {
            survey.note(&event);
        }
        survey.counts = reader.counts().clone();
        drop(reader);
        let useful =
            survey.counts.page_alloc + survey.counts.page_free + survey.counts.page_free_batched;
        if useful == 0 {
            return Err(ReplayError::NoEvents {
                name: replay.name,
                lines: survey.counts.lines,
            });
        }
        replay.survey = survey;
        Ok(replay)
    }

    /// What the first pass found.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// The recording's events, from the beginning.
    ///
    /// # Errors
    /// [`ReplayError`] if it cannot be opened (any more).
    pub fn reader(&self) -> Result<PageEventReader<'_>, ReplayError> {
        let limit = self.options.max_unreadable_ratio;
        match &self.origin {
            Origin::Bytes(bytes) => Ok(PageEventReader::new(&bytes[..], &self.name, limit)?),
            Origin::File(path) => {
                let open = |source| ReplayError::Open {
                    name: self.name.clone(),
                    source,
                };
                // Asked before it is opened: opening a pipe would wait for its writer.
                if !std::fs::metadata(path).map_err(open)?.is_file() {
                    let name = self.name.clone();
                    return Err(ReplayError::NotAFile { name });
                }
                let file = File::open(path).map_err(open)?;
                Ok(PageEventReader::new(file, &self.name, limit)?)
            }
        }
    }

    /// Plays the recording on one fresh server for each configuration, in parallel; the result
    /// does not depend on the number of threads. `progress` is told the share done.
    ///
    /// # Errors
    /// [`ReplayError`] if the file cannot be read again or a memory size is out of range.
    pub fn run(
        &self,
        configs: &[Config],
        progress: &dyn Fn(f64),
    ) -> Result<ReplayResult, ReplayError> {
        let prefilled = |config: &Config| {
            let pages = config.memory_bytes / BASE_PAGE_BYTES;
            let prefill = pages as f64 * self.options.prefill_ratio.clamp(0.0, 1.0);
            Player::new(config, prefill as u64)
        };
        let players = configs.iter().map(prefilled).collect::<Result<_, _>>()?;
        let memory = configs.first().map_or(0, |config| config.memory_bytes);
        let memory = memory.max(BASE_PAGE_BYTES);
        let session = Session::new(self, Ledger::new(), players, memory);
        let session = self.play(session, ROUND_EVENTS, progress)?;
        Ok(session.finish(self, configs))
    }

    /// As [`KernelReplay::run`], on servers that hold the pages of the machine that was recorded,
    /// as a snapshot from right before the recording shows them. The size is the snapshot's;
    /// memory size and prefill of the configurations are not used. Under `linux` the pages lie
    /// where they were; other policies place the same pages themselves.
    ///
    /// # Errors
    /// As [`KernelReplay::run`], and if the recording names frames that the snapshot does not have.
    pub fn run_from(
        &self,
        start: &Start,
        configs: &[Config],
        progress: &dyn Fn(f64),
    ) -> Result<ReplayResult, ReplayError> {
        let session = self.session_from(start, configs)?;
        let session = self.play(session, ROUND_EVENTS, progress)?;
        Ok(session.finish(self, configs))
    }

    /// As [`KernelReplay::run_from`], with one property of the recording taken away. The steps of
    /// the whole recording, 24 bytes an event, are held in memory.
    ///
    /// # Errors
    /// As [`KernelReplay::run_from`].
    pub fn run_changed(
        &self,
        change: &Change,
        start: &Start,
        configs: &[Config],
        progress: &dyn Fn(f64),
    ) -> Result<ReplayResult, ReplayError> {
        let session = self.session_from(start, configs)?;
        let mut session = self.play(session, usize::MAX, progress)?;
        let ops = std::mem::take(&mut session.ops);
        session.ops = change.apply(ops, start, session.ledger.numbers());
        Ok(session.finish(self, configs))
    }

    fn session_from(&self, start: &Start, configs: &[Config]) -> Result<Session, ReplayError> {
        let end = start.layout.span().end.0;
        if self.survey.span_pages > end {
            return Err(ReplayError::WrongSnapshot {
                name: self.name.clone(),
                frame: self.survey.span_pages - 1,
                end,
            });
        }
        let players: Result<Vec<Player>, _> = configs
            .par_iter()
            .map(|config| Player::starting_from(config, start))
            .collect();
        let memory = start.span_pages() * BASE_PAGE_BYTES;
        Ok(Session::new(
            self,
            Ledger::starting_from(start),
            players?,
            memory,
        ))
    }

    /// Passes over the events; the players follow after each `round_ops` steps, and those that
    /// are left when it ends wait in the session.
    fn play(
        &self,
        mut session: Session,
        round_ops: usize,
        progress: &dyn Fn(f64),
    ) -> Result<Session, ReplayError> {
        let mut reader = self.reader()?;
        let total = self.survey.counts.lines.max(1) as f64;
        while let Some(event) = reader.next_event()? {
            session.step(&event);
            if session.ops.len() >= round_ops {
                session.round();
                progress(reader.counts().lines as f64 / total);
            }
        }
        if *reader.counts() != self.survey.counts {
            let name = self.name.clone();
            return Err(ReplayError::Changed { name });
        }
        session.end(&self.survey);
        progress(1.0);
        Ok(session)
    }
}

/// One pass over the events.
struct Session {
    ledger: Ledger,
    players: Vec<Player>,
    ops: Vec<Op>,
    kernel: Vec<KernelSample>,
    memory_bytes: u64,
    start_ns: u64,
    now_ns: u64,
    /// Samples are `every_ns` apart; one more than `samples_left` says is taken at the end.
    every_ns: u64,
    next_ns: u64,
    samples_left: u64,
}

impl Session {
    fn new(
        replay: &KernelReplay,
        ledger: Ledger,
        players: Vec<Player>,
        memory_bytes: u64,
    ) -> Session {
        let survey = &replay.survey;
        let gaps = u64::from(replay.options.samples.max(2) - 1);
        Session {
            ledger,
            players,
            ops: Vec::new(),
            kernel: Vec::new(),
            memory_bytes,
            start_ns: survey.start_ns,
            now_ns: survey.start_ns,
            every_ns: (survey.duration_ns() / gaps).max(1),
            next_ns: survey.start_ns,
            samples_left: gaps,
        }
    }

    fn step(&mut self, event: &PageEvent) {
        let until = self.ledger.advance(event);
        while self.next_ns <= until && self.samples_left > 0 {
            self.pass(self.next_ns);
            self.sample();
            self.next_ns += self.every_ns;
            self.samples_left -= 1;
        }
        // Background work follows in steps, not after each event.
        if until - self.now_ns >= TICK_NS {
            self.pass(until);
        }
        self.ledger.apply(event, &mut self.ops);
    }

    fn pass(&mut self, until_ns: u64) {
        let elapsed = until_ns - self.now_ns;
        let ticks = elapsed.div_ceil(TICK_NS).min(PAUSE_TICKS);
        for tick in 0..ticks {
            let elapsed_ns = elapsed / ticks + u64::from(tick < elapsed % ticks);
            self.ops.push(Op::Tick { elapsed_ns });
        }
        self.now_ns = until_ns;
    }

    fn sample(&mut self) {
        self.sample_kernel();
        self.ops.push(Op::Sample);
    }

    fn sample_kernel(&mut self) {
        let seconds = (self.now_ns - self.start_ns) as f64 / 1e9;
        let metrics = self.ledger.image().map(|image| image.metrics());
        let table = self.ledger.table();
        let sample = match metrics {
            Some(metrics) => KernelSample::measured(table, &metrics, seconds),
            None => KernelSample::of(table, self.memory_bytes, seconds),
        };
        self.kernel.push(sample);
    }

    fn round(&mut self) {
        let ops = &self.ops;
        self.players
            .par_iter_mut()
            .for_each(|player| player.play(ops));
        self.ops.clear();
    }

    fn end(&mut self, survey: &Survey) {
        self.pass(survey.end_ns);
        self.sample_kernel();
    }

    fn finish(mut self, replay: &KernelReplay, configs: &[Config]) -> ReplayResult {
        let survey = &replay.survey;
        self.round();
        let policies: Vec<PolicyResult> = self
            .players
            .par_iter_mut()
            .zip(configs)
            .map(|(player, config)| PolicyResult::of(player, config))
            .collect();
        ReplayResult {
            counts: survey.counts.clone(),
            repairs: self.ledger.repairs().clone(),
            duration_s: survey.duration_ns() as f64 / 1e9,
            memory_bytes: self.memory_bytes,
            cpus: survey.cpus,
            live_blocks: self.ledger.live_blocks(),
            snapshot: self.ledger.snapshot(),
            kernel: self.kernel,
            policies,
        }
    }
}
