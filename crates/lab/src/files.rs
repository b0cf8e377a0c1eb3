// SPDX-License-Identifier: MIT OR Apache-2.0
//! The TOML files of experiments: one format for all.
//!
//! ```toml
//! [experiment]
//! id = "footprint"             # which experiment
//! title = "…"                  # one line for people
//! calibrated = "…"             # which parameters were set to fit what
//! predicted = "…"              # what was not
//! # and the other fields of `About`: layer, needs, costs
//!
//! [parameters]                 # those of the experiment
//!
//! [quick]                      # parameters that --quick changes; a list is replaced whole
//! ```

use crate::experiment::About;
use ample_kit::names;
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared<P> {
    /// About the experiment.
    pub experiment: About,
    /// Values of the table `[parameters]`.
    pub parameters: P,
    /// What the quick version changes of them.
    pub quick: Option<toml::Table>,
}

/// The table `[experiment]` of a file's text.
///
/// # Errors
/// When the text is not TOML or has no such table.
pub fn about(text: &str) -> Result<About> {
    #[derive(Deserialize)]
    struct AboutOnly {
        experiment: About,
    }
    let read: AboutOnly = toml::from_str(text)?;
    Ok(read.experiment)
}

/// Reads a file's text.
///
/// # Errors
/// When it is not TOML, a key is unknown or missing, or a value has the wrong type: the message
/// gives file, line and field.
pub fn declared<P: DeserializeOwned>(file: &str, text: &str) -> Result<Declared<P>> {
    toml::from_str(text).map_err(|error| anyhow!("{file}: {}", error.to_string().trim_end()))
}

/// Parameters with some values changed, by dotted key.
///
/// # Errors
/// When there is no such parameter or the value has the wrong type.
pub fn changed<P: Serialize + DeserializeOwned>(
    parameters: P,
    set: &[(String, toml::Value)],
) -> Result<P> {
    if set.is_empty() {
        return Ok(parameters);
    }
    let mut table = toml::Table::try_from(&parameters).context("writing the parameters as TOML")?;
    let mut hints = String::new();
    for (key, value) in set {
        hints += &put(&mut table, key, value.clone())?;
    }
    let told = || {
        let all = set.iter().map(|(key, value)| format!("{key}={value}"));
        format!("setting {}{hints}", all.collect::<Vec<_>>().join(", "))
    };
    toml::Value::Table(table).try_into().with_context(told)
}

/// Puts a value into its place. A key that is not there may be one that was left out, which its
/// type knows; the hint names the nearest that is there.
fn put(table: &mut toml::Table, key: &str, value: toml::Value) -> Result<String> {
    let (first, rest) = match key.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (key, None),
    };
    match (rest, table.get_mut(first)) {
        (None, Some(place)) => {
            // 2 for 2.0, as in a file.
            let whole = value.as_integer().filter(|_| place.is_float());
            *place = whole.map_or(value, |whole| toml::Value::Float(whole as f64));
            Ok(String::new())
        }
        (Some(rest), Some(toml::Value::Table(inner))) => put(inner, rest, value),
        (Some(rest), Some(toml::Value::Array(list))) => put_in_list(list, first, rest, value),
        (Some(_), Some(_)) => bail!("{first} is no table of parameters"),
        (Some(_), None) => bail!("there is no {first}{}", meant(first, table)),
        (None, None) => {
            let hint = meant(first, table);
            table.insert(first.into(), value);
            Ok(hint)
        }
    }
}

/// The key of a table that may have been meant, for the end of a sentence.
fn meant(typed: &str, table: &toml::Table) -> String {
    names::meant(typed, table.keys().map(String::as_str))
}

/// Puts a value into an entry of a list: the next part of the key is its place, from 0.
fn put_in_list(
    list: &mut [toml::Value],
    name: &str,
    key: &str,
    value: toml::Value,
) -> Result<String> {
    let (place, rest) = match key.split_once('.') {
        Some((place, rest)) => (place, Some(rest)),
        None => (key, None),
    };
    let length = list.len();
    let entry = place.parse::<usize>().ok().and_then(|at| list.get_mut(at));
    let entry = entry.with_context(|| match length {
        0 => format!("{name} is an empty list: set it whole"),
        _ => format!(
            "{name}.{place}: the list has the places 0 to {}",
            length - 1
        ),
    })?;
    match (rest, entry) {
        (None, entry) => {
            *entry = value;
            Ok(String::new())
        }
        (Some(rest), toml::Value::Table(inner)) => put(inner, rest, value),
        (Some(_), _) => bail!("{name}.{place} is no table of parameters"),
    }
}

/// The values of a table by dotted key.
pub fn settings(table: &toml::Table) -> Vec<(String, toml::Value)> {
    let of = |(key, value): (&String, &toml::Value)| match value {
        toml::Value::Table(inner) => settings(inner)
            .into_iter()
            .map(|(rest, value)| (format!("{key}.{rest}"), value))
            .collect(),
        plain => vec![(key.clone(), plain.clone())],
    };
    table.iter().flat_map(of).collect()
}

