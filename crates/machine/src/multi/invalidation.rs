// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invalidations of the IOTLB and of the NIC's TLB through the queue of [`super::iommu`]: cores
//! write descriptors and read statuses through their caches, the IOMMU reads the ring and writes
//! statuses coherently.

use super::core::{CoreAccess, Wait};
use super::iommu::{Refused, Step};
use super::machine::MultiCore;
use super::memory::AccessStatus;
use super::params::PAGE_LINES;
use super::parts::{CoreProgram, Event, Hardware, QUEUE_FRAMES, Software, SoftwareStep, Then};
use ample_migration::protocol::{LineAddr, OsMigration};

/// The line of the lock and of the driver's own head and tail, in the second frame.
const LOCK_LINE: u32 = PAGE_LINES as u32 - 1;
/// Cycles until a core that must have its invalidation tries a full or locked queue again.
const RETRY_CYCLES: u64 = 100;

impl<P: CoreProgram> MultiCore<P> {
    fn ring_frame(&self) -> u32 {
        // Data lie in frames of 32 bits.
        let frames = self.memory.params().frames.min(1 << 32);
        (frames - QUEUE_FRAMES) as u32
    }

    fn touch(&mut self, core: u8, frame: u32, index: u32, write: bool) {
        self.cores[usize::from(core)].kernel.push_back(CoreAccess {
            gap: 2,
            page: frame,
            index,
            write,
            dependent: false,
        });
    }

    /// Core `id` queues the invalidation of a mapping in IOTLB and NIC TLB; returns the place of
    /// its wait descriptor. The core stores the descriptors next, and then the tail.
    pub(super) fn queue_invalidation(&mut self, id: u8, page: u32) -> Result<u64, Refused> {
        let submission = self.queue.write(id, page)?;
        let then = self.then[usize::from(id)];
        debug_assert!(
            matches!(then, Then::Nothing | Then::Publish),
            "{then:?} comes first"
        );
        let ring = self.ring_frame();
        self.touch(id, ring + 1, LOCK_LINE, true);
        for line in self.queue.lines(submission) {
            self.touch(id, ring, line, true);
        }
        // The status word is set to "in use", as Linux does.
        let status = self.queue.status_line(submission.wait);
        self.touch(id, ring + 1, status, true);
        self.then[usize::from(id)] = Then::Publish;
        Ok(submission.wait)
    }

    /// Core `id` loads the status word of a wait descriptor.
    pub(super) fn read_status(&mut self, id: u8, place: u64) {
        let (frame, line) = (self.ring_frame() + 1, self.queue.status_line(place));
        self.touch(id, frame, line, false);
    }

    /// The kernel's accesses of a core are over; `false` when the core does not run on.
    pub(super) fn kernel_done(&mut self, id: u8) -> bool {
        let c = usize::from(id);
        match std::mem::replace(&mut self.then[c], Then::Nothing) {
            Then::Nothing => true,
            Then::Publish => {
                self.cores[c].spend(self.os.queue_invalidation_cycles);
                let tail = self.queue.publish();
                let now = self.cores[c].now();
                self.published.push_back((tail, now));
                self.schedule(now + self.os.tail_flight_cycles, Event::Tail(tail));
                self.after_publishing(id)
            }
            Then::Poll => self.polled(id),
            Then::EndCopy => self.end_software_copy(id),
        }
    }

    /// The initiator of a migration in software, to which devices belong, asks for their
    /// invalidation now or soon.
    pub(super) fn ask_devices(&mut self, now: u64) {
        let Some((id, page)) = self
            .software
            .as_ref()
            .and_then(|s| Some((s.initiator?, s.page)))
        else {
            return;
        };
        let queued = self.queue_invalidation(id, page);
        let core = &mut self.cores[usize::from(id)];
        if core.wait == Wait::Device {
            core.wait = Wait::None;
            core.skip_to(now);
            self.schedule(now, Event::Core(id));
        }
        match (queued, self.software.as_mut()) {
            (Ok(place), Some(s)) => s.wait_place = Some(place),
            _ => {
                let at = self.cores[usize::from(id)].now() + RETRY_CYCLES;
                self.cores[usize::from(id)].wait = Wait::Device;
                self.schedule(at, Event::AskDevices);
            }
        }
    }

