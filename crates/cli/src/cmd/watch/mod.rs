// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample watch`: who spoils clean pageblocks, as it happens.

#[cfg(feature = "bpf")]
mod live;
#[cfg(any(feature = "bpf", test))]
mod report;

use super::Verdict;
use std::path::PathBuf;
use std::time::Duration;

/// Watch who spoils clean 2 MB pageblocks now: kernel function, process, control group.
///
/// A scan tells which blocks nothing unmovable is in. From then on, two tracepoints of the page
/// allocator report the first unmovable page that lands in such a block (spoiled), and each
/// unmovable request that is served from movable memory (fallback), with the stack. Blocks that
/// are clean again at a later scan are watched again. Ctrl-C ends the watch with its summary.
/// Needs root, BPF with type information (Linux 6.12 or later) and a build with the feature bpf.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct WatchArgs {
    /// End after this long (90, 90s, 10m, 2h); without it, at Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    window: Option<Duration>,
    /// Draw the table again this often, on a terminal.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    every: Duration,
    /// Rows of the table.
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    top: u32,
    /// Have the kernel time the programs, which makes them slower, and tell their cost.
    #[arg(long)]
    cost: bool,
    /// Print one object with all sites and stacks, schema ample.watch/1, at the end.
    #[arg(long)]
    json: bool,
    /// Write folded stacks, weighted by blocks spoiled: the input of flame graph tools.
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  ample watch                                 a table that follows; Ctrl-C for the summary
  ample watch --for 10m --json > spoilers.json
  ample watch --for 1m --folded spoilers.folded   stacks for a flame graph";

const MAX_SECONDS: f64 = 30.0 * 86_400.0;

/// A length of time: a number with s (the default), m or h.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1.0),
        Some(b'm') => (&text[..text.len() - 1], 60.0),
        Some(b'h') => (&text[..text.len() - 1], 3600.0),
        _ => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if (0.1..=MAX_SECONDS).contains(&(number * unit)) => {
            Ok(Duration::from_secs_f64(number * unit))
        }
        _ => Err("give a time from 0.1s to 720h, as 90s, 10m or 2h".into()),
    }
}

/// Runs the command.
///
/// # Errors
/// When the BPF programs cannot be used here, or a file cannot be written.
#[cfg(feature = "bpf")]
pub fn run(args: &WatchArgs) -> anyhow::Result<Verdict> {
    live::run(args)
}

/// Says what is missing.
///
/// # Errors
/// Always: the programs are not in this build.
#[cfg(not(feature = "bpf"))]
pub fn run(_: &WatchArgs) -> anyhow::Result<Verdict> {
    anyhow::bail!("watching needs the BPF programs; build with --features bpf (clang, libelf)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        assert_eq!(time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(time("0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(time("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7200)));
        for bad in ["", "s", "0", "-1", "nan", "1e99", "10d", "ö", "1 m", "inf"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
