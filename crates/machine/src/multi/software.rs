// SPDX-License-Identifier: MIT OR Apache-2.0
//! Migration in software: with interrupts, as Linux does (Contiguitas figure 1), with broadcast
//! invalidations, in batches, lazily, and transactionally.

use super::core::{CoreAccess, Wait};
use super::machine::MultiCore;
use super::os_params::Mover;
use super::params::PAGE_LINES;
use super::parts::{CoreProgram, Event, FailedTransaction, Software, SoftwareStep, Then, Timeline};
use ample_migration::protocol::{LineAddr, Mapping};
use std::collections::VecDeque;

/// Until software looks again whether accesses from before a shootdown are over.
const DRAIN_CYCLES: u64 = 20;

impl<P: CoreProgram> MultiCore<P> {
    fn group_of(&self, page: u32) -> u32 {
        page - page % self.group_pages
    }

    /// Whether software is moving the page and this agent has no translation of it.
    pub(super) fn is_unmapped(&self, page: u32, agent: u8) -> bool {
        self.software.as_ref().is_some_and(|s| {
            let group = self.group_of(page);
            s.unmapped >> agent & 1 != 0 && s.moves.iter().any(|&(page, _)| page == group)
        })
    }

    /// A store to a page sets its dirty bit, from the moment that it was cleared; a device may make
    /// one until it has dropped its translation.
    pub(super) fn note_store(&mut self, page: u32) {
        let group = self.group_of(page);
        if let Some(s) = self.software.as_mut()
            && s.page == group
            && s.step != SoftwareStep::Unmapping
        {
            s.is_dirty = true;
        }
    }

    /// Figure 1 of the paper, steps 1 to 5, for one group of pages or several.
    pub(super) fn start_software(&mut self, id: u8, mover: Mover, moves: VecDeque<(u32, u32)>) {
        debug_assert!(
            self.software.is_none(),
            "software moves one batch at a time"
        );
        let Some(&(page, _)) = moves.front() else {
            return;
        };
        let start = self.cores[usize::from(id)].now();
        let failed = self.failed.iter().filter(|failed| failed.page == page);
        let tries = failed.clone().count() as u32;
        let start_cycle = failed.map(|f| f.start_cycle).min().unwrap_or(start);
        let is_copied_first = mover == Mover::Transactional && tries < self.os.transaction_tries;
        let step = match is_copied_first {
            true => SoftwareStep::Cleaning,
            false => SoftwareStep::Unmapping,
        };
        self.software = Some(Software {
            mover,
            step,
            page,
            moves,
            initiator: Some(id),
            wait_place: None,
            status_at: None,
            unmapped: 0,
            is_dirty: false,
            earlier: None,
            unmapped_at: start,
            digest: 0,
            timeline: Timeline {
                start_cycle,
                ..Timeline::default()
            },
        });
        self.shoot_down(id);
    }

    /// Clears entries, or their dirty bits, and tells all TLBs.
    fn shoot_down(&mut self, id: u8) {
        let all = self.all_cores();
        let start = self.cores[usize::from(id)].now();
        let Some(s) = self.software.as_mut() else {
            return;
        };
        if s.step != SoftwareStep::Cleaning {
            // A device keeps its translation until it is asked to drop it.
            (s.unmapped, s.unmapped_at) = (all, start);
        }
        (s.wait_place, s.status_at) = (None, None);
        let pages: Vec<u32> = s.moves.iter().map(|&(page, _)| page).collect();
        for core in 0..self.cores.len() as u8 {
            for &page in &pages {
                self.drop_translations(core, page);
            }
        }
        let groups = pages.len() as u64;
        let invlpg = self.invlpg_cycles(groups as u32);
        self.cores[usize::from(id)].spend(groups * self.os.pte_cycles + invlpg);
        match self.has_nic {
            true => self.ask_devices(start),
            false => {
                self.tell_others(id);
                self.shot_down(id);
            }
        }
    }

    fn all_cores(&self) -> u128 {
        (1 << self.cores.len()) - 1
    }

    /// The invalidation of devices is queued: the other cores meanwhile, then a look at its
    /// status. Returns whether the core runs on.
    pub(super) fn after_publishing(&mut self, id: u8) -> bool {
        let Some(s) = self.software.as_ref() else {
            return true;
        };
        let (Some(place), true) = (s.wait_place, s.initiator == Some(id)) else {
            return true;
        };
        if s.mover != Mover::LazySoftware {
            self.tell_others(id);
        }
        self.poll(id, place);
        true
    }

    /// The initiator has read the status of its invalidation. Returns whether it runs on.
    pub(super) fn polled(&mut self, id: u8) -> bool {
        let now = self.cores[usize::from(id)].now();
        let status_at = self.software.as_ref().and_then(|s| s.status_at);
        match status_at.is_some_and(|at| at <= now) {
            true => self.shot_down(id),
            false => self.cores[usize::from(id)].wait = Wait::Device,
        }
        false
    }

