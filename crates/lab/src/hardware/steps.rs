// SPDX-License-Identifier: MIT OR Apache-2.0
//! One migration under traffic, step by step, to be looked at: eight cores and a NIC read and
//! write a page while it moves.

use ample_kit::random::SplitMix64;
use ample_memsys::timed::{
    BadParams, CoreParams, Machine, MemoryParams, Mover, Op, OsParams, PAGE_LINES, PageView, Place,
    Placement, Program,
};
use ample_migration::protocol::Design;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Designs, one after the other.
    pub designs: Vec<Design>,
    /// Accesses of a core to the page that moves, out of all its accesses.
    pub share_of_page: f64,
    /// Seed.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            designs: vec![Design::NonCacheable, Design::Cacheable],
            share_of_page: 0.05,
            seed: 1,
        }
    }
}

/// One moment.
#[derive(Clone, Debug, Serialize)]
pub struct Frame {
    /// Since the start of the migration.
    pub time_ns: f64,
    /// What is to be seen.
    pub caption: String,
    /// Accesses of the cores to the page so far.
    pub accesses: u64,
    /// The page.
    pub page: PageView,
}

/// One design.
#[derive(Clone, Debug, Serialize)]
pub struct Film {
    /// The design.
    pub design: Design,
    /// Moments in order.
    pub frames: Vec<Frame>,
}

/// Results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Format of this object.
    pub schema: &'static str,
    /// Parameters.
    pub params: Params,
    /// One film a design.
    pub films: Vec<Film>,
}

/// Pages of data; the first one moves.
const PAGES: u32 = 65;

/// Cores that come back to one page again and again.
struct Visitors {
    rng: SplitMix64,
    share_of_page: f64,
    visits: u64,
}

impl Program for Visitors {
    fn next(&mut self, core: u8) -> Op {
        let hot = self.rng.unit() < self.share_of_page;
        self.visits += u64::from(hot);
        let own = 1 + u64::from(core) * 8 + self.rng.below(8);
        Op {
            gap: 3,
            page: if hot { 0 } else { own as u32 },
            index: self.rng.below(PAGE_LINES) as u32,
            write: self.rng.below(3) == 0,
            dependent: false,
        }
    }

    fn next_dma(&mut self) -> Option<(u64, Op)> {
        let op = Op {
            gap: 0,
            page: 0,
            index: self.rng.below(PAGE_LINES) as u32,
            write: self.rng.below(2) == 0,
            dependent: false,
        };
        Some((200, op))
    }
}

fn count(view: &PageView, what: impl Fn(&ample_memsys::timed::LineView) -> bool) -> usize {
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

fn film(params: &Params, design: Design) -> Result<Film, BadParams> {
    let mut memory = MemoryParams::table1();
    memory.engine.design = design;
    let core = CoreParams::table1();
    let program = Visitors {
        rng: SplitMix64::new(params.seed),
        share_of_page: params.share_of_page,
        visits: 0,
    };
    let os = OsParams::default();
    let placement = Placement::single(PAGES, 4);
    let mut machine = Machine::new(&memory, core, os, program, placement, params.seed)?;
    let mut now = 60_000;
    machine.run_until(now);
    machine.requests.push((0, Mover::Hardware));
    let mut frames: Vec<Frame> = Vec::new();
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
            frames.push(Frame {
                time_ns: (now - start) as f64 / memory.clock_ghz,
                caption: caption(&page),
                accesses: machine.program().visits - visits,
                page,
            });
        }
    }
    machine.check_values()?;
    Ok(Film { design, frames })
}

/// Runs it.
///
/// # Errors
/// When a parameter is wrong or a load returned a wrong value.
pub fn run(params: &Params) -> Result<Report, BadParams> {
    if !(0.0..=1.0).contains(&params.share_of_page) {
        return Err(BadParams {
            field: "share_of_page",
            reason: format!("{}: must be from 0 to 1", params.share_of_page),
        });
    }
    let films = params.designs.iter().map(|&design| film(params, design));
    Ok(Report {
        schema: "ample.hw-steps/1",
        params: params.clone(),
        films: films.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_film_shows_the_order_of_each_design() {
        let report = run(&Params::default()).expect("runs");
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
        let wrong = Params {
            share_of_page: 2.0,
            ..Params::default()
        };
        assert!(
            run(&wrong)
                .unwrap_err()
                .to_string()
                .contains("share_of_page")
        );
    }
}
