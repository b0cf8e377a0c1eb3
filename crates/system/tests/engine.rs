// SPDX-License-Identifier: MIT OR Apache-2.0
//! The migration engine as a device, its guest and emulator played: what moves, what is refused,
//! and what of a malformed guest is told.

mod played;

use ample_migration::protocol::Design;
use ample_system::engine::alias::{AliasOrder, PageAliases, PageMove, PluginLink};
use ample_system::engine::device::EngineError;
use ample_system::engine::server::EngineServer;
use ample_system::engine::shared::SharedMemory;
use played::{
    CLEAR, INSTALL, LOW, MIGRATE, PAGE, PAGES, PlayedDriver, PlayedGuest, RESET, address,
};
use proptest::prelude::*;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::{Duration, Instant};

const DESIGNS: [Design; 2] = [Design::Cacheable, Design::NonCacheable];

#[test]
fn a_page_moves_while_both_names_are_used() {
    for design in DESIGNS {
        let mut guest = PlayedGuest::new(design, 16);
        assert_eq!(guest.ask(3, 40, INSTALL), 1);
        assert_eq!((guest.memory.read(3), guest.memory.read(40)), (103, 103));
        guest.memory.write(40, 7);
        assert_eq!(guest.memory.read(3), 7);
        assert_eq!(guest.ask(3, 40, INSTALL), 23);
        assert_eq!(guest.ask(3, 40, MIGRATE), 2);
        guest.memory.write(3, 8);
        assert_eq!(guest.memory.read(40), 8);
        assert_eq!(guest.ask(3, 40, MIGRATE), 23);
        assert_eq!(guest.ask(3, 40, CLEAR), 3);
        assert_eq!((guest.memory.read(3), guest.memory.read(40)), (140, 8));
        assert_eq!(guest.ask(3, 40, CLEAR), 22);
        // The page goes on from where it is, in one step.
        assert_eq!(guest.ask(40, 5, MIGRATE), 2);
        assert_eq!(guest.ask(40, 5, CLEAR), 3);
        assert_eq!(guest.memory.read(5), 8);
        let counts = guest.device.counts();
        assert_eq!((counts.installed, counts.moved, counts.aborted), (2, 2, 0));
        assert_eq!((counts.most_entries, guest.device.entries()), (1, 0));
    }
}

#[test]
fn what_is_cleared_before_it_is_copied_stays_where_it_was() {
    let mut guest = PlayedGuest::new(Design::NonCacheable, 16);
    assert_eq!(guest.ask(3, 4, INSTALL), 1);
    guest.memory.write(4, 9);
    assert_eq!(guest.ask(3, 4, CLEAR), 3);
    assert_eq!((guest.memory.read(3), guest.memory.read(4)), (9, 104));
    assert_eq!(guest.memory.orders, [AliasOrder::Both, AliasOrder::Undo]);
    assert_eq!(guest.device.counts().aborted, 1);
}

#[test]
fn a_full_table_is_free_again_after_a_clear() {
    let mut guest = PlayedGuest::new(Design::Cacheable, 2);
    assert_eq!(guest.ask(0, 10, INSTALL), 1);
    assert_eq!(guest.ask(1, 11, MIGRATE), 2);
    assert_eq!(guest.ask(2, 12, INSTALL), 25);
    assert_eq!(guest.memory.read(12), 112);
    assert_eq!(guest.ask(0, 10, CLEAR), 3);
    assert_eq!(guest.ask(2, 12, INSTALL), 1);
    assert_eq!(guest.device.counts().most_entries, 2);
}

#[test]
fn what_cannot_be_carried_out_has_its_code_and_changes_nothing() {
    let mut guest = PlayedGuest::new(Design::Cacheable, 16);
    assert_eq!(guest.ask(0, 10, INSTALL), 1);
    let (known, free) = (address(0), address(20));
    for (status, source, destination, doorbell) in [
        (24, known, free, INSTALL),
        (24, free, known, MIGRATE),
        (24, address(10), free, INSTALL),
        (17, free, address(21), 5),
        (17, free, address(21), 0),
        (18, free + 64, address(21), INSTALL),
        (18, free, address(21) + 1, INSTALL),
        (20, free, address(PAGES), INSTALL),
        (20, LOW, free, INSTALL),
        (20, free, address(PAGES / 2) - PAGE, CLEAR),
        (20, free, 0u64.wrapping_sub(PAGE), INSTALL),
        (21, free, free, INSTALL),
        (22, free, address(21), CLEAR),
        (22, known, free, CLEAR),
    ] {
        let found = guest.ask_at(source, destination, doorbell);
        assert_eq!(found, status, "{source:#x} {destination:#x} {doorbell}");
    }
    assert_eq!(guest.memory.orders, [AliasOrder::Both]);
    assert_eq!(guest.device.entries(), 1);
}

