// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simple out-of-order core: it issues a given stream of accesses as fast as its width, its
//! window and the outstanding misses allow. (The core with TLBs and page walks is in the machine
//! crate; this one drives the memory system in the experiments here.)

use std::collections::VecDeque;

/// One memory access of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreAccess {
    /// Instructions before it that do not touch memory.
    pub gap: u32,
    /// Page of data, as the program knows it.
    pub page: u32,
    /// Line within the page.
    pub index: u32,
    /// Store or load.
    pub write: bool,
    /// The address depends on the previous load.
    pub dependent: bool,
}

/// Width and window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreParams {
    /// Instructions a cycle.
    pub width: u64,
    /// Reorder buffer.
    pub window: u64,
}

/// Why a core waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It does not.
    None,
    /// For this load.
    For(u64),
    /// For any of its misses to end.
    Any,
    /// For all of them.
    Drain,
    /// For a page that software is moving.
    Page(u32),
    /// For the invalidation of devices' translations.
    Device,
}

/// An access that a core has come to, as far as its memory system is not concerned yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComingAccess {
    /// When the core came to it.
    at: u64,
    /// What it would have waited for the kernel before that; see [`Core::held_from`].
    pub(super) kernel_cycles: u64,
    unmapped_since: Option<u64>,
    /// What it has waited for a page that software moved.
    pub(super) unmapped_cycles: u64,
}

impl ComingAccess {
    /// When it would have come.
    pub(super) fn wanted_at(&self) -> u64 {
        self.at.saturating_sub(self.kernel_cycles)
    }

    /// An access of a device.
    pub(super) fn of_device(asked_at: u64, issued_at: u64) -> Self {
        Self {
            at: asked_at,
            kernel_cycles: 0,
            unmapped_since: None,
            unmapped_cycles: issued_at - asked_at,
        }
    }
}

/// An out-of-order core of the multi-core machine.
#[derive(Clone)]
pub struct Core {
    params: CoreParams,
    /// Position in time, in issue slots.
    slots: u64,
    /// Instructions issued.
    pub instructions: u64,
    /// Loads outstanding, oldest first: token, instruction, end.
    window: VecDeque<(u64, u64, Option<u64>)>,
    /// Tokens of everything outstanding.
    pub outstanding: u32,
    last_load: Option<u64>,
    last_load_end: u64,
    /// Why it does not run.
    pub wait: Wait,
    /// The access to issue next.
    pub next: Option<CoreAccess>,
    /// Accesses the kernel makes first (a page copy, the invalidation queue).
    pub kernel: VecDeque<CoreAccess>,
    /// Cycles it has waited for pages that software was moving.
    pub blocked_cycles: u64,
    /// Instructions of page copies, not of the program.
    pub kernel_instructions: u64,
    /// Cycles spent in the kernel for migrations.
    pub kernel_cycles: u64,
    /// What its next access has seen so far, once the core has come to it.
    pub(super) coming: Option<ComingAccess>,
    /// Since when it is in the kernel.
    held_since: Option<u64>,
    /// When it last left the kernel, and for how long it had been there.
    held: (u64, u64),
}

impl Core {
    /// An idle core at cycle 0.
    pub fn new(params: CoreParams) -> Self {
        Self {
            params,
            slots: 0,
            instructions: 0,
            window: VecDeque::new(),
            outstanding: 0,
            last_load: None,
            last_load_end: 0,
            wait: Wait::None,
            next: None,
            kernel: VecDeque::new(),
            blocked_cycles: 0,
            kernel_instructions: 0,
            kernel_cycles: 0,
            coming: None,
            held_since: None,
            held: (0, 0),
        }
    }

    /// Instructions of the program so far: the work done.
    pub fn work(&self) -> u64 {
        debug_assert!(self.kernel_instructions <= self.instructions);
        self.instructions - self.kernel_instructions
    }

    /// The cycle up to which it has run.
    pub fn now(&self) -> u64 {
        self.slots / self.params.width
    }

    /// Moves it to a later cycle.
    pub fn skip_to(&mut self, cycle: u64) {
        self.slots = self.slots.max(cycle * self.params.width);
    }

    /// Spends cycles in the kernel.
    pub fn spend(&mut self, cycles: u64) {
        self.slots += cycles * self.params.width;
        self.kernel_cycles += cycles;
    }

    /// An interrupt's handler runs on it.
    pub(super) fn interrupt(&mut self, cycles: u64) {
        let since = self.now();
        self.spend(cycles);
        if self.held_since.is_none() {
            self.leave_kernel(since);
        }
    }

