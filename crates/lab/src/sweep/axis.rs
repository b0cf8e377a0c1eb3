// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parameters of a sweep, their values, and the combinations of these.

use crate::files::setting;
use anyhow::{Context, Result, ensure};

/// Most combinations of a sweep.
const MOST_COMBINATIONS: usize = 10_000;

/// A dotted key and a value.
pub type Setting = (String, toml::Value);

/// A parameter with the values that it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepAxis {
    /// Dotted key of the parameter.
    pub key: String,
    /// Its values, all different.
    pub values: Vec<toml::Value>,
}

impl SweepAxis {
    /// An axis from `KEY=VALUE,VALUE,...`, the values as in TOML; what is no TOML is a string.
    ///
    /// # Errors
    /// When there is no key or no value, or a value stands there twice.
    pub fn parse(text: &str) -> Result<SweepAxis> {
        let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, list) = parts.with_context(|| format!("{text:?} is not KEY=VALUE,VALUE"))?;
        let whole = format!("v = [{list}]").parse::<toml::Table>();
        let values = match whole.ok().and_then(|mut table| table.remove("v")) {
            Some(toml::Value::Array(values)) => values,
            _ => {
                let each = list.split(',').map(|value| setting(&format!("v={value}")));
                let each = each.collect::<Result<Vec<_>>>()?;
                each.into_iter().map(|(_, value)| value).collect()
            }
        };
        SweepAxis::new(key, values).with_context(|| format!("{text:?}: KEY=VALUE,VALUE is wanted"))
    }

    /// An axis of a key and its values.
    ///
    /// # Errors
    /// When there is no value, one is empty, or one stands there twice.
    pub fn new(key: &str, values: Vec<toml::Value>) -> Result<SweepAxis> {
        let empty = |value: &toml::Value| value.as_str().is_some_and(str::is_empty);
        ensure!(
            !values.is_empty() && !values.iter().any(empty),
            "{key} has no value, or an empty one"
        );
        for (at, value) in values.iter().enumerate() {
            ensure!(
                !values[..at].contains(value),
                "{key}: {value} is there twice"
            );
        }
        Ok(SweepAxis {
            key: key.into(),
            values,
        })
    }
}

/// All combinations of the axes' values, those of the last axis side by side.
///
/// # Errors
/// When there is no axis, one is there twice, or there are more than 10,000 combinations.
pub fn combinations(axes: &[SweepAxis]) -> Result<Vec<Vec<Setting>>> {
    ensure!(
        !axes.is_empty(),
        "a sweep needs a parameter with its values"
    );
    for (at, axis) in axes.iter().enumerate() {
        let twice = axes[..at].iter().any(|other| other.key == axis.key);
        ensure!(
            !twice,
            "{} is swept twice: give all its values at once",
            axis.key
        );
    }
    let product = |all: usize, axis: &SweepAxis| all.checked_mul(axis.values.len());
    let count = axes.iter().try_fold(1, product).unwrap_or(usize::MAX);
    ensure!(
        count <= MOST_COMBINATIONS,
        "{count} combinations are too many; at most {MOST_COMBINATIONS} run in a sweep"
    );
    let mut all: Vec<Vec<Setting>> = vec![Vec::new()];
    for axis in axes {
        let with = |before: &Vec<Setting>, value: &toml::Value| {
            let mut set = before.clone();
            set.push((axis.key.clone(), value.clone()));
            set
        };
        let longer = all
            .iter()
            .flat_map(|set| axis.values.iter().map(|v| with(set, v)));
        all = longer.collect();
    }
    Ok(all)
}

/// Refuses a parameter that has one value for all runs and is swept, too.
pub(super) fn not_both(set: &[Setting], axes: &[SweepAxis]) -> Result<()> {
    for axis in axes {
        let set_too = set.iter().any(|(key, _)| *key == axis.key);
        ensure!(!set_too, "{} is both set and swept", axis.key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(axes: &[&str]) -> Vec<String> {
        let axes: Vec<SweepAxis> = axes
            .iter()
            .map(|a| SweepAxis::parse(a).expect("an axis"))
            .collect();
        let one = |set: &Vec<Setting>| {
            let all = set.iter().map(|(key, value)| format!("{key}={value}"));
            all.collect::<Vec<_>>().join(" ")
        };
        combinations(&axes)
            .expect("combinations")
            .iter()
            .map(one)
            .collect()
    }

    #[test]
    fn every_combination_stands_there_once_in_the_order_of_the_axes() {
        let all = shown(&["a=1,2", "b.c=skylake,zen4"]);
        let wanted = [
            "a=1 b.c=\"skylake\"",
            "a=1 b.c=\"zen4\"",
            "a=2 b.c=\"skylake\"",
            "a=2 b.c=\"zen4\"",
        ];
        assert_eq!(all, wanted);
        assert_eq!(shown(&["seeds=[1, 2],[3]"]), ["seeds=[1, 2]", "seeds=[3]"]);
        assert_eq!(
            shown(&["s=\"a,b\",c"]).len(),
            3,
            "not TOML as a whole: split at each comma"
        );
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        for text in ["", "a", "=1", "a=", "a=1,,2x", "a=1,1"] {
            assert!(SweepAxis::parse(text).is_err(), "{text}");
        }
        let axis = |text: &str| SweepAxis::parse(text).expect("an axis");
        assert!(combinations(&[]).is_err());
        assert!(combinations(&[axis("a=1"), axis("a=2")]).is_err());
        let many: Vec<String> = (0..101).map(|n| n.to_string()).collect();
        let many = |key: &str| axis(&format!("{key}={}", many.join(",")));
        let told = combinations(&[many("a"), many("b")])
            .unwrap_err()
            .to_string();
        assert!(told.contains("10201 combinations"), "{told}");
    }
}
