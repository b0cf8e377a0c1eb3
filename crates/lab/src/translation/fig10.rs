// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contiguitas, figure 10: the huge pages that server workloads get under each policy, and
//! the end-to-end speed they buy, on servers that the same workload has fragmented ("partial")
//! and on servers that a fragmenter has filled before ("full"). Page sizes come from the server
//! model, their worth from the shipped speed table.

use super::speedup::{self, SpeedTable, page_mix, transparent_mix};
use crate::charts::{Bars, of_spread};
use crate::experiment::{Experiment, Figure, Outcome, Progress, Text};
use crate::machines::MachineChoice;
use crate::progress::Steps;
use crate::server_model::Spread;
use crate::server_model::check_memory;
use crate::setup::PageMix;
use crate::stop;
use ample_mm::{Config, CostlyRequests, PolicyKind, RunResult, Sample, Workload, run_after};
use ample_report::Unit;
use anyhow::{Result, ensure};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Servers, workloads and policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fig10Params {
    /// Preset of the shipped speed table, which must have been made with it.
    pub machine: MachineChoice,
    /// Workloads with a program in the speed table, and the paper's gains.
    pub workloads: Vec<Fig10Workload>,
    /// Workload that fragments a server fully, and for how long.
    pub fragmenter: String,
    /// Simulated seconds of the fragmenter.
    pub fragmenter_s: f64,
    /// Simulated seconds of the workload.
    pub duration_s: f64,
    /// Memory of each server, bytes.
    pub memory_bytes: u64,
    /// Policies; the first is what the others are compared with.
    pub policies: Vec<PolicyKind>,
    pub seeds: Vec<u64>,
    /// How far the allocator goes for 2 MB pages: `patient` or `kernel`.
    #[serde(default, skip_serializing_if = "CostlyRequests::is_kernel")]
    pub costly: CostlyRequests,
}

/// One workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fig10Workload {
    pub name: String,
    /// It places its memory in the HugeTLB pages that it obtains, and what is left in transparent
    /// ones; without it all is in those (section 5.1: Web alone asks for HugeTLB pages).
    pub hugetlb: bool,
    /// Fig10Gain of Contiguitas over fully fragmented Linux in the paper: least and most.
    pub paper_over_full: [f64; 2],
    /// The same over partially fragmented Linux.
    pub paper_over_partial: [f64; 2],
    /// 2 MB and 1 GB pages obtained ÷ asked for in the paper.
    pub paper_got: Option<PaperGot>,
}

/// Shares of the 2 MB and of the 1 GB pages obtained, where the paper gives them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperGot {
    /// Linux, fully fragmented.
    pub linux_full: [f64; 2],
    /// Linux, partially fragmented.
    pub linux_partial: [f64; 2],
    /// Contiguitas, either way.
    pub contiguitas: [f64; 2],
}

impl PaperGot {
    fn of(&self, kind: PolicyKind, full: bool) -> Option<[f64; 2]> {
        match (kind, full) {
            (PolicyKind::Linux, true) => Some(self.linux_full),
            (PolicyKind::Linux, false) => Some(self.linux_partial),
            (PolicyKind::Contiguitas, _) => Some(self.contiguitas),
            _ => None,
        }
    }
}

/// The page sizes of one server and what they are worth, means over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fig10Server {
    pub workload: String,
    pub policy: PolicyKind,
    /// `partial` or `full`.
    pub fragmentation: Text,
    /// Unmovable 4 KB pages ÷ all when the pages are asked for.
    pub unmovable_page_ratio: Spread,
    /// Unmovable 2 MB blocks ÷ all, definition O, when the pages are asked for.
    pub unmovable_2m_ratio: Spread,
    /// 2 MB HugeTLB pages obtained ÷ asked for; null if none were asked for.
    pub got_2m_ratio: Option<Spread>,
    /// 1 GB HugeTLB pages obtained ÷ asked for; null if none were asked for.
    pub got_1g_ratio: Option<Spread>,
    /// The paper's shares of 2 MB and 1 GB pages; null where it has none.
    pub paper_got: Option<[f64; 2]>,
    /// Anonymous memory in transparent huge pages ÷ all anonymous memory.
    pub thp_coverage_ratio: Option<Spread>,
    /// Share of the workload's memory in 2 MB pages.
    pub share_2m: f64,
    /// Share in 1 GB pages.
    pub share_1g: f64,
    /// Speed over 4 KB pages.
    pub speed: Spread,
    /// Part of the speed that the 1 GB pages bring, over the same server without them.
    pub gain_of_1g: f64,
    /// The least of the seeds.
    pub gain_of_1g_min: f64,
    /// The greatest of the seeds.
    pub gain_of_1g_max: f64,
}

