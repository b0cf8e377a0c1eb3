// SPDX-License-Identifier: MIT OR Apache-2.0
//! One line of trace text, in the forms of tracefs (`trace`, `trace_pipe`), `trace-cmd report`
//! and `perf script`.
//!
//! All three print `task [cpu] flags? time: event: key=value …` and differ in what stands before
//! the bracket, whether flags follow it, and the `kmem:` in front of perf's event names.

use super::event::{EventKind, MAX_CPUS, MAX_PFN, PageEvent, Task, Traced};
use super::gfp::{Gfp, GfpCache};
use ample_pfn::MAX_PAGE_ORDER;

/// What a line turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceLine<'a> {
    /// A page event.
    Event(PageEvent),
    /// An event of another kind, by name.
    Other(&'a [u8]),
    /// The recorder says that it lost events; how many, where it says so.
    Lost(u64),
    /// A comment, a header, a stack frame or nothing.
    Quiet,
}

/// Why a line could not be read: the field and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadField {
    /// Name of the field as in the trace, or `line` if not even the header could be found.
    pub field: &'static str,
    /// What is wrong.
    pub why: &'static str,
}

const NOT_AN_EVENT: BadField = BadField {
    field: "line",
    why: "no `[cpu] time: event:` in it",
};

fn bad(field: &'static str, why: &'static str) -> BadField {
    BadField { field, why }
}

/// Reads one line without its newline.
///
/// # Errors
/// The field that could not be read.
#[inline]
pub fn parse<'a>(line: &'a [u8], gfps: &mut GfpCache) -> Result<TraceLine<'a>, BadField> {
    let mut from = 0;
    let mut problem = None;
    // A task name may hold brackets too: try each one.
    while let Some(at) = memchr::memchr(b'[', &line[from..]) {
        let open = from + at;
        from = open + 1;
        match header(&line[open + 1..]) {
            Ok(Some(header)) => return event(&header, Task::of_line(&line[..open]), gfps),
            Ok(None) => {}
            Err(field) => problem = problem.or(Some(field)),
        }
    }
    if let Some(lost) = lost_events(line) {
        return Ok(TraceLine::Lost(lost));
    }
    if is_quiet(line) {
        return Ok(TraceLine::Quiet);
    }
    Err(problem.unwrap_or(NOT_AN_EVENT))
}

struct Header<'a> {
    cpu: u16,
    time_ns: u64,
    name: &'a [u8],
    rest: &'a [u8],
}

/// Reads `cpu] flags? time: [period] event: rest`; `None` if this is no such bracket.
#[inline]
fn header(text: &[u8]) -> Result<Option<Header<'_>>, BadField> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits == 0 || text.get(digits) != Some(&b']') {
        return Ok(None);
    }
    let (first, rest) = word(&text[digits + 1..]);
    let (time, rest) = if first.ends_with(b":") {
        (first, rest)
    } else {
        word(rest)
    };
    let Some(time) = time.strip_suffix(b":") else {
        return Ok(None);
    };
    if !time.first().is_some_and(u8::is_ascii_digit) {
        return Ok(None);
    }
    let cpu = number(&text[..digits]).filter(|&cpu| cpu < u64::from(MAX_CPUS));
    let cpu = cpu.ok_or(bad("cpu", "no CPU has such a number"))?;
    let time_ns = seconds(time)?;
    let (mut name, mut rest) = word(rest);
    if name.iter().all(u8::is_ascii_digit) {
        // The period of the sample, when perf prints it.
        (name, rest) = word(rest);
    }
    let name = name.strip_suffix(b":").unwrap_or(name);
    if name.is_empty() {
        return Err(bad("event", "the line ends before the event"));
    }
    Ok(Some(Header {
        cpu: cpu as u16,
        time_ns,
        name: name.strip_prefix(b"kmem:").unwrap_or(name),
        rest,
    }))
}

