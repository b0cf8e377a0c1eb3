// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sections about the scanned machine itself.

use super::simulate::WhatIf;
use super::speed::Prices;
use super::verdict::{gigabytes, interval, k_size, sentences, unmovable_2m};
use ample_mm::{PolicyKind, RunResult};
use ample_pfn::{Definition, GroupMetrics, format_bytes};
use ample_report::MemoryMap;
use ample_report::Section;
use ample_report::Unit;
use ample_report::{Align, Table};

/// Today: verdict, cards, map, definitions and sources.
pub(super) fn now(whatif: &WhatIf) -> Section {
    let machine = &whatif.machine;
    let total = &machine.metrics.total;
    let map = MemoryMap::new(
        "This machine now",
        &machine.blocks,
        machine.base,
        Definition::K,
    );
    let mut section = Section::new("now", "This machine now");
    for sentence in sentences(whatif) {
        section = section.verdict(&sentence);
    }
    section
        .cards(&cards(whatif))
        .figure(
            &map.to_svg(),
            "Polluted blocks hold at least one page that may be unmovable under definition K; \
             flag-less pages count.",
        )
        .heading("Three definitions of “unmovable”")
        .html(&definitions(total).to_html())
        .note(
            "K: what the kernel’s own check cannot move. P: a walk over page flags, as in the \
             fleet study of the Contiguitas paper. O: what the owner asked for. An interval is \
             what free pages in per-CPU lists leave open.",
        )
        .heading("Who holds the blocks")
        .html(&sources(total).to_html())
}

fn cards(whatif: &WhatIf) -> Vec<(String, String)> {
    let total = &whatif.machine.metrics.total;
    let share = |bytes: u64| {
        k_size(total, bytes).map_or("–".into(), |size| interval(size.unmovable_ratio))
    };
    let free = Unit::Percent.format(total.free_bytes as f64 / total.memory_bytes.max(1) as f64);
    let mut cards = vec![
        (
            share(2 << 20),
            "of 2 MB blocks unmovable today (K)".to_string(),
        ),
        (
            share(1 << 30),
            "of 1 GB blocks unmovable today (K)".to_string(),
        ),
        (free, "of memory is free".to_string()),
    ];
    if let Some(run) = whatif.future(PolicyKind::Contiguitas) {
        let share = Unit::Percent.format(unmovable_2m(run));
        cards.push((
            share,
            format!("of 2 MB blocks under Contiguitas, {} load", run.workload),
        ));
    }
    cards
}

fn definitions(total: &GroupMetrics) -> Table {
    let mut columns = vec![("block", Align::Left), ("free contiguity", Align::Right)];
    let known: Vec<Definition> = Definition::ALL
        .into_iter()
        .filter(|&d| total.definition(d).is_some())
        .collect();
    for definition in &known {
        columns.push(match definition {
            Definition::K => ("unmovable K", Align::Right),
            Definition::P => ("unmovable P", Align::Right),
            Definition::O => ("unmovable O", Align::Right),
        });
    }
    columns.push(("potential K", Align::Right));
    let mut table = Table::new(&columns);
    for (index, size) in total.sizes.iter().enumerate() {
        let free = size
            .free_contiguity_ratio
            .map_or("–".into(), |r| Unit::Percent.format(r));
        let mut row = vec![format_bytes(size.size_bytes), free];
        for &definition in &known {
            let size = total
                .definition(definition)
                .and_then(|d| d.sizes.get(index));
            row.push(size.map_or("–".into(), |size| interval(size.unmovable_ratio)));
        }
        let potential = total.k.sizes.get(index);
        row.push(potential.map_or("–".into(), |size| interval(size.potential_ratio)));
        table.row(row);
    }
    table
}

fn sources(total: &GroupMetrics) -> Table {
    let mut table = Table::new(&[
        ("source", Align::Left),
        ("memory", Align::Right),
        ("share", Align::Right),
        ("2 MB blocks touched", Align::Right),
    ]);
    for source in &total.sources {
        table.row(vec![
            source.source.title().to_string(),
            format_bytes(source.pages * 4096),
            source
                .ratio
                .map_or("–".into(), |ratio| Unit::Percent.format(ratio)),
            source.blocks_2m.to_string(),
        ]);
    }
    table
}

