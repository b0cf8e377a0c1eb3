// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hardware of a slice: what is proven of it, what follows the protocol's code, which planted
//! faults are found (`hw/formal`, `hw/sim`, `hw/faults.sh`), and what it costs (`hw/cost.sh`).

use super::finished;
use super::rtl::script;
use crate::charts::{bar_figure, with_range};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::needs::source_tree;
use crate::progress::Steps;
use ample_report::Unit;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::process::Command;

/// What to check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceParams {
    /// Proofs, of `slice`, `controller` and `chip`.
    pub proofs: Vec<String>,
    /// Time for each proof.
    pub proof_s: u32,
    /// Random runs of the whole chip, of 1,000 cycles each, for each seed.
    pub chip_runs: u32,
    /// Seeds of these runs.
    pub seeds: Vec<u64>,
    /// Forms of the co-simulation: `light`, `quick`, `full`.
    pub cosimulations: Vec<String>,
    /// Planted faults, by name; `named` for all, `changed N` for N mechanical changes.
    pub faults: Vec<String>,
}

/// One line that a check prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckedLine {
    /// The check: the script and its argument.
    pub check: String,
    /// What it says.
    pub said: String,
}

/// A fault that was planted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpoiltHardware {
    /// As in `hw/faults.sh`.
    pub fault: String,
    /// What found it; null when nothing did.
    pub found_by: Option<String>,
}

/// What `hw-slice` gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceChecked {
    /// Proofs and simulations that hold.
    pub checks: Vec<CheckedLine>,
    /// Of these, the ones that failed.
    pub failed: u32,
    /// Planted faults.
    pub faults: Vec<SpoiltHardware>,
}

/// The checks of a slice's hardware.
pub struct SliceHardware;

impl Experiment for SliceHardware {
    type Parameters = SliceParams;
    type Outcome = SliceChecked;

    fn run(params: &SliceParams, progress: Progress<'_>) -> Result<SliceChecked> {
        let (proofs, seeds) = (params.proofs.len(), params.seeds.len());
        let count = proofs + seeds + params.cosimulations.len() + params.faults.len();
        let steps = Steps::new(progress, count);
        let mut result = SliceChecked::default();
        let (seconds, runs) = (params.proof_s.to_string(), params.chip_runs.to_string());
        for proof in &params.proofs {
            let args = ["--seconds", &seconds, proof];
            result.check("hw/formal/prove.sh", &args, proof)?;
            steps.step();
        }
        for seed in &params.seeds {
            let seed = seed.to_string();
            result.check("hw/sim/chip.sh", &["hw/rtl", &runs, &seed], "whole chip")?;
            steps.step();
        }
        for form in &params.cosimulations {
            result.check("hw/sim/cosim.sh", &[form], form)?;
            steps.step();
        }
        for fault in &params.faults {
            result.plant(fault)?;
            steps.step();
        }
        Ok(result)
    }
}

/// The lines that a script of the source tree prints, and whether it ended well; `None` after an
/// early end.
fn lines_of(name: &str, args: &[&str]) -> Result<Option<(Vec<String>, bool)>> {
    let root = source_tree().context("not in the source tree")?;
    let mut command = Command::new(root.join(name));
    let Some(ended) = finished(command.args(args).current_dir(root))? else {
        return Ok(None);
    };
    if !(0..=1).contains(&ended.code) && ended.code != 3 {
        let last = ended.err.trim_end().lines().last().unwrap_or_default();
        bail!("{name} ended with code {}: {last}", ended.code);
    }
    let lines = ended.out.lines().map(str::to_owned).collect();
    Ok(Some((lines, ended.code != 1)))
}

impl SliceChecked {
    fn check(&mut self, name: &str, args: &[&str], what: &str) -> Result<()> {
        let Some((lines, holds)) = lines_of(name, args)? else {
            return Ok(());
        };
        let verdicts = ["prove:", "chip", "equal:", "DIFFERENT", "portal"];
        let said = lines
            .into_iter()
            .filter(|line| verdicts.iter().any(|verdict| line.starts_with(verdict)));
        self.checks.extend(said.map(|said| CheckedLine {
            check: format!("{name} {what}"),
            said,
        }));
        self.failed += u32::from(!holds);
        Ok(())
    }

