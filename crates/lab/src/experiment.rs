// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an experiment is: a TOML file, a run, and a typed result with tables and figures.
//!
//! An experiment implements [`Experiment`] for its own types; [`AnyExperiment`] is the same
//! with its file and without types, for the list [`ALL`](crate::ALL) and the programs made from
//! it. How to add one: `docs/lab.md`.

use crate::files::{Declared, changed, check_runs, declared, settings};
use crate::machines;
use crate::needs::Need;
use crate::rows::{Rows, rows};
use crate::{stop, text};
use ample_report::Table;
use ample_report::results::Layer;
use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Not;
use std::sync::OnceLock;

/// Text of a result: a constant here, a string when it was read back.
pub type Text = std::borrow::Cow<'static, str>;

/// What a run costs on two cores, roughly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Wall time.
    pub seconds: f64,
    /// Peak resident memory.
    pub memory_bytes: u64,
    /// Threads that it keeps busy; 0, the default, stands for all there are.
    #[serde(default)]
    pub threads: usize,
}

/// What is known of an experiment before it runs: the table `[experiment]` of its file. A file of
/// one's own needs the id alone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Name on the command line and of its file under `experiments/`.
    pub id: String,
    /// One line for people.
    #[serde(default)]
    pub title: String,
    /// What was calibrated, and on what.
    #[serde(default)]
    pub calibrated: String,
    /// What is predicted.
    #[serde(default)]
    pub predicted: String,
    /// Layer of the project that it belongs to.
    #[serde(default)]
    pub layer: Layer,
    /// What must be there to run it.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Experiments whose results it reads.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// It measures this machine; otherwise same parameters and seed give the same bytes.
    #[serde(default)]
    pub measured: bool,
    /// Cost of a run as shipped.
    #[serde(default)]
    pub cost: Cost,
    /// Cost with `--quick`.
    #[serde(default)]
    pub quick_cost: Cost,
}

/// Told the share done, from any thread.
pub type Progress<'a> = &'a (dyn Fn(f64) + Sync);

/// A drawing with its caption.
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

/// A typed result. Its JSON object begins with a field `schema` and, after an early end, ends
/// with `"partial": true`; the laboratory writes both.
pub trait Outcome: Serialize + DeserializeOwned + Debug {
    /// Format of the JSON object.
    const SCHEMA: &'static str;

    /// Takes over what the file says about the experiment, for a result that repeats it.
    fn declare(&mut self, _about: &About) {}

    /// Whether what was to be shown holds; false gives exit code 1.
    fn holds(&self) -> bool {
        true
    }

    /// What is drawn of it; an SVG each.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// The tables for people, by name. `None`: every list of objects in the result, in the order
    /// of its fields.
    fn tables(&self) -> Option<Vec<(String, Table)>> {
        None
    }

    /// What to say above the tables. `None`: the plain fields of the result.
    fn head(&self) -> Option<String> {
        None
    }
}

/// An experiment: its types and its run. Everything else about it is in its TOML file.
pub trait Experiment {
    /// Parameters, the table `[parameters]` of the TOML file.
    type Parameters: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Result.
    type Outcome: Outcome;

    /// Runs it. After an early end ([`crate::stop`]) the result has the parts that are complete.
    ///
    /// # Errors
    /// When a parameter is wrong or a run fails.
    fn run(parameters: &Self::Parameters, progress: Progress<'_>) -> Result<Self::Outcome>;
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
    /// Figures in the order of the experiment.
    pub figures: Vec<Figure>,
}

/// A result as it is written.
#[derive(Serialize)]
struct Written<'a, O> {
    schema: &'static str,
    #[serde(flatten)]
    outcome: &'a O,
    #[serde(skip_serializing_if = "Not::not")]
    partial: bool,
}

