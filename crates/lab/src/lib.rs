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
pub mod scan_bench;
pub mod server_model;
pub mod setup;
pub mod stop;
pub mod text;
pub mod tools;
pub mod translation;
pub mod whatif;

pub use list::{by_id, nearest};

use experiment::{AnyExperiment, Cost};
use hardware::{defrag, hugepages, losses, one_page, steps, sweep, traffic, unavailable};
use server_model::{
    AblationExperiment, Convergence, Fig11Experiment, Fig12Experiment, compaction, denied, fleet,
    recorded_kernel,
};
use tools::guests::GuestCheck;
use tools::temeraire::Temeraire;
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
    &tools::rtl::TableRtl,
    &tools::model_check::ModelCheck,
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
    &tools::kernel::KernelBench,
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
    &scan_bench::ScanBench,
];