/// Fig10Gain of a policy over the first one, as a ratio, means over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fig10Gain {
    pub workload: String,
    pub policy: PolicyKind,
    /// Fragmentation of both servers.
    pub fragmentation: Text,
    pub gain: Spread,
    /// Paper, least and most; null for policies that it has no figure for.
    pub paper: Option<[f64; 2]>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fig10Speeds {
    /// Machine preset of the speed table.
    pub machine: String,
    /// Memory of each server, bytes.
    pub memory_bytes: u64,
    pub seeds: Vec<u64>,
    pub gains: Vec<Fig10Gain>,
    pub servers: Vec<Fig10Server>,
}

/// Runs one server of each seed, side by side.
fn runs(params: &Fig10Params, name: &str, kind: PolicyKind, full: bool) -> Result<Vec<RunResult>> {
    let workload = Workload::load(name)?;
    let fragmenter = Workload::load(&params.fragmenter)?;
    let before = full.then_some((&fragmenter, params.fragmenter_s));
    let run = |&seed: &u64| {
        stop::checkpoint();
        let told = |_| stop::checkpoint();
        let config = Config {
            memory_bytes: params.memory_bytes,
            seed,
            costly: params.costly,
            ..Config::new(kind)
        };
        Ok(run_after(
            &config,
            before,
            &workload,
            params.duration_s,
            &told,
        )?)
    };
    params.seeds.par_iter().map(run).collect()
}

/// Figure 10 of Contiguitas.
pub struct HugePageGains;

impl Experiment for HugePageGains {
    type Parameters = Fig10Params;
    type Outcome = Fig10Speeds;

    fn run(params: &Fig10Params, progress: Progress<'_>) -> Result<Fig10Speeds> {
        let table = speedup::shipped();
        ensure!(
            table.machine == params.machine.to_string(),
            "the shipped speed table is of '{}', not of '{}'; known: {}",
            table.machine,
            params.machine,
            table.machine
        );
        ensure!(
            !params.seeds.is_empty() && !params.policies.is_empty(),
            "seeds and policies must each list at least one"
        );
        check_memory(params.memory_bytes)?;
        let runs = 2 * params.workloads.len() * params.policies.len();
        let steps = Steps::new(progress, runs);
        let mut figure = Fig10Speeds {
            machine: table.machine.clone(),
            memory_bytes: params.memory_bytes,
            seeds: params.seeds.clone(),
            gains: Vec::new(),
            servers: Vec::new(),
        };
        for workload in &params.workloads {
            let table = table.of_workload(&workload.name)?;
            for full in [false, true] {
                let compared =
                    stop::until_stopped(|| figure.compare(params, table, workload, full, &steps));
                if compared.transpose()?.is_none() {
                    return Ok(figure);
                }
            }
        }
        Ok(figure)
    }
}

impl Outcome for Fig10Speeds {
    const SCHEMA: &'static str = "ample.sim.fig10/3";

    fn figures(&self) -> Vec<Figure> {
        let title = "Speed over stock Linux on a fragmented server";
        let mut bars = Bars::new(title, Unit::Percent);
        for row in &self.gains {
            let group = format!("{}, {}", row.workload, row.fragmentation);
            // A range of the paper has no mark.
            let paper = row.paper.filter(|[low, high]| low == high);
            let bar = of_spread(&row.gain, paper.map(|[low, _]| low));
            bars.put(&group, row.policy.name(), bar);
        }
        vec![Figure::new("gains", title, bars.svg())]
    }
}

