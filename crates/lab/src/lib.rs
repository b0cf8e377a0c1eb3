// SPDX-License-Identifier: MIT OR Apache-2.0
//! The laboratory: every experiment of the project, in one list.
//!
//! An experiment has an id, parameters in TOML, a quick version of them, and a run to a typed
//! result with tables and figures ([`experiment::Experiment`]). `ample sim`, `ample reproduce`,
//! the report and the docs are made from [`ALL`]. How to add one: `docs/lab.md`.

mod charts;
pub mod claims;
pub mod experiment;
pub mod files;
pub mod hardware;
mod list;
pub mod needs;
pub mod presets;
pub mod progress;
pub mod recorded;
pub mod reproduce;
pub mod rows;
pub mod server_model;
pub mod setup;
pub mod stop;
pub mod text;
pub mod translation;
pub mod whatif;

pub use list::{by_id, nearest};

use experiment::{AnyExperiment, Cost};
use hardware::{defrag, hugepages, losses, one_page, steps, sweep, traffic, unavailable};
use server_model::{
    AblationExperiment, Fig11Experiment, Fig12Experiment, compaction, denied, fleet,
};
use translation::{
    chase, directseg, exactness, fig10, footprint, fragmentation, live, perforated, segments,
    simulator_speed, speedup, storage, walks,
};

/// Text of a result: a constant here, a string when it was read back.
pub type Text = std::borrow::Cow<'static, str>;

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
    &presets::PaperInputs,
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
];