#[test]
fn registers_that_are_missing_unknown_or_wrong_are_told() {
    let mut guest = PlayedGuest::new(Design::Cacheable, 16);
    guest.driver.write(0, address(1));
    guest.driver.write(3, INSTALL);
    // It is still there, and the other two complete it.
    guest.driver.write(1, address(2));
    guest.driver.write(2, 2);
    guest.driver.write(3, INSTALL);
    guest.driver.write(2, u64::MAX);
    guest.driver.write(3, INSTALL);
    guest.driver.write(4, 1);
    guest.driver.write(2, 1);
    guest.driver.write(3, INSTALL);
    guest.driver.write(3, INSTALL);
    guest.serve().unwrap();
    let seen = std::iter::from_fn(|| guest.driver.record());
    let seen: Vec<(u32, u32)> = seen.map(|record| (record.status, record.tag)).collect();
    // The queue ends after what the doorbell answers at once.
    assert_eq!(
        seen,
        [(16, 2), (21, 5), (20, 7), (17, 8), (16, 11), (1, 10)]
    );
}

#[test]
fn a_reset_drops_what_waits_and_leaves_what_is_installed() {
    let mut guest = PlayedGuest::new(Design::NonCacheable, 16);
    assert_eq!(guest.ask(0, 10, INSTALL), 1);
    assert_eq!(guest.ask(1, 11, MIGRATE), 2);
    guest.driver.submit(address(2), address(12), INSTALL);
    guest.driver.submit(address(0), address(10), CLEAR);
    guest.driver.write(0, address(5));
    guest.driver.write(3, RESET);
    guest.driver.write(1, address(6));
    guest.driver.write(2, 1);
    guest.driver.write(3, INSTALL);
    guest.serve().unwrap();
    let seen = std::iter::from_fn(|| guest.driver.record());
    let seen: Vec<(u32, u32, u64)> = seen
        .map(|record| (record.status, record.doorbell, record.source))
        .collect();
    let expected = [(26, 1, address(2)), (26, 3, 0), (0, 4, 0), (16, 1, 0)];
    assert_eq!(seen, expected);
    // Both go on and can be cleared: one moves, one does not.
    assert_eq!(guest.device.entries(), 2);
    assert_eq!(guest.ask(0, 10, CLEAR), 3);
    assert_eq!(guest.ask(1, 11, CLEAR), 3);
    assert_eq!((guest.memory.read(10), guest.memory.read(11)), (110, 101));
    assert_eq!(guest.ask_at(0, 0, RESET), 0);
}

#[test]
fn nothing_is_taken_while_records_have_no_room() {
    let mut guest = PlayedGuest::new(Design::Cacheable, 16);
    let mut rung = 0;
    for _ in 0..3 {
        for _ in 0..500 {
            guest.driver.write(3, INSTALL);
            rung += 1;
        }
        guest.serve().unwrap();
    }
    assert_eq!(
        (guest.driver.word(128), guest.driver.word(72)),
        (1024, 1024)
    );
    let mut seen = 0;
    while let Some(record) = guest.driver.record() {
        assert_eq!(record.status, 16);
        seen += 1;
        guest.serve().unwrap();
    }
    assert_eq!((seen, guest.driver.word(72)), (rung, rung));
}

