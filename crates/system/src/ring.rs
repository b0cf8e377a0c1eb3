// SPDX-License-Identifier: MIT OR Apache-2.0
//! One CPU's ring of words: a file in shared memory that the recorder maps and fills and that is
//! read here. The file is read and written with system calls: no memory is shared with safe code.
//!
//! ```text
//! 0    magic, version, words (a power of two)
//! 64   head, !head    written by the recorder: words so far
//! 128  tail, !tail    written here: words taken
//! 192  stop           written here: record no more
//! 4096 words
//! ```
//! A counter counts only where its complement stands beside it: a read that falls between two
//! writes of the other side is done again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u64 = u64::from_le_bytes(*b"AMPRING1");
const VERSION: u64 = 2;
const HEAD: u64 = 64;
const TAIL: u64 = 128;
const STOP: u64 = 192;
const DATA: u64 = 4096;

/// The reader's side of a ring.
#[derive(Debug)]
pub struct Ring {
    file: File,
    words: u64,
    taken: u64,
}

impl Ring {
    /// Makes the file of an empty ring of `words` words (a power of two) at `path`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path, words: u64) -> io::Result<Self> {
        assert!(words.is_power_of_two() && words >= 4096, "{words} words");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        file.set_len(DATA + 8 * words)?;
        for (at, value) in [MAGIC, VERSION, words].into_iter().enumerate() {
            file.write_all_at(&value.to_le_bytes(), 8 * at as u64)?;
        }
        let ring = Ring {
            file,
            words,
            taken: 0,
        };
        ring.set(HEAD, 0)?;
        ring.set(TAIL, 0)?;
        Ok(ring)
    }

    fn set(&self, at: u64, value: u64) -> io::Result<()> {
        let mut pair = [0; 16];
        pair[..8].copy_from_slice(&value.to_le_bytes());
        pair[8..].copy_from_slice(&(!value).to_le_bytes());
        self.file.write_all_at(&pair, at)
    }

    /// Words that the recorder has written so far.
    fn head(&self) -> io::Result<u64> {
        let mut pair = [0; 16];
        loop {
            self.file.read_exact_at(&mut pair, HEAD)?;
            let [value, check] = [0, 8].map(|at| word(&pair[at..]));
            if value == !check {
                return Ok(value);
            }
            std::hint::spin_loop();
        }
    }

    /// Takes at most `most` words that have not been taken yet and appends them to `words`; returns
    /// how many. Their place is the recorder's again.
    ///
    /// # Errors
    /// If the file cannot be read, or the recorder has written more than the ring holds.
    pub fn take(&mut self, most: usize, words: &mut Vec<u64>) -> io::Result<usize> {
        let waiting = self.head()?.wrapping_sub(self.taken);
        if waiting > self.words {
            let told = format!("{waiting} words wait in a ring of {}", self.words);
            return Err(io::Error::new(io::ErrorKind::InvalidData, told));
        }
        let count = waiting.min(most as u64);
        let mut bytes = [0; 1 << 16];
        let mut left = count;
        while left > 0 {
            let place = self.taken & (self.words - 1);
            let now = left.min(self.words - place).min(bytes.len() as u64 / 8);
            let part = &mut bytes[..8 * now as usize];
            self.file.read_exact_at(part, DATA + 8 * place)?;
            words.extend(part.chunks_exact(8).map(word));
            self.taken += now;
            left -= now;
        }
        if count > 0 {
            self.set(TAIL, self.taken)?;
        }
        Ok(count as usize)
    }

    /// Asks the recorder to record no more; the guest runs on undisturbed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn stop(&self) -> io::Result<()> {
        self.file.write_all_at(&1u64.to_le_bytes(), STOP)
    }
}

/// The little-endian word at the start of some bytes.
pub(crate) fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The recorder's side.
    pub(crate) struct Producer {
        file: File,
        words: u64,
        head: u64,
    }

    impl Producer {
        /// An empty ring at `path` and its recorder.
        pub(crate) fn pair(path: &Path, words: u64) -> (Ring, Self) {
            let ring = Ring::create(path, words).unwrap();
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .unwrap();
            let head = 0;
            (ring, Producer { file, words, head })
        }

        pub(crate) fn put(&mut self, words: impl IntoIterator<Item = u64>) {
            for word in words {
                let at = DATA + 8 * (self.head & (self.words - 1));
                self.file.write_all_at(&word.to_le_bytes(), at).unwrap();
                self.head += 1;
            }
        }

        pub(crate) fn publish(&self) {
            self.file
                .write_all_at(&self.head.to_le_bytes(), HEAD)
                .unwrap();
            self.file
                .write_all_at(&(!self.head).to_le_bytes(), HEAD + 8)
                .unwrap();
        }

        fn counter(&self, at: u64) -> u64 {
            let mut bytes = [0; 8];
            self.file.read_exact_at(&mut bytes, at).unwrap();
            u64::from_le_bytes(bytes)
        }

        fn tail(&self) -> u64 {
            self.counter(TAIL)
        }

        /// Words that there is room for.
        pub(crate) fn room(&self) -> u64 {
            self.words - (self.head - self.tail())
        }

        /// Words that the reader cannot see yet.
        pub(crate) fn unpublished(&self) -> u64 {
            self.head - self.counter(HEAD)
        }
    }

    fn pair(directory: &Path, words: u64) -> (Ring, Producer) {
        Producer::pair(&directory.join("ring"), words)
    }

    #[test]
    fn words_come_in_order_over_the_end_of_the_ring() {
        let directory = tempfile::tempdir().unwrap();
        let (mut ring, mut producer) = pair(directory.path(), 4096);
        let (mut taken, mut next) = (Vec::new(), 0u64);
        for round in 1..200u64 {
            let many = round * 37 % 4096;
            producer.put(next..next + many);
            next += many;
            producer.publish();
            while ring.take(500, &mut taken).unwrap() > 0 {}
            assert_eq!(producer.tail(), next);
        }
        assert!(taken.iter().copied().eq(0..next));
    }

    #[test]
    fn what_is_not_published_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let (mut ring, mut producer) = pair(directory.path(), 4096);
        producer.put(0..10);
        let mut taken = Vec::new();
        assert_eq!(ring.take(100, &mut taken).unwrap(), 0);
        producer.publish();
        assert_eq!(ring.take(4, &mut taken).unwrap(), 4);
        assert_eq!(ring.take(100, &mut taken).unwrap(), 6);
        assert_eq!(taken, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn more_words_than_a_ring_holds_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (mut ring, mut producer) = pair(directory.path(), 4096);
        producer.head = 4097;
        producer.publish();
        let error = ring.take(10, &mut Vec::new()).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("4097 words wait in a ring of 4096")
        );
    }
}
