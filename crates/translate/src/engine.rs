// SPDX-License-Identifier: MIT OR Apache-2.0
//! One core's translation at work: address spaces, hardware and scheme put together, with page
//! faults answered and invalidations applied.

use crate::config::MmuConfig;
use crate::error::ConfigError;
use crate::mmu::Mmu;
use crate::os::frames::FrameSource;
use crate::os::roots::Roots;
use crate::os::settings::{OsCosts, Vma};
use crate::os::space::{GLOBAL_ASID, Inval, Space};
use crate::schemes::paging;
use crate::schemes::scheme::{Refill, Scheme, allows};
use crate::table::entry::bits;
use crate::tlb::arrivals::Arrival;
use crate::walk::descent::Fault;
use crate::walk::nested::Host;
use crate::walk::port::{Port, WalkerPort};

/// What an access does, as far as translation cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Data read.
    Read = 0,
    /// Data write.
    Write = 1,
    /// Instruction fetch.
    Fetch = 2,
}

/// A finished translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translated {
    /// Physical (on a virtual machine host-physical) address.
    pub pa: u64,
    /// When it was known, in the port's unit.
    pub done: u64,
}

/// An access that no fault handler can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("access {intent:?} to {va:#x} faults: {fault:?}")]
pub struct BadAccess {
    /// Virtual address of the access.
    pub va: u64,
    /// What was tried.
    pub intent: Intent,
    /// Why it failed.
    pub fault: Fault,
}

/// One core that translates: hardware, scheme, address spaces and the operating system's part.
pub struct Engine {
    /// TLBs, page-walk caches and counters.
    pub mmu: Mmu,
    pub(crate) scheme: Box<dyn Scheme>,
    has_bypass: bool,
    is_plain: bool,
    /// Accesses that go one by one after the latest batch of a block, if it did not pay. Nothing
    /// but the time that blocks take depends on it.
    pub(crate) alone: usize,
    /// Address spaces; accesses go to `spaces[current]`. Of an engine that mirrors a guest, the
    /// first is the kernel half, to which accesses with the sign bit set go; others have one after
    /// [`share_kernel`](Self::share_kernel).
    pub spaces: Vec<Space>,
    pub(crate) current: usize,
    /// The space of addresses with the sign bit set: the kernel half where there is one, else the
    /// current one.
    pub(crate) upper: usize,
    /// Whether global pages of the kernel half outlive a switch of address spaces, as CR4.PGE has
    /// it. Off, and without a meaning, where there is no such half.
    pub global_kernel: bool,
    /// A page of the kernel half that is not global has been used since the latest switch.
    pub(crate) used_not_global: bool,
    /// The roots of the guest that is mirrored, if one is.
    pub(crate) roots: Option<Roots>,
    /// The host of a virtual machine.
    pub host: Option<Host>,
    /// Physical memory (the guest's, on a virtual machine).
    pub frames: Box<dyn FrameSource>,
    /// Ranges that fault in on demand, per address space.
    pub vmas: Vec<Vec<Vma>>,
    /// Costs of faults and switches.
    pub costs: OsCosts,
    /// Other cores that run this program and have to be told of invalidations.
    pub remote_cores: u64,
    /// Operating-system cycles so far: faults, switches, invalidations.
    pub os_cycles: u64,
    pub(crate) units_per_cycle: u64,
}

impl Engine {
    /// An engine with one empty address space.
    ///
    /// # Errors
    /// If the hardware cannot be built or there is no frame for a page table.
    pub fn new(
        config: &MmuConfig,
        scheme: Box<dyn Scheme>,
        mut frames: Box<dyn FrameSource>,
        units_per_cycle: u64,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let space = Space::new(1, config.levels, frames.as_mut())
            .map_err(|e| ConfigError::Invalid(e.to_string()))?;
        Engine::with_space(config, scheme, frames, units_per_cycle, space)
    }

    pub(crate) fn with_space(
        config: &MmuConfig,
        scheme: Box<dyn Scheme>,
        frames: Box<dyn FrameSource>,
        units_per_cycle: u64,
        space: Space,
    ) -> Result<Self, ConfigError> {
        Ok(Engine {
            mmu: Mmu::new(config, units_per_cycle)?,
            has_bypass: scheme.has_bypass(),
            is_plain: scheme.is_plain(),
            alone: 0,
            scheme,
            spaces: vec![space],
            current: 0,
            upper: 0,
            global_kernel: false,
            used_not_global: false,
            roots: None,
            host: None,
            frames,
            vmas: vec![Vec::new()],
            costs: OsCosts::default(),
            remote_cores: 0,
            os_cycles: 0,
            units_per_cycle,
        })
    }

