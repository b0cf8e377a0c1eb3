// SPDX-License-Identifier: MIT OR Apache-2.0
//! Size classes: which sizes small requests are rounded to, and what spans they come from.
//!
//! Sixteen-byte steps up to 256 bytes and then eight steps per doubling, up to 256 KiB: 96 classes,
//! at most 1/8 and on average about 1/18 of an object lost to rounding. All classes are multiples
//! of 16 bytes, as the C ABI asks.

use crate::near::near;
use crate::units::{Density, PAGE_BYTES};

/// The number of classes; class 0 is not a size class.
pub const CLASSES: usize = 97;
/// The largest size that has a class, in bytes: 256 KiB.
pub const MAX_SMALL_BYTES: usize = 256 << 10;
/// The most objects in one span.
pub const MAX_OBJECTS: usize = 512;
/// The most objects moved between caches at a time.
pub const MAX_BATCH: usize = 64;

/// Alignment of every allocation, in bytes.
pub const MIN_ALIGN: usize = 16;

const STEP_SHIFT: u32 = 3;
const LINEAR_BYTES: usize = 128;
const TABLE_BYTES: usize = 1024;

/// What is fixed about a class.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Object size in bytes.
    pub bytes: u32,
    /// Pages in a span.
    pub pages: u16,
    /// Objects in a span.
    pub objects: u16,
    /// Objects moved between caches at a time.
    pub batch: u16,
    /// The most objects a per-CPU cache holds.
    pub slots: u16,
    /// `ceil(2^32 / bytes)`, to divide an offset by the size.
    reciprocal: u64,
}

impl Class {
    /// The object of a span that begins `offset` bytes into it; `None` if none begins there.
    #[inline]
    pub const fn object_at(&self, offset: usize) -> Option<usize> {
        // Beyond any span the product may overflow: what comes of it is no such object either.
        let index = ((offset as u64).wrapping_mul(self.reciprocal) >> 32) as usize;
        if index * self.bytes as usize == offset && index < self.objects as usize {
            Some(index)
        } else {
            None
        }
    }

    /// How many objects lie in so many bytes; `None` if the last of them is cut off.
    #[inline(always)]
    pub const fn multiple_at(&self, offset: usize) -> Option<usize> {
        let index = ((offset as u64).wrapping_mul(self.reciprocal) >> 32) as usize;
        if index * self.bytes as usize == offset {
            Some(index)
        } else {
            None
        }
    }

    /// Where spans of the class lie.
    #[inline]
    pub const fn density(&self) -> Density {
        Density::of(self.objects as usize)
    }
}

/// `ceil(2^64 / bytes)` of each class, 0 for what is no size class. An offset is a multiple of the
/// size if its product with this, modulo 2^64, is below this: Lemire, Kaser and Kurz, "Faster
/// remainder by direct computation", Software: Practice and Experience 49 (2019), proposition 1.
static MULTIPLES: [u64; 256] = {
    let (mut multiples, mut class) = ([0; 256], 1);
    while class < CLASSES {
        multiples[class] = u64::MAX / TABLE[class].bytes as u64 + 1;
        class += 1;
    }
    multiples
};

/// Whether `class` is a size class of which an object may begin `offset` bytes behind the beginning
/// of its span.
#[inline(always)]
pub fn is_multiple(class: u8, offset: usize) -> bool {
    debug_assert!(offset <= u32::MAX as usize);
    let multiple = near!(MULTIPLES: [u64; 256])[usize::from(class)];
    (offset as u64).wrapping_mul(multiple) < multiple
}

const fn class_bytes(class: usize) -> usize {
    if class <= LINEAR_BYTES / 16 {
        return class * 16;
    }
    let above = class - LINEAR_BYTES / 16 - 1;
    let base = LINEAR_BYTES << (above >> STEP_SHIFT);
    base + (base >> STEP_SHIFT) * ((above & 7) + 1)
}

/// Up to this size a span holds at least [`MANY`] objects: there a program makes and frees so many
/// that visits of the page heap count. In bytes.
const MANY_BYTES: usize = 2048;
const MANY: usize = 32;

/// The fewest pages whose rest is at most a 32nd of the span, or the best of up to 16 pages.
const fn span_pages(bytes: usize) -> usize {
    let least = if bytes <= MANY_BYTES { MANY } else { 1 };
    let first = (bytes * least).div_ceil(PAGE_BYTES);
    let (mut pages, mut best, mut best_rest) = (first, first, usize::MAX);
    while pages < first + 16 {
        let span = pages * PAGE_BYTES;
        let rest = span % bytes;
        if rest * 32 <= span {
            return pages;
        }
        // Compare rests as shares, in parts per million.
        let share = rest * 1_000_000 / span;
        if share < best_rest {
            best = pages;
            best_rest = share;
        }
        pages += 1;
    }
    best
}

const fn clamp(value: usize, low: usize, high: usize) -> usize {
    if value < low {
        low
    } else if value > high {
        high
    } else {
        value
    }
}

const fn build() -> [Class; CLASSES] {
    let none = Class {
        bytes: 0,
        pages: 0,
        objects: 0,
        batch: 0,
        slots: 0,
        reciprocal: 0,
    };
    let mut classes = [none; CLASSES];
    let mut class = 1;
    while class < CLASSES {
        let bytes = class_bytes(class);
        let pages = span_pages(bytes);
        classes[class] = Class {
            bytes: bytes as u32,
            pages: pages as u16,
            objects: (pages * PAGE_BYTES / bytes) as u16,
            batch: clamp((32 << 10) / bytes, 1, MAX_BATCH) as u16,
            slots: clamp((256 << 10) / bytes, 2, 2048) as u16,
            reciprocal: (1u64 << 32).div_ceil(bytes as u64),
        };
        class += 1;
    }
    classes
}

