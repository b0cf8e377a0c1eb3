// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trace files of any known format: told apart, read and written.

use crate::access::error::TraceError;
use crate::access::export::InstructionWriter;
use crate::access::format::{TraceHeader, TraceReader, TraceWriter};
use crate::access::import;
use crate::{Access, BLOCK, Consumer};
use ample_kit::files::{self, Bounded, WholeFile};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// How a trace file holds its accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The project's own.
    Ample,
    /// ChampSim's instruction records, also inside gzip or xz.
    ChampSim,
    /// The text of Valgrind's lackey, also inside gzip or xz.
    Lackey,
    /// A thread of DynamoRIO's drmemtrace, also inside zip or gzip. Read only.
    Drmemtrace,
    /// gem5's packets or its elastic traces, also inside gzip. Read only.
    Gem5,
    /// Samples as `perf mem -D report` prints them. Read only.
    Perf,
}

impl Format {
    /// All, by the names that [`named`](Self::named) takes.
    pub const ALL: [(&'static str, Format); 6] = [
        ("ample", Format::Ample),
        ("champsim", Format::ChampSim),
        ("lackey", Format::Lackey),
        ("drmemtrace", Format::Drmemtrace),
        ("gem5", Format::Gem5),
        ("perf", Format::Perf),
    ];

    /// Those that [`FileWriter`] writes.
    pub const WRITTEN: [Format; 3] = [Format::Ample, Format::ChampSim, Format::Lackey];

    /// The format of a name.
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|&(_, format)| format)
    }

    /// The name that [`named`](Self::named) takes.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|&&(_, format)| format == self);
        found.map_or("", |(name, _)| name)
    }

    /// What a file name says: the name of another format anywhere in it, or the ending `.trace`.
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let own = name.ends_with(".trace").then_some(Format::Ample);
        let foreign = Self::ALL
            .iter()
            .filter(|(_, format)| *format != Format::Ample);
        let mut says = foreign.filter(|(known, _)| name.contains(known));
        says.next().map(|&(_, format)| format).or(own)
    }

    /// What a file's first bytes, unpacked, say.
    fn of_start(start: &[u8]) -> Option<Self> {
        let lackey = [&b"=="[..], b"--", b"I  ", b" L ", b" S ", b" M "];
        match start {
            _ if start.starts_with(b"AMPLTRC1") => Some(Format::Ample),
            _ if start.starts_with(import::gem5::MAGIC) => Some(Format::Gem5),
            _ if start.starts_with(import::perf::START) => Some(Format::Perf),
            _ if import::drmemtrace::is_start(start) => Some(Format::Drmemtrace),
            _ if lackey.iter().any(|line| start.starts_with(line)) => Some(Format::Lackey),
            _ => None,
        }
    }

    /// The format of a file: what it starts with, else what its name says.
    ///
    /// # Errors
    /// If it cannot be read, or neither tells.
    pub fn of_file(path: &Path) -> Result<Self, TraceError> {
        let mut start = Vec::new();
        // Damage in a compressed stream is for the reader to report, with its place.
        let _ = import::members(open(path)?, &mut |member| {
            let _ = member.take(64).read_to_end(&mut start);
            Ok(false)
        });
        let told = Self::of_start(&start).or_else(|| Self::of_name(path));
        told.ok_or_else(|| TraceError::Syntax {
            place: "format".into(),
            what: format!(
                "neither the file's start nor its name tells; name it: {}",
                Self::ALL.map(|(name, _)| name).join(", ")
            ),
        })
    }
}

/// Largest trace file, compressed or not.
const MOST_BYTES: u64 = 1 << 42;

fn open(path: &Path) -> Result<Bounded, TraceError> {
    files::open(path, MOST_BYTES).map_err(|source| TraceError::Io { at: 0, source })
}

