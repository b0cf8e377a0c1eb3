// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing a recorded machine.

use super::code::Encoder;
use super::{BLOCK_BYTES, END, FileHeader, MAGIC};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// zstd's fastest ordinary level: coded words are small already.
const LEVEL: i32 = 1;

/// Writes the words of all CPUs.
pub struct RecordingWriter {
    out: BufWriter<File>,
    block: Encoder,
    block_words: u32,
    words: u64,
    bytes: u64,
}

impl RecordingWriter {
    /// Makes the file.
    ///
    /// # Errors
    /// If it cannot be made or written.
    pub fn create(path: &Path, header: &FileHeader) -> io::Result<Self> {
        let json = serde_json::to_vec(header)?;
        let mut out = BufWriter::new(File::create(path)?);
        out.write_all(MAGIC)?;
        out.write_all(&(json.len() as u32).to_le_bytes())?;
        out.write_all(&json)?;
        out.write_all(&crc32fast::hash(&json).to_le_bytes())?;
        Ok(RecordingWriter {
            out,
            block: Encoder::default(),
            block_words: 0,
            words: 0,
            bytes: (MAGIC.len() + json.len() + 8) as u64,
        })
    }

    /// Takes whole records of a CPU, which come after all that were taken before.
    ///
    /// # Errors
    /// If the file cannot be written (a full disk): what is there is read up to the last block.
    pub fn put(&mut self, cpu: usize, words: &[u64]) -> io::Result<()> {
        let mut rest = words;
        while !rest.is_empty() {
            let coded = self.block.encode(cpu, rest, BLOCK_BYTES);
            self.block_words += coded as u32;
            rest = &rest[coded..];
            if self.block.bytes.len() >= BLOCK_BYTES {
                self.end_block()?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.block).bytes;
        let count = std::mem::take(&mut self.block_words);
        let stored = zstd::bulk::compress(&bytes, LEVEL)?;
        let head = [
            count,
            bytes.len() as u32,
            stored.len() as u32,
            crc32fast::hash(&bytes),
        ];
        for number in head {
            self.out.write_all(&number.to_le_bytes())?;
        }
        self.out.write_all(&stored)?;
        self.words += u64::from(count);
        self.bytes += 16 + stored.len() as u64;
        Ok(())
    }

    /// Completes the file; returns its bytes.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<u64> {
        if self.block_words > 0 {
            self.end_block()?;
        }
        self.out.write_all(&END.to_le_bytes())?;
        self.out.write_all(&self.words.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.bytes + 12)
    }
}