/// Lists whose entries are runs of their own: one that is there twice would count twice in a mean
/// and make its interval too narrow.
const LISTS_OF_RUNS: [&str; 4] = ["seeds", "workloads", "policies", "programs"];

/// Refuses parameters, as JSON, that ask for the same run twice.
///
/// # Errors
/// Which list has which entry twice.
pub fn check_runs(parameters: &Value) -> Result<()> {
    if let Some(list) = parameters.as_array() {
        return list.iter().try_for_each(check_runs);
    }
    for (key, value) in parameters.as_object().into_iter().flatten() {
        check_runs(value)?;
        if !LISTS_OF_RUNS.contains(&key.as_str()) {
            continue;
        }
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        for (at, entry) in list.iter().enumerate() {
            ensure!(
                !list[..at].contains(entry),
                "{key} lists {entry} twice; give each once"
            );
        }
    }
    Ok(())
}

/// `KEY=VALUE` as given on a command line; a value that is not TOML is a string.
///
/// # Errors
/// When there is no `=`.
pub fn setting(text: &str) -> Result<(String, toml::Value)> {
    let parts = text.split_once('=');
    let (key, value) = parts.with_context(|| format!("{text:?} is not KEY=VALUE"))?;
    ensure!(!key.is_empty(), "{text:?} is not KEY=VALUE");
    let read = format!("v = {value}").parse::<toml::Table>();
    let value = match read {
        Ok(mut table) => table.remove("v"),
        Err(_) => None,
    };
    let text = || toml::Value::String(text[key.len() + 1..].into());
    Ok((key.into(), value.unwrap_or_else(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sizes {
        memory_bytes: u64,
        hours: f64,
        inner: Inner,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Inner {
        seeds: Vec<u64>,
    }

    const TEXT: &str = "[experiment]\nid = \"x\"\n[parameters]\nmemory_bytes = 1\nhours = 2.0\n\
                        inner.seeds = [1]\n";

    #[test]
    fn a_run_that_is_listed_twice_is_refused() {
        let check = |text: &str| check_runs(&serde_json::from_str(text).expect("JSON"));
        assert!(check(r#"{"seeds": [1, 2], "rows": [{"seeds": [1]}, {"seeds": [1]}]}"#).is_ok());
        assert!(check(r#"{"sizes": [1, 1], "seeds": 3}"#).is_ok());
        for (text, told) in [
            (r#"{"seeds": [1, 2, 1]}"#, "seeds lists 1 twice"),
            (
                r#"{"rows": [{"a": {"seeds": [5, 5]}}]}"#,
                "seeds lists 5 twice",
            ),
            (
                r#"{"workloads": ["web", "web"]}"#,
                "workloads lists \"web\" twice",
            ),
        ] {
            assert!(
                check(text).unwrap_err().to_string().contains(told),
                "{text}"
            );
        }
    }

    #[test]
    fn errors_name_file_line_and_field() {
        let text = TEXT.replace("= 1\n", "= \"much\"\n");
        let error = declared::<Sizes>("my.toml", &text).unwrap_err().to_string();
        for part in ["my.toml", "line 4", "memory_bytes", "u64"] {
            assert!(error.contains(part), "{error}");
        }
        let unknown = TEXT.replace("hours", "houres");
        let error = declared::<Sizes>("my.toml", &unknown)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("line 5") && error.contains("houres"),
            "{error}"
        );
    }

    #[test]
    fn settings_change_parameters() {
        let read = declared::<Sizes>("x", TEXT).expect("reads").parameters;
        let set = ["memory_bytes=5", "hours=3", "inner.seeds=[1, 2]"];
        let set: Vec<_> = set.iter().map(|s| setting(s).expect("a setting")).collect();
        let now = changed(read.clone(), &set).expect("changes");
        assert_eq!((now.memory_bytes, now.hours), (5, 3.0));
        assert_eq!(now.inner.seeds, [1, 2]);
        let wrong = |text: &str| {
            let set = [setting(text).expect("a setting")];
            format!("{:#}", changed(read.clone(), &set).unwrap_err())
        };
        assert!(wrong("memory_byte=5").contains("did you mean memory_bytes?"));
        assert!(wrong("memory_bytes=much").contains("memory_bytes"));
        let listed = changed(
            read.clone(),
            &[setting("inner.seeds.0=7").expect("a setting")],
        );
        assert_eq!(listed.expect("changes").inner.seeds, [7]);
        assert!(wrong("inner.seeds.1=7").contains("the places 0 to 0"));
        assert!(wrong("inner.seeds.0.x=7").contains("no table"));
        assert!(wrong("iner.seeds=7").contains("did you mean inner?"));
        assert!(setting("x").is_err());
    }
}
