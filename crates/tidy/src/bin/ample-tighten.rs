// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lowers the exceptions of the tidy rules to what is found in the tree. `make tighten`.

use std::collections::BTreeMap;

use ample_tidy::exceptions::{load, store, tightened};
use ample_tidy::figures::RULES;

fn main() -> std::io::Result<()> {
    let found = RULES.map(|(rule, figures)| (rule.to_string(), figures()));
    store(&tightened(&load(), &BTreeMap::from(found)))
}