/// Reads a file of a format and hands its accesses on in blocks, at most `limit`, until `visit`
/// returns false; returns what the trace says about itself.
///
/// # Errors
/// If it cannot be read or is damaged: where. What came before has been handed on.
pub fn read(
    path: &Path,
    format: Format,
    limit: u64,
    visit: &mut dyn FnMut(&[Access]) -> bool,
) -> Result<TraceHeader, TraceError> {
    let file = open(path)?;
    if format == Format::Ample {
        return read_own(import::decompressed(file)?, limit, visit);
    }
    let mut block = Vec::with_capacity(BLOCK);
    let mut left = limit;
    let mut gather = |access: Access| {
        if left == 0 {
            return false;
        }
        left -= 1;
        block.push(access);
        if block.len() < BLOCK {
            return left > 0;
        }
        let more = visit(&block);
        block.clear();
        more && left > 0
    };
    let answer = match format {
        Format::ChampSim => import::champsim(file, &mut gather),
        Format::Drmemtrace => import::drmemtrace(file, &mut gather),
        Format::Gem5 => import::gem5(file, &mut gather),
        Format::Perf => import::perf(file, &mut gather),
        Format::Lackey | Format::Ample => import::lackey(file, &mut gather),
    };
    if !block.is_empty() {
        visit(&block);
    }
    answer?;
    let program = path.file_stem().unwrap_or_default();
    Ok(TraceHeader {
        program: program.to_string_lossy().into_owned(),
        ..TraceHeader::default()
    })
}

fn read_own(
    input: Box<dyn Read>,
    limit: u64,
    visit: &mut dyn FnMut(&[Access]) -> bool,
) -> Result<TraceHeader, TraceError> {
    let mut reader = TraceReader::new(input)?;
    let mut block = Vec::new();
    let mut left = limit;
    while left > 0 && reader.next_block(&mut block)? {
        let take = (block.len() as u64).min(left);
        left -= take;
        if !visit(&block[..take as usize]) {
            break;
        }
    }
    Ok(reader.header)
}

/// A file that may have to be told of its end.
trait Output: Write {
    fn end(self: Box<Self>) -> io::Result<()>;
}

impl Output for BufWriter<WholeFile> {
    fn end(self: Box<Self>) -> io::Result<()> {
        let file = self.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.finish()
    }
}

impl Output for flate2::write::GzEncoder<BufWriter<WholeFile>> {
    fn end(self: Box<Self>) -> io::Result<()> {
        Box::new(self.finish()?).end()
    }
}

impl Output for liblzma::write::XzEncoder<BufWriter<WholeFile>> {
    fn end(self: Box<Self>) -> io::Result<()> {
        Box::new(self.finish()?).end()
    }
}

enum Sink {
    Own(TraceWriter<Box<dyn Output>>),
    Instructions(Box<InstructionWriter<Box<dyn Output>>>),
}

/// Writes a file of any format; a [`Consumer`].
pub struct FileWriter(Sink);

impl FileWriter {
    /// Starts a file, which is there when it is [finished](Self::finish). A name that ends in `.gz`
    /// or `.xz` makes it compressed.
    ///
    /// # Errors
    /// If it cannot be made, or the format is one of those that are only read.
    pub fn create(path: &Path, format: Format, header: &TraceHeader) -> Result<Self, TraceError> {
        if !Format::WRITTEN.contains(&format) {
            let written = Format::WRITTEN.map(Format::name).join(", ");
            return Err(TraceError::Syntax {
                place: "format".into(),
                what: format!("{} is only read; written are {written}", format.name()),
            });
        }
        let file = WholeFile::create(path).map_err(|source| TraceError::Io { at: 0, source })?;
        let file = BufWriter::new(file);
        let out: Box<dyn Output> = match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => Box::new(flate2::write::GzEncoder::new(
                file,
                flate2::Compression::default(),
            )),
            // Higher levels take minutes a gigabyte and gain little on records so alike.
            Some("xz") => Box::new(liblzma::write::XzEncoder::new(file, 1)),
            _ => Box::new(file),
        };
        Ok(FileWriter(match format {
            Format::Ample => Sink::Own(TraceWriter::new(out, header)?),
            Format::ChampSim => Sink::Instructions(Box::new(InstructionWriter::champsim(out))),
            _ => Sink::Instructions(Box::new(InstructionWriter::lackey(out))),
        }))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If writing fails, or failed while a program ran into this writer.
    pub fn finish(self) -> Result<(), TraceError> {
        let (at, out) = match self.0 {
            Sink::Own(writer) => writer.into_inner()?,
            Sink::Instructions(writer) => writer.finish()?,
        };
        out.end().map_err(|source| TraceError::Io { at, source })
    }
}

