// SPDX-License-Identifier: MIT OR Apache-2.0
//! Release at once, in the call that frees: a program without a background thread may never call
//! again. What is released too early comes back as page faults, so a release that is regretted
//! makes the next one wait, each time twice as long. A program that waits itself need not: the
//! faults of its next release may take half of the time in which it was idle.

use super::{PageHeap, ReleasePolicy};
use crate::os::sys::Idle;
use crate::os::vm::Vm;
use crate::units::PAGE_BYTES;
use core::sync::atomic::{AtomicBool, Ordering};

/// Less than this is not worth a call at once: 12 MiB, beyond the policy's share.
const LEAST_PAGES: usize = (12 << 20) / PAGE_BYTES;
/// The same once a program that used much uses less than an eighth of it: what is free then is not
/// what it needs next. Beyond twice the share that the policy keeps.
const LEAST_AFTER_BURST_PAGES: usize = (2 << 20) / PAGE_BYTES;

/// Whether a free has left more in a heap than should be there, since that was last asked.
static LEFT: AtomicBool = AtomicBool::new(false);

/// Takes note that a free has left more than should be there. What was not released at once,
/// because releases wait or hugepages are to stay whole, is not all: caches hold as much again.
pub(super) fn note_left() {
    if !LEFT.load(Ordering::Relaxed) {
        LEFT.store(true, Ordering::Relaxed);
    }
}

/// Whether a free has left more than should be there since [`forget_left`]: a look is worth it.
#[inline]
pub fn has_left() -> bool {
    LEFT.load(Ordering::Relaxed)
}

/// Takes note that looks have begun.
pub fn forget_left() {
    LEFT.store(false, Ordering::Relaxed);
}

impl<V: Vm> PageHeap<V> {
    /// Pages to release at once: what is free beyond the policy's share of what is in use now, as
    /// soon as that is much. 0 if the heap shall wait for the demand of the last seconds to pass.
    pub fn eager_pages(&mut self, policy: &ReleasePolicy) -> usize {
        let Some(mut pages) = self.superfluous(policy) else {
            return 0;
        };
        let now_ns = self.vm.now_ns();
        if self.eager.waits(now_ns) {
            pages = self.eager.take_paid(pages, LEAST_AFTER_BURST_PAGES);
        }
        if pages > 0 {
            self.eager.begin(now_ns, pages);
        }
        pages
    }

    /// Whether [`PageHeap::note_idle`] is to be called before [`PageHeap::eager_pages`], if
    /// there is something superfluous.
    pub fn asks_idle(&self) -> bool {
        self.eager.asks_idle(self.vm.now_ns())
    }

    /// Takes note of how long the process was idle; `None` if that may not be asked.
    pub fn note_idle(&mut self, idle: Option<Idle>) {
        let now_ns = self.vm.now_ns();
        self.eager.note_idle(now_ns, idle, self.used_most);
    }

    /// Free pages beyond those to keep, if there are so many that they are worth a call.
    pub fn superfluous(&self, policy: &ReleasePolicy) -> Option<usize> {
        let used = self.in_use_pages();
        let free = self.backed_pages().saturating_sub(used);
        let share = |percent: u32| used * percent as usize / 100;
        let (start_percent, least, kept) = if self.is_after_burst() {
            let percent = policy.start_share_percent;
            (
                percent.min(2 * policy.keep_share_percent),
                LEAST_AFTER_BURST_PAGES,
                LEAST_AFTER_BURST_PAGES / 2,
            )
        } else {
            (policy.start_share_percent, LEAST_PAGES, LEAST_PAGES)
        };
        let keep = share(policy.keep_share_percent).max(policy.keep_pages.min(kept));
        (free > share(start_percent) + least).then(|| free - keep.min(free))
    }

    /// Whether the program uses less than an eighth of the most it ever used.
    pub(super) fn is_after_burst(&self) -> bool {
        self.in_use_pages().max(LEAST_PAGES) < self.used_most / 8
    }
}

#[cfg(test)]
mod tests {
    use super::super::HeapOptions;
    use super::*;
    use crate::heap::regret::PAGE_NS;
    use crate::os::vm::fake::FakeVm;
    use crate::units::{Density, PAGES_PER_HUGE};

