// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of `ample whatif`: this machine as it is, what each policy would make of it, and what
//! the same policies do to 64 GB servers.

mod machine;
mod servers;
pub mod simulate;
mod speed;
mod verdict;

pub use machine::futures_table;
pub use simulate::{Machine, WhatIf};
pub use verdict::sentences as verdict;

use ample_pfn::format_bytes;
use ample_report::Page;

/// The whole page.
pub fn page(whatif: &WhatIf) -> Page {
    let m = &whatif.machine;
    let memory = format_bytes(m.metrics.total.memory_bytes);
    let lead = format!(
        "{} · Linux {} · {memory} of memory · scanned by {} in {:.0} ms",
        m.name,
        m.kernel,
        m.reader,
        m.scan_duration_ns as f64 / 1e6
    );
    let ended = if whatif.runs.partial {
        " · ended early: runs are missing"
    } else {
        ""
    };
    let title = "What this machine’s memory could be";
    let mut page = Page::new(title, &format!("{lead}{ended}"));
    page.push(machine::now(whatif));
    page.push(machine::futures(whatif));
    if !whatif.runs.servers.is_empty() {
        page.push(servers::unmovable(whatif));
        page.push(servers::potential(whatif));
        page.push(speed::section(whatif));
        page.push(servers::over_time(whatif));
        page.push(servers::sources(whatif));
    }
    if !whatif.runs.ablation.is_empty() {
        page.push(servers::ablation(whatif));
    }
    page.push(machine::method(whatif));
    page
}