    /// The IOMMU goes on at `now`.
    pub(super) fn iommu(&mut self, now: u64) {
        loop {
            match self.queue.step() {
                Step::Nothing => return,
                Step::Fetch(line) => {
                    debug_assert!(
                        self.iommu_fetch.is_none(),
                        "the IOMMU reads one line at a time"
                    );
                    let frame = self.ring_frame();
                    self.iommu_fetch = Some(self.iommu_access(now, frame, line, false));
                }
                Step::Iotlb(_) => self.schedule(now + self.os.iotlb_cycles, Event::IotlbDone),
                Step::DeviceTlb { place, page } => {
                    let at = now + self.os.nic_tlb_cycles;
                    self.schedule(at, Event::NicTlbDone { place, page, at });
                }
                Step::Status { place, page } => {
                    let (frame, line) = (self.ring_frame() + 1, self.queue.status_line(place));
                    let token = self.iommu_access(now, frame, line, true);
                    self.iommu_statuses.push((token, place, page));
                }
            }
        }
    }

    fn iommu_access(&mut self, now: u64, frame: u32, index: u32, write: bool) -> u64 {
        self.token += 1;
        let line = LineAddr(u64::from(frame) * PAGE_LINES + u64::from(index));
        let agent = self.memory.params().cores + 1;
        let access = self.memory.access(now, agent, line, write, self.token);
        debug_assert_eq!(access, AccessStatus::Pending, "devices have no cache");
        self.token
    }

    /// An access of the IOMMU has ended.
    pub(super) fn iommu_answer(&mut self, token: u64, at: u64) {
        if self.iommu_fetch == Some(token) {
            self.iommu_fetch = None;
            self.queue.done();
            self.iommu(at);
        } else if let Some(n) = self.iommu_statuses.iter().position(|s| s.0 == token) {
            let (_, place, page) = self.iommu_statuses.remove(n);
            self.queue.status_written(place);
            while self.published.front().is_some_and(|p| p.0 <= place) {
                self.published.pop_front();
            }
            if let Some(&(_, since)) = self.published.front() {
                self.invalidations += 1;
                self.invalidation_cycles += at - since;
            }
            self.status_visible(place, page, at);
        }
    }

    /// A status has reached memory: migrations in hardware find it at a kernel entry, one in
    /// software polls.
    fn status_visible(&mut self, place: u64, page: u32, at: u64) {
        // Not the status of a request from before the migration was given up.
        let waits = |h: &&mut Hardware| h.page == page && h.wait_place == Some(place);
        if let Some(h) = self.hardware.iter_mut().find(waits) {
            h.status_at = Some(at);
        }
        let Some(s) = self.software.as_mut().filter(|s| s.page == page) else {
            return;
        };
        s.status_at = Some(at);
        let (Some(id), Some(place)) = (s.initiator, s.wait_place) else {
            return;
        };
        if self.cores[usize::from(id)].wait == Wait::Device {
            self.cores[usize::from(id)].wait = Wait::None;
            self.cores[usize::from(id)].skip_to(at);
            self.poll(id, place);
            self.schedule(at, Event::Core(id));
        }
    }

    /// Reads the status and then decides.
    pub(super) fn poll(&mut self, id: u8, place: u64) {
        self.read_status(id, place);
        self.then[usize::from(id)] = Then::Poll;
    }

