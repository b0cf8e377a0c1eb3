// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of all experiments.

use crate::experiment::{AnyExperiment, Listed, Request};
use crate::hardware::{defrag, hugepages, losses, one_page, steps, sweep, traffic, unavailable};
use crate::server_model::{
    AblationExperiment, Convergence, Fig11Experiment, Fig12Experiment, FittedNumbers,
    HwClassesExperiment, compaction, denied, drift, fleet, foresight, recorded_kernel,
    restart_pages, scatter,
};
use crate::tools::guests::GuestCheck;
use crate::tools::temeraire::Temeraire;
use crate::tools::{drops, heaps, kernel, layers, lifetime, model_check, rtl, slice};
use crate::translation::{
    chase, directseg, exactness, fig10, footprint, fragmentation, gains, live, perforated,
    segments, sensitivity, services, simulator_speed, speedup, storage, walks,
};
use crate::{presets, scan_bench};
use ample_kit::names::nearest;
use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

/// The list from the names of files under `experiments/` and the types that run them.
macro_rules! listed {
    ($($id:literal: $experiment:ty,)*) => {
        /// Every experiment.
        pub static ALL: &[&dyn AnyExperiment] = &[$({
            const FILE: &str = include_str!(concat!("../../../experiments/", $id, ".toml"));
            static LISTED: Listed<$experiment> = Listed::new(FILE);
            &LISTED
        },)*];
    };
}

listed! {
    "fig11": Fig11Experiment,
    "fig12": Fig12Experiment,
    "ablation": AblationExperiment,
    "ablation-day": AblationExperiment,
    "hw-classes": HwClassesExperiment,
    "server-sensitivity": FittedNumbers,
    "fleet-model": fleet::FleetModel,
    "denied-blocks": denied::FewPagesDeny,
    "segment-compaction": compaction::RoomForSegment,
    "presets": presets::PaperInputs,
    "drift": drift::Drift,
    "convergence": Convergence,
    "kernel-replay": recorded_kernel::RecordedKernel,
    "foresight": foresight::Foresight,
    "scatter": scatter::WhatScatters,
    "restart-pages": restart_pages::RestartPages,
    "speedup": speedup::Speedup,
    "fig10": fig10::HugePageGains,
    "gain-sensitivity": gains::FittedGains,
    "directseg": directseg::DirectSeg,
    "translation-sensitivity": sensitivity::AssumedNumbers,
    "footprint": footprint::Footprint,
    "segments": segments::KernelSegments,
    "perforated": perforated::Perforated,
    "perforated-programs": perforated::Perforated,
    "perforated-storage": storage::Storage,
    "chase": chase::ChaseLatency,
    "chase-stride": chase::stride::StridedChase,
    "simulator-speed": simulator_speed::SimulatorSpeed,
    "exactness": exactness::ExactCounts,
    "live": live::LivePrograms,
    "fragmentation": fragmentation::RealFragmentation,
    "walks": walks::Walks,
    "service-sensitivity": services::FittedShapes,
    "hw-unavailable": unavailable::Unavailable,
    "hw-traffic": traffic::Traffic,
    "hw-losses": losses::Losses,
    "hw-migration": one_page::OnePage,
    "hw-hugepages": hugepages::HugePages,
    "hw-defrag": defrag::Defrag,
    "hw-steps": steps::MigrationSteps,
    "hw-sweep": sweep::Sweep,
    "hw-rtl": rtl::TableRtl,
    "hw-slice": slice::SliceHardware,
    "hw-cost": slice::HardwareCost,
    "model-check": model_check::ModelCheck,
    "temeraire-fig9": Temeraire,
    "temeraire-fig10": Temeraire,
    "temeraire-fig11": Temeraire,
    "temeraire-fig12": Temeraire,
    "temeraire-drop": drops::Drops,
    "allocator-fleet": heaps::AllocatorFleet,
    "lifetime": lifetime::Lifetime,
    "kernel-bench": kernel::KernelBench,
    "layers": layers::Layers,
    "kernel-confine": GuestCheck,
    "kernel-rivals": GuestCheck,
    "kernel-traffic": GuestCheck,
    "kernel-storm": GuestCheck,
    "kernel-hotpath": GuestCheck,
    "scan-bench": scan_bench::ScanBench,
}

/// The shipped parameters of an experiment or the quick version of them.
///
/// # Errors
/// When there is no such experiment or its parameters are of another type.
pub fn shipped_parameters<P: DeserializeOwned>(id: &str, quick: bool) -> Result<P> {
    let request = Request {
        quick,
        ..Request::default()
    };
    let prepared = by_id(id)?.prepare(&request)?;
    serde_json::from_value(prepared.parameters).with_context(|| format!("parameters of {id}"))
}

/// The experiment of an id.
///
/// # Errors
/// If there is none: the message names the nearest id and all that exist.
pub fn by_id(id: &str) -> Result<&'static dyn AnyExperiment> {
    if let Some(found) = ALL.iter().find(|experiment| experiment.about().id == id) {
        return Ok(*found);
    }
    let ids = || ALL.iter().map(|experiment| experiment.about().id.as_str());
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
        let mut ids: Vec<&String> = ALL.iter().map(|e| &e.about().id).collect();
        for experiment in ALL {
            for needed in &experiment.about().depends_on {
                assert!(ids.contains(&needed), "{needed}");
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
