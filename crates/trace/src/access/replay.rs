// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded trace as a program: it is read into memory and repeated as long as asked.

use crate::access::error::TraceError;
use crate::access::files::{self, Format};
use crate::{Access, Backing, Program, Recorder, Region};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// A trace at hand. Its clones share the accesses, each at a place of its own.
#[derive(Clone)]
pub struct Replay {
    name: String,
    regions: Vec<Region>,
    accesses: Arc<Vec<Access>>,
    at: usize,
}

impl Replay {
    /// Reads a trace file of any format, at most `limit` accesses.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub fn open(path: &Path, format: Format, limit: u64) -> Result<Self, TraceError> {
        let mut accesses = Vec::new();
        let header = files::read(path, format, limit, &mut |block| {
            accesses.extend_from_slice(block);
            true
        })?;
        Ok(Replay::new(header.program, header.regions, accesses))
    }

    /// A trace of accesses in memory. Pages that no region covers get regions of their own.
    pub fn new(name: String, mut regions: Vec<Region>, accesses: Vec<Access>) -> Self {
        let mut pages = HashSet::new();
        let mut last = u64::MAX;
        for access in &accesses {
            let page = access.va >> 12;
            if page != last {
                last = page;
                pages.insert(page);
            }
        }
        let covered = |va: u64| regions.iter().any(|r| (r.base..r.end()).contains(&va));
        let mut stray: Vec<u64> = pages.into_iter().filter(|p| !covered(p << 12)).collect();
        stray.sort_unstable();
        for page in stray {
            let base = page << 12;
            match regions.last_mut() {
                Some(last) if last.name == "touched" && last.end() == base => last.bytes += 4096,
                _ => regions.push(Region {
                    name: "touched".into(),
                    base,
                    bytes: 4096,
                    backing: Backing::Static,
                }),
            }
        }
        Replay {
            name,
            regions,
            accesses: Arc::new(accesses),
            at: 0,
        }
    }

    /// The first accesses of a program, to be run again and again without building its data anew.
    pub fn record(program: &mut dyn Program, accesses: u64) -> Self {
        let mut kept = Vec::new();
        let mut keep = |block: &[Access]| {
            kept.extend_from_slice(block);
            true
        };
        let mut recorder = Recorder::new(&mut keep, accesses);
        program.run(&mut recorder);
        recorder.flush();
        Replay::new(program.name().to_owned(), program.regions().to_vec(), kept)
    }

    /// Starts from the first access again.
    pub fn rewind(&mut self) {
        self.at = 0;
    }

    /// Accesses of one round.
    pub fn len(&self) -> usize {
        self.accesses.len()
    }

    /// True if the trace holds nothing.
    pub fn is_empty(&self) -> bool {
        self.accesses.is_empty()
    }
}

impl Program for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    fn regions(&self) -> &[Region] {
        &self.regions
    }

    fn step(&mut self, recorder: &mut Recorder<'_>) {
        recorder.push(self.accesses[self.at]);
        self.at = (self.at + 1) % self.accesses.len();
    }

    fn run(&mut self, recorder: &mut Recorder<'_>) {
        while !recorder.done() && !self.is_empty() {
            self.step(recorder);
        }
    }
}
