// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer in plain language. Every number in it is a metric of the page.

use super::estimate::{COUNT, PERCENT};
use super::options::Choice;
use super::outlook::{Outlook, Recommendation, outlooks, recommend};
use super::simulate::WhatIf;
use super::speed::{KindGain, Prices};
use ample_kit::statistics::MedianRange;
use ample_pfn::{DefinitionSize, GroupMetrics, RatioInterval};
use ample_report::Unit;
use serde::Serialize;

/// How the sentence with the recommendation begins.
pub(super) const RECOMMENDED: &str = "Recommended: ";

const MB2: u64 = 2 << 20;
const GB1: u64 = 1 << 30;

/// What to tell the owner of a machine.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Today, the likely future, what to do, and how sure that is: a sentence or two each.
    pub sentences: Vec<String>,
    /// What to do; `None` when nothing was simulated to its end.
    pub recommendation: Option<Recommendation>,
    /// All options, the least effort first.
    pub options: Vec<Outlook>,
}

/// The row of a block size under definition K.
pub(super) fn k_size(group: &GroupMetrics, size_bytes: u64) -> Option<&DefinitionSize> {
    let mut sizes = group.k.sizes.iter();
    sizes.find(|size| size.size_bytes == size_bytes)
}

/// `12 %`, or `4 to 18 %` where the data leave an interval, or a dash.
pub(super) fn interval(ratio: RatioInterval) -> String {
    let bounds = ratio.low.zip(ratio.high);
    let range = bounds.and_then(|(low, high)| MedianRange::of(vec![low, high]));
    range.map_or("–".into(), |range| PERCENT.span(&range))
}

/// Whole 1 GB blocks of the machine.
pub(super) fn whole_gigabytes(group: &GroupMetrics) -> u64 {
    let whole = group.sizes.iter().find(|size| size.size_bytes == GB1);
    whole.map_or(0, |size| size.whole_blocks)
}

/// The verdict of a page. While runs are under way it recommends nothing.
pub fn verdict(whatif: &WhatIf) -> Advice {
    let options = outlooks(&whatif.runs);
    if let Some(so_far) = &whatif.runs.under_way {
        let so_far = format!("{so_far} What to do is said when all seeds have run.");
        return Advice {
            sentences: vec![so_far, today(whatif)],
            recommendation: None,
            options,
        };
    }
    let first = whatif.runs.of(Choice::Nothing).next();
    let workload = first.map_or("", |run| run.workload.as_str());
    let recommendation = recommend(&options, workload, &whatif.machine.kernel);
    let mut sentences = vec![today(whatif)];
    let stock = options
        .iter()
        .find(|option| option.choice == Choice::Nothing);
    sentences.extend(stock.and_then(|stock| future(whatif, stock)));
    sentences.extend(
        recommendation
            .iter()
            .map(|own| format!("{RECOMMENDED}{}", own.reason)),
    );
    sentences.extend(worth(whatif));
    sentences.extend(stock.map(|_| how_sure(whatif, workload)));
    Advice {
        sentences,
        recommendation,
        options,
    }
}

fn today(whatif: &WhatIf) -> String {
    let total = &whatif.machine.metrics.total;
    let held = k_size(total, MB2).map_or("–".into(), |size| interval(size.unmovable_ratio));
    let formable = k_size(total, GB1).map_or(0, |size| size.potential_blocks.low);
    format!(
        "Today {held} of this machine’s 2 MB blocks hold a page that the kernel cannot move, and \
         {formable} of its {} whole 1 GB blocks could still become a 1 GB page.",
        whole_gigabytes(total)
    )
}

/// The likely future of the machine as it is.
fn future(whatif: &WhatIf, stock: &Outlook) -> Option<String> {
    let run = whatif.runs.of(Choice::Nothing).next()?;
    let huge = &run.huge;
    Some(format!(
        "Left as it is, after {} of {} load {} of the 2 MB blocks are spoiled, and of {} 1 GB \
         blocks {} are free of unmovable pages. The load then obtains {} of the {} 2 MB pages \
         and {} of the {} 1 GB pages that it asks for.",
        Unit::Seconds.format(run.duration_s),
        match whatif.recorded {
            Some(_) => "its own".to_string(),
            None => format!("a {}", run.workload),
        },
        PERCENT.of(&stock.unmovable_2m_ratio?),
        whole_gigabytes(&run.metrics.total),
        COUNT.of(&stock.clean_1g_blocks?),
        COUNT.of(&stock.hugetlb_2m_got?),
        huge.hugetlb_2m_wanted,
        COUNT.of(&stock.hugetlb_1g_got?),
        huge.hugetlb_1g_wanted,
    ))
}

/// What contiguity is worth here, over the kinds of programs.
fn worth(whatif: &WhatIf) -> Option<String> {
    let mut stock = whatif.runs.of(Choice::Nothing).peekable();
    stock.peek()?;
    let gains = Prices::shipped().another_tenth(stock);
    let of = |gain: &KindGain| format!("{} {}", gain.program, PERCENT.of(&gain.over_stock));
    let all: Vec<String> = gains.iter().map(of).collect();
    Some(match all.is_empty() {
        true => "Less than a tenth of the load’s memory is in 4 KB pages: more 2 MB pages win \
                 next to nothing here."
            .to_string(),
        false => format!(
            "Another tenth of memory in 2 MB pages is worth, by the kind of program on the \
             simulated processor: {}.",
            all.join(", ")
        ),
    })
}

fn how_sure(whatif: &WhatIf, workload: &str) -> String {
    let seeds = whatif.runs.of(Choice::Nothing).count();
    let chance = 100.0 * (1.0 - 2f64.powi(1 - seeds as i32));
    format!(
        "How sure: medians of {seeds} seeds over the last half of each run; brackets hold the \
         smallest and the largest, and with {chance:.0} % probability the median of more seeds. \
         {}",
        whatif.recorded.map_or_else(
            || format!(
                "The load is {workload}, a typical one for a machine of this size and not yours: \
                 nothing was recorded here (ample whatif --record 10m)."
            ),
            |own| own.sentence()
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_the_data_has_no_more_digits_than_it_bears() {
        let ratio = |low, high| RatioInterval {
            low: Some(low),
            high: Some(high),
        };
        assert_eq!(interval(ratio(0.0815, 0.13)), "8 to 13 %");
        assert_eq!(interval(ratio(0.25, 0.25)), "25 %");
    }
}
