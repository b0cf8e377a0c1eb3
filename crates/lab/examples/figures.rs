// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the shipped experiments and prints their tables as Markdown.
//!
//! `cargo run --release -p ample-lab --example figures -- [EXPERIMENT [GB [HOURS]]]`, where
//! EXPERIMENT is fig11, ablation or ablation-day

use ample_lab::server_model::{Ablation, Fig11, Fig12, Params, Spread, ablation, fig11_and_12};

fn percent(spread: &Spread) -> String {
    format!(
        "{:.1} ({:.1}–{:.1})",
        100.0 * spread.mean,
        100.0 * spread.min,
        100.0 * spread.max
    )
}

fn mean(spread: Option<&Spread>) -> String {
    spread.map_or("–".into(), |s| format!("{:.0}", 100.0 * s.mean))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("fig11", String::as_str);
    let mut experiment = Params::shipped(name).ok_or("unknown experiment")?;
    if let Some(gb) = args.get(1) {
        experiment.params.memory_bytes = (gb.parse::<f64>()? * f64::from(1 << 30)) as u64;
    }
    if let Some(hours) = args.get(2) {
        experiment.params.duration_s = hours.parse::<f64>()? * 3600.0;
    }
    let start = std::time::Instant::now();
    if name.starts_with("ablation") {
        print_ablation(&ablation(&experiment, &|_| {})?);
    } else {
        let second = Params::shipped("fig12").ok_or("no fig12")?;
        let (fig11, fig12, _) = fig11_and_12(&experiment, &second, &|_| {})?;
        print_figures(&fig11, &fig12);
    }
    eprintln!("{:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn print_figures(fig11: &Fig11, fig12: &Fig12) {
    println!(
        "| workload | policy | unmovable 2 MB % (O) | K | P | 4 KB % | free inside % | \
         potential 32 MB % | 1 GB % | low region % | failed | 2M/1G HugeTLB % | THP % |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (a, b) in fig11.rows.iter().zip(&fig12.rows) {
        println!(
            "| {} | {} | {} | {:.1} | {:.1} | {:.1} | {} | {} | {} | {} | {:.0} | {}/{} | {} |",
            a.workload,
            a.policy.name(),
            percent(&a.unmovable_2m_ratio),
            100.0 * a.unmovable_2m_ratio_k.mean,
            100.0 * a.unmovable_2m_ratio_p.mean,
            100.0 * a.unmovable_page_ratio.mean,
            percent(&a.internal_fragmentation_ratio),
            percent(&b.potential_32m_ratio),
            percent(&b.potential_1g_ratio),
            a.low_region_ratio.as_ref().map_or("–".into(), percent),
            a.failed_unmovable.mean,
            mean(a.hugetlb_2m_success_ratio.as_ref()),
            mean(a.hugetlb_1g_success_ratio.as_ref()),
            mean(a.thp_coverage_ratio.as_ref()),
        );
    }
    println!("\n| policy | metric | here: mean (min–max over workloads) | paper |");
    println!("|---|---|---|---|");
    for row in fig11.summary.iter().chain(&fig12.summary) {
        let paper = row.paper.as_ref().map_or("–".to_string(), |p| {
            let show =
                |value: Option<f64>| value.map_or("–".into(), |v| format!("{:.1}", 100.0 * v));
            format!(
                "{} ({}–{}) `{}`",
                show(p.mean),
                show(p.min),
                show(p.max),
                p.claim
            )
        });
        println!(
            "| {} | {} | {} | {paper} |",
            row.policy.name(),
            row.metric,
            percent(&row.here)
        );
    }
}

fn print_ablation(result: &Ablation) {
    println!(
        "| workload | policy | without | unmovable 2 MB % | low region % | potential 1 GB % | \
         free inside % | failed allocations | failed pins | stall kernel s | stall user s | \
         border up/down | failed moves | claims |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for row in &result.rows {
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {:.0} | {:.0} | {:.2} | {:.2} | {:.0}/{:.0} \
             | {:.0} | {:.0} |",
            row.workload,
            row.policy.name(),
            row.without.as_deref().unwrap_or("–"),
            percent(&row.unmovable_2m_ratio),
            percent(&row.low_region_ratio),
            percent(&row.potential_1g_ratio),
            percent(&row.internal_fragmentation_ratio),
            row.failed_unmovable.mean,
            row.failed_pins.mean,
            row.stall_unmovable_s.mean,
            row.stall_movable_s.mean,
            row.border_expanded_blocks.mean,
            row.border_shrunk_blocks.mean,
            row.failed_resizes.mean,
            row.emergency_claims.mean,
        );
    }
}
