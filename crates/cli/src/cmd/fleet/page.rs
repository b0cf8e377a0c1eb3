// SPDX-License-Identifier: MIT OR Apache-2.0
//! A study as a page: the answer, the worst hosts, the distributions drawn.

use super::tables::{
    free_table, groups_table, potential_table, sources_table, unmovable_table, worst_table,
};
use super::text::{
    correlation_line, counted, drift_line, explained_line, head, left_out, percent, shown, verdict,
};
use ample_fleet::dates::date;
use ample_fleet::study::{HostSpread, Study};
use ample_pfn::format_bytes;
use ample_report::{LineChart, Page, Section, Series, Unit};

const TWO_MB: u64 = 2 << 20;
/// Sources with a line of their own.
const LARGEST_SOURCES: usize = 5;

/// A distribution function with its band, from one value to another.
fn series_from(ends: (f64, f64), name: String, spread: &HostSpread) -> Series {
    let half = spread.cdf.half_width();
    // Stairs: between two values no host is added.
    let mut points = Vec::new();
    let mut share = 0.0;
    for (value, next) in spread.cdf.steps() {
        if points.is_empty() {
            points.push((ends.0, 0.0));
        }
        points.extend([(value, share), (value, next)]);
        share = next;
    }
    if !points.is_empty() {
        points.push((ends.1, 1.0));
    }
    let band = |&(_, share): &(f64, f64)| ((share - half).max(0.0), (share + half).min(1.0));
    Series {
        name,
        band: points.iter().map(band).collect(),
        points,
    }
}

/// From 0 to 100 %.
fn series(name: String, spread: &HostSpread) -> Series {
    series_from((0.0, 1.0), name, spread)
}

fn chart(title: &str, x_title: &str, lines: Vec<Series>) -> String {
    LineChart {
        title: title.into(),
        series: lines
            .into_iter()
            .filter(|line| !line.points.is_empty())
            .collect(),
        x_title: x_title.into(),
        x_unit: Unit::Percent,
        y_title: "hosts with at most that much".into(),
        y_unit: Unit::Percent,
        y_max: Some(1.0),
    }
    .to_svg()
}

const BANDS: &str =
    "Bands: 95 % for the whole curve, if these hosts were drawn from a larger fleet.";

fn unmovable(study: &Study) -> Section {
    let lines = study
        .unmovable
        .iter()
        .filter(|((size, _), _)| *size == TWO_MB);
    let lines = lines.map(|((_, definition), bounds)| series(definition.clone(), &bounds.high));
    let svg = chart(
        "Share of hosts against unmovable 2 MB blocks",
        "2 MB blocks with an unmovable page",
        lines.collect(),
    );
    let caption = format!(
        "2 MB blocks with an unmovable page (across), by definition, against the share of hosts \
         (up); upper ends where the data leave an interval. {BANDS}"
    );
    Section::new("unmovable", "Unmovable memory")
        .figure(&svg, &caption)
        .html(&unmovable_table(study).to_html())
        .heading("What compaction could still make")
        .html(&potential_table(study).to_html())
}

fn free(study: &Study) -> Section {
    let lines = study
        .free_contiguity
        .iter()
        .filter(|(size, _)| **size >= TWO_MB);
    let lines = lines.map(|(size, spread)| series(format_bytes(*size), spread));
    let svg = chart(
        "Share of hosts against free contiguity",
        "free memory in wholly free blocks",
        lines.collect(),
    );
    let caption = format!(
        "Free memory in wholly free blocks (across) against the share of hosts with enough free \
         memory (up). {BANDS}"
    );
    Section::new("free", "Free contiguity")
        .figure(&svg, &caption)
        .html(&free_table(study).to_html())
}

