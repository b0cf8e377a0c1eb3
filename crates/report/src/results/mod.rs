// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results as data: the files below `results/data/`, and the pages made of them.
//!
//! One file holds one table with the command, machine, date and seeds that made it
//! ([`ResultRecord`]). [`Results::pages`] makes the Markdown pages and figures of `results/`, and
//! [`Results::fill`] puts figures into other texts. The binary `ample-results` writes both.

mod canonical;
mod cell;
mod figure;
mod markdown;
mod pages;
mod record;
mod refresh;
mod select;
mod tree;

pub use cell::{Cell, SpreadCell};
pub use figure::{FigureKind, FigureSpec};
pub use record::{BarRecord, Column, Layer, MachineRecord, ResultKind, ResultRecord, Scalar};
pub use refresh::{CellSource, Condition, SpreadSource};
pub use tree::{GeneratedFile, IndexLayer, Results, ResultsError};
