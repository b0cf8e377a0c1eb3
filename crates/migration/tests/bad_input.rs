// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of bad input in docs/contiguitas-hw.md, row by row.

use ample_migration::protocol::{
    Command, Completion, Controller, Design, DoorbellOrder, HOST, LineAddr, Mapping, Message,
    Outbox, Party, Portal, Protocol, Register, SliceHash, Status, VirtualFunction,
};

const PAGE_BYTES: u64 = 4096;
const GUEST: u8 = 3;

fn rules() -> Protocol {
    Protocol {
        design: Design::Cacheable,
        page_lines: 64,
        page_orders: u32::MAX,
        memory_lines: 64 * 1024,
        cores: 1,
        slices: 1,
        hash: SliceHash::Modulo,
        parallel_slices: false,
        copy_window: 1,
        announce: false,
        mark_entries: 0,
        table_entries: 2,
        queue_entries: 2,
        fault: None,
    }
}

/// Writes registers in this order.
fn write(portal: &mut Portal, writes: &[(Register, u64)]) -> Result<Option<DoorbellOrder>, Status> {
    let mut last = Ok(None);
    for &(register, value) in writes {
        last = portal.write(&rules(), register, value);
    }
    last
}

fn map(src: u64, dst: u64, pages: u32) -> Mapping {
    Mapping {
        src: LineAddr(src * 64),
        dst: LineAddr(dst * 64),
        lines: pages * 64,
    }
}

const WHOLE: [(Register, u64); 3] = [
    (Register::Source, PAGE_BYTES),
    (Register::Destination, 2 * PAGE_BYTES),
    (Register::Pages, 1),
];

#[test]
fn registers_are_written_in_any_order_and_the_last_value_counts() {
    let wanted = |start| {
        let map = map(1, 2, 1);
        Ok(Some(DoorbellOrder::Submit(Command::Migrate { map, start })))
    };
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for order in orders {
        let mut portal = Portal::default();
        write(&mut portal, &[(Register::Pages, 77)]).expect("fills a register");
        write(&mut portal, &order.map(|i: usize| WHOLE[i])).expect("fills registers");
        assert_eq!(write(&mut portal, &[(Register::Doorbell, 2)]), wanted(true));
        assert_eq!(portal, Portal::default(), "taken: the registers are empty");
    }
    let mut portal = Portal::default();
    write(&mut portal, &WHOLE).expect("fills registers");
    assert_eq!(
        write(&mut portal, &[(Register::Doorbell, 1)]),
        wanted(false)
    );
}

#[test]
fn a_doorbell_says_what_is_wrong_and_leaves_the_registers() {
    let mut portal = Portal::default();
    for fill in WHOLE {
        for bell in [0, 1, 2, 3, 5] {
            let rung = write(&mut portal, &[(Register::Doorbell, bell)]);
            assert_eq!(rung, Err(Status::Incomplete));
        }
        write(&mut portal, &[fill]).expect("fills a register");
    }
    for bell in [0, 5, u64::MAX] {
        let rung = write(&mut portal, &[(Register::Doorbell, bell)]);
        assert_eq!(rung, Err(Status::UnknownCommand));
    }
    for (register, value, status) in [
        (Register::Source, PAGE_BYTES + 8, Status::Unaligned),
        (
            Register::Destination,
            2 * PAGE_BYTES + 63,
            Status::Unaligned,
        ),
        (
            Register::Destination,
            2 * PAGE_BYTES + 64,
            Status::Unaligned,
        ),
        (Register::Pages, 2, Status::Unaligned),
        (Register::Pages, 1 << 26, Status::OutsideMemory),
        (Register::Pages, 1023, Status::OutsideMemory),
        (Register::Source, 1024 * PAGE_BYTES, Status::OutsideMemory),
        (Register::Pages, 0, Status::BadRange),
        (Register::Pages, 3, Status::BadRange),
        (Register::Source, 2 * PAGE_BYTES, Status::BadRange),
        (Register::Pages, u64::MAX, Status::OutsideMemory),
    ] {
        let mut portal = portal;
        let rung = write(&mut portal, &[(register, value), (Register::Doorbell, 2)]);
        assert_eq!(rung, Err(status), "{register:?} {value}");
    }
    let clear = DoorbellOrder::Submit(Command::Clear { map: map(1, 2, 1) });
    let rung = write(&mut portal, &[(Register::Doorbell, 3)]);
    assert_eq!(rung, Ok(Some(clear)));
    write(&mut portal, &WHOLE[..2]).expect("fills registers");
    let rung = write(&mut portal, &[(Register::Doorbell, 4)]);
    assert_eq!(rung, Ok(Some(DoorbellOrder::Reset)));
    assert_eq!(portal, Portal::default());
}

