// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figure 11 (unmovable 2 MB blocks) and figure 12 (potential contiguity).

use super::campaign::{Group, campaign, policies};
use super::{Curve, PaperValue, ServerExperiment, ServerParams, Spread, curve};
use crate::charts::{Bars, of_spread};
use crate::experiment::{About, Experiment, Figure, Outcome, Progress};
use ample_mm::{PolicyKind, RunResult};
use ample_report::Unit;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Figure 11: one workload under one policy, steady state, over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fig11Row {
    pub workload: String,
    pub policy: PolicyKind,
    /// Unmovable 2 MB blocks ÷ all, definition O: the headline.
    pub unmovable_2m_ratio: Spread,
    /// The same under definition K.
    pub unmovable_2m_ratio_k: Spread,
    /// The same under definition P.
    pub unmovable_2m_ratio_p: Spread,
    /// Unmovable 4 KB pages ÷ all, definition O.
    pub unmovable_page_ratio: Spread,
    /// Free pages inside unmovable 2 MB blocks.
    pub internal_fragmentation_ratio: Spread,
    /// Memory below the border ÷ all memory; `None` without a border.
    pub low_region_ratio: Option<Spread>,
    /// Failed kernel allocations of a run.
    pub failed_unmovable: Spread,
    /// Networking's share of unmovable pages at the end.
    pub networking_ratio: Spread,
    /// Slab's share.
    pub slab_ratio: Spread,
    /// 2 MB HugeTLB pages obtained ÷ asked for at the end; `None` if none were asked for.
    pub hugetlb_2m_success_ratio: Option<Spread>,
    /// 1 GB HugeTLB pages obtained ÷ asked for at the end; `None` if none were asked for,
    /// as on a machine of which the workload's share is below half a page.
    pub hugetlb_1g_success_ratio: Option<Spread>,
    /// Anonymous memory in 2 MB pages at the end; `None` without anonymous memory.
    pub thp_coverage_ratio: Option<Spread>,
}

/// One policy over all workloads, beside the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicySummary {
    pub policy: PolicyKind,
    pub metric: String,
    /// Over the means of the workloads: their mean, smallest and largest.
    pub here: Spread,
    /// The same of each seed alone.
    pub seeds: SummaryEnds,
    /// The paper's, if it has one.
    pub paper: Option<PaperValue>,
}

/// The least and the greatest over the seeds of what a summary has over the workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryEnds {
    /// Of the mean over the workloads.
    pub mean: [f64; 2],
    /// Of the workload that has the smallest value.
    pub min: [f64; 2],
    /// Of the workload that has the largest value.
    pub max: [f64; 2],
}

impl SummaryEnds {
    /// Of the spread over the workloads with each seed.
    fn of(seeds: &[Spread]) -> SummaryEnds {
        let ends = |part: fn(&Spread) -> f64| {
            let over = Spread::of(seeds.iter().map(part));
            [over.min, over.max]
        };
        SummaryEnds {
            mean: ends(|spread| spread.mean),
            min: ends(|spread| spread.min),
            max: ends(|spread| spread.max),
        }
    }
}

/// Figure 11.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fig11 {
    /// The experiment as declared.
    pub experiment: ServerExperiment,
    /// Workload by policy.
    pub rows: Vec<Fig11Row>,
    /// Over workloads.
    pub summary: Vec<PolicySummary>,
    /// Over time.
    pub curves: Vec<Curve>,
}

/// Figure 12: one workload under one policy, at the end of the run, over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fig12Row {
    pub workload: String,
    pub policy: PolicyKind,
    /// Memory in 2 MB blocks without an unmovable page, definition O.
    pub potential_2m_ratio: Spread,
    /// In 32 MB blocks.
    pub potential_32m_ratio: Spread,
    /// In 1 GB blocks.
    pub potential_1g_ratio: Spread,
    /// Movable memory (all but the low region) ÷ all memory; `None` without a border.
    pub movable_region_ratio: Option<Spread>,
}

/// Figure 12.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fig12 {
    /// The experiment as declared.
    pub experiment: ServerExperiment,
    /// Workload by policy.
    pub rows: Vec<Fig12Row>,
    /// Over workloads.
    pub summary: Vec<PolicySummary>,
}

/// Part of the pages asked for that were obtained; `None` if none were asked for.
pub(super) fn share(got: u32, wanted: u32) -> Option<f64> {
    (wanted > 0).then(|| f64::from(got) / f64::from(wanted))
}

