// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holes: native pages inside a span in use that were given back to the system, because no live
//! object lies on them. One bit each, the first native page of the span lowest.

use super::{Extension, INLINE, POOLS, Span, extension};
use crate::size_class::Class;
use crate::units::{NATIVE_BYTES, PAGE_BYTES};

/// The native pages of a span of the class on which an object lies.
pub const fn natives_of(info: &Class, index: usize) -> u64 {
    let start = index * info.bytes as usize;
    let (first, last) = (
        start / NATIVE_BYTES,
        (start + info.bytes as usize - 1) / NATIVE_BYTES,
    );
    (u64::MAX >> (63 - (last - first))) << first
}

impl Span {
    /// The native pages without a live object, of a class whose spans have 64 at most.
    ///
    /// # Safety
    /// The caller holds the lock of the span's class, which is `info`.
    pub unsafe fn empty_natives(&mut self, info: &Class) -> u64 {
        let natives = usize::from(info.pages) * (PAGE_BYTES / NATIVE_BYTES);
        debug_assert!(natives <= 64);
        // SAFETY: as the caller promises.
        u64::MAX >> (64 - natives) & !unsafe { self.natives_with(info, false) }
    }

    /// The native pages on which a free object lies, or a live one.
    ///
    /// # Safety
    /// As for [`Span::empty_natives`].
    unsafe fn natives_with(&mut self, info: &Class, free: bool) -> u64 {
        let (mut natives, objects) = (0, usize::from(info.objects));
        for first in (0..objects).step_by(64) {
            // SAFETY: as the caller promises; the object is one of the span's.
            let word = unsafe { *self.word(first) };
            let mut such = if free { word } else { !word };
            if objects - first < 64 {
                such &= (1 << (objects - first)) - 1;
            }
            while such != 0 {
                natives |= natives_of(info, first + such.trailing_zeros() as usize);
                such &= such - 1;
            }
        }
        natives
    }

    /// The native pages with free objects that have no mark.
    ///
    /// # Safety
    /// As for [`Span::holes`].
    #[inline]
    pub unsafe fn unmarked(&self) -> u64 {
        if self.extension == 0 {
            return 0;
        }
        // SAFETY: as the caller promises.
        unsafe { extension(self.extension) }.unmarked
    }

    /// Notes that the marks of the free objects on more native pages are gone. They count as gone
    /// until no object there is free: what is handed out is marked when it comes back.
    ///
    /// # Safety
    /// As for [`Span::set_holes`], and the class is `info`.
    pub unsafe fn note_unmarked(&mut self, info: &Class, more: u64) {
        // SAFETY: as the caller promises.
        unsafe {
            let unmarked = self.unmarked() | more;
            extension(self.extension).unmarked = unmarked & self.natives_with(info, true);
        }
    }

    /// The holes, and the epoch of the hugepage when they were made: a hugepage that is rebuilt has
    /// none, and is in its next epoch.
    ///
    /// # Safety
    /// The caller holds the lock of the span's class.
    #[inline]
    pub unsafe fn holes(&self) -> (u64, u16) {
        if self.extension == 0 {
            return (0, 0);
        }
        // SAFETY: as the caller promises.
        let extension = unsafe { extension(self.extension) };
        (extension.holes, extension.epoch)
    }

    /// Notes which native pages are holes.
    ///
    /// # Safety
    /// As for [`Span::holes`], and [`Span::may_have_holes`] is true.
    pub unsafe fn set_holes(&mut self, holes: u64, epoch: u16) {
        debug_assert!(self.extension != 0);
        // SAFETY: as the caller promises.
        let extension = unsafe { extension(self.extension) };
        extension.holes = holes;
        extension.epoch = epoch;
    }

    /// Makes room to note holes; false without memory.
    ///
    /// # Safety
    /// As for [`Span::holes`].
    pub unsafe fn may_have_holes(&mut self) -> bool {
        if self.extension != 0 {
            return true;
        }
        let mut pools = POOLS.lock();
        let Some(id) = pools.extensions.allocate() else {
            return false;
        };
        // No object is free beyond the first [`INLINE`], of which the class has no more.
        let extension: &mut Extension = &mut pools.extensions[id];
        extension.words = [0; (crate::size_class::MAX_OBJECTS - INLINE) / 64];
        extension.holes = 0;
        extension.unmarked = 0;
        extension.epoch = 0;
        self.extension = id;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{create, destroy, get};
    use super::*;
    use crate::size_class::{CLASSES, TABLE};
    use crate::units::PAGE_SHIFT;
    use proptest::prelude::*;

    #[test]
    fn the_native_pages_of_every_span_fit_into_a_word() {
        for info in &TABLE[1..CLASSES] {
            assert!(usize::from(info.pages) * (PAGE_BYTES / NATIVE_BYTES) <= 64);
        }
    }

    proptest! {
        /// Whatever is taken and put back: empty is what no byte of a live object lies on.
        #[test]
        fn empty_are_the_native_pages_without_a_live_byte(
            class in 1..CLASSES,
            freed in proptest::collection::vec(any::<bool>(), 512),
            run in 1..80usize,
        ) {
            let info = &TABLE[class];
            let id = create(32, info.pages.into(), class as u8, info.objects.into()).unwrap();
            // SAFETY: this test alone knows the span.
            let span = unsafe { get(id) };
            let bytes = info.bytes as usize;
            let mut objects = [0; 512];
            // SAFETY: as above.
            let count = unsafe { span.take(&mut objects, bytes) };
            let mut live = vec![true; count];
            for (index, live) in live.iter_mut().enumerate() {
                *live = !freed[index / run];
                if !*live {
                    // SAFETY: as above.
                    unsafe { span.marks(info, index).put_run(info, &[objects[index]]) }.unwrap();
                }
            }
            // SAFETY: as above.
            unsafe {
                prop_assert!(span.may_have_holes());
                prop_assert_eq!(span.holes().0, 0);
            }
            // SAFETY: as above.
            let empty = unsafe { span.empty_natives(info) };
            for native in 0..64 {
                let (start, end) = (native * NATIVE_BYTES, (native + 1) * NATIVE_BYTES);
                let inside = end <= usize::from(info.pages) << PAGE_SHIFT;
                let used = live.iter().enumerate().any(|(index, &live)| {
                    live && index * bytes < end && start < (index + 1) * bytes
                });
                prop_assert_eq!(empty >> native & 1 == 1, inside && !used);
            }
            destroy(&[id]);
        }
    }
}
