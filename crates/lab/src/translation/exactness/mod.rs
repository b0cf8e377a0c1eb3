// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of the translation model that have a formula: what the formula gives beside what the
//! model counts. Random accesses must come close, everything else must be equal.

mod pages;
mod tlbs;

use crate::charts::{line, lines};
use crate::experiment::{Experiment, Figure, Outcome, Progress, Text};
use crate::machines::MachineChoice;
use crate::progress::Steps;
use crate::stop;
use ample_kit::random::SplitMix64;
use ample_report::{Series, Unit};
use ample_translate::{
    Engine, Geometry, IdealFrames, Intent, MmuConfig, NoMemory, PageSize, PwcKind, TlbArray,
    schemes,
};
use anyhow::{Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

/// Where all checks put their memory.
const BASE: u64 = 1 << 40;
/// "Within 0.2 %".
const WITHIN: f64 = 0.002;

/// TLBs and the number of accesses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExactnessParams {
    /// Machine preset of the rows that do not describe their own hardware.
    pub machine: MachineChoice,
    /// TLBs under uniform random accesses.
    pub uniform: Vec<UniformTlb>,
    /// Pages accessed, in entries of the TLB; above 1.
    pub pages_per_entry: Vec<f64>,
    /// Random accesses before counting starts.
    pub uniform_warm_up: u64,
    /// Random accesses counted.
    pub uniform_accesses: u64,
    /// Seed of programs and draws.
    pub seed: u64,
}

/// One TLB of one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UniformTlb {
    /// Entries of all ways.
    pub entries: u32,
    /// Entries of a set.
    pub ways: u32,
    /// Size of the pages.
    pub page: PageSize,
}

/// When a row is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExactRule {
    /// Equal to the access.
    Equal,
    /// Within 0.2 % of what is expected.
    Within,
    /// At most what is expected.
    AtMost,
}

/// One count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExactnessRow {
    /// What law it belongs to.
    pub law: Text,
    /// Hardware and accesses.
    pub case: String,
    /// What is counted.
    pub count: Text,
    /// What the formula gives.
    pub expected: f64,
    /// What the model counted.
    pub here: f64,
    /// `here` minus `expected`.
    pub difference: f64,
    /// How the two are compared.
    pub rule: ExactRule,
    /// The greatest difference allowed.
    pub bar: f64,
    /// Whether it is kept.
    pub met: bool,
    /// Pages accessed over entries, where the law speaks of both.
    pub pages_per_entry: Option<f64>,
}

/// The rows of one law.
struct Rows {
    law: &'static str,
    /// Hardware and accesses of the rows to come.
    case: String,
    list: Vec<ExactnessRow>,
}

impl Rows {
    fn new(law: &'static str) -> Self {
        Rows {
            law,
            case: String::new(),
            list: Vec::new(),
        }
    }

    fn case(&mut self, case: impl Into<String>) {
        self.case = case.into();
    }

    /// Adds what is expected and what was counted.
    fn push(&mut self, count: &'static str, rule: ExactRule, (expected, here): (f64, f64)) {
        let difference = here - expected;
        let bar = match rule {
            ExactRule::Within => WITHIN * expected,
            ExactRule::Equal | ExactRule::AtMost => 0.0,
        };
        let met = match rule {
            ExactRule::Equal | ExactRule::Within => difference.abs() <= bar,
            ExactRule::AtMost => difference <= bar,
        };
        self.list.push(ExactnessRow {
            law: self.law.into(),
            case: self.case.clone(),
            count: count.into(),
            expected,
            here,
            difference,
            rule,
            bar,
            met,
            pages_per_entry: None,
        });
    }

    /// Adds two counts of events that must be equal.
    fn equal(&mut self, count: &'static str, expected: u64, here: u64) {
        self.push(count, ExactRule::Equal, (expected as f64, here as f64));
    }
}

/// All counts with a formula, and how many keep their bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exactness {
    /// The machine, as the parameters name it.
    pub machine: String,
    /// Seed of programs and draws.
    pub seed: u64,
    /// Rows that keep their bar.
    pub rows_met: usize,
    /// Rows that do not.
    pub rows_missed: usize,
    /// Counts, law by law.
    pub rows: Vec<ExactnessRow>,
}

