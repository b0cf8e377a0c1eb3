// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real programs under QEMU with the model live behind them: how fast that goes, and what their
//! TLBs would see.

mod client;

use crate::charts::{Bars, with_range};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::machines::MachineChoice;
use crate::needs::load_average;
use crate::progress::Steps;
use crate::recorded::{Model, RecordOptions, Recorded, record_beside};
use ample_kit::random::SplitMix64;
use ample_report::Unit;
use ample_translate::PageSize;
use anyhow::{Context, Result, anyhow, bail, ensure};
use client::{ServerLoad, WireProtocol};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Programs, requests and the length of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveParams {
    /// Machine preset (its translation hardware).
    pub machine: MachineChoice,
    /// Pages that faults bring in: "4k", "2m".
    pub page_sizes: Vec<String>,
    /// Accesses of each run.
    pub limit: u64,
    /// Runs of each program and page size; speeds are medians.
    pub rounds: u32,
    /// Keys of the servers.
    pub keys: u64,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// Seed of the requests and of the generated source.
    pub seed: u64,
    pub programs: Vec<LiveProgram>,
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveProgram {
    /// Name in the result.
    pub name: String,
    /// The command; see the file for what stands in braces.
    pub command: Vec<String>,
    /// What it is served with, if it is a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    load: Option<WireProtocol>,
}

/// One program with one size of pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveRow {
    /// LiveProgram.
    pub program: String,
    /// Bytes of the pages that faults brought in.
    pub page_bytes: u64,
    /// Accesses of a run.
    pub accesses: u64,
    /// Accesses a second of wall time, start-up included: median.
    pub accesses_per_s: f64,
    /// The slowest run.
    pub accesses_per_s_min: f64,
    /// The fastest run.
    pub accesses_per_s_max: f64,
    /// Of the median run: data TLB misses of the first level in 1000 accesses.
    pub l1d_misses_per_kilo_access: f64,
    /// Data walks in 1000 accesses.
    pub walks_per_kilo_access: f64,
    /// Walks for instructions in 1000 accesses.
    pub fetch_walks_per_kilo_access: f64,
    /// Page faults.
    pub faults: u64,
    /// Changes of the address space (mmap, munmap, mprotect, brk).
    pub map_changes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// The machine, as the parameters name it.
    pub machine: String,
    /// Load average of this machine at the start (one minute), as far as it can be read.
    pub load_average: Option<f64>,
    pub seed: u64,
    /// Programs that could not be run, with the reason.
    pub missing: Vec<String>,
    pub rows: Vec<LiveRow>,
}

fn page_size(name: &str) -> Result<PageSize> {
    match name {
        "4k" => Ok(PageSize::K4),
        "2m" => Ok(PageSize::M2),
        other => bail!("there are no pages of '{other}'; known: 4k, 2m"),
    }
}

/// A C file with many small functions, the same for each seed.
fn source(seed: u64) -> String {
    let mut rng = SplitMix64::scattered(seed);
    let mut text = String::from("int a[4096];\n");
    for f in 0..2000 {
        let (m, n, k) = (rng.below(4096), rng.below(97) + 3, rng.below(31));
        let shift = k % 7;
        let next = match f {
            0 => "x".into(),
            _ => format!("f{}(x - 1, p)", f - 1),
        };
        text += &format!(
            "int f{f}(int x, int *p) {{\n  int s = {m};\n  \
             for (int i = 0; i < x % {n}; i++) {{\n    \
             if ((p[i] ^ s) & {k}) s += p[i] * {n} - i;\n    \
             else s ^= a[(s + i) & 4095] << {shift};\n    switch (s & 7) {{\n    \
             case 0: s += x; break;\n    case 3: s -= p[s & 7]; break;\n    \
             case 5: a[i] = s;\n    }}\n  }}\n  return s + {next};\n}}\n"
        );
    }
    text
}

/// Puts in what stands in braces.
fn filled(command: &[String], directory: &Path, seed: u64) -> Result<Vec<String>> {
    let mut filled = Vec::new();
    for word in command {
        let mut word = word.replace("{dir}", &directory.display().to_string());
        if word.contains("{source}") {
            let path = directory.join("source.c");
            std::fs::write(&path, source(seed)).context("writing the C file")?;
            word = word.replace("{source}", &path.display().to_string());
        }
        if word.contains("{cc1}") {
            let asked = Command::new("gcc").arg("-print-prog-name=cc1").output();
            let output = asked.context("gcc is not installed")?;
            let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            word = word.replace("{cc1}", &path);
        }
        filled.push(word);
    }
    Ok(filled)
}