impl Consumer for FileWriter {
    fn consume(&mut self, block: &[Access]) -> bool {
        match &mut self.0 {
            Sink::Own(writer) => writer.consume(block),
            Sink::Instructions(writer) => writer.consume(block),
        }
    }
}

/// Replaces what a file of the project's own format says about itself: a recorder knows the
/// address space of a program only when that has ended.
///
/// # Errors
/// If the file cannot be read or written, or is none.
pub fn set_header(path: &Path, header: &TraceHeader) -> Result<(), TraceError> {
    let io = |source| TraceError::Io { at: 0, source };
    let mut from = TraceReader::new(io::BufReader::new(open(path)?))?;
    let mut to = BufWriter::new(WholeFile::create(path).map_err(io)?);
    crate::access::format::write_header(&mut to, header)?;
    io::copy(from.input(), &mut to).map_err(io)?;
    Box::new(to).end().map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backing, Recorder, Region, Scale, programs};

    fn sample() -> Vec<Access> {
        let mut all = Vec::new();
        let mut keep = |block: &[Access]| {
            all.extend_from_slice(block);
            true
        };
        let mut recorder = Recorder::new(&mut keep, 5_000);
        let mut program = programs::by_name("web", Scale::Tiny, 3).unwrap();
        program.run(&mut recorder);
        recorder.flush();
        all.truncate(1 + all.iter().rposition(|a| a.va != 0 && a.bytes == 8).unwrap());
        all
    }

    fn all_of(path: &Path) -> Vec<Access> {
        let mut all = Vec::new();
        let format = Format::of_file(path).unwrap();
        read(path, format, u64::MAX, &mut |block| {
            all.extend_from_slice(block);
            true
        })
        .unwrap();
        all
    }

    #[test]
    fn files_convert_into_each_other_and_back() {
        let directory = std::env::temp_dir().join(format!("ample-files-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let all = sample();
        for name in [
            "a.trace",
            "b.champsim",
            "c.champsim.gz",
            "d.champsim.xz",
            "e.lackey",
            "f.lackey.xz",
        ] {
            let path = directory.join(name);
            let format = Format::of_name(&path).unwrap();
            let mut file = FileWriter::create(&path, format, &TraceHeader::default()).unwrap();
            assert!(file.consume(&all));
            file.finish().unwrap();
            let back = all_of(&path);
            let plain = |a: &Access| match format {
                Format::Lackey => a.after(0),
                _ => *a,
            };
            assert_eq!(back.len(), all.len(), "{name}");
            assert!(
                back.iter()
                    .eq(all.iter().map(plain).collect::<Vec<_>>().iter()),
                "{name}"
            );
        }
        let path = directory.join("a.trace");
        let header = TraceHeader {
            program: "p".into(),
            regions: vec![Region {
                name: "r".into(),
                base: 4096,
                bytes: 4096,
                backing: Backing::Anonymous,
            }],
            partial: true,
        };
        set_header(&path, &header).unwrap();
        assert_eq!(all_of(&path), all);
        let told = read(&path, Format::Ample, 10, &mut |_| true).unwrap();
        assert_eq!(told, header);
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn files_that_tell_nothing_are_refused() {
        let path = std::env::temp_dir().join(format!("ample-nothing-{}", std::process::id()));
        std::fs::write(&path, [0u8; 128]).unwrap();
        let error = Format::of_file(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains("champsim"), "{error}");
    }
}