#[test]
fn a_guest_whose_counters_make_no_sense_is_refused() {
    let told = |guest: &mut PlayedGuest| match guest.serve() {
        Err(EngineError::Shared(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    for written in [1025, u64::MAX] {
        let mut guest = PlayedGuest::new(Design::Cacheable, 16);
        guest.driver.set(64, written);
        let told = told(&mut guest);
        assert!(told.contains(&format!("written is {written}")), "{told}");
    }
    let mut guest = PlayedGuest::new(Design::Cacheable, 16);
    guest.driver.set(136, 1);
    assert!(told(&mut guest).contains("read is 1"));
    // What has been taken does not come back.
    let mut guest = PlayedGuest::new(Design::Cacheable, 16);
    guest.driver.write(0, 0);
    guest.serve().unwrap();
    guest.driver.set(64, 0);
    assert!(told(&mut guest).contains("written is 0"));
}

#[test]
fn a_lack_of_mappings_says_what_to_do() {
    let mut guest = PlayedGuest::new(Design::Cacheable, 16);
    guest.memory.refuse = Some(12);
    guest.driver.submit(address(1), address(2), INSTALL);
    let told = guest.serve().unwrap_err().to_string();
    assert!(told.contains("vm.max_map_count"), "{told}");
    assert_eq!(
        guest.driver.record(),
        None,
        "no record of what does not hold"
    );
}

/// Receives a message of 8 bytes with the file that it brings.
fn received(stream: &UnixStream) -> (i64, Option<OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 8];
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    assert_eq!(
        recvmsg(stream, &mut slices, &mut control, flags)
            .unwrap()
            .bytes,
        8
    );
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    (i64::from_le_bytes(bytes), file)
}

#[test]
fn the_emulator_gets_memory_doorbell_and_interrupt() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let shared = SharedMemory::create(&at("engine"), Design::NonCacheable, 9, 1 << 30).unwrap();
    let mut server = EngineServer::bind(&at("engine.sock")).unwrap();
    assert!(!server.accept(&shared).unwrap());
    let emulator = UnixStream::connect(at("engine.sock")).unwrap();
    assert!(server.accept(&shared).unwrap());
    let messages: Vec<_> = (0..5).map(|_| received(&emulator)).collect();
    let numbers: Vec<i64> = messages.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 1, -1, 0, 1]);
    let mut files: Vec<Option<File>> = messages
        .into_iter()
        .map(|(_, f)| f.map(File::from))
        .collect();
    assert!(files[0].is_none() && files[1].is_none());
    let memory = PlayedDriver::new(files[2].take().unwrap());
    assert_eq!(&memory.word(0).to_le_bytes(), b"AMPMOVE1");
    let head = [8, 16, 24, 32, 40, 48].map(|at| memory.word(at));
    assert_eq!(head, [1, 0, 9, 1 << 30, 1024, 1024]);

    let begun = Instant::now();
    server.wait(Duration::from_millis(30)).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(30), "nobody rings");
    let mut doorbell = files[3].take().unwrap();
    doorbell.write_all(&1u64.to_ne_bytes()).unwrap();
    let begun = Instant::now();
    server.wait(Duration::from_secs(60)).unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "the doorbell rings"
    );
    server.interrupt().unwrap();
    server.interrupt().unwrap();
    let mut count = [0; 8];
    files[4].take().unwrap().read_exact(&mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 2);
}

#[test]
fn the_plugin_gets_requests_and_its_errors_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("alias.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let mut plugin = UnixStream::connect(&path).unwrap();
    let mut link = PluginLink::new(listener.accept().unwrap().0);
    let answers = std::thread::spawn(move || {
        let answer = |answer: i64| {
            let mut request = [0; 32];
            plugin.read_exact(&mut request).unwrap();
            plugin.write_all(&answer.to_le_bytes()).unwrap();
            let word = |at: usize| u64::from_le_bytes(request[at..at + 8].try_into().unwrap());
            [word(0), word(8), word(16), word(24)]
        };
        [0, -12, i64::MIN].map(answer)
    });
    let pages = PageMove {
        source_bytes: 4096,
        destination_bytes: HIGH_PAGE,
        pages: 1,
    };
    link.order(AliasOrder::Both, pages).unwrap();
    let error = link.order(AliasOrder::Settle, pages).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(12));
    let error = link.order(AliasOrder::Undo, pages).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    let asked = answers.join().unwrap();
    assert_eq!(asked, [1, 2, 3].map(|order| [order, 4096, HIGH_PAGE, 1]));
    // The plugin is gone.
    let error = link.order(AliasOrder::Both, pages).unwrap_err();
    assert_ne!(error.kind(), std::io::ErrorKind::InvalidData);
}

