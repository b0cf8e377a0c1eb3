// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the hardware is given and what it must answer, as lines of text for `hw/sim/cosim.cpp`:
//! an event (lower case) and after it all that it leads to (upper case). Kinds and states are the
//! codes of `hw/rtl/ctg_pkg.sv`.

use ample_migration::protocol::{
    Command, Completion, Mapping, Message, MetadataEntry, Phase, Role,
};
use std::io::{self, Write};

/// How pages are numbered in the hardware.
#[derive(Clone, Copy, Debug)]
pub struct PageNumbering {
    /// Log2 of the lines of a small page.
    pub small_log2: u32,
    /// Log2 of the lines of a large page.
    pub large_log2: u32,
}

impl PageNumbering {
    /// Source page number, destination page number, and whether the pages are large.
    pub fn of(self, map: Mapping) -> (u64, u64, u8) {
        let wide = self.large_log2 != self.small_log2 && map.lines == 1 << self.large_log2;
        let page = |line: u64| line >> self.small_log2;
        (page(map.src.0), page(map.dst.0), u8::from(wide))
    }
}

/// The code of a message that carries a migration.
pub fn code(message: &Message<bool>) -> Option<(u8, Mapping)> {
    Some(match *message {
        Message::Install(map) => (0, map),
        Message::Turn(map) => (1, map),
        Message::Finish(map) => (2, map),
        Message::Flush(map) => (3, map),
        Message::Clear(map) => (4, map),
        Message::CopyWrite { map, .. } => (5, map),
        Message::Handover { map, .. } => (6, map),
        Message::CopyAck { map, .. } => (7, map),
        Message::Installed(map) => (9, map),
        Message::SliceCopied(map) => (10, map),
        Message::Finished(map) => (11, map),
        Message::Flushed(map) => (12, map),
        Message::Cleared(map) => (13, map),
        Message::Mark(map) => (14, map),
        Message::Unmark(map) => (15, map),
        _ => return None,
    })
}

/// The code of a phase in `hw/rtl/ctg_pkg.sv`.
pub fn phase_code(phase: Phase) -> u8 {
    match phase {
        Phase::Purging => 0,
        Phase::Redirecting => 1,
        Phase::Copying => 2,
        Phase::Done => 3,
        Phase::Flushing => 4,
    }
}

/// Where the hardware keeps its pointer: at the next line of its own, as it skips the others
/// before anything else happens.
pub fn settled_pointer(entry: &MetadataEntry, side: Role, own: impl Fn(u64) -> bool) -> u32 {
    let lines = entry.map.lines;
    let mine = |i: &u32| own(entry.map.line(side, *i).0);
    (entry.pointer..lines).find(mine).unwrap_or(lines)
}

/// A decision for a request, as the hardware gives it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decision {
    /// 0 local, 1 forward, 2 refused.
    pub action: u8,
    /// Local: the line that is served.
    pub at: u64,
    /// Forward: the slice.
    pub target: u8,
    /// Forward: the mark that the request bears from here.
    pub resolved: bool,
    /// The slice that counts it, and the place of its entry there.
    pub origin: Option<(u8, usize)>,
}

/// Writes the trace.
pub struct Tracer<W: Write> {
    out: W,
    /// Events written.
    pub events: u64,
    failed: io::Result<()>,
}

impl<W: Write> Tracer<W> {
    /// A trace that goes to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            events: 0,
            failed: Ok(()),
        }
    }

    /// Writes an event that the hardware is given, and counts it.
    pub fn event(&mut self, text: std::fmt::Arguments<'_>) {
        self.events += 1;
        self.line(text);
    }

    /// What the last event leads to.
    pub fn line(&mut self, text: std::fmt::Arguments<'_>) {
        if self.failed.is_ok() {
            self.failed = self
                .out
                .write_fmt(text)
                .and_then(|()| self.out.write_all(b"\n"));
        }
    }

    /// A descriptor is put into the work queue, or finds it full.
    pub fn submit(&mut self, pages: PageNumbering, function: u8, command: Command, taken: bool) {
        let (src, dst, wide) = pages.of(command.map());
        let (clear, start) = flags(command);
        let taken = u8::from(taken);
        self.event(format_args!(
            "c {clear} {start} {wide} {src} {dst} {taken} {function}"
        ));
    }

    /// A completion record.
    pub fn record(&mut self, pages: PageNumbering, completion: Completion) {
        let (src, dst, wide) = pages.of(completion.command.map());
        let (clear, start) = flags(completion.command);
        let (status, function) = (completion.status.code(), completion.function);
        self.line(format_args!(
            "D {clear} {start} {wide} {src} {dst} {status} {function}"
        ));
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// When something could not be written.
    pub fn finish(mut self) -> io::Result<u64> {
        self.failed?;
        self.out.flush()?;
        Ok(self.events)
    }

    /// Whether the reader is still there.
    pub fn is_open(&self) -> bool {
        self.failed.is_ok()
    }
}

fn flags(command: Command) -> (u8, u8) {
    match command {
        Command::Migrate { start, .. } => (0, u8::from(start)),
        Command::Clear { .. } => (1, 0),
    }
}
