// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer in plain language. Every number in it is a metric of the page.

use super::simulate::WhatIf;
use super::speed;
use ample_mm::{PolicyKind, RunResult};
use ample_pfn::{DefinitionSize, GroupMetrics, RatioInterval};
use ample_report::Unit;

const MB2: u64 = 2 << 20;
const GB1: u64 = 1 << 30;

/// The row of a block size under definition K.
pub(super) fn k_size(group: &GroupMetrics, size_bytes: u64) -> Option<&DefinitionSize> {
    group
        .k
        .sizes
        .iter()
        .find(|size| size.size_bytes == size_bytes)
}

/// `12 %`, or `4 to 18 %` where the data leave an interval, or a dash.
pub(super) fn interval(ratio: RatioInterval) -> String {
    let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
        return "–".into();
    };
    let (low, high) = (Unit::Percent.format(low), Unit::Percent.format(high));
    if low == high {
        low
    } else {
        format!("{} to {high}", low.trim_end_matches(" %"))
    }
}

/// A percentage for prose: no more digits than the model deserves.
pub(super) fn rounded_percent(ratio: f64) -> String {
    let percent = 100.0 * ratio;
    if percent >= 10.0 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// The last sample's share of 2 MB blocks with an unmovable page.
pub(super) fn unmovable_2m(run: &RunResult) -> f64 {
    run.samples
        .last()
        .map_or(0.0, |sample| sample.unmovable_2m_ratio)
}

/// 1 GB blocks without an unmovable page, and all 1 GB blocks of the machine.
pub(super) fn gigabytes(group: &GroupMetrics) -> (u64, u64) {
    let formable = group.o.as_ref().unwrap_or(&group.k);
    let formable = formable.sizes.iter().find(|size| size.size_bytes == GB1);
    let whole = group.sizes.iter().find(|size| size.size_bytes == GB1);
    (
        formable.map_or(0, |size| size.potential_blocks.low),
        whole.map_or(0, |size| size.whole_blocks),
    )
}

/// What to tell the owner of this machine, in plain language, one sentence each.
pub fn sentences(whatif: &WhatIf) -> Vec<String> {
    let mut sentences = vec![today(whatif)];
    let linux = whatif.future(PolicyKind::Linux);
    let contiguitas = whatif.future(PolicyKind::Contiguitas);
    if let Some(linux) = linux {
        sentences.push(stock_future(linux));
    }
    if let (Some(linux), Some(contiguitas)) = (linux, contiguitas) {
        sentences.push(comparison(linux, contiguitas));
        sentences.extend(speed::sentence(linux, contiguitas));
    }
    if let (Some(fixed), Some(contiguitas)) = (whatif.future(PolicyKind::Static), contiguitas) {
        sentences.extend(static_split(fixed, contiguitas));
    }
    sentences
}

fn today(whatif: &WhatIf) -> String {
    let total = &whatif.machine.metrics.total;
    let held = k_size(total, MB2).map_or("–".into(), |size| interval(size.unmovable_ratio));
    let (formable, whole) = k_size(total, GB1)
        .map(|size| size.potential_blocks.low)
        .zip(
            total
                .sizes
                .iter()
                .find(|s| s.size_bytes == GB1)
                .map(|s| s.whole_blocks),
        )
        .unwrap_or((0, 0));
    format!(
        "Today {held} of this machine’s 2 MB blocks hold a page that the kernel cannot move, and \
         {formable} of its {whole} whole 1 GB blocks could still become a 1 GB page."
    )
}

fn stock_future(linux: &RunResult) -> String {
    let (formable, whole) = gigabytes(&linux.metrics.total);
    let share = Unit::Percent.format(unmovable_2m(linux));
    let hours = Unit::Seconds.format(linux.duration_s);
    let name = &linux.workload;
    format!(
        "After {hours} of a {name} load stock Linux would have {share} of the 2 MB blocks \
         spoiled and {formable} of {whole} 1 GB blocks left."
    )
}

fn comparison(linux: &RunResult, contiguitas: &RunResult) -> String {
    let (share, stock) = (unmovable_2m(contiguitas), unmovable_2m(linux));
    let (formable, whole) = gigabytes(&contiguitas.metrics.total);
    let percent = Unit::Percent.format(share);
    let effect = if stock > 0.0 && share < 0.8 * stock {
        format!(
            "{:.1} times fewer than stock Linux",
            stock / share.max(1e-9)
        )
    } else if share <= 1.1 * stock {
        "about as many as stock Linux".into()
    } else {
        "more than stock Linux: on this machine and load confinement does not pay".into()
    };
    format!(
        "Under Contiguitas it would be {percent}, {effect}, with {formable} of {whole} 1 GB \
         blocks free of unmovable pages."
    )
}

/// What a fixed split costs compared with a moving border, if it shows.
fn static_split(fixed: &RunResult, contiguitas: &RunResult) -> Option<String> {
    let refused = |run: &RunResult| run.counters.failed_unmovable + run.counters.oom_kills;
    let stalls = |run: &RunResult| (run.stall_unmovable_ns + run.stall_movable_ns) as f64 / 1e9;
    if refused(fixed) > refused(contiguitas) {
        let count = Unit::Count.format(refused(fixed) as f64);
        return Some(format!(
            "A fixed split (kernelcore=) would refuse {count} kernel allocations on the way; the \
             moving border refuses {}.",
            Unit::Count.format(refused(contiguitas) as f64)
        ));
    }
    let (fixed, moving) = (stalls(fixed), stalls(contiguitas));
    (fixed > 1.5 * moving + 1.0).then(|| {
        format!(
            "A fixed split (kernelcore=) would make tasks wait {} for memory, the moving \
             border {}.",
            Unit::Seconds.format(fixed),
            Unit::Seconds.format(moving)
        )
    })
}
