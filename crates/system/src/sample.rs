// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sampled timing: TLBs and caches see every access, the core only those of short windows at random
//! places (SMARTS, Wunderlich et al., ISCA 2003). Each period of instructions has one window;
//! before it the core runs for a while without being measured, until its queues are as full as they
//! were.

use crate::hardware::{Hardware, LastCounts};
use ample_kit::random::{SplitMix64, mix64};
use ample_kit::statistics::ratio_and_ci;
use ample_machine::{MemorySystem, TimedCore};
use ample_trace::Access;
use ample_translate::Engine;
use anyhow::{Result, ensure};
use serde::Serialize;

/// Windows that an interval needs before it can end a run.
const LEAST_WINDOWS: usize = 30;

/// Where the windows of a sampled run lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SamplePlan {
    /// Instructions of a CPU from one period to the next; each has one window, at a random place.
    pub period: u64,
    /// Instructions that the core runs before a window.
    pub lead: u64,
    /// Instructions of a window.
    pub window: u64,
    /// Seed of the random places.
    pub seed: u64,
    /// Half width of the interval of cycles per instruction, percent of these, at which there are
    /// windows enough and the run ends; None: it runs to its end.
    pub enough_percent: Option<f64>,
}

impl SamplePlan {
    /// One instruction in twenty runs on the core.
    pub const USUAL: SamplePlan = SamplePlan {
        period: 200_000,
        lead: 3_000,
        window: 7_000,
        seed: 1,
        enough_percent: None,
    };

    /// Refuses a plan whose window does not fit into its period.
    ///
    /// # Errors
    /// If so, or if there is nothing in a window, or the width to reach is none.
    pub fn check(&self) -> Result<()> {
        let detailed = self.lead.saturating_add(self.window);
        ensure!(self.window > 0, "a window of 0 instructions has no time");
        ensure!(
            detailed < self.period,
            "a window and what runs before it are {detailed} instructions, the period only {}",
            self.period
        );
        let width = self.enough_percent.unwrap_or(1.0);
        ensure!(
            width.is_finite() && width > 0.0,
            "an interval of {width} % is never reached: above 0 is accepted"
        );
        Ok(())
    }
}

/// Time of one mode in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowPart {
    /// Instructions of that mode inside the window.
    pub instructions: u64,
    /// Time, in the core's units.
    pub units: u64,
    /// The part of it with a walk under way.
    pub walk_units: u64,
}

/// What one window measured: in user and in kernel mode.
pub type Window = [WindowPart; 2];

/// Where in its period a CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowPhase {
    /// Before the window: TLBs and caches alone.
    Before,
    /// The core runs and is not measured.
    Lead,
    /// The core is measured.
    Window,
    /// After it: TLBs and caches alone.
    After,
}

/// A core that is simulated in windows.
pub struct Sampled<M: MemorySystem> {
    core: TimedCore<M>,
    plan: SamplePlan,
    places: SplitMix64,
    phase: WindowPhase,
    /// Instructions that the phase still has.
    left: u64,
    /// Instructions of the period after its window.
    after: u64,
    /// Of an instruction between windows, 256ths of a unit: that of the last window.
    pace: u64,
    clock: (u64, u64),
    window: Window,
    windows: Vec<Window>,
}

impl<M: MemorySystem> Sampled<M> {
    /// A core with `units` of time a cycle, as the CPU of that number.
    pub fn new(core: TimedCore<M>, plan: SamplePlan, units: u64, cpu: usize) -> Self {
        let mut sampled = Sampled {
            core,
            plan,
            places: SplitMix64::new(mix64(plan.seed ^ mix64(cpu as u64))),
            phase: WindowPhase::After,
            left: 0,
            after: 0,
            // Until the first window is over: an instruction a cycle.
            pace: units << 8,
            clock: (0, 0),
            window: Window::default(),
            windows: Vec::new(),
        };
        sampled.next_phase();
        sampled
    }