    /// All other cores drop the translations.
    fn tell_others(&mut self, id: u8) {
        let Some(s) = self.software.as_ref() else {
            return;
        };
        let groups = s.moves.len() as u32;
        match s.mover {
            Mover::Broadcast => {
                let cycles = self.os.broadcast_issue_cycles + self.os.broadcast_sync_cycles;
                self.cores[usize::from(id)].spend(cycles);
            }
            _ => self.interrupt_others(id, groups),
        }
    }

    /// Interrupts all other cores and takes in their acknowledgements.
    fn interrupt_others(&mut self, id: u8, groups: u32) {
        let c = usize::from(id);
        let invlpg = self.invlpg_cycles(groups);
        let mut acknowledged = self.cores[c].now();
        for other in (0..self.cores.len()).filter(|&other| other != c) {
            self.cores[c].spend(self.os.ipi_send_cycles);
            let arrives = self.cores[c].now() + self.os.ipi_flight_cycles;
            let remote = &mut self.cores[other];
            let work = self.os.ipi_handler_cycles + invlpg;
            // A core that waits for memory takes the interrupt at once.
            let from = arrives.max(if remote.wait == Wait::None {
                remote.now()
            } else {
                0
            });
            remote.interrupt(work);
            acknowledged = acknowledged.max(from + work);
        }
        let acks = self.os.ipi_ack_cycles * (self.cores.len() as u64 - 1);
        let ready = acknowledged.max(self.cores[c].now()) + acks;
        let spent = ready - self.cores[c].now();
        self.cores[c].spend(spent);
    }

    /// Nobody has the old translation any more.
    fn shot_down(&mut self, id: u8) {
        let ready = self.cores[usize::from(id)].now();
        if let Some(s) = self.software.as_mut()
            && s.step != SoftwareStep::Cleaning
        {
            s.unmapped = u128::MAX;
            s.timeline.clean_cycles = Some(ready - s.timeline.start_cycle);
        }
        self.schedule(ready, Event::ShootdownDone);
    }

    /// The groups that software has not copied, the next one first.
    fn software_maps(&self) -> impl Iterator<Item = Mapping> {
        let line = |frame: u32| LineAddr(u64::from(frame) * PAGE_LINES);
        let moves = self.software.iter().flat_map(|s| &s.moves);
        moves.map(move |&(page, destination)| Mapping {
            src: line(self.frames[page as usize]),
            dst: line(destination),
            lines: self.group_pages * PAGE_LINES as u32,
        })
    }

    fn software_map(&self) -> Option<Mapping> {
        self.software_maps().next()
    }

    /// A shootdown is over, but accesses with the old translation may be under way.
    pub(super) fn shootdown_done(&mut self, now: u64) {
        let Some(map) = self.software_map() else {
            return;
        };
        // Of all groups: those behind the first are copied without another look.
        let misses = self.software_maps().map(|map| self.memory.misses_of(map));
        let misses: Vec<(u8, LineAddr)> = misses.flatten().collect();
        let Some(s) = self.software.as_mut() else {
            return;
        };
        let is_drained = match s.step {
            SoftwareStep::Copying => return,
            SoftwareStep::Unmapping | SoftwareStep::Committing => misses.is_empty(),
            SoftwareStep::Cleaning => {
                // The page stays mapped: only what was under way at the end counts.
                let earlier = s.earlier.get_or_insert_with(|| misses.clone());
                earlier.retain(|miss| misses.contains(miss));
                earlier.is_empty()
            }
        };
        match (is_drained, s.step) {
            (false, _) => self.schedule(now + DRAIN_CYCLES, Event::ShootdownDone),
            (true, SoftwareStep::Committing) => self.commit(now),
            (true, _) => self.start_software_copy(now, map),
        }
    }

    /// Step 6: the initiator copies the next group.
    fn start_software_copy(&mut self, now: u64, map: Mapping) {
        let digest = self.memory.shadow.digest(map);
        debug_assert!(
            self.software.as_ref().is_none_or(|s| s.unmapped == 0) || self.memory.is_unused(map),
            "an access with a translation that was dropped is under way"
        );
        let Some(s) = self.software.as_mut() else {
            return;
        };
        (s.step, s.earlier) = (SoftwareStep::Copying, None);
        s.digest = digest;
        let Some(id) = s.initiator else { return };
        self.memory.copied_by_software(map);
        let frame = |line: LineAddr| (line.0 / PAGE_LINES) as u32;
        let core = &mut self.cores[usize::from(id)];
        for index in 0..map.lines {
            for (page, write) in [(frame(map.src), false), (frame(map.dst), true)] {
                // Eight loads or stores of 8 bytes a line; those after the first hit.
                core.kernel.push_back(CoreAccess {
                    gap: 7,
                    page,
                    index,
                    write,
                    dependent: false,
                });
            }
        }
        core.skip_to(now);
        self.then[usize::from(id)] = Then::EndCopy;
        if self.cores[usize::from(id)].wait == Wait::None {
            self.schedule(now, Event::Core(id));
        }
    }

