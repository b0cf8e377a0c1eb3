// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a watch found, as a table, as JSON and as folded stacks.

use ample_host::{SpoilSite, printable};
use ample_pfn::MigrateType;
use serde::Serialize;
use std::fmt::Write;

/// Schema of the JSON form.
const SCHEMA: &str = "ample.watch/1";

/// What a watch found.
#[derive(Debug, Serialize)]
pub struct Spoilers {
    schema: &'static str,
    /// Length of the watch.
    pub seconds: f64,
    /// Pageblocks (2 MB) of whole memory without an unmovable page at its beginning.
    pub clean_blocks: u64,
    /// Clean pageblocks that got an unmovable page.
    pub spoiled_blocks: u64,
    /// Of these, those that held one at the last scan.
    pub still_spoiled_blocks: u64,
    /// Unmovable requests served from movable memory.
    pub fallbacks: u64,
    /// Events that the kernel had no room for.
    pub lost_events: u64,
    /// What the programs cost; `None` when they were not timed.
    pub cost: Option<WatchCost>,
    /// Who did it, worst first.
    pub sites: Vec<SpoilerSite>,
}

/// What the BPF programs of a watch cost, the kernel's own timing of them included.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WatchCost {
    /// Runs of the programs: page allocations, and requests that fell back.
    pub runs: u64,
    /// Processor time of all runs.
    pub cpu_ns: u64,
    /// That time ÷ the time of all processors.
    pub cpu_ratio: f64,
}

impl WatchCost {
    /// The cost of `runs` that took `cpu_ns` in a watch of `seconds` on `processors`.
    pub fn new(runs: u64, cpu_ns: u64, seconds: f64, processors: usize) -> WatchCost {
        let all_ns = seconds * processors as f64 * 1e9;
        WatchCost {
            runs,
            cpu_ns,
            cpu_ratio: if all_ns > 0.0 {
                cpu_ns as f64 / all_ns
            } else {
                0.0
            },
        }
    }
}

/// One site of [`Spoilers`].
#[derive(Debug, Serialize)]
pub struct SpoilerSite {
    /// Innermost kernel function outside the allocators.
    pub caller: String,
    /// Thread name; `[interrupt]` in interrupts.
    pub process: String,
    /// Path of the control group.
    pub cgroup: Option<String>,
    /// `unmovable` or `reclaimable`.
    pub migratetype: MigrateType,
    /// Orders that it asked for.
    pub orders: Vec<u32>,
    /// Flags of the last request that spoiled a block, as the running kernel numbers them.
    pub gfp_flags: u32,
    /// Clean pageblocks that it put the first unmovable page into.
    pub spoiled_blocks: u64,
    /// Of these, those that held one at the last scan.
    pub still_spoiled_blocks: u64,
    /// Its requests served from movable memory.
    pub fallbacks: u64,
    /// Functions, innermost first.
    pub stack: Vec<String>,
}

impl SpoilerSite {
    /// The site with `still` of its blocks spoiled at the last scan.
    pub fn of(site: &SpoilSite, still: u64) -> SpoilerSite {
        SpoilerSite {
            caller: site.caller.clone(),
            process: site.process.clone(),
            cgroup: site.cgroup.clone(),
            migratetype: site.asked,
            orders: (0..u32::BITS)
                .filter(|order| site.orders >> order & 1 == 1)
                .collect(),
            gfp_flags: site.gfp,
            spoiled_blocks: site.blocks.len() as u64,
            still_spoiled_blocks: still,
            fallbacks: site.fallbacks,
            stack: site.stack.clone(),
        }
    }
}

impl Spoilers {
    /// The sums over `sites`, worst first.
    pub fn new(
        seconds: f64,
        clean_blocks: u64,
        lost_events: u64,
        cost: Option<WatchCost>,
        sites: Vec<SpoilerSite>,
    ) -> Spoilers {
        let sum = |value: fn(&SpoilerSite) -> u64| sites.iter().map(value).sum();
        Spoilers {
            schema: SCHEMA,
            seconds,
            clean_blocks,
            spoiled_blocks: sum(|site| site.spoiled_blocks),
            still_spoiled_blocks: sum(|site| site.still_spoiled_blocks),
            fallbacks: sum(|site| site.fallbacks),
            lost_events,
            cost,
            sites,
        }
    }