    #[cold]
    fn next_phase(&mut self) {
        let SamplePlan {
            period,
            lead,
            window,
            ..
        } = self.plan;
        (self.phase, self.left) = match self.phase {
            WindowPhase::After => {
                let free = period - lead - window;
                let before = self.places.below(free + 1);
                self.after = free - before;
                (WindowPhase::Before, before)
            }
            WindowPhase::Before => (WindowPhase::Lead, lead),
            WindowPhase::Lead => (WindowPhase::Window, window),
            WindowPhase::Window => {
                let window = std::mem::take(&mut self.window);
                let instructions: u64 = window.iter().map(|part| part.instructions).sum();
                let units: u64 = window.iter().map(|part| part.units).sum();
                self.pace = (units << 8) / instructions.max(1);
                self.windows.push(window);
                (WindowPhase::After, self.after)
            }
        };
        if self.left == 0 {
            self.next_phase();
        }
    }

    #[inline]
    fn measured(&mut self, access: &Access, kernel: bool) -> bool {
        let before = self.core.clock();
        let done = self.core.run(access).is_ok();
        let after = self.core.clock();
        let (units, walking) = (after.0 - before.0, after.1 - before.1);
        self.clock.0 += units;
        self.clock.1 += walking;
        let part = &mut self.window[usize::from(kernel)];
        part.instructions += access.instructions();
        part.units += units;
        part.walk_units += walking;
        done
    }
}

impl<M: MemorySystem> Hardware for Sampled<M>
where
    TimedCore<M>: Hardware,
{
    fn engine(&self) -> &Engine {
        &self.core.engine
    }

    fn engine_mut(&mut self) -> &mut Engine {
        &mut self.core.engine
    }

    #[inline]
    fn run(&mut self, access: &Access, kernel: bool) -> bool {
        if self.left == 0 {
            self.next_phase();
        }
        self.left = self.left.saturating_sub(access.instructions());
        match self.phase {
            WindowPhase::Before | WindowPhase::After => self.core.warm(access, self.pace).is_ok(),
            WindowPhase::Lead => self.core.run(access).is_ok(),
            WindowPhase::Window => self.measured(access, kernel),
        }
    }

    fn clock(&self) -> (u64, u64) {
        self.clock
    }

    fn measuring(&self) -> bool {
        self.phase == WindowPhase::Window
    }

    fn windows(&self) -> &[Window] {
        &self.windows
    }

    fn last_level(&self) -> Option<LastCounts> {
        self.core.last_level()
    }
}

/// A figure with half the width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SampledFigure {
    /// The figure; null if no window had an instruction of it.
    pub value: Option<f64>,
    /// Half width of its interval; null for fewer than two windows.
    pub half_width: Option<f64>,
}

impl SampledFigure {
    fn of(pairs: &[(f64, f64)], scale: f64) -> Self {
        let (value, half_width) = ratio_and_ci(pairs);
        let finite = |figure: f64| Some(figure * scale).filter(|figure| figure.is_finite());
        SampledFigure {
            value: finite(value),
            half_width: finite(half_width),
        }
    }
}

/// What the windows of all CPUs came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SamplingReport {
    /// Where the windows were.
    pub plan: SamplePlan,
    /// How many there were.
    pub windows: usize,
    /// Instructions in them.
    pub instructions: u64,
    /// Cycles of an instruction, of both modes.
    pub cycles_per_instruction: SampledFigure,
    /// The same in user mode.
    pub user_cycles_per_instruction: SampledFigure,
    /// The same in kernel mode.
    pub kernel_cycles_per_instruction: SampledFigure,
    /// Cycles with a walk under way, percent of all.
    pub walk_percent: SampledFigure,
}

