// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans: runs of pages that hold objects of one class, or one large object.

mod holes;
mod marks;

pub use holes::natives_of;
pub use marks::{SpanMarks, marks_of};

use crate::os::lock::{ForkLock, Lock};
use crate::os::meta::{Linked, Pool, Zeroed};
use crate::size_class::MAX_OBJECTS;

/// Objects whose bits lie in the description itself; only the smallest class has more.
const INLINE: usize = 256;
/// The list of a span that is on none: all its objects are in use.
pub const UNLISTED: u8 = u8::MAX;

/// The description of a span, apart from its memory: one cache line.
#[repr(align(64))]
pub struct Span {
    /// First page number.
    pub page: usize,
    /// Length in pages.
    pub pages: u32,
    /// Next on the list of its class, or of free spans.
    pub next: u32,
    /// Previous on the list of its class.
    pub previous: u32,
    /// What few spans need: the bitmap of free objects beyond the first 256, and holes.
    extension: u32,
    /// Free objects.
    pub free: u16,
    /// Size class; 0 for a large object.
    pub class: u8,
    /// The list of its class it is on, [`UNLISTED`] if none.
    pub list: u8,
    /// Whether the batch that is put back at present has objects of this span.
    pub touched: bool,
    /// Whether native pages of it are given back at present without a lock: on no list meanwhile.
    pub busy: bool,
    /// Free objects among the first 256.
    bits: [u64; INLINE / 64],
}

// SAFETY: integers only.
unsafe impl Zeroed for Span {}
impl Linked for Span {
    fn free_link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// Free objects of a span beyond the first 256, and the native pages that were given back.
struct Extension {
    words: [u64; (MAX_OBJECTS - INLINE) / 64],
    holes: u64,
    /// Native pages with free objects whose marks went with the memory: see
    /// [`Span::note_unmarked`].
    unmarked: u64,
    /// The epoch of the hugepage when they were made: see [`Span::holes`].
    epoch: u16,
    link: u32,
}

// SAFETY: integers only.
unsafe impl Zeroed for Extension {}
impl Linked for Extension {
    fn free_link(&mut self) -> &mut u32 {
        &mut self.link
    }
}

/// Chunks of the tables; few for miri, which looks at every entry at each reference to them.
const SPAN_CHUNKS: usize = if cfg!(miri) { 1 << 4 } else { 1 << 18 };

struct Pools {
    spans: Pool<Span, SPAN_CHUNKS>,
    extensions: Pool<Extension, { SPAN_CHUNKS / 2 }>,
}

static POOLS: Lock<Pools> = Lock::new(Pools {
    spans: Pool::new(),
    extensions: Pool::new(),
});

/// Whether nobody holds the lock.
pub fn is_free() -> bool {
    POOLS.is_free()
}

/// The lock to shut for a fork.
pub fn fork_lock() -> &'static dyn ForkLock {
    &POOLS
}

/// Spans in use.
pub fn live() -> usize {
    POOLS.lock().spans.live()
}

/// Sets the bits of the first `objects` objects.
fn fill(words: &mut [u64], objects: usize) {
    for (index, word) in words.iter_mut().enumerate() {
        let left = objects.saturating_sub(64 * index);
        *word = if left >= 64 {
            u64::MAX
        } else {
            (1 << left) - 1
        };
    }
}

/// A description for a span of `objects` objects, all free; `None` without memory.
pub fn create(page: usize, pages: usize, class: u8, objects: usize) -> Option<u32> {
    let mut pools = POOLS.lock();
    let extension = if objects > INLINE {
        pools.extensions.allocate()?
    } else {
        0
    };
    let Some(id) = pools.spans.allocate() else {
        if extension != 0 {
            pools.extensions.free(extension);
        }
        return None;
    };
    let mut bits = [0; INLINE / 64];
    fill(&mut bits, objects);
    if extension != 0 {
        let extension = &mut pools.extensions[extension];
        fill(&mut extension.words, objects - INLINE);
        extension.holes = 0;
        extension.unmarked = 0;
    }
    pools.spans[id] = Span {
        page,
        pages: pages as u32,
        next: 0,
        previous: 0,
        extension,
        free: objects as u16,
        class,
        list: UNLISTED,
        touched: false,
        busy: false,
        bits,
    };
    Some(id)
}

