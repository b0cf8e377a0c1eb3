// SPDX-License-Identifier: MIT OR Apache-2.0
//! One virtual CPU's translation hardware, driven by what the CPU does. Its page tables mirror the
//! guest's as the recorder tells of them, so that each CPU needs nothing of the others.

use crate::hardware::Hardware;
use crate::tally::{Counts, EventCounts, KernelAreas, SpaceCounts};
use crate::wire::{CpuEvent, CpuWatcher, GuestRefusal, RecorderStats, TablePath};
use ample_trace::{Access, AccessKind};
use ample_translate::{Mirrored, PageSize};
use std::collections::BTreeMap;

/// Frame number's place in CR3.
const ROOT_FRAME: u64 = 0x000f_ffff_ffff_f000;

/// A CPU under one scheme.
pub struct Cpu<H> {
    hardware: H,
    /// Whether accesses count: between the markers.
    counting: bool,
    /// Root frame of the current address space.
    root: u64,
    /// Counts of the current address space, added to `spaces` when it is left.
    current: SpaceCounts,
    /// By root frame.
    pub spaces: BTreeMap<u64, SpaceCounts>,
    /// Misses at the kernel's addresses by what lies there.
    pub areas: KernelAreas,
    /// What changed translation.
    pub events: EventCounts,
    /// What the recorder counted.
    pub recorder: RecorderStats,
    /// Regions of interest begun and ended.
    pub regions: [u64; 2],
    /// Values of the markers inside.
    pub points: Vec<u64>,
    /// Instructions between the markers.
    pub instructions: u64,
    /// Instructions when the current region began.
    began: u64,
    /// Accesses that the mirrored tables did not let through: of pages that the recorder found
    /// unmapped.
    pub untranslated: u64,
    /// Mappings that contradict themselves.
    pub malformed: u64,
    /// Why the guest cannot be followed.
    pub refused: Option<GuestRefusal>,
    /// References of walks counted so far.
    references: u64,
    /// Whether the last access was the kernel's.
    last_mode: bool,
}

impl<H: Hardware> Cpu<H> {
    /// A CPU that is simulated by `hardware`.
    pub fn new(hardware: H) -> Self {
        Cpu {
            hardware,
            counting: false,
            root: 0,
            current: SpaceCounts::default(),
            spaces: BTreeMap::new(),
            areas: KernelAreas::default(),
            events: EventCounts::default(),
            recorder: RecorderStats::default(),
            regions: [0; 2],
            points: Vec::new(),
            instructions: 0,
            began: 0,
            untranslated: 0,
            malformed: 0,
            refused: None,
            references: 0,
            last_mode: false,
        }
    }

    /// What simulates it.
    pub fn hardware(&self) -> &H {
        &self.hardware
    }

    /// What was counted so far, by root frame; that of the current address space may come twice.
    pub fn by_space(&self) -> impl Iterator<Item = (u64, SpaceCounts)> {
        let left = self.spaces.iter().map(|(&root, &counts)| (root, counts));
        left.chain([(self.root_frame(), self.current)])
    }

    /// Everything counted so far, of all address spaces.
    pub fn total(&self) -> SpaceCounts {
        let mut total = SpaceCounts::default();
        for (_, counts) in self.by_space() {
            total += counts;
        }
        total
    }

    /// Whether it is between the markers.
    pub fn is_counting(&self) -> bool {
        self.counting
    }

    /// Root frame of the address space that it is in.
    pub fn root_frame(&self) -> u64 {
        self.root >> 12
    }

    fn leave_space(&mut self) {
        let counts = std::mem::take(&mut self.current);
        if counts == SpaceCounts::default() {
            return;
        }
        *self.spaces.entry(self.root >> 12).or_default() += counts;
    }

    fn load_root(&mut self, cr3: u64) {
        self.leave_space();
        self.root = cr3 & ROOT_FRAME;
        self.hardware.engine_mut().load_root(self.root >> 12);
    }

    /// Takes the guest's way to a page over into the mirrored tables.
    fn mapping(&mut self, mapping: &TablePath<'_>) {
        self.events.mappings += 1;
        let mut path = [(0, 0); 5];
        let pairs = mapping.path.chunks_exact(2);
        let levels = pairs.len();
        for (pair, words) in path.iter_mut().zip(pairs) {
            *pair = (words[0], words[1]);
        }
        let engine = self.hardware.engine_mut();
        match engine.mirror(mapping.va, &path[..levels]) {
            Ok(mirrored) => self.events.moved += u64::from(mirrored == Mirrored::Moved),
            Err(_) => self.malformed += 1,
        }
        if let Ok(line) = mapping.line.try_into() {
            self.malformed += u64::from(engine.mirror_line(mapping.va, line).is_err());
        }
    }

