// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded trace as a program: it is repeated as long as asked. Short ones are kept in memory,
//! long ones are read from their file again and again, by a thread that runs ahead.

use crate::access::error::TraceError;
use crate::access::files::{self, Format};
use crate::{Access, Backing, Program, Recorder, Region};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Accesses of a file that are kept in memory: 256 MiB.
const KEPT: u64 = 1 << 24;
/// Blocks that the thread which reads a file is ahead at most.
const AHEAD: usize = 64;

/// A trace at hand. Its clones share the accesses and start from the first one.
pub struct Replay {
    name: String,
    regions: Vec<Region>,
    length: u64,
    source: Source,
    at: Place,
}

#[derive(Clone)]
enum Source {
    Memory(Arc<Vec<Access>>),
    File(Arc<TraceFile>),
}

/// A file, and how much of it counts.
struct TraceFile {
    path: PathBuf,
    format: Format,
    limit: u64,
}

type Ahead = Receiver<Result<Vec<Access>, TraceError>>;

/// Where a replay stands.
#[derive(Default)]
struct Place {
    /// Of a file: what is read ahead. Threads share a replay to clone it, none but its owner takes
    /// blocks, and the mutex is never locked.
    blocks: Option<Mutex<Ahead>>,
    /// Of a file: the block at hand.
    block: Vec<Access>,
    /// The next access in the block or in memory.
    index: usize,
    /// Why no more can be read.
    failure: Option<TraceError>,
}

/// The 4 KB pages that accesses lie in.
#[derive(Default)]
struct Pages {
    all: HashSet<u64>,
    last: Option<u64>,
}

impl Pages {
    fn add(&mut self, block: &[Access]) {
        for access in block {
            let page = access.va >> 12;
            if self.last != Some(page) {
                self.last = Some(page);
                self.all.insert(page);
            }
        }
    }

    /// Regions for the pages that no region covers, behind the regions.
    fn complete(self, regions: &mut Vec<Region>) {
        let covered = |va: u64| regions.iter().any(|r| (r.base..r.end()).contains(&va));
        let mut stray: Vec<u64> = self.all.into_iter().filter(|p| !covered(p << 12)).collect();
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
    }
}

/// Reads a file into a channel, to its end or until nobody takes the blocks.
fn read_ahead(file: &TraceFile, blocks: &SyncSender<Result<Vec<Access>, TraceError>>) {
    let mut send = |block: &[Access]| blocks.send(Ok(block.to_vec())).is_ok();
    if let Err(error) = files::read(&file.path, file.format, file.limit, &mut send) {
        // Nobody waits for it after an early end.
        let _ = blocks.send(Err(error));
    }
}

impl Replay {
    /// Reads a trace file of any format once, at most `limit` accesses of it. A long one is not
    /// held in memory, unless it is a pipe, which cannot be read again.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub fn open(path: &Path, format: Format, limit: u64) -> Result<Self, TraceError> {
        let kept = if path.is_file() { KEPT } else { u64::MAX };
        Self::open_keeping(path, format, limit, kept)
    }

    fn open_keeping(
        path: &Path,
        format: Format,
        limit: u64,
        kept: u64,
    ) -> Result<Self, TraceError> {
        let mut accesses = Vec::new();
        let mut length = 0;
        let mut pages = Pages::default();
        let header = files::read(path, format, limit, &mut |block| {
            length += block.len() as u64;
            pages.add(block);
            match length <= kept {
                true => accesses.extend_from_slice(block),
                false => accesses = Vec::new(),
            }
            true
        })?;
        let source = match length <= kept {
            true => Source::Memory(Arc::new(accesses)),
            false => Source::File(Arc::new(TraceFile {
                path: path.to_owned(),
                format,
                limit,
            })),
        };
        let mut regions = header.regions;
        pages.complete(&mut regions);
        Ok(Replay {
            name: header.program,
            regions,
            length,
            source,
            at: Place::default(),
        })
    }

    /// A trace of accesses in memory. Pages that no region covers get regions of their own.
    pub fn new(name: String, mut regions: Vec<Region>, accesses: Vec<Access>) -> Self {
        let mut pages = Pages::default();
        pages.add(&accesses);
        pages.complete(&mut regions);
        Replay {
            name,
            regions,
            length: accesses.len() as u64,
            source: Source::Memory(Arc::new(accesses)),
            at: Place::default(),
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
        self.at = Place::default();
    }

    /// Accesses of one round.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// True if the trace holds nothing.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether all that was asked for could be read: a run ends early where a file cannot be read
    /// any more.
    ///
    /// # Errors
    /// What was wrong with the file, once.
    pub fn check(&mut self) -> Result<(), TraceError> {
        self.at.failure.take().map_or(Ok(()), Err)
    }

    /// The next access; `None` when the trace is empty or its file fails.
    #[inline]
    fn next(&mut self) -> Option<Access> {
        if let Source::Memory(accesses) = &self.source {
            let access = *accesses.get(self.at.index)?;
            self.at.index = (self.at.index + 1) % accesses.len();
            return Some(access);
        }
        if self.at.index == self.at.block.len() {
            self.at.block = self.next_block()?;
            self.at.index = 0;
        }
        self.at.index += 1;
        Some(self.at.block[self.at.index - 1])
    }

    /// The next block of a file, the first one after the last.
    #[cold]
    fn next_block(&mut self) -> Option<Vec<Access>> {
        let Source::File(file) = &self.source else {
            return None;
        };
        if self.at.failure.is_some() {
            return None;
        }
        let mut is_new = false;
        loop {
            let blocks = self.at.blocks.get_or_insert_with(|| {
                is_new = true;
                let (sender, receiver) = sync_channel(AHEAD);
                let file = file.clone();
                std::thread::spawn(move || read_ahead(&file, &sender));
                Mutex::new(receiver)
            });
            let blocks = blocks.get_mut().unwrap_or_else(PoisonError::into_inner);
            match blocks.recv() {
                Ok(Ok(block)) if block.is_empty() => {}
                Ok(Ok(block)) => return Some(block),
                Ok(Err(error)) => {
                    self.at.failure = Some(error);
                    return None;
                }
                // The end of the file. One that was longer when it was opened has changed.
                Err(_) if is_new => {
                    self.at.failure = Some(TraceError::Syntax {
                        place: file.path.display().to_string(),
                        what: "the file became empty while it was read".into(),
                    });
                    return None;
                }
                Err(_) => self.at.blocks = None,
            }
        }
    }
}

