// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of the server model as tables.

use super::{Ablation, Fig11, Fig12, PaperValue, PolicySummary, ServerExperiment, Spread};
use ample_pfn::format_bytes;
use ample_report::{Align, Table, Unit};

/// What was run, what was calibrated, and how to read the cells.
pub(super) fn head(experiment: &ServerExperiment) -> String {
    let params = &experiment.params;
    let seeds: Vec<String> = params.seeds.iter().map(u64::to_string).collect();
    format!(
        "{}\nsimulated: {} servers, {} each, seeds {}, event ratio {}\ncalibrated: {}\n\
         predicted: {}\nmean [smallest, largest] over seeds; second half of each run\n",
        experiment.title,
        format_bytes(params.memory_bytes),
        Unit::Seconds.format(params.duration_s),
        seeds.join(" "),
        params.event_ratio,
        experiment.calibrated,
        experiment.predicted
    )
}

fn percent(spread: &Spread) -> String {
    let one = |value: f64| format!("{:.1}", 100.0 * value);
    if spread.n < 2 {
        return format!("{} %", one(spread.mean));
    }
    format!(
        "{} % [{}, {}]",
        one(spread.mean),
        one(spread.min),
        one(spread.max)
    )
}

fn plain(spread: &Spread) -> String {
    Unit::Count.format(spread.mean)
}

fn seconds(spread: &Spread) -> String {
    Unit::Seconds.format(spread.mean)
}

/// `31 %`, `at most 9 %`, `19 to 42 %`, as the paper gives it.
fn paper(value: Option<&PaperValue>) -> String {
    let Some(value) = value else {
        return "–".into();
    };
    let percent = |v: f64| Unit::Percent.format(v);
    let range = match (value.min, value.max) {
        (Some(min), Some(max)) => Some(format!("{} to {}", percent(min), percent(max))),
        (None, Some(max)) => Some(format!("at most {}", percent(max))),
        (Some(min), None) => Some(format!("at least {}", percent(min))),
        (None, None) => None,
    };
    match (value.mean.map(percent), range) {
        (Some(mean), Some(range)) => format!("{mean} ({range})"),
        (Some(mean), None) => mean,
        (None, Some(range)) => range,
        (None, None) => "–".into(),
    }
}

fn summary(rows: &[PolicySummary]) -> (String, Table) {
    let mut table = Table::new(&[
        ("over workloads", Align::Left),
        ("metric", Align::Left),
        ("here", Align::Right),
        ("paper", Align::Right),
    ]);
    for row in rows {
        table.row(vec![
            row.policy.name().to_string(),
            row.metric.clone(),
            percent(&row.here),
            paper(row.paper.as_ref()),
        ]);
    }
    (String::new(), table)
}

/// Figure 11.
pub(super) fn fig11(result: &Fig11) -> Vec<(String, Table)> {
    let mut table = Table::new(&[
        ("workload", Align::Left),
        ("policy", Align::Left),
        ("unmovable 2M, O", Align::Right),
        ("K", Align::Right),
        ("P", Align::Right),
        ("pages, O", Align::Right),
        ("free inside", Align::Right),
        ("2M got", Align::Right),
        ("1G got", Align::Right),
        ("refused", Align::Right),
    ]);
    for row in &result.rows {
        let mean = |spread: &Spread| format!("{:.1} %", 100.0 * spread.mean);
        table.row(vec![
            row.workload.clone(),
            row.policy.name().to_string(),
            percent(&row.unmovable_2m_ratio),
            mean(&row.unmovable_2m_ratio_k),
            mean(&row.unmovable_2m_ratio_p),
            mean(&row.unmovable_page_ratio),
            mean(&row.internal_fragmentation_ratio),
            row.hugetlb_2m_success_ratio
                .as_ref()
                .map_or("–".into(), mean),
            row.hugetlb_1g_success_ratio
                .as_ref()
                .map_or("–".into(), mean),
            plain(&row.failed_unmovable),
        ]);
    }
    vec![(String::new(), table), summary(&result.summary)]
}

/// Figure 12.
pub(super) fn fig12(result: &Fig12) -> Vec<(String, Table)> {
    let mut table = Table::new(&[
        ("workload", Align::Left),
        ("policy", Align::Left),
        ("potential 2M", Align::Right),
        ("potential 32M", Align::Right),
        ("potential 1G", Align::Right),
        ("movable region", Align::Right),
    ]);
    for row in &result.rows {
        table.row(vec![
            row.workload.clone(),
            row.policy.name().to_string(),
            percent(&row.potential_2m_ratio),
            percent(&row.potential_32m_ratio),
            percent(&row.potential_1g_ratio),
            row.movable_region_ratio
                .as_ref()
                .map_or("–".into(), percent),
        ]);
    }
    vec![(String::new(), table), summary(&result.summary)]
}

/// The ablation.
pub(super) fn ablation(result: &Ablation) -> Vec<(String, Table)> {
    let mut table = Table::new(&[
        ("workload", Align::Left),
        ("variant", Align::Left),
        ("unmovable 2M", Align::Right),
        ("potential 1G", Align::Right),
        ("low region", Align::Right),
        ("free inside", Align::Right),
        ("refused", Align::Right),
        ("pins refused", Align::Right),
        ("waiting, kernel", Align::Right),
        ("waiting, user", Align::Right),
        ("border up/down", Align::Right),
        ("claims", Align::Right),
    ]);
    for row in &result.rows {
        let variant = row.without.as_ref().map_or_else(
            || row.policy.name().to_string(),
            |mechanism| format!("without {mechanism}"),
        );
        table.row(vec![
            row.workload.clone(),
            variant,
            percent(&row.unmovable_2m_ratio),
            percent(&row.potential_1g_ratio),
            percent(&row.low_region_ratio),
            percent(&row.internal_fragmentation_ratio),
            plain(&row.failed_unmovable),
            plain(&row.failed_pins),
            seconds(&row.stall_unmovable_s),
            seconds(&row.stall_movable_s),
            format!(
                "{}/{}",
                plain(&row.border_expanded_blocks),
                plain(&row.border_shrunk_blocks)
            ),
            plain(&row.emergency_claims),
        ]);
    }
    vec![(String::new(), table)]
}