/// All classes, by number.
pub static TABLE: [Class; CLASSES] = build();

const fn build_lookup() -> Lookup {
    let mut lookup = [1; TABLE_BYTES / 16 + 1];
    let (mut slot, mut class) = (1, 1);
    while slot <= TABLE_BYTES / 16 {
        while class_bytes(class) < slot * 16 {
            class += 1;
        }
        lookup[slot] = class as u8;
        slot += 1;
    }
    lookup
}

type Lookup = [u8; TABLE_BYTES / 16 + 1];
static LOOKUP: Lookup = build_lookup();

/// The class of a request of at most [`MAX_SMALL_BYTES`].
#[inline(always)]
pub fn class_of(bytes: usize) -> usize {
    small_class_of(bytes).unwrap_or_else(|| computed_class(bytes))
}

/// The class of a request of at most `TABLE_BYTES`; `None` for a larger one.
#[inline(always)]
pub fn small_class_of(bytes: usize) -> Option<usize> {
    if bytes > TABLE_BYTES {
        return None;
    }
    let lookup = near!(LOOKUP: Lookup);
    // SAFETY: the slot is at most TABLE_BYTES / 16, the last of the table.
    Some(unsafe { *lookup.get_unchecked(bytes.div_ceil(16)) }.into())
}

/// The class by arithmetic, for sizes above 128 bytes.
#[inline]
const fn computed_class(bytes: usize) -> usize {
    let last = bytes - 1;
    let log2 = last.ilog2();
    let step = (last >> (log2 - STEP_SHIFT)) & 7;
    LINEAR_BYTES / 16 + ((log2 as usize - 7) << STEP_SHIFT) + step + 1
}

/// The class of a request with an alignment (a power of two, at most a page): the first class that
/// is large enough and a multiple of it. `None` if it needs a span of its own.
#[inline]
pub fn aligned_class_of(bytes: usize, align: usize) -> Option<usize> {
    if bytes > MAX_SMALL_BYTES || align > PAGE_BYTES {
        return None;
    }
    let mut class = class_of(bytes.next_multiple_of(align));
    while class < CLASSES {
        if (TABLE[class].bytes as usize).is_multiple_of(align) {
            return Some(class);
        }
        class += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_the_smallest_sufficient_class() {
        let mut class = 1;
        for bytes in 1..=MAX_SMALL_BYTES {
            while (TABLE[class].bytes as usize) < bytes {
                class += 1;
            }
            assert_eq!(class_of(bytes), class, "{bytes} bytes");
        }
        assert_eq!(class, CLASSES - 1);
        assert_eq!(class_of(0), 1);
    }

    #[test]
    fn waste_is_bounded() {
        let (mut rounding, mut tail) = (0.0f64, 0.0f64);
        for class in 2..CLASSES {
            let (below, this) = (TABLE[class - 1], TABLE[class]);
            let gap = f64::from(this.bytes - below.bytes);
            assert!(class <= 8 || gap / f64::from(this.bytes) <= 0.125);
            rounding += gap / 2.0 / f64::from(this.bytes) / (CLASSES - 2) as f64;
            let span = f64::from(this.pages) * PAGE_BYTES as f64;
            let rest = span - f64::from(this.objects) * f64::from(this.bytes);
            tail = tail.max(rest / span);
            assert!(
                rest / span <= 0.032,
                "class of {} bytes loses {rest}",
                this.bytes
            );
        }
        println!(
            "mean rounding {:.2} %, worst span tail {:.2} %",
            rounding * 100.0,
            tail * 100.0
        );
        assert!(rounding < 0.06);
    }

    #[test]
    fn spans_fit_their_bitmaps_and_batches_their_caches() {
        for class in &TABLE[1..] {
            assert!(class.objects >= 1 && class.objects as usize <= MAX_OBJECTS);
            assert!(class.bytes % 16 == 0);
            assert!(class.batch >= 1 && class.batch <= class.slots.max(class.batch));
            for index in 0..class.objects as usize {
                let offset = index * class.bytes as usize;
                assert_eq!(class.object_at(offset), Some(index));
                assert_eq!(class.object_at(offset + 8), None);
            }
            for offset in (0..usize::from(class.pages) * PAGE_BYTES).step_by(16) {
                let multiple = offset.is_multiple_of(class.bytes as usize);
                let number = class_of(class.bytes as usize) as u8;
                assert_eq!(is_multiple(number, offset), multiple);
            }
            assert_eq!(
                class.object_at(class.objects as usize * class.bytes as usize),
                None
            );
        }
    }

    #[test]
    fn aligned_classes_are_multiples_of_the_alignment() {
        for align in (0..=13).map(|shift| 1usize << shift) {
            for bytes in (1..40_000).step_by(61) {
                let class = TABLE[aligned_class_of(bytes, align).unwrap()];
                let size = class.bytes as usize;
                assert!(size >= bytes && size.is_multiple_of(align));
            }
        }
        assert_eq!(aligned_class_of(1, 2 * PAGE_BYTES), None);
    }
}
