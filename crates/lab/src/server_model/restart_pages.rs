// SPDX-License-Identifier: MIT OR Apache-2.0
//! Huge pages that a service gets when it restarts: the model beside recorded guests, by what else
//! holds memory at that moment.

use super::recorded_kernel::{policy_of, recordings};
use crate::experiment::{Experiment, Outcome, Progress};
use crate::needs::source_tree;
use crate::progress::Steps;
use crate::stop;
use crate::whatif::recording::{likely_pages, watermarks};
use ample_host::{Scan, snapshot};
use ample_kit::statistics::MedianRange;
use ample_mm::{CompactionState, Config, CostlyRequests, PageFlags, PolicyKind, ServerModel};
use ample_pfn::{PAGEBLOCK_ORDER, PageClass};
use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Share of a service's memory for which it advises huge pages, in the recorded guests.
const ADVISED: f64 = 0.4;

/// Which recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartPagesParams {
    /// Folder of the recordings (`kernel/scripts/restart.sh`), relative to the source tree:
    /// `NAME.json`, and of each of its variants `NAME-VARIANT.snap` and `NAME-VARIANT.flags.zst`.
    /// Those whose name begins with `ample-` are of the kernel series.
    pub folder: PathBuf,
    /// Runs of the model for each variant.
    pub seeds: u64,
}

/// One moment of one guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestartPagesRow {
    /// File name of the recording without its ending.
    pub recording: String,
    /// What else holds memory.
    pub variant: String,
    /// Whether the kernel had compaction deferred for 2 MB: 2 to this power requests pass without
    /// it; null if not.
    pub defer_shift: Option<u32>,
    /// 2 MB pages that the service wants.
    pub wanted: u32,
    /// What it obtained in the guest.
    pub found: RestartGot,
    /// What it obtains in the model, which knows the classes of pages alone and compacts patiently.
    pub by_class: RestartGotRanges,
    /// What it obtains in the model, which also knows what pages are busy with, still with
    /// patience.
    pub by_flags: RestartGotRanges,
    /// What it obtains with the kernel's rules for large requests, from what the kernel remembered
    /// of its compactions.
    pub by_kernel: RestartGotRanges,
}

/// 2 MB pages obtained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestartGot {
    /// By page faults, which do not compact, of those that the service wants; null where it does
    /// not try.
    pub thp: Option<u32>,
    /// Through `nr_hugepages`, of those that it wants.
    pub got: u32,
    /// Of twice as many, asked for after that; null where it was not asked.
    pub got_of_twice: Option<u32>,
}

/// [`RestartGot`] over the seeds of the model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestartGotRanges {
    /// See [`RestartGot::thp`].
    pub thp: Option<MedianRange>,
    /// See [`RestartGot::got`].
    pub got: MedianRange,
    /// See [`RestartGot::got_of_twice`].
    pub got_of_twice: Option<MedianRange>,
    /// Points of what was wanted between the median and the guest.
    pub missed_by_points: f64,
    /// The same for twice as many.
    pub twice_missed_by_points: Option<f64>,
}

impl RestartGotRanges {
    fn of(all: &[RestartGot], wanted: u32, found: RestartGot) -> Option<RestartGotRanges> {
        let points = |model: MedianRange, found: u32, of: u32| {
            100.0 * (model.median - f64::from(found)).abs() / f64::from(of.max(1))
        };
        let got = MedianRange::of(all.iter().map(|one| f64::from(one.got)).collect())?;
        let range = |part: fn(&RestartGot) -> Option<u32>| {
            let all = all.iter().map(|one| part(one).map(f64::from));
            all.collect::<Option<Vec<f64>>>().and_then(MedianRange::of)
        };
        let twice = range(|one| one.got_of_twice);
        Some(RestartGotRanges {
            thp: range(|one| one.thp),
            got,
            got_of_twice: twice,
            missed_by_points: points(got, found.got, wanted),
            twice_missed_by_points: twice
                .zip(found.got_of_twice)
                .map(|(twice, found)| points(twice, found, wanted.saturating_mul(2))),
        })
    }
}