impl Finished {
    /// All forms of a typed result, which was ended early or not.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn of<O: Outcome>(outcome: &O, partial: bool) -> Result<Finished> {
        let written = Written {
            schema: O::SCHEMA,
            outcome,
            partial,
        };
        let value = serde_json::to_value(&written)?;
        let rows = rows(&value);
        let all_rows = || rows.iter().map(text::table).collect();
        Ok(Finished {
            json: serde_json::to_string_pretty(&written)? + "\n",
            partial,
            holds: outcome.holds(),
            head: outcome.head().unwrap_or_else(|| text::scalars(&value)),
            tables: outcome.tables().unwrap_or_else(all_rows),
            figures: outcome.figures(),
            rows,
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
pub struct Prepared {
    /// What the file says about the experiment.
    pub about: About,
    /// The parameters, for a cache's key and for the record.
    pub parameters: Value,
    run: Box<dyn Fn(Progress<'_>) -> Result<Finished> + Send + Sync>,
}

impl Prepared {
    /// Runs the experiment.
    ///
    /// # Errors
    /// As [`Experiment::run`].
    pub fn run(&self, progress: Progress<'_>) -> Result<Finished> {
        (self.run)(progress)
    }
}

/// An [`Experiment`] with its file, without its types.
pub trait AnyExperiment: Sync {
    /// What is known of it.
    fn about(&self) -> &About;
    /// The text of `experiments/ID.toml`.
    fn shipped(&self) -> &'static str;
    /// Reads and adjusts parameters.
    ///
    /// # Errors
    /// When the file is wrong: which file, line and field.
    fn prepare(&self, request: &Request<'_>) -> Result<Prepared>;
    /// Reads a result back from its JSON.
    ///
    /// # Errors
    /// When it is not a result of this experiment.
    fn read_back(&self, json: &str) -> Result<Finished>;
}

/// An experiment and its shipped file.
pub struct Listed<E> {
    shipped: &'static str,
    about: OnceLock<About>,
    experiment: PhantomData<fn() -> E>,
}

impl<E: Experiment> Listed<E> {
    /// The experiment of a file's text.
    pub const fn new(shipped: &'static str) -> Listed<E> {
        Listed {
            shipped,
            about: OnceLock::new(),
            experiment: PhantomData,
        }
    }
}

impl<E: Experiment> AnyExperiment for Listed<E> {
    /// # Panics
    /// When the shipped file has no table `[experiment]`, which tests rule out.
    fn about(&self) -> &About {
        let read = || crate::files::about(self.shipped).expect("the shipped file of an experiment");
        self.about.get_or_init(read)
    }

    fn shipped(&self) -> &'static str {
        self.shipped
    }

    fn prepare(&self, request: &Request<'_>) -> Result<Prepared> {
        let id = &self.about().id;
        let shipped = format!("experiments/{id}.toml");
        let (file, text) = request.file.unwrap_or((&shipped, self.shipped));
        let mut read: Declared<E::Parameters> = declared(file, text)?;
        let own = &read.experiment.id;
        ensure!(
            own == id,
            "{file}: id = {own:?}, but the experiment is {id}"
        );
        let small = match (&read.quick, request.file) {
            (None, Some(_)) => declared::<E::Parameters>(&shipped, self.shipped)?.quick,
            _ => read.quick.take(),
        };
        let small = settings(&small.unwrap_or_default());
        let small = changed(read.parameters.clone(), &small)
            .with_context(|| format!("{file}: table [quick]"))?;
        if request.quick {
            read.parameters = small;
        }
        let set = machines::settings_of(id, &read.parameters, &request.set)?;
        let parameters = changed(read.parameters, &set)?;
        let about = read.experiment;
        let plain = serde_json::to_value(&parameters)?;
        check_runs(&plain).with_context(|| file.to_string())?;
        Ok(Prepared {
            about: about.clone(),
            parameters: plain,
            run: Box::new(move |progress| {
                let outcome = E::run(&parameters, progress);
                let mut outcome = outcome.with_context(|| format!("experiment {}", about.id))?;
                outcome.declare(&about);
                Finished::of(&outcome, stop::requested())
            }),
        })
    }

    fn read_back(&self, json: &str) -> Result<Finished> {
        let id = &self.about().id;
        let value: Value = serde_json::from_str(json).context("reading a result")?;
        let schema = E::Outcome::SCHEMA;
        ensure!(
            value["schema"] == schema,
            "schema {} is no result of {id}, which are {schema}",
            value["schema"]
        );
        let outcome: E::Outcome =
            serde_json::from_str(json).with_context(|| format!("reading a result of {id}"))?;
        Finished::of(&outcome, value["partial"] == true)
    }
}
