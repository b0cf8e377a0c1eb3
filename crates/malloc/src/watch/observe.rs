// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sampled heap profile: which call stacks hold the memory that is live, which held it at the
//! peak, which allocated, and how long it lived.
//!
//! One byte in `profile` is picked on average (a Poisson process over the bytes requested); the
//! object that it falls into gets a span of its own, by which its free is recognised, and is
//! counted for its call stack. The fast path counts down the bytes of each CPU to the next sample.
//! The output is the text format that pprof reads (`heap_v2`), with sizes and counts as sampled:
//! pprof scales them up.

use crate::cache;
use crate::os::lock::{ForkLock, Lock};
use crate::os::{meta, sys};
use crate::watch::options::Options;
use crate::watch::poisson::exponential;
use crate::watch::stats::Out;
use crate::watch::unwind::{DEPTH, unwind};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Live samples that can be held: more are not sampled.
const CAPACITY: usize = 1 << 14;
/// Call stacks that can be told apart: samples of more are not taken.
const SITES: usize = 1 << 12;

#[derive(Clone, Copy)]
struct Sample {
    address: usize,
    bytes: usize,
    site: usize,
    born_ns: u64,
}

/// Number and bytes of samples.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: usize,
    bytes: usize,
}

/// A call stack, and the samples that were taken there.
#[derive(Clone, Copy)]
struct Site {
    stack: [usize; DEPTH],
    depth: usize,
    live: Sum,
    all: Sum,
    /// What was live when the samples of all sites together were most.
    peak: Sum,
    lifetime_ns: u64,
}

struct Samples {
    table: *mut Sample,
    live: Sum,
    peak_bytes: usize,
    sites: *mut Site,
    site_count: usize,
}

// SAFETY: the tables are reached only through the lock.
unsafe impl Send for Samples {}

static SAMPLES: Lock<Samples> = Lock::new(Samples {
    table: core::ptr::null_mut(),
    live: Sum { count: 0, bytes: 0 },
    peak_bytes: 0,
    sites: core::ptr::null_mut(),
    site_count: 0,
});
/// Mean bytes between samples; 0 if no profile is taken.
pub(crate) static MEAN: AtomicUsize = AtomicUsize::new(0);
/// The state of the random numbers. Two threads that draw at once may get the same.
static RANDOM: AtomicU64 = AtomicU64::new(0x1234_5678_9abc_def1);
/// The thread that takes a sample: the unwinder may allocate.
static BUSY: AtomicU64 = AtomicU64::new(0);

/// Applies the options.
pub fn configure(options: &Options) {
    if options.profile_bytes > 0 {
        start(options.profile_bytes);
    }
}

/// Takes samples from now on, one byte in `mean`; with 0 no more. What was sampled stays counted.
pub fn start(mean: usize) {
    MEAN.store(mean, Ordering::Relaxed);
    cache::count_down_from(mean);
}

/// Whether samples are taken.
#[inline]
pub fn is_on() -> bool {
    MEAN.load(Ordering::Relaxed) != 0
}

/// In each round of upkeep: makes up for what [`start`] did not reach, or lets the fast paths count
/// down to the next round.
pub fn round() {
    cache::count_down_from(MEAN.load(Ordering::Relaxed));
}

/// The lock to shut for a fork.
pub fn fork_lock() -> &'static dyn ForkLock {
    &SAMPLES
}

/// Whether nobody holds the lock of the samples.
pub fn is_free() -> bool {
    SAMPLES.is_free()
}

/// After a fork: whoever was inside may not exist here.
pub fn fork_done() {
    BUSY.store(0, Ordering::Relaxed);
}

/// Makes the object by `make`, which takes a size and an alignment, if it is to be sampled; its
/// address.
pub fn allocate(bytes: usize, align: usize, make: fn(usize, usize) -> usize) -> Option<usize> {
    let mean = MEAN.load(Ordering::Relaxed);
    let next = || {
        let mut random = RANDOM.load(Ordering::Relaxed);
        let bytes = exponential(&mut random, mean);
        RANDOM.store(random, Ordering::Relaxed);
        bytes
    };
    if mean == 0 || !cache::count_down(bytes.max(1), next) {
        return None;
    }
    // SAFETY: no preconditions.
    let me = unsafe { libc::pthread_self() } as u64;
    if BUSY
        .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        return None;
    }
    let address = sample(bytes, || make(bytes, align));
    BUSY.store(0, Ordering::Release);
    address
}