    fn plant(&mut self, fault: &str) -> Result<()> {
        let args: Vec<&str> = fault.split(' ').collect();
        let Some((lines, _)) = lines_of("hw/faults.sh", &args)? else {
            return Ok(());
        };
        let told = lines.iter().filter_map(|line| {
            let found = line.strip_prefix("found   ");
            let (fault, how) = found.or(line.strip_prefix("MISSED  "))?.split_once(": ")?;
            Some(SpoiltHardware {
                fault: fault.into(),
                found_by: found.map(|_| how.into()),
            })
        });
        self.faults.extend(told);
        Ok(())
    }
}

impl Outcome for SliceChecked {
    const SCHEMA: &'static str = "ample.hw-slice/1";

    fn holds(&self) -> bool {
        self.failed == 0 && self.faults.iter().all(|f| f.found_by.is_some())
    }
}

/// Which blocks to map; none: all of them, with times and energy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostParams {
    /// Modules of `hw/rtl`.
    pub blocks: Vec<String>,
}

/// A block on the cells of an open library, carried to 22 nm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockArea {
    /// The module in `hw/rtl`, without its prefix.
    pub block: String,
    /// Flip-flops of the mapped netlist.
    pub flip_flops: u64,
    /// All cells of the mapped netlist.
    pub cells: u64,
    /// Area in NAND2 gates of the library.
    pub nand2_equivalents: u64,
    /// By a dense library of 22 nm.
    pub area_low_mm2: f64,
    /// By the library's own cells, shrunk.
    pub area_high_mm2: f64,
}

/// The longest of some paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathTime {
    /// From which registers to which.
    pub path: String,
    /// In the library.
    pub ns_at_180nm: f64,
    /// In delays of an inverter that drives four.
    pub fo4: f64,
    /// At 8 ps a FO4 delay.
    pub low_ps: f64,
    /// At 16 ps a FO4 delay.
    pub high_ps: f64,
}

/// Energy with the switching of a co-simulation, low and high.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SliceEnergy {
    /// Cycles replayed.
    pub cycles: u64,
    /// Requests in them.
    pub requests: u64,
    /// Nets that change for each request.
    pub nets_changed_a_request: u64,
    /// Of the clock, in each cycle.
    pub clock_pj_a_cycle: [f64; 2],
    /// Of all else, for each request.
    pub data_pj_a_request: [f64; 2],
    /// Leakage of all cells, by what a gate leaks.
    pub leakage_mw: [f64; 2],
}

/// The mapped gates beside the RTL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateReplay {
    /// Cycles of the replay.
    pub cycles: u64,
    /// Outputs compared in each.
    pub outputs: u64,
    /// Outputs that differed.
    pub different: u64,
    /// Outputs that were unknown in the gates, before a register was written.
    pub not_known: u64,
}

/// What `hw-cost` gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceCost {
    /// Areas of the blocks that were mapped.
    pub areas: Vec<BlockArea>,
    /// A FO4 delay of the library.
    pub fo4_ns_at_180nm: Option<f64>,
    /// The longest paths, where all blocks were mapped.
    pub times: Vec<PathTime>,
    /// With the switching of a co-simulation, where all blocks were mapped.
    pub energy: Option<SliceEnergy>,
    /// The replay of the mapped gates.
    pub replay: Option<GateReplay>,
}

/// Area, timing and energy of a slice's hardware.
pub struct HardwareCost;

impl Experiment for HardwareCost {
    type Parameters = CostParams;
    type Outcome = SliceCost;

    fn run(params: &CostParams, _progress: Progress<'_>) -> Result<SliceCost> {
        let blocks: Vec<&str> = params.blocks.iter().map(String::as_str).collect();
        Ok(script("cost.sh", &blocks)?.unwrap_or_default())
    }
}

impl Outcome for SliceCost {
    const SCHEMA: &'static str = "ample.hw-cost/1";

    fn holds(&self) -> bool {
        self.replay
            .as_ref()
            .is_none_or(|replay| replay.different == 0)
    }

    fn figures(&self) -> Vec<Figure> {
        let title = "Area of the blocks at 22 nm, thousandths of a mm², by two ways to get there";
        let bar = |block: &BlockArea| {
            let (low, high) = (1e3 * block.area_low_mm2, 1e3 * block.area_high_mm2);
            let paper = (block.block == "table").then_some(3.8);
            let bar = with_range((low + high) / 2.0, low, high, paper);
            (block.block.clone(), "area", bar)
        };
        bar_figure("area", title, Unit::Plain, self.areas.iter().map(bar))
    }
}