    /// It enters the kernel.
    pub(super) fn hold(&mut self) {
        self.held_since
            .get_or_insert(self.slots / self.params.width);
    }

    /// It is back from the kernel, if it was there; not when it still makes the kernel's accesses.
    pub(super) fn release(&mut self, in_kernel: bool) {
        if !in_kernel
            && let Some(since) = self.held_since.take()
            && self.now() > since
        {
            self.leave_kernel(since);
        }
    }

    fn leave_kernel(&mut self, since: u64) {
        let earlier = self.held_from(since);
        self.held = (self.now(), self.now() - since + earlier);
    }

    /// For how long an access that the program makes at `now` would have waited for the kernel,
    /// had it come at its time: the core left the kernel at `left` after `held` cycles, and what
    /// the program does `n` cycles later would have come when `n` of them had passed.
    fn held_from(&self, now: u64) -> u64 {
        let (left, held) = self.held;
        held.saturating_sub(now.saturating_sub(left))
    }

    /// It comes to its next access now, or has done so before; the kernel's own do not count.
    pub(super) fn come_to_access(&mut self, in_kernel: bool) {
        let now = self.now();
        if !in_kernel && self.coming.is_none() {
            self.coming = Some(ComingAccess {
                at: now,
                kernel_cycles: self.held_from(now),
                unmapped_since: None,
                unmapped_cycles: 0,
            });
        }
    }

    /// Its next access finds no translation, which software has taken away.
    pub(super) fn wait_for_page(&mut self, page: u32) {
        self.wait = Wait::Page(page);
        let now = self.now();
        if let Some(coming) = self.coming.as_mut() {
            coming.unmapped_since.get_or_insert(now);
        }
    }

    /// The page that it waits for is back at `now`.
    pub(super) fn page_is_back(&mut self, now: u64) {
        self.wait = Wait::None;
        self.blocked_cycles += now.saturating_sub(self.now());
        if let Some(coming) = self.coming.as_mut()
            && let Some(since) = coming.unmapped_since.take()
        {
            coming.unmapped_cycles += now.saturating_sub(since);
        }
        self.skip_to(now);
    }

    /// Makes room in the window for `op`; on `Err` the core must wait.
    pub fn make_room(&mut self, op: &CoreAccess) -> Result<(), Wait> {
        while let Some(&(token, at, end)) = self.window.front() {
            match end {
                Some(end) if end <= self.now() => {}
                _ if at + self.params.window > self.instructions + u64::from(op.gap) => break,
                Some(end) => self.skip_to(end),
                None => return Err(Wait::For(token)),
            }
            self.window.pop_front();
        }
        if op.dependent {
            if let Some(token) = self.last_load {
                return Err(Wait::For(token));
            }
            self.skip_to(self.last_load_end);
        }
        debug_assert!(self.window.len() as u64 <= self.params.window);
        Ok(())
    }

    /// The access was issued and ended in the private caches.
    pub fn issued_hit(&mut self, op: &CoreAccess, at: u64) {
        debug_assert_eq!(self.wait, Wait::None, "a core that waits issues nothing");
        self.advance(op);
        if !op.write {
            self.last_load = None;
            self.last_load_end = at;
        }
    }

    /// The access was issued and missed.
    pub fn issued_miss(&mut self, op: &CoreAccess, token: u64) {
        debug_assert_eq!(self.wait, Wait::None, "a core that waits issues nothing");
        self.advance(op);
        self.outstanding += 1;
        if !op.write {
            self.window.push_back((token, self.instructions, None));
            self.last_load = Some(token);
        }
    }

    fn advance(&mut self, op: &CoreAccess) {
        self.instructions += u64::from(op.gap) + 1;
        self.slots += u64::from(op.gap) + 1;
    }

    /// A miss ended. Returns whether the core can go on.
    pub fn ended(&mut self, token: u64, at: u64) -> bool {
        debug_assert!(self.outstanding > 0, "token {token} was not under way");
        self.outstanding -= 1;
        if let Some(entry) = self.window.iter_mut().find(|e| e.0 == token) {
            entry.2 = Some(at);
        }
        if self.last_load == Some(token) {
            self.last_load = None;
            self.last_load_end = at;
        }
        let go = match self.wait {
            Wait::For(waited) => waited == token,
            Wait::Any => true,
            Wait::Drain => self.outstanding == 0,
            Wait::None | Wait::Page(_) | Wait::Device => false,
        };
        if go {
            self.skip_to(at);
            self.wait = Wait::None;
        }
        debug_assert!(
            self.wait != Wait::Drain || self.outstanding > 0,
            "waits for nothing"
        );
        go
    }
}
