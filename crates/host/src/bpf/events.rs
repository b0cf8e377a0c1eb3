// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loaded BPF programs that see pageblocks being spoiled.

use crate::HostError;
use crate::spoiling::{Harm, SpoilEvent};
use ample_pfn::{MigrateType, PAGES_PER_PAGEBLOCK, Pfn};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, Program, RingBuffer, RingBufferBuilder, libbpf_sys};
use std::cell::RefCell;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unsafe_op_in_unsafe_fn,
    unreachable_pub
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/events.skel.rs"));
}

/// Frames of a stack that an event has room for: `STACK_FRAMES` of the program.
const STACK_FRAMES: usize = 48;

/// `struct event` of the program.
#[repr(C)]
struct Raw {
    time_ns: u64,
    pfn: u64,
    cgroup: u64,
    stack: [u64; STACK_FRAMES],
    frames: u32,
    pid: u32,
    gfp: u32,
    kind: u8,
    order: u8,
    asked: u8,
    unused: u8,
    comm: [u8; 16],
}

/// `enum migratetype` (`include/linux/mmzone.h`).
const RECLAIMABLE: u8 = 2;

/// Programs on the tracepoints `mm_page_alloc` and `mm_page_alloc_extfrag`, and their events.
pub(crate) struct EventPrograms {
    /// Dropped before the programs that it reads from.
    ring: RingBuffer<'static>,
    skeleton: skeleton::EventsSkel<'static>,
    events: Rc<RefCell<Vec<SpoilEvent>>>,
    blocks: u32,
    /// The kernel times its BPF programs as long as this is open.
    timing: Option<OwnedFd>,
}

pub(super) fn failed(what: &str) -> impl Fn(libbpf_rs::Error) -> HostError {
    move |error| HostError::Bpf(format!("{what}: {error}; it needs root"))
}

