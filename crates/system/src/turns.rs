// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order among CPUs. The emulator runs one CPU at a time; each of its turns begins with a word
//! that has the turn's number, and all words of a turn are in the CPU's ring before the next turn's
//! number is in another one. Taken turn by turn, the words of all rings come in the order in which
//! they were written.

use crate::wire::{record_words, turn_of};
use anyhow::{Context, Result, bail};
use std::io;

/// Words taken from one ring at a time.
const BATCH: usize = 1 << 16;

/// Takes the words of all CPUs in their order.
#[derive(Debug)]
pub struct TurnOrder {
    lanes: Vec<Lane>,
    /// Number of the turn under way, and whose it is; before the first nobody's.
    turn: u64,
    current: Option<usize>,
}

/// Words of one CPU that have been taken from its ring and not been handed on.
#[derive(Debug, Default)]
struct Lane {
    words: Vec<u64>,
    /// Where the first of them is: always the first word of a record.
    at: usize,
}

impl Lane {
    fn rest(&self) -> &[u64] {
        &self.words[self.at..]
    }

    /// Number of the turn that begins here.
    fn turn(&self) -> Option<u64> {
        self.rest().first().and_then(|&word| turn_of(word))
    }

    /// Words of the whole records here, up to the beginning of a turn.
    fn whole(&self) -> usize {
        let (rest, mut end) = (self.rest(), 0);
        while let Some(&word) = rest.get(end) {
            let next = end + record_words(word);
            if turn_of(word).is_some() || next > rest.len() {
                break;
            }
            end = next;
        }
        end
    }

    /// Gives the place of words that have been handed on back.
    fn compact(&mut self) {
        self.words.drain(..self.at);
        self.at = 0;
    }
}

impl TurnOrder {
    /// For the rings of that many CPUs, at their beginning.
    pub fn new(cpus: usize) -> Self {
        TurnOrder {
            lanes: (0..cpus).map(|_| Lane::default()).collect(),
            turn: 0,
            current: None,
        }
    }

    /// Hands the next words on, as whole records of one CPU; returns how many, 0 if there are none
    /// yet. `take(cpu, most, words)` takes at most so many words from a ring.
    ///
    /// A turn is over when the next one can be seen and nothing is left of it. The next one is
    /// looked for first: what is then in the ring of the turn under way is all that there will be.
    ///
    /// # Errors
    /// If a ring cannot be read or has no turns, or `hand` fails.
    pub fn step(
        &mut self,
        mut take: impl FnMut(usize, usize, &mut Vec<u64>) -> io::Result<usize>,
        mut hand: impl FnMut(usize, &[u64]) -> Result<()>,
    ) -> Result<usize> {
        let mut take = |cpu, most, words: &mut Vec<u64>| {
            take(cpu, most, words).with_context(|| format!("reading the ring of CPU {cpu}"))
        };
        let next = self.next(&mut take)?;
        if let Some(cpu) = self.current {
            let lane = &mut self.lanes[cpu];
            let mut count = lane.whole();
            while count == 0 && lane.turn().is_none() {
                lane.compact();
                if take(cpu, BATCH, &mut lane.words)? == 0 {
                    break;
                }
                count = lane.whole();
            }
            if count > 0 {
                return self.hand_on(cpu, count, &mut hand);
            }
            if next.is_some() && lane.turn().is_none() && !lane.rest().is_empty() {
                bail!("turn {} of CPU {cpu} ends inside a record", self.turn);
            }
        }
        let Some(cpu) = next else {
            return Ok(0);
        };
        (self.turn, self.current) = (self.turn + 1, Some(cpu));
        self.hand_on(cpu, 1, &mut hand)
    }

    /// The CPU at whose next word the next turn begins, if that can be seen.
    fn next(
        &mut self,
        take: &mut impl FnMut(usize, usize, &mut Vec<u64>) -> Result<usize>,
    ) -> Result<Option<usize>> {
        for (cpu, lane) in self.lanes.iter_mut().enumerate() {
            if self.current == Some(cpu) {
                continue;
            }
            if lane.rest().is_empty() {
                lane.compact();
                take(cpu, 1, &mut lane.words)?;
            }
            match lane.turn() {
                Some(turn) if turn == self.turn + 1 => return Ok(Some(cpu)),
                Some(turn) if turn > self.turn => {}
                None if lane.rest().is_empty() => {}
                found => bail!(
                    "after turn {} the ring of CPU {cpu} goes on with {}: the recorder is another",
                    self.turn,
                    found.map_or("no turn".to_owned(), |turn| format!("turn {turn}"))
                ),
            }
        }
        Ok(None)
    }

    fn hand_on(
        &mut self,
        cpu: usize,
        count: usize,
        hand: &mut impl FnMut(usize, &[u64]) -> Result<()>,
    ) -> Result<usize> {
        let lane = &mut self.lanes[cpu];
        hand(cpu, &lane.rest()[..count])?;
        lane.at += count;
        Ok(count)
    }

