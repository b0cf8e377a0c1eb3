// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streaming reader of trace text, plain or zstd-compressed.

use super::error::PageTraceError;
use super::event::{EventKind, PageEvent};
use super::gfp::{Gfp, GfpCache};
use super::line::{self, BadField, TraceLine};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Read;

const BUFFER_BYTES: usize = 1 << 20;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Names of other events that are kept apart.
const OTHER_NAMES: usize = 32;
/// The share of unreadable lines is first looked at after this many.
const PATIENCE_LINES: u64 = 1000;

/// What was in a trace, in lines. Every line is in exactly one of the counts marked (line).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReadCounts {
    /// Lines of the file, of any kind.
    pub lines: u64,
    /// `mm_page_alloc` (line).
    pub page_alloc: u64,
    /// `mm_page_free` (line).
    pub page_free: u64,
    /// `mm_page_free_batched` (line).
    pub page_free_batched: u64,
    /// `mm_page_alloc_extfrag` (line).
    pub page_alloc_extfrag: u64,
    /// Of these, the ones after which the whole pageblock changed its type.
    pub extfrag_claimed: u64,
    /// `mm_page_alloc_zone_locked` (line).
    pub page_alloc_zone_locked: u64,
    /// `mm_page_pcpu_drain` (line).
    pub page_pcpu_drain: u64,
    /// Events of any other kind (line).
    pub other_events: u64,
    /// The same by name, up to 32 names.
    pub other_event_names: BTreeMap<String, u64>,
    /// Comments, headers, stacks, empty lines (line).
    pub quiet_lines: u64,
    /// Notes of the recorder that it lost events (line).
    pub lost_notes: u64,
    /// Events lost according to those notes and to the header of a `trace` file.
    pub lost_events: u64,
    /// Lines that could not be read (line).
    pub unreadable_lines: u64,
    /// The first of them: line, field, what is wrong.
    pub first_unreadable: Option<String>,
    /// The last line has no end and was left out (line).
    pub truncated_last_line: bool,
    /// Allocations with a flag that is not known here.
    pub unknown_gfp_flags: u64,
}

impl ReadCounts {
    /// Page events of all kinds.
    pub fn page_events(&self) -> u64 {
        self.page_alloc
            + self.page_free
            + self.page_free_batched
            + self.page_alloc_extfrag
            + self.page_alloc_zone_locked
            + self.page_pcpu_drain
    }

    fn event(&mut self, kind: EventKind) {
        match kind {
            EventKind::Alloc(traced) => {
                self.page_alloc += 1;
                self.unknown_gfp_flags += u64::from(traced.gfp.has(Gfp::UNKNOWN));
            }
            EventKind::Free { .. } => self.page_free += 1,
            EventKind::FreeBatched => self.page_free_batched += 1,
            EventKind::ExtFrag {
                change_ownership, ..
            } => {
                self.page_alloc_extfrag += 1;
                self.extfrag_claimed += u64::from(change_ownership);
            }
            EventKind::ZoneLocked => self.page_alloc_zone_locked += 1,
            EventKind::PcpuDrain => self.page_pcpu_drain += 1,
        }
    }

    fn other(&mut self, name: &[u8]) {
        self.other_events += 1;
        let name = String::from_utf8_lossy(name);
        let known = self.other_event_names.len() < OTHER_NAMES;
        if known || self.other_event_names.contains_key(&*name) {
            *self.other_event_names.entry(name.into_owned()).or_default() += 1;
        }
    }

    fn unreadable(&mut self, bad: BadField) {
        self.unreadable_lines += 1;
        if self.first_unreadable.is_none() {
            let text = format!("line {}, field {}: {}", self.lines, bad.field, bad.why);
            self.first_unreadable = Some(text);
        }
    }
}

/// Reads page events one by one, in constant memory.
pub struct PageEventReader<'a> {
    input: Box<dyn Read + Send + 'a>,
    name: String,
    max_unreadable_ratio: f64,
    buffer: Vec<u8>,
    /// The bytes of `buffer` not read yet.
    start: usize,
    end: usize,
    gfps: GfpCache,
    counts: ReadCounts,
}

