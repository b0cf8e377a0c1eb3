// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report: one page, a file for each figure and table, and all values as Parquet.

use super::run::{Done, Ended};
use super::store::write_whole;
use super::table::{claims_csv, parquet};
use crate::claims::{JudgedClaim, Verdict};
use crate::experiment::Finished;
use ample_report::{Align, Page, Section, Table, escape, standalone};
use anyhow::Result;
use std::path::Path;

/// Rows of a table on the page; its CSV file has them all.
const ROWS_ON_PAGE: usize = 40;

/// What the report is made of.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// A line below the title.
    pub lead: &'a str,
    /// Jobs in the order of the page, with their titles.
    pub done: &'a [(String, &'a Done)],
    /// All claims, judged.
    pub claims: &'a [JudgedClaim],
}

/// Writes `index.html`, `claims.csv`, `results.parquet`, and for each result `ID.json`, a CSV
/// file a table and an SVG file a figure.
///
/// # Errors
/// When a file cannot be written.
pub fn write_report(out: &Path, contents: &Contents<'_>) -> Result<()> {
    let mut page = Page::new("The experiments, paper and here", contents.lead);
    page.push(claims_section(contents.claims));
    for (title, done) in contents.done {
        page.push(section(title, done));
        if let Some(finished) = done.finished() {
            write_files(out, &done.id, finished)?;
        }
    }
    write_whole(
        &out.join("claims.csv"),
        claims_csv(contents.claims).as_bytes(),
    )?;
    write_whole(&out.join("results.parquet"), &parquet(contents)?)?;
    write_whole(&out.join("index.html"), page.to_html().as_bytes())
}

fn write_files(out: &Path, id: &str, finished: &Finished) -> Result<()> {
    let write = |name: String, text: &str| write_whole(&out.join(name), text.as_bytes());
    write(format!("{id}.json"), &finished.json)?;
    for rows in &finished.rows {
        write(format!("{id}.{}.csv", rows.name), &rows.to_csv())?;
    }
    for figure in &finished.figures {
        write(figure_file(id, &figure.name), &standalone(&figure.svg))?;
    }
    Ok(())
}

fn figure_file(id: &str, name: &str) -> String {
    if name.is_empty() || name == id {
        format!("{id}.svg")
    } else {
        format!("{id}.{name}.svg")
    }
}

/// A table of all claims: one row a check.
fn claims_section(claims: &[JudgedClaim]) -> Section {
    let left = |name| (name, Align::Left);
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        left("claim"),
        left("value"),
        right("paper"),
        right("here"),
        left("unit"),
        left("verdict"),
        left("rule"),
        left("experiment"),
    ]);
    for claim in claims {
        for check in &claim.checks {
            let verdict = match claim.verdict {
                Verdict::NotReproducible => Verdict::NotReproducible,
                _ => check.verdict,
            };
            table.row(vec![
                claim.id.clone(),
                check.name.clone(),
                check.paper_text(),
                check.here_text(),
                check.unit.clone().unwrap_or_default(),
                verdict.text().to_string() + if check.fitted { ", fitted" } else { "" },
                check.rule.clone(),
                check.experiment.clone(),
            ]);
        }
    }
    let count = |verdict| claims.iter().filter(|c| c.verdict == verdict).count();
    let counts = Verdict::ALL.map(|verdict| (count(verdict).to_string(), verdict.text().into()));
    let mut section = Section::new("claims", "Claims")
        .verdict(&summary(claims))
        .text(
            "Every claim of the papers, and the rule by which it is judged. Rules of experiments \
             that had run before the rules existed were written with their results known. \
             Fitted: calibrated to the paper's value, so that agreement shows nothing.",
        )
        .cards(&counts)
        .html(&table.to_html());
    let reasons = claims
        .iter()
        .filter_map(|claim| Some((claim, claim.not_reproducible.as_ref()?)));
    for (at, (claim, why)) in reasons.enumerate() {
        if at == 0 {
            section = section.heading("Not reproducible here");
        }
        section = section.text(&format!("{} ({}): {why}", claim.id, claim.what));
    }
    section
}

/// The answer of the whole run in a sentence or two.
fn summary(claims: &[JudgedClaim]) -> String {
    let of = |verdict| claims.iter().filter(move |claim| claim.verdict == verdict);
    let (holds, misses) = (of(Verdict::Holds).count(), of(Verdict::Misses).count());
    let judged = holds + misses;
    if judged == 0 {
        return format!(
            "None of the {} claims was judged in this run.",
            claims.len()
        );
    }
    let missed: Vec<&str> = of(Verdict::Misses).map(|claim| claim.id.as_str()).collect();
    let missed = match missed.is_empty() {
        true => String::new(),
        false => format!(" Missed: {}.", missed.join(", ")),
    };
    let others = match claims.len() - judged {
        0 => String::new(),
        others => format!(" Of the other {others} the cards say why they were not judged."),
    };
    format!("{holds} of {judged} claims that were judged hold.{missed}{others}")
}

fn section(title: &str, done: &Done) -> Section {
    let section = Section::new(&done.id, &done.id).text(title);
    let finished = match &done.ended {
        Ended::Failed(why) => return section.verdict(&format!("Failed: {why}")),
        Ended::Missing(needs) => {
            return section.verdict(&format!("Not run; needs {}", needs.join("; ")));
        }
        Ended::Interrupted => return section.verdict("Not run: the run was ended before."),
        Ended::Result { finished, .. } => finished,
    };
    let mut section = match finished.partial {
        true => section.verdict("Ended early: this result is partial."),
        false => section,
    };
    for figure in &finished.figures {
        section = section.figure(&figure.svg, &figure.caption);
    }
    if !finished.head.is_empty() {
        section = section.html(&format!(
            "<pre tabindex='0'>{}</pre>\n",
            escape(finished.head.trim_end())
        ));
    }
    for (name, table) in &finished.tables {
        if !name.is_empty() {
            section = section.heading(name);
        }
        section = section.html(&table.first(ROWS_ON_PAGE).to_html());
        if table.len() > ROWS_ON_PAGE {
            section = section.note(&format!(
                "The first {ROWS_ON_PAGE} of {} rows; the CSV file has all.",
                table.len()
            ));
        }
    }
    let file = |name: String| format!("<a href='{0}'>{0}</a>", escape(&name));
    let rows = finished.rows.iter();
    let tables = rows.map(|rows| file(format!("{}.{}.csv", done.id, rows.name)));
    let figures = finished.figures.iter();
    let figures = figures.map(|figure| file(figure_file(&done.id, &figure.name)));
    let json = std::iter::once(file(format!("{}.json", done.id)));
    let files: Vec<String> = json.chain(tables).chain(figures).collect();
    section.html(&format!("<p class='note'>{}</p>\n", files.join(" ")))
}