impl EventPrograms {
    /// Loads and attaches the programs; nothing is recorded before [`EventPrograms::mark`].
    ///
    /// `memory_map` is the address of the `struct page` of frame 0, `frames` the number of frames.
    pub(crate) fn start(memory_map: u64, frames: u64) -> Result<EventPrograms, HostError> {
        libbpf_rs::set_print(None);
        // As in `BpfPrograms::load`: the skeleton borrows this slot for its whole life.
        let slot = Box::leak(Box::new(MaybeUninit::uninit()));
        let refused = failed("the kernel refused the program");
        let mut open = skeleton::EventsSkelBuilder::default()
            .open(slot)
            .map_err(&refused)?;
        let blocks = u32::try_from(frames.div_ceil(PAGES_PER_PAGEBLOCK))
            .map_err(|_| HostError::Bpf("more pageblocks than 32 bits count".into()))?;
        open.maps
            .blocks
            .set_max_entries(blocks.max(1))
            .map_err(&refused)?;
        open.maps
            .rodata_data
            .as_deref_mut()
            .expect("mapped when opened")
            .memory_map = memory_map;
        let mut skeleton = open.load().map_err(&refused)?;
        skeleton
            .attach()
            .map_err(failed("cannot attach to the tracepoint"))?;
        let events = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&events);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skeleton.maps.ring, move |bytes| {
                sink.borrow_mut().extend(decode(bytes));
                0
            })
            .map_err(&refused)?;
        let ring = builder.build().map_err(&refused)?;
        Ok(EventPrograms {
            ring,
            skeleton,
            events,
            blocks,
            timing: None,
        })
    }

    /// Tells which pageblocks hold something unmovable, and lets the programs record.
    ///
    /// # Panics
    /// When `spoiled` has fewer blocks than memory.
    pub(crate) fn mark(&mut self, spoiled: &[bool]) -> Result<(), HostError> {
        assert!(spoiled.len() >= self.blocks as usize, "one flag a block");
        let spoiled = &spoiled[..self.blocks as usize];
        let keys: Vec<u8> = (0..self.blocks).flat_map(u32::to_ne_bytes).collect();
        let states: Vec<u8> = spoiled
            .iter()
            .flat_map(|&spoiled| u64::from(spoiled).to_ne_bytes())
            .collect();
        self.skeleton
            .maps
            .blocks
            .update_batch(&keys, &states, self.blocks, MapFlags::ANY, MapFlags::ANY)
            .map_err(failed("cannot fill the table of blocks"))?;
        self.shared().armed = 1;
        Ok(())
    }

    /// Waits for events and takes them.
    pub(crate) fn poll(&mut self, wait: Duration) -> Result<Vec<SpoilEvent>, HostError> {
        match self.ring.poll(wait) {
            Ok(()) => {}
            // A signal ends the wait early; the caller looks at its flag.
            Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed("cannot read the events")(error)),
        }
        Ok(self.events.take())
    }

    /// Has the kernel time the programs from now on.
    pub(crate) fn time(&mut self) -> Result<(), HostError> {
        // SAFETY: the call takes a number and gives a new descriptor or an error.
        let descriptor = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if descriptor < 0 {
            let cause = std::io::Error::from_raw_os_error(-descriptor);
            return Err(HostError::Bpf(format!("cannot time the programs: {cause}")));
        }
        // SAFETY: the descriptor is open and nobody else's.
        self.timing = Some(unsafe { OwnedFd::from_raw_fd(descriptor) });
        Ok(())
    }

    /// How often the programs ran since they are timed, and for how many nanoseconds together.
    pub(crate) fn cost(&self) -> Result<(u64, u64), HostError> {
        let programs = [
            &self.skeleton.progs.on_alloc,
            &self.skeleton.progs.on_fallback,
        ];
        let mut cost = (0, 0);
        for program in programs {
            let id = Program::id_from_fd(program.as_fd()).map_err(failed("cannot ask"))?;
            let info = ProgInfoIter::default().find(|info| info.id == id);
            let (runs, ns) = info.map_or((0, 0), |info| (info.run_cnt, info.run_time_ns));
            cost = (cost.0 + runs, cost.1 + ns);
        }
        Ok(cost)
    }

    /// Events for which there was no room.
    pub(crate) fn lost(&mut self) -> u64 {
        self.shared().lost
    }

    fn shared(&mut self) -> &mut skeleton::types::bss {
        self.skeleton
            .maps
            .bss_data
            .as_deref_mut()
            .expect("mapped when loaded")
    }
}

/// An event as the program wrote it; `None` when it has another size.
fn decode(bytes: &[u8]) -> Option<SpoilEvent> {
    const WORD: usize = size_of::<u64>();
    if bytes.len() != size_of::<Raw>() {
        return None;
    }
    let word = |at: usize| {
        let word: [u8; WORD] = bytes[at..at + WORD].try_into().expect("eight bytes");
        u64::from_ne_bytes(word)
    };
    let half = |at: usize| {
        let half: [u8; 4] = bytes[at..at + 4].try_into().expect("four bytes");
        u32::from_ne_bytes(half)
    };
    let frames = (half(offset_of!(Raw, frames)) as usize).min(STACK_FRAMES);
    let stack = offset_of!(Raw, stack);
    let comm = &bytes[offset_of!(Raw, comm)..][..16];
    let end = comm.iter().position(|&byte| byte == 0).unwrap_or(16);
    Some(SpoilEvent {
        time_ns: word(offset_of!(Raw, time_ns)),
        pfn: Pfn(word(offset_of!(Raw, pfn))),
        cgroup: word(offset_of!(Raw, cgroup)),
        pid: half(offset_of!(Raw, pid)),
        gfp: half(offset_of!(Raw, gfp)),
        kind: match bytes[offset_of!(Raw, kind)] {
            0 => Harm::Spoiled,
            _ => Harm::Fallback,
        },
        order: bytes[offset_of!(Raw, order)],
        asked: match bytes[offset_of!(Raw, asked)] {
            RECLAIMABLE => MigrateType::Reclaimable,
            _ => MigrateType::Unmovable,
        },
        task: String::from_utf8_lossy(&comm[..end]).into_owned(),
        stack: (0..frames).map(|at| word(stack + at * WORD)).collect(),
    })
}
