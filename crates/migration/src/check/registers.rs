// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registers of a function, and the codes of completion records: every order of writes with a
//! few values each, compared with what docs/contiguitas-hw.md says.

use super::config::CheckConfig;
use crate::protocol::{
    Command, Design, DoorbellOrder, LineAddr, Mapping, Portal, Protocol, Register, Status,
};
use std::collections::HashSet;

/// Codes of completion records, as software reads them.
const CODES: [(Status, u8); 14] = [
    (Status::Installed, 1),
    (Status::Copied, 2),
    (Status::Cleared, 3),
    (Status::Incomplete, 16),
    (Status::UnknownCommand, 17),
    (Status::Unaligned, 18),
    (Status::NotYours, 19),
    (Status::OutsideMemory, 20),
    (Status::BadRange, 21),
    (Status::NotFound, 22),
    (Status::CopyInProgress, 23),
    (Status::Overlap, 24),
    (Status::TableFull, 25),
    (Status::Dropped, 26),
];

/// What software has written since the last descriptor was taken: source, destination, pages.
type Written = [Option<u64>; 3];

const REGISTERS: [Register; 3] = [Register::Source, Register::Destination, Register::Pages];
/// Addresses: of two pages, of two lines and of a byte of another, and the last page of all; sizes:
/// powers of two and others, up to one line more than the field of lines holds, and more than 64
/// bits of lines.
const ADDRESSES: [u64; 6] = [0, 4096, 4160, 4224, 4097, u64::MAX - 4095];
const PAGES: [u64; 7] = [0, 1, 2, 3, 1 << 26, (1 << 26) - 1, u64::MAX];

/// What a doorbell has to answer.
fn wanted(rules: &Protocol, written: Written, what: u64) -> Result<DoorbellOrder, Status> {
    let [Some(source), Some(destination), Some(pages)] = written else {
        let reset = (what == 4).then_some(DoorbellOrder::Reset);
        return reset.ok_or(Status::Incomplete);
    };
    let lines = u128::from(pages) * u128::from(rules.page_lines);
    let map = Mapping {
        src: LineAddr(source >> 6),
        dst: LineAddr(destination >> 6),
        lines: lines as u32,
    };
    let submit = |command| Ok(DoorbellOrder::Submit(command));
    match what {
        4 => Ok(DoorbellOrder::Reset),
        0 | 5.. => Err(Status::UnknownCommand),
        _ if (source | destination) & 4095 != 0 => Err(Status::Unaligned),
        _ if pages == 2 && (source | destination) & 8191 != 0 => Err(Status::Unaligned),
        _ if lines > u128::from(u32::MAX) => Err(Status::OutsideMemory),
        _ if u128::from((source | destination) >> 6) + lines > u128::from(rules.memory_lines) => {
            Err(Status::OutsideMemory)
        }
        _ if pages == 0 || pages == 3 || source == destination => Err(Status::BadRange),
        1 => submit(Command::Migrate { map, start: false }),
        2 => submit(Command::Migrate { map, start: true }),
        3 => submit(Command::Clear { map }),
    }
}

/// What registers or codes do wrong, if anything.
pub fn wrong_registers() -> Option<&'static str> {
    if CODES.iter().any(|(status, code)| status.code() != *code) {
        return Some("a completion record has the code of the documentation");
    }
    let mut rules = CheckConfig::new("registers", Design::Cacheable).rules;
    rules.page_lines = 64;
    let first = (Portal::default(), Written::default());
    let mut known = HashSet::from([first]);
    let mut open = vec![first];
    while let Some((portal, written)) = open.pop() {
        let mut after = Vec::new();
        for (place, register) in REGISTERS.into_iter().enumerate() {
            let values: &[u64] = if place == 2 { &PAGES } else { &ADDRESSES };
            for &value in values {
                let (mut portal, mut written) = (portal, written);
                if portal.write(&rules, register, value) != Ok(None) {
                    return Some("a register takes any value");
                }
                written[place] = Some(value);
                after.push((portal, written));
            }
        }
        for what in 0..6 {
            let mut rung = portal;
            let answer = rung.write(&rules, Register::Doorbell, what);
            if answer != wanted(&rules, written, what).map(Some) {
                return Some("a doorbell answers as documented");
            }
            let kept = answer.is_err();
            let left = if kept { written } else { Written::default() };
            after.push((rung, left));
        }
        for state in after {
            // Equal registers have been written alike: a refusal keeps them, an order empties them.
            if known.insert(state) {
                open.push(state);
            }
        }
        if known.len() > 1_000 {
            return Some("registers hold what was written, and nothing else");
        }
    }
    None
}
