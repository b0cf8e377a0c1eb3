// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sections of the page.

use super::culprits;
use super::options::Choice;
use super::simulate::{FutureRun, WhatIf};
use super::tables::{gains_table, memory_table, ways_table};
use super::verdict::{Advice, RECOMMENDED, interval, k_size};
use crate::charts::lines;
use ample_kit::statistics::MedianRange;
use ample_mm::RunResult;
use ample_pfn::{BASE_PAGE_BYTES, Definition, GroupMetrics, format_bytes};
use ample_report::{Align, MemoryMap, Section, Series, Table, Unit};

/// What to do, then the figures of today, then what it follows from.
pub(super) fn answer(whatif: &WhatIf, verdict: &Advice) -> Section {
    let is_advice = |text: &&String| text.starts_with(RECOMMENDED);
    let (advice, others): (Vec<_>, Vec<_>) = verdict.sentences.iter().partition(is_advice);
    let (first, rest) = match advice.split_first() {
        Some((first, _)) => (Some(*first), others),
        // Nothing was simulated: what is known is today.
        None => match others.split_first() {
            Some((first, rest)) => (Some(*first), rest.to_vec()),
            None => (None, Vec::new()),
        },
    };
    let section = Section::new("verdict", "Verdict");
    let section = first
        .iter()
        .fold(section, |section, text| section.verdict(text));
    let section = section.cards(&cards(whatif, verdict));
    rest.iter()
        .fold(section, |section, text| section.text(text))
}

fn cards(whatif: &WhatIf, verdict: &Advice) -> Vec<(String, String)> {
    let total = &whatif.machine.metrics.total;
    let share = |bytes: u64| {
        k_size(total, bytes).map_or("–".into(), |size| interval(size.unmovable_ratio))
    };
    let free = 100.0 * total.free_bytes as f64 / total.memory_bytes.max(1) as f64;
    let mut cards = vec![
        (
            share(2 << 20),
            "of 2 MB blocks unmovable today (K)".to_string(),
        ),
        (
            share(1 << 30),
            "of 1 GB blocks unmovable today (K)".to_string(),
        ),
        (format!("{free:.0} %"), "of memory is free".to_string()),
    ];
    if let Some(own) = &verdict.recommendation {
        cards.push((own.choice.info().name.into(), "is recommended".into()));
    }
    cards
}

/// All options, their gains, costs and risks.
pub(super) fn options(whatif: &WhatIf, verdict: &Advice) -> Section {
    let workload = whatif
        .runs
        .futures
        .first()
        .map_or("", |own| own.run.workload.as_str());
    Section::new("options", "What can be done, the least effort first")
        .html(&gains_table(&verdict.options, workload).to_html())
        .note(
            "Speed over the machine as it is, median and interval over the seeds; all kinds: from \
             the smallest gain of any kind of program (web, cache, redis) to the largest. The \
             gain of THP is an upper bound, that of hugetlb_cma= is computed from the run of stock \
             Linux with the 1 GB pages reserved.",
        )
        .html(&memory_table(&verdict.options).to_html())
        .note(
            "Refused: kernel allocations that failed and processes killed for want of memory, in \
             the whole run. Waiting: all tasks together.",
        )
        .html(&ways_table().to_html())
}

