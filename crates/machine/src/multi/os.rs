// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the operating system does on a core that has entered the kernel: starts migrations,
//! looks after those in hardware, and what all that costs.

use super::core::Wait;
use super::machine::MultiCore;
use super::os_params::Mover;
use super::params::PAGE_LINES;
use super::parts::{CoreProgram, Hardware, Then, Timeline};
use ample_migration::protocol::{LineAddr, Mapping, OsMigration, OsPhase, Role, Status};
use std::collections::VecDeque;

/// INVLPG page by page up to this many pages, then one flush of everything that costs as much
/// (Linux 6.12, `tlb_single_page_flush_ceiling` in arch/x86/mm/tlb.c).
const FLUSH_CEILING_PAGES: u32 = 33;

impl<P: CoreProgram> MultiCore<P> {
    /// The kernel runs on a core; `false` when it must wait for the core's own misses first.
    pub(super) fn kernel_entry(&mut self, id: u8) -> bool {
        let c = usize::from(id);
        let rules = *self.memory.rules();
        let bit = 1u128 << id;
        let must_drain = self
            .hardware
            .iter()
            .any(|h| !h.records.is_empty() || h.os.may_invalidate(&rules, bit))
            || self.must_sweep(id);
        if must_drain && self.cores[c].outstanding > 0 {
            self.cores[c].wait = Wait::Drain;
            return false;
        }
        let wait = (self.rng.unit() + 0.5) * self.entry_interval;
        self.next_entry[c] = self.cores[c].now() + wait as u64;
        self.start_requests(id);
        self.sweep(id);
        let initiates = self.software.as_ref().map(|s| s.initiator) == Some(Some(id));
        // The initiator of a migration in software has enough to do.
        for place in 0..if initiates { 0 } else { self.hardware.len() } {
            self.look_at(id, place);
        }
        let (done, active) = std::mem::take(&mut self.hardware)
            .into_iter()
            .partition(|h: &Hardware| h.os.phase == OsPhase::Done);
        self.hardware = active;
        for h in done as Vec<Hardware> {
            let frame = |line: LineAddr| (line.0 / PAGE_LINES) as u32;
            if h.os.aborting {
                self.free_frames.insert(0, frame(h.os.map.dst));
                self.aborted.push(h.timeline);
            } else {
                self.moved(h.page, frame(h.os.map.dst));
                self.free_frames.insert(0, frame(h.os.map.src));
                self.finished.push(h.timeline);
            }
        }
        // The initiator stays in the kernel.
        !initiates || self.then[c] != Then::Nothing
    }

    fn start_requests(&mut self, id: u8) {
        while let Some(&(page, mover)) = self.requests.first() {
            let page = page - page % self.group_pages;
            if mover != Mover::Hardware {
                if self.software.is_some() || self.moves_in_hardware(page) {
                    return;
                }
                let moves = self.take_batch(mover);
                match (mover, moves.front()) {
                    (_, None) => return,
                    (Mover::LazySoftware, Some(&(page, frame))) => self.start_lazy(id, page, frame),
                    _ => return self.start_software(id, mover, moves),
                }
                continue;
            }
            let Some(&frame) = self.free_frames.last() else {
                return;
            };
            if self.moves_in_hardware(page) || self.moves_in_software(page) {
                return;
            }
            debug_assert!(
                !self.frames.contains(&frame),
                "frame {frame} is free and in use"
            );
            self.requests.remove(0);
            self.free_frames.pop();
            self.start_hardware(id, page, frame);
        }
    }

    fn moves_in_hardware(&self, page: u32) -> bool {
        self.hardware.iter().any(|h| h.page == page)
    }

    fn moves_in_software(&self, page: u32) -> bool {
        let mut moves = self.software.iter().flat_map(|s| &s.moves);
        moves.any(|&(moving, _)| moving == page)
    }