fn event<'a>(
    header: &Header<'a>,
    task: Task,
    gfps: &mut GfpCache,
) -> Result<TraceLine<'a>, BadField> {
    let kind = match header.name {
        b"mm_page_alloc" => Kind::Alloc,
        b"mm_page_free" => Kind::Free,
        b"mm_page_free_batched" => Kind::FreeBatched,
        b"mm_page_alloc_extfrag" => Kind::ExtFrag,
        b"mm_page_alloc_zone_locked" => Kind::ZoneLocked,
        b"mm_page_pcpu_drain" => Kind::PcpuDrain,
        b"PERF_RECORD_LOST" => return Ok(TraceLine::Lost(perf_lost(header.rest))),
        name => return Ok(TraceLine::Other(name)),
    };
    let fields = Fields::read(header.rest, gfps)?;
    let pfn = fields.pfn.ok_or(bad("pfn", "missing"))?;
    Ok(TraceLine::Event(PageEvent {
        time_ns: header.time_ns,
        pfn,
        cpu: header.cpu,
        kind: fields.kind(kind, pfn, task)?,
    }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Alloc,
    Free,
    FreeBatched,
    ExtFrag,
    ZoneLocked,
    PcpuDrain,
}

/// The fields of a page event that mean something here.
#[derive(Default)]
struct Fields {
    pfn: Option<u64>,
    order: Option<u8>,
    migratetype: Option<u8>,
    gfp: Option<Gfp>,
    fragmenting: bool,
    change_ownership: bool,
}

impl Fields {
    #[inline]
    fn read(mut rest: &[u8], gfps: &mut GfpCache) -> Result<Fields, BadField> {
        let mut fields = Fields::default();
        loop {
            let (token, after) = word(rest);
            if token.is_empty() {
                return Ok(fields);
            }
            rest = after;
            let Some(at) = token.iter().position(|&b| b == b'=') else {
                continue;
            };
            let (key, value) = (&token[..at], &token[at + 1..]);
            match key {
                b"pfn" => fields.pfn = Some(frame(value)?),
                b"order" => fields.order = Some(order(value)?),
                b"migratetype" => {
                    let small = number(value).filter(|&n| n < 8);
                    let why = bad("migratetype", "not a number from 0 to 7");
                    fields.migratetype = Some(small.ok_or(why)? as u8);
                }
                b"gfp_flags" => fields.gfp = Some(gfps.parse(value)),
                b"fragmenting" => fields.fragmenting = value == b"1",
                b"change_ownership" => fields.change_ownership = value == b"1",
                _ => {}
            }
        }
    }

    #[inline]
    fn kind(&self, kind: Kind, pfn: u64, task: Task) -> Result<EventKind, BadField> {
        let order = || {
            let order = self.order.ok_or(bad("order", "missing"))?;
            if pfn & ((1 << order) - 1) == 0 {
                Ok(order)
            } else {
                Err(bad("pfn", "not aligned to the order of the block"))
            }
        };
        Ok(match kind {
            Kind::Alloc => EventKind::Alloc(Traced {
                order: order()?,
                migratetype: self.migratetype.ok_or(bad("migratetype", "missing"))?,
                gfp: self.gfp.ok_or(bad("gfp_flags", "missing"))?,
                task,
            }),
            Kind::Free => EventKind::Free { order: order()? },
            Kind::FreeBatched => EventKind::FreeBatched,
            Kind::ExtFrag => EventKind::ExtFrag {
                fragmenting: self.fragmenting,
                change_ownership: self.change_ownership,
            },
            Kind::ZoneLocked => EventKind::ZoneLocked,
            Kind::PcpuDrain => EventKind::PcpuDrain,
        })
    }
}

/// The next word and what follows it.
#[inline]
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let start = text.iter().position(|&b| b != b' ' && b != b'\t');
    let text = &text[start.unwrap_or(text.len())..];
    let end = text.iter().position(|&b| b == b' ' || b == b'\t');
    text.split_at(end.unwrap_or(text.len()))
}

/// A decimal number of at most 19 digits.
#[inline]
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    text.iter().try_fold(0u64, |sum, &byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| sum * 10 + u64::from(digit))
    })
}