/// Today: map, definitions and sources.
pub(super) fn now(whatif: &WhatIf) -> Section {
    let machine = &whatif.machine;
    let total = &machine.metrics.total;
    let title = "This machine now";
    let map = MemoryMap::new(title, &machine.blocks, machine.base, Definition::K);
    let held = culprits::squares(machine, map.blocks_per_cell());
    let map = map.with_culprits(machine.first.0 * BASE_PAGE_BYTES, held);
    let section = Section::new("now", title)
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
        .html(&sources(whatif).to_html())
        .note(
            "Blocks that hold a page of the source, and those that hold unmovable pages of no \
             other source: they are won back when it goes.",
        );
    let Some(who) = &machine.who else {
        return section.note(
            "Owners by name (slab caches, programs, drivers) need a scan by the BPF reader: \
             ample scan --who.",
        );
    };
    section
        .heading("Who that is by name")
        .html(&culprits::owners(who).to_html())
        .heading("Where most of it lies")
        .html(&culprits::stretches(who).to_html())
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

fn sources(whatif: &WhatIf) -> Table {
    let mut table = Table::headed(
        "source | >memory | >share | >2 MB blocks | >2 MB blocks alone | >1 GB blocks | \
         >1 GB blocks alone",
    );
    let machine = &whatif.machine;
    for (source, culprit) in machine.metrics.total.sources.iter().zip(&machine.culprits) {
        table.row(vec![
            source.source.title().to_string(),
            format_bytes(source.pages * 4096),
            source
                .ratio
                .map_or("–".into(), |ratio| Unit::Percent.format(ratio)),
            culprit.blocks_2m.to_string(),
            culprit.alone_2m.to_string(),
            culprit.blocks_1g.to_string(),
            culprit.alone_1g.to_string(),
        ]);
    }
    table
}

/// The futures: their course, and a map of each.
pub(super) fn futures(whatif: &WhatIf) -> Section {
    let mut section = Section::new("futures", "This machine under each option");
    let Some(FutureRun { run: first, .. }) = whatif.runs.futures.first() else {
        return section.text("Nothing was simulated.");
    };
    let hours = Unit::Seconds.format(first.duration_s);
    section = section
        .text(&format!(
            "Simulated. Every option starts from the pages of the scan and then serves {hours} of \
             the {} workload, scaled to this machine’s memory, with the same seeds.{}",
            first.workload,
            whatif.thinning()
        ))
        .figure(
            &course(whatif),
            "2 MB blocks with an unmovable page over time: median and interval over the seeds. \
             Definition O.",
        );
    let drawn = whatif
        .runs
        .futures
        .iter()
        .filter(|own| own.run.seed == first.seed);
    for FutureRun { choice, run } in drawn {
        let title = format!("{} after {hours}, seed {}", choice.info().name, run.seed);
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

/// The options that are other memory managers; the settings of Linux lie on its line.
const CURVES: [Choice; 5] = [
    Choice::Nothing,
    Choice::DefragMode,
    Choice::Kernelcore,
    Choice::Contiguitas,
    Choice::Hardware,
];

fn course(whatif: &WhatIf) -> String {
    let title = "Unmovable 2 MB blocks over time";
    let series = CURVES.into_iter().map(|choice| {
        let runs: Vec<&RunResult> = whatif.runs.of(choice).collect();
        let count = runs.iter().map(|run| run.samples.len()).min().unwrap_or(0);
        let at = |index: usize| {
            let values = runs.iter().map(|run| run.samples[index].unmovable_2m_ratio);
            let range = MedianRange::of(values.collect()).unwrap_or(MedianRange {
                min: 0.0,
                median: 0.0,
                max: 0.0,
            });
            (runs[0].samples[index].time_s, range)
        };
        let points: Vec<(f64, MedianRange)> = (0..count).map(at).collect();
        Series {
            name: choice.info().name.into(),
            points: points
                .iter()
                .map(|(time, range)| (*time, range.median))
                .collect(),
            band: points
                .iter()
                .map(|(_, range)| (range.min, range.max))
                .collect(),
        }
    });
    let axes = [
        ("time under load", Unit::Seconds),
        ("2 MB blocks with an unmovable page", Unit::Percent),
    ];
    lines(title, axes, series.collect()).to_svg()
}

/// What was done, so that a reader can judge and repeat it.
pub(super) fn method(whatif: &WhatIf) -> Section {
    Section::new("method", "How this was made")
        .text(
            "The scan reads the use of every page of this machine. The server model is a \
             page-level simulation of the page allocator, reclaim, compaction and huge pages \
             after Linux 6.12; it places the same pages at the same addresses and runs the same \
             workload under every option. The workloads were calibrated on stock Linux against \
             the published fleet figures and on nothing else: what the page says about the other \
             options is prediction. What they do on freshly booted servers, beside the figures of \
             the paper, is in results/predict.md.",
        )
        .note(&format!("To make this page again: {}", whatif.command))
}