    /// A CPU of which words are left that could not be handed on.
    pub fn left(&self) -> Option<usize> {
        self.lanes.iter().position(|lane| !lane.rest().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Ring;
    use crate::ring::tests::Producer;
    use proptest::prelude::*;

    fn turn(number: u64) -> u64 {
        3 << 59 | 13 << 48 | number
    }

    /// The recorder's side: as in `plugin/ring.h`, with fewer words to a publication.
    struct Recorder {
        rings: Vec<Producer>,
        in_turn: Option<usize>,
        turns: u64,
        publish_every: u64,
        /// All that was written, in its order.
        written: Vec<(usize, u64)>,
    }

    impl Recorder {
        /// Writes a record if there is room for it; if not, all that was written can be seen.
        fn put(&mut self, cpu: usize, record: &[u64]) -> bool {
            let turned = self.in_turn != Some(cpu);
            let need = record.len() as u64 + u64::from(turned);
            if self.rings[cpu].room() < need {
                self.rings[cpu].publish();
                return false;
            }
            if turned {
                if let Some(before) = self.in_turn.replace(cpu) {
                    self.rings[before].publish();
                }
                self.turns += 1;
                self.write(cpu, turn(self.turns));
            }
            for &word in record {
                self.write(cpu, word);
            }
            if self.rings[cpu].unpublished() >= self.publish_every {
                self.rings[cpu].publish();
            }
            true
        }

        fn write(&mut self, cpu: usize, word: u64) {
            self.rings[cpu].put([word]);
            self.written.push((cpu, word));
        }
    }

    fn pairs(
        directory: &std::path::Path,
        cpus: usize,
        publish_every: u64,
    ) -> (Vec<Ring>, Recorder) {
        let pairs = (0..cpus).map(|cpu| Producer::pair(&directory.join(cpu.to_string()), 4096));
        let (rings, producers) = pairs.unzip();
        let recorder = Recorder {
            rings: producers,
            in_turn: None,
            turns: 0,
            publish_every,
            written: Vec::new(),
        };
        (rings, recorder)
    }

    fn step(order: &mut TurnOrder, rings: &mut [Ring], seen: &mut Vec<(usize, u64)>) -> usize {
        let take = |cpu: usize, most, words: &mut Vec<u64>| rings[cpu].take(most, words);
        let hand = |cpu, words: &[u64]| {
            seen.extend(words.iter().map(|&word| (cpu, word)));
            Ok(())
        };
        order.step(take, hand).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Turns of 1 to 4 CPUs, some longer than a ring, with the reader running in between.
        #[test]
        fn words_come_in_the_order_in_which_they_were_written(
            cpus in 1..=4usize,
            publish_every in 1..600u64,
            turns in prop::collection::vec((0..4usize, 1..3000u64, 0..4u8), 1..24),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let (mut rings, mut recorder) = pairs(directory.path(), cpus, publish_every);
            let (mut order, mut seen) = (TurnOrder::new(cpus), Vec::new());
            for (cpu, records, steps) in turns {
                let cpu = cpu % cpus;
                for number in 0..records {
                    // A mapping of four levels now and then, whose further words are anything.
                    let mapping = [3 << 59 | 4 << 56 | 9 << 48, turn(7)];
                    let mapping: Vec<u64> =
                        mapping.into_iter().chain([turn(1); 15]).collect();
                    let record = match number % 97 {
                        0 => &mapping[..],
                        _ => &[number][..],
                    };
                    while !recorder.put(cpu, record) {
                        let handed = step(&mut order, &mut rings, &mut seen);
                        prop_assert!(handed > 0, "both sides wait");
                    }
                }
                for _ in 0..steps {
                    step(&mut order, &mut rings, &mut seen);
                }
                prop_assert_eq!(&seen[..], &recorder.written[..seen.len()]);
            }
            recorder.rings.iter().for_each(Producer::publish);
            while step(&mut order, &mut rings, &mut seen) > 0 {}
            prop_assert_eq!(seen, recorder.written);
            prop_assert_eq!(order.left(), None);
        }
    }

    #[test]
    fn a_ring_without_turns_is_refused() {
        for (words, why) in [
            ([8, turn(1)], "the ring of CPU 0 goes on with no turn"),
            (
                [turn(1); 2],
                "after turn 1 the ring of CPU 1 goes on with turn 1",
            ),
        ] {
            let mut left = words.map(Some);
            let mut order = TurnOrder::new(2);
            let error = (0..3).find_map(|_| {
                let take = |cpu: usize, _, taken: &mut Vec<u64>| {
                    taken.extend(left[cpu].take());
                    Ok(0)
                };
                order.step(take, |_, _| Ok(())).err()
            });
            let error = error.unwrap().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_turn_is_not_over_before_the_next_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let (mut rings, mut recorder) = pairs(directory.path(), 2, 1000);
        let (mut order, mut seen) = (TurnOrder::new(2), Vec::new());
        recorder.put(0, &[8]);
        recorder.rings[0].publish();
        recorder.put(0, &[16]);
        while step(&mut order, &mut rings, &mut seen) > 0 {}
        assert_eq!(seen.len(), 2, "a turn's number and one word");
        // The turn of CPU 1 publishes what CPU 0 has still written, and is itself not seen yet.
        recorder.put(1, &[24]);
        while step(&mut order, &mut rings, &mut seen) > 0 {}
        assert_eq!(seen.len(), 3);
        recorder.put(0, &[32]);
        while step(&mut order, &mut rings, &mut seen) > 0 {}
        assert_eq!(seen.len(), 5);
        assert_eq!(seen, recorder.written[..5]);
    }
}
