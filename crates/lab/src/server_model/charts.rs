// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of the server model as charts.

use crate::server_model::{Ablation, Fig11, Fig12, PolicySummary, Spread};
use ample_mm::PolicyKind;
use ample_report::{Bar, BarChart, BarGroup, Unit};

fn bar(spread: &Spread, paper: Option<f64>) -> Bar {
    Bar {
        value: Some(spread.mean),
        spread: Some((spread.min, spread.max)),
        paper,
    }
}

/// One group per workload, one bar per policy, from rows in that order.
fn by_workload<R>(
    rows: &[R],
    policies: &[PolicyKind],
    key: impl Fn(&R) -> (&str, PolicyKind),
    value: impl Fn(&R) -> Spread,
) -> Vec<BarGroup> {
    let mut groups: Vec<BarGroup> = Vec::new();
    for row in rows {
        let (workload, policy) = key(row);
        if groups.last().is_none_or(|group| group.label != workload) {
            let bars = vec![Bar::default(); policies.len()];
            groups.push(BarGroup {
                label: workload.to_string(),
                bars,
            });
        }
        let index = policies.iter().position(|&p| p == policy);
        if let (Some(group), Some(index)) = (groups.last_mut(), index) {
            group.bars[index] = bar(&value(row), None);
        }
    }
    groups
}

fn overall(summary: &[PolicySummary], metric: &str, label: &str) -> BarGroup {
    let rows = summary.iter().filter(|row| row.metric == metric);
    let bars = rows.map(|row| bar(&row.here, row.paper.as_ref().and_then(|p| p.mean.or(p.max))));
    BarGroup {
        label: label.to_string(),
        bars: bars.collect(),
    }
}

fn names(policies: &[PolicyKind]) -> Vec<String> {
    policies
        .iter()
        .map(|policy| policy.name().to_string())
        .collect()
}

/// Figure 11.
pub(super) fn fig11(result: &Fig11) -> String {
    let policies = &result.experiment.params.policies;
    let mut groups = by_workload(
        &result.rows,
        policies,
        |row| (&row.workload, row.policy),
        |row| row.unmovable_2m_ratio,
    );
    groups.push(overall(&result.summary, "unmovable_2m_ratio", "mean"));
    BarChart {
        title: result.experiment.title.clone(),
        series: names(policies),
        groups,
        unit: Unit::Percent,
        max: None,
    }
    .to_svg()
}

/// Figure 12.
pub(super) fn fig12(result: &Fig12) -> String {
    let metrics = [
        ("potential_2m_ratio", "2 MB"),
        ("potential_32m_ratio", "32 MB"),
        ("potential_1g_ratio", "1 GB"),
    ];
    let groups = metrics
        .iter()
        .map(|(metric, label)| overall(&result.summary, metric, label));
    BarChart {
        title: result.experiment.title.clone(),
        series: names(&result.experiment.params.policies),
        groups: groups.collect(),
        unit: Unit::Percent,
        max: Some(1.0),
    }
    .to_svg()
}

/// The ablation: unmovable blocks and free pages inside the region, one group a variant.
pub(super) fn ablation(result: &Ablation) -> String {
    let groups = result.rows.iter().map(|row| BarGroup {
        label: row
            .without
            .clone()
            .unwrap_or_else(|| row.policy.name().to_string()),
        bars: vec![
            bar(&row.unmovable_2m_ratio, None),
            bar(&row.internal_fragmentation_ratio, None),
        ],
    });
    BarChart {
        title: result.experiment.title.clone(),
        series: vec![
            "unmovable 2 MB blocks".into(),
            "free pages inside them".into(),
        ],
        groups: groups.collect(),
        unit: Unit::Percent,
        max: None,
    }
    .to_svg()
}
