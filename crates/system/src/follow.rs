// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the rings of a guest that runs to what watches its CPUs.

use crate::guest::Running;
use crate::wire::{CpuWatcher, Decoder};
use ample_kit::random::mix64;
use anyhow::{Context, Result, bail};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Words taken from one ring at a time.
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
/// is asked for or `limit` is over; then the emulator is stopped. `tap` gets each CPU's words, as
/// whole records; `go_on` is called ten times a second and says whether there is a reason to.
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
    let mut readers: Vec<Reader> = (0..watchers.len()).map(Reader::new).collect();
    let (mut words, mut first, mut last) = (0, None, started);
    let mut reported = started;
    let status = loop {
        // What is in the rings once the emulator has ended is all there is.
        let ended = running.ended().context("waiting for the emulator")?;
        let mut taken = 0;
        for (cpu, reader) in readers.iter_mut().enumerate() {
            taken += reader.step(running, &mut watchers[cpu], &mut tap)?;
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
    if let Some(reader) = readers.iter().find(|reader| !reader.words.is_empty())
        && status.is_some()
    {
        bail!("the ring of CPU {} ends inside a record", reader.cpu);
    }
    Ok(Followed {
        status,
        words,
        busy: last.saturating_duration_since(first.unwrap_or(last)),
        digests: readers.iter().map(|reader| reader.digest).collect(),
    })
}

/// The last lines of a text.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// One ring's decoder and the words of a record that is not whole yet.
struct Reader {
    cpu: usize,
    decoder: Decoder,
    words: Vec<u64>,
    digest: u64,
}

/// A number for all words so far: two runs that did the same have the same.
pub fn digest(before: u64, words: &[u64]) -> u64 {
    words.iter().fold(before, |all, &word| mix64(all ^ word))
}

impl Reader {
    fn new(cpu: usize) -> Self {
        Reader {
            cpu,
            decoder: Decoder::new(cpu),
            words: Vec::with_capacity(BATCH + 64),
            digest: 0,
        }
    }

    fn step(
        &mut self,
        running: &mut Running,
        watcher: &mut impl CpuWatcher,
        tap: &mut impl FnMut(usize, &[u64]) -> Result<()>,
    ) -> Result<usize> {
        let cpu = self.cpu;
        let taken = running.rings[cpu].take(BATCH, &mut self.words);
        let taken = taken.with_context(|| format!("reading the ring of CPU {cpu}"))?;
        let whole = self.decoder.decode(&self.words, watcher)?;
        tap(cpu, &self.words[..whole])?;
        self.digest = digest(self.digest, &self.words[..whole]);
        self.words.drain(..whole);
        Ok(taken)
    }
}
