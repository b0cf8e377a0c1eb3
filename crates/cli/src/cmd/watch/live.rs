// SPDX-License-Identifier: MIT OR Apache-2.0
//! The watch itself: the loop around the events, and the terminal.

use super::WatchArgs;
use super::report::{SpoilerSite, Spoilers, WatchCost};
use crate::cmd::scan::style::Style;
use crate::cmd::sim::stop_on_interrupt;
use crate::cmd::{Verdict, write_file};
use ample_host::SpoilWatch;
use ample_lab::stop;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Events are taken from the kernel at least this often, so that Ctrl-C is honoured soon.
const LONGEST_WAIT: Duration = Duration::from_millis(250);
/// Clears the terminal and puts the cursor into its corner.
const CLEAR: &str = "\x1b[H\x1b[2J";

pub(super) fn run(args: &WatchArgs) -> anyhow::Result<Verdict> {
    stop_on_interrupt()?;
    let mut out = std::io::stdout();
    let terminal = out.is_terminal() && !args.json;
    let columns = Style::detect(true).columns;
    tell!("scanning: which blocks are clean?");
    let mut watch = SpoilWatch::start()?;
    if args.cost {
        watch.time()?;
    }
    if !terminal {
        tell!("watching; Ctrl-C ends it");
    }
    let started = Instant::now();
    let end = args.window.map(|window| started + window);
    let mut draw = Instant::now();
    while !stop::requested() && end.is_none_or(|end| Instant::now() < end) {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        watch.poll(left.map_or(LONGEST_WAIT, |left| left.min(LONGEST_WAIT)))?;
        if terminal && Instant::now() >= draw {
            let table =
                found(&mut watch, args.cost, started.elapsed())?.text(args.top as usize, columns);
            write!(out, "{CLEAR}{table}")?;
            out.flush()?;
            draw = Instant::now() + args.every;
        }
    }
    let elapsed = started.elapsed();
    watch.poll(Duration::ZERO)?;
    watch.rescan()?;
    let found = found(&mut watch, args.cost, elapsed)?;
    if let Some(path) = &args.folded {
        write_file(path, found.folded())?;
    }
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?;
    } else {
        let clear = if terminal { CLEAR } else { "" };
        write!(out, "{clear}{}", found.text(args.top as usize, columns))?;
    }
    Ok(Verdict::Ok)
}

fn found(watch: &mut SpoilWatch, timed: bool, elapsed: Duration) -> anyhow::Result<Spoilers> {
    let lost = watch.lost();
    let seconds = elapsed.as_secs_f64();
    let cost = if timed {
        let processors = std::thread::available_parallelism()?.get();
        let (runs, cpu_ns) = watch.cost()?;
        Some(WatchCost::new(runs, cpu_ns, seconds, processors))
    } else {
        None
    };
    let sites = watch
        .ranked()
        .into_iter()
        .map(|site| SpoilerSite::of(site, watch.still_spoiled(site)))
        .collect();
    Ok(Spoilers::new(
        seconds,
        watch.clean_at_start(),
        lost,
        cost,
        sites,
    ))
}
