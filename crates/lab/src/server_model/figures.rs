// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figure 11 (unmovable 2 MB blocks) and figure 12 (potential contiguity).

use super::campaign::{Group, campaign, groups};
use super::{
    Curve, PaperValue, ServerExperiment, ServerParams, Spread, charts, curve, steady, tables,
};
use crate::experiment::{About, Experiment, Figure, Outcome, Progress};
use ample_mm::{PolicyKind, RunResult};
use ample_report::Table;
use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Figure 11: one workload under one policy, steady state, over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fig11Row {
    /// Workload.
    pub workload: String,
    /// Policy.
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
    /// Policy.
    pub policy: PolicyKind,
    /// Metric.
    pub metric: String,
    /// Over the means of the workloads: their mean, smallest and largest.
    pub here: Spread,
    /// The paper's, if it has one.
    pub paper: Option<PaperValue>,
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
    /// Workload.
    pub workload: String,
    /// Policy.
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

fn fig11_row(group: &Group<'_>) -> Fig11Row {
    let source = |run: &RunResult, wanted| {
        let sources = &run.metrics.total.sources;
        let found = sources.iter().find(|s| s.source == wanted);
        found.and_then(|s| s.ratio).unwrap_or(0.0)
    };
    Fig11Row {
        workload: group.workload.clone(),
        policy: group.policy,
        unmovable_2m_ratio: group.over(|run| steady(run, |s| s.unmovable_2m_ratio)),
        unmovable_2m_ratio_k: group.over(|run| steady(run, |s| s.unmovable_2m_ratio_k)),
        unmovable_2m_ratio_p: group.over(|run| steady(run, |s| s.unmovable_2m_ratio_p)),
        unmovable_page_ratio: group.over(|run| steady(run, |s| s.unmovable_page_ratio)),
        internal_fragmentation_ratio: group
            .over(|run| steady(run, |s| s.internal_fragmentation_ratio)),
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

fn fig12_row(group: &Group<'_>) -> Fig12Row {
    Fig12Row {
        workload: group.workload.clone(),
        policy: group.policy,
        potential_2m_ratio: group.over(|run| steady(run, |s| s.potential_2m_ratio)),
        potential_32m_ratio: group.over(|run| steady(run, |s| s.potential_32m_ratio)),
        potential_1g_ratio: group.over(|run| steady(run, |s| s.potential_1g_ratio)),
        movable_region_ratio: group.low_ratio().map(|low| Spread {
            mean: 1.0 - low.mean,
            min: 1.0 - low.max,
            max: 1.0 - low.min,
            ..low
        }),
    }
}

/// A metric's name and its value in a row.
type Metric<'a, R> = (&'a str, &'a dyn Fn(&R) -> f64);

/// For each policy and metric, the spread over the means of the workloads.
fn summarise<R>(
    experiment: &ServerExperiment,
    rows: &[R],
    policy_of: impl Fn(&R) -> PolicyKind,
    metrics: &[Metric<'_, R>],
) -> Vec<PolicySummary> {
    let mut summary = Vec::new();
    for &policy in &experiment.params.policies {
        for (name, metric) in metrics {
            let values = rows.iter().filter(|row| policy_of(row) == policy);
            let values: Vec<f64> = values.map(metric).collect();
            if values.is_empty() {
                continue;
            }
            summary.push(PolicySummary {
                policy,
                metric: (*name).to_string(),
                here: Spread::of(values),
                paper: experiment
                    .paper
                    .iter()
                    .find(|value| value.policy == policy && value.metric == *name)
                    .cloned(),
            });
        }
    }
    summary
}

fn make_fig11(experiment: &ServerExperiment, groups: &[Group<'_>]) -> Fig11 {
    let rows: Vec<Fig11Row> = groups.iter().map(fig11_row).collect();
    let summary = summarise(
        experiment,
        &rows,
        |row| row.policy,
        &[
            ("unmovable_2m_ratio", &|row: &Fig11Row| {
                row.unmovable_2m_ratio.mean
            }),
            ("unmovable_page_ratio", &|row: &Fig11Row| {
                row.unmovable_page_ratio.mean
            }),
            ("internal_fragmentation_ratio", &|row: &Fig11Row| {
                row.internal_fragmentation_ratio.mean
            }),
            ("networking_ratio", &|row: &Fig11Row| {
                row.networking_ratio.mean
            }),
            ("slab_ratio", &|row: &Fig11Row| row.slab_ratio.mean),
        ],
    );
    Fig11 {
        experiment: experiment.clone(),
        curves: groups
            .iter()
            .map(|group| curve(&group.workload, group.policy, &group.runs))
            .collect(),
        rows,
        summary,
    }
}

fn make_fig12(experiment: &ServerExperiment, groups: &[Group<'_>]) -> Fig12 {
    let rows: Vec<Fig12Row> = groups.iter().map(fig12_row).collect();
    let summary = summarise(
        experiment,
        &rows,
        |row| row.policy,
        &[
            ("potential_2m_ratio", &|row: &Fig12Row| {
                row.potential_2m_ratio.mean
            }),
            ("potential_32m_ratio", &|row: &Fig12Row| {
                row.potential_32m_ratio.mean
            }),
            ("potential_1g_ratio", &|row: &Fig12Row| {
                row.potential_1g_ratio.mean
            }),
        ],
    );
    Fig12 {
        experiment: experiment.clone(),
        rows,
        summary,
    }
}

/// Figure 11: unmovable 2 MB blocks per workload and policy.
pub struct Fig11Experiment;

impl Experiment for Fig11Experiment {
    type Parameters = ServerParams;
    type Outcome = Fig11;

    fn run(params: &ServerParams, progress: Progress<'_>) -> Result<Fig11> {
        let experiment = ServerExperiment::of(params);
        let results = campaign(&experiment.params, progress)?;
        let groups = groups(&experiment.params, &results);
        Ok(make_fig11(&experiment, &groups))
    }
}

impl Outcome for Fig11 {
    const SCHEMA: &'static str = "ample.fig11/1";

    fn declare(&mut self, about: &About) {
        self.experiment.declare(about);
    }

    fn head(&self) -> Option<String> {
        Some(tables::head(&self.experiment))
    }

    fn tables(&self) -> Option<Vec<(String, Table)>> {
        Some(tables::fig11(self))
    }

    fn figures(&self) -> Vec<Figure> {
        let title = &self.experiment.title;
        vec![Figure::new("fig11", title, charts::fig11(self))]
    }
}

/// Figure 12: potential contiguity per workload and policy.
pub struct Fig12Experiment;

impl Experiment for Fig12Experiment {
    type Parameters = ServerParams;
    type Outcome = Fig12;

    fn run(params: &ServerParams, progress: Progress<'_>) -> Result<Fig12> {
        let experiment = ServerExperiment::of(params);
        let results = campaign(&experiment.params, progress)?;
        let groups = groups(&experiment.params, &results);
        Ok(make_fig12(&experiment, &groups))
    }
}

impl Outcome for Fig12 {
    const SCHEMA: &'static str = "ample.fig12/1";

    fn declare(&mut self, about: &About) {
        self.experiment.declare(about);
    }

    fn head(&self) -> Option<String> {
        Some(tables::head(&self.experiment))
    }

    fn tables(&self) -> Option<Vec<(String, Table)>> {
        Some(tables::fig12(self))
    }

    fn figures(&self) -> Vec<Figure> {
        let title = &self.experiment.title;
        vec![Figure::new("fig12", title, charts::fig12(self))]
    }
}
