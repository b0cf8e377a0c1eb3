// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of the tree that a compiler does not check. Each failure names file and line and says
//! what to do.

mod commands;
mod dependencies;
mod documents;
mod figures;
mod links;
mod paths;
mod sources;
mod wheres;

/// Fails with all of `problems`, a line each.
fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}
