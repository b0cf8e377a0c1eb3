// SPDX-License-Identifier: MIT OR Apache-2.0
//! The committed verdicts, and what got worse since.

use super::{JudgedClaim, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A value may miss its rule by this much more, as a share of the bound, before that is worse.
const MORE_MISS: f64 = 0.1;

/// A check as it was accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptedCheck {
    /// As it was judged.
    pub verdict: Verdict,
    /// Our values, in the order of the places.
    pub here: Vec<f64>,
    /// The ends of the interval of our value, where there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// How far outside the rule.
    pub miss: f64,
}

/// The checks of each claim, by id and name.
type Verdicts = BTreeMap<String, BTreeMap<String, AcceptedCheck>>;

/// The committed verdicts of both sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    /// At full size.
    #[serde(default)]
    pub full: Verdicts,
    /// Of the small versions.
    #[serde(default)]
    pub quick: Verdicts,
}

impl Accepted {
    /// Those that were committed with this program.
    ///
    /// # Panics
    /// Never: the file is part of the program and tested.
    pub fn shipped() -> Accepted {
        let text = include_str!("../../../../results/verdicts.json");
        serde_json::from_str(text).expect("the committed verdicts")
    }

    /// Takes over what has run; what has not keeps its accepted verdict.
    pub fn accept(&mut self, quick: bool, claims: &[JudgedClaim]) {
        let verdicts = if quick {
            &mut self.quick
        } else {
            &mut self.full
        };
        verdicts.retain(|id, _| claims.iter().any(|claim| claim.id == *id));
        for claim in claims {
            let mut old = verdicts.remove(&claim.id).unwrap_or_default();
            let mut new = BTreeMap::new();
            for check in &claim.checks {
                let accepted = match check.verdict {
                    Verdict::NotRun => old.remove(&check.name),
                    verdict => Some(AcceptedCheck {
                        verdict,
                        here: check.here.clone(),
                        interval: check.interval,
                        miss: check.miss,
                    }),
                };
                new.extend(accepted.map(|accepted| (check.name.clone(), accepted)));
            }
            if !new.is_empty() {
                verdicts.insert(claim.id.clone(), new);
            }
        }
    }
}

/// A check that got worse.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Regression {
    /// Id of the claim.
    pub claim: String,
    /// Name of the check.
    pub check: String,
    /// What was accepted.
    pub accepted: Verdict,
    /// What it is now.
    pub now: Verdict,
    /// In words.
    pub text: String,
}

/// What got worse than accepted. A check whose experiment is not in `chosen` is left out, and so
/// is one that was never accepted unless it is bad now.
pub fn regressions(
    accepted: &Accepted,
    quick: bool,
    claims: &[JudgedClaim],
    chosen: impl Fn(&str) -> bool,
) -> Vec<Regression> {
    let verdicts = if quick {
        &accepted.quick
    } else {
        &accepted.full
    };
    let mut worse = Vec::new();
    for claim in claims {
        for check in claim.checks.iter().filter(|c| chosen(&c.experiment)) {
            let before = verdicts.get(&claim.id).and_then(|c| c.get(&check.name));
            let (was, miss) = before.map_or((Verdict::Holds, 0.0), |b| (b.verdict, b.miss));
            // What was never run where the verdicts were accepted cannot get worse.
            let unknown = before.is_none() && check.verdict == Verdict::NotRun;
            let bad = check.verdict.badness() > was.badness()
                || check.verdict == Verdict::Misses && check.miss > miss + MORE_MISS;
            if bad && !unknown {
                let was_text = before.map_or("new".into(), |b| {
                    let here: Vec<String> = b.here.iter().map(|v| super::rule::round(*v)).collect();
                    format!("{} ({})", was.text(), here.join(", "))
                });
                worse.push(Regression {
                    claim: claim.id.clone(),
                    check: check.name.clone(),
                    accepted: was,
                    now: check.verdict,
                    text: format!(
                        "{}, {}: {was_text}, now {} ({}); rule: {}",
                        claim.id,
                        check.name,
                        check.verdict.text(),
                        check.here_text(),
                        check.rule
                    ),
                });
            }
        }
    }
    worse
}
