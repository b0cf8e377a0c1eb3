// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page classes, run-length coded: about 1.5 bytes a run instead of 1 byte a page.
//!
//! A run is one byte, class in the low 5 bits and length 1–7 in the high 3; a length of 8 or more
//! has 0 there and follows as an unsigned LEB128 number. Each run has exactly one encoding.

use ample_pfn::{CLASS_COUNT, Layout, PageClass, Pfn, PfnRange};

const CLASS_BITS: u32 = 5;
const CLASS_MASK: u8 = (1 << CLASS_BITS) - 1;
const _: () = assert!(
    CLASS_COUNT <= 1 << CLASS_BITS,
    "a class must fit the run byte"
);
/// Longest length that fits the run byte.
const MAX_SHORT: u64 = 7;
/// Bit of a byte of a LEB128 number that more bytes follow.
const CONTINUES: u8 = 0x80;

/// The class of every frame of a range, run-length coded and known to be well formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRuns {
    span: PfnRange,
    bytes: Vec<u8>,
}

/// Why encoded runs were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run at byte {offset}: {what}")]
pub struct RunError {
    /// Position in the encoded bytes.
    pub offset: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl PageRuns {
    /// Takes encoded runs from outside after checking every one of them.
    ///
    /// # Errors
    /// [`RunError`] for an unknown class, a length that is cut off, not in its shortest form or
    /// too large, and when the runs do not cover exactly the frames of `span`.
    pub fn from_encoded(span: PfnRange, bytes: Vec<u8>) -> Result<PageRuns, RunError> {
        let mut offset = 0;
        let mut left = span.pages();
        while offset < bytes.len() {
            let (class, length, next) = decode(&bytes, offset)?;
            let fail = |what| Err(RunError { offset, what });
            if usize::from(class) >= CLASS_COUNT {
                return fail("unknown page class");
            }
            if length > left {
                return fail("more pages than the zones span");
            }
            left -= length;
            offset = next;
        }
        if left > 0 {
            return Err(RunError {
                offset,
                what: "fewer pages than the zones span",
            });
        }
        Ok(PageRuns { span, bytes })
    }

    /// The encoded form.
    pub fn encoded(&self) -> &[u8] {
        &self.bytes
    }

    /// The frames covered.
    pub fn span(&self) -> PfnRange {
        self.span
    }

    /// The runs, ascending; neighbours may have the same class.
    pub fn iter(&self) -> impl Iterator<Item = (PfnRange, PageClass)> + '_ {
        let (mut offset, mut pfn) = (0, self.span.start);
        std::iter::from_fn(move || {
            // Well formed by construction: neither call fails before the end.
            let (class, length, next) = decode(&self.bytes, offset).ok()?;
            let range = PfnRange::new(pfn, Pfn(pfn.0 + length));
            (offset, pfn) = (next, range.end);
            Some((range, PageClass::from_u8(class)?))
        })
    }

    /// One class a frame, from the first frame of [`PageRuns::span`] on.
    pub fn expand(&self) -> Vec<PageClass> {
        let mut classes = Vec::with_capacity(self.span.pages() as usize);
        for (range, class) in self.iter() {
            classes.resize(classes.len() + range.pages() as usize, class);
        }
        classes
    }
}

/// Class byte, length and offset of the next run. There are as many as a machine's memory is in
/// pieces, and whether one fits a byte or takes two cannot be foreseen: both are read without a
/// branch.
#[inline]
fn decode(bytes: &[u8], offset: usize) -> Result<(u8, u64, usize), RunError> {
    let Some(&head) = bytes.get(offset) else {
        return Err(RunError {
            offset,
            what: "end of runs",
        });
    };
    let own = bytes.get(offset + 1).copied().unwrap_or(CONTINUES);
    let has_own = head >> CLASS_BITS == 0;
    let is_one_byte = (MAX_SHORT as u8 + 1..CONTINUES).contains(&own);
    if has_own & !is_one_byte {
        let (length, next) = decode_length(bytes, offset)?;
        return Ok((head, length, next));
    }
    let length = if has_own { own } else { head >> CLASS_BITS };
    Ok((
        head & CLASS_MASK,
        u64::from(length),
        offset + 1 + usize::from(has_own),
    ))
}

/// Length of a run that has its own number, and the offset of the next.
fn decode_length(bytes: &[u8], offset: usize) -> Result<(u64, usize), RunError> {
    let fail = |what| RunError { offset, what };
    let mut length = 0u64;
    for (index, &byte) in bytes[offset + 1..].iter().enumerate().take(9) {
        length |= u64::from(byte & !CONTINUES) << (7 * index);
        if byte & CONTINUES == 0 {
            let shortest = length > MAX_SHORT && (byte != 0 || index == 0);
            return if shortest {
                Ok((length, offset + index + 2))
            } else {
                Err(fail("padded length"))
            };
        }
    }
    Err(fail("length cut off or too large"))
}

/// Builds [`PageRuns`] from chunks of classes in ascending order.
#[derive(Clone, Debug)]
pub struct RunEncoder {
    span: PfnRange,
    bytes: Vec<u8>,
    next: Pfn,
    class: PageClass,
    length: u64,
}

impl RunEncoder {
    /// An encoder for the frames of a layout. Frames that are never pushed become holes.
    pub fn new(layout: &Layout) -> RunEncoder {
        let span = layout.span();
        let (next, class) = (span.start, PageClass::Hole);
        RunEncoder {
            span,
            bytes: Vec::new(),
            next,
            class,
            length: 0,
        }
    }

