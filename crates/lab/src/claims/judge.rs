// SPDX-License-Identifier: MIT OR Apache-2.0
//! From claims and results to verdicts.

use super::rule::round;
use super::{Check, Claim, ClaimKind, FieldPath, Rule};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What came out of a check or a claim, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The rule holds.
    Holds,
    /// The rule holds for a value that was calibrated to the paper's.
    Calibrated,
    /// Shown and not judged.
    Context,
    /// The rule is for full size and the result of a small version.
    SmallVersion,
    /// Cannot be checked by this project.
    NotReproducible,
    /// The rule does not hold.
    Misses,
    /// The experiment did not run.
    NotRun,
    /// The result has no such value.
    Broken,
}

impl Verdict {
    /// All of them, in the order of a summary.
    pub const ALL: [Verdict; 8] = [
        Verdict::Holds,
        Verdict::Calibrated,
        Verdict::Misses,
        Verdict::SmallVersion,
        Verdict::Context,
        Verdict::NotReproducible,
        Verdict::NotRun,
        Verdict::Broken,
    ];

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Calibrated => "calibrated",
            Verdict::Context => "context",
            Verdict::SmallVersion => "not judged: small version",
            Verdict::NotReproducible => "not reproducible here",
            Verdict::Misses => "misses",
            Verdict::NotRun => "not run",
            Verdict::Broken => "no such value",
        }
    }

    /// 0 for what is as it should be; greater is worse.
    pub(super) fn badness(self) -> u8 {
        match self {
            Verdict::Misses => 1,
            Verdict::NotRun => 2,
            Verdict::Broken => 3,
            _ => 0,
        }
    }
}

/// A check with its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedCheck {
    /// What the value is.
    pub name: String,
    /// Unit of both values, if they have one.
    pub unit: Option<String>,
    /// The paper's value.
    pub paper: Option<f64>,
    /// Ours: one value, or several for a shape; empty when there are none.
    pub here: Vec<f64>,
    /// The ends of its interval, where the result has them.
    pub interval: Option<[f64; 2]>,
    /// The rule, in words.
    pub rule: String,
    /// Whether ours was calibrated to the paper's.
    pub fitted: bool,
    /// Id of the experiment that it reads.
    pub experiment: String,
    /// How it was judged.
    pub verdict: Verdict,
    /// How far outside the rule, as a share of the bound.
    pub miss: f64,
}

impl JudgedCheck {
    /// Ours, rounded.
    pub fn here_text(&self) -> String {
        let values: Vec<String> = self.here.iter().map(|value| round(*value)).collect();
        if values.is_empty() {
            "–".into()
        } else {
            values.join(", ")
        }
    }

    /// The paper's, rounded.
    pub fn paper_text(&self) -> String {
        self.paper.map_or("–".into(), round)
    }
}

/// A claim with the outcome of its checks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedClaim {
    /// Identifier, `PAPER.NAME`.
    pub id: String,
    /// How it is used.
    pub kind: ClaimKind,
    /// Paper, section, figure.
    pub paper: String,
    /// What is claimed.
    pub what: String,
    /// Why it cannot be checked.
    pub not_reproducible: Option<String>,
    /// The worst of its checks that count.
    pub verdict: Verdict,
    /// Its checks, in the order of the file.
    pub checks: Vec<JudgedCheck>,
}

/// Judges claims; `result` gives the result of an experiment as JSON, if it has run, and `quick`
/// says that it is one of a small version.
pub fn judge<'v>(
    claims: &[Claim],
    quick: bool,
    result: impl Fn(&str) -> Option<&'v Value>,
) -> Vec<JudgedClaim> {
    let one = |claim: &Claim| {
        let checks: Vec<JudgedCheck> = claim
            .checks
            .iter()
            .map(|check| judge_check(check, quick, result(&check.experiment)))
            .collect();
        JudgedClaim {
            id: claim.id.clone(),
            kind: claim.kind,
            paper: claim.paper.clone(),
            what: claim.what.clone(),
            not_reproducible: claim.not_reproducible.clone(),
            verdict: overall(claim, &checks),
            checks,
        }
    };
    claims.iter().map(one).collect()
}

fn judge_check(check: &Check, quick: bool, result: Option<&Value>) -> JudgedCheck {
    let here = result.map(|result| value_of(check, check.at.all(), result));
    let interval = result.and_then(|result| interval_of(check, result));
    let miss = match &here {
        Some(Some(values)) => check.rule.miss(values, check.paper),
        _ => None,
    };
    let verdict = match (&here, miss) {
        (None, _) => Verdict::NotRun,
        (Some(_), None) => Verdict::Broken,
        _ if check.rule == Rule::Shown => Verdict::Context,
        _ if quick && check.full_size => Verdict::SmallVersion,
        (_, Some(miss)) if miss > 0.0 => Verdict::Misses,
        _ if check.fitted => Verdict::Calibrated,
        _ => Verdict::Holds,
    };
    JudgedCheck {
        name: check.name.clone(),
        unit: check.unit.clone(),
        paper: check.paper,
        here: here.flatten().unwrap_or_default(),
        interval,
        rule: check.rule.text(),
        fitted: check.fitted,
        experiment: check.experiment.clone(),
        verdict,
        miss: miss
            .filter(|_| verdict != Verdict::SmallVersion)
            .unwrap_or(0.0),
    }
}

/// The ends of ours; `None` when a place holds nothing, no number or several.
fn interval_of(check: &Check, result: &Value) -> Option<[f64; 2]> {
    let end = |path: &FieldPath| match value_of(check, std::slice::from_ref(path), result)?[..] {
        [end] => Some(end),
        _ => None,
    };
    let [low, high] = check.interval.as_ref()?;
    Some([end(low)?, end(high)?])
}

/// Ours of a check at these places; `None` when a place holds nothing, or no number.
fn value_of(check: &Check, places: &[FieldPath], result: &Value) -> Option<Vec<f64>> {
    let mut values = Vec::new();
    for path in places {
        let found = path.find(result);
        (!found.is_empty()).then_some(())?;
        for value in found {
            values.push(number(value)?);
        }
    }
    if let Some(pick) = check.pick {
        values = vec![pick.of(&values)];
    }
    if let Some(over) = &check.over {
        let [divisor] = over.find(result)[..] else {
            return None;
        };
        let divisor = number(divisor)?;
        values.iter_mut().for_each(|value| *value /= divisor);
    }
    values
        .iter_mut()
        .for_each(|value| *value = *value * check.times - check.minus);
    Some(values)
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(is) => Some(f64::from(u8::from(*is))),
        _ => value.as_f64(),
    }
}

fn overall(claim: &Claim, checks: &[JudgedCheck]) -> Verdict {
    if claim.not_reproducible.is_some() {
        return Verdict::NotReproducible;
    }
    let worst = checks.iter().map(|check| check.verdict);
    let bad = worst.clone().max_by_key(|verdict| verdict.badness());
    match bad {
        Some(verdict) if verdict.badness() > 0 => verdict,
        _ => worst.min().unwrap_or(Verdict::Context),
    }
}