    /// Takes the first requests of a mover in software, as many as it moves at once: first page
    /// and destination of each.
    fn take_batch(&mut self, mover: Mover) -> VecDeque<(u32, u32)> {
        let most = match mover {
            Mover::Batched => self.os.batch_pages as usize,
            _ => 1,
        };
        let mut moves: VecDeque<(u32, u32)> = VecDeque::new();
        while let Some(&(page, asked)) = self.requests.first() {
            let page = page - page % self.group_pages;
            let is_new = moves.iter().all(|&(other, _)| other != page);
            let fits = asked == mover && moves.len() < most && is_new;
            if !fits || self.moves_in_hardware(page) {
                break;
            }
            let Some(frame) = self.free_frames.pop() else {
                break;
            };
            self.requests.remove(0);
            moves.push_back((page, frame));
        }
        moves
    }

    fn start_hardware(&mut self, id: u8, page: u32, frame: u32) {
        let line = |frame: u32| LineAddr(u64::from(frame) * PAGE_LINES);
        let map = Mapping {
            src: line(self.frames[page as usize]),
            dst: line(frame),
            lines: self.group_pages * PAGE_LINES as u32,
        };
        // No number is drawn where nothing is ever given up: same bytes as without.
        let gives_up = self.os.abort_ratio > 0.0 && self.rng.unit() < self.os.abort_ratio;
        let tlbs = u64::from(self.memory.params().cores) + 2;
        let abort_at_tlbs = gives_up.then(|| 1 + self.rng.below(tlbs) as u32);
        debug_assert!(map.src != map.dst && self.hardware.iter().all(|h| h.page != page));
        self.hardware.push(Hardware {
            os: OsMigration::new(map),
            page,
            records: Vec::new(),
            wait_place: None,
            status_at: None,
            nic_dropped: false,
            unchanged_tlbs: 0,
            abort_at_tlbs,
            retry: (0, 0),
            timeline: Timeline {
                start_cycle: self.cores[usize::from(id)].now(),
                ..Timeline::default()
            },
        });
    }

    /// What core `id`, in the kernel, does for one migration.
    fn look_at(&mut self, id: u8, place: usize) {
        let steps = [
            Self::take_records,
            Self::drop_own_translation,
            Self::give_up,
            Self::look_at_devices,
            Self::submit_next,
        ];
        for step in steps {
            let core = &self.cores[usize::from(id)];
            let before = (core.kernel_cycles, core.kernel.len());
            step(self, id, place);
            let core = &self.cores[usize::from(id)];
            let worked = before != (core.kernel_cycles, core.kernel.len());
            if self.os.one_step_an_entry && worked {
                return;
            }
        }
    }

    /// Takes in the completion records of a migration.
    fn take_records(&mut self, id: u8, place: usize) {
        let rules = *self.memory.rules();
        let core = &mut self.cores[usize::from(id)];
        let h = &mut self.hardware[place];
        for (at, record) in h.records.drain(..) {
            let since = Some(at - h.timeline.start_cycle);
            match record.status {
                Status::Installed => h.timeline.installed_cycles = since,
                Status::Copied => h.timeline.copied_cycles = since,
                Status::Cleared => h.timeline.done_cycles = since,
                Status::TableFull => {
                    self.refused += 1;
                    let first = self.os.table_full_backoff_cycles;
                    let wait = (h.retry.1 * 2).clamp(first, 16 * first);
                    h.retry = (core.now() + wait, wait);
                }
                _ => {}
            }
            let pte = h.os.pte;
            h.os.completed(&rules, record.status);
            if h.os.pte != pte {
                core.spend(self.os.pte_cycles);
                (h.wait_place, h.status_at, h.nic_dropped) = (None, None, false);
            }
        }
    }

