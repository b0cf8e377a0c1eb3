// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which entry of a full set leaves, other than by the order of uses: at random, or by static
//! re-reference interval prediction with two bits (Jaleel and others, ISCA 2010), where a use
//! predicts the next one soon, a new entry is predicted a long time, and the first entry that is
//! predicted a distant time leaves.

use super::geometry::Geometry;
use super::geometry::Replacement;
use ample_kit::random::{GOLDEN, SplitMix64, mix64};

/// Prediction of an entry that was used: soon.
const SOON: u8 = 0;
/// Prediction of a new entry: a long time.
const LONG: u8 = 2;
/// Prediction of an entry that leaves: a distant time.
const DISTANT: u8 = 3;

/// Draws of one set, from a stream that follows from the array's seed and the set's number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws(u64);

impl Draws {
    pub(super) fn new(geometry: &Geometry, set: usize) -> Self {
        Draws(mix64(u64::from(geometry.seed) << 32 | set as u64))
    }

    pub(super) fn from_word(word: u64) -> Self {
        Draws(word)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// One of so many ways.
    pub(super) fn way(&mut self, ways: u32) -> u32 {
        let way = SplitMix64::new(self.0).below(u64::from(ways));
        self.0 = self.0.wrapping_add(GOLDEN);
        way as u32
    }
}

/// Predictions of up to 16 ways, two bits each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Predictions(u64);

impl Predictions {
    pub(super) fn from_word(word: u64) -> Self {
        Predictions(word)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    fn of(self, way: u32) -> u8 {
        (self.0 >> (2 * way) & 3) as u8
    }

    fn set(&mut self, way: u32, prediction: u8) {
        let shift = 2 * way;
        self.0 = self.0 & !(3 << shift) | u64::from(prediction) << shift;
    }

    pub(super) fn used(&mut self, way: u32) {
        self.set(way, SOON);
    }

    pub(super) fn entered(&mut self, way: u32) {
        self.set(way, LONG);
    }

    /// The way that leaves a full set; all predictions move away until one is distant.
    pub(super) fn victim(&mut self, ways: u32) -> u32 {
        let most = (0..ways).map(|way| self.of(way)).max();
        let step = DISTANT - most.unwrap_or(DISTANT);
        (0..ways).for_each(|way| self.set(way, self.of(way) + step));
        let distant = (0..ways).find(|&way| self.of(way) == DISTANT);
        distant.unwrap_or_default()
    }
}

/// What decides which entry of a set of more than 16 ways leaves.
pub(super) trait Leaving {
    /// Whether it is the least recently used one, so that each use is put in order.
    const IS_OLDEST: bool;

    /// The policy of a set, by its number.
    fn new(geometry: &Geometry, set: usize) -> Self;
    /// The entry at `at` was used.
    fn used(&mut self, at: u32);
    /// There is a new entry at `at`.
    fn entered(&mut self, at: u32);
    /// Which of so many entries leaves; `oldest` is the least recently used where that is known.
    fn victim(&mut self, oldest: u32, entries: u32) -> u32;
}

/// The least recently used entry leaves.
#[derive(Clone, Debug)]
pub(super) struct OldestLeaves;

impl Leaving for OldestLeaves {
    const IS_OLDEST: bool = true;

    fn new(_geometry: &Geometry, _set: usize) -> Self {
        OldestLeaves
    }

    #[inline(always)]
    fn used(&mut self, _at: u32) {}

    #[inline(always)]
    fn entered(&mut self, _at: u32) {}

    #[inline(always)]
    fn victim(&mut self, oldest: u32, _entries: u32) -> u32 {
        oldest
    }
}

/// Another entry leaves.
#[derive(Clone, Debug)]
pub(super) enum OtherLeaves {
    /// Any one, by the draws of the set.
    Drawn(Draws),
    /// The first with the most distant prediction; a prediction for each entry.
    Predicted(Vec<u8>),
}

impl Leaving for OtherLeaves {
    const IS_OLDEST: bool = false;

    fn new(geometry: &Geometry, set: usize) -> Self {
        match geometry.replacement {
            Replacement::Srrip => OtherLeaves::Predicted(vec![LONG; geometry.ways as usize]),
            _ => OtherLeaves::Drawn(Draws::new(geometry, set)),
        }
    }

    fn used(&mut self, at: u32) {
        if let OtherLeaves::Predicted(predictions) = self {
            predictions[at as usize] = SOON;
        }
    }

    fn entered(&mut self, at: u32) {
        if let OtherLeaves::Predicted(predictions) = self {
            predictions[at as usize] = LONG;
        }
    }

    fn victim(&mut self, _oldest: u32, entries: u32) -> u32 {
        match self {
            OtherLeaves::Drawn(draws) => draws.way(entries),
            OtherLeaves::Predicted(predictions) => {
                let step = DISTANT - predictions.iter().max().unwrap_or(&DISTANT);
                predictions.iter_mut().for_each(|held| *held += step);
                let distant = predictions.iter().position(|&held| held == DISTANT);
                distant.unwrap_or_default() as u32
            }
        }
    }
}
