// SPDX-License-Identifier: MIT OR Apache-2.0
//! One 4 KB migration on an otherwise idle machine (Contiguitas §5.3: close to 2 µs in a
//! microbenchmark, varying with where the page is cached): where its time goes, and what changes
//! of the copy engine within the paper's design are worth.

use super::stats::{pairs, parallel};
use crate::charts::{bar_figure, name_of, with_range};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::stop;
use ample_kit::random::SplitMix64;
use ample_kit::statistics::MedianRange;
use ample_machine::multi::{CoherentMemory, EngineParams, MemoryParams, PAGE_LINES};
use ample_migration::protocol::{Command, Design, LineAddr, Mapping, Status};
use ample_report::Unit;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Where the page is before it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PagePlace {
    /// In memory alone.
    Memory,
    /// In the last level: a device has just written it.
    LastLevel,
    /// In the private caches of all cores, to read.
    Shared,
    /// In one private cache, modified.
    Modified,
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnePageParams {
    /// Where the page is.
    pub places: Vec<PagePlace>,
    /// Pages moved one after the other for each row and seed, at random frames.
    pub pages: u32,
    /// Seeds of the frames; a row has the pages of all of them.
    pub seeds: Vec<u64>,
    /// Cores, caches, DRAM and copy engine.
    #[serde(default = "MemoryParams::table1")]
    pub memory: MemoryParams,
}

/// One machine: time from the command to the completion record, over the pages of all seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OnePageRow {
    /// What differs from the paper's design, or from the machine.
    pub what: String,
    /// Where the page was.
    pub place: PagePlace,
    /// Copying alone: from the order to copy to the record.
    pub copy_ns: MedianRange,
    /// Installing and purging the destination, before it.
    pub install_ns: MedianRange,
    /// The paper, for its design.
    pub paper_ns: Option<f64>,
}

/// What `hw-migration` gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OnePageReport {
    /// As run.
    pub params: OnePageParams,
    /// The paper's design with one cost of the machine taken away: what the time is made of.
    pub made_of: Vec<OnePageRow>,
    /// Changes of the engine.
    pub engines: Vec<OnePageRow>,
}