/// A controller whose only slice answers at once.
#[derive(Default)]
struct Front {
    controller: Controller,
    out: Outbox<u64>,
}

impl Front {
    /// What a function's command is answered, and what else ends for that.
    fn command(&mut self, function: u8, command: Command) -> Vec<Completion> {
        let submitted = self.controller.submit_as(&rules(), function, command);
        submitted.expect("the queue has room");
        let record = self.controller.take_next(&rules(), &mut self.out);
        record.into_iter().chain(self.answered()).collect()
    }

    /// The slice answers everything that was asked of it.
    fn answered(&mut self) -> Vec<Completion> {
        let mut records = Vec::new();
        while let Some(envelope) = self.out.sent.pop() {
            assert_eq!(envelope.to, Party::Slice(0));
            let answer = match envelope.message {
                Message::Install(map) => Message::Installed(map),
                Message::Turn(map) => Message::SliceCopied(map),
                Message::Finish(map) => Message::Finished(map),
                Message::Flush(map) => Message::Flushed(map),
                Message::Clear(map) => Message::Cleared(map),
                other => panic!("{other:?}"),
            };
            records.extend(self.controller.handle(&rules(), answer, &mut self.out));
        }
        records
    }

    fn code(&mut self, function: u8, command: Command) -> u8 {
        let records = self.command(function, command);
        assert_eq!(records.len(), 1, "{command:?}");
        assert_eq!(records[0].function, function);
        records[0].status.code()
    }
}

fn migrate(map: Mapping, start: bool) -> Command {
    Command::Migrate { map, start }
}

#[test]
fn a_whole_migration_and_what_it_refuses_meanwhile() {
    let mut front = Front::default();
    let page = map(1, 2, 1);
    let clear = Command::Clear { map: page };
    assert_eq!(front.code(HOST, clear), 22);
    assert_eq!(front.code(HOST, migrate(page, false)), 1);
    assert_eq!(front.code(HOST, migrate(page, false)), 23);
    assert_eq!(front.code(HOST, migrate(map(2, 9, 1), true)), 24);
    assert_eq!(front.code(HOST, migrate(map(0, 8, 2), true)), 24);
    assert_eq!(front.code(HOST, migrate(map(7, 7, 1), true)), 21);
    assert_eq!(front.code(HOST, migrate(map(7, 8, 2), true)), 18);
    assert_eq!(front.code(HOST, migrate(map(7, 9, 0), true)), 21);
    assert_eq!(front.code(HOST, migrate(map(6, 9, 3), true)), 21);
    assert_eq!(front.code(HOST, migrate(map(8, 12, 8), true)), 18);
    assert_eq!(front.code(HOST, migrate(map(1024, 9, 1), true)), 20);
    assert_eq!(front.code(HOST, migrate(map(8, 1024, 2), true)), 20);
    assert_eq!(front.code(HOST, migrate(map(7, 1023, 1), false)), 1);
    assert_eq!(front.code(HOST, migrate(map(8, 9, 1), true)), 25);
    assert_eq!(front.code(HOST, migrate(page, true)), 2);
    assert_eq!(front.code(HOST, migrate(page, true)), 23);
    // The source of another size, or with another destination, is another migration.
    assert_eq!(front.code(HOST, Command::Clear { map: map(0, 4, 2) }), 22);
    assert_eq!(front.code(HOST, Command::Clear { map: map(1, 3, 1) }), 22);
    assert_eq!(front.code(HOST, clear), 3);
    assert_eq!(front.code(HOST, clear), 22);
}