fn fig11_row(group: &Group) -> Fig11Row {
    let source = |run: &RunResult, wanted| {
        let sources = &run.metrics.total.sources;
        let found = sources.iter().find(|s| s.source == wanted);
        found.and_then(|s| s.ratio).unwrap_or(0.0)
    };
    Fig11Row {
        workload: group.workload.clone(),
        policy: group.policy,
        unmovable_2m_ratio: group.steady(|s| s.unmovable_2m_ratio),
        unmovable_2m_ratio_k: group.steady(|s| s.unmovable_2m_ratio_k),
        unmovable_2m_ratio_p: group.steady(|s| s.unmovable_2m_ratio_p),
        unmovable_page_ratio: group.steady(|s| s.unmovable_page_ratio),
        internal_fragmentation_ratio: group.steady(|s| s.internal_fragmentation_ratio),
        low_region_ratio: group.low_ratio(),
        failed_unmovable: group.over(|run| run.counters.failed_unmovable as f64),
        networking_ratio: group.over(|run| source(run, ample_pfn::Source::Networking)),
        slab_ratio: group.over(|run| source(run, ample_pfn::Source::Slab)),
        hugetlb_2m_success_ratio: group
            .over_known(|run| share(run.huge.hugetlb_2m_got, run.huge.hugetlb_2m_wanted)),
        hugetlb_1g_success_ratio: group
            .over_known(|run| share(run.huge.hugetlb_1g_got, run.huge.hugetlb_1g_wanted)),
        thp_coverage_ratio: group.over_known(|run| run.huge.thp_coverage_ratio),
    }
}

fn fig12_row(group: &Group) -> Fig12Row {
    Fig12Row {
        workload: group.workload.clone(),
        policy: group.policy,
        potential_2m_ratio: group.steady(|s| s.potential_2m_ratio),
        potential_32m_ratio: group.steady(|s| s.potential_32m_ratio),
        potential_1g_ratio: group.steady(|s| s.potential_1g_ratio),
        movable_region_ratio: group.low_ratio().map(|low| Spread {
            mean: 1.0 - low.mean,
            min: 1.0 - low.max,
            max: 1.0 - low.min,
            ..low
        }),
    }
}

