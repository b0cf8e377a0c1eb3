// SPDX-License-Identifier: MIT OR Apache-2.0
//! The IOMMU's invalidation queue, in the manner of Intel VT-d's queued invalidation and of the
//! driver of Linux 6.12 (drivers/iommu/intel/dmar.c): a ring of descriptors in memory, a tail
//! register that the kernel writes, and a wait descriptor whose status the IOMMU writes to memory.
//!
//! Nothing here has time: [`super::invalidation`] makes the accesses to memory and says when they
//! and the invalidations are over.

use std::collections::VecDeque;

/// Descriptors in a cache line: 16 bytes each.
const LINE_DESCRIPTORS: u64 = 4;
/// Status words in a cache line: 4 bytes each, one for each descriptor.
const LINE_STATUSES: u64 = 16;
/// Descriptors of one submission: IOTLB, device TLB, wait.
const EACH: u64 = 3;
/// Descriptors of a queue of one page.
pub const MAX_ENTRIES: u32 = 256;

/// What a descriptor asks for. The page stands for the mapping that begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Descriptor {
    Iotlb(u32),
    DeviceTlb(u32),
    Wait(u32),
}

/// Why nothing was queued: nothing has changed, try again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No room for the descriptors.
    Full,
    /// Another core is writing to the queue.
    Locked,
}

/// A submission: places in the ring, counted from the start of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    first: u64,
    /// Of the wait descriptor, which names the status word.
    pub wait: u64,
}

/// What the IOMMU does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until told of an end or of a new tail.
    Nothing,
    /// Reads this line of the ring.
    Fetch(u32),
    /// Drops the mapping of this page from the IOTLB.
    Iotlb(u32),
    /// Asks the device to drop the mapping of a page; `place` names the request.
    DeviceTlb {
        /// Place of the descriptor.
        place: u64,
        /// Index of the page whose mapping is dropped.
        page: u32,
    },
    /// Writes the status word of a wait descriptor.
    Status {
        /// Place of the descriptor.
        place: u64,
        /// The page whose invalidations are over.
        page: u32,
    },
}

/// The queue, with what the kernel knows of it and what the IOMMU does.
#[derive(Clone, Debug)]
pub struct InvalidationQueue {
    entries: u64,
    /// The ring's contents.
    ring: Vec<Descriptor>,
    /// The kernel's: the place behind the last descriptor, who is writing, and the submissions
    /// not yet taken back, with whether their status is written.
    end: u64,
    writer: Option<u8>,
    pending: VecDeque<(Submission, bool)>,
    /// The IOMMU's head and tail registers.
    head: u64,
    tail: u64,
    /// The IOMMU's: descriptors before this place have been read, or are being read.
    fetched: u64,
    /// A read or an invalidation of the IOTLB is under way; one at a time.
    is_busy: bool,
    /// Requests that the device has not answered, and how many there may be.
    asked: Vec<u64>,
    max_asked: usize,
    /// Waits passed, in order.
    waits: VecDeque<(u64, u32)>,
    /// Submissions so far.
    pub submitted: u64,
    /// Submissions refused because the ring was full.
    pub refused_full: u64,
}

impl InvalidationQueue {
    /// An empty queue of checked sizes.
    pub fn new(entries: u32, max_asked: u32) -> Self {
        Self {
            entries: u64::from(entries),
            ring: vec![Descriptor::Wait(0); entries as usize],
            end: 0,
            writer: None,
            pending: VecDeque::new(),
            head: 0,
            tail: 0,
            fetched: 0,
            is_busy: false,
            asked: Vec::new(),
            max_asked: max_asked as usize,
            waits: VecDeque::new(),
            submitted: 0,
            refused_full: 0,
        }
    }

