// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a terminal shows while a machine is watched: who walks, as of the last second.

use super::super::tell_part;
use ample_report::{Align, Table};
use ample_system::run::SoFar;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between two tables.
const REDRAW_EVERY: Duration = Duration::from_secs(1);

/// The table on standard error, drawn over again each second.
pub(super) struct LiveWalks {
    terminal: bool,
    drawn: Option<Instant>,
    /// Lines of the table that stands there.
    lines: usize,
    /// Walks when it was drawn, of all, and of those in it by root frame: names are not unique.
    before: (u64, HashMap<u64, u64>),
}

impl LiveWalks {
    pub(super) fn new() -> Self {
        LiveWalks {
            terminal: std::io::stderr().is_terminal(),
            drawn: None,
            lines: 0,
            before: (0, HashMap::new()),
        }
    }

    /// Draws what has happened since the last table, if that is a second ago.
    pub(super) fn tell(&mut self, so_far: &SoFar) {
        let due = self.drawn.is_none_or(|at| at.elapsed() >= REDRAW_EVERY);
        if !self.terminal || !due {
            return;
        }
        self.drawn = Some(Instant::now());
        let text = match so_far.total.accesses() {
            0 => "before the first marker\n".to_owned(),
            _ => self.table(so_far),
        };
        self.clear();
        self.lines = text.lines().count();
        tell_part(format_args!("{text}"));
    }

    /// Takes the table away.
    pub(super) fn clear(&mut self) {
        if self.terminal && self.lines > 0 {
            tell_part(format_args!("\x1b[{}F\x1b[J", self.lines));
            self.lines = 0;
        }
    }

    fn table(&mut self, so_far: &SoFar) -> String {
        let total = &so_far.total;
        let accesses = total.accesses() as f64;
        let kernel = 100.0 * total.kernel.accesses() as f64 / accesses;
        let instructions = total.instructions() as f64;
        let mut text = format!(
            "{:.0} M accesses, {kernel:.0} % in the kernel; {:.2} walks in 1000 instructions\n",
            accesses / 1e6,
            1e3 * total.walks() as f64 / instructions.max(1.0),
        );
        if let Some(sampled) = &so_far.sampled {
            let figure = sampled.cycles_per_instruction;
            text += &format!(
                "{} windows: {:.3} ± {:.3} cycles an instruction\n",
                sampled.windows,
                figure.value.unwrap_or(f64::NAN),
                figure.half_width.unwrap_or(f64::INFINITY),
            );
        }
        let heads = [
            ("walks now %", Align::Right),
            ("all %", Align::Right),
            ("user/k", Align::Right),
            ("kernel/k", Align::Right),
            ("process", Align::Left),
        ];
        let mut table = Table::new(&heads);
        let (all, spaces) = &self.before;
        let walks = (total.walks() - all).max(1) as f64;
        for (root, name, counts) in &so_far.spaces {
            let since = counts.walks() - spaces.get(root).unwrap_or(&0);
            let per_kilo = |walks: u64, instructions: u64| {
                format!("{:.2}", 1e3 * walks as f64 / instructions.max(1) as f64)
            };
            table.row(vec![
                format!("{:.1}", 100.0 * since as f64 / walks),
                format!(
                    "{:.1}",
                    100.0 * counts.walks() as f64 / total.walks().max(1) as f64
                ),
                per_kilo(counts.user.walks(), counts.user.instructions),
                per_kilo(counts.kernel.walks(), counts.kernel.instructions),
                name.clone().unwrap_or_else(|| format!("root {root:#x}")),
            ]);
        }
        let told = so_far.spaces.iter();
        let told = told.map(|(root, _, counts)| (*root, counts.walks()));
        self.before = (total.walks(), told.collect());
        text + &table.to_text()
    }
}
