// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs workloads under policies and prints one line each: the tool used for calibration.
//!
//! `cargo run --release -p ample-mm --example run -- WORKLOADS POLICIES [GB [HOURS [SEED
//! [RATIO]]]]`
//! with comma-separated lists, for example `web,ci linux,contiguitas 16 2`.

use ample_mm::{Config, PolicyKind, Workload, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: f64| -> f64 {
        let text = args.get(index).map(String::as_str);
        text.and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let list = |index: usize, default: &str| -> Vec<String> {
        let text = args.get(index).map_or(default, String::as_str);
        text.split(',').map(str::to_string).collect()
    };
    for name in list(0, "web,cache-a,cache-b,ci") {
        let workload = Workload::load(&name)?;
        for policy in list(1, "linux") {
            let kind = PolicyKind::from_name(&policy).ok_or("unknown policy")?;
            let mut config = Config::new(kind);
            config.memory_bytes = (number(2, 8.0) * f64::from(1 << 30)) as u64;
            config.seed = number(4, 1.0) as u64;
            config.event_ratio = number(5, 1.0);
            let hours = number(3, 2.0);
            let start = std::time::Instant::now();
            let result = run(&config, &workload, hours * 3600.0, 900.0, &|_| {})?;
            let spent = start.elapsed().as_secs_f64();
            let curve: Vec<String> = result
                .samples
                .iter()
                .map(|s| format!("{:.0}", 100.0 * s.unmovable_2m_ratio))
                .collect();
            let last = result.samples.last().ok_or("no sample")?;
            let c = &result.counters;
            let ops = c.allocs + c.frees;
            println!(
                "{name} {policy}: pages {:.1}% blocks {:.1}% [{}] pot2M/32M/1G \
                 {:.2}/{:.2}/{:.2} ifrag {:.2} free {:.1}% low {:?}M",
                100.0 * last.unmovable_page_ratio,
                100.0 * last.unmovable_2m_ratio,
                curve.join(" "),
                last.potential_2m_ratio,
                last.potential_32m_ratio,
                last.potential_1g_ratio,
                last.internal_fragmentation_ratio,
                100.0 * last.free_bytes as f64 / result.memory_bytes as f64,
                last.low_region_bytes.map(|bytes| bytes >> 20),
            );
            let sources: Vec<String> = result
                .metrics
                .total
                .sources
                .iter()
                .map(|s| format!("{} {:.0}%", s.source.name(), 100.0 * s.ratio.unwrap_or(0.0)))
                .collect();
            println!("   {} | {:?}", sources.join(", "), result.huge);
            println!(
                "   {:.1}M ops in {spent:.1} s = {:.1} M/s | {:?}",
                ops as f64 / 1e6,
                ops as f64 / 1e6 / spent,
                c
            );
        }
    }
    Ok(())
}
