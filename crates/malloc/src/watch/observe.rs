// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sampled heap profile: which call stacks hold the memory that is live.
//!
//! One byte in `profile` is picked on average (a Poisson process over the bytes requested); the
//! object that it falls into gets a span of its own, by which its free is recognised, and its call
//! stack is kept. While a profile is taken the per-CPU fast path is off, so that every request is
//! seen; without one none of this costs anything. The output is the text format that pprof reads
//! (`heap_v2`), with sizes and counts as sampled: pprof scales them up.

use crate::os::lock::{ForkLock, Lock};
use crate::os::meta;
use crate::watch::options::Options;
use crate::watch::stats::Out;
use core::ffi::c_void;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// Frames kept of a stack.
const DEPTH: usize = 32;
/// Live samples that can be held: more are not sampled.
const CAPACITY: usize = 1 << 14;

#[derive(Clone, Copy)]
struct Sample {
    address: usize,
    bytes: usize,
    depth: u32,
    stack: [usize; DEPTH],
}

struct Samples {
    table: *mut Sample,
    live: usize,
    random: u64,
}

// SAFETY: the table is reached only through the lock.
unsafe impl Send for Samples {}

static SAMPLES: Lock<Samples> = Lock::new(Samples {
    table: core::ptr::null_mut(),
    live: 0,
    random: 0x1234_5678_9abc_def1,
});
/// Mean bytes between samples; 0 if no profile is taken.
static MEAN: AtomicUsize = AtomicUsize::new(0);
/// Bytes until the next sample.
static COUNTDOWN: AtomicI64 = AtomicI64::new(0);
/// The thread that takes a sample: the unwinder may allocate.
static BUSY: AtomicU64 = AtomicU64::new(0);

/// Applies the options.
pub fn configure(options: &Options) {
    MEAN.store(options.profile_bytes, Ordering::Relaxed);
    COUNTDOWN.store(options.profile_bytes as i64, Ordering::Relaxed);
}

/// The lock to shut for a fork.
pub fn fork_lock() -> &'static dyn ForkLock {
    &SAMPLES
}

/// After a fork: whoever was inside may not exist here.
pub fn fork_done() {
    BUSY.store(0, Ordering::Relaxed);
}

/// Makes the object by `make`, which takes a size and an alignment, if it is to be sampled; its
/// address.
pub fn allocate(bytes: usize, align: usize, make: fn(usize, usize) -> usize) -> Option<usize> {
    let mean = MEAN.load(Ordering::Relaxed);
    let size = bytes.max(1) as i64;
    if mean == 0 || COUNTDOWN.fetch_sub(size, Ordering::Relaxed) > size {
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
    let address = sample(bytes, mean, || make(bytes, align));
    BUSY.store(0, Ordering::Release);
    address
}

fn sample(bytes: usize, mean: usize, make: impl FnOnce() -> usize) -> Option<usize> {
    let mut stack = [0; DEPTH];
    let depth = unwind(&mut stack);
    let mut samples = SAMPLES.lock();
    COUNTDOWN.store(exponential(&mut samples.random, mean), Ordering::Relaxed);
    if samples.table.is_null() {
        let table = meta::allocate(size_of::<Sample>() * CAPACITY, align_of::<Sample>())?;
        samples.table = table.as_ptr().cast();
    }
    // At three quarters the search for a free place gets long.
    if samples.live >= CAPACITY / 4 * 3 {
        return None;
    }
    drop(samples);
    let address = make();
    if address == 0 {
        return None;
    }
    let mut samples = SAMPLES.lock();
    samples.live += 1;
    let place = samples.find(0, address);
    *samples.at(place) = Sample {
        address,
        bytes,
        depth,
        stack,
    };
    Some(address)
}

/// Forgets a sampled object that is freed.
pub fn forget(address: usize) {
    let mut samples = SAMPLES.lock();
    if samples.table.is_null() {
        return;
    }
    let place = samples.find(address, address);
    if samples.at(place).address != address {
        return;
    }
    samples.live -= 1;
    samples.remove(place);
}

impl Samples {
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

/// An exponentially distributed number of bytes, by the logarithm of a uniform one.
fn exponential(random: &mut u64, mean: usize) -> i64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let uniform = ((*random >> 11) as f64 + 1.0) / 9_007_199_254_740_992.0;
    (-logarithm(uniform) * mean as f64) as i64 + 1
}

/// The natural logarithm of a positive normal number, to 1e-8. `f64::ln` is a call into libm, which
/// every program would load with the library.
fn logarithm(value: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let mantissa = f64::from_bits(bits & FRACTION | 1.0f64.to_bits());
    // ln m = 2 artanh((m - 1) / (m + 1)), of an argument of at most 1/3.
    let x = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut power, mut sum) = (x, 0.0);
    for term in 0..8 {
        sum += power / f64::from(2 * term + 1);
        power *= x * x;
    }
    2.0 * sum + f64::from(exponent) * core::f64::consts::LN_2
}

