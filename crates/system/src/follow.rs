// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the rings of a guest that runs to what watches its CPUs.

use crate::guest::Running;
use crate::turns::TurnOrder;
use crate::wire::{CpuWatcher, Decoder};
use ample_kit::random::mix64;
use anyhow::{Context, Result, bail, ensure};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Words between two looks at the clock: turns can be short.
const BATCH: usize = 1 << 16;
/// How long to wait where no ring had a word.
const PAUSE: Duration = Duration::from_micros(100);
/// Time between two calls of the progress function.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// How following a guest ended.
#[derive(Clone, Debug)]
pub struct Followed {
    /// How the emulator ended; None: it was stopped here.
    pub status: Option<ExitStatus>,
    /// Words taken from all rings.
    pub words: u64,
    /// Wall time from the first word to the last.
    pub busy: Duration,
    /// By CPU, of all its words.
    pub digests: Vec<u64>,
}

/// Hands everything that the guest's CPUs do to `watchers`, one a CPU, until the guest ends, a stop
/// is asked for or `limit` is over; then the emulator is stopped. CPUs come in the order of their
/// turns. `tap` gets each CPU's words, as whole records; `go_on` is called ten times a second and
/// says whether there is a reason to.
///
/// # Errors
/// If a ring cannot be read or breaks the protocol, or `tap` fails.
pub fn follow<W: CpuWatcher>(
    running: &mut Running,
    watchers: &mut [W],
    limit: Duration,
    mut tap: impl FnMut(usize, &[u64]) -> Result<()>,
    stop: impl Fn() -> bool,
    mut go_on: impl FnMut(&[W]) -> bool,
) -> Result<Followed> {
    assert_eq!(running.rings.len(), watchers.len(), "one watcher a CPU");
    let started = Instant::now();
    let mut order = TurnOrder::new(watchers.len());
    let mut readers: Vec<CpuReader> = (0..watchers.len()).map(CpuReader::new).collect();
    let (mut words, mut first, mut last) = (0, None, started);
    let mut reported = started;
    let status = loop {
        // What is in the rings once the emulator has ended is all there is.
        let ended = running.ended().context("waiting for the emulator")?;
        let mut taken = 0;
        while taken < BATCH {
            let take =
                |cpu: usize, most, words: &mut Vec<u64>| running.rings[cpu].take(most, words);
            let handed = order.step(take, |cpu, words| {
                readers[cpu].read(words, &mut watchers[cpu])?;
                tap(cpu, words)
            })?;
            if handed == 0 {
                break;
            }
            taken += handed;
        }
        words += taken as u64;
        let now = Instant::now();
        if taken > 0 {
            first = first.or(Some(now));
            last = now;
        } else if ended.is_some() {
            break ended;
        } else {
            std::thread::sleep(PAUSE);
        }
        if now - reported >= REPORT_EVERY {
            reported = now;
            if !go_on(watchers) {
                break None;
            }
        }
        if stop() {
            break None;
        }
        if now - started > limit {
            bail!(
                "the guest did not end within {} s; its console ends:\n{}",
                limit.as_secs(),
                tail(&running.console())
            );
        }
    };
    if let Some(cpu) = order.left().filter(|_| status.is_some()) {
        bail!("the ring of CPU {cpu} ends inside a record, or before its turn");
    }
    Ok(Followed {
        status,
        words,
        busy: last.saturating_duration_since(first.unwrap_or(last)),
        digests: readers.iter().map(CpuReader::digest).collect(),
    })
}

/// The last lines of a text.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// A number for all words so far: two runs that did the same have the same.
pub fn digest(before: u64, words: &[u64]) -> u64 {
    words.iter().fold(before, |all, &word| mix64(all ^ word))
}

/// One CPU's decoder and the number for all of its words.
pub(crate) struct CpuReader {
    decoder: Decoder,
    digest: u64,
}

impl CpuReader {
    pub(crate) fn new(cpu: usize) -> Self {
        CpuReader {
            decoder: Decoder::new(cpu),
            digest: 0,
        }
    }

    /// Lets `watcher` see whole records.
    pub(crate) fn read(&mut self, words: &[u64], watcher: &mut impl CpuWatcher) -> Result<()> {
        let whole = self.decoder.decode(words, watcher)?;
        ensure!(whole == words.len(), "words end inside a record");
        self.digest = digest(self.digest, words);
        Ok(())
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }
}