type Change = (&'static str, fn(&mut MemoryParams));

/// Costs taken away one at a time.
const COSTS: [Change; 5] = [
    ("table 1", |_| {}),
    ("memory without latency", |m| {
        let dram = &mut m.dram;
        (dram.cl, dram.trcd, dram.trp, dram.tras) = (0, 0, 0, 0);
        dram.controller_ns = 0.0;
        if let Some(r) = &mut dram.reorder {
            (r.cwl, r.trrd, r.tfaw, r.twr, r.twtr, r.trtp) = (0, 0, 0, 0, 0, 0);
            r.trefi = 0;
        }
    }),
    ("rows always open", |m| {
        let dram = &mut m.dram;
        (dram.trcd, dram.trp, dram.tras) = (0, 0, 0);
        if let Some(r) = &mut dram.reorder {
            (r.trrd, r.tfaw, r.trefi) = (0, 0, 0);
        }
    }),
    ("ring without latency", |m| m.hop_cycles = 0),
    ("last level and private caches without latency", |m| {
        (m.llc_slice.latency_cycles, m.l2.latency_cycles) = (0, 0);
    }),
];

/// Engines. All keep what the paper fixes: one slice after the other, a pointer that passes a
/// line when its write was acknowledged; the last three also let slices work at once, which the
/// paper leaves as an outlook.
const ENGINES: [Change; 9] = [
    ("paper: one line at a time", |_| {}),
    ("read 1 line ahead", |m| m.engine.read_ahead_lines = 1),
    ("read 4 lines ahead", |m| m.engine.read_ahead_lines = 4),
    ("fetch the page at installation, rows open", |m| {
        m.engine.fetch_at_install = true;
    }),
    ("2 lines on their way", |m| m.engine.copy_window_lines = 2),
    ("4 lines on their way", |m| m.engine.copy_window_lines = 4),
    ("fetch at installation, 2 lines on their way", |m| {
        (m.engine.fetch_at_install, m.engine.copy_window_lines) = (true, 2);
    }),
    ("parallel slices", |m| m.engine.parallel_slices = true),
    ("parallel slices, 2 lines on their way", |m| {
        (m.engine.parallel_slices, m.engine.copy_window_lines) = (true, 2);
    }),
];

/// A machine with the parts a migration needs.
struct Bench {
    memory: CoherentMemory,
    now: u64,
}

impl Bench {
    fn settle(&mut self, cycles: u64) {
        self.now += cycles;
        self.memory.run_until(self.now);
        self.memory.completed.clear();
    }

    fn access(&mut self, agent: u8, line: LineAddr, write: bool) {
        stop::checkpoint();
        let now = self.now;
        self.memory.access(now, agent, line, write, 1);
        self.settle(1000);
    }

    fn put(&mut self, place: PagePlace, map: Mapping) {
        let cores = self.memory.params().cores;
        for index in 0..map.lines {
            let line = map.line(ample_migration::protocol::Role::Source, index);
            match place {
                PagePlace::Memory => {}
                PagePlace::LastLevel => self.access(cores, line, true),
                PagePlace::Shared => (0..cores).for_each(|core| self.access(core, line, false)),
                PagePlace::Modified => self.access(0, line, true),
            }
        }
    }

    /// Submits a command; cycles until its record.
    fn command(&mut self, command: Command, expected: Status) -> Result<u64> {
        self.memory.records.clear();
        let now = self.now;
        let queued = self.memory.submit(now, command);
        self.settle(1_000_000);
        let record = self.memory.records.first();
        match record.filter(|_| queued.is_ok()) {
            Some((at, record)) if record.status == expected => Ok(at - now),
            other => bail!("a command ended with {other:?} instead of {expected:?}"),
        }
    }
}

/// Moves the pages of one seed; each copy's and each installation's time, in nanoseconds.
fn times(
    params: &OnePageParams,
    place: PagePlace,
    memory: &MemoryParams,
    seed: u64,
) -> Result<Vec<(f64, f64)>> {
    let mut rng = SplitMix64::new(seed);
    let half = memory.frames / 2;
    let mut bench = Bench {
        memory: CoherentMemory::new(memory)?,
        now: 0,
    };
    let mut move_page = |_| {
        let map = Mapping {
            src: LineAddr(rng.below(half) * PAGE_LINES),
            dst: LineAddr((half + rng.below(half)) * PAGE_LINES),
            lines: PAGE_LINES as u32,
        };
        bench.put(place, map);
        let migrate = |start| Command::Migrate { map, start };
        let ns = |cycles: u64| cycles as f64 / memory.clock_ghz;
        let install = ns(bench.command(migrate(false), Status::Installed)?);
        let copy = ns(bench.command(migrate(true), Status::Copied)?);
        bench.command(Command::Clear { map }, Status::Cleared)?;
        Ok((copy, install))
    };
    (0..params.pages).map(&mut move_page).collect()
}

fn row(
    params: &OnePageParams,
    place: PagePlace,
    what: &str,
    memory: MemoryParams,
) -> Result<OnePageRow> {
    let mut all = Vec::new();
    for &seed in &params.seeds {
        all.extend(times(params, place, &memory, seed)?);
    }
    let (copies, installs) = all.into_iter().unzip();
    let range = |values| {
        MedianRange::of(values).context("pages, seeds: at least one page must move, with one seed")
    };
    Ok(OnePageRow {
        what: what.into(),
        place,
        copy_ns: range(copies)?,
        install_ns: range(installs)?,
        paper_ns: (memory.engine == paper_engine(params)).then_some(2000.0),
    })
}

/// The engine of the paper: the cacheable design installs before it copies, so that both times
/// can be seen; copying costs the same in both designs on an idle machine.
fn paper_engine(params: &OnePageParams) -> EngineParams {
    EngineParams {
        design: Design::Cacheable,
        ..params.memory.engine
    }
}

/// The time of one migration.
pub struct OnePage;

impl Experiment for OnePage {
    type Parameters = OnePageParams;
    type Outcome = OnePageReport;

    fn run(params: &OnePageParams, progress: Progress<'_>) -> Result<OnePageReport> {
        let rows = |changes: &[Change], progress: Progress<'_>| {
            let jobs = pairs(&params.places, changes);
            let rows = parallel(&jobs, progress, |&(place, (what, change))| {
                let mut memory = params.memory;
                memory.engine = paper_engine(params);
                change(&mut memory);
                row(params, place, what, memory)
            })?;
            anyhow::Ok(rows.into_iter().flatten().collect::<Vec<OnePageRow>>())
        };
        Ok(OnePageReport {
            params: params.clone(),
            made_of: rows(&COSTS, &|share| progress(share / 3.0))?,
            engines: rows(&ENGINES, &|share| progress((1.0 + 2.0 * share) / 3.0))?,
        })
    }
}

impl Outcome for OnePageReport {
    const SCHEMA: &'static str = "ample.hw-migration/1";

    fn figures(&self) -> Vec<Figure> {
        let bar = |row: &OnePageRow| {
            let copy = row.copy_ns;
            let bar = with_range(copy.median, copy.min, copy.max, row.paper_ns);
            (row.what.clone(), name_of(&row.place), bar)
        };
        let title = "One migration of 4 KB, idle machine: the copy, ns";
        bar_figure("copy", title, Unit::Count, self.engines.iter().map(bar))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_the_engine_copies_faster_and_costs_add_up() {
        let params: OnePageParams =
            crate::shipped_parameters("hw-migration", true).expect("shipped");
        let report = OnePage::run(&params, &|_| {}).expect("runs");
        let copy = |rows: &[OnePageRow], place: PagePlace, what: &str| {
            let found = rows
                .iter()
                .find(|r| r.place == place && r.what.starts_with(what));
            found.expect(what).copy_ns.median
        };
        for &place in &params.places {
            let paper = copy(&report.engines, place, "paper");
            assert_eq!(paper, copy(&report.made_of, place, "table 1"));
            let rows = report.engines.iter().chain(&report.made_of);
            for row in rows.filter(|r| r.place == place) {
                assert!(row.copy_ns.median <= paper, "{row:?} against {paper}");
            }
        }
        let engines = &report.engines;
        assert!(
            copy(engines, PagePlace::Memory, "fetch the page")
                < copy(engines, PagePlace::Memory, "paper")
        );
    }

    #[test]
    fn no_pages_and_no_seeds_are_refused() {
        let shipped: OnePageParams =
            crate::shipped_parameters("hw-migration", true).expect("shipped");
        let no_pages = OnePageParams {
            pages: 0,
            ..shipped.clone()
        };
        let no_seeds = OnePageParams {
            seeds: Vec::new(),
            ..shipped
        };
        for params in [no_pages, no_seeds] {
            let error = OnePage::run(&params, &|_| {}).unwrap_err().to_string();
            assert!(error.contains("pages, seeds"), "{error}");
        }
    }
}