/// Gives descriptions back.
pub fn destroy(ids: &[u32]) {
    let mut pools = POOLS.lock();
    for &id in ids {
        let extension = pools.spans[id].extension;
        if extension != 0 {
            pools.extensions.free(extension);
        }
        pools.spans.free(id);
    }
}

/// The size class of a live span, which does not change.
pub fn class_of(id: u32) -> usize {
    // SAFETY: as for `get`; one byte is read that nobody writes while the span is live.
    unsafe { (&raw const (*(*POOLS.value_pointer()).spans.pointer(id)).class).read() }.into()
}

/// The size class of a span that may be gone by now, or another one.
pub fn class_of_any(id: u32) -> usize {
    let pools = POOLS.lock();
    // SAFETY: as for `class_of`; descriptions are made under the lock, which is held.
    unsafe { (&raw const (*pools.spans.pointer(id)).class).read() }.into()
}

/// The span.
///
/// # Safety
/// The span is live and the caller has the only reference to it: it holds the lock of the span's
/// class, or owns the large object.
pub unsafe fn get<'a>(id: u32) -> &'a mut Span {
    // Reading the chunk pointers needs no lock: they are written once, before the id is known.
    // SAFETY: the pool is a static; only atomics and the chunks themselves are touched.
    let pointer = unsafe { (*POOLS.value_pointer()).spans.pointer(id) };
    // SAFETY: the caller has the only reference.
    unsafe { &mut *pointer }
}

/// The extension of a span.
///
/// # Safety
/// As for [`get`].
unsafe fn extension<'a>(extension: u32) -> &'a mut Extension {
    // SAFETY: as in `get`.
    let pointer = unsafe { (*POOLS.value_pointer()).extensions.pointer(extension) };
    // SAFETY: the extension belongs to a span to which the caller has the only reference.
    unsafe { &mut *pointer }
}

impl Span {
    /// Takes free objects, lowest first, until `out` is full or none is left; how many.
    ///
    /// # Safety
    /// The caller holds the lock of the span's class.
    pub unsafe fn take(&mut self, out: &mut [usize], object_bytes: usize) -> usize {
        let base = self.page << crate::units::PAGE_SHIFT;
        let mut count = 0;
        for (index, word) in self.bits.iter_mut().enumerate() {
            let base = base + index * 64 * object_bytes;
            count += take_word(word, base, object_bytes, &mut out[count..]);
        }
        if self.extension != 0 {
            // SAFETY: as the caller promises.
            let words = &mut unsafe { extension(self.extension) }.words;
            for (index, word) in words.iter_mut().enumerate() {
                let base = base + (INLINE + index * 64) * object_bytes;
                count += take_word(word, base, object_bytes, &mut out[count..]);
            }
        }
        self.free -= count as u16;
        count
    }

    /// The word of the bitmap with the object's bit.
    ///
    /// # Safety
    /// As for [`marks_of`].
    #[inline]
    unsafe fn word(&mut self, index: usize) -> &mut u64 {
        if index < INLINE {
            return &mut self.bits[index / 64];
        }
        // SAFETY: as the caller promises; spans of more objects have an extension.
        let words = &mut unsafe { extension(self.extension) }.words;
        &mut words[(index - INLINE) / 64]
    }

    /// Whether an object is marked free.
    ///
    /// # Safety
    /// As for [`marks_of`].
    pub unsafe fn is_free(&mut self, index: usize) -> bool {
        // SAFETY: as the caller promises.
        unsafe { *self.word(index) >> (index % 64) & 1 == 1 }
    }
}

fn take_word(word: &mut u64, base: usize, object_bytes: usize, out: &mut [usize]) -> usize {
    let mut count = 0;
    while *word != 0 && count < out.len() {
        let bit = word.trailing_zeros() as usize;
        *word &= *word - 1;
        out[count] = base + bit * object_bytes;
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests;
