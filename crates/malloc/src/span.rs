// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spans: runs of pages that hold objects of one class, or one large object.

use crate::lock::Lock;
use crate::meta::{Linked, Pool, Zeroed};
use crate::size_class::MAX_OBJECTS;

/// The description of a span, apart from its memory.
pub struct Span {
    /// First page number.
    pub page: usize,
    /// Pages.
    pub pages: u32,
    /// Next on the list of its class, or of free spans.
    pub next: u32,
    /// Previous on the list of its class.
    pub previous: u32,
    /// Bitmap of free objects beyond the first 64, if the class needs one.
    extension: u32,
    /// Free objects.
    pub free: u16,
    /// Size class; 0 for a large object.
    pub class: u8,
    /// The list of its class it is on.
    pub list: u8,
    /// Free objects among the first 64.
    bits: u64,
}

// SAFETY: integers only.
unsafe impl Zeroed for Span {}
impl Linked for Span {
    fn free_link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

/// Free objects of a span with more than 64.
struct Extension {
    words: [u64; MAX_OBJECTS / 64 - 1],
    link: u32,
}

// SAFETY: integers only.
unsafe impl Zeroed for Extension {}
impl Linked for Extension {
    fn free_link(&mut self) -> &mut u32 {
        &mut self.link
    }
}

struct Pools {
    spans: Pool<Span, { 1 << 18 }>,
    extensions: Pool<Extension, { 1 << 17 }>,
}

static POOLS: Lock<Pools> = Lock::new(Pools {
    spans: Pool::new(),
    extensions: Pool::new(),
});

/// Takes the lock before fork.
pub fn fork_prepare() {
    POOLS.acquire();
}

/// Gives the lock back after fork.
///
/// # Safety
/// [`fork_prepare`] was called.
pub unsafe fn fork_done() {
    // SAFETY: as the caller promises.
    unsafe { POOLS.release() }
}

/// Spans in use.
pub fn live() -> usize {
    POOLS.lock().spans.live()
}

/// A description for a span of `objects` objects, all free; `None` without memory.
pub fn create(page: usize, pages: usize, class: u8, objects: usize) -> Option<u32> {
    let mut pools = POOLS.lock();
    let extension = if objects > 64 {
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
    let low = if objects >= 64 {
        u64::MAX
    } else {
        (1 << objects) - 1
    };
    if extension != 0 {
        for (index, word) in pools.extensions[extension].words.iter_mut().enumerate() {
            let left = objects.saturating_sub(64 * (index + 1));
            *word = if left >= 64 {
                u64::MAX
            } else {
                (1 << left) - 1
            };
        }
    }
    pools.spans[id] = Span {
        page,
        pages: pages as u32,
        next: 0,
        previous: 0,
        extension,
        free: objects as u16,
        class,
        list: 0,
        bits: low,
    };
    Some(id)
}

/// Gives the description back.
pub fn destroy(id: u32) {
    let mut pools = POOLS.lock();
    let extension = pools.spans[id].extension;
    if extension != 0 {
        pools.extensions.free(extension);
    }
    pools.spans.free(id);
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

/// The further words of the bitmap.
///
/// # Safety
/// As for [`get`].
unsafe fn words<'a>(extension: u32) -> &'a mut [u64] {
    // SAFETY: as in `get`.
    let pointer = unsafe { (*POOLS.value_pointer()).extensions.pointer(extension) };
    // SAFETY: the extension belongs to a span to which the caller has the only reference.
    unsafe { &mut (*pointer).words }
}

impl Span {
    /// Takes free objects, lowest first, until `out` is full or none is left; how many.
    ///
    /// # Safety
    /// The caller holds the lock of the span's class.
    pub unsafe fn take(&mut self, out: &mut [usize], object_bytes: usize) -> usize {
        let base = self.page << crate::units::PAGE_SHIFT;
        let mut count = take_word(&mut self.bits, base, object_bytes, out);
        if self.extension != 0 && count < out.len() && usize::from(self.free) > count {
            // SAFETY: as the caller promises.
            for (index, word) in unsafe { words(self.extension) }.iter_mut().enumerate() {
                let base = base + (index + 1) * 64 * object_bytes;
                count += take_word(word, base, object_bytes, &mut out[count..]);
            }
        }
        self.free -= count as u16;
        count
    }

    /// Whether an object is marked free.
    ///
    /// # Safety
    /// As for [`Span::put`].
    pub unsafe fn is_free(&self, index: usize) -> bool {
        let word = if index < 64 {
            self.bits
        } else {
            // SAFETY: as the caller promises; spans of more than 64 objects have an extension.
            let words = unsafe { words(self.extension) };
            words[index / 64 - 1]
        };
        word >> (index % 64) & 1 == 1
    }

    /// Marks an object free; false if it already is.
    ///
    /// # Safety
    /// The caller holds the lock of the span's class; `index` is below the number of objects.
    pub unsafe fn put(&mut self, index: usize) -> bool {
        let word = if index < 64 {
            &mut self.bits
        } else {
            // SAFETY: as the caller promises; spans of more than 64 objects have an extension.
            let words = unsafe { words(self.extension) };
            &mut words[index / 64 - 1]
        };
        let bit = 1 << (index % 64);
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        self.free += 1;
        true
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
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn objects_are_taken_once_and_put_back_once() {
        for objects in [1, 63, 64, 65, 200, 512] {
            let id = create(16, 8, 1, objects).unwrap();
            // SAFETY: this test alone knows the span.
            let span = unsafe { get(id) };
            let mut seen = BTreeSet::new();
            let mut out = [0; 7];
            loop {
                // SAFETY: as above.
                let count = unsafe { span.take(&mut out, 128) };
                if count == 0 {
                    break;
                }
                for &address in &out[..count] {
                    assert!(seen.insert(address));
                }
            }
            assert_eq!(seen.len(), objects);
            assert_eq!(span.free, 0);
            for address in seen {
                let index = (address - (16 << 13)) / 128;
                // SAFETY: as above.
                assert!(unsafe { !span.is_free(index) && span.put(index) && span.is_free(index) });
                // SAFETY: as above.
                assert!(!unsafe { span.put(index) }, "a second free is noticed");
            }
            assert_eq!(usize::from(span.free), objects);
            destroy(id);
        }
    }
}
