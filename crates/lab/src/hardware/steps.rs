// SPDX-License-Identifier: MIT OR Apache-2.0
//! One migration under traffic, step by step, to be looked at: eight cores and a NIC read and
//! write a page while it moves.

use crate::charts::name_of;
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use crate::progress::Steps as Parts;
use crate::stop;
use ample_kit::random::SplitMix64;
use ample_machine::multi::{
    CoreAccess, CoreParams, CoreProgram, LineView, MemoryParams, Mover, MultiCore, OsParams,
    PAGE_LINES, PagePlacement, PageView, Place,
};
use ample_migration::protocol::Design;
use ample_report::{LineCell, LinePlace, MIGRATION_LEGEND, MigrationFrame, migration_frame};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepParams {
    /// Designs, one after the other.
    pub designs: Vec<Design>,
    /// Accesses of a core to the page that moves, out of all its accesses.
    pub share_of_page: f64,
    /// Seed of the accesses.
    pub seed: u64,
}

/// One moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepFrame {
    /// Since the start of the migration.
    pub time_ns: f64,
    /// What is to be seen.
    pub caption: String,
    /// Accesses of the cores to the page so far.
    pub accesses: u64,
    /// Where its lines are and what the TLBs hold.
    pub page: PageView,
}

/// One design.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepFilm {
    /// Cacheable or not.
    pub design: Design,
    /// Moments in order.
    pub frames: Vec<StepFrame>,
}

/// What `hw-steps` gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// As run.
    pub params: StepParams,
    /// One film a design.
    pub films: Vec<StepFilm>,
}

/// Pages of data; the first one moves.
const PAGES: u32 = 65;

/// Cores that come back to one page again and again.
struct Visitors {
    rng: SplitMix64,
    share_of_page: f64,
    visits: u64,
}

impl CoreProgram for Visitors {
    fn next(&mut self, core: u8) -> CoreAccess {
        let hot = self.rng.unit() < self.share_of_page;
        self.visits += u64::from(hot);
        let own = 1 + u64::from(core) * 8 + self.rng.below(8);
        CoreAccess {
            gap: 3,
            page: if hot { 0 } else { own as u32 },
            index: self.rng.below(PAGE_LINES) as u32,
            write: self.rng.below(3) == 0,
            dependent: false,
        }
    }

    fn next_dma(&mut self) -> Option<(u64, Option<CoreAccess>)> {
        let op = CoreAccess {
            gap: 0,
            page: 0,
            index: self.rng.below(PAGE_LINES) as u32,
            write: self.rng.below(2) == 0,
            dependent: false,
        };
        Some((200, Some(op)))
    }
}

fn count(view: &PageView, what: impl Fn(&LineView) -> bool) -> usize {
    view.lines.iter().filter(|line| what(line)).count()
}

/// Coarse progress: a frame is taken when it changes.
fn milestone(view: &PageView) -> (usize, usize, bool, bool) {
    let moved = count(view, |l| l.place == Place::Destination);
    let stale = view.stale_tlbs.iter().filter(|s| **s).count();
    let quarter = moved.div_ceil(16);
    (
        quarter,
        stale.div_ceil(3),
        view.pte_is_destination,
        view.is_clearing,
    )
}

fn caption(view: &PageView) -> String {
    let moved = count(view, |l| l.place == Place::Destination);
    let stale = view.stale_tlbs.iter().filter(|s| **s).count();
    let table = match view.pte_is_destination {
        true => "destination",
        false => "source",
    };
    let tlbs = match stale {
        0 => "all TLBs agree".into(),
        n => format!("{n} of {} TLBs may differ", view.stale_tlbs.len()),
    };
    let mut text = format!("page table: {table}; {tlbs}; {moved} of 64 lines moved");
    let cached = count(view, |l| l.cached_as_source || l.cached_as_destination);
    text += &format!(", {cached} in private caches");
    if view.is_clearing {
        text += "; Clear: the source is free";
    }
    text
}

fn film(params: &StepParams, design: Design) -> Result<StepFilm> {
    let mut memory = MemoryParams::table1();
    memory.engine.design = design;
    let core = CoreParams::table1();
    let program = Visitors {
        rng: SplitMix64::new(params.seed),
        share_of_page: params.share_of_page,
        visits: 0,
    };
    let os = OsParams::default();
    let placement = PagePlacement::single(PAGES, 4);
    let mut machine = MultiCore::new(&memory, core, os, program, placement, params.seed)?;
    let mut now = 60_000;
    machine.run_until(now);
    machine.requests.push((0, Mover::Hardware));
    let mut frames: Vec<StepFrame> = Vec::new();
    let mut last = None;
    let mut start = None;
    while machine.finished.is_empty() && now < 2_000_000 {
        now += 50;
        machine.run_until(now);
        let Some(page) = machine.view() else {
            continue;
        };
        let (start, visits) = *start.get_or_insert((now, machine.program().visits));
        let here = milestone(&page);
        if last.replace(here) != Some(here) {
            frames.push(StepFrame {
                time_ns: (now - start) as f64 / memory.clock_ghz,
                caption: caption(&page),
                accesses: machine.program().visits - visits,
                page,
            });
        }
    }
    machine.check_values()?;
    Ok(StepFilm { design, frames })
}

