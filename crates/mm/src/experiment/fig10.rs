// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figure 10, the part that a memory manager decides: which huge pages a workload gets when it
//! lands on a fragmented server (Contiguitas §5.1). What they are worth in speed is the business
//! of the translation simulator.

use super::figures::{campaign, groups, share};
use super::{Experiment, ExperimentError, PaperValue, Progress, Spread};
use crate::config::PolicyKind;
use serde::Serialize;

/// A server fragmented by one workload under one policy, over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fig10Row {
    /// What fragmented it: `fragmenter-full` for the paper's full fragmentation, the workload
    /// itself for partial fragmentation.
    pub fragmented_by: String,
    /// Policy.
    pub policy: PolicyKind,
    /// Unmovable 2 MB blocks ÷ all, definition O, when the workload lands.
    pub unmovable_2m_ratio: Spread,
    /// Unmovable 4 KB pages ÷ all.
    pub unmovable_page_ratio: Spread,
    /// 2 MB HugeTLB pages obtained ÷ asked for; `None` if none were asked for.
    pub hugetlb_2m_success_ratio: Option<Spread>,
    /// 1 GB HugeTLB pages obtained ÷ asked for; `None` if none were asked for.
    pub hugetlb_1g_success_ratio: Option<Spread>,
    /// The paper's values for this row.
    pub paper: Vec<PaperValue>,
}

/// Figure 10.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fig10 {
    /// `ample.fig10/1`.
    pub schema: &'static str,
    /// The experiment as declared.
    pub experiment: Experiment,
    /// Setup by policy.
    pub rows: Vec<Fig10Row>,
}

/// Fragments servers, ends what fragmented them, and asks for huge pages.
///
/// # Errors
/// [`ExperimentError`] when a workload or the memory size is wrong.
pub fn fig10(experiment: &Experiment, progress: Progress<'_>) -> Result<Fig10, ExperimentError> {
    let results = campaign(&experiment.params, progress)?;
    let rows = groups(&experiment.params, &results)
        .into_iter()
        .map(|group| {
            let last = |metric: fn(&crate::Sample) -> f64| {
                group.over(|run| run.samples.last().map_or(0.0, metric))
            };
            let of_row = |value: &&PaperValue| {
                value.policy == group.policy && value.workload.as_ref() == Some(&group.workload)
            };
            Fig10Row {
                unmovable_2m_ratio: last(|s| s.unmovable_2m_ratio),
                unmovable_page_ratio: last(|s| s.unmovable_page_ratio),
                hugetlb_2m_success_ratio: group
                    .over_known(|run| share(run.huge.hugetlb_2m_got, run.huge.hugetlb_2m_wanted)),
                hugetlb_1g_success_ratio: group
                    .over_known(|run| share(run.huge.hugetlb_1g_got, run.huge.hugetlb_1g_wanted)),
                paper: experiment.paper.iter().filter(of_row).cloned().collect(),
                fragmented_by: group.workload,
                policy: group.policy,
            }
        });
    Ok(Fig10 {
        schema: "ample.fig10/1",
        experiment: experiment.clone(),
        rows: rows.collect(),
    })
}