/// The model beside the guests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestartPagesReport {
    /// What was run.
    pub parameters: RestartPagesParams,
    /// Variants of the recordings by name.
    pub rows: Vec<RestartPagesRow>,
}

/// The pages of a service that restarts.
pub struct RestartPages;

impl Experiment for RestartPages {
    type Parameters = RestartPagesParams;
    type Outcome = RestartPagesReport;

    fn run(parameters: &RestartPagesParams, progress: Progress<'_>) -> Result<RestartPagesReport> {
        ensure!(parameters.seeds > 0, "seeds is 0; give at least 1");
        let root = source_tree().context("not in the source tree")?;
        let names = recordings(&root.join(&parameters.folder), ".json")?;
        let steps = Steps::new(progress, names.len());
        let mut rows = Vec::new();
        for path in &names {
            let own = stop::until_stopped(|| rows_of(path, parameters.seeds));
            rows.extend(own.transpose()?.into_iter().flatten());
            steps.step();
        }
        Ok(RestartPagesReport {
            parameters: parameters.clone(),
            rows,
        })
    }
}

/// What a recording says of the moment before a service asks.
#[derive(Deserialize)]
struct Before {
    variant: String,
    compaction: CompactionState,
}

/// What it says of what the service obtained.
#[derive(Deserialize)]
struct Asked {
    variant: String,
    wanted: u32,
    /// By each of the services that end one after another.
    #[serde(default)]
    by_turn: Vec<u32>,
    #[serde(flatten)]
    found: RestartGot,
}

fn rows_of(path: &str, seeds: u64) -> Result<Vec<RestartPagesRow>> {
    let file = format!("{path}.json");
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
    let mut rows = Vec::new();
    let mut before: Option<Before> = None;
    for (number, line) in text.lines().enumerate() {
        let told = || format!("{file}, line {}", number + 1);
        let value: serde_json::Value = serde_json::from_str(line).with_context(told)?;
        match value["what"].as_str() {
            Some("before") => before = Some(serde_json::from_value(value).with_context(told)?),
            Some("asked") => {
                let asked: Asked = serde_json::from_value(value).with_context(told)?;
                let before = (before.take()).filter(|before| before.variant == asked.variant);
                let before = before.with_context(|| format!("{}: nothing before", told()))?;
                rows.push(row(path, asked, before.compaction, seeds)?);
            }
            _ => {}
        }
    }
    Ok(rows)
}

/// What the model knows of a machine.
struct Known<'a> {
    policy: PolicyKind,
    scan: &'a Scan,
    pages: &'a [PageClass],
    flags: &'a [PageFlags],
    compaction: Option<&'a CompactionState>,
}

fn row(
    path: &str,
    asked: Asked,
    compaction: CompactionState,
    seeds: u64,
) -> Result<RestartPagesRow> {
    let moment = format!("{path}-{}", asked.variant);
    let scan = snapshot::read(Path::new(&format!("{moment}.snap")))?;
    let flags = flags_of(&format!("{moment}.flags.zst"), scan.layout.span().start.0)?;
    let pages = likely_pages(&scan);
    let recording = path.rsplit('/').next().unwrap_or(path).to_string();
    let model = |flags: &[PageFlags], compaction: Option<&CompactionState>| -> Result<_> {
        let known = Known {
            policy: policy_of(&recording),
            scan: &scan,
            pages: &pages,
            flags,
            compaction,
        };
        let seeds = (1..=seeds).into_par_iter();
        let all: Result<Vec<RestartGot>> =
            seeds.map(|seed| restart(&known, &asked, seed)).collect();
        RestartGotRanges::of(&all?, asked.wanted, asked.found).context("no seed")
    };
    Ok(RestartPagesRow {
        defer_shift: (compaction.order_failed <= u32::from(PAGEBLOCK_ORDER.0))
            .then_some(compaction.defer_shift),
        by_class: model(&[], None)?,
        by_flags: model(&flags, None)?,
        by_kernel: model(&flags, Some(&compaction))?,
        recording,
        variant: asked.variant,
        wanted: asked.wanted,
        found: asked.found,
    })
}

