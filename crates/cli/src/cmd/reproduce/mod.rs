// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample reproduce`: every experiment and every claim, as one page.

mod console;

use super::sim::{list_object, stop_on_interrupt};
use super::{Verdict, write_file};
use ample_kit::names::nearest;
use ample_lab::claims::{Accepted, JudgedClaim, Regression, judge, regressions, shipped};
use ample_lab::experiment::AnyExperiment;
use ample_lab::reproduce::{
    Budget, Contents, Done, Ended, Job, Key, Limits, Store, jobs, run as run_jobs, write_report,
};
use ample_lab::stop;
use ample_pfn::parse_bytes;
use anyhow::{Context, Result, bail};
use console::{Console, listing, summary};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Run the experiments of the papers and judge the papers' claims on their results.
///
/// Writes DIR/index.html (the paper's values, ours and the verdicts, with all figures), a CSV file
/// a table, an SVG file a figure, and all values as results.parquet. A result is kept by the
/// content of its parameters and of this program: a run that was ended or killed goes on where
/// it was. --quick runs small versions, whose values are not the experiments' but show that each
/// one works. Ctrl-C ends the run within about a second, with what there is; a second one ends
/// it at once.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Run these only; all when there is none.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Small, fast versions.
    #[arg(long)]
    quick: bool,
    /// Say what there is to run, how long it takes and what it needs, and end.
    #[arg(long)]
    list: bool,
    /// Directory for the report and the results.
    #[arg(long, value_name = "DIR", default_value = "report/reproduce")]
    out: PathBuf,
    /// Run again what is in the cache.
    #[arg(long)]
    fresh: bool,
    /// Threads for all experiments together. [default: all processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
    /// Memory for all experiments together. [default: four fifths of what is available]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// Compare with the accepted verdicts: exit code 1 if one got worse.
    #[arg(long)]
    check: bool,
    /// Accept the verdicts: write them to the file of --verdicts.
    #[arg(long, conflicts_with = "check")]
    accept: bool,
    /// Accepted verdicts. [default: for --check those of this program, for --accept
    /// results/verdicts.json]
    #[arg(long, value_name = "FILE")]
    verdicts: Option<PathBuf>,
    /// Print one object, schema ample.reproduce/2: what ran, where its results are, the claims;
    /// with --list, ample.experiments/1.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  ample reproduce --list                what there is, how long it takes
  ample reproduce --quick --check       all of it, small; has a verdict got worse?
  ample reproduce fig11 ablation        two of them at full size";

/// Where the accepted verdicts are committed.
const VERDICTS: &str = "results/verdicts.json";

/// All jobs, by layer; within one as they are listed.
fn all(quick: bool) -> Result<Vec<Job<'static>>> {
    let mut listed: Vec<&'static dyn AnyExperiment> = ample_lab::ALL.to_vec();
    listed.sort_by_key(|experiment| experiment.about().layer);
    jobs(&listed, quick)
}

/// The jobs of these ids and of what they depend on; all without ids.
fn chosen(ids: &[String], jobs: Vec<Job<'static>>) -> Result<Vec<Job<'static>>> {
    let known = || jobs.iter().map(Job::id);
    let mut wanted: Vec<String> = ids.to_vec();
    let mut at = 0;
    while let Some(id) = wanted.get(at).cloned() {
        let Some(job) = jobs.iter().find(|job| job.id() == id) else {
            let hint = nearest(&id, known()).map(|id| format!("; did you mean {id}?"));
            bail!(
                "no experiment is called {id:?}{} There are {}",
                hint.unwrap_or_else(|| ".".into()),
                known().collect::<Vec<_>>().join(", ")
            );
        };
        let needed = job.about.depends_on.iter();
        let missing: Vec<String> = needed.filter(|id| !wanted.contains(id)).cloned().collect();
        wanted.extend(missing);
        at += 1;
    }
    let is_wanted = |job: &Job| wanted.is_empty() || wanted.iter().any(|id| id == job.id());
    Ok(jobs.into_iter().filter(is_wanted).collect())
}

/// Runs the command.
///
/// # Errors
/// When there is no such experiment, the results cannot be written, or an experiment failed.
pub fn run(args: &Args) -> Result<Verdict> {
    let jobs = chosen(&args.ids, all(args.quick)?)?;
    let mut budget = Budget::of_this_machine();
    budget.threads = args.threads.map_or(budget.threads, usize::from);
    budget.memory_bytes = args.memory.unwrap_or(budget.memory_bytes);
    if args.list && args.json {
        return print(&list_object(jobs.iter().map(|job| &job.about))?);
    }
    if args.list {
        return print(&listing(&jobs, &budget, args.quick));
    }
    let accepted = args.check.then(|| accepted(args.verdicts.as_deref()));
    let accepted = accepted.transpose()?;
    let store = Store::open(&args.out)?;
    stop_on_interrupt()?;
    let limits = Limits {
        budget,
        program: Key::of_this_program()?,
        fresh: args.fresh,
    };
    let done = run_jobs(&jobs, &store, &limits, &Console::new())?;
    let claims = claims(args.quick, &done);
    let titles = jobs.iter().map(|job| job.about.title.clone());
    let contents: Vec<(String, &Done)> = titles.zip(&done).collect();
    let contents = Contents {
        lead: &lead(args),
        done: &contents,
        claims: &claims,
    };
    write_report(&args.out, &contents)?;
    let worse = accepted.map(|accepted| worse(&accepted, args, &claims, &done));
    if args.accept {
        accept(args, &claims)?;
    }
    print(&answer(args, &done, &claims, worse.as_deref())?)?;
    end(&done, worse.as_deref())
}

/// The claims judged on the whole results of a run.
fn claims(quick: bool, done: &[Done]) -> Vec<JudgedClaim> {
    judge(&shipped(), quick, |id| {
        let finished = done.iter().find(|done| done.id == id)?.finished()?;
        (!finished.partial).then_some(&finished.value)
    })
}

fn lead(args: &Args) -> String {
    let size = if args.quick {
        "small versions (--quick): these are not the experiments’ figures"
    } else {
        "full size"
    };
    format!("ample {}, {size}", env!("CARGO_PKG_VERSION"))
}

fn read_verdicts(path: &Path) -> Result<Accepted> {
    let text = ample_kit::files::read_text(path, 16 << 20)
        .with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} holds no verdicts", path.display()))
}

