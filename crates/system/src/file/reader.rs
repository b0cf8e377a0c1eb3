// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading a recorded machine.

use super::{
    END, FileError, FileHeader, MAGIC, MOST_BLOCK_BYTES, MOST_HEADER_BYTES, OLD_MAGIC, code,
};
use crate::guest::CPUS;
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::path::Path;

/// Reads words one part of a turn after another.
pub struct RecordingReader<R> {
    input: R,
    header: FileHeader,
    block: u64,
    words: u64,
    /// The words of the block that is read, and which of them are whose, the last first.
    block_words: Vec<u64>,
    parts: Vec<(usize, Range<usize>)>,
}

/// How a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// With its end, as it was written.
    Whole,
    /// In the middle: the recording was cut off.
    CutOff,
}

impl RecordingReader<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read or is none of ours.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        RecordingReader::new(BufReader::with_capacity(1 << 20, File::open(path)?))
    }
}

impl<R: Read> RecordingReader<R> {
    /// Reads from anything.
    ///
    /// # Errors
    /// If the start cannot be read or is none of ours.
    pub fn new(mut input: R) -> Result<Self, FileError> {
        let mut magic = [0; 8];
        if !filled(&mut input, &mut magic)? || ![MAGIC, OLD_MAGIC].contains(&&magic) {
            return Err(FileError::NotOurs);
        }
        if magic == *OLD_MAGIC {
            return Err(FileError::NoOrder);
        }
        let damaged = |what: &str| FileError::Header(what.to_owned());
        let length = number(&mut input)?.ok_or_else(|| damaged("it is cut off"))?;
        if length > MOST_HEADER_BYTES {
            return Err(damaged("it is too long"));
        }
        let mut json = vec![0; length as usize];
        if !filled(&mut input, &mut json)? {
            return Err(damaged("it is cut off"));
        }
        if number(&mut input)? != Some(crc32fast::hash(&json)) {
            return Err(damaged("its checksum differs"));
        }
        let header: FileHeader =
            serde_json::from_slice(&json).map_err(|e| FileError::Header(e.to_string()))?;
        if !(1..=CPUS).contains(&header.cpus) {
            return Err(damaged("it names no number of CPUs that there can be"));
        }
        Ok(RecordingReader {
            input,
            header,
            block: 0,
            words: 0,
            block_words: Vec::new(),
            parts: Vec::new(),
        })
    }

    /// What was recorded.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// The next words of one CPU, in the order in which they were recorded: whole records; or how
    /// the file ended.
    ///
    /// # Errors
    /// If the block that they are in is damaged.
    pub fn next_part(&mut self) -> Result<Result<(usize, &[u64]), ReadEnd>, FileError> {
        while self.parts.is_empty() {
            if let Err(end) = self.next_block()? {
                return Ok(Err(end));
            }
        }
        let (cpu, part) = self.parts.pop().expect("a block has parts");
        Ok(Ok((cpu, &self.block_words[part])))
    }

    fn next_block(&mut self) -> Result<Result<(), ReadEnd>, FileError> {
        let block = self.block;
        let damaged = |what| FileError::Block { block, what };
        let Some(count) = number(&mut self.input)? else {
            return Ok(Err(ReadEnd::CutOff));
        };
        if count == END {
            let mut total = [0; 8];
            if !filled(&mut self.input, &mut total)? {
                return Ok(Err(ReadEnd::CutOff));
            }
            return match u64::from_le_bytes(total) == self.words {
                true => Ok(Err(ReadEnd::Whole)),
                false => Err(damaged("the file tells of another number of words")),
            };
        }
        let mut head = [0; 3];
        for part in &mut head {
            match number(&mut self.input)? {
                Some(value) => *part = value,
                None => return Ok(Err(ReadEnd::CutOff)),
            }
        }
        let [raw, stored, crc] = head;
        if raw > MOST_BLOCK_BYTES || stored > MOST_BLOCK_BYTES {
            return Err(damaged("it is too long"));
        }
        let mut frame = vec![0; stored as usize];
        if !filled(&mut self.input, &mut frame)? {
            return Ok(Err(ReadEnd::CutOff));
        }
        let bytes = zstd::bulk::decompress(&frame, raw as usize);
        let bytes = bytes.map_err(|_| damaged("it cannot be decompressed"))?;
        if bytes.len() != raw as usize || crc32fast::hash(&bytes) != crc {
            return Err(damaged("its checksum differs"));
        }
        self.block_words.clear();
        let parts = code::decode(&bytes, &mut self.block_words);
        self.parts = parts.ok_or_else(|| damaged("it holds what is no record"))?;
        self.parts.reverse();
        if self.block_words.len() != count as usize {
            return Err(damaged("it has another number of words than it says"));
        }
        if self.parts.iter().any(|&(cpu, _)| cpu >= self.header.cpus) {
            return Err(damaged("it is of a CPU that there is not"));
        }
        self.block += 1;
        self.words += u64::from(count);
        Ok(Ok(()))
    }
}

/// Fills a buffer; false if the input ends before.
fn filled(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<bool> {
    match input.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

fn number(input: &mut impl Read) -> std::io::Result<Option<u32>> {
    let mut bytes = [0; 4];
    Ok(filled(input, &mut bytes)?.then(|| u32::from_le_bytes(bytes)))
}