/// One run of one program.
fn once(params: &LiveParams, program: &LiveProgram, pages: PageSize) -> Result<Recorded> {
    let name = format!("ample-live-{}-{}", program.name, std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("creating {}", directory.display()))?;
    let answer = served(params, program, pages, &directory);
    std::fs::remove_dir_all(&directory)
        .with_context(|| format!("removing {}", directory.display()))?;
    answer
}

fn served(
    params: &LiveParams,
    program: &LiveProgram,
    pages: PageSize,
    directory: &Path,
) -> Result<Recorded> {
    let options = RecordOptions {
        command: filled(&program.command, directory, params.seed)?,
        out: None,
        model: Some(Model {
            machine: params.machine.read()?,
            scheme: "paging".into(),
            pages,
        }),
        limit: params.limit,
    };
    let mut client = None;
    let gone = Arc::new(AtomicBool::new(false));
    let recorded = record_beside(&options, || {
        client = program.load.map(|protocol| {
            let socket = directory.join("socket");
            let load = ServerLoad {
                protocol,
                keys: params.keys,
                value_bytes: params.value_bytes,
                seed: params.seed,
            };
            let gone = gone.clone();
            std::thread::spawn(move || load.drive(&socket, &gone))
        });
        Ok(())
    });
    gone.store(true, Ordering::Relaxed);
    if let Some(client) = client {
        let ended = client.join().map_err(|_| anyhow!("the client panicked"))?;
        ended.with_context(|| format!("serving {}", program.name))?;
    }
    recorded
}

/// The row of some runs.
fn row(program: &LiveProgram, pages: PageSize, mut runs: Vec<Recorded>) -> Option<LiveRow> {
    runs.sort_by(|a, b| a.accesses_per_s.total_cmp(&b.accesses_per_s));
    let (slowest, fastest) = (runs.first()?.accesses_per_s, runs.last()?.accesses_per_s);
    let median = runs.swap_remove(runs.len() / 2);
    let model = median.model?;
    let kilo = median.accesses.max(1) as f64 / 1000.0;
    Some(LiveRow {
        program: program.name.clone(),
        page_bytes: pages.bytes(),
        accesses: median.accesses,
        accesses_per_s: median.accesses_per_s,
        accesses_per_s_min: slowest,
        accesses_per_s_max: fastest,
        l1d_misses_per_kilo_access: model.l1d_misses as f64 / kilo,
        walks_per_kilo_access: model.walks_data as f64 / kilo,
        fetch_walks_per_kilo_access: model.walks_fetch as f64 / kilo,
        faults: model.faults,
        map_changes: median.map_changes,
    })
}

/// Real programs with the model live behind them.
pub struct LivePrograms;

impl Experiment for LivePrograms {
    type Parameters = LiveParams;
    type Outcome = Live;

    fn run(params: &LiveParams, progress: Progress<'_>) -> Result<Live> {
        params.machine.read()?;
        ensure!(params.rounds > 0, "rounds is 0, but must be at least 1");
        ensure!(
            (1..=99_999_999).contains(&params.keys) && params.value_bytes > 0,
            "keys must be from 1 to 99999999 and value_bytes at least 1"
        );
        let sizes: Vec<PageSize> = params
            .page_sizes
            .iter()
            .map(|name| page_size(name))
            .collect::<Result<_>>()?;
        let load_average = load_average();
        let runs = params.programs.len() * sizes.len() * params.rounds as usize;
        let steps = Steps::new(progress, runs);
        let (mut rows, mut missing) = (Vec::new(), Vec::new());
        'programs: for program in &params.programs {
            for &pages in &sizes {
                let mut runs = Vec::new();
                for _ in 0..params.rounds {
                    match once(params, program, pages) {
                        Ok(recorded) if !recorded.partial => {
                            runs.push(recorded);
                            steps.step();
                        }
                        Ok(_) => break 'programs,
                        Err(error) => {
                            missing.push(format!("{}: {error:#}", program.name));
                            continue 'programs;
                        }
                    }
                }
                rows.extend(row(program, pages, runs));
            }
        }
        Ok(Live {
            machine: params.machine.to_string(),
            load_average,
            seed: params.seed,
            missing,
            rows,
        })
    }
}

impl Outcome for Live {
    const SCHEMA: &'static str = "ample.sim.live/1";

    fn figures(&self) -> Vec<Figure> {
        let title = "Accesses a second through the live model";
        let mut bars = Bars::new(title, Unit::Count);
        for row in &self.rows {
            let size = match row.page_bytes {
                4096 => "4 KB pages",
                _ => "2 MB pages",
            };
            let (low, high) = (row.accesses_per_s_min, row.accesses_per_s_max);
            bars.put(
                &row.program,
                size,
                with_range(row.accesses_per_s, low, high, None),
            );
        }
        vec![Figure::new("rate", title, bars.svg())]
    }
}