fn accepted(file: Option<&Path>) -> Result<Accepted> {
    file.map_or_else(|| Ok(Accepted::shipped()), read_verdicts)
}

/// What got worse. An experiment that this machine lacks something for is not asked about.
fn worse(
    accepted: &Accepted,
    args: &Args,
    claims: &[JudgedClaim],
    done: &[Done],
) -> Vec<Regression> {
    let ran = |id: &str| {
        let of_id = done.iter().find(|done| done.id == id);
        of_id.is_some_and(|done| !matches!(done.ended, Ended::Missing(_) | Ended::Interrupted))
    };
    regressions(accepted, args.quick, claims, ran)
}

fn accept(args: &Args, claims: &[JudgedClaim]) -> Result<()> {
    let path = args.verdicts.clone().unwrap_or_else(|| VERDICTS.into());
    let mut accepted = match path.exists() {
        true => read_verdicts(&path)?,
        false => Accepted::default(),
    };
    accepted.accept(args.quick, claims);
    let text = serde_json::to_string_pretty(&accepted)? + "\n";
    write_file(&path, text)
}

fn answer(
    args: &Args,
    done: &[Done],
    claims: &[JudgedClaim],
    worse: Option<&[Regression]>,
) -> Result<String> {
    let page = args.out.join("index.html").display().to_string();
    if !args.json {
        return Ok(summary(claims, worse, &page));
    }
    let experiment = |done: &Done| {
        let (error, missing, seconds, cached) = match &done.ended {
            Ended::Result {
                cached, seconds, ..
            } => (None, None, Some(seconds), *cached),
            Ended::Failed(why) => (Some(why.clone()), None, None, false),
            Ended::Missing(needs) => (None, Some(needs), None, false),
            Ended::Interrupted => (None, None, None, false),
        };
        let file = args.out.join(format!("{}.json", done.id));
        serde_json::json!({
            "id": done.id,
            "json_file": done.finished().map(|_| file.display().to_string()),
            "seconds": seconds,
            "cached": cached,
            "partial": done.finished().is_none_or(|finished| finished.partial),
            "missing": missing,
            "error": error,
        })
    };
    let view = serde_json::json!({
        "schema": "ample.reproduce/2",
        "quick": args.quick,
        "partial": stop::requested(),
        "page": page,
        "experiments": done.iter().map(experiment).collect::<Vec<_>>(),
        "claims": claims,
        "worse": worse,
    });
    Ok(serde_json::to_string_pretty(&view)? + "\n")
}

/// The exit code.
fn end(done: &[Done], worse: Option<&[Regression]>) -> Result<Verdict> {
    let failed = |done: &&Done| matches!(done.ended, Ended::Failed(_));
    let failed: Vec<&str> = done.iter().filter(failed).map(|done| &*done.id).collect();
    if !failed.is_empty() {
        bail!(
            "{} of {} failed: {}",
            failed.len(),
            done.len(),
            failed.join(", ")
        );
    }
    if stop::requested() {
        tell!("ended early: the same command goes on from here");
        return Ok(Verdict::Negative);
    }
    let not_shown = |done: &&Done| done.finished().is_some_and(|finished| !finished.holds);
    let not_shown: Vec<&str> = done
        .iter()
        .filter(not_shown)
        .map(|done| &*done.id)
        .collect();
    if !not_shown.is_empty() {
        tell!(
            "what was to be shown does not hold: {}",
            not_shown.join(", ")
        );
    }
    let good = not_shown.is_empty() && worse.is_none_or(<[Regression]>::is_empty);
    Ok(if good { Verdict::Ok } else { Verdict::Negative })
}

fn print(text: &str) -> Result<Verdict> {
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Verdict::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_every_claim_names_one() {
        let jobs = all(true).expect("jobs");
        let mut ids: Vec<&str> = jobs.iter().map(Job::id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for claim in shipped() {
            for check in &claim.checks {
                let known = ids.contains(&check.experiment.as_str());
                assert!(known, "{}: no experiment {}", claim.id, check.experiment);
            }
        }
    }

    #[test]
    fn an_id_brings_what_it_depends_on_and_a_wrong_one_a_hint() {
        let of = |ids: &[&str]| {
            let ids: Vec<String> = ids.iter().map(|id| id.to_string()).collect();
            chosen(&ids, all(true).expect("jobs"))
        };
        assert_eq!(of(&["walks"]).expect("known").len(), 1);
        let error = of(&["wlaks"]).err().expect("unknown").to_string();
        assert!(error.contains("did you mean walks?"), "{error}");
    }
}