    /// The table of the worst `top` sites, at most `columns` wide.
    pub fn text(&self, top: usize, columns: usize) -> String {
        let mut text = format!(
            "{:.0} s: {} of {} clean 2 MB blocks spoiled, {} still are; {} unmovable requests \
             took movable memory\n",
            self.seconds,
            self.spoiled_blocks,
            self.clean_blocks,
            self.still_spoiled_blocks,
            self.fallbacks
        );
        if self.lost_events > 0 {
            let _ = writeln!(
                text,
                "{} events were lost: these numbers are too low",
                self.lost_events
            );
        }
        if let Some(cost) = self.cost {
            let _ = writeln!(
                text,
                "cost of the watch: {} runs of {:.0} ns, {:.3} % of all processor time",
                cost.runs,
                cost.cpu_ns as f64 / cost.runs.max(1) as f64,
                100.0 * cost.cpu_ratio
            );
        }
        if self.sites.is_empty() {
            return text;
        }
        let _ = writeln!(
            text,
            "\n{:>7} {:>6} {:>9} {:>6}  {:<34} {:<16} control group",
            "spoiled", "still", "fallbacks", "orders", "kernel function", "process"
        );
        for site in self.sites.iter().take(top) {
            let orders: Vec<String> = site.orders.iter().map(u32::to_string).collect();
            let line = format!(
                "{:>7} {:>6} {:>9} {:>6}  {:<34} {:<16} {}",
                site.spoiled_blocks,
                site.still_spoiled_blocks,
                site.fallbacks,
                orders.join(","),
                printable(&site.caller),
                printable(&site.process),
                printable(site.cgroup.as_deref().unwrap_or("-"))
            );
            text.extend(line.chars().take(columns));
            text.push('\n');
        }
        if self.sites.len() > top {
            let _ = writeln!(text, "and {} more sites", self.sites.len() - top);
        }
        text
    }

    /// One line a stack, outermost function first, weighted by blocks spoiled; sites that spoiled
    /// none are left out.
    pub fn folded(&self) -> String {
        let mut text = String::new();
        for site in self.sites.iter().filter(|site| site.spoiled_blocks > 0) {
            text.push_str(&frame(&site.process));
            for function in site.stack.iter().rev() {
                text.push(';');
                text.push_str(&frame(function));
            }
            let _ = writeln!(text, " {}", site.spoiled_blocks);
        }
        text
    }
}

/// A name without the characters that separate frames and lines.
fn frame(name: &str) -> String {
    printable(name).replace(';', ":").replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Spoilers {
        let site = SpoilSite {
            process: "a;b \n".into(),
            cgroup: Some("/system.slice/a.service".into()),
            caller: "pipe_write".into(),
            stack: vec!["pipe_write".into(), "vfs_write".into()],
            asked: MigrateType::Unmovable,
            orders: 0b1001,
            gfp: 0xcc0,
            blocks: vec![3, 4],
            fallbacks: 7,
        };
        let idle = SpoilSite {
            blocks: Vec::new(),
            ..site.clone()
        };
        let sites = vec![SpoilerSite::of(&site, 1), SpoilerSite::of(&idle, 0)];
        let cost = WatchCost::new(1000, 50_000, 10.0, 2);
        Spoilers::new(10.0, 100, 2, Some(cost), sites)
    }

    #[test]
    fn the_table_names_sums_losses_and_rows() {
        let text = found().text(1, 200);
        assert!(text.starts_with("10 s: 2 of 100 clean 2 MB blocks spoiled, 1 still are; 14 "));
        assert!(text.contains("2 events were lost"));
        assert!(text.contains("1000 runs of 50 ns, 0.000 % of all"));
        assert!(text.contains("0,3"));
        assert!(text.contains("a;b \\n"));
        assert!(text.ends_with("and 1 more sites\n"));
        let narrow = found().text(1, 20);
        let row = narrow.lines().nth_back(1).map(|line| line.chars().count());
        assert_eq!(row, Some(20));
    }

    #[test]
    fn folded_stacks_begin_outside_and_keep_their_separators() {
        assert_eq!(found().folded(), "a:b_\\n;vfs_write;pipe_write 2\n");
    }

    #[test]
    fn json_has_a_schema_and_units() {
        let json = serde_json::to_value(found()).unwrap();
        assert_eq!(json["schema"], "ample.watch/1");
        assert_eq!(json["sites"][0]["migratetype"], "unmovable");
        assert_eq!(json["sites"][0]["orders"][1], 3);
    }
}
