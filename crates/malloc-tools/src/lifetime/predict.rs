// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which objects will be short-lived: learned from a run by size or by place, or known.

use super::recording::{AllocationRun, Object};
use ample_malloc::size_class::{MAX_SMALL_BYTES, class_of};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Who predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predictor {
    /// Nobody predicts: no object is called short-lived.
    None,
    /// What most memory of the size class did in training: the floor.
    Size,
    /// What the memory of the place and size class did in training; a place that training did not
    /// see counts as its two innermost callers did, or as long-lived.
    Site,
    /// What happens: the ceiling.
    Oracle,
}

impl Predictor {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Predictor::None => "none",
            Predictor::Size => "size",
            Predictor::Site => "site",
            Predictor::Oracle => "oracle",
        }
    }
}

/// Shares of the memory of small objects that were asked for.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quality {
    /// Places in the code, at eight return addresses.
    pub sites: usize,
    /// Of all, at places that training saw.
    #[serde(serialize_with = "crate::four_digits")]
    pub seen: f64,
    /// Of all, short-lived.
    #[serde(serialize_with = "crate::four_digits")]
    pub short: f64,
    /// Of what was called short-lived, what was; nothing was, if absent.
    pub precision: Option<f64>,
    /// Of what was short-lived, what was called so.
    #[serde(serialize_with = "crate::four_digits")]
    pub recall: f64,
}

/// The size class of an object; `None` for a large one, which has pages of its own.
pub fn small_class(object: &Object) -> Option<usize> {
    let bytes = usize::try_from(object.bytes).ok()?;
    (bytes <= MAX_SMALL_BYTES).then(|| class_of(bytes))
}

/// Whether what has the key is short-lived.
type Kinds<K> = HashMap<K, bool>;

/// What a training run taught.
pub struct Learned {
    short_bytes: u64,
    by_class: Kinds<usize>,
    by_shallow: Kinds<(u32, usize)>,
    by_deep: Kinds<(u32, usize)>,
}

impl Learned {
    /// Learns what is freed before `short_bytes` more are allocated. A place is called short-lived
    /// if `sure_percent` of its memory was, a size if half of it was.
    pub fn from(run: &AllocationRun, short_bytes: u64, sure_percent: u64) -> Learned {
        let short = |object: &Object| object.lived_bytes < short_bytes;
        Learned {
            short_bytes,
            by_class: kinds(run, 50, short, |_, class| class),
            by_shallow: kinds(run, sure_percent, short, |o, class| (o.shallow, class)),
            by_deep: kinds(run, sure_percent, short, |o, class| (o.deep, class)),
        }
    }

    /// Whether each object of a run is called short-lived; large ones never.
    pub fn predict(&self, run: &AllocationRun, predictor: Predictor) -> Vec<bool> {
        let of_site = |object: &Object, class: usize| {
            let deep = self.by_deep.get(&(object.deep, class));
            deep.or_else(|| self.by_shallow.get(&(object.shallow, class)))
                .is_some_and(|&short| short)
        };
        let one = |object: &Object| {
            small_class(object).is_some_and(|class| match predictor {
                Predictor::None => false,
                Predictor::Size => self.by_class.get(&class).is_some_and(|&short| short),
                Predictor::Site => of_site(object, class),
                Predictor::Oracle => object.lived_bytes < self.short_bytes,
            })
        };
        run.objects.iter().map(one).collect()
    }

    /// How a prediction for a run did.
    pub fn quality(&self, run: &AllocationRun, predicted: &[bool]) -> Quality {
        let (mut all, mut seen, mut short, mut called, mut right) = (0, 0, 0, 0, 0);
        let mut sites = HashSet::new();
        for (object, &predicted) in run.objects.iter().zip(predicted) {
            let Some(class) = small_class(object) else {
                continue;
            };
            sites.insert(object.deep);
            let is_short = object.lived_bytes < self.short_bytes;
            let counted = |yes: bool| if yes { object.bytes } else { 0 };
            all += object.bytes;
            seen += counted(self.by_deep.contains_key(&(object.deep, class)));
            short += counted(is_short);
            called += counted(predicted);
            right += counted(predicted && is_short);
        }
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        Quality {
            sites: sites.len(),
            seen: share(seen, all),
            short: share(short, all),
            precision: (called > 0).then(|| crate::rounded(share(right, called), 4)),
            recall: share(right, short),
        }
    }
}

/// For each key, whether so many percent of the memory under it are short-lived.
fn kinds<K: Eq + Hash>(
    run: &AllocationRun,
    percent: u64,
    short: impl Fn(&Object) -> bool,
    key: impl Fn(&Object, usize) -> K,
) -> Kinds<K> {
    let mut sums: HashMap<K, [u64; 2]> = HashMap::new();
    for object in &run.objects {
        if let Some(class) = small_class(object) {
            let [short_bytes, bytes] = sums.entry(key(object, class)).or_default();
            *short_bytes += if short(object) { object.bytes } else { 0 };
            *bytes += object.bytes;
        }
    }
    let sure = |(key, [short, all]): (K, [u64; 2])| (key, short * 100 >= all * percent);
    sums.into_iter().map(sure).collect()
}