/// The median and the middle four fifths of each day.
fn days(study: &Study) -> Option<Section> {
    let (first, last) = (study.days.keys().next()?, study.days.keys().next_back()?);
    if first == last {
        return None;
    }
    let (mut points, mut band) = (Vec::new(), Vec::new());
    for (day, own) in &study.days {
        let quantiles = own.spread.quantiles?;
        points.push(((day - first) as f64, quantiles.median));
        band.push((quantiles.p10, quantiles.p90));
    }
    let svg = LineChart {
        title: "Unmovable 2 MB blocks by day".into(),
        series: vec![Series {
            name: "median".into(),
            points,
            band,
        }],
        x_title: format!("days since {}", date(*first)),
        x_unit: Unit::Plain,
        y_title: "2 MB blocks with an unmovable page".into(),
        y_unit: Unit::Percent,
        y_max: None,
    }
    .to_svg();
    Some(Section::new("days", "Over time").figure(
        &svg,
        "Unmovable 2 MB blocks of all scans of a day: median, and the middle four fifths.",
    ))
}

/// How hosts changed between the dates.
fn drift(study: &Study) -> Option<Section> {
    let line = drift_line(study)?;
    let steps = study.drift.cdf.steps();
    let ends = (steps.first()?.0.min(0.0), steps.last()?.0.max(0.0));
    let svg = chart(
        "Share of hosts against the change of unmovable 2 MB blocks",
        "change of the share of unmovable 2 MB blocks, first to last scan",
        vec![series_from(ends, "change".into(), &study.drift)],
    );
    let caption = format!(
        "Change of a host's share of unmovable 2 MB blocks (across) against the share of hosts \
         (up). {BANDS}"
    );
    let section = Section::new("drift", "Drift").text(&line);
    Some(section.figure(&svg, &caption))
}

/// Who the unmovable pages belong to.
fn sources(study: &Study) -> Option<Section> {
    let table = sources_table(study)?;
    let mut shares: Vec<_> = study.source_shares.iter().collect();
    let pages = |source: &String| study.sources.get(source).copied().unwrap_or(0);
    shares.sort_by_key(|(source, _)| std::cmp::Reverse(pages(source)));
    let lines = (shares.into_iter().take(LARGEST_SOURCES))
        .map(|(source, spread)| series(shown(source), spread));
    let svg = chart(
        "Share of hosts against the share of a source",
        "share of the host's unmovable pages",
        lines.collect(),
    );
    let caption = format!(
        "Pages of the largest sources in a host's unmovable pages (across) against the share of \
         hosts (up). {BANDS}"
    );
    let section = Section::new("sources", "Sources").figure(&svg, &caption);
    Some(section.html(&table.to_html()))
}

/// For a browser.
pub fn page(study: &Study) -> Page {
    let mut page = Page::new("A fleet's memory", &head(study));
    let median = |size: u64, definition: &str| {
        let bounds = study.unmovable.get(&(size, definition.to_string()))?;
        bounds
            .high
            .quantiles
            .map(|quantiles| percent(quantiles.median))
    };
    let hosts = counted(study.scans.hosts, "host");
    let mut cards: Vec<(String, String)> = (hosts.split_once(' ').into_iter())
        .map(|(number, name)| (number.into(), name.into()))
        .collect();
    for (definition, paper) in [("K", ""), ("P", " (paper: 34 %)")] {
        if let Some(share) = median(TWO_MB, definition) {
            let what = format!("of 2 MB blocks unmovable in the median by {definition}{paper}");
            cards.push((share, what));
        }
    }
    let mut verdict = Section::new("verdict", "Verdict")
        .verdict(&verdict(study))
        .cards(&cards);
    for line in left_out(study) {
        verdict = verdict.note(&line);
    }
    page.push(verdict);
    page.push(Section::new("worst", "Worst hosts").html(&worst_table(study).to_html()));
    page.push(unmovable(study));
    page.push(free(study));
    for section in [sources(study), days(study), drift(study)]
        .into_iter()
        .flatten()
    {
        page.push(section);
    }
    let mut groups = Section::new("groups", "Groups and uptime").text(&correlation_line(study));
    if let Some(line) = explained_line(study) {
        groups = groups.text(&line);
    }
    if let Some(table) = groups_table(study) {
        groups = groups.html(&table.to_html());
    }
    page.push(groups);
    page
}