    /// INVLPG on this core, when it is due.
    fn drop_own_translation(&mut self, id: u8, place: usize) {
        let rules = *self.memory.rules();
        let invlpg = self.invlpg_cycles(1);
        let h = &mut self.hardware[place];
        if h.os.may_invalidate(&rules, 1 << id) {
            self.cores[usize::from(id)].spend(invlpg);
            for page in h.page..h.page + self.group_pages {
                self.program.invalidate(id, page);
            }
            h.os.invalidated(&rules, 1 << id);
        }
    }

    /// Submits the next command of a migration, when it is due.
    fn submit_next(&mut self, id: u8, place: usize) {
        let rules = *self.memory.rules();
        let core = &mut self.cores[usize::from(id)];
        let h = &mut self.hardware[place];
        let now = core.now();
        if h.os.stale_tlbs == 0 && h.os.pte == Role::Destination {
            h.timeline
                .clean_cycles
                .get_or_insert(now - h.timeline.start_cycle);
        }
        if let Some(command) = h.os.next_command(&rules)
            && core.now() >= h.retry.0
        {
            core.spend(self.os.submit_cycles);
            let at = core.now();
            debug_assert_eq!(command.map(), h.os.map, "each asks for its own page");
            if self.memory.submit(at, command).is_ok() {
                h.os.submitted(&rules);
            }
        }
    }

    /// Goes back to the source page when this migration is to be given up by now: the entry is
    /// written again and every TLB is suspect again.
    fn give_up(&mut self, id: u8, place: usize) {
        let rules = *self.memory.rules();
        let h = &mut self.hardware[place];
        let left = h.os.stale_tlbs.count_ones();
        if !h.os.can_abort() || h.abort_at_tlbs.is_none_or(|at| left > at) {
            return;
        }
        h.unchanged_tlbs = h.os.stale_tlbs;
        if h.nic_dropped {
            h.unchanged_tlbs &= !OsMigration::nic_tlb(&rules);
        }
        h.os.abort(&rules);
        (h.wait_place, h.status_at, h.nic_dropped) = (None, None, false);
        self.cores[usize::from(id)].spend(self.os.pte_cycles);
    }

    /// Queues the invalidation of IOTLB and NIC TLB when it is due, or looks for its end. A full
    /// or locked queue is tried again at the next entry of any core.
    fn look_at_devices(&mut self, id: u8, place: usize) {
        let rules = *self.memory.rules();
        let h = &self.hardware[place];
        let (iotlb, nic) = (OsMigration::iotlb(&rules), OsMigration::nic_tlb(&rules));
        if !h.os.may_invalidate(&rules, iotlb) {
            return;
        }
        let (page, status_at) = (h.page, h.status_at);
        let Some(wait) = h.wait_place else {
            let queued = self.queue_invalidation(id, page);
            self.hardware[place].wait_place = queued.ok();
            return;
        };
        self.read_status(id, wait);
        if status_at.is_some_and(|at| at <= self.cores[usize::from(id)].now()) {
            let h = &mut self.hardware[place];
            h.os.invalidated(&rules, iotlb);
            h.os.invalidated(&rules, nic);
        }
    }

    /// Dropping the translations of some groups on one core.
    pub(super) fn invlpg_cycles(&self, groups: u32) -> u64 {
        let entries = groups * self.group_entries;
        self.os.invlpg_cycles * u64::from(entries.min(FLUSH_CEILING_PAGES))
    }

    /// Drops the translations of a group of pages on a core; the caller counts the time.
    pub(super) fn drop_translations(&mut self, core: u8, page: u32) {
        for page in page..page + self.group_pages {
            self.program.invalidate(core, page);
        }
    }

    /// The pages of a group lie in other frames now.
    pub(super) fn moved(&mut self, page: u32, frame: u32) {
        debug_assert!(
            !self.free_frames.contains(&frame),
            "the destination is free"
        );
        debug_assert_eq!(page % self.group_pages, 0, "groups move whole");
        for i in 0..self.group_pages {
            self.frames[(page + i) as usize] = frame + i;
        }
    }
}