/// A metric's name and its value in a row.
type Metric<R> = (&'static str, fn(&R) -> Spread);

const FIG11_METRICS: [Metric<Fig11Row>; 5] = [
    ("unmovable_2m_ratio", |row| row.unmovable_2m_ratio),
    ("unmovable_page_ratio", |row| row.unmovable_page_ratio),
    ("internal_fragmentation_ratio", |row| {
        row.internal_fragmentation_ratio
    }),
    ("networking_ratio", |row| row.networking_ratio),
    ("slab_ratio", |row| row.slab_ratio),
];

const FIG12_METRICS: [Metric<Fig12Row>; 3] = [
    ("potential_2m_ratio", |row| row.potential_2m_ratio),
    ("potential_32m_ratio", |row| row.potential_32m_ratio),
    ("potential_1g_ratio", |row| row.potential_1g_ratio),
];

/// For each policy and metric, the spread over the means of the workloads, and that with each seed.
fn summarise<R>(
    experiment: &ServerExperiment,
    groups: &[Group],
    row_of: fn(&Group) -> R,
    metrics: &[Metric<R>],
) -> Vec<PolicySummary> {
    let mut summary = Vec::new();
    for &policy in &experiment.params.policies {
        let own: Vec<&Group> = groups.iter().filter(|g| g.policy == policy).collect();
        let Some(seeds) = own.first().map(|group| group.runs.len()) else {
            continue;
        };
        let rows: Vec<R> = own.iter().map(|group| row_of(group)).collect();
        let of_seed = |at| own.iter().map(|group| row_of(&group.of_seed(at))).collect();
        let by_seed: Vec<Vec<R>> = (0..seeds).map(of_seed).collect();
        for (name, metric) in metrics {
            let over = |rows: &Vec<R>| Spread::of(rows.iter().map(|row| metric(row).mean));
            let seeds: Vec<Spread> = by_seed.iter().map(over).collect();
            let paper = experiment.paper.iter();
            let mut paper = paper.filter(|p| p.policy == policy && p.metric == *name);
            summary.push(PolicySummary {
                policy,
                metric: (*name).to_string(),
                here: over(&rows),
                seeds: SummaryEnds::of(&seeds),
                paper: paper.next().cloned(),
            });
        }
    }
    summary
}

/// Puts the policies' bars of one metric over all workloads.
fn put_overall(bars: &mut Bars, group: &str, summary: &[PolicySummary], metric: &str) {
    for row in summary.iter().filter(|row| row.metric == metric) {
        let paper = row.paper.as_ref().and_then(|p| p.mean.or(p.max));
        bars.put(group, row.policy.name(), of_spread(&row.here, paper));
    }
}

/// Figure 11: unmovable 2 MB blocks per workload and policy.
pub struct Fig11Experiment;

impl Experiment for Fig11Experiment {
    type Parameters = ServerParams;
    type Outcome = Fig11;

    fn run(params: &ServerParams, progress: Progress<'_>) -> Result<Fig11> {
        let experiment = ServerExperiment::of(params);
        let groups = campaign(params, &policies(params), progress)?;
        let rows: Vec<Fig11Row> = groups.iter().map(fig11_row).collect();
        let curves = groups.iter();
        Ok(Fig11 {
            summary: summarise(&experiment, &groups, fig11_row, &FIG11_METRICS),
            curves: curves
                .map(|group| curve(&group.workload, group.policy, &group.runs))
                .collect(),
            experiment,
            rows,
        })
    }
}

impl Outcome for Fig11 {
    const SCHEMA: &'static str = "ample.fig11/1";

    fn declare(&mut self, about: &About) {
        self.experiment.declare(about);
    }

    fn head(&self) -> Option<String> {
        self.experiment.head()
    }

    fn figures(&self) -> Vec<Figure> {
        let title = &self.experiment.title;
        let mut bars = Bars::new(title, Unit::Percent);
        for row in &self.rows {
            let bar = of_spread(&row.unmovable_2m_ratio, None);
            bars.put(&row.workload, row.policy.name(), bar);
        }
        put_overall(&mut bars, "mean", &self.summary, "unmovable_2m_ratio");
        vec![Figure::new("fig11", title, bars.svg())]
    }
}

/// Figure 12: potential contiguity per workload and policy.
pub struct Fig12Experiment;

impl Experiment for Fig12Experiment {
    type Parameters = ServerParams;
    type Outcome = Fig12;

    fn run(params: &ServerParams, progress: Progress<'_>) -> Result<Fig12> {
        let experiment = ServerExperiment::of(params);
        let groups = campaign(params, &policies(params), progress)?;
        let rows: Vec<Fig12Row> = groups.iter().map(fig12_row).collect();
        Ok(Fig12 {
            summary: summarise(&experiment, &groups, fig12_row, &FIG12_METRICS),
            experiment,
            rows,
        })
    }
}

impl Outcome for Fig12 {
    const SCHEMA: &'static str = "ample.fig12/1";

    fn declare(&mut self, about: &About) {
        self.experiment.declare(about);
    }

    fn head(&self) -> Option<String> {
        self.experiment.head()
    }

    fn figures(&self) -> Vec<Figure> {
        let title = &self.experiment.title;
        let mut bars = Bars::new(title, Unit::Percent).up_to(1.0);
        for ((metric, _), group) in FIG12_METRICS.iter().zip(["2 MB", "32 MB", "1 GB"]) {
            put_overall(&mut bars, group, &self.summary, metric);
        }
        vec![Figure::new("fig12", title, bars.svg())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_the_ends_of_each_seed_alone() {
        let summary = |seeds: &[u64]| {
            let params = ServerParams {
                memory_bytes: 256 << 20,
                duration_s: 120.0,
                sample_every_s: 60.0,
                seeds: seeds.to_vec(),
                workloads: vec!["web".into(), "ci".into()],
                policies: vec![PolicyKind::Linux],
                ..ServerParams::default()
            };
            let mut report = Fig11Experiment::run(&params, &|_| {}).expect("runs");
            report.summary.remove(0)
        };
        let (both, one, other) = (summary(&[1, 2]), summary(&[1]), summary(&[2]));
        let ends = |part: fn(&Spread) -> f64| {
            let (one, other) = (part(&one.here), part(&other.here));
            [one.min(other), one.max(other)]
        };
        assert_eq!(both.seeds.mean, ends(|spread| spread.mean));
        assert_eq!(both.seeds.min, ends(|spread| spread.min));
        assert_eq!(both.seeds.max, ends(|spread| spread.max));
        assert!(both.seeds.mean[0] < both.here.mean && both.here.mean < both.seeds.mean[1]);
        assert_eq!(one.seeds.mean, [one.here.mean; 2]);
    }
}