    /// Writes the descriptors for a page. The core keeps the lock until [`Self::publish`].
    ///
    /// # Errors
    /// When there is no room, or another core has the lock.
    pub fn write(&mut self, core: u8, page: u32) -> Result<Submission, Refused> {
        if self.writer.is_some_and(|writer| writer != core) {
            return Err(Refused::Locked);
        }
        let oldest = self.pending.front().map_or(self.end, |(s, _)| s.first);
        // One place stays free: a full ring must not look like an empty one.
        if self.end + EACH - oldest >= self.entries {
            self.refused_full += 1;
            return Err(Refused::Full);
        }
        let submission = Submission {
            first: self.end,
            wait: self.end + EACH - 1,
        };
        let descriptors = [
            Descriptor::Iotlb(page),
            Descriptor::DeviceTlb(page),
            Descriptor::Wait(page),
        ];
        for descriptor in descriptors {
            let place = self.end % self.entries;
            self.ring[place as usize] = descriptor;
            self.end += 1;
        }
        self.writer = Some(core);
        self.pending.push_back((submission, false));
        self.submitted += 1;
        Ok(submission)
    }

    /// Lines of the ring that a submission's descriptors lie in.
    pub fn lines(&self, submission: Submission) -> impl Iterator<Item = u32> + use<> {
        let line = |place: u64| (place % self.entries / LINE_DESCRIPTORS) as u32;
        let (first, last) = (line(submission.first), line(submission.wait));
        [Some(first), (last != first).then_some(last)]
            .into_iter()
            .flatten()
    }

    /// Line of the status array that holds a wait descriptor's word.
    pub fn status_line(&self, place: u64) -> u32 {
        (place % self.entries / LINE_STATUSES) as u32
    }

    /// Lets the lock go; returns the value for the tail register.
    pub fn publish(&mut self) -> u64 {
        self.writer = None;
        self.end
    }

    /// The tail register has a new value.
    pub fn set_tail(&mut self, tail: u64) {
        self.tail = self.tail.max(tail);
    }

    /// What the IOMMU does next: in order of the ring, one thing at a time, except that devices
    /// answer while it goes on. A wait is over when all requests before it are.
    pub fn step(&mut self) -> Step {
        while !self.is_busy {
            let answered = |&(wait, _): &(u64, u32)| self.asked.iter().all(|&asked| asked > wait);
            if self.waits.front().is_some_and(answered)
                && let Some((place, page)) = self.waits.pop_front()
            {
                return Step::Status { place, page };
            }
            if self.head == self.tail {
                break;
            }
            let place = self.head % self.entries;
            if self.head == self.fetched {
                let line_end = (place / LINE_DESCRIPTORS + 1) * LINE_DESCRIPTORS - place;
                self.fetched = self.tail.min(self.head + line_end);
                self.is_busy = true;
                return Step::Fetch((place / LINE_DESCRIPTORS) as u32);
            }
            let descriptor = self.ring[place as usize];
            let is_device = matches!(descriptor, Descriptor::DeviceTlb(_));
            if is_device && self.asked.len() >= self.max_asked {
                break;
            }
            let place = self.head;
            self.head += 1;
            match descriptor {
                Descriptor::Iotlb(page) => {
                    self.is_busy = true;
                    return Step::Iotlb(page);
                }
                Descriptor::DeviceTlb(page) => {
                    self.asked.push(place);
                    return Step::DeviceTlb { place, page };
                }
                Descriptor::Wait(page) => self.waits.push_back((place, page)),
            }
        }
        Step::Nothing
    }

    /// The read of the ring, or the invalidation of the IOTLB, is over.
    pub fn done(&mut self) {
        self.is_busy = false;
    }

    /// The device has answered a request.
    pub fn answered(&mut self, place: u64) {
        self.asked.retain(|&asked| asked != place);
    }

    /// The status word of a wait is in memory; the places before it can be used again once those
    /// before them can.
    pub fn status_written(&mut self, place: u64) {
        if let Some(entry) = self.pending.iter_mut().find(|(s, _)| s.wait == place) {
            entry.1 = true;
        }
        while self.pending.front().is_some_and(|&(_, written)| written) {
            self.pending.pop_front();
        }
    }

    /// Submissions whose status is not written, or whose places are not free.
    #[cfg(test)]
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_kit::random::SplitMix64;

