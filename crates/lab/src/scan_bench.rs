// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample scan --bench`: the readers beside a bare read loop, interleaved.

use super::export;
use ample_host::{ReaderTimes, bench_readers};
use serde::Serialize;

/// Bars: a scan through procfs at most this much of the bare loop, through BPF at most that.
const PROCFS_BAR: f64 = 1.3;
const BPF_BAR: f64 = 0.5;
/// Bar on peak resident memory of the process, scans included.
const PEAK_BAR_BYTES: u64 = 64 << 20;

#[derive(Debug, Serialize)]
struct Bench {
    schema: &'static str,
    rounds: usize,
    pages: u64,
    bare: Option<Spread>,
    procfs: Option<Spread>,
    bpf: Option<Spread>,
    procfs_to_bare_ratio: Option<f64>,
    bpf_to_bare_ratio: Option<f64>,
    bpf_error: Option<String>,
    peak_resident_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Spread {
    median_ns: u64,
    min_ns: u64,
    max_ns: u64,
    median_ns_per_page: f64,
}

impl Spread {
    fn of(times: &[u64], pages: u64) -> Option<Spread> {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let median_ns = *sorted.get(sorted.len() / 2)?;
        Some(Spread {
            median_ns,
            min_ns: sorted[0],
            max_ns: sorted[sorted.len() - 1],
            median_ns_per_page: median_ns as f64 / pages.max(1) as f64,
        })
    }
}

/// Measures and reports, as text and as JSON.
///
/// # Errors
/// When `/proc/kpageflags` cannot be read.
pub fn run(rounds: usize) -> anyhow::Result<(String, String)> {
    let times = bench_readers(rounds)?;
    let bench = summarise(rounds, &times);
    let json = String::from_utf8(export::json(&bench)?)?;
    Ok((text(&bench), json))
}

fn summarise(rounds: usize, times: &ReaderTimes) -> Bench {
    let spread = |ns: &[u64]| Spread::of(ns, times.pages);
    let (bare, procfs, bpf) = (
        spread(&times.bare_ns),
        spread(&times.procfs_ns),
        spread(&times.bpf_ns),
    );
    let ratio = |reader: &Option<Spread>| {
        let (reader, bare) = (reader.as_ref()?, bare.as_ref()?);
        Some(reader.median_ns as f64 / bare.median_ns as f64)
    };
    Bench {
        schema: "ample.scan-bench/1",
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

fn text(bench: &Bench) -> String {
    let mut text = format!(
        "{} rounds, interleaved, {} pages of memory\n",
        bench.rounds, bench.pages
    );
    let mut row = |name: &str, spread: &Option<Spread>, ratio: Option<f64>, bar: Option<f64>| {
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