/// `0x…` as newer kernels print it, or decimal as older ones do.
#[inline]
fn frame(text: &[u8]) -> Result<u64, BadField> {
    let value = match text.strip_prefix(b"0x") {
        Some(digits) if !digits.is_empty() && digits.len() <= 15 => {
            digits.iter().try_fold(0u64, |sum, &byte| {
                let digit = (byte as char).to_digit(16)?;
                Some(sum << 4 | u64::from(digit))
            })
        }
        Some(_) => None,
        None => number(text),
    };
    match value {
        Some(pfn) if pfn < MAX_PFN => Ok(pfn),
        Some(_) => Err(bad("pfn", "beyond 1 TB, more than a replay can hold")),
        None => Err(bad("pfn", "not a frame number")),
    }
}

#[inline]
fn order(text: &[u8]) -> Result<u8, BadField> {
    match number(text) {
        Some(order) if order <= u64::from(MAX_PAGE_ORDER) => Ok(order as u8),
        Some(_) => Err(bad(
            "order",
            "larger than 10, the largest block of the buddy allocator",
        )),
        None => Err(bad("order", "not a number")),
    }
}

/// Seconds with a fraction of up to nine digits, in nanoseconds.
#[inline]
fn seconds(text: &[u8]) -> Result<u64, BadField> {
    let wrong = bad("time", "not seconds");
    let Some(dot) = text.iter().position(|&b| b == b'.') else {
        return Err(bad(
            "time",
            "no fraction: record with a clock in seconds (trace_clock mono, local or boot)",
        ));
    };
    let (whole, fraction) = (&text[..dot], &text[dot + 1..]);
    if fraction.is_empty() || fraction.len() > 9 || whole.len() > 9 {
        return Err(wrong);
    }
    let whole = number(whole).ok_or(wrong)?;
    let part = number(fraction).ok_or(wrong)?;
    Ok(whole * 1_000_000_000 + part * 10u64.pow(9 - fraction.len() as u32))
}

/// `CPU:3 [LOST 123 EVENTS]` of tracefs, `CPU:3 [123 EVENTS DROPPED]` of trace-cmd.
fn lost_events(line: &[u8]) -> Option<u64> {
    let text = line.trim_ascii();
    if text.starts_with(b"CPU:") {
        let open = memchr::memchr(b'[', text)?;
        let (first, rest) = word(&text[open + 1..]);
        let (second, rest) = word(rest);
        let (third, _) = word(rest);
        return match (first, second, third) {
            (b"LOST", count, b"EVENTS]") => number(count),
            (b"EVENTS", b"DROPPED]", _) => Some(0),
            (count, b"EVENTS", b"DROPPED]") => number(count),
            _ => None,
        };
    }
    None
}

/// `lost 123`, behind the `PERF_RECORD_LOST` of perf.
fn perf_lost(rest: &[u8]) -> u64 {
    let (_, rest) = word(rest);
    number(word(rest).0).unwrap_or(0)
}

/// Lines of recorders that are no events: comments, headers, stacks.
fn is_quiet(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let starts = |prefix: &[u8]| text.starts_with(prefix);
    if text.is_empty() || starts(b"#") || starts(b"=>") || starts(b"cpus=") {
        return true;
    }
    if starts(b"version = ") || starts(b"CPU ") && text.ends_with(b" is empty") {
        return true;
    }
    // A frame of a stack: an address, then a symbol.
    let (address, _) = word(text);
    line.first().is_some_and(u8::is_ascii_whitespace)
        && address.len() >= 8
        && address.iter().all(u8::is_ascii_hexdigit)
}

/// Entries that a `trace` file says were overwritten before it was read, from its header
/// `# entries-in-buffer/entries-written: 67356/128576   #P:2`.
pub fn overwritten(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"# entries-in-buffer/entries-written: ")?;
    let (counts, _) = word(rest);
    let slash = memchr::memchr(b'/', counts)?;
    let kept = number(&counts[..slash])?;
    number(&counts[slash + 1..])?.checked_sub(kept)
}
