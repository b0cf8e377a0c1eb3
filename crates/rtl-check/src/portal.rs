// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random writes of the registers of a function, and what the doorbell must answer.

use crate::trace::{PageNumbering, Tracer};
use ample_kit::random::Xoshiro256;
use ample_migration::protocol::{
    Command, Design, DoorbellOrder, Portal, Protocol, Register, SliceHash,
};
use anyhow::Result;
use std::io::Write;

/// Bits of a physical address in the hardware.
const ADDRESS_BITS: u32 = 48;
const LINE_BYTES: u64 = 64;
/// No multiple of a large page.
const MEMORY_PAGES: u64 = (1 << 35) + 777;

/// Writes `events` register writes.
///
/// # Errors
/// When the trace cannot be written.
pub fn write(events: u64, seed: u64, out: impl Write) -> Result<()> {
    let sizes = PageNumbering {
        small_log2: 6,
        large_log2: 15,
    };
    let rules = Protocol {
        design: Design::Cacheable,
        page_lines: 1 << sizes.small_log2,
        page_orders: 1 | 1 << (sizes.large_log2 - sizes.small_log2),
        memory_lines: MEMORY_PAGES << sizes.small_log2,
        cores: 1,
        slices: 1,
        hash: SliceHash::Modulo,
        parallel_slices: false,
        copy_window: 1,
        announce: false,
        mark_entries: 0,
        table_entries: 1,
        queue_entries: 1,
        fault: None,
    };
    let mut random = Xoshiro256::new(seed);
    let mut portal = Portal::default();
    let mut tracer = Tracer::new(out);
    tracer.line(format_args!("z {MEMORY_PAGES}"));
    for _ in 0..events {
        let register = random.below(4);
        let value = match register {
            0 | 1 => address(&mut random),
            2 => pages(&mut random, sizes),
            _ => [1, 2, 2, 3, 3, 4, 0, 5, u64::MAX][random.below(9) as usize],
        };
        let ready = random.chance(0.8);
        let before = portal;
        let named = [
            Register::Source,
            Register::Destination,
            Register::Pages,
            Register::Doorbell,
        ][register as usize];
        let answer = portal.write(&rules, named, value);
        let (code, drop, command) = match answer {
            Err(status) => (status.code(), 0, None),
            Ok(None) => (0, 0, None),
            Ok(Some(DoorbellOrder::Reset)) => (0, 1, None),
            Ok(Some(DoorbellOrder::Submit(command))) => (0, 0, Some(command)),
        };
        // What is refused, or finds no room, leaves the registers as they are.
        if code != 0 || (command.is_some() && !ready) {
            portal = before;
        }
        let fields = command.map_or_else(String::new, |command| {
            let (src, dst, wide) = sizes.of(command.map());
            let (clear, start) = match command {
                Command::Migrate { start, .. } => (0, u8::from(start)),
                Command::Clear { .. } => (1, 0),
            };
            format!(" {clear} {start} {wide} {src} {dst}")
        });
        let valid = u8::from(command.is_some());
        tracer.event(format_args!(
            "p {register} {value} {} {code} {drop} {valid}{fields}",
            u8::from(ready)
        ));
    }
    let events = tracer.finish()?;
    eprintln!("portal, seed {seed}: {events} events");
    Ok(())
}

fn address(random: &mut Xoshiro256) -> u64 {
    let pages = 1 << (ADDRESS_BITS - 12);
    let page = (u64::from(random.below(1 << 20)) << 16 | u64::from(random.below(1 << 16))) % pages;
    // Within memory, and a multiple of a large page.
    let large = ((page % MEMORY_PAGES) >> 9) << 21;
    match random.below(16) {
        0 => large + 1 + u64::from(random.below(63)),
        1 => large + LINE_BYTES * u64::from(1 + random.below(63)),
        2 => large | 1 << (ADDRESS_BITS + random.below(16)),
        3 => u64::MAX - u64::from(random.below(8192)),
        4 => u64::MAX << 12,
        5 => page << 12,
        6..9 => (page % MEMORY_PAGES) << 12,
        // About the last pages of memory.
        9 => (MEMORY_PAGES - 600 + u64::from(random.below(603))) << 12,
        10 => ((MEMORY_PAGES >> 9) << 21) - u64::from(random.below(3)) * (1 << 21),
        // The same for source and destination.
        11 => 0,
        _ => large,
    }
}

fn pages(random: &mut Xoshiro256, sizes: PageNumbering) -> u64 {
    let large = 1 << (sizes.large_log2 - sizes.small_log2);
    let most = u64::from(u32::MAX) >> sizes.small_log2;
    match random.below(12) {
        0 => 0,
        1 => most,
        2 => most + 1,
        3 => u64::MAX,
        4 => u64::from(random.below(1024)),
        5..8 => large,
        _ => 1,
    }
}
