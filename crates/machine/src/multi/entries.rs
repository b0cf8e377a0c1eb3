// SPDX-License-Identifier: MIT OR Apache-2.0
//! The miss-status entries of a core, which misses and marks of pages share: a core never holds
//! more of both than it has entries.
//!
//! Contiguitas §3.3 puts the marks there and does not say what a full core does with one. Here the
//! message waits at the core until a miss ends, and takes that entry before the next miss can.
//! Until then the core has not answered, so the page does not count as copied; its accesses are
//! refused and asked for uncached, as those of any page without a mark. A refusal that finds no
//! entry for a mark leaves none, and the next access is refused too.

use super::memory::CoherentMemory;
use super::params::MemoryParams;
use super::private::{Arrays, Seen};
use ample_migration::protocol::{CoreSide, CoreStep, Message, Protocol};

/// Entries that marks of a core may take by now: those it lets them have, as far as its misses
/// leave any.
fn mark_entries(params: &MemoryParams, side: &CoreSide<Arrays, u64>) -> u8 {
    let most = params.engine.mark_entries;
    if params.engine.marks_apart {
        return most;
    }
    let free = (params.mshrs as usize).saturating_sub(side.misses().len());
    usize::from(most).min(free) as u8
}

impl CoherentMemory {
    /// Lets a core take a step of the protocol; what it sends stays in the outbox.
    pub(super) fn at_core<R>(
        &mut self,
        now: u64,
        id: u8,
        act: impl FnOnce(&mut CoreSide<Arrays, u64>, &mut CoreStep<'_, u64, Seen<'_>>) -> R,
    ) -> R {
        let mut seen = Seen {
            agent: id,
            now,
            shadow: &mut self.shadow,
            completed: &mut self.completed,
        };
        let rules = Protocol {
            mark_entries: mark_entries(&self.params, &self.cores[usize::from(id)].side),
            ..self.rules
        };
        let mut step = CoreStep {
            rules: &rules,
            core: id,
            observer: &mut seen,
            out: &mut self.out,
        };
        let side = &mut self.cores[usize::from(id)].side;
        let done = act(side, &mut step);
        debug_assert!(
            self.params.engine.marks_apart
                || side.misses().len() + side.marks().len() <= self.params.mshrs as usize,
            "core {id} has more misses and marks than entries"
        );
        done
    }

    /// Whether a message to a core is a mark that must wait: it may take an entry, and there is
    /// none.
    fn waits_for_entry(&self, id: u8, message: &Message<u64>) -> bool {
        let side = &self.cores[usize::from(id)].side;
        let marks = side.marks().len();
        matches!(message, Message::Mark(_))
            && marks < usize::from(self.params.engine.mark_entries)
            && marks >= usize::from(mark_entries(&self.params, side))
    }

    /// A message has come to a core; then the marks that waited for an entry, as far as it has
    /// freed some.
    pub(super) fn deliver_to_core(&mut self, now: u64, id: u8, message: Message<u64>) {
        let c = usize::from(id);
        if self.waits_for_entry(id, &message) {
            self.counters.mark_waits += 1;
            self.waiting_marks[c].push_back(message);
            return;
        }
        self.at_core(now, id, |core, step| core.receive(step, message));
        while let Some(&mark) = self.waiting_marks[c].front()
            && !self.waits_for_entry(id, &mark)
        {
            self.waiting_marks[c].pop_front();
            self.at_core(now, id, |core, step| core.receive(step, mark));
        }
        self.post_from_core(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Hammer, hammering};
    use super::super::{Mover, MultiCore, OsParams, PagePlacement};
    use ample_migration::protocol::Design;

    fn entries(machine: &MultiCore<Hammer>) -> usize {
        let of = |core: &super::super::private::PrivateCache| {
            core.side.misses().len() + core.side.marks().len()
        };
        machine.memory.cores.iter().map(of).max().unwrap_or(0)
    }

    #[test]
    fn misses_and_marks_never_take_more_entries_than_there_are() {
        for (mshrs, marks) in [(2, 1), (4, 3), (16, 15)] {
            let os = OsParams {
                kernel_entries_per_s: 100_000.0,
                ..OsParams::default()
            };
            let pages = PagePlacement::single(24, 24);
            let mut machine = hammering(Design::NonCacheable, pages, os, |p| {
                (p.mshrs, p.engine.mark_entries) = (mshrs, marks);
            });
            let mut now = 0;
            for n in 0..60 {
                machine.requests.push((n * 5 % 24, Mover::Hardware));
                for _ in 0..80 {
                    now += 50;
                    machine.run_until(now);
                    assert!(entries(&machine) <= mshrs as usize, "{mshrs} at {now}");
                }
            }
            machine.run_until(now + 2_000_000);
            assert_eq!(machine.memory.wrong_values(), 0);
            assert_eq!(machine.finished.len(), 60, "{mshrs}");
            assert!(
                machine.memory.counters.mark_waits > 0,
                "{mshrs}: none waited"
            );
        }
    }
}