/// One TLB array for 4 KB and 2 MB pages, no second level, at most one cache of PDEs.
fn bare(mmu: &MmuConfig, l1: Geometry, pwc: Vec<Geometry>) -> MmuConfig {
    MmuConfig {
        levels: 4,
        l1d: vec![TlbArray::new(&[PageSize::K4, PageSize::M2], l1)],
        l2: vec![],
        pwc: match pwc.is_empty() {
            true => PwcKind::Absent,
            false => PwcKind::PerLevel(pwc),
        },
        host_pwc: None,
        nested_tlb: None,
        nested_cycles: 1,
        reference_cycles: 0,
        prefetch_next: false,
        ..mmu.clone()
    }
}

/// An engine with `bytes` bytes mapped from [`BASE`] with pages of `size`.
fn engine(config: &MmuConfig, name: &str, bytes: u64, size: PageSize) -> Result<Engine> {
    let scheme = schemes::by_name(name).map_err(|e| anyhow!(e))?;
    let frames = Box::new(IdealFrames::new(bytes * 2 + (64 << 20)));
    let mut engine = Engine::new(config, scheme, frames, 1).map_err(|e| anyhow!(e))?;
    engine.premap(BASE, bytes, size)?;
    Ok(engine)
}

/// Reads one address.
fn read(engine: &mut Engine, va: u64) -> Result<u64> {
    let answer = engine.translate(va, Intent::Read, 0, &mut NoMemory);
    Ok(answer.map_err(|e| anyhow!(e))?.pa)
}

/// Accesses between two looks at the stop flag.
const CHECK_EVERY: u64 = 1 << 16;

/// Reads words anywhere in the first `bytes` bytes.
fn uniform(engine: &mut Engine, bytes: u64, accesses: u64, rng: &mut SplitMix64) -> Result<()> {
    for at in 0..accesses {
        if at % CHECK_EVERY == 0 {
            stop::checkpoint();
        }
        read(engine, BASE + rng.below(bytes / 8) * 8)?;
    }
    Ok(())
}

/// Reads every page once, in order.
fn sweep(engine: &mut Engine, pages: u64, size: PageSize) -> Result<()> {
    (0..pages).try_for_each(|page| read(engine, BASE + page * size.bytes()).map(drop))
}

/// Counts of the model against closed forms.
pub struct ExactCounts;

impl Experiment for ExactCounts {
    type Parameters = ExactnessParams;
    type Outcome = Exactness;

    fn run(params: &ExactnessParams, progress: Progress<'_>) -> Result<Exactness> {
        let mmu = params.machine.read()?.mmu;
        ensure!(
            params.uniform_accesses > 0 && !params.uniform.is_empty(),
            "uniform and uniform_accesses must not be empty or 0"
        );
        type Law = fn(&MmuConfig, &ExactnessParams) -> Result<Rows>;
        let laws: [Law; 8] = [
            tlbs::uniform_misses,
            tlbs::reach,
            tlbs::inclusion,
            tlbs::walk_references,
            pages::nested_walks,
            pages::no_holes,
            pages::all_holes,
            pages::segment,
        ];
        let steps = Steps::new(progress, laws.len());
        let rows = stop::collect(|rows: &mut Vec<ExactnessRow>| {
            for law in laws {
                rows.extend(law(&mmu, params)?.list);
                steps.step();
            }
            Ok(())
        })?;
        let rows_met = rows.iter().filter(|row| row.met).count();
        Ok(Exactness {
            machine: params.machine.to_string(),
            seed: params.seed,
            rows_met,
            rows_missed: rows.len() - rows_met,
            rows,
        })
    }
}

impl Outcome for Exactness {
    const SCHEMA: &'static str = "ample.sim.exactness/1";

    fn figures(&self) -> Vec<Figure> {
        let title = "Misses of uniform random accesses by log2 of pages over entries";
        let mut law: Vec<(f64, f64)> = Vec::new();
        let mut series: Vec<Series> = Vec::new();
        for row in &self.rows {
            let Some(ratio) = row.pages_per_entry else {
                continue;
            };
            law.push((ratio.log2(), row.expected));
            let point = (ratio.log2(), row.here);
            let name = row
                .case
                .rsplit_once(", ")
                .map_or(row.case.as_str(), |(name, _)| name);
            match series.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => series.push(line(name, [point])),
            }
        }
        law.sort_by(|a, b| a.0.total_cmp(&b.0));
        law.dedup();
        series.push(line("1 − E/W", law));
        let mut chart = lines(
            title,
            [
                ("log2 of pages ÷ entries", Unit::Plain),
                ("misses", Unit::Percent),
            ],
            series,
        );
        chart.y_max = Some(1.0);
        vec![Figure::new("misses", title, chart.to_svg())]
    }
}
