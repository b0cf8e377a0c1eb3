// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the papers claim, as data, and how each claim is judged.
//!
//! `experiments/claims.toml` lists every measurable claim. A claim has checks: each names an
//! experiment, a place in its result ([`FieldPath`]) and a [`Rule`]. A claim that this project
//! cannot check says why instead.

mod accepted;
mod judge;
mod path;
mod rule;

pub use accepted::{Accepted, AcceptedCheck, Regression, regressions};
pub use judge::{JudgedCheck, JudgedClaim, Verdict, judge};
pub use path::{FieldPath, PathError};
pub use rule::{Pick, Rule};

use serde::{Deserialize, Serialize};

/// How a claim is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// A result of the paper; it gets a verdict.
    Headline,
    /// An input of the paper's experiments; ours has to be the same.
    Parameter,
    /// Shown beside ours and not judged.
    Context,
}

/// One claim of a paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Identifier, `PAPER.NAME`.
    pub id: String,
    /// How it is used.
    pub kind: ClaimKind,
    /// Paper, section, figure.
    pub paper: String,
    /// What is claimed.
    pub what: String,
    /// Why this project cannot check it. Its checks are then the nearest values there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_reproducible: Option<String>,
    /// Values of the claim.
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
}

/// One value of a claim: the paper's, where ours is, and when they agree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What the value is, unique in its claim.
    pub name: String,
    /// Unit of both values; absent for ratios and shapes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The paper's value; absent when the claim is a shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// Experiment whose result holds ours.
    pub experiment: String,
    /// Where in the result. Several places make a list, in this order.
    pub at: Places,
    /// Makes one value of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pick: Option<Pick>,
    /// Divides the value by this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<FieldPath>,
    /// Where the least and the greatest of our value over the seeds are, or the ends of its 95 %
    /// interval; picked, divided and multiplied as the value is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[FieldPath; 2]>,
    /// Multiplies the value with this, after the division.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub times: f64,
    /// Subtracts this from the value, last.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub minus: f64,
    /// When the two agree.
    pub rule: Rule,
    /// Ours was calibrated to the paper's, so that agreement shows nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fitted: bool,
    /// The value depends on the size of servers or programs or on the length of runs: the rule is
    /// for full size, and a small version's value is shown and not judged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full_size: bool,
}

fn one() -> f64 {
    1.0
}

fn is_one(value: &f64) -> bool {
    *value == 1.0
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// One place or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Places {
    /// One place.
    One(FieldPath),
    /// Several, in order.
    Several(Vec<FieldPath>),
}

impl Places {
    /// Every place, in order.
    pub fn all(&self) -> &[FieldPath] {
        match self {
            Places::One(path) => std::slice::from_ref(path),
            Places::Several(paths) => paths,
        }
    }
}

/// `experiments/claims.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    claim: Vec<Claim>,
}

/// Reads claims from TOML.
///
/// # Errors
/// When the text is no TOML of this form; a claim has neither a check nor a reason why not, or
/// twice the same name; or a check of a value has a rule that needs the paper's and none is given.
pub fn from_toml(text: &str) -> anyhow::Result<Vec<Claim>> {
    let file: ClaimsFile = toml::from_str(text)?;
    let mut ids = std::collections::BTreeSet::new();
    for claim in &file.claim {
        anyhow::ensure!(ids.insert(&claim.id), "claim {} is listed twice", claim.id);
        anyhow::ensure!(
            claim.not_reproducible.is_some() || !claim.checks.is_empty(),
            "claim {} has no check and no reason why it has none",
            claim.id
        );
        let mut names = std::collections::BTreeSet::new();
        for check in &claim.checks {
            let (id, name) = (&claim.id, &check.name);
            anyhow::ensure!(names.insert(name), "claim {id} checks {name:?} twice");
            anyhow::ensure!(
                check.paper.is_some() || !check.rule.needs_paper(),
                "claim {id}, {name:?}: this rule compares with the paper's value; give `paper`"
            );
            anyhow::ensure!(
                claim.not_reproducible.is_none() || check.rule == Rule::Shown,
                "claim {id} is not reproducible here; {name:?} can only be \"shown\""
            );
            anyhow::ensure!(
                check.interval.is_none() || check.at.all().len() == 1,
                "claim {id}, {name:?}: a list has no interval; give `interval` with one place"
            );
        }
    }
    Ok(file.claim)
}

/// The shipped claims.
///
/// # Panics
/// Never: the file is part of the program and tested.
pub fn shipped() -> Vec<Claim> {
    from_toml(include_str!("../../../../experiments/claims.toml")).expect("the shipped claims")
}

#[cfg(test)]
mod tests;
