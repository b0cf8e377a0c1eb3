// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each option comes to over the seeds, and which one to take.

use super::estimate::PERCENT;
use super::options::{Choice, OPTIONS, OptionInfo};
use super::simulate::SimulatedRuns;
use super::speed::{KindGain, Prices};
use crate::server_model::steady;
use ample_kit::statistics::MedianRange;
use ample_mm::RunResult;
use serde::Serialize;

/// Gain of speed below which nothing is worth a restart: the smallest that Contiguitas reports for
/// a service in production (figure 10).
pub const WORTH_RATIO: f64 = 0.02;

const GB1: f64 = (1u64 << 30) as f64;

/// One option over the seeds. Ratios are means over the last half of a run, under definition O;
/// what is not known is `None`.
#[derive(Clone, Debug, Serialize)]
pub struct Outlook {
    /// What is done to the machine.
    pub choice: Choice,
    /// 2 MB blocks with an unmovable page ÷ all.
    pub unmovable_2m_ratio: Option<MedianRange>,
    /// 1 GB blocks without an unmovable page.
    pub clean_1g_blocks: Option<MedianRange>,
    /// 1 GB pages that the load obtains at the end.
    pub hugetlb_1g_got: Option<MedianRange>,
    /// 2 MB pages that the load obtains at the end.
    pub hugetlb_2m_got: Option<MedianRange>,
    /// Kernel allocations refused, and processes killed for want of memory.
    pub refused: Option<MedianRange>,
    /// What tasks waited for memory, in seconds.
    pub waited_s: Option<MedianRange>,
    /// Speed over stock Linux of the same seed, minus one, by kind of program.
    pub gains: Vec<KindGain>,
}

/// All options, in their order; without a run of stock Linux none.
pub fn outlooks(runs: &SimulatedRuns) -> Vec<Outlook> {
    let prices = Prices::shipped();
    let stock: Vec<&RunResult> = runs.of(Choice::Nothing).collect();
    match stock.is_empty() {
        true => Vec::new(),
        false => OPTIONS
            .iter()
            .map(|option| outlook(option, runs, &stock, &prices))
            .collect(),
    }
}

fn outlook(
    option: &OptionInfo,
    simulated: &SimulatedRuns,
    stock: &[&RunResult],
    prices: &Prices,
) -> Outlook {
    let choice = option.choice;
    let runs: Vec<&RunResult> = simulated.of(choice).collect();
    let over = |value: &dyn Fn(&RunResult) -> f64| {
        MedianRange::of(runs.iter().map(|run| value(run)).collect())
    };
    let pairs: Vec<(RunResult, &RunResult)> = match choice {
        Choice::Thp => stock.iter().map(|&run| (all_huge(run), run)).collect(),
        Choice::HugetlbCma => stock.iter().map(|&run| (all_reserved(run), run)).collect(),
        _ => {
            let stock_of = |run: &RunResult| stock.iter().find(|other| other.seed == run.seed);
            let pair = |run: &&RunResult| Some(((*run).clone(), *stock_of(run)?));
            runs.iter().filter_map(pair).collect()
        }
    };
    let reserved = |run: &&RunResult| f64::from(run.huge.hugetlb_1g_wanted);
    let reserved = MedianRange::of(stock.iter().map(reserved).collect());
    let mut gains = prices.gains(&pairs);
    if choice == Choice::Thp {
        // An upper bound: what a program does not touch in whole 2 MB pages gains nothing.
        gains
            .iter_mut()
            .for_each(|gain| gain.over_stock.min = gain.over_stock.min.min(0.0));
    }
    Outlook {
        choice,
        unmovable_2m_ratio: over(&|run| steady(run, |sample| sample.unmovable_2m_ratio)),
        clean_1g_blocks: over(&|run| {
            steady(run, |sample| sample.potential_1g_ratio) * run.memory_bytes as f64 / GB1
        }),
        hugetlb_1g_got: match choice {
            Choice::HugetlbCma => reserved,
            _ => over(&|run| f64::from(run.huge.hugetlb_1g_got)),
        },
        hugetlb_2m_got: over(&|run| f64::from(run.huge.hugetlb_2m_got)),
        refused: over(&|run| refused(run) as f64),
        waited_s: over(&|run| (run.stall_unmovable_ns + run.stall_movable_ns) as f64 / 1e9),
        gains,
    }
}

