// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an experiment is: parameters in TOML, a run, and a typed result with tables and figures.
//!
//! An experiment implements [`Experiment`] for its own types; [`AnyExperiment`] is the same
//! without types, for the list [`ALL`](crate::ALL) and the programs made from it. How to add one:
//! `docs/lab.md`.

use crate::files::{Declared, declared};
use crate::needs::Need;
use crate::rows::{Rows, rows};
use crate::text;
use ample_report::Table;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;

/// Text of a result: a constant here, a string when it was read back.
pub type Text = std::borrow::Cow<'static, str>;

/// The layer of the project that an experiment is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Looking at machines: scan, fleet.
    See,
    /// The server model.
    Predict,
    /// The kernel.
    Cure,
    /// The allocator.
    Use,
    /// Simulated hardware.
    Show,
}

/// What a run costs on two cores, roughly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Wall time.
    pub seconds: f64,
    /// Peak resident memory.
    pub memory_bytes: u64,
    /// Threads that it keeps busy; 0 stands for all there are.
    pub threads: usize,
}

impl Cost {
    /// Seconds, megabytes, threads (0: all).
    pub const fn new(seconds: f64, megabytes: u64, threads: usize) -> Cost {
        Cost {
            seconds,
            memory_bytes: megabytes << 20,
            threads,
        }
    }
}

/// What is known of an experiment before it runs; title and calibration are in its TOML file.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct About {
    /// Name on the command line and of its file under `experiments/`.
    pub id: &'static str,
    /// Layer.
    pub layer: Layer,
    /// Ids of the papers' claims that it speaks of.
    pub claims: &'static [&'static str],
    /// What must be there to run it.
    pub needs: &'static [Need],
    /// Experiments whose results it reads.
    pub depends_on: &'static [&'static str],
    /// Same parameters and seed, same bytes; false for what is measured on this machine.
    pub deterministic: bool,
    /// Cost as shipped.
    pub full: Cost,
    /// Cost with `--quick`.
    pub quick: Cost,
}

impl About {
    /// A deterministic simulation without needs; costs are to be given.
    pub const fn simulated(id: &'static str, layer: Layer) -> About {
        About {
            id,
            layer,
            claims: &[],
            needs: &[],
            depends_on: &[],
            deterministic: true,
            full: Cost::new(60.0, 500, 0),
            quick: Cost::new(5.0, 200, 0),
        }
    }
}

/// Told the share done, from any thread.
pub type Progress<'a> = &'a (dyn Fn(f64) + Sync);

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of its file, without extension; unique within the experiment.
    pub name: String,
    /// What it shows.
    pub caption: String,
    /// A bare `<svg>`; `ample_report::standalone` makes a file of it.
    pub svg: String,
}

impl Figure {
    /// The only figure of an experiment, or one of several.
    pub fn new(name: &str, caption: &str, svg: String) -> Figure {
        Figure {
            name: name.into(),
            caption: caption.into(),
            svg,
        }
    }
}

/// A typed result.
pub trait Outcome: Serialize + DeserializeOwned + Debug {
    /// Format of the JSON object, which names it in its field `schema`.
    const SCHEMA: &'static str;

    /// Whether it was ended early; some of its rows are missing then.
    fn partial(&self) -> bool;

    /// Whether what was to be shown holds; false gives exit code 1.
    fn holds(&self) -> bool {
        true
    }

    /// The figures.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// The tables for people, by name. Without an implementation: every list of objects in the
    /// result, in the order of its fields.
    fn tables(&self) -> Vec<(String, Table)> {
        let value = serde_json::to_value(self).unwrap_or_default();
        rows(&value).iter().map(text::table).collect()
    }

    /// What to say above the tables. Without an implementation: the plain fields of the result.
    fn head(&self) -> String {
        text::scalars(&serde_json::to_value(self).unwrap_or_default())
    }
}

/// An experiment.
pub trait Experiment: Sync {
    /// Parameters, the table `[parameters]` of the TOML file.
    type Parameters: Clone + Debug + Serialize + DeserializeOwned + Send + Sync;
    /// Result.
    type Outcome: Outcome;

    /// What is known of it.
    fn about(&self) -> About;

    /// The text of `experiments/ID.toml`.
    fn shipped(&self) -> &'static str;

    /// Smaller parameters that show within seconds that the experiment works.
    fn quick(&self, full: Self::Parameters) -> Self::Parameters;

    /// Runs it. An early end ([`crate::stop`]) gives a partial result, not an error.
    ///
    /// # Errors
    /// When a parameter is wrong or a run fails.
    fn run(
        &self,
        declared: &Declared<Self::Parameters>,
        progress: Progress<'_>,
    ) -> Result<Self::Outcome>;
}

/// What to run an experiment with.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// Name and text of a file instead of the shipped one.
    pub file: Option<(&'a str, &'a str)>,
    /// The quick version of the parameters.
    pub quick: bool,
    /// Parameters to change afterwards: dotted key and value.
    pub set: Vec<(String, toml::Value)>,
}