    #[test]
    fn a_full_ring_refuses_and_takes_more_once_statuses_are_written() {
        let mut queue = InvalidationQueue::new(8, 32);
        let first = queue.write(0, 1).expect("room");
        let second = queue.write(0, 2).expect("room");
        assert_eq!(queue.write(1, 3), Err(Refused::Locked));
        assert_eq!(
            queue.write(0, 3),
            Err(Refused::Full),
            "6 of 8, 1 stays free"
        );
        let tail = queue.publish();
        queue.set_tail(tail);
        queue.status_written(second.wait);
        assert_eq!(
            queue.write(1, 3),
            Err(Refused::Full),
            "the older one is not over"
        );
        queue.status_written(first.wait);
        let third = queue.write(1, 3).expect("both are over");
        assert_eq!((third.first, third.wait), (6, 8));
        assert_eq!(
            queue.lines(third).collect::<Vec<_>>(),
            [1, 0],
            "around the end"
        );
        assert_eq!(queue.refused_full, 2);
    }

    #[test]
    fn descriptors_that_follow_a_read_are_read_again() {
        let mut queue = InvalidationQueue::new(16, 32);
        queue.write(0, 7).expect("room");
        let tail = queue.publish();
        queue.set_tail(tail);
        assert_eq!(queue.step(), Step::Fetch(0));
        assert_eq!(queue.step(), Step::Nothing, "one thing at a time");
        queue.write(0, 8).expect("room");
        let tail = queue.publish();
        queue.set_tail(tail);
        queue.done();
        assert_eq!(queue.step(), Step::Iotlb(7));
        queue.done();
        assert_eq!(queue.step(), Step::DeviceTlb { place: 1, page: 7 });
        // The fourth descriptor of the line was written after the line was read.
        assert_eq!(queue.step(), Step::Fetch(0));
        queue.done();
        assert_eq!(queue.step(), Step::Iotlb(8));
        queue.answered(1);
        queue.done();
        assert_eq!(queue.step(), Step::Status { place: 2, page: 7 });
    }

    /// Random interleavings of two cores, the IOMMU and a device that answers in any order.
    #[test]
    fn order_is_kept_and_nothing_is_lost() {
        for seed in 1..=300 {
            let mut rng = SplitMix64::new(seed);
            let entries = 4 << rng.below(4);
            let mut queue = InvalidationQueue::new(entries, 1 + rng.below(3) as u32);
            let (mut writing, mut written) = (None, 0);
            let (mut read, mut asked) = (Vec::new(), Vec::new());
            let (mut iotlb, mut nic, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
            while statuses.len() < 40 {
                let core = rng.below(2) as u8;
                match rng.below(6) {
                    0 if written < 40 && queue.write(core, written).is_ok() => {
                        assert!(writing.is_none_or(|w| w == core), "seed {seed}");
                        (writing, written) = (Some(core), written + 1);
                    }
                    1 if writing.take().is_some() => {
                        let tail = queue.publish();
                        queue.set_tail(tail);
                    }
                    2 if !asked.is_empty() => {
                        let n = rng.below(asked.len() as u64) as usize;
                        let (place, page) = asked.swap_remove(n);
                        nic.push(page);
                        queue.answered(place);
                    }
                    3 if !read.is_empty() => {
                        read.clear();
                        queue.done();
                    }
                    _ => match queue.step() {
                        Step::Nothing => {}
                        Step::Fetch(line) => read.push(line),
                        Step::Iotlb(page) => {
                            iotlb.push(page);
                            read.push(page);
                        }
                        Step::DeviceTlb { place, page } => {
                            assert!(iotlb.contains(&page), "seed {seed}: the IOTLB first");
                            asked.push((place, page));
                        }
                        Step::Status { place, page } => {
                            assert!(nic.contains(&page), "seed {seed}: the device first");
                            statuses.push(page);
                            queue.status_written(place);
                        }
                    },
                }
            }
            let all: Vec<u32> = (0..40).collect();
            assert_eq!((&iotlb, &statuses), (&all, &all), "seed {seed}");
            assert_eq!(queue.in_flight(), 0, "seed {seed}");
        }
    }
}