const HIGH_PAGE: u64 = (1 << 32) + 4096;

#[test]
fn no_count_is_lost_while_pages_move_under_threads() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let (program, memory) = (directory.path().join("alias"), directory.path().join("ram"));
    File::create(&memory).unwrap();
    let built = Command::new("gcc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(root.join("plugin"))
        .arg(root.join("tests/guest/alias.c"))
        .arg("-o")
        .arg(&program)
        .status();
    assert!(built.expect("gcc").success());
    let memory = memory.canonicalize().unwrap();
    let ran = Command::new(&program).arg(&memory).arg("2000").output();
    let ran = ran.unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{}: {told}", ran.status);
}

/// A write to a register, or of a number by a page's name.
#[derive(Clone, Copy, Debug)]
enum Act {
    Register(u32, u64),
    Store(u64, u64),
    Descriptor(u64, u64, u64),
    Serve,
}

fn act() -> impl Strategy<Value = Act> {
    let page = || prop_oneof![4 => 0..6u64, 1 => 30..34u64, 1 => 62..66u64];
    let value = prop_oneof![
        8 => page().prop_map(address),
        2 => 0..6u64,
        1 => any::<u64>(),
        1 => page().prop_map(|page| address(page) + 64),
        1 => Just(LOW),
    ];
    prop_oneof![
        3 => (0..5u32, value).prop_map(|(register, value)| Act::Register(register, value)),
        2 => (0..PAGES, 1000..2000u64).prop_map(|(page, value)| Act::Store(page, value)),
        12 => (page(), page(), 1..5u64).prop_map(|(a, b, what)| Act::Descriptor(a, b, what)),
        4 => Just(Act::Serve),
    ]
}

/// What the records say of memory: by page its number, and the pages under migration.
struct Expected {
    held: Vec<u64>,
    /// Destination: source, and whether it is copied.
    moving: BTreeMap<u64, (u64, bool)>,
}

impl Expected {
    fn source(&self, page: u64) -> usize {
        self.moving.get(&page).map_or(page, |(source, _)| *source) as usize
    }

    fn check(&self, guest: &PlayedGuest, entries: u8) {
        for page in 0..PAGES {
            assert_eq!(
                guest.memory.read(page),
                self.held[self.source(page)],
                "{page}"
            );
        }
        assert_eq!(guest.device.entries(), self.moving.len());
        assert!(guest.device.counts().most_entries <= usize::from(entries));
    }

    fn take(&mut self, guest: &mut PlayedGuest) {
        while let Some(record) = guest.driver.record() {
            if !(1..=3).contains(&record.status) {
                continue;
            }
            let [from, to] =
                [record.source, record.destination].map(|address| played::page_at(address) as u64);
            match record.status {
                3 => {
                    let (source, copied) = self.moving.remove(&to).unwrap();
                    assert_eq!(source, from);
                    if copied {
                        self.held.swap(from as usize, to as usize);
                    }
                }
                status => {
                    self.moving.insert(to, (from, status == 2));
                }
            }
            let under: Vec<u64> = self
                .moving
                .iter()
                .flat_map(|(to, (from, _))| [*to, *from])
                .collect();
            let once: BTreeSet<u64> = under.iter().copied().collect();
            assert_eq!(under.len(), once.len(), "no page takes part twice");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_page_is_where_the_records_say(
        acts in proptest::collection::vec(act(), 1..150),
        cacheable: bool,
        entries in 1..4u8,
    ) {
        let mut guest = PlayedGuest::new(DESIGNS[usize::from(!cacheable)], entries);
        let held: Vec<u64> = (0..PAGES).map(|page| guest.memory.read(page)).collect();
        let mut expected = Expected { held, moving: BTreeMap::new() };
        for act in acts {
            match act {
                Act::Register(register, value) => guest.driver.write(register, value),
                Act::Descriptor(a, b, what) => guest.driver.submit(address(a), address(b), what),
                Act::Store(page, value) => {
                    let at = expected.source(page);
                    expected.held[at] = value;
                    guest.memory.write(page, value);
                    continue;
                }
                Act::Serve => {}
            }
            if matches!(act, Act::Serve | Act::Descriptor(..)) {
                guest.serve().unwrap();
                expected.take(&mut guest);
                expected.check(&guest, entries);
            }
        }
    }
}
