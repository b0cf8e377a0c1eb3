// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Rust program on the allocator: threads that pass what they make to each other, check it and
//! drop it, then the statistics.
//!
//! `cargo run --release -p ample-malloc --no-default-features --example global`; with
//! `--target x86_64-unknown-linux-musl` it is a static program.

use ample_malloc::watch::stats;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

#[global_allocator]
static GLOBAL: ample_malloc::Ample = ample_malloc::Ample;

const THREADS: usize = 4;
const MESSAGES: usize = 20_000;

/// Text that says what it should be.
struct Message {
    number: usize,
    text: String,
    words: Vec<u64>,
}

impl Message {
    fn new(number: usize) -> Message {
        let len = number % 1000 + number % 7 * number % 5000;
        Message {
            number,
            text: format!("{number:0>width$}", width = len.max(1)),
            words: (0..len as u64 / 8)
                .map(|word| word ^ number as u64)
                .collect(),
        }
    }

    fn is_intact(&self) -> bool {
        let words = self.words.iter().enumerate();
        let mut words = words.map(|(at, word)| *word == (at ^ self.number) as u64);
        self.text.parse() == Ok(self.number) && words.all(|equal| equal)
    }
}

/// Sends messages on, keeps some of those that come, and checks them all; how many were intact.
fn work(thread: usize, to: &Sender<Message>, from: &Receiver<Message>) -> usize {
    let mut kept = BTreeMap::new();
    let mut intact = 0;
    for count in 0..MESSAGES {
        to.send(Message::new(count * THREADS + thread))
            .expect("the next thread listens");
        let message = from.recv().expect("the thread before sends");
        if message.number.is_multiple_of(3) {
            kept.insert(message.number, message);
        } else {
            intact += usize::from(message.is_intact());
        }
    }
    intact + kept.values().filter(|message| message.is_intact()).count()
}

fn main() {
    ample_malloc::install();
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    receivers.rotate_left(1);
    let intact: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = senders
            .iter()
            .zip(receivers)
            .enumerate()
            .map(|(thread, (to, from))| scope.spawn(move || work(thread, to, &from)))
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|intact| intact.expect("no thread panics")).sum()
    });
    println!("{intact} of {} messages intact", THREADS * MESSAGES);
    stats::write(1, stats::StatsForm::Text);
    assert_eq!(intact, THREADS * MESSAGES);
}