fn sample(bytes: usize, make: impl FnOnce() -> usize) -> Option<usize> {
    let mut stack = [0; DEPTH];
    let depth = unwind(&mut stack) as usize;
    let site = {
        let mut samples = SAMPLES.lock();
        // At three quarters the search for a free place gets long.
        if !samples.has_tables() || samples.live.count >= CAPACITY / 4 * 3 {
            return None;
        }
        samples.site(&stack, depth)?
    };
    let address = make();
    if address == 0 {
        return None;
    }
    let born_ns = sys::now_ns();
    SAMPLES.lock().add(Sample {
        address,
        bytes,
        site,
        born_ns,
    });
    Some(address)
}

/// Forgets a sampled object that is freed.
pub fn forget(address: usize) {
    let mut samples = SAMPLES.lock();
    if samples.table.is_null() {
        return;
    }
    let place = samples.find(address, address);
    let sample = *samples.at(place);
    if sample.address != address {
        return;
    }
    samples.live.take(sample.bytes);
    let site = &mut samples.sites()[sample.site];
    site.live.take(sample.bytes);
    site.lifetime_ns += sys::now_ns().saturating_sub(sample.born_ns);
    samples.remove(place);
}

impl Sum {
    fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
    }

    fn take(&mut self, bytes: usize) {
        self.count -= 1;
        self.bytes -= bytes;
    }
}

impl Samples {
    /// Whether there are tables; they are made when the first sample is.
    fn has_tables(&mut self) -> bool {
        if self.table.is_null() {
            let bytes = size_of::<Sample>() * CAPACITY;
            let sites = meta::allocate(size_of::<Site>() * SITES, align_of::<Site>());
            let table = meta::allocate(bytes, align_of::<Sample>());
            if let (Some(sites), Some(table)) = (sites, table) {
                self.sites = sites.as_ptr().cast();
                self.table = table.as_ptr().cast();
            }
        }
        !self.table.is_null()
    }

    fn sites(&mut self) -> &mut [Site] {
        if self.sites.is_null() {
            return &mut [];
        }
        // SAFETY: the table has SITES zero-initialised entries, for which zero is valid.
        unsafe { core::slice::from_raw_parts_mut(self.sites, SITES) }
    }

    /// The number of the site with the stack, which is a new one if need be; `None` if there are
    /// too many.
    fn site(&mut self, stack: &[usize; DEPTH], depth: usize) -> Option<usize> {
        let mix = |hash: usize, &frame: &usize| (hash ^ frame).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = stack[..depth].iter().fold(depth, mix);
        let mut at = (hash >> 40) % SITES;
        while self.sites()[at].all.count > 0 && self.sites()[at].stack[..] != stack[..] {
            at = (at + 1) % SITES;
        }
        let site = &mut self.sites()[at];
        if site.all.count == 0 {
            (site.stack, site.depth) = (*stack, depth);
            if self.site_count >= SITES / 4 * 3 {
                return None;
            }
            self.site_count += 1;
            // It is not empty while its first object is made.
            self.sites()[at].all.count = 1;
        } else {
            site.all.count += 1;
        }
        Some(at)
    }

    /// Counts a new sample, and notes the peak when the live ones have grown by a 32nd beyond it.
    fn add(&mut self, sample: Sample) {
        let place = self.find(0, sample.address);
        *self.at(place) = sample;
        self.live.add(sample.bytes);
        let site = &mut self.sites()[sample.site];
        site.live.add(sample.bytes);
        site.all.bytes += sample.bytes;
        if self.live.bytes > self.peak_bytes + self.peak_bytes / 32 {
            self.peak_bytes = self.live.bytes;
            self.sites()
                .iter_mut()
                .for_each(|site| site.peak = site.live);
        }
    }

    fn at(&mut self, place: usize) -> &mut Sample {
        // SAFETY: the table has CAPACITY zero-initialised entries, and places are below that.
        unsafe { &mut *self.table.add(place % CAPACITY) }
    }

    fn home(address: usize) -> usize {
        (address >> crate::units::PAGE_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
    }

    /// From the home of `key` on, the first place that holds `wanted` or nothing.
    fn find(&mut self, wanted: usize, key: usize) -> usize {
        let mut place = Self::home(key);
        while self.at(place).address != wanted && self.at(place).address != 0 {
            place += 1;
        }
        place % CAPACITY
    }

    /// Empties a place, and moves up what the hole would hide.
    fn remove(&mut self, mut hole: usize) {
        self.at(hole).address = 0;
        let mut place = hole + 1;
        while self.at(place).address != 0 {
            let moved = *self.at(place);
            let home = Self::home(moved.address) % CAPACITY;
            let from_home = (place % CAPACITY + CAPACITY - home) % CAPACITY;
            let to_hole = (place % CAPACITY + CAPACITY - hole % CAPACITY) % CAPACITY;
            if from_home >= to_hole {
                *self.at(hole) = moved;
                self.at(place).address = 0;
                hole = place;
            }
            place += 1;
        }
    }
}

/// What a profile shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProfileKind {
    /// What is live, and in brackets what was ever allocated.
    Live,
    /// What was live at the peak.
    Peak,
    /// What was freed, and how long it had lived: nanoseconds in the place of bytes.
    Lifetime,
}