impl std::fmt::Debug for PageEventReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageEventReader")
            .field("name", &self.name)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl<'a> PageEventReader<'a> {
    /// Reads `input`, decompressing it if it starts like zstd. `name` is for messages; a share
    /// of lines above `max_unreadable_ratio` that cannot be read is an error.
    ///
    /// # Errors
    /// [`PageTraceError::Read`] if not even the start can be read.
    pub fn new(
        mut input: impl Read + Send + 'a,
        name: &str,
        max_unreadable_ratio: f64,
    ) -> Result<PageEventReader<'a>, PageTraceError> {
        let error = |source| PageTraceError::Read {
            name: name.to_string(),
            line: 1,
            source,
        };
        let mut magic = Vec::with_capacity(4);
        input
            .by_ref()
            .take(4)
            .read_to_end(&mut magic)
            .map_err(error)?;
        let compressed = magic == ZSTD_MAGIC;
        let whole = std::io::Cursor::new(magic).chain(input);
        let input: Box<dyn Read + Send + 'a> = if compressed {
            Box::new(zstd::stream::read::Decoder::new(whole).map_err(error)?)
        } else {
            Box::new(whole)
        };
        Ok(PageEventReader {
            input,
            name: name.to_string(),
            max_unreadable_ratio,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            gfps: GfpCache::new(),
            counts: ReadCounts::default(),
        })
    }

    /// What was read so far.
    pub fn counts(&self) -> &ReadCounts {
        &self.counts
    }

    /// The next page event; `None` at the end.
    ///
    /// # Errors
    /// [`PageTraceError::Read`] and [`PageTraceError::TooManyUnreadable`].
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<PageEvent>, PageTraceError> {
        loop {
            let unread = &self.buffer[self.start..self.end];
            let Some(length) = memchr::memchr(b'\n', unread) else {
                if self.refill()? {
                    continue;
                }
                self.check_share()?;
                return Ok(None);
            };
            let line = &self.buffer[self.start..self.start + length];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.start += length + 1;
            self.counts.lines += 1;
            match line::parse(line, &mut self.gfps) {
                Ok(TraceLine::Event(event)) => {
                    self.counts.event(event.kind);
                    return Ok(Some(event));
                }
                Ok(TraceLine::Other(name)) => self.counts.other(name),
                Ok(TraceLine::Lost(lost)) => {
                    self.counts.lost_notes += 1;
                    self.counts.lost_events = self.counts.lost_events.saturating_add(lost);
                }
                Ok(TraceLine::Quiet) => {
                    self.counts.quiet_lines += 1;
                    let lost = line::overwritten(line).unwrap_or(0);
                    self.counts.lost_events = self.counts.lost_events.saturating_add(lost);
                }
                Err(bad) => {
                    self.counts.unreadable(bad);
                    if self.counts.lines >= PATIENCE_LINES {
                        self.check_share()?;
                    }
                }
            }
        }
    }

    /// Reads more bytes behind those that are left; false at the end of the input.
    fn refill(&mut self) -> Result<bool, PageTraceError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            return self.skip_line().map(|()| true);
        }
        let got = self.read_at_end()?;
        if got == 0 && self.end > 0 {
            // Without its end a line could be read as a shorter number.
            self.counts.lines += 1;
            self.counts.truncated_last_line = true;
            self.end = 0;
        }
        Ok(got > 0)
    }

    fn read_at_end(&mut self) -> Result<usize, PageTraceError> {
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(got) => {
                    self.end += got;
                    return Ok(got);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(PageTraceError::Read {
                        name: self.name.clone(),
                        line: self.counts.lines + 1,
                        source,
                    });
                }
            }
        }
    }

    /// Drops a line that is longer than the buffer.
    fn skip_line(&mut self) -> Result<(), PageTraceError> {
        self.counts.lines += 1;
        self.counts.unreadable(BadField {
            field: "line",
            why: "longer than 1 MB",
        });
        loop {
            self.end = 0;
            if self.read_at_end()? == 0 {
                return Ok(());
            }
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[..self.end]) {
                self.start = at + 1;
                return Ok(());
            }
        }
    }

    fn check_share(&self) -> Result<(), PageTraceError> {
        let counts = &self.counts;
        let share = counts.unreadable_lines as f64 / counts.lines.max(1) as f64;
        if share <= self.max_unreadable_ratio {
            return Ok(());
        }
        Err(PageTraceError::TooManyUnreadable {
            name: self.name.clone(),
            unreadable: counts.unreadable_lines,
            lines: counts.lines,
            limit_ratio: self.max_unreadable_ratio,
            first: counts.first_unreadable.clone().unwrap_or_default(),
        })
    }
}