    /// Adds consecutive frames from `start`. Frames outside the layout, and frames at or below
    /// one that was already pushed, are ignored.
    pub fn push(&mut self, start: Pfn, classes: &[PageClass]) {
        let end = Pfn(start.0.saturating_add(classes.len() as u64));
        let range = PfnRange::new(start, end).intersect(PfnRange::new(self.next, self.span.end));
        if range.is_empty() {
            return;
        }
        if range.start > self.next {
            self.extend(PageClass::Hole, range.start.0 - self.next.0);
        }
        let from = (range.start.0 - start.0) as usize;
        let mut rest = &classes[from..from + range.pages() as usize];
        while let Some(&class) = rest.first() {
            let length = leading_run(rest, class);
            self.extend(class, length as u64);
            rest = &rest[length..];
        }
    }

    fn extend(&mut self, class: PageClass, pages: u64) {
        if class != self.class {
            self.flush();
            self.class = class;
        }
        self.length += pages;
        self.next = Pfn(self.next.0 + pages);
    }

    fn flush(&mut self) {
        let class = self.class as u8;
        match self.length {
            0 => {}
            length @ 1..=MAX_SHORT => self.bytes.push(class | (length as u8) << CLASS_BITS),
            mut length => {
                self.bytes.push(class);
                while length >= u64::from(CONTINUES) {
                    self.bytes.push(length as u8 | CONTINUES);
                    length >>= 7;
                }
                self.bytes.push(length as u8);
            }
        }
        self.length = 0;
    }

    /// The runs of the whole layout.
    pub fn finish(mut self) -> PageRuns {
        let missing = self.span.end.0 - self.next.0;
        if missing > 0 {
            self.extend(PageClass::Hole, missing);
        }
        self.flush();
        self.bytes.shrink_to_fit();
        PageRuns {
            span: self.span,
            bytes: self.bytes,
        }
    }
}

/// Length of the run of `class` that `classes` starts with. Long runs are the rule, so whole
/// chunks are compared at once.
fn leading_run(classes: &[PageClass], class: PageClass) -> usize {
    const CHUNK: usize = 64;
    let same = |chunk: &&[PageClass]| {
        chunk
            .iter()
            .fold(0u8, |acc, &c| acc | (c as u8 ^ class as u8))
            == 0
    };
    let whole = classes.chunks_exact(CHUNK).take_while(same).count() * CHUNK;
    let tail = classes[whole..].iter().position(|&c| c != class);
    tail.map_or(classes.len(), |tail| whole + tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class_strategy() -> impl Strategy<Value = PageClass> {
        (0..CLASS_COUNT as u8).prop_map(|id| PageClass::from_u8(id).expect("dense ids"))
    }

    proptest! {
        #[test]
        fn runs_round_trip(
            start in 0u64..5000,
            runs in prop::collection::vec((class_strategy(), 1usize..700), 1..40),
            cut in 1usize..900,
        ) {
            let classes: Vec<PageClass> =
                runs.iter().flat_map(|&(class, n)| std::iter::repeat_n(class, n)).collect();
            let layout = Layout::single(Pfn(start), classes.len() as u64);
            let mut encoder = RunEncoder::new(&layout);
            for (index, chunk) in classes.chunks(cut).enumerate() {
                encoder.push(Pfn(start + (index * cut) as u64), chunk);
            }
            let encoded = encoder.finish();
            prop_assert_eq!(encoded.expand(), classes);
            let again = PageRuns::from_encoded(layout.span(), encoded.encoded().to_vec());
            prop_assert_eq!(again, Ok(encoded));
        }

        #[test]
        fn any_bytes_are_refused_or_cover_the_span(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            pages in 0u64..3000,
        ) {
            let span = PfnRange::new(Pfn(7), Pfn(7 + pages));
            if let Ok(runs) = PageRuns::from_encoded(span, bytes) {
                prop_assert_eq!(runs.expand().len() as u64, pages);
            }
        }
    }

    #[test]
    fn gaps_are_holes_and_overlaps_are_ignored() {
        let mut encoder = RunEncoder::new(&Layout::single(Pfn(10), 20));
        encoder.push(Pfn(0), &[PageClass::Slab; 12]);
        encoder.push(Pfn(15), &[PageClass::Anon; 2]);
        encoder.push(Pfn(16), &[PageClass::File; 2]);
        encoder.push(Pfn(100), &[PageClass::File; 2]);
        let runs: Vec<_> = encoder
            .finish()
            .iter()
            .map(|(r, c)| (r.start.0, r.end.0, c.name()))
            .collect();
        let expected = [
            (10, 12, "slab"),
            (12, 15, "hole"),
            (15, 17, "anon"),
            (17, 18, "file"),
            (18, 30, "hole"),
        ];
        assert_eq!(runs, expected);
    }

    #[test]
    fn malformed_runs_name_the_byte() {
        let span = PfnRange::new(Pfn(0), Pfn(10));
        let error = |bytes: &[u8]| PageRuns::from_encoded(span, bytes.to_vec()).unwrap_err();
        assert_eq!(error(&[]).what, "fewer pages than the zones span");
        assert_eq!(error(&[7 << 5, 4 << 5]).offset, 1);
        assert_eq!(error(&[0, 7]).what, "padded length");
        assert_eq!(error(&[0, 0x8a, 0]).what, "padded length");
        assert_eq!(error(&[0, 0x80]).what, "length cut off or too large");
        assert_eq!(error(&[0; 1]).what, "length cut off or too large");
        assert_eq!(error(&[31 | 1 << 5]).what, "unknown page class");
    }
}