/// One migration, step by step.
pub struct MigrationSteps;

impl Experiment for MigrationSteps {
    type Parameters = StepParams;
    type Outcome = StepReport;

    fn run(params: &StepParams, progress: Progress<'_>) -> Result<StepReport> {
        ensure!(
            (0.0..=1.0).contains(&params.share_of_page),
            "share_of_page: {}: must be from 0 to 1",
            params.share_of_page
        );
        let parts = Parts::new(progress, params.designs.len());
        let mut films = Vec::new();
        for &design in params.designs.iter().take_while(|_| !stop::requested()) {
            films.push(film(params, design)?);
            parts.step();
        }
        Ok(StepReport {
            params: params.clone(),
            films,
        })
    }
}

impl Outcome for StepReport {
    const SCHEMA: &'static str = "ample.hw-steps/1";

    fn figures(&self) -> Vec<Figure> {
        let films = self.films.iter();
        let frames = films.flat_map(|film| film.frames.iter().map(move |frame| (film, frame)));
        let figure = |(at, (film, frame)): (usize, (&StepFilm, &StepFrame))| {
            let design = name_of(&film.design);
            let caption = format!(
                "{design}: accesses to the page so far: {}. {MIGRATION_LEGEND}",
                frame.accesses
            );
            let svg = migration_frame(&frame.moment());
            Figure::new(&format!("{design}-{at:02}"), &caption, svg)
        };
        frames.enumerate().map(figure).collect()
    }
}

impl StepFrame {
    /// As a picture has it.
    fn moment(&self) -> MigrationFrame {
        let page = &self.page;
        let side = |destination| match destination {
            true => LinePlace::Destination,
            false => LinePlace::Source,
        };
        // The NIC and the IOTLB come after the cores.
        let devices = ["NIC", "IOTLB"];
        let cores = page.stale_tlbs.len() - devices.len();
        let name = |at: usize| match at.checked_sub(cores) {
            None => format!("core {at}"),
            Some(device) => devices[device].into(),
        };
        let tlb = |(at, &stale): (usize, &bool)| (name(at), side(page.pte_is_destination != stale));
        let line = |line: &LineView| LineCell {
            place: match line.place {
                Place::Source => LinePlace::Source,
                Place::Destination => LinePlace::Destination,
                Place::OnItsWay => LinePlace::OnItsWay,
            },
            cached_as: match (line.cached_as_source, line.cached_as_destination) {
                (true, _) => Some(LinePlace::Source),
                (_, true) => Some(LinePlace::Destination),
                _ => None,
            },
        };
        MigrationFrame {
            caption: format!("{} ns: {}", self.time_ns.round(), self.caption),
            tlbs: page.stale_tlbs.iter().enumerate().map(tlb).collect(),
            lines: page.lines.iter().map(line).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_film_shows_the_order_of_each_design() {
        let params: StepParams = crate::shipped_parameters("hw-steps", true).expect("shipped");
        let report = MigrationSteps::run(&params, &|_| {}).expect("runs");
        for film in &report.films {
            let first = &film.frames[0].page;
            assert!(
                first.lines.iter().all(|l| l.place == Place::Source),
                "{film:?}"
            );
            let last = &film.frames[film.frames.len() - 1];
            assert!(last.page.is_clearing, "{:?}", last.caption);
            assert!(last.accesses > 100, "the page is in use meanwhile");
            for frame in &film.frames {
                let page = &frame.page;
                let moved = count(page, |l| l.place != Place::Source);
                let stale = page.stale_tlbs.iter().any(|s| *s);
                // Cacheable: nothing is copied before all TLBs agree; the other way round in
                // the non-cacheable design.
                match film.design {
                    Design::Cacheable => assert!(moved == 0 || !stale, "{}", frame.caption),
                    Design::NonCacheable => {
                        assert!(!page.pte_is_destination || moved == 64, "{}", frame.caption)
                    }
                }
            }
            assert!(
                (6..=24).contains(&film.frames.len()),
                "{}",
                film.frames.len()
            );
        }
        let wrong = StepParams {
            share_of_page: 2.0,
            ..params
        };
        let error = MigrationSteps::run(&wrong, &|_| {}).unwrap_err();
        assert!(error.to_string().contains("share_of_page"), "{error}");
    }
}
