// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which line of a full set leaves, where it is not exact LRU of up to 16 ways: LRU of more ways,
//! re-reference prediction, random choice. A set with a free way takes that, the first one.

use ample_kit::random::SplitMix64;
use serde::{Deserialize, Serialize};

/// Which line of a full set leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CachePolicy {
    /// The least recently used.
    #[default]
    Lru,
    /// Static re-reference interval prediction with two bits a line and hit priority (Jaleel et
    /// al., ISCA 2010): a line comes in as one that is used late, and a hit makes it one that is
    /// used soon. The first line leaves that is predicted for the distant future.
    Srrip,
    /// Any with the same probability: a sequence that each cache begins anew.
    Random,
}

impl CachePolicy {
    /// Whether a file need not name it.
    pub(crate) fn is_default(&self) -> bool {
        *self == CachePolicy::default()
    }
}

/// Seed of the random choices of a cache.
pub(crate) const RANDOM_SEED: u64 = 0x5eed_cac4e;
/// Prediction of a line that comes in.
const LATE: u8 = 2;
/// Prediction of a line that may leave.
const DISTANT: u8 = 3;

/// The state of a policy for all sets of a cache.
#[derive(Clone, Debug)]
pub(crate) struct OtherPolicy {
    policy: CachePolicy,
    ways: usize,
    /// LRU: the ways of each set, the most recently used first. SRRIP: the prediction of each way.
    state: Vec<u8>,
    random: SplitMix64,
}

impl OtherPolicy {
    pub(crate) fn new(policy: CachePolicy, sets: usize, ways: usize) -> Self {
        let state = match policy {
            CachePolicy::Lru => (0..sets).flat_map(|_| 0..ways as u8).collect(),
            CachePolicy::Srrip => vec![DISTANT; sets * ways],
            CachePolicy::Random => Vec::new(),
        };
        OtherPolicy {
            policy,
            ways,
            state,
            random: SplitMix64::new(RANDOM_SEED),
        }
    }

    fn row(&mut self, set: usize) -> &mut [u8] {
        &mut self.state[set * self.ways..][..self.ways]
    }

    /// Counts a use of a line.
    pub(crate) fn touch(&mut self, set: usize, way: usize) {
        match self.policy {
            CachePolicy::Lru => {
                let row = self.row(set);
                let place = row.iter().position(|&held| usize::from(held) == way);
                let place = place.expect("each way is in the order of its set");
                row[..=place].rotate_right(1);
            }
            CachePolicy::Srrip => self.row(set)[way] = 0,
            CachePolicy::Random => {}
        }
    }

    /// The way that takes a new line: a free one if there is one.
    pub(crate) fn claim(&mut self, set: usize, free: Option<usize>) -> usize {
        match self.policy {
            CachePolicy::Lru => {
                let oldest = self.row(set).last().copied().unwrap_or_default();
                let way = free.unwrap_or(oldest.into());
                self.touch(set, way);
                way
            }
            CachePolicy::Srrip => {
                let row = self.row(set);
                let way = free.unwrap_or_else(|| first_distant(row));
                row[way] = LATE;
                way
            }
            CachePolicy::Random => {
                free.unwrap_or_else(|| self.random.below(self.ways as u64) as usize)
            }
        }
    }
}

/// The first way of the most distant prediction; all age until that is the last one.
fn first_distant(row: &mut [u8]) -> usize {
    let most = row.iter().copied().max().unwrap_or(DISTANT);
    row.iter_mut().for_each(|held| *held += DISTANT - most);
    let found = row.iter().position(|&held| held == DISTANT);
    found.unwrap_or_default()
}
