// SPDX-License-Identifier: MIT OR Apache-2.0
//! The replay as text.

use ample_mm::replay::ReplayResult;
use ample_pfn::format_bytes;
use ample_report::Table;
use std::fmt::Write;
use std::path::Path;

fn percent(ratio: f64) -> String {
    format!("{:.2} %", 100.0 * ratio)
}

/// Header, table and repairs.
pub fn render(result: &ReplayResult, file: &Path, inferred: bool) -> String {
    let mut text = String::new();
    let counts = &result.counts;
    let memory = format_bytes(result.memory_bytes);
    let guess = if inferred { " (inferred)" } else { "" };
    let _ = writeln!(
        text,
        "{}: {} page events in {:.2} s on {} CPUs; {memory} of memory{guess}\n",
        file.display(),
        counts.page_events(),
        result.duration_s,
        result.cpus,
    );
    text.push_str(&table(result).to_text());
    text.push_str(&legend(result));
    text.push_str(&repairs(result));
    text
}

/// What the table's figures mean.
fn legend(result: &ReplayResult) -> String {
    let Some(snapshot) = &result.snapshot else {
        return "\nDefinition O at the end of the recording. Pages from before it are not in it, so \
                the\ntraced kernel's shares are lower bounds; the servers are simulated and start \
                empty.\nGive --snapshot to start from what was there.\n"
            .into();
    };
    format!(
        "\nDefinition O at the end of the recording. All start from the snapshot: {} pages in \
         use,\nof which {} ({}) were freed while it ran. linux starts with each page in its \
         place, the\nothers place the same pages themselves. The servers are simulated.\n",
        snapshot.pages,
        snapshot.freed_pages,
        percent(snapshot.freed_pages as f64 / snapshot.pages.max(1) as f64),
    )
}

fn table(result: &ReplayResult) -> Table {
    let mut table = Table::headed(
        "who | >unmovable pages | >unmovable 2M | >peak | >potential 2M | >potential 32M \
         | >not placed",
    );
    let peak = |shares: &mut dyn Iterator<Item = f64>| percent(shares.fold(0.0, f64::max));
    if let Some(last) = result.kernel.last() {
        table.row(vec![
            "traced kernel".into(),
            percent(last.unmovable_page_ratio),
            percent(last.unmovable_2m_ratio),
            peak(&mut result.kernel.iter().map(|s| s.unmovable_2m_ratio)),
            percent(last.potential_2m_ratio),
            percent(last.potential_32m_ratio),
            "-".into(),
        ]);
    }
    for run in &result.policies {
        let Some(last) = run.samples.last() else {
            continue;
        };
        table.row(vec![
            run.policy.name().into(),
            percent(last.unmovable_page_ratio),
            percent(last.unmovable_2m_ratio),
            peak(&mut run.samples.iter().map(|s| s.unmovable_2m_ratio)),
            percent(last.potential_2m_ratio),
            percent(last.potential_32m_ratio),
            (run.unplaced_blocks + run.unplaced_snapshot_pages).to_string(),
        ]);
    }
    table
}

/// What the recording lacked; only what there is.
fn repairs(result: &ReplayResult) -> String {
    let (counts, repairs) = (&result.counts, &result.repairs);
    let rows = [
        (counts.lost_events, "events lost by the recorder"),
        (counts.unreadable_lines, "lines that cannot be read"),
        (
            u64::from(counts.truncated_last_line),
            "last line without an end, left out",
        ),
        (counts.other_events, "events of other kinds"),
        (
            counts.unknown_gfp_flags,
            "allocations with flags not known here",
        ),
        (
            repairs.frees_of_earlier_pages,
            "frees of pages from before the recording, ignored",
        ),
        (
            repairs.stale_snapshot_pages,
            "pages of the snapshot allocated again without a free, freed first",
        ),
        (repairs.double_frees, "double frees, ignored"),
        (
            repairs.missing_frees,
            "blocks allocated again without a free, freed first",
        ),
        (repairs.split_blocks, "blocks freed in parts, split"),
        (repairs.larger_frees, "frees larger than what was allocated"),
        (
            repairs.failed_allocs,
            "allocations that failed in the traced kernel",
        ),
        (repairs.backward_same_cpu, "steps back in time on one CPU"),
        (
            repairs.backward_across_cpus,
            "steps back in time across CPUs",
        ),
    ];
    let mut text = String::new();
    for (count, what) in rows.iter().filter(|row| row.0 > 0) {
        let _ = writeln!(text, "{count:>10}  {what}");
    }
    if let Some(first) = &counts.first_unreadable {
        let _ = writeln!(text, "            first: {first}");
    }
    if text.is_empty() {
        return "\nThe recording needed no repairs.\n".into();
    }
    format!("\nRepairs and gaps of the recording:\n{text}")
}
