// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `ample reproduce` says: the list, the progress and the end.

use ample_lab::claims::{JudgedClaim, Regression, Verdict};
use ample_lab::reproduce::{Budget, Done, Ended, Job, Watcher};
use ample_report::{Align, Table};
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How often a log, which no one redraws, is told how long the rest takes.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Progress on standard error: a line that is redrawn on a terminal, a line a minute in a log.
pub(super) struct Console {
    bar: ProgressBar,
    logged: Cell<Instant>,
}

impl Console {
    pub(super) fn new() -> Console {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{elapsed} {msg}") {
            bar.set_style(style);
        }
        Console {
            bar,
            logged: Cell::new(Instant::now()),
        }
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| tell!("{line}"));
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Watcher for Console {
    fn ended(&self, done: &Done, count: usize, of: usize) {
        let how = match &done.ended {
            Ended::Result { cached: true, .. } => "from the cache".to_string(),
            Ended::Result {
                finished, seconds, ..
            } => {
                let partial = if finished.partial { ", partial" } else { "" };
                format!("{seconds:.1} s{partial}")
            }
            Ended::Failed(why) => format!("failed: {why}"),
            Ended::Missing(needs) => format!("not run; needs {}", needs.join("; ")),
            Ended::Interrupted => return,
        };
        self.say(&format!("[{count} of {of}] {}: {how}", done.id));
    }

    fn tick(&self, running: &[(&str, f64)], left: Duration) {
        let percent = |(id, share): &(&str, f64)| format!("{id} {:.0} %", share * 100.0);
        let running: Vec<String> = running.iter().map(percent).collect();
        let line = format!("{}; about {} left", running.join(", "), time(left));
        if !self.bar.is_hidden() {
            self.bar.set_message(line);
            self.bar.tick();
        } else if self.logged.get().elapsed() >= LOG_EVERY {
            self.logged.set(Instant::now());
            self.say(&line);
        }
    }
}

/// A duration for people: no more digits than an estimate has.
fn time(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..=90 => format!("{seconds} s"),
        seconds @ 91..=5400 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

/// What there is to run.
pub(super) fn listing(jobs: &[Job], budget: &Budget, quick: bool) -> String {
    let mut table = Table::new(&[
        ("id", Align::Left),
        ("layer", Align::Left),
        ("time", Align::Right),
        ("memory", Align::Right),
        ("threads", Align::Right),
        ("what", Align::Left),
    ]);
    let (mut seconds, mut work) = (0.0, 0.0);
    for job in jobs {
        let cost = job.cost;
        let threads = budget.threads_of(cost);
        if job.about.measured {
            seconds += cost.seconds;
        } else {
            work += cost.seconds * threads as f64;
        }
        let needs = match &job.missing[..] {
            [] => String::new(),
            missing => format!(" (needs {})", missing.join("; ")),
        };
        table.row(vec![
            job.id().into(),
            format!("{:?}", job.about.layer).to_lowercase(),
            time(Duration::from_secs_f64(cost.seconds)),
            format!("{} MB", cost.memory_bytes >> 20),
            threads.to_string(),
            format!("{}{needs}", job.about.title),
        ]);
    }
    let all = Duration::from_secs_f64(seconds + work / budget.threads.max(1) as f64);
    let size = if quick { "Small versions" } else { "Full size" };
    format!(
        "{}\n{size}, {} threads: about {}.\n",
        table.to_text(),
        budget.threads,
        time(all)
    )
}

/// The claims, and what got worse.
pub(super) fn summary(claims: &[JudgedClaim], worse: Option<&[Regression]>, page: &str) -> String {
    let mut text = String::from("\n");
    for verdict in Verdict::ALL {
        let of = claims.iter().filter(|claim| claim.verdict == verdict);
        let ids: Vec<&str> = of.map(|claim| &*claim.id).collect();
        if !ids.is_empty() {
            text += &format!("{:>3} {}: {}\n", ids.len(), verdict.text(), ids.join(", "));
        }
    }
    match worse {
        None => {}
        Some([]) => text += "No verdict got worse.\n",
        Some(worse) => {
            text += "Worse than accepted:\n";
            worse
                .iter()
                .for_each(|one| text += &format!("  {}\n", one.text));
        }
    }
    text + &format!("Paper and here: {page}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_for_people() {
        let of = |seconds| time(Duration::from_secs(seconds));
        assert_eq!([of(5), of(100), of(9000)], ["5 s", "2 min", "2.5 h"]);
    }
}