fn refused(run: &RunResult) -> u64 {
    run.counters.failed_unmovable + run.counters.oom_kills
}

/// A run in which all anonymous memory that could be in 2 MB pages is.
fn all_huge(run: &RunResult) -> RunResult {
    let mut run = run.clone();
    let could = steady(&run, |sample| sample.potential_2m_ratio);
    let is = run.huge.thp_coverage_ratio.unwrap_or(0.0);
    run.huge.thp_coverage_ratio = Some(could.max(is));
    run
}

/// A run whose 1 GB pages were reserved at boot.
fn all_reserved(run: &RunResult) -> RunResult {
    let mut run = run.clone();
    run.huge.hugetlb_1g_got = run.huge.hugetlb_1g_wanted;
    run
}

impl Outlook {
    /// The gain that decides: of the kind of program that the load stands for, else over all kinds.
    pub fn gain(&self, workload: &str) -> Option<MedianRange> {
        let own = self.gains.iter().find(|gain| gain.stands_for(workload));
        own.map(|gain| gain.over_stock)
            .or_else(|| self.gain_over_kinds())
    }

    /// How it is done here: with the size that the load asks for.
    pub fn how(&self) -> String {
        let size = self.hugetlb_1g_got.map_or(0.0, |range| range.max);
        self.choice.info().how.replace("SIZE", &format!("{size}G"))
    }