impl SamplingReport {
    /// Of the windows of a scheme's CPUs, each with `units` of time a cycle.
    pub fn of(plan: SamplePlan, windows: &[Window], units: f64) -> Self {
        let pairs = |pair: fn(&WindowPart) -> (u64, u64), modes: &[usize]| -> Vec<(f64, f64)> {
            let of = |window: &Window| {
                let parts = modes.iter().map(|&mode| pair(&window[mode]));
                let sum = parts.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
                (sum.0 as f64, sum.1 as f64)
            };
            windows.iter().map(of).collect()
        };
        let cycles = |modes| {
            let of = |part: &WindowPart| (part.units, part.instructions);
            SampledFigure::of(&pairs(of, modes), 1.0 / units)
        };
        let walking = |part: &WindowPart| (part.walk_units, part.units);
        SamplingReport {
            plan,
            windows: windows.len(),
            instructions: windows.iter().flatten().map(|part| part.instructions).sum(),
            cycles_per_instruction: cycles(&[0, 1]),
            user_cycles_per_instruction: cycles(&[0]),
            kernel_cycles_per_instruction: cycles(&[1]),
            walk_percent: SampledFigure::of(&pairs(walking, &[0, 1]), 100.0),
        }
    }

    /// Whether the interval is as narrow as was asked for.
    pub fn is_enough(&self) -> bool {
        let figure = self.cycles_per_instruction;
        let (Some(percent), Some(value), Some(half)) =
            (self.plan.enough_percent, figure.value, figure.half_width)
        else {
            return false;
        };
        self.windows >= LEAST_WINDOWS && half <= value * percent / 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(user: [u64; 3], kernel: [u64; 3]) -> Window {
        [user, kernel].map(|[instructions, units, walk_units]| WindowPart {
            instructions,
            units,
            walk_units,
        })
    }

    #[test]
    fn figures_are_those_of_both_modes_and_of_each() {
        let windows = [
            window([100, 800, 80], [0, 0, 0]),
            window([50, 400, 0], [50, 1200, 160]),
        ];
        let report = SamplingReport::of(SamplePlan::USUAL, &windows, 4.0);
        assert_eq!((report.windows, report.instructions), (2, 200));
        assert_eq!(report.cycles_per_instruction.value, Some(3.0));
        assert_eq!(report.user_cycles_per_instruction.value, Some(2.0));
        assert_eq!(report.kernel_cycles_per_instruction.value, Some(6.0));
        assert_eq!(report.walk_percent.value, Some(10.0));
        assert!(!report.is_enough(), "two windows are no interval");
        let none = SamplingReport::of(SamplePlan::USUAL, &[], 4.0);
        assert_eq!(none.walk_percent.value, None);
    }

    #[test]
    fn a_run_ends_when_its_interval_is_narrow_and_not_before() {
        let plan = |enough_percent| SamplePlan {
            enough_percent,
            ..SamplePlan::USUAL
        };
        let same = vec![window([100, 800, 0], [0, 0, 0]); LEAST_WINDOWS];
        let enough = |percent, windows: &[Window]| {
            SamplingReport::of(plan(percent), windows, 4.0).is_enough()
        };
        assert!(enough(Some(1.0), &same));
        assert!(!enough(Some(1.0), &same[1..]), "one window too few");
        assert!(!enough(None, &same));
        let mut other = same;
        other[0] = window([100, 8000, 0], [0, 0, 0]);
        assert!(!enough(Some(1.0), &other));
    }

    #[test]
    fn plans_that_cannot_be_are_refused() {
        let plan = SamplePlan::USUAL;
        assert!(plan.check().is_ok());
        let window = plan.period;
        let long = SamplePlan { window, ..plan };
        assert!(
            long.check()
                .unwrap_err()
                .to_string()
                .contains("the period only")
        );
        assert!(SamplePlan { window: 0, ..plan }.check().is_err());
        for percent in [0.0, -1.0, f64::NAN] {
            let enough_percent = Some(percent);
            assert!(
                SamplePlan {
                    enough_percent,
                    ..plan
                }
                .check()
                .is_err()
            );
        }
    }
}
