// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the allocator does other than usual under the randomised scheduler of the crate `shuttle`,
//! for the models in `models.rs`.
//!
//! The code under test is the allocator itself: every operation on a lock, every restartable
//! sequence and every parking of a slab is a step before which another thread may run. A sequence
//! is one step, which is what the kernel's restarts make of it, and before each the thread may move
//! to another of [`CPUS`] processors. Each object is owned by who allocated it; an object that is
//! handed out twice, or damaged, ends the model with the schedule that led there, which
//! `shuttle::replay` repeats.

use core::cell::Cell;

/// Processors of the model.
pub const CPUS: i32 = 2;

std::thread_local! {
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    /// False inside a sequence, which no other thread interrupts.
    static MOVES: Cell<bool> = const { Cell::new(true) };
}

shuttle::thread_local! {
    static CPU: Cell<i32> = Cell::new(0);
    static RANDOM: Cell<u64> = Cell::new(thread() as u64 + 1);
}

/// Begins or ends a model on this thread.
pub fn run(running: bool) {
    RUNNING.set(running);
}

/// Whether a model is being checked on this thread.
pub fn running() -> bool {
    RUNNING.get()
}

/// The number of the calling thread of the model.
pub fn thread() -> usize {
    if running() {
        shuttle::current::me().into()
    } else {
        0
    }
}

/// A step, before which another thread may run.
pub fn step() {
    if running() && MOVES.get() {
        shuttle::thread::yield_now();
    }
}

/// The processor that the calling thread is on.
pub fn cpu() -> i32 {
    if running() { CPU.with(Cell::get) } else { 0 }
}

/// Runs a sequence of several operations as one step.
pub fn in_one_step<T>(sequence: impl FnOnce() -> T) -> T {
    move_thread();
    let moves = MOVES.replace(false);
    let result = sequence();
    MOVES.set(moves);
    result
}

/// A step, after which the thread may be on another processor.
pub fn move_thread() {
    if !running() || !MOVES.get() {
        return;
    }
    shuttle::thread::yield_now();
    let random = RANDOM.with(|random| {
        random.set(random.get().wrapping_mul(6_364_136_223_846_793_005) | 1);
        random.get() >> 33
    });
    if random.is_multiple_of(4) {
        CPU.with(|cpu| cpu.set((random >> 2) as i32 % CPUS));
    }
}