impl Clone for Replay {
    fn clone(&self) -> Self {
        Replay {
            name: self.name.clone(),
            regions: self.regions.clone(),
            length: self.length,
            source: self.source.clone(),
            at: Place::default(),
        }
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
        if let Some(access) = self.next() {
            recorder.push(access);
        }
    }

    fn run(&mut self, recorder: &mut Recorder<'_>) {
        while !recorder.done() {
            let Some(access) = self.next() else {
                return;
            };
            recorder.push(access);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceHeader;
    use crate::access::files::FileWriter;
    use crate::{Consumer, Scale, programs};

    fn taken(replay: &mut Replay, accesses: u64) -> Vec<Access> {
        let mut all = Vec::new();
        let mut keep = |block: &[Access]| {
            all.extend_from_slice(block);
            true
        };
        let mut recorder = Recorder::new(&mut keep, accesses);
        replay.run(&mut recorder);
        recorder.flush();
        all
    }

    #[test]
    fn a_trace_read_from_its_file_is_the_one_in_memory() {
        let path = std::env::temp_dir().join(format!("ample-replay-{}.trace", std::process::id()));
        let mut program = programs::by_name("redis", Scale::Tiny, 1).expect("a program");
        let recorded = taken(&mut Replay::record(program.as_mut(), 20_000), 20_000);
        let header = TraceHeader::default();
        let mut file = FileWriter::create(&path, Format::Ample, &header).expect("a file");
        assert!(file.consume(&recorded));
        file.finish().expect("written");

        let open = |kept| Replay::open_keeping(&path, Format::Ample, 15_000, kept).expect("opens");
        let (mut memory, mut stream) = (open(KEPT), open(100));
        assert!(matches!(stream.source, Source::File(_)));
        assert_eq!((memory.len(), stream.len()), (15_000, 15_000));
        assert_eq!(memory.regions, stream.regions);
        // Twice around and a bit, and once more from the start.
        let all = taken(&mut memory, 40_000);
        assert_eq!(taken(&mut stream, 40_000), all);
        assert_eq!(taken(&mut stream.clone(), 3_000), all[..3_000]);
        stream.rewind();
        assert_eq!(taken(&mut stream, 3_000), all[..3_000]);
        assert!(stream.check().is_ok());

        let whole = std::fs::read(&path).expect("readable");
        std::fs::write(&path, &whole[..whole.len() / 2]).expect("writable");
        stream.rewind();
        let left = taken(&mut stream, 40_000);
        assert!(left.len() < 15_000 && left[..] == all[..left.len()]);
        assert!(stream.check().is_err() && stream.check().is_ok());
        std::fs::write(&path, &whole[..0]).expect("writable");
        stream.rewind();
        assert!(taken(&mut stream, 10).is_empty() && stream.check().is_err());
        std::fs::remove_file(&path).expect("removable");
    }
}