    /// All copied lines have arrived. Returns whether the initiator runs on.
    pub(super) fn end_software_copy(&mut self, id: u8) -> bool {
        let Some(s) = self.software.as_mut() else {
            return true;
        };
        if s.unmapped == 0 {
            s.step = SoftwareStep::Committing;
            self.shoot_down(id);
            return self.then[usize::from(id)] != Then::Nothing;
        }
        self.check_copy();
        self.cores[usize::from(id)].spend(self.os.pte_cycles);
        self.finish_move(id);
        let Some(map) = self.software_map() else {
            self.software = None;
            return true;
        };
        let now = self.cores[usize::from(id)].now();
        self.start_software_copy(now, map);
        true
    }

    /// A copy is used: nothing may have been stored to its source since it began.
    fn check_copy(&mut self) {
        if let (Some(map), Some(s)) = (self.software_map(), self.software.as_ref())
            && self.memory.shadow.digest(map) != s.digest
        {
            self.memory.shadow.wrong += 1;
        }
    }

    /// Step 7: the entry of the first group names its destination.
    fn finish_move(&mut self, id: u8) {
        let now = self.cores[usize::from(id)].now();
        let Some(s) = self.software.as_mut() else {
            return;
        };
        let Some((page, destination)) = s.moves.pop_front() else {
            return;
        };
        let mut timeline = s.timeline;
        timeline.copied_cycles = Some(now - timeline.start_cycle);
        timeline.done_cycles = timeline.copied_cycles;
        timeline.unavailable_cycles = Some(now - s.unmapped_at);
        self.failed.retain(|failed| failed.page != page);
        self.free_frames.insert(0, self.frames[page as usize]);
        self.moved(page, destination);
        self.finished.push(timeline);
        self.wake_waiting(page, now);
    }

    /// Cores that wait for a group go on.
    fn wake_waiting(&mut self, page: u32, now: u64) {
        let pages = page..page + self.group_pages;
        for waiting in 0..self.cores.len() {
            let core = &mut self.cores[waiting];
            if matches!(core.wait, Wait::Page(page) if pages.contains(&page)) {
                core.page_is_back(now);
                self.schedule(now, Event::Core(waiting as u8));
            }
        }
    }

    /// The transactional mover looks at the dirty bit: the entry names the destination, or the
    /// source again.
    fn commit(&mut self, now: u64) {
        let Some((id, is_dirty)) = self.software.as_ref().and_then(|s| {
            let id = s.initiator?;
            Some((id, s.is_dirty))
        }) else {
            return;
        };
        let core = &mut self.cores[usize::from(id)];
        core.skip_to(now);
        core.spend(self.os.pte_cycles);
        let now = core.now();
        self.schedule(now, Event::Core(id));
        self.transactions += 1;
        if !is_dirty {
            self.check_copy();
            self.finish_move(id);
            self.software = None;
        } else if let Some(s) = self.software.take()
            && let Some(&(page, destination)) = s.moves.front()
        {
            self.failed_transactions += 1;
            let start_cycle = s.timeline.start_cycle;
            self.failed.push(FailedTransaction { page, start_cycle });
            self.free_frames.insert(0, destination);
            self.requests.push((page, s.mover));
            self.wake_waiting(page, now);
        }
    }

    /// Clears the entry and posts the shootdown; this core drops its translation at once.
    pub(super) fn start_lazy(&mut self, id: u8, page: u32, destination: u32) {
        let invlpg = self.invlpg_cycles(1);
        let cost = self.os.pte_cycles + self.os.lazy_post_cycles + invlpg;
        self.drop_translations(id, page);
        let core = &mut self.cores[usize::from(id)];
        let start_cycle = core.now();
        core.spend(cost);
        self.software = Some(Software {
            mover: Mover::LazySoftware,
            step: SoftwareStep::Unmapping,
            page,
            moves: VecDeque::from([(page, destination)]),
            initiator: None,
            wait_place: None,
            status_at: None,
            unmapped: 1 << id,
            is_dirty: false,
            earlier: None,
            unmapped_at: start_cycle,
            digest: 0,
            timeline: Timeline {
                start_cycle,
                ..Timeline::default()
            },
        });
    }

    /// Whether a posted shootdown is new to this core.
    pub(super) fn must_sweep(&self, id: u8) -> bool {
        let new = |s: &Software| s.initiator.is_none() && s.unmapped >> id & 1 == 0;
        self.software.as_ref().is_some_and(new)
    }

    /// Drops this core's translation, if a shootdown is posted. The last core to do so sees to
    /// the devices, waits for them, and will copy.
    pub(super) fn sweep(&mut self, id: u8) {
        let cost = self.os.lazy_sweep_cycles + self.invlpg_cycles(1);
        let all = self.all_cores();
        let new = self.must_sweep(id);
        let Some(s) = self.software.as_mut().filter(|s| s.initiator.is_none()) else {
            return;
        };
        let core = &mut self.cores[usize::from(id)];
        if new {
            core.spend(cost);
            s.unmapped |= 1 << id;
            for page in s.page..s.page + self.group_pages {
                self.program.invalidate(id, page);
            }
        }
        if s.unmapped & all == all {
            s.initiator = Some(id);
            let now = core.now();
            match self.has_nic {
                true => self.ask_devices(now),
                false => self.shot_down(id),
            }
        }
    }
}