    fn heap() -> Box<PageHeap<FakeVm>> {
        let mut heap = Box::new(PageHeap::new(FakeVm::default()));
        heap.configure(HeapOptions::default());
        // Time zero is before everything.
        heap.vm().advance_ns(1 << 40);
        heap
    }

    /// Takes and frees 100 hugepages and releases what is to be released at once; how much. The
    /// process was idle for so long by now.
    fn tooth(heap: &mut PageHeap<FakeVm>, idle_ns: Option<i64>) -> usize {
        let policy = ReleasePolicy::DEFAULT;
        let pages = 100 * PAGES_PER_HUGE;
        let spans: Vec<usize> = (0..pages / 64)
            .map(|_| heap.allocate(64, Density::SPARSE).expect("pretended"))
            .collect();
        spans.into_iter().for_each(|page| heap.free(page, 64));
        heap.run_queued();
        if heap.superfluous(&policy).is_some() && heap.asks_idle() {
            heap.note_idle(idle_ns.map(|idle_ns| Idle { thread: 1, idle_ns }));
        }
        let wanted = heap.eager_pages(&policy);
        heap.release(wanted, &policy)
    }

    #[test]
    fn what_one_burst_leaves_goes_back_at_once() {
        let mut heap = heap();
        assert!(tooth(&mut heap, Some(0)) > 90 * PAGES_PER_HUGE);
        assert!(heap.sizes().backed_pages() <= LEAST_PAGES);
    }

    /// Nearly as much as was in use stayed, and 4 MiB more.
    #[test]
    fn what_a_burst_leaves_beside_a_little_in_use_goes_back_too() {
        let mut heap = heap();
        let mib = (1 << 20) / PAGE_BYTES;
        heap.allocate(8 * mib, Density::SPARSE).expect("pretended");
        let spans: Vec<usize> = (0..200 * mib / 64)
            .map(|_| heap.allocate(64, Density::SPARSE).expect("pretended"))
            .collect();
        for page in spans {
            heap.free(page, 64);
            heap.run_queued();
            let wanted = heap.eager_pages(&ReleasePolicy::DEFAULT);
            heap.release(wanted, &ReleasePolicy::DEFAULT);
        }
        let backed = heap.sizes().backed_pages();
        assert!(backed <= 12 * mib, "{} MiB", backed / mib);
    }

    #[test]
    fn a_saw_tooth_is_released_a_few_times_only() {
        // A minute of teeth of 100 ms of a program that computes all the time, on one processor or
        // two, or of which it is not known.
        for idle_ns in [Some(0), Some(-100_000_000), None] {
            let mut heap = heap();
            let mut releases = 0;
            for number in 0..600 {
                let idle_ns = idle_ns.map(|ns| ns * number);
                releases += usize::from(tooth(&mut heap, idle_ns) > 0);
                heap.vm().advance_ns(100_000_000);
            }
            assert!((1..=7).contains(&releases), "{releases}");
            // An hour later it is another program.
            heap.vm().advance_ns(3_600_000_000_000);
            assert!(tooth(&mut heap, None) > 0);
        }
    }

    /// All of it stayed until the next call, and for good if there was none.
    #[test]
    fn a_saw_tooth_with_pauses_is_released_at_each_tooth() {
        let mut heap = heap();
        for number in 0..600 {
            // The faults of 200 MiB take 26 ms, half of the pause.
            tooth(&mut heap, Some(52_000_000 * number));
            let backed = heap.sizes().backed_pages();
            assert!(backed <= LEAST_PAGES, "tooth {number}: {backed} pages");
            heap.vm().advance_ns(100_000_000);
        }
    }

    /// What one release is paid with does not pay for the next.
    #[test]
    fn what_short_pauses_do_not_pay_for_stays() {
        let mut heap = heap();
        let mut released = 0;
        for number in 0..1000 {
            released += tooth(&mut heap, Some(20_000_000 * number));
            heap.vm().advance_ns(100_000_000);
        }
        let paid = 20_000_000 * 999 / 2 / PAGE_NS as usize;
        // And the releases after waits of 2, 4, to 64 s; all are rounded up to hugepages.
        let most = paid / 20 * 21 + 8 * 100 * PAGES_PER_HUGE;
        assert!(
            (paid / 10 * 9..most).contains(&released),
            "{released} pages, {paid} paid for"
        );
    }
}