    /// The scheme's name.
    pub fn scheme_name(&self) -> &'static str {
        self.scheme.name()
    }

    /// The current address space.
    pub fn space(&mut self) -> &mut Space {
        &mut self.spaces[self.current]
    }

    /// Whether plain paging of the current address space is all there is to an access, and the
    /// hardware holds nothing that its page table does not say.
    pub(crate) fn is_bare(&self) -> bool {
        let one_space = self.upper == self.current && self.roots.is_none();
        let in_step = self.spaces[self.current].pending.is_empty();
        let plain = self.is_plain && self.host.is_none() && !self.mmu.counts_uses();
        plain && one_space && in_step && !self.mmu.config().prefetch_next
    }

    /// The number of the address space that `va` belongs to.
    #[inline(always)]
    pub(crate) fn half(&self, va: u64) -> usize {
        if (va as i64) < 0 {
            self.upper
        } else {
            self.current
        }
    }

    /// The address space that translates `va`: the current one, or the kernel half of a mirror.
    pub fn space_of(&self, va: u64) -> &Space {
        &self.spaces[self.half(va)]
    }

    /// The current address space together with physical memory, for mapping calls.
    pub fn space_and_frames(&mut self) -> (&mut Space, &mut dyn FrameSource) {
        (&mut self.spaces[self.current], self.frames.as_mut())
    }

    /// The address space that translates `va` together with physical memory.
    pub(crate) fn space_and_frames_of(&mut self, va: u64) -> (&mut Space, &mut dyn FrameSource) {
        let at = self.half(va);
        (&mut self.spaces[at], self.frames.as_mut())
    }

    /// Translates one access that starts at time `now`.
    ///
    /// # Errors
    /// If the access faults and no range of memory answers for the address.
    #[inline(always)]
    pub fn translate<P: Port>(
        &mut self,
        va: u64,
        intent: Intent,
        now: u64,
        port: &mut P,
    ) -> Result<Translated, BadAccess> {
        if intent == Intent::Fetch {
            return self.translate_fetch(va, now, port);
        }
        if port.takes_time() {
            self.mmu.arrive(now);
        }
        let space = &self.spaces[self.half(va)];
        self.mmu.stats.accesses += 1;
        if self.has_bypass
            && let Some(pa) = self.scheme.bypass(space, self.host.as_ref(), va)
        {
            self.mmu.stats.bypassed += 1;
            return Ok(Translated { pa, done: now });
        }
        if let Some((pa, entry)) = self.mmu.l1_data(va, space.asid) {
            let needs = bits::WRITE | bits::DIRTY;
            if intent == Intent::Read || entry & needs == needs {
                return Ok(Translated { pa, done: now });
            }
            return self.write_assist(va, entry, now, port);
        }
        self.miss(va, intent, now, port)
    }

    /// Reads the entries that walks for these addresses would end at: no event of the model, only
    /// a way to have many of them on their way to the host's caches at once, where one walk after
    /// another would wait for each. `found` gets the physical addresses of each entry and of the
    /// access (right for 4 KB pages); it is to use them, so that no read can be left out.
    #[inline(always)]
    pub fn read_ahead(
        &self,
        addresses: impl Iterator<Item = u64>,
        mut found: impl FnMut(u64, u64),
    ) {
        let mut page = u64::MAX;
        for va in addresses {
            if va >> 12 != page {
                page = va >> 12;
                let (at, entry) = self.space_of(va).table.last_entry(va);
                found(at, (entry & bits::FRAME) | (va & 0xfff));
            }
        }
    }

    /// A fetch: the I-TLB and no bypass, since a segment is for data only.
    fn translate_fetch<P: Port>(
        &mut self,
        va: u64,
        now: u64,
        port: &mut P,
    ) -> Result<Translated, BadAccess> {
        if port.takes_time() {
            self.mmu.arrive(now);
        }
        self.mmu.stats.fetches += 1;
        let asid = self.space_of(va).asid;
        match self.mmu.l1_fetch(va, asid) {
            Some((pa, entry)) if entry & bits::NO_EXECUTE == 0 => Ok(Translated { pa, done: now }),
            Some(_) => Err(BadAccess {
                va,
                intent: Intent::Fetch,
                fault: Fault::Protection,
            }),
            None => self.miss(va, Intent::Fetch, now, port),
        }
    }

    /// A write that hit an entry which is not dirty or not writable.
    #[cold]
    fn write_assist<P: Port>(
        &mut self,
        va: u64,
        entry: u64,
        now: u64,
        port: &mut P,
    ) -> Result<Translated, BadAccess> {
        let mut now = now;
        if entry & bits::WRITE == 0 {
            now = self.fault(va, Intent::Write, Fault::Protection, now)?;
        } else {
            // The hardware writes the dirty bit and reloads the entry.
            self.mmu.stats.dirty_assists += 1;
            let space = self.half(va);
            self.spaces[space].mark_dirty(va);
            let asid = self.spaces[space].asid;
            self.mmu.drop_written(va, asid);
            self.scheme.invalidate(&Inval::Holes { va }, asid);
        }
        self.miss(va, Intent::Write, now, port)
    }

    /// No entry of the L1 TLB: one is on its way, or it is a miss.
    #[inline(never)]
    fn miss<P: Port>(
        &mut self,
        va: u64,
        intent: Intent,
        now: u64,
        port: &mut P,
    ) -> Result<Translated, BadAccess> {
        let (fetch, asid) = (intent == Intent::Fetch, self.space_of(va).asid);
        if port.takes_time()
            && let Some(coming) = self.mmu.coming(va, asid, fetch)
        {
            return self.hit_under_miss(&coming, va, intent, now, port);
        }
        if fetch {
            self.mmu.stats.l1i_misses += 1;
        } else {
            self.mmu.stats.l1d_misses += 1;
        }
        self.refill(va, intent, now, port)
    }

    /// An L1 TLB miss: the scheme's business, with faults in between.
    #[inline(always)]
    fn refill<P: Port>(
        &mut self,
        va: u64,
        intent: Intent,
        mut now: u64,
        port: &mut P,
    ) -> Result<Translated, BadAccess> {
        let (fetch, half) = (intent == Intent::Fetch, self.half(va));
        let port = &mut WalkerPort::new(port, self.mmu.reference_time);
        for _ in 0..4 {
            let space = &mut self.spaces[half];
            let asid = space.asid;
            let (mmu, host) = (&mut self.mmu, self.host.as_mut());
            let answer = if self.is_plain && host.is_none() {
                paging::refill(&mut Refill {
                    mmu,
                    space,
                    host,
                    port,
                    va,
                    asid,
                    fetch,
                    now,
                })
            } else {
                let port: &mut dyn Port = port;
                let mut miss = Refill {
                    mmu,
                    space,
                    host,
                    port,
                    va,
                    asid,
                    fetch,
                    now,
                };
                self.scheme.refill(&mut miss)
            };
            let fault = match answer {
                Ok(fill) if allows(fill.entry, intent == Intent::Write, fetch) => {
                    let mut fill = fill;
                    if intent == Intent::Write && fill.entry & bits::DIRTY == 0 {
                        self.mmu.stats.dirty_assists += 1;
                        self.spaces[half].mark_dirty(va);
                        fill.entry |= bits::DIRTY;
                    }
                    self.filled(asid, fill.entry);
                    let pa = match port.takes_time() {
                        true => self.mmu.l1_send(va, asid, fetch, &fill),
                        false => self.mmu.l1_install(va, asid, fetch, &fill),
                    };
                    return Ok(Translated {
                        pa,
                        done: fill.done,
                    });
                }
                Ok(_) => Fault::Protection,
                Err(fault) => fault,
            };
            now = self.fault(va, intent, fault, now)?;
        }
        Err(BadAccess {
            va,
            intent,
            fault: Fault::Protection,
        })
    }

    /// An access whose entry is on its way waits for it; one that the entry does not allow goes on
    /// as after a hit.
    fn hit_under_miss<P: Port>(
        &mut self,
        coming: &Arrival,
        va: u64,
        intent: Intent,
        now: u64,
        port: &mut P,
    ) -> Result<Translated, BadAccess> {
        let (entry, done) = (coming.entry, now.max(coming.at));
        let (write, fetch) = (intent == Intent::Write, intent == Intent::Fetch);
        if allows(entry, write, fetch) && (!write || entry & bits::DIRTY != 0) {
            let pa = coming.pa(va);
            return Ok(Translated { pa, done });
        }
        match fetch {
            true => Err(BadAccess {
                va,
                intent,
                fault: Fault::Protection,
            }),
            false => self.write_assist(va, entry, done, port),
        }
    }

    /// Notes a page of the kernel half that has to go with the next load of a root.
    fn filled(&mut self, asid: u16, entry: u64) {
        if asid == GLOBAL_ASID && entry & bits::GLOBAL == 0 {
            self.mmu.stats.kernel_fills_not_global += 1;
            self.used_not_global = true;
        }
    }
}