#[test]
fn a_guest_moves_its_own_frames_only() {
    let mut front = Front::default();
    front.controller.grant(VirtualFunction {
        function: GUEST,
        first: LineAddr(10 * 64),
        lines: 4 * 64,
        entries: 1,
    });
    for (src, dst) in [(9, 10), (10, 9), (10, 14), (14, 10), (1, 2), (2000, 10)] {
        assert_eq!(front.code(GUEST, migrate(map(src, dst, 1), true)), 19);
    }
    assert_eq!(front.code(GUEST, migrate(map(12, 8, 4), true)), 19);
    // A function that was granted nothing.
    assert_eq!(front.code(7, migrate(map(10, 11, 1), true)), 19);
    assert_eq!(front.code(HOST, migrate(map(10, 12, 1), false)), 1);
    // The host's migration of its frames: in the way, but not the guest's to end.
    assert_eq!(
        front.code(
            GUEST,
            Command::Clear {
                map: map(10, 12, 1)
            }
        ),
        22
    );
    assert_eq!(front.code(GUEST, migrate(map(10, 12, 1), true)), 24);
    assert_eq!(front.code(GUEST, migrate(map(11, 13, 1), true)), 2);
    assert_eq!(
        front.code(
            HOST,
            Command::Clear {
                map: map(10, 12, 1)
            }
        ),
        3
    );
    assert_eq!(front.code(GUEST, migrate(map(10, 12, 1), true)), 25);
    // The host may end what a guest has left.
    let record = front.command(
        HOST,
        Command::Clear {
            map: map(11, 13, 1),
        },
    );
    assert_eq!(record[0].status, Status::Cleared);
}

#[test]
fn a_reset_drops_what_waits_and_lets_the_rest_come_to_a_stand() {
    let mut front = Front::default();
    let (first, second) = (map(1, 2, 1), map(3, 4, 1));
    front.controller.grant(VirtualFunction {
        function: GUEST,
        first: LineAddr(10 * 64),
        lines: 4 * 64,
        entries: 1,
    });
    let submit = |front: &mut Front, function, map| {
        let command = migrate(map, true);
        front.controller.submit_as(&rules(), function, command)
    };
    submit(&mut front, HOST, first).expect("room");
    assert!(
        front
            .controller
            .take_next(&rules(), &mut front.out)
            .is_none()
    );
    submit(&mut front, HOST, second).expect("room");
    submit(&mut front, GUEST, map(10, 11, 1)).expect("room");
    assert!(submit(&mut front, GUEST, map(10, 11, 1)).is_err(), "full");
    let dropped = front.controller.reset(HOST);
    assert_eq!(dropped.len(), 1);
    assert_eq!(dropped[0].status.code(), 26);
    assert_eq!(dropped[0].command.map(), second);
    assert!(front.controller.is_resetting(HOST));
    assert!(
        submit(&mut front, HOST, second).is_err(),
        "until it is over"
    );
    // A second reset changes nothing.
    let before = front.controller.clone();
    assert!(front.controller.reset(HOST).is_empty());
    assert_eq!(front.controller, before);
    // The guest's own commands are none of its business.
    assert!(!front.controller.is_resetting(GUEST));
    let done = front.answered();
    assert_eq!(done[0].status, Status::Copied);
    assert!(!front.controller.is_resetting(HOST));
    assert!(
        front
            .controller
            .take_next(&rules(), &mut front.out)
            .is_none()
    );
    submit(&mut front, HOST, second).expect("the reset is over");
    assert_eq!(front.answered().len(), 1, "the guest's");
    // Nothing is on its way: over at once, with the descriptor that waited.
    assert_eq!(front.controller.reset(HOST).len(), 1);
    assert!(!front.controller.is_resetting(HOST));
    assert_eq!(front.code(HOST, Command::Clear { map: first }), 3);
}