    /// The NIC was asked to drop a translation at `asked`: it uses the new one from now on, and
    /// answers when no access with the old one is under way.
    pub(super) fn nic_drops(&mut self, now: u64, place: u64, page: u32, dropped: u64) {
        let nic = OsMigration::nic_tlb(self.memory.rules());
        // The wait descriptor is the one behind the request's.
        let asks = |h: &&mut Hardware| h.page == page && h.wait_place == Some(place + 1);
        if let Some(h) = self.hardware.iter_mut().find(asks) {
            h.nic_dropped = true;
        }
        let moves = |s: &&mut Software| s.page == page && s.step != SoftwareStep::Cleaning;
        if let Some(s) = self.software.as_mut().filter(moves) {
            s.unmapped |= nic;
        }
        if self.dma_starts.values().any(|&start| start <= dropped) {
            let at = dropped;
            self.schedule(now + RETRY_CYCLES, Event::NicTlbDone { place, page, at });
            return;
        }
        self.queue.answered(place);
        self.iommu(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Hammer, hammer_with};
    use super::super::{CoreParams, MemoryParams, Mover, OsParams, PagePlacement};
    use super::*;
    use ample_migration::protocol::{Design, Protocol};

    /// One core that hardly does anything, and no NIC traffic.
    struct Quiet;

    impl CoreProgram for Quiet {
        fn next(&mut self, _core: u8) -> CoreAccess {
            CoreAccess {
                gap: 400,
                page: 1,
                index: 0,
                write: false,
                dependent: false,
            }
        }

        fn next_dma(&mut self) -> Option<(u64, Option<CoreAccess>)> {
            None
        }
    }

    /// A read or write of the IOMMU, at stop 0 of the ring, of a line that core 0, at the same
    /// stop, has modified: to the home, to the core, back, and back.
    fn coherent_access(params: &MemoryParams, rules: &Protocol, frame: u32, line: u32) -> u64 {
        let home = rules.home(LineAddr(u64::from(frame) * PAGE_LINES + u64::from(line)));
        let stops = u64::from(params.slices);
        let apart = u64::from(home).min(stops - u64::from(home));
        let tags = params.slice_cycles() / 4;
        let probe = params.l2_cycles() / 2;
        4 * apart * params.hop_cycles + tags + probe + params.slice_cycles()
    }

    #[test]
    fn an_invalidation_on_an_idle_machine_takes_the_sum_of_its_parts() {
        for design in [Design::NonCacheable, Design::Cacheable] {
            let mut params = MemoryParams {
                cores: 1,
                ..MemoryParams::table1()
            };
            params.engine.design = design;
            let (core, os) = (CoreParams::table1(), OsParams::default());
            let placement = PagePlacement::single(8, 8);
            let mut machine =
                MultiCore::new(&params, core, os, Quiet, placement, 1).expect("valid machine");
            machine.requests.push((5, Mover::Hardware));
            machine.run_until(1_000_000);
            assert_eq!((machine.finished.len(), machine.invalidations), (1, 1));
            let (ring, rules) = (machine.ring_frame(), params.rules());
            let expected = os.tail_flight_cycles
                + coherent_access(&params, &rules, ring, 0)
                + os.iotlb_cycles
                + os.nic_tlb_cycles
                + coherent_access(&params, &rules, ring + 1, 0);
            assert_eq!(machine.invalidation_cycles, expected, "{design:?}");
        }
    }

    #[test]
    fn a_queue_for_one_invalidation_delays_and_loses_nothing() {
        let one = OsParams {
            invalidation_queue_entries: 4,
            kernel_entries_per_s: 100_000.0,
            ..OsParams::default()
        };
        for design in [Design::NonCacheable, Design::Cacheable] {
            let machine = hammer_with(design, Mover::Hardware, one, 60, |_| {});
            assert_eq!(machine.memory.wrong_values(), 0, "{design:?}");
            assert_eq!(machine.finished.len(), 60, "{design:?}");
            assert_eq!(machine.invalidations, 60, "{design:?}");
            assert!(machine.queue.refused_full > 0, "{design:?}: never full");
        }
        for mover in [Mover::Software, Mover::LazySoftware] {
            let machine = hammer_with(Design::Cacheable, mover, one, 20, |_| {});
            assert_eq!(machine.memory.wrong_values(), 0, "{mover:?}");
            assert_eq!(machine.invalidations, machine.finished.len() as u64);
            assert!(machine.finished.len() > 5, "{mover:?}");
        }
    }

    #[test]
    fn both_kinds_of_mover_share_the_queue() {
        let os = OsParams {
            invalidation_queue_entries: 4,
            kernel_entries_per_s: 100_000.0,
            ..OsParams::default()
        };
        let mut machine = hammer_with(Design::Cacheable, Mover::Hardware, os, 0, |_| {});
        let mut now = 0;
        for page in 0..20 {
            let mover = [Mover::Hardware, Mover::Software][page as usize % 2];
            machine.requests.push((page, mover));
            now += 30_000;
            machine.run_until(now);
        }
        machine.run_until(now + 400_000);
        assert_eq!(machine.memory.wrong_values(), 0);
        assert_eq!(machine.finished.len(), 20);
        assert_eq!(machine.invalidations, 20);
    }

    #[test]
    fn queues_that_cannot_be_built_are_refused() {
        let refused = |change: fn(&mut OsParams)| {
            let mut os = OsParams::default();
            change(&mut os);
            let program = Hammer::new(8);
            let (memory, core) = (MemoryParams::table1(), CoreParams::table1());
            let machine =
                MultiCore::new(&memory, core, os, program, PagePlacement::single(8, 8), 1);
            machine
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        assert!(refused(|os| os.invalidation_queue_entries = 100).contains("power of two"));
        assert!(refused(|os| os.invalidation_queue_entries = 2).contains("4 to 256"));
        assert!(refused(|os| os.device_invalidations = 0).contains("at least 1"));
        let wrong_rates: [fn(&mut OsParams); 4] = [
            |os| os.kernel_entries_per_s = 0.5,
            |os| os.kernel_entries_per_s = 1e8,
            |os| os.kernel_entries_per_s = f64::NAN,
            |os| os.kernel_entries_per_s = f64::INFINITY,
        ];
        for wrong in wrong_rates {
            let told = refused(wrong);
            assert!(told.contains("kernel_entries_per_s"), "{told}");
            assert!(told.contains("valid: 1 to 10000000"), "{told}");
        }
        let told = refused(|os| os.ipi_send_cycles = u64::MAX);
        assert!(
            told.contains("ipi_send_cycles") && told.contains("1000000"),
            "{told}"
        );
    }
}