    /// Size of the page that an address lies in.
    fn size_of(&self, va: u64) -> PageSize {
        let mapped = self.hardware.engine().space_of(va).lookup(va);
        mapped.map_or(PageSize::K4, |mapped| mapped.size)
    }

    /// Counts what an access cost beyond a hit in the first level.
    #[cold]
    #[inline(never)]
    fn missed(&mut self, access: &Access, kernel: bool, walks: u64, walk_units: u64) {
        let stats = &self.hardware.engine().mmu.stats;
        let walked = stats.walks() > walks;
        let all = stats.walk_refs();
        let references = all - std::mem::replace(&mut self.references, all);
        self.areas.miss(access.va, walked, walk_units);
        let walk = walked.then(|| (self.size_of(access.va), references));
        let counts = self.counts(kernel);
        counts.miss(access.kind == AccessKind::Fetch, walk);
    }

    #[inline(always)]
    fn counts(&mut self, kernel: bool) -> &mut Counts {
        match kernel {
            true => &mut self.current.kernel,
            false => &mut self.current.user,
        }
    }

    /// Counts the instructions after the last access; they are of its mode.
    fn count_rest(&mut self) {
        let total = self.total();
        let counted = total.user.instructions + total.kernel.instructions;
        let mode = self.last_mode;
        self.counts(mode).instructions += self.instructions.saturating_sub(counted);
    }

    /// Ends what is counted.
    pub fn finish(&mut self) {
        self.leave_space();
        self.counting = false;
    }
}

impl<H: Hardware> CpuWatcher for Cpu<H> {
    #[inline(always)]
    fn access(&mut self, access: Access, kernel: bool) {
        if !self.counting {
            return;
        }
        // What changes the mode goes on with another line: the instructions before a fetch are of
        // the access before.
        let before_fetch = std::mem::replace(&mut self.last_mode, kernel);
        let mode = match access.kind {
            AccessKind::Fetch => before_fetch,
            AccessKind::Load | AccessKind::Store => kernel,
        };
        let instructions = access.instructions();
        self.counts(mode).instructions += instructions;
        self.counts(kernel).access(access.kind);
        let stats = &self.hardware.engine().mmu.stats;
        let misses = stats.l1d_misses + stats.l1i_misses;
        let walks = stats.walks();
        let before = self.hardware.clock();
        if !self.hardware.run(&access, kernel) {
            self.untranslated += 1;
        }
        let mut walk_units = 0;
        if self.hardware.measuring() {
            let after = self.hardware.clock();
            walk_units = after.1 - before.1;
            let counts = self.counts(kernel);
            counts.time_units += after.0 - before.0;
            counts.walk_units += walk_units;
            self.counts(mode).timed_instructions += instructions;
        }
        let stats = &self.hardware.engine().mmu.stats;
        if stats.l1d_misses + stats.l1i_misses != misses {
            self.missed(&access, kernel, walks, walk_units);
        }
    }

    fn event(&mut self, event: CpuEvent<'_>) {
        match event {
            CpuEvent::Begin {
                cr3, instructions, ..
            } => {
                self.regions[0] += 1;
                self.began = instructions;
                self.load_root(cr3);
                self.hardware.engine_mut().flush_all();
                self.counting = true;
            }
            CpuEvent::End { instructions, .. } => {
                self.regions[1] += 1;
                self.instructions += instructions - self.began;
                self.count_rest();
                self.finish();
            }
            CpuEvent::Point(value) => self.points.push(value),
            CpuEvent::Cr3(cr3) => {
                self.events.cr3_writes += 1;
                self.load_root(cr3);
            }
            CpuEvent::Invlpg(va) => {
                self.events.invlpg += 1;
                self.hardware.engine_mut().invalidate_page(va);
            }
            CpuEvent::Flush => {
                self.events.flushes += 1;
                self.hardware.engine_mut().flush_all();
            }
            CpuEvent::Interrupt(vector) => *self.events.interrupts.entry(vector).or_default() += 1,
            CpuEvent::Return => self.events.returns += 1,
            CpuEvent::Mapping(mapping) => self.mapping(&mapping),
            CpuEvent::Recorder(stats) => self.recorder = stats,
            CpuEvent::Refused(refusal) => self.refused = Some(refusal),
            CpuEvent::Turn(_) => self.events.turns += 1,
        }
    }
}