    /// From the smallest gain of any kind of program to the largest.
    pub fn gain_over_kinds(&self) -> Option<MedianRange> {
        let gains = || self.gains.iter().map(|gain| gain.over_stock);
        let middle = MedianRange::of(gains().map(|gain| gain.median).collect())?;
        Some(MedianRange {
            min: gains().map(|gain| gain.min).fold(f64::INFINITY, f64::min),
            median: middle.median,
            max: gains()
                .map(|gain| gain.max)
                .fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// What to do, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// What to do.
    pub choice: Choice,
    /// The reason in a sentence or two.
    pub reason: String,
}

/// The option of least effort that gains [`WORTH_RATIO`] with every seed and refuses the kernel no
/// memory that stock Linux grants; a later one where that gains as much again. `kernel` is the
/// release that the machine runs. `None` without runs.
pub fn recommend(outlooks: &[Outlook], workload: &str, kernel: &str) -> Option<Recommendation> {
    let stock = outlooks.iter().find(|own| own.choice == Choice::Nothing)?;
    let refuses = |own: &Outlook| {
        let most = |outlook: &Outlook| outlook.refused.map_or(0.0, |range| range.max);
        most(own) > most(stock)
    };
    let can_be_had = |own: &&Outlook| match own.choice {
        Choice::Nothing | Choice::Hardware => false,
        Choice::DefragMode => has_defrag_mode(kernel),
        _ => true,
    };
    let gains = outlooks.iter().filter(can_be_had);
    let gains: Vec<(&Outlook, MedianRange)> = gains
        .filter_map(|own| Some((own, own.gain(workload)?)))
        .collect();
    let mut best: Option<(&Outlook, MedianRange)> = None;
    for &(own, gain) in gains.iter().filter(|(own, _)| !refuses(own)) {
        let over = best.map_or(0.0, |(_, best)| best.median);
        let sure = best.is_none() && gain.min >= WORTH_RATIO;
        if sure || (best.is_some() && gain.min - over >= WORTH_RATIO) {
            best = Some((own, gain));
        }
    }
    let percent = 100.0 * WORTH_RATIO;
    Some(match best {
        Some((own, gain)) => Recommendation {
            choice: own.choice,
            reason: format!(
                "{} ({}). A {workload} program gains {}, with every seed at least the {percent:.0} \
                 % that are worth a restart; what takes more effort does not gain as much again.",
                own.choice.info().name,
                own.how(),
                PERCENT.of(&gain),
            ),
        },
        None => Recommendation {
            choice: Choice::Nothing,
            reason: nothing_is_worth_it(&gains, refuses, percent),
        },
    })
}

/// Whether a kernel of this release has `vm.defrag_mode`: 6.15 and later.
fn has_defrag_mode(release: &str) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let mut part = || parts.next().and_then(|part| part.parse::<u32>().ok());
    part().zip(part()).is_some_and(|version| version >= (6, 15))
}

fn nothing_is_worth_it(
    gains: &[(&Outlook, MedianRange)],
    refuses: impl Fn(&Outlook) -> bool,
    percent: f64,
) -> String {
    let all = gains.iter();
    let best = all.max_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let best = best.map_or(String::new(), |(own, gain)| {
        let but = match refuses(own) {
            true => " and refuses kernel memory on the way",
            false => "",
        };
        format!(
            " The most is {}{but}, {}.",
            PERCENT.of(gain),
            own.choice.info().name
        )
    });
    format!(
        "do nothing: no option that can be had gains {percent:.0} % of speed with every seed, \
         which is what a restart is worth.{best}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlook(choice: Choice, gain: [f64; 3], refused: f64) -> Outlook {
        let same = |value| MedianRange::of(vec![value]);
        let [min, median, max] = gain;
        let over_stock = MedianRange { min, median, max };
        Outlook {
            choice,
            unmovable_2m_ratio: same(0.2),
            clean_1g_blocks: same(1.0),
            hugetlb_1g_got: same(1.0),
            hugetlb_2m_got: same(1.0),
            refused: same(refused),
            waited_s: same(0.0),
            gains: vec![KindGain {
                program: "web".into(),
                over_stock,
            }],
        }
    }

    fn choice(options: &[&Outlook]) -> Choice {
        let stock = outlook(Choice::Nothing, [0.0; 3], 0.0);
        let all: Vec<Outlook> = [&[&stock], options].concat().into_iter().cloned().collect();
        recommend(&all, "web", "6.18.44-fc").expect("runs").choice
    }

    #[test]
    fn the_least_effort_that_pays_for_sure_is_recommended() {
        let contiguitas = outlook(Choice::Contiguitas, [0.03, 0.04, 0.05], 0.0);
        let defrag = outlook(Choice::DefragMode, [0.02, 0.03, 0.04], 0.0);
        let unsure = outlook(Choice::Compaction, [0.01, 0.04, 0.05], 0.0);
        let refusing = outlook(Choice::Kernelcore, [0.04, 0.05, 0.06], 9.0);
        let hardware = outlook(Choice::Hardware, [0.2, 0.2, 0.2], 0.0);
        assert_eq!(choice(&[]), Choice::Nothing);
        assert_eq!(choice(&[&unsure]), Choice::Nothing);
        assert_eq!(choice(&[&refusing]), Choice::Nothing);
        assert_eq!(choice(&[&hardware]), Choice::Nothing);
        let all = [&unsure, &refusing, &defrag, &contiguitas, &hardware];
        assert_eq!(choice(&all), Choice::DefragMode);
        let much_better = outlook(Choice::Contiguitas, [0.05, 0.06, 0.07], 0.0);
        assert_eq!(choice(&[&defrag, &much_better]), Choice::Contiguitas);
    }

    #[test]
    fn a_setting_that_the_kernel_lacks_is_not_recommended() {
        let stock = outlook(Choice::Nothing, [0.0; 3], 0.0);
        let defrag = outlook(Choice::DefragMode, [0.05; 3], 0.0);
        let of = |kernel| recommend(&[stock.clone(), defrag.clone()], "web", kernel);
        assert_eq!(of("6.12.117").map(|own| own.choice), Some(Choice::Nothing));
        assert_eq!(
            of("6.15.0-rc1").map(|own| own.choice),
            Some(Choice::DefragMode)
        );
        assert!(has_defrag_mode("7.0") && !has_defrag_mode("5.99") && !has_defrag_mode("next"));
    }
}
