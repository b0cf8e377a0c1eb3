// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places in a JSON value: `summary[policy=linux,metric=x].here.mean`, `points[-1].gain`,
//! `bars[*].ipc`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// Where in a result a value is: names separated by dots, each followed by any number of
/// selectors in brackets: a number counts elements from 0 (from the end if negative), `*` takes
/// them all, `key=value,…` those whose fields have these values (`null`: absent or null). A value
/// with a comma or a bracket stands in double quotes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FieldPath {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Where(Vec<(String, String)>),
}

/// A path that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no place in a result: {why}")]
pub struct PathError {
    text: String,
    why: String,
}

impl FieldPath {
    /// Reads a path.
    ///
    /// # Errors
    /// When it is empty, a bracket is not closed, or a selector is none of the three forms.
    pub fn parse(text: &str) -> Result<FieldPath, PathError> {
        let wrong = |why: &str| PathError {
            text: text.into(),
            why: why.into(),
        };
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let end = outside_quotes(inner, ']')
                    .next()
                    .ok_or_else(|| wrong("a bracket is not closed"))?;
                steps.push(selector(&inner[..end]).ok_or_else(|| {
                    wrong("a selector is *, a number, or key=value pairs separated by commas")
                })?);
                rest = &inner[end + 1..];
                continue;
            }
            rest = match (rest.strip_prefix('.'), steps.is_empty()) {
                (Some(_), true) => return Err(wrong("it begins with a dot")),
                (Some(after), false) => after,
                (None, true) => rest,
                (None, false) => return Err(wrong("a dot is missing after a bracket")),
            };
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end == 0 {
                return Err(wrong("a name is empty"));
            }
            steps.push(Step::Field(rest[..end].to_string()));
            rest = &rest[end..];
        }
        if steps.is_empty() {
            return Err(wrong("it is empty"));
        }
        let text = text.to_string();
        Ok(FieldPath { text, steps })
    }

    /// All values there, in order; empty when a step finds nothing. `null` counts as nothing.
    pub fn find<'v>(&self, root: &'v Value) -> Vec<&'v Value> {
        let mut found = vec![root];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.of(value)).collect();
        }
        found.retain(|value| !value.is_null());
        found
    }
}

fn selector(text: &str) -> Option<Step> {
    if text == "*" {
        return Some(Step::All);
    }
    if let Ok(index) = text.parse() {
        return Some(Step::Index(index));
    }
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        let value = value.trim().trim_matches('"');
        Some((key.trim().to_string(), value.to_string()))
    };
    let (mut pairs, mut from) = (Vec::new(), 0);
    for comma in outside_quotes(text, ',').chain([text.len()]) {
        pairs.push(pair(&text[from..comma])?);
        from = comma + 1;
    }
    Some(Step::Where(pairs))
}

/// Where a character is that does not stand in double quotes.
fn outside_quotes(text: &str, wanted: char) -> impl Iterator<Item = usize> {
    let mut quoted = false;
    text.char_indices().filter_map(move |(at, character)| {
        quoted ^= character == '"';
        (character == wanted && !quoted).then_some(at)
    })
}

impl Step {
    fn of<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let elements = || value.as_array().map(Vec::as_slice).unwrap_or_default();
        match self {
            Step::Field(name) => value.get(name).into_iter().collect(),
            Step::All => elements().iter().collect(),
            Step::Index(index) => {
                let count = elements().len() as i64;
                let at = if *index < 0 { count + index } else { *index };
                let at = usize::try_from(at).ok();
                at.and_then(|at| elements().get(at)).into_iter().collect()
            }
            Step::Where(pairs) => {
                let all = |element: &&Value| {
                    let has = |(key, wanted): &(String, String)| equals(element.get(key), wanted);
                    pairs.iter().all(has)
                };
                elements().iter().filter(all).collect()
            }
        }
    }
}

fn equals(value: Option<&Value>, wanted: &str) -> bool {
    match value {
        None | Some(Value::Null) => wanted == "null",
        Some(Value::String(text)) => text == wanted,
        Some(Value::Bool(is)) => wanted.parse() == Ok(*is),
        Some(Value::Number(number)) => wanted
            .parse::<f64>()
            .is_ok_and(|wanted| number.as_f64() == Some(wanted)),
        Some(Value::Array(_) | Value::Object(_)) => false,
    }
}

impl TryFrom<String> for FieldPath {
    type Error = PathError;

    fn try_from(text: String) -> Result<FieldPath, PathError> {
        FieldPath::parse(&text)
    }
}

impl From<FieldPath> for String {
    fn from(path: FieldPath) -> String {
        path.text
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
