// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folder `results/data`, read and checked as a whole.

use super::record::{Layer, MachineRecord, ResultRecord};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// Markdown outside `results/` in which figures are marked by selector.
const TEXTS: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "COMPARISON.md",
    "CONTRIBUTING.md",
    "STYLE.md",
    "CHANGELOG.md",
    "docs",
];

/// What went wrong, with the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultsError {
    /// The file, relative to the root of the tree.
    pub path: PathBuf,
    /// One sentence.
    pub what: String,
}

impl fmt::Display for ResultsError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for ResultsError {}

/// A layer on the index page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexLayer {
    /// Folder below `results/data`, and name of the page.
    pub layer: Layer,
    /// Heading of its page.
    pub title: String,
    /// What the layer achieves; figures are selectors in braces.
    pub line: String,
    /// Id of the result whose figure stands on the index page.
    pub figure: String,
    /// Ids of the layer's results in reading order.
    pub results: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexFile {
    schema: String,
    layers: Vec<IndexLayer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachinesFile {
    schema: String,
    machines: Vec<MachineRecord>,
}

/// A file that is made from the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedFile {
    /// Path relative to the root of the tree.
    pub path: PathBuf,
    /// The whole text.
    pub text: String,
}

/// All results of the tree.
#[derive(Clone, Debug)]
pub struct Results {
    pub(crate) records: Vec<ResultRecord>,
    pub(crate) layers: Vec<IndexLayer>,
    machines: Vec<MachineRecord>,
}

impl Results {
    /// Reads and checks `results/data` below `root`.
    ///
    /// # Errors
    /// The first file that cannot be read, has an unknown or missing field, or breaks a rule: a
    /// row without a command, an unknown machine, an id twice, a result that the index leaves
    /// out.
    pub fn load(root: &Path) -> Result<Results, ResultsError> {
        let index: IndexFile = read_json(root, Path::new("results/data/index.json"))?;
        let machines: MachinesFile = read_json(root, Path::new("results/data/machines.json"))?;
        let schemas = [
            ("index", &index.schema, "ample.result-index/1"),
            ("machines", &machines.schema, "ample.machines/1"),
        ];
        for (name, schema, wanted) in schemas {
            if schema != wanted {
                let path = format!("results/data/{name}.json").into();
                return Err(ResultsError {
                    path,
                    what: format!("schema is not {wanted}"),
                });
            }
        }
        let mut results = Results {
            records: Vec::new(),
            layers: index.layers,
            machines: machines.machines,
        };
        for layer in results.layers.clone() {
            let folder = Path::new("results/data").join(layer.layer.name());
            for path in files(root, &folder, "json")? {
                let record: ResultRecord = read_json(root, &path)?;
                let named = |what| ResultsError {
                    path: path.clone(),
                    what,
                };
                record.check().map_err(named)?;
                results.check_place(&record, &path).map_err(named)?;
                results.records.push(record);
            }
        }
        results.check_index()?;
        Ok(results)
    }

    /// The result with this id.
    pub fn record(&self, id: &str) -> Option<&ResultRecord> {
        self.records.iter().find(|record| record.id == id)
    }

    /// Takes the rows of every record of an experiment from its result: the record with the
    /// experiment's id, and those whose command runs it.
    ///
    /// # Errors
    /// When no record says where its rows are in the result, or a field is missing.
    pub fn refresh(
        &mut self,
        id: &str,
        result: &serde_json::Value,
        date: &str,
        commit: &str,
    ) -> Result<(), String> {
        let command = format!("ample sim {id}");
        let mut found = false;
        for record in self
            .records
            .iter_mut()
            .filter(|record| record.list.is_some())
        {
            if record.id == id || record.command == command {
                *record = record.refreshed(result, date, commit)?;
                found = true;
            }
        }
        match found {
            true => Ok(()),
            false => Err(format!(
                "no record of {id} says where its rows are in the result"
            )),
        }
    }

    /// The machine with this id.
    pub fn machine(&self, id: &str) -> Option<&MachineRecord> {
        self.machines.iter().find(|machine| machine.id == id)
    }

