// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a watched machine as text.

use ample_pfn::format_bytes;
use ample_report::{Align, Table};
use ample_system::hardware::LastCounts;
use ample_system::report::{AreaReport, CountsReport, SchemeReport, SystemRun};
use ample_system::sample::{SamplePlan, SampledFigure, SamplingReport};

/// The report, with at most `top` processes for each scheme.
pub(super) fn text(run: &SystemRun, top: usize) -> String {
    let instructions: u64 = run.instructions.iter().sum();
    let mut text = format!(
        "{}: {} CPUs, {}; {} marked region{}, {:.3} M instructions\n\
         {} ({}{}), {:.2} M accesses/s\n",
        run.kernel,
        run.cpus,
        format_bytes(run.memory_bytes),
        run.regions,
        if run.regions == 1 { "" } else { "s" },
        instructions as f64 / 1e6,
        run.machine,
        if run.timed {
            "timed"
        } else {
            "translation alone, no time"
        },
        if run.pcid { ", entries tagged" } else { "" },
        run.accesses_per_s / 1e6,
    );
    if let (Some(bytes), Some(each)) = (run.file_bytes, run.bytes_per_access) {
        text += &format!(
            "recording: {}, {each:.2} bytes an access\n",
            format_bytes(bytes)
        );
    }
    for scheme in &run.schemes {
        text += &format!("\n{}", of_scheme(scheme, run, top));
    }
    let events = &run.events;
    text += &format!(
        "\nCR3 writes {}, INVLPG {}, flushes of all {}, returns from interrupts {}\n",
        events.cr3_writes, events.invlpg, events.flushes, events.returns
    );
    let vectors = events.interrupts.iter();
    let vectors: Vec<String> = vectors
        .map(|(v, n)| format!("{} {n}", name_of(*v)))
        .collect();
    text += &format!("interrupts and exceptions: {}\n", vectors.join(", "));
    if run.recorder.compared > 0 {
        text += &format!(
            "physical addresses compared with the emulator's: {}, different: {}\n",
            run.recorder.compared, run.recorder.mismatches
        );
    }
    text
}

/// Names of the exceptions that a running system takes; others by their number.
fn name_of(vector: u8) -> String {
    let name = match vector {
        0 => "divide",
        1 => "debug",
        2 => "NMI",
        3 => "breakpoint",
        6 => "opcode",
        7 => "FPU",
        13 => "protection",
        14 => "page-fault",
        _ => return format!("#{vector}"),
    };
    name.to_owned()
}

fn of_scheme(scheme: &SchemeReport, run: &SystemRun, top: usize) -> String {
    let timed = run.timed;
    let mut heads = vec![
        (scheme.scheme.as_str(), Align::Left),
        ("M instr", Align::Right),
        ("M accesses", Align::Right),
        ("D-miss/k", Align::Right),
        ("D-walks/k", Align::Right),
        ("I-walks/k", Align::Right),
        ("4k/2m/1g %", Align::Right),
        ("refs/walk", Align::Right),
    ];
    if timed {
        heads.push(("IPC", Align::Right));
        heads.push(("walk %", Align::Right));
    }
    let mut table = Table::new(&heads);
    table.row(row("user", &scheme.user, timed));
    table.row(row("kernel", &scheme.kernel, timed));
    for space in scheme.spaces.iter().take(top) {
        let name = match &space.name {
            Some(name) => name.clone(),
            None => format!("root {:#x}", space.root_frame),
        };
        table.row(row(&name, &space.user, timed));
        table.row(row(&format!("{name} (kernel)"), &space.kernel, timed));
    }
    let mut text = table.to_text();
    let walked = scheme
        .kernel_areas
        .iter()
        .filter(|area| area.counts.walks > 0);
    let walked: Vec<String> = walked.map(of_area).collect();
    if !walked.is_empty() {
        text += &format!("walks at the kernel's addresses: {}\n", walked.join(", "));
    }
    text += &last_level(scheme, run.shared_last_level);
    if let Some(sampling) = &scheme.sampling {
        text += &sampled(sampling);
    }
    let left = scheme.spaces.len().saturating_sub(top);
    if left > 0 {
        text += &format!("… {left} more address spaces (--top)\n");
    }
    text
}

