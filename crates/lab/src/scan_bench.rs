// SPDX-License-Identifier: MIT OR Apache-2.0
//! The readers of `ample scan` beside a bare read loop, interleaved.

use crate::charts::{bar_figure, with_range};
use crate::experiment::{Experiment, Figure, Outcome, Progress};
use ample_host::{ReaderTimes, bench_readers};
use ample_report::{Table, Unit};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// How long to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanBenchParams {
    /// Rounds, each through all readers.
    pub rounds: usize,
}

/// The benchmark of the readers.
pub struct ScanBench;

impl Experiment for ScanBench {
    type Parameters = ScanBenchParams;
    type Outcome = ReaderBench;

    fn run(params: &ScanBenchParams, _progress: Progress<'_>) -> Result<ReaderBench> {
        ensure!(params.rounds > 0, "rounds is 0, but must be at least 1");
        Ok(summarise(params.rounds, &bench_readers(params.rounds)?))
    }
}

/// Bars: a scan through procfs at most this much of the bare loop, through BPF at most that.
const PROCFS_BAR: f64 = 1.3;
const BPF_BAR: f64 = 0.5;
/// Bar on peak resident memory of the process, scans included.
const PEAK_BAR_BYTES: u64 = 64 << 20;

/// The readers beside the bare loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReaderBench {
    /// Times that each reader ran.
    pub rounds: usize,
    /// Pages of memory.
    pub pages: u64,
    /// Bare read of `/proc/kpageflags`.
    pub bare: Option<ReaderSpread>,
    /// Whole scan through procfs.
    pub procfs: Option<ReaderSpread>,
    /// Whole scan through BPF; null where it cannot run.
    pub bpf: Option<ReaderSpread>,
    /// Median through procfs ÷ median of the bare loop.
    pub procfs_to_bare_ratio: Option<f64>,
    /// Median through BPF ÷ median of the bare loop.
    pub bpf_to_bare_ratio: Option<f64>,
    /// Why BPF could not run.
    pub bpf_error: Option<String>,
    /// Peak resident memory of this process.
    pub peak_resident_bytes: Option<u64>,
}

/// Times of one reader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReaderSpread {
    /// Median of the rounds.
    pub median_ns: u64,
    /// Fastest round.
    pub min_ns: u64,
    /// Slowest round.
    pub max_ns: u64,
    /// Median for each page.
    pub median_ns_per_page: f64,
}

impl ReaderSpread {
    fn of(times: &[u64], pages: u64) -> Option<ReaderSpread> {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let median_ns = *sorted.get(sorted.len() / 2)?;
        Some(ReaderSpread {
            median_ns,
            min_ns: sorted[0],
            max_ns: sorted[sorted.len() - 1],
            median_ns_per_page: median_ns as f64 / pages.max(1) as f64,
        })
    }
}

impl Outcome for ReaderBench {
    const SCHEMA: &'static str = "ample.scan-bench/1";

    fn head(&self) -> Option<String> {
        Some(text(self))
    }

    fn tables(&self) -> Option<Vec<(String, Table)>> {
        Some(Vec::new())
    }

    fn figures(&self) -> Vec<Figure> {
        let readers = [
            ("bare", &self.bare),
            ("procfs", &self.procfs),
            ("BPF", &self.bpf),
        ];
        let bars = readers.iter().filter_map(|(name, times)| {
            let times = times.as_ref()?;
            let each = |ns: u64| ns as f64 / self.pages.max(1) as f64;
            let (low, high) = (each(times.min_ns), each(times.max_ns));
            let bar = with_range(times.median_ns_per_page, low, high, None);
            Some((name, "ns a page", bar))
        });
        bar_figure(
            "readers",
            "A scan of all pages, ns a page",
            Unit::Plain,
            bars,
        )
    }
}

fn summarise(rounds: usize, times: &ReaderTimes) -> ReaderBench {
    let spread = |ns: &[u64]| ReaderSpread::of(ns, times.pages);
    let (bare, procfs, bpf) = (
        spread(&times.bare_ns),
        spread(&times.procfs_ns),
        spread(&times.bpf_ns),
    );
    let ratio = |reader: &Option<ReaderSpread>| {
        let (reader, bare) = (reader.as_ref()?, bare.as_ref()?);
        Some(reader.median_ns as f64 / bare.median_ns as f64)
    };
    ReaderBench {
        rounds,
        pages: times.pages,
        procfs_to_bare_ratio: ratio(&procfs),
        bpf_to_bare_ratio: ratio(&bpf),
        bare,
        procfs,
        bpf,
        bpf_error: times.bpf_error.clone(),
        peak_resident_bytes: peak_resident_bytes(),
    }
}

/// `VmHWM` of this process.
fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn text(bench: &ReaderBench) -> String {
    let mut text = format!(
        "{} rounds, interleaved, {} pages of memory\n",
        bench.rounds, bench.pages
    );
    let mut row =
        |name: &str, spread: &Option<ReaderSpread>, ratio: Option<f64>, bar: Option<f64>| {
            let Some(spread) = spread else { return };
            let ms = |ns: u64| ns as f64 / 1e6;
            text += &format!(
                "{name:<26} {:>8.1} ms ({:.1}-{:.1})  {:>5.1} ns/page",
                ms(spread.median_ns),
                ms(spread.min_ns),
                ms(spread.max_ns),
                spread.median_ns_per_page,
            );
            if let (Some(ratio), Some(bar)) = (ratio, bar) {
                let verdict = if ratio <= bar { "met" } else { "MISSED" };
                text += &format!("  {ratio:.2} x bare, bar {bar}: {verdict}");
            }
            text += "\n";
        };
    row("bare read of kpageflags", &bench.bare, None, None);
    row(
        "whole scan through procfs",
        &bench.procfs,
        bench.procfs_to_bare_ratio,
        Some(PROCFS_BAR),
    );
    row(
        "whole scan through BPF",
        &bench.bpf,
        bench.bpf_to_bare_ratio,
        Some(BPF_BAR),
    );
    if let Some(error) = &bench.bpf_error {
        text += &format!("{error}\n");
    }
    if let Some(peak) = bench.peak_resident_bytes {
        let verdict = if peak <= PEAK_BAR_BYTES {
            "met"
        } else {
            "MISSED"
        };
        let (peak, bar) = (peak as f64 / 1e6, PEAK_BAR_BYTES >> 20);
        text += &format!("peak resident memory       {peak:>8.1} MB, bar {bar} MiB: {verdict}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_medians() {
        let times = ReaderTimes {
            pages: 10,
            bare_ns: vec![100, 90, 500],
            procfs_ns: vec![130, 110, 120],
            bpf_ns: vec![],
            bpf_error: Some("no BTF".into()),
        };
        let bench = summarise(3, &times);
        assert_eq!(bench.procfs_to_bare_ratio, Some(1.2));
        assert_eq!(bench.bpf_to_bare_ratio, None);
        let text = text(&bench);
        assert!(text.contains("1.20 x bare, bar 1.3: met"), "{text}");
        assert!(text.contains("no BTF"), "{text}");
    }
}
