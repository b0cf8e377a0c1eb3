// SPDX-License-Identifier: MIT OR Apache-2.0
//! Marking freed objects in their span.

use super::{INLINE, POOLS, Span};
use crate::size_class::Class;
use crate::units::PAGE_SHIFT;

/// Where objects of a span are marked free whose bits lie together: all of them, but in the
/// smallest class.
#[derive(Clone, Copy)]
pub struct SpanMarks {
    /// The address of the first of the objects.
    base: usize,
    /// Bytes that all of them take.
    bytes: usize,
    words: *mut u64,
    /// The count of free objects in the span.
    free: *mut u16,
}

impl SpanMarks {
    /// Of no span.
    pub const NONE: SpanMarks = SpanMarks {
        base: 0,
        bytes: 0,
        words: core::ptr::null_mut(),
        free: core::ptr::null_mut(),
    };

    /// Whether an address lies among the objects.
    #[inline(always)]
    pub const fn hold(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.bytes
    }

    /// Marks the first of `objects` free, as many as follow each other here; how many. `Err` with
    /// the place of one that is free already, or is no object.
    ///
    /// # Safety
    /// The caller holds the lock of the span's class, which is `info`, and the span is live.
    #[inline(always)]
    pub unsafe fn put_run(&self, info: &Class, objects: &[usize]) -> Result<usize, usize> {
        let mut run = 0;
        for &object in objects {
            let offset = object.wrapping_sub(self.base);
            if offset >= self.bytes {
                break;
            }
            let Some(index) = info.multiple_at(offset) else {
                return Err(run);
            };
            // SAFETY: as the caller promises; there is a bit for each object.
            let word = unsafe { &mut *self.words.add(index / 64) };
            let bit = 1 << (index % 64);
            if *word & bit != 0 {
                return Err(run);
            }
            *word |= bit;
            run += 1;
        }
        if run > 0 {
            // SAFETY: as the caller promises.
            unsafe { *self.free += run as u16 };
        }
        Ok(run)
    }
}

/// The marks of a span among which that of the object at `index` is. They may be used after other
/// references to the span were made.
///
/// # Safety
/// The caller holds the lock of the span's class, which is `info`.
#[inline(always)]
pub unsafe fn marks_of(id: u32, info: &Class, index: usize) -> SpanMarks {
    // SAFETY: as in `get`.
    let span = unsafe { (*POOLS.value_pointer()).spans.pointer(id) };
    // SAFETY: as the caller promises.
    unsafe { marks_at(span, info, index) }
}

impl Span {
    /// The same, to be used before other references to the span are.
    ///
    /// # Safety
    /// As for [`marks_of`].
    pub unsafe fn marks(&mut self, info: &Class, index: usize) -> SpanMarks {
        // SAFETY: as the caller promises.
        unsafe { marks_at(self, info, index) }
    }
}

/// # Safety
/// The span is live, and the caller holds the lock of its class, which is `info`.
#[inline(always)]
unsafe fn marks_at(span: *mut Span, info: &Class, index: usize) -> SpanMarks {
    let (objects, bytes) = (usize::from(info.objects), info.bytes as usize);
    // SAFETY: as the caller promises.
    let mut marks = unsafe {
        SpanMarks {
            base: (*span).page << PAGE_SHIFT,
            bytes: objects.min(INLINE) * bytes,
            words: (&raw mut (*span).bits).cast(),
            free: &raw mut (*span).free,
        }
    };
    if index >= INLINE {
        marks.base += marks.bytes;
        marks.bytes = (objects - INLINE) * bytes;
        // SAFETY: as above; spans of more objects have an extension.
        marks.words = unsafe {
            let extension = (*POOLS.value_pointer())
                .extensions
                .pointer((*span).extension);
            (&raw mut (*extension).words).cast()
        };
    }
    marks
}