/// One run of the model; the recorded guests have one CPU.
fn restart(known: &Known<'_>, asked: &Asked, seed: u64) -> Result<RestartGot> {
    let config = Config {
        seed,
        cpus: 1,
        marks: watermarks(known.scan),
        costly: match known.compaction {
            Some(_) => CostlyRequests::Kernel,
            None => CostlyRequests::Patient,
        },
        ..Config::new(known.policy)
    };
    let mut server = ServerModel::from_pages(&config, &known.scan.layout, known.pages)?;
    server.set_flags(known.flags);
    if let Some(compaction) = known.compaction {
        server.set_compaction(compaction);
    }
    if !asked.by_turn.is_empty() {
        return Ok(RestartGot {
            thp: None,
            got: server.ask_by_turns(asked.by_turn.len() as u32, asked.wanted, ADVISED),
            got_of_twice: None,
        });
    }
    let obtained = server.ask_at_restart(asked.wanted);
    Ok(RestartGot {
        thp: Some(obtained.thp),
        got: obtained.got,
        got_of_twice: Some(obtained.got_of_twice),
    })
}

/// The flags of the frames from `first` on.
fn flags_of(path: &str, first: u64) -> Result<Vec<PageFlags>> {
    let told = || format!("reading {path}");
    let file = std::fs::File::open(path).with_context(told)?;
    let bytes = zstd::decode_all(file).with_context(told)?;
    let own = bytes.into_iter().skip(first as usize);
    Ok(own.map(PageFlags).collect())
}

impl Outcome for RestartPagesReport {
    const SCHEMA: &'static str = "ample.restart-pages/1";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(name: &str) -> Vec<RestartPagesRow> {
        let root = source_tree().expect("the source tree");
        let path = root.join("kernel/tests/restarts").join(name);
        rows_of(path.to_str().expect("text"), 1).expect("a recording of the tree")
    }

    /// Half of memory is free, or page cache that could go: what the kernel remembers of
    /// compactions decides.
    #[test]
    fn a_kernel_that_gives_up_gives_what_is_free_and_so_does_the_model() {
        let rows = rows("stock-1g-1");
        for variant in ["stopped", "failed", "locked"] {
            let row = rows.iter().find(|row| row.variant == variant);
            let row = row.expect("a variant of the recording");
            assert!(row.by_kernel.missed_by_points < 10.0, "{row:?}");
            assert!(row.by_class.missed_by_points > 20.0, "{row:?}");
        }
    }

    /// Above a border the whole region is compacted before a huge page is refused.
    #[test]
    fn the_series_gives_what_is_wanted_and_so_does_the_model() {
        let rows = rows("ample-1g-1");
        for variant in ["stopped", "failed", "dirty", "buffers", "turn", "busy"] {
            let row = rows.iter().find(|row| row.variant == variant);
            let row = row.expect("a variant of the recording");
            assert_eq!(row.found.got, row.wanted, "{row:?}");
            assert_eq!(row.by_kernel.missed_by_points, 0.0, "{row:?}");
        }
    }

    #[test]
    fn a_line_without_its_moment_is_told_by_file_and_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("one");
        let line = "{\"what\": \"asked\", \"variant\": \"busy\", \"wanted\": 1, \"got\": 1}\n";
        std::fs::write(path.with_extension("json"), line).expect("a file");
        let error = rows_of(path.to_str().expect("text"), 1).expect_err("no moment");
        assert!(
            format!("{error:#}").contains("line 1: nothing before"),
            "{error:#}"
        );
    }
}