struct Walk<'a> {
    stack: &'a mut [usize; DEPTH],
    depth: usize,
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: extern "C" fn(*mut c_void, *mut c_void) -> i32,
        argument: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

extern "C" fn visit(context: *mut c_void, argument: *mut c_void) -> i32 {
    const CONTINUE: i32 = 0;
    const STOP: i32 = 4;
    // SAFETY: the argument is the walk of the caller.
    let walk = unsafe { &mut *argument.cast::<Walk<'_>>() };
    if walk.depth == DEPTH {
        return STOP;
    }
    // SAFETY: the context is the unwinder's.
    walk.stack[walk.depth] = unsafe { _Unwind_GetIP(context) };
    walk.depth += 1;
    CONTINUE
}

/// The return addresses of this thread, innermost first.
fn unwind(stack: &mut [usize; DEPTH]) -> u32 {
    let mut walk = Walk { stack, depth: 0 };
    // SAFETY: the callback takes what it is given; the unwinder is libgcc's.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
    walk.depth as u32
}

/// Writes the profile to a file descriptor.
pub fn write_profile(fd: i32) {
    let mut out = Out::new(fd);
    let _ = format_profile(&mut out);
    out.flush();
    copy_maps(fd);
}

fn format_profile(out: &mut Out) -> fmt::Result {
    let mean = MEAN.load(Ordering::Relaxed);
    let mut samples = SAMPLES.lock();
    let capacity = if samples.table.is_null() { 0 } else { CAPACITY };
    let (mut count, mut bytes) = (0, 0);
    for place in 0..capacity {
        let sample = samples.at(place);
        if sample.address != 0 {
            count += 1;
            bytes += sample.bytes;
        }
    }
    writeln!(
        out,
        "heap profile: {count}: {bytes} [{count}: {bytes}] @ heap_v2/{mean}"
    )?;
    for place in 0..capacity {
        let sample = *samples.at(place);
        if sample.address == 0 {
            continue;
        }
        write!(out, "1: {0} [1: {0}] @", sample.bytes)?;
        for frame in &sample.stack[..sample.depth as usize] {
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
    fn the_mean_distance_between_samples_is_the_one_asked_for() {
        let mut random = 42;
        let count = 20_000;
        let sum: i64 = (0..count).map(|_| exponential(&mut random, 1000)).sum();
        let mean = sum as f64 / f64::from(count);
        assert!((mean - 1000.0).abs() < 30.0, "{mean}");
    }

    #[test]
    fn the_logarithm_is_that_of_the_library() {
        let mut value = 1e-16;
        while value <= 1.0 {
            let error = logarithm(value) - f64::ln(value);
            assert!(error.abs() < 1e-8, "{value}: {error}");
            value *= 1.0173;
        }
        assert_eq!(logarithm(1.0), 0.0);
    }

    #[test]
    fn the_table_finds_what_was_put_and_forgets_what_was_removed() {
        let empty = Sample {
            address: 0,
            bytes: 0,
            depth: 0,
            stack: [0; DEPTH],
        };
        let mut memory = vec![empty; CAPACITY];
        let mut samples = Samples {
            table: memory.as_mut_ptr(),
            live: 0,
            random: 1,
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