impl Fig10Speeds {
    /// Adds one workload on servers in one state.
    fn compare(
        &mut self,
        params: &Fig10Params,
        table: &SpeedTable,
        workload: &Fig10Workload,
        full: bool,
        steps: &Steps<'_>,
    ) -> Result<()> {
        let fragmentation: Text = if full { "full" } else { "partial" }.into();
        let mut baseline: Option<Vec<f64>> = None;
        for &kind in &params.policies {
            let results = runs(params, &workload.name, kind, full)?;
            steps.step();
            let (server, speeds) = server(table, &results, workload.hugetlb)?;
            self.servers.push(Fig10Server {
                workload: workload.name.clone(),
                policy: kind,
                fragmentation: fragmentation.clone(),
                paper_got: workload.paper_got.and_then(|got| got.of(kind, full)),
                ..server
            });
            let Some(baseline) = &baseline else {
                baseline = Some(speeds);
                continue;
            };
            let over = speeds
                .iter()
                .zip(baseline)
                .map(|(new, old)| new / old - 1.0);
            let gain = Spread::of(over);
            self.gains.push(Fig10Gain {
                workload: workload.name.clone(),
                policy: kind,
                fragmentation: fragmentation.clone(),
                gain,
                paper: (kind == PolicyKind::Contiguitas).then_some(match full {
                    true => workload.paper_over_full,
                    false => workload.paper_over_partial,
                }),
            });
        }
        Ok(())
    }
}

/// Spread of what is known.
fn known(values: impl Iterator<Item = Option<f64>>) -> Option<Spread> {
    let mut values = values.flatten().peekable();
    values.peek()?;
    Some(Spread::of(values))
}

fn obtained(got: u32, wanted: u32) -> Option<f64> {
    (wanted > 0).then(|| f64::from(got) / f64::from(wanted))
}

/// The pages of one server, over its seeds, what they are worth, and the speed of each seed.
fn server(
    table: &SpeedTable,
    runs: &[RunResult],
    hugetlb: bool,
) -> Result<(Fig10Server, Vec<f64>)> {
    let mix = if hugetlb { page_mix } else { transparent_mix };
    let mixes: Vec<PageMix> = runs.iter().map(mix).collect();
    let huge = || runs.iter().map(|run| &run.huge);
    let price = |mix: &PageMix| table.speedup(mix);
    let speeds = mixes.iter().map(price).collect::<Result<Vec<f64>>>()?;
    let bare = mixes.iter().map(|mix| price(&mix.without_1g()));
    let bare = bare.collect::<Result<Vec<f64>>>()?;
    let mean = |value: &dyn Fn(usize) -> f64| {
        (0..mixes.len()).map(value).sum::<f64>() / mixes.len() as f64
    };
    let last = |value: fn(&Sample) -> f64| {
        let of_run = |run: &RunResult| run.samples.last().map_or(0.0, value);
        Spread::of(runs.iter().map(of_run))
    };
    let of_1g = Spread::of((0..mixes.len()).map(|at| speeds[at] / bare[at] - 1.0));
    let server = Fig10Server {
        workload: String::new(),
        policy: PolicyKind::Linux,
        fragmentation: Text::default(),
        unmovable_page_ratio: last(|sample| sample.unmovable_page_ratio),
        unmovable_2m_ratio: last(|sample| sample.unmovable_2m_ratio),
        got_2m_ratio: known(huge().map(|h| obtained(h.hugetlb_2m_got, h.hugetlb_2m_wanted))),
        got_1g_ratio: known(huge().map(|h| obtained(h.hugetlb_1g_got, h.hugetlb_1g_wanted))),
        paper_got: None,
        thp_coverage_ratio: known(huge().map(|h| h.thp_coverage_ratio)),
        share_2m: mean(&|at| mixes[at].share_2m),
        share_1g: mean(&|at| mixes[at].share_1g),
        speed: Spread::of(speeds.iter().copied()),
        gain_of_1g: of_1g.mean,
        gain_of_1g_min: of_1g.min,
        gain_of_1g_max: of_1g.max,
    };
    Ok((server, speeds))
}
