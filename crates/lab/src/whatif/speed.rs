// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the page sizes that a policy delivers are worth in speed: the server model's mix of
//! 4 KB, 2 MB and 1 GB pages, priced with the translation simulator's table.

use super::servers::{bar, policies, servers_of, workloads};
use super::simulate::WhatIf;
use super::verdict;
use crate::charts::Bars;
use crate::translation::speedup::{SpeedTable, Speedups, page_mix, program_of, shipped};
use ample_mm::{PolicyKind, RunResult};
use ample_report::Section;
use ample_report::Unit;

/// Prices page mixes for the workloads that have a program in the shipped table.
pub(super) struct Prices(Speedups);

impl Prices {
    pub(super) fn shipped() -> Prices {
        Prices(shipped())
    }

    fn table(&self, workload: &str) -> Option<&SpeedTable> {
        self.0.table(program_of(workload)?)
    }

    /// Speed over 4 KB pages only; `None` for a workload without a program.
    fn speed(&self, run: &RunResult) -> Option<f64> {
        self.table(&run.workload)?.speedup(&page_mix(run)).ok()
    }

    /// Speed of a run over that of another, minus one.
    pub(super) fn gain(&self, run: &RunResult, over: &RunResult) -> Option<f64> {
        Some(self.speed(run)? / self.speed(over)? - 1.0)
    }
}

/// The section with the shape of figure 10.
pub(super) fn section(whatif: &WhatIf) -> Section {
    let prices = Prices::shipped();
    let runs = &whatif.runs.servers;
    let policies: Vec<PolicyKind> = policies(runs)
        .into_iter()
        .filter(|&p| p != PolicyKind::Linux)
        .collect();
    let baseline = |run: &RunResult| {
        runs.iter().find(|other| {
            other.policy == PolicyKind::Linux
                && other.workload == run.workload
                && other.seed == run.seed
        })
    };
    let gain = |run: &RunResult| {
        baseline(run)
            .and_then(|linux| prices.gain(run, linux))
            .unwrap_or(f64::NAN)
    };
    let priced = workloads(runs)
        .into_iter()
        .filter(|name| prices.table(name).is_some());
    let title = "Speed over stock Linux from page sizes alone";
    let mut bars = Bars::new(title, Unit::Percent);
    for workload in priced {
        for &policy in &policies {
            let keep = |run: &RunResult| run.policy == policy && run.workload == workload;
            let paper = (policy == PolicyKind::Contiguitas && workload == "web").then_some(0.09);
            bars.put(workload, policy.name(), bar(runs, &keep, &gain, paper));
        }
    }
    Section::new(
        "speed",
        &format!("{}: what the page sizes buy", servers_of(runs)),
    )
    .text(
        "Simulated twice over: the page sizes that each policy could deliver, priced by a \
             simulated processor (Table 1 of the paper) running a program of the workload’s \
             kind. Only translation differs; the paper’s 2 to 18 % are end-to-end on production \
             servers (figure 10; 9 % for Web on a partially fragmented machine).",
    )
    .figure(
        &bars.svg(),
        "Gain over stock Linux of the same workload and seed.",
    )
}

/// One sentence for the verdict, where the workload has a price.
pub(super) fn sentence(linux: &RunResult, contiguitas: &RunResult) -> Option<String> {
    let gain = Prices::shipped().gain(contiguitas, linux)?;
    Some(phrase(gain, &contiguitas.workload))
}

fn phrase(gain: f64, workload: &str) -> String {
    let verb = if gain.abs() < 0.0005 {
        format!("would leave the speed of a {workload} program as it is under stock Linux")
    } else {
        let percent = verdict::rounded_percent(gain.abs());
        let direction = if gain >= 0.0 { "faster" } else { "slower" };
        format!("would run a {workload} program {percent} {direction} than those of stock Linux")
    };
    format!("The page sizes that this delivers {verb}, on the simulated processor.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_difference_is_not_called_faster() {
        assert!(phrase(0.0004, "web").contains("as it is under stock Linux"));
        assert!(phrase(-0.02, "web").contains("slower than those"));
        assert!(phrase(0.02, "web").contains("faster than those"));
    }
}
