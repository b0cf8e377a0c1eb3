// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random writes of the registers of the host's function, and what the doorbell must answer. The
//! model checks a descriptor in two places, at the doorbell and when it is taken from the queue;
//! the hardware's doorbell says at once what does not depend on the table.

use crate::trace::{PageNumbering, Tracer};
use ample_kit::random::Xoshiro256;
use ample_migration::protocol::{
    Command, Controller, Design, DoorbellOrder, Outbox, Portal, Protocol, Register, SliceHash,
    Status,
};
use anyhow::Result;
use std::io::Write;

/// Bits of a physical address in the hardware.
const ADDRESS_BITS: u32 = 48;
const LINE_BYTES: u64 = 64;

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
        memory_lines: (1 << ADDRESS_BITS) / LINE_BYTES,
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
            Ok(Some(DoorbellOrder::Submit(command))) => {
                let code = at_once(&rules, sizes, command);
                (code, 0, (code == 0).then_some(command))
            }
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

/// What the model answers whatever its table holds, as far as the hardware's doorbell sees it: an
/// end beyond memory is left to the front end. The hardware has two sizes of pages.
fn at_once(rules: &Protocol, sizes: PageNumbering, command: Command) -> u8 {
    let mut controller = Controller::default();
    let submitted = controller.submit(rules, command);
    submitted.expect("an empty queue has room");
    let mut out = Outbox::<bool>::default();
    let refused = controller.take_next(rules, &mut out).map(|c| c.status);
    let map = command.map();
    let begins_beyond = map.src.0.max(map.dst.0) >= rules.memory_lines;
    let fits = [sizes.small_log2, sizes.large_log2].map(|log2| 1 << log2);
    match refused {
        Some(status @ Status::Unaligned) => status.code(),
        Some(status @ Status::OutsideMemory) if begins_beyond => status.code(),
        _ if !fits.contains(&map.lines) => Status::BadRange.code(),
        _ => 0,
    }
}

fn address(random: &mut Xoshiro256) -> u64 {
    let page = u64::from(random.below(1 << 20)) << 16 | u64::from(random.below(1 << 16));
    let address = (page << 12) & ((1 << ADDRESS_BITS) - 1);
    match random.below(8) {
        0 => address + 1 + u64::from(random.below(63)),
        1 => address + LINE_BYTES * u64::from(1 + random.below(63)),
        2 => address | 1 << (ADDRESS_BITS + random.below(16)),
        3 => u64::MAX - u64::from(random.below(8192)),
        4 => (1 << ADDRESS_BITS) - 4096,
        _ => address,
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