/// What each CPU asked of the last-level cache, if there is one.
fn last_level(scheme: &SchemeReport, shared: bool) -> String {
    let of_cpu = |(cpu, counts): (usize, &LastCounts)| {
        let percent = |part: u64| 100.0 * part as f64 / counts.lookups.max(1) as f64;
        let lookups = counts.lookups as f64 / 1e6;
        let mut text = format!(
            "CPU {cpu} {lookups:.3} M look-ups, {:.2} % to memory",
            percent(counts.misses)
        );
        if shared {
            text += &format!(", {:.2} % brought in by others", percent(counts.of_others));
        }
        text
    };
    let cpus: Vec<String> = scheme.last_level.iter().enumerate().map(of_cpu).collect();
    match (cpus.is_empty(), shared) {
        (true, _) => String::new(),
        (_, true) => format!("shared last level: {}\n", cpus.join("; ")),
        (_, false) => format!("last level: {}\n", cpus.join("; ")),
    }
}

fn of_area(report: &AreaReport) -> String {
    let mut text = format!("{} {}", report.area, report.counts.walks);
    if let Some(percent) = report.walk_percent {
        text += &format!(" ({percent:.3} % of cycles)");
    }
    text
}

/// What the windows came to, with intervals.
fn sampled(report: &SamplingReport) -> String {
    let figure = |figure: SampledFigure| {
        let (Some(value), Some(half)) = (figure.value, figure.half_width) else {
            return "-".to_owned();
        };
        format!("{value:.3} ± {half:.3}")
    };
    let SamplePlan {
        period,
        window,
        seed,
        ..
    } = report.plan;
    format!(
        "{} windows of {window} in {period} instructions (seed {seed}), 95 % intervals:\n\
         cycles an instruction {} (user {}, kernel {}), with a walk under way {} %\n",
        report.windows,
        figure(report.cycles_per_instruction),
        figure(report.user_cycles_per_instruction),
        figure(report.kernel_cycles_per_instruction),
        figure(report.walk_percent)
    )
}

fn row(name: &str, report: &CountsReport, timed: bool) -> Vec<String> {
    let counts = &report.counts;
    let kilo = counts.instructions.max(1) as f64 / 1e3;
    let walks = counts.walks().max(1) as f64;
    let shares = counts
        .walks_by_size
        .map(|n| format!("{:.0}", 100.0 * n as f64 / walks));
    let mut row = vec![
        name.to_owned(),
        format!("{:.3}", counts.instructions as f64 / 1e6),
        format!("{:.3}", counts.accesses() as f64 / 1e6),
        format!("{:.2}", counts.l1d_misses as f64 / kilo),
        format!("{:.3}", report.walks_data_per_kilo_instruction),
        format!("{:.3}", report.walks_fetch_per_kilo_instruction),
        shares.join("/"),
        format!("{:.2}", counts.walk_references as f64 / walks),
    ];
    if timed {
        let cycles = report.cycles.unwrap_or(0.0);
        row.push(match cycles > 0.0 {
            true => format!("{:.2}", counts.instructions as f64 / cycles),
            false => "-".into(),
        });
        row.push(
            report
                .walk_percent
                .map_or("-".into(), |p| format!("{p:.2}")),
        );
    }
    row
}

/// Says on standard error what in a report is not as it should be.
pub(super) fn warn(run: &SystemRun) {
    for failure in &run.failures {
        tell!("ample: the guest says that this failed: {failure}");
    }
    let recorder = &run.recorder;
    if recorder.mismatches > 0 {
        tell!(
            "ample: {} of {} physical addresses differ from the emulator's",
            recorder.mismatches,
            recorder.compared
        );
    }
    for scheme in &run.schemes {
        if scheme.untranslated + scheme.malformed > 0 {
            tell!(
                "ample: scheme {}: {} accesses to pages that were not mapped when looked at, \
                 {} contradictory ways through the page tables",
                scheme.scheme,
                scheme.untranslated,
                scheme.malformed
            );
        }
    }
}
