// SPDX-License-Identifier: MIT OR Apache-2.0
//! Migration in software: with interrupts, as Linux does (Contiguitas figure 1), and lazily.

use super::core::{CoreAccess, Wait};
use super::machine::MultiCore;
use super::params::PAGE_LINES;
use super::parts::{CoreProgram, Event, Software, Then, Timeline};
use ample_migration::protocol::{LineAddr, Mapping};

impl<P: CoreProgram> MultiCore<P> {
    /// Whether software is moving the page and this agent has no translation of it.
    pub(super) fn is_unmapped(&self, page: u32, agent: u8) -> bool {
        self.software.as_ref().is_some_and(|s| {
            (s.page..s.page + self.group_pages).contains(&page) && s.unmapped >> agent & 1 != 0
        })
    }

    /// Figure 1 of the paper, steps 1 to 5.
    pub(super) fn start_software(&mut self, id: u8, page: u32, destination: u32) {
        debug_assert!(self.software.is_none(), "software moves one page at a time");
        let c = usize::from(id);
        let start = self.cores[c].now();
        let invlpg = self.invlpg_cycles();
        (0..self.cores.len() as u8).for_each(|core| self.drop_translations(core, page));
        self.cores[c].spend(self.os.pte_cycles + invlpg);
        self.software = Some(Software {
            page,
            destination,
            initiator: Some(id),
            copying: false,
            is_interrupting: true,
            wait_place: None,
            status_at: None,
            // A device keeps its translation until it is asked to drop it.
            unmapped: self.all_cores(),
            timeline: Timeline {
                start_cycle: start,
                ..Timeline::default()
            },
        });
        match self.pending_dma {
            Some(_) => self.ask_devices(start),
            None => {
                self.interrupt_others(id);
                self.shot_down(id);
            }
        }
    }

    fn all_cores(&self) -> u128 {
        (1 << self.cores.len()) - 1
    }

    /// The invalidation of devices is queued: the interrupts meanwhile, then a look at its
    /// status. Returns whether the core runs on.
    pub(super) fn after_publishing(&mut self, id: u8) -> bool {
        let Some(s) = self.software.as_ref() else {
            return true;
        };
        let (Some(place), true) = (s.wait_place, s.initiator == Some(id)) else {
            return true;
        };
        if s.is_interrupting {
            self.interrupt_others(id);
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

    /// Interrupts all other cores and takes in their acknowledgements.
    fn interrupt_others(&mut self, id: u8) {
        let c = usize::from(id);
        let invlpg = self.invlpg_cycles();
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
            remote.spend(work);
            acknowledged = acknowledged.max(from + work);
        }
        let acks = self.os.ipi_ack_cycles * (self.cores.len() as u64 - 1);
        let ready = acknowledged.max(self.cores[c].now()) + acks;
        let spent = ready - self.cores[c].now();
        self.cores[c].spend(spent);
    }

    /// Nobody has the translation any more.
    fn shot_down(&mut self, id: u8) {
        let ready = self.cores[usize::from(id)].now();
        if let Some(s) = self.software.as_mut() {
            s.unmapped = u128::MAX;
            s.timeline.clean_cycles = Some(ready - s.timeline.start_cycle);
        }
        self.schedule(ready, Event::ShootdownDone);
    }

    /// Step 6: the initiator copies.
    pub(super) fn start_software_copy(&mut self, now: u64) {
        let Some(s) = self.software.as_mut().filter(|s| !s.copying) else {
            return;
        };
        s.copying = true;
        let (source, destination) = (self.frames[s.page as usize], s.destination);
        let Some(id) = s.initiator else { return };
        let map = Mapping {
            src: LineAddr(u64::from(source) * PAGE_LINES),
            dst: LineAddr(u64::from(destination) * PAGE_LINES),
            lines: self.group_pages * PAGE_LINES as u32,
        };
        self.memory.copied_by_software(map);
        let core = &mut self.cores[usize::from(id)];
        for index in 0..map.lines {
            for (page, write) in [(source, false), (destination, true)] {
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

    /// Step 7, once all copied lines have arrived.
    pub(super) fn end_software_copy(&mut self, id: u8) {
        let Some(mut s) = self.software.take() else {
            return;
        };
        let core = &mut self.cores[usize::from(id)];
        core.spend(self.os.pte_cycles);
        let now = core.now();
        s.timeline.copied_cycles = Some(now - s.timeline.start_cycle);
        s.timeline.done_cycles = s.timeline.copied_cycles;
        s.timeline.unavailable_cycles = now - s.timeline.start_cycle;
        self.free_frames.insert(0, self.frames[s.page as usize]);
        self.moved(s.page, s.destination);
        self.finished.push(s.timeline);
        let pages = s.page..s.page + self.group_pages;
        for waiting in 0..self.cores.len() {
            let core = &mut self.cores[waiting];
            if matches!(core.wait, Wait::Page(page) if pages.contains(&page)) {
                core.wait = Wait::None;
                core.blocked_cycles += now.saturating_sub(core.now());
                core.skip_to(now);
                self.schedule(now, Event::Core(waiting as u8));
            }
        }
    }

    /// Clears the entry and posts the shootdown; this core drops its translation at once.
    pub(super) fn start_lazy(&mut self, id: u8, page: u32, destination: u32) {
        let cost = self.os.pte_cycles + self.os.lazy_post_cycles + self.invlpg_cycles();
        self.drop_translations(id, page);
        let core = &mut self.cores[usize::from(id)];
        let start_cycle = core.now();
        core.spend(cost);
        self.software = Some(Software {
            page,
            destination,
            initiator: None,
            copying: false,
            is_interrupting: false,
            wait_place: None,
            status_at: None,
            unmapped: 1 << id,
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
        let cost = self.os.lazy_sweep_cycles + self.invlpg_cycles();
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
            match self.pending_dma {
                Some(_) => self.ask_devices(now),
                None => self.shot_down(id),
            }
        }
    }
}