impl ProfileKind {
    /// The kind of a number: 0, 1 and 2 in their order; others are [`ProfileKind::Live`].
    pub fn from_number(number: u8) -> Self {
        match number {
            1 => ProfileKind::Peak,
            2 => ProfileKind::Lifetime,
            _ => ProfileKind::Live,
        }
    }

    /// What a site shows: at the time, and in brackets.
    fn of(self, site: &Site) -> (Sum, Sum) {
        match self {
            ProfileKind::Live => (site.live, site.all),
            ProfileKind::Peak => (site.peak, site.peak),
            ProfileKind::Lifetime => {
                let freed = Sum {
                    count: site.all.count - site.live.count,
                    bytes: site.lifetime_ns as usize,
                };
                (freed, freed)
            }
        }
    }
}

/// Writes a profile to a file descriptor.
pub fn write_profile(fd: i32, kind: ProfileKind) {
    let mut out = Out::new(fd);
    let _ = format_profile(&mut out, kind);
    out.flush();
    copy_maps(fd);
}

fn format_profile(out: &mut Out, kind: ProfileKind) -> fmt::Result {
    let mean = MEAN.load(Ordering::Relaxed);
    let mut samples = SAMPLES.lock();
    let (mut now, mut ever) = (Sum::default(), Sum::default());
    for site in samples.sites() {
        let (one, all) = kind.of(site);
        (now.count, now.bytes) = (now.count + one.count, now.bytes + one.bytes);
        (ever.count, ever.bytes) = (ever.count + all.count, ever.bytes + all.bytes);
    }
    // Times are not scaled by the sampling as sizes are.
    let form = match kind {
        ProfileKind::Lifetime => "heapprofile",
        _ => "heap_v2",
    };
    let Sum { count, bytes } = now;
    writeln!(
        out,
        "heap profile: {count}: {bytes} [{}: {}] @ {form}/{mean}",
        ever.count, ever.bytes
    )?;
    for site in samples.sites().iter() {
        let (Sum { count, bytes }, all) = kind.of(site);
        if all.count == 0 {
            continue;
        }
        write!(out, "{count}: {bytes} [{}: {}] @", all.count, all.bytes)?;
        for frame in &site.stack[..site.depth] {
            write!(out, " {frame:#x}")?;
        }
        writeln!(out)?;
    }
    writeln!(out, "\nMAPPED_LIBRARIES:")
}

/// pprof finds the functions by the mappings.
fn copy_maps(fd: i32) {
    let mut buffer = [0u8; 4096];
    // SAFETY: a constant name, and a buffer of the given length.
    unsafe {
        let maps = libc::open(
            c"/proc/self/maps".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        );
        if maps < 0 {
            return;
        }
        loop {
            let len = libc::read(maps, buffer.as_mut_ptr().cast(), buffer.len());
            if len <= 0 || !crate::os::report::write_all(fd, &buffer[..len as usize]) {
                break;
            }
        }
        libc::close(maps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_finds_what_was_put_and_forgets_what_was_removed() {
        let empty = Sample {
            address: 0,
            bytes: 0,
            site: 0,
            born_ns: 0,
        };
        let mut memory = vec![empty; CAPACITY];
        let mut samples = Samples {
            table: memory.as_mut_ptr(),
            live: Sum::default(),
            peak_bytes: 0,
            sites: core::ptr::null_mut(),
            site_count: 0,
        };
        let addresses: Vec<usize> = (1..9000usize).map(|index| (index * 3) << 13).collect();
        for &address in &addresses {
            let place = samples.find(0, address);
            samples.at(place).address = address;
        }
        for &address in addresses.iter().step_by(2) {
            let place = samples.find(address, address);
            assert_eq!(samples.at(place).address, address);
            samples.remove(place);
        }
        for (index, &address) in addresses.iter().enumerate() {
            let place = samples.find(address, address);
            assert_eq!(samples.at(place).address == address, index % 2 == 1);
        }
    }
}
