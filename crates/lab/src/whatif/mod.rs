// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of `ample whatif`: what to do about the contiguity of this machine, the machine as it
//! is, and what each option would make of it.

mod culprits;
mod early;
mod estimate;
mod machine;
pub mod options;
pub mod outlook;
pub mod recording;
pub mod simulate;
mod speed;
mod tables;
mod verdict;

pub use simulate::{Machine, WhatIf};
pub use speed::KindGain;
pub use tables::{gains_table, memory_table};
pub use verdict::{Advice, verdict};

use ample_pfn::format_bytes;
use ample_report::Page;

/// The whole page.
pub fn page(whatif: &WhatIf, verdict: &Advice) -> Page {
    let m = &whatif.machine;
    let memory = format_bytes(m.metrics.total.memory_bytes);
    let lead = format!(
        "{} · Linux {} · {memory} of memory · scanned by {} in {:.0} ms",
        m.name,
        m.kernel,
        m.reader,
        m.scan_duration_ns as f64 / 1e6
    );
    let ended = match &whatif.runs {
        runs if runs.partial => " · ended early: runs are missing",
        runs if runs.under_way.is_some() => " · under way: load this page again for more",
        _ => "",
    };
    let title = "What this machine’s memory could be";
    let mut page = Page::new(title, &format!("{lead}{ended}"));
    page.push(machine::answer(whatif, verdict));
    page.push(machine::options(whatif, verdict));
    page.push(machine::now(whatif));
    page.push(machine::futures(whatif));
    page.push(machine::method(whatif));
    page
}