/// A result in every form that is shown or kept.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The JSON object with a final newline: fields in the order of their declaration.
    pub json: String,
    /// The same as a value.
    pub value: Value,
    /// Ended early.
    pub partial: bool,
    /// What was to be shown holds.
    pub holds: bool,
    /// What to say above the tables.
    pub head: String,
    /// Tables by name.
    pub tables: Vec<(String, Table)>,
    /// The lists of the result as plain values, for CSV and Parquet.
    pub rows: Vec<Rows>,
    /// Figures.
    pub figures: Vec<Figure>,
}

impl Finished {
    /// All forms of a typed result.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn of<O: Outcome>(outcome: &O) -> Result<Finished> {
        let value = serde_json::to_value(outcome)?;
        debug_assert_eq!(value["schema"], O::SCHEMA);
        Ok(Finished {
            json: serde_json::to_string_pretty(outcome)? + "\n",
            partial: outcome.partial(),
            holds: outcome.holds(),
            head: outcome.head(),
            tables: outcome.tables(),
            rows: rows(&value),
            figures: outcome.figures(),
            value,
        })
    }

    /// Head and tables for a terminal.
    pub fn text(&self) -> String {
        let mut text = self.head.clone();
        for (name, table) in &self.tables {
            let title = match name.is_empty() {
                true => String::new(),
                false => format!("{name}\n"),
            };
            text += &format!("\n{title}{}", table.to_text());
        }
        text
    }
}

/// Parameters that were read and adjusted, ready to run.
pub trait Prepared: Send + Sync {
    /// Id, title and what was calibrated.
    fn head(&self) -> &crate::files::Head;
    /// The parameters, for a cache's key and for the record.
    fn parameters(&self) -> Value;
    /// Runs the experiment.
    ///
    /// # Errors
    /// As [`Experiment::run`].
    fn run(&self, progress: Progress<'_>) -> Result<Finished>;
}

/// An [`Experiment`] without its types.
pub trait AnyExperiment: Sync {
    /// What is known of it.
    fn about(&self) -> About;
    /// One line for people.
    fn title(&self) -> String;
    /// The text of `experiments/ID.toml`.
    fn shipped(&self) -> &'static str;
    /// Reads and adjusts parameters.
    ///
    /// # Errors
    /// When the file is wrong: which file, line and field.
    fn prepare(&self, request: &Request<'_>) -> Result<Box<dyn Prepared + '_>>;
    /// Reads a result back from its JSON.
    ///
    /// # Errors
    /// When it is not a result of this experiment.
    fn read_back(&self, json: &str) -> Result<Finished>;
}

struct PreparedRun<'a, E: Experiment> {
    experiment: &'a E,
    declared: Declared<E::Parameters>,
}

impl<E: Experiment> Prepared for PreparedRun<'_, E> {
    fn head(&self) -> &crate::files::Head {
        &self.declared.experiment
    }

    fn parameters(&self) -> Value {
        serde_json::to_value(&self.declared.parameters).unwrap_or_default()
    }

    fn run(&self, progress: Progress<'_>) -> Result<Finished> {
        let id = self.experiment.about().id;
        let outcome = self.experiment.run(&self.declared, progress);
        Finished::of(&outcome.with_context(|| format!("experiment {id}"))?)
    }
}

impl<E: Experiment> AnyExperiment for E {
    fn about(&self) -> About {
        Experiment::about(self)
    }

    fn title(&self) -> String {
        let id = Experiment::about(self).id;
        let head = crate::files::head(Experiment::shipped(self));
        head.map_or_else(|_| id.into(), |head| head.title)
    }

    fn shipped(&self) -> &'static str {
        Experiment::shipped(self)
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Box<dyn Prepared + '_>> {
        let about = Experiment::about(self);
        let shipped = format!("experiments/{}.toml", about.id);
        let (file, text) = request
            .file
            .unwrap_or((&shipped, Experiment::shipped(self)));
        let mut read: Declared<E::Parameters> = declared(file, text)?;
        ensure!(
            read.experiment.id == about.id,
            "{file}: id = {:?}, but the experiment is {}",
            read.experiment.id,
            about.id
        );
        if request.quick {
            read.parameters = self.quick(read.parameters);
        }
        read.parameters = crate::files::changed(read.parameters, &request.set)?;
        Ok(Box::new(PreparedRun {
            experiment: self,
            declared: read,
        }))
    }

    fn read_back(&self, json: &str) -> Result<Finished> {
        let id = Experiment::about(self).id;
        let value: Value = serde_json::from_str(json).context("reading a result")?;
        let schema = E::Outcome::SCHEMA;
        ensure!(
            value["schema"] == schema,
            "schema {} is no result of {id}, which are {schema}",
            value["schema"]
        );
        let outcome: E::Outcome =
            serde_json::from_str(json).with_context(|| format!("reading a result of {id}"))?;
        Finished::of(&outcome)
    }
}