    /// Everything that is made from the data: pages, figures, the data files in their canonical
    /// form, and texts with marked figures.
    ///
    /// # Errors
    /// A file that cannot be read, or a selector that fits nothing.
    pub fn generated(&self, root: &Path) -> Result<Vec<GeneratedFile>, ResultsError> {
        let index = PathBuf::from("results/data/index.json");
        let mut all = self
            .pages()
            .map_err(|what| ResultsError { path: index, what })?;
        for record in &self.records {
            let name = format!("results/data/{}/{}.json", record.layer.name(), record.id);
            all.push(GeneratedFile {
                path: name.into(),
                text: record.to_text(),
            });
        }
        let mut texts = Vec::new();
        for name in TEXTS {
            match root.join(name).is_dir() {
                true => texts.extend(files(root, Path::new(name), "md")?),
                false if root.join(name).exists() => texts.push(name.into()),
                false => {}
            }
        }
        for path in texts {
            let old = read(root, &path)?;
            let named = |what| ResultsError {
                path: path.clone(),
                what,
            };
            let text = self.fill(&old).map_err(named)?;
            all.push(GeneratedFile { path, text });
        }
        Ok(all)
    }

    fn check_place(&self, record: &ResultRecord, path: &Path) -> Result<(), String> {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if stem != Some(&record.id) {
            return Err(format!("holds the result {:?}", record.id));
        }
        let folder = path.parent().and_then(|parent| parent.file_name());
        if folder != Some(record.layer.name().as_ref()) {
            return Err(format!("belongs to the layer {}", record.layer.name()));
        }
        if self.record(&record.id).is_some() {
            return Err("a result with this id exists".into());
        }
        match self.machine(&record.machine) {
            Some(_) => Ok(()),
            None => Err(format!(
                "machine {:?} is not in machines.json",
                record.machine
            )),
        }
    }

    fn check_index(&self) -> Result<(), ResultsError> {
        let wrong = |what| {
            Err(ResultsError {
                path: "results/data/index.json".into(),
                what,
            })
        };
        let mut listed = BTreeSet::new();
        for layer in &self.layers {
            for id in layer.results.iter().chain([&layer.figure]) {
                match self.record(id) {
                    Some(record) if record.layer == layer.layer => listed.insert(id),
                    _ => return wrong(format!("{id} is no result of {}", layer.layer.name())),
                };
            }
            if self
                .record(&layer.figure)
                .is_none_or(|record| record.figure.is_none())
            {
                return wrong(format!("{} has no figure", layer.figure));
            }
        }
        if let Some(record) = self
            .records
            .iter()
            .find(|record| !listed.contains(&record.id))
        {
            return wrong(format!("{} is not listed", record.id));
        }
        let mut bars = BTreeSet::new();
        let all = self.records.iter().flat_map(|record| &record.bars);
        for bar in all {
            if !bars.insert(&bar.id) {
                return wrong(format!("bar {} exists twice", bar.id));
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn for_test(records: Vec<ResultRecord>) -> Results {
        Results {
            records,
            layers: Vec::new(),
            machines: Vec::new(),
        }
    }
}

fn read(root: &Path, path: &Path) -> Result<String, ResultsError> {
    let text = std::fs::read_to_string(root.join(path));
    text.map_err(|error| ResultsError {
        path: path.into(),
        what: error.to_string(),
    })
}

fn read_json<T: DeserializeOwned>(root: &Path, path: &Path) -> Result<T, ResultsError> {
    let text = read(root, path)?;
    let parsed = serde_json::from_str(&text);
    parsed.map_err(|error| ResultsError {
        path: path.into(),
        what: error.to_string(),
    })
}

/// Files with this extension below a folder, in order of their names, relative to the root.
fn files(root: &Path, folder: &Path, extension: &str) -> Result<Vec<PathBuf>, ResultsError> {
    let failed = |error: std::io::Error| ResultsError {
        path: folder.into(),
        what: error.to_string(),
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(root.join(folder)).map_err(failed)? {
        let path = folder.join(entry.map_err(failed)?.file_name());
        if root.join(&path).is_dir() {
            paths.extend(files(root, &path, extension)?);
        } else if path.extension().is_some_and(|found| found == extension) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
