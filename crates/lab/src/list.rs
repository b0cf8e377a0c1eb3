// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of all experiments.

use crate::experiment::{AnyExperiment, Cost};
use crate::hardware::{defrag, hugepages, losses, one_page, steps, sweep, traffic, unavailable};
use crate::names::nearest;
use crate::server_model::{
    AblationExperiment, Convergence, Fig11Experiment, Fig12Experiment, compaction, denied, fleet,
    recorded_kernel,
};
use crate::tools::guests::GuestCheck;
use crate::tools::temeraire::Temeraire;
use crate::translation::{
    chase, directseg, exactness, fig10, footprint, fragmentation, live, perforated, segments,
    simulator_speed, speedup, storage, walks,
};
use anyhow::{Result, bail};

/// Every experiment.
pub const ALL: &[&dyn AnyExperiment] = &[
    &Fig11Experiment,
    &Fig12Experiment,
    &AblationExperiment {
        id: "ablation",
        text: include_str!("../../../experiments/ablation.toml"),
        full: Cost::new(900.0, 400, 0),
    },
    &AblationExperiment {
        id: "ablation-day",
        text: include_str!("../../../experiments/ablation-day.toml"),
        full: Cost::new(600.0, 200, 0),
    },
    &fleet::FleetModel,
    &denied::FewPagesDeny,
    &compaction::RoomForSegment,
    &crate::presets::PaperInputs,
    &Convergence,
    &recorded_kernel::RecordedKernel,
    &speedup::Speedup,
    &fig10::HugePageGains,
    &directseg::DirectSeg,
    &footprint::Footprint,
    &segments::KernelSegments,
    &perforated::Perforated {
        id: "perforated",
        text: include_str!("../../../experiments/perforated.toml"),
    },
    &perforated::Perforated {
        id: "perforated-programs",
        text: include_str!("../../../experiments/perforated-programs.toml"),
    },
    &storage::Storage,
    &chase::ChaseLatency,
    &simulator_speed::SimulatorSpeed,
    &exactness::ExactCounts,
    &live::LivePrograms,
    &fragmentation::RealFragmentation,
    &walks::Walks,
    &unavailable::Unavailable,
    &traffic::Traffic,
    &losses::Losses,
    &one_page::OnePage,
    &hugepages::HugePages,
    &defrag::Defrag,
    &steps::MigrationSteps,
    &sweep::Sweep,
    &crate::tools::rtl::TableRtl,
    &crate::tools::model_check::ModelCheck,
    &Temeraire {
        id: "temeraire-fig9",
        text: include_str!("../../../experiments/temeraire-fig9.toml"),
        claims: &[],
    },
    &Temeraire {
        id: "temeraire-fig10",
        text: include_str!("../../../experiments/temeraire-fig10.toml"),
        claims: &["tm.fig10"],
    },
    &Temeraire {
        id: "temeraire-fig11",
        text: include_str!("../../../experiments/temeraire-fig11.toml"),
        claims: &["tm.fig11"],
    },
    &Temeraire {
        id: "temeraire-fig12",
        text: include_str!("../../../experiments/temeraire-fig12.toml"),
        claims: &["tm.fig12"],
    },
    &crate::tools::heaps::AllocatorFleet,
    &crate::tools::kernel::KernelBench,
    &GuestCheck {
        id: "kernel-confine",
        text: include_str!("../../../experiments/kernel-confine.toml"),
        full: Cost::new(7200.0, 8000, 0),
        quick: Cost::new(20.0, 200, 1),
    },
    &GuestCheck {
        id: "kernel-storm",
        text: include_str!("../../../experiments/kernel-storm.toml"),
        full: Cost::new(3600.0, 4000, 0),
        quick: Cost::new(20.0, 200, 1),
    },
    &GuestCheck {
        id: "kernel-hotpath",
        text: include_str!("../../../experiments/kernel-hotpath.toml"),
        full: Cost::new(3600.0, 4000, 0),
        quick: Cost::new(20.0, 200, 1),
    },
    &crate::scan_bench::ScanBench,
];

/// The experiment of an id.
///
/// # Errors
/// If there is none: the message names the nearest id and all that exist.
pub fn by_id(id: &str) -> Result<&'static dyn AnyExperiment> {
    if let Some(found) = ALL.iter().find(|experiment| experiment.about().id == id) {
        return Ok(*found);
    }
    let ids = || ALL.iter().map(|experiment| experiment.about().id);
    let hint = nearest(id, ids()).map_or(String::new(), |id| format!("did you mean {id}? "));
    bail!(
        "there is no experiment {id:?}; {hint}there are: {}",
        ids().collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_dependencies_exist() {
        let mut ids: Vec<&str> = ALL.iter().map(|e| e.about().id).collect();
        for experiment in ALL {
            for needed in experiment.about().depends_on {
                assert!(ids.contains(needed), "{needed}");
            }
        }
        ids.sort_unstable();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count);
        let error = by_id("fig1").err().expect("no such id").to_string();
        assert!(error.contains("did you mean fig1"), "{error}");
    }
}