/// The futures: maps and one table.
pub(super) fn futures(whatif: &WhatIf) -> Section {
    let mut section = Section::new("futures", "This machine under each policy");
    let Some(first) = whatif.runs.futures.first() else {
        return section.text("No policy was simulated.");
    };
    let hours = Unit::Seconds.format(first.duration_s);
    section = section.text(&format!(
        "Simulated. Every policy starts from the pages of the scan above and then serves {hours} \
         of the {} workload, scaled to this machine’s memory, with the same seed ({}).{}",
        first.workload,
        first.seed,
        whatif.thinning()
    ));
    section = section.html(&futures_table(&whatif.runs.futures).to_html());
    for run in &whatif.runs.futures {
        let title = format!("{} after {hours}", run.policy.name());
        let border = run
            .samples
            .last()
            .and_then(|sample| sample.low_region_bytes)
            .map(|bytes| bytes >> 21);
        let base = ample_pfn::PAGEBLOCK_ORDER;
        let map = MemoryMap::new(&title, &run.map_after, base, Definition::O);
        let caption = match border {
            Some(_) => "The stepped line is the border of the unmovable region. Definition O.",
            None => "Definition O.",
        };
        section = section.figure(&map.with_border(border).to_svg(), caption);
    }
    section
}

/// One row a policy.
pub fn futures_table(runs: &[RunResult]) -> Table {
    let mut table = Table::new(&[
        ("policy", Align::Left),
        ("unmovable 2 MB", Align::Right),
        ("potential 2 MB", Align::Right),
        ("potential 32 MB", Align::Right),
        ("potential 1 GB", Align::Right),
        ("1 GB blocks", Align::Right),
        ("THP coverage", Align::Right),
        ("1 GB pages got", Align::Right),
        ("2 MB pages got", Align::Right),
        ("waiting for memory", Align::Right),
        ("speed", Align::Right),
    ]);
    let prices = Prices::shipped();
    let linux = runs.iter().find(|run| run.policy == PolicyKind::Linux);
    for run in runs {
        let Some(last) = run.samples.last() else {
            continue;
        };
        let percent = |ratio: f64| Unit::Percent.format(ratio);
        let (formable, whole) = gigabytes(&run.metrics.total);
        let huge = &run.huge;
        let stall = (run.stall_unmovable_ns + run.stall_movable_ns) as f64 / 1e9;
        table.row(vec![
            run.policy.name().to_string(),
            percent(last.unmovable_2m_ratio),
            percent(last.potential_2m_ratio),
            percent(last.potential_32m_ratio),
            percent(last.potential_1g_ratio),
            format!("{formable} of {whole}"),
            huge.thp_coverage_ratio.map_or("–".into(), percent),
            format!("{} of {}", huge.hugetlb_1g_got, huge.hugetlb_1g_wanted),
            format!("{} of {}", huge.hugetlb_2m_got, huge.hugetlb_2m_wanted),
            Unit::Seconds.format(stall),
            linux
                .and_then(|linux| prices.gain(run, linux))
                .map_or("–".into(), |gain| format!("{:+.1} %", 100.0 * gain)),
        ]);
    }
    table
}

/// What was done, so that a reader can judge and repeat it.
pub(super) fn method(whatif: &WhatIf) -> Section {
    Section::new("method", "How this was made")
        .text(
            "The scan reads the use of every page of this machine. The server model is a \
             page-level simulation of the page allocator, reclaim, compaction and huge pages \
             after Linux 6.12; it places the same pages at the same addresses and runs the same \
             workload under every policy. The workloads were calibrated on stock Linux against \
             the published fleet figures and on nothing else: what the page says about the other \
             policies is prediction.",
        )
        .text(
            "Where a dashed mark or the word “paper” stands, the value is from Contiguitas \
             (ISCA 2023), measured on production servers; everything else is made by this page’s \
             command.",
        )
        .note(&format!("To make this page again: {}", whatif.command))
}
