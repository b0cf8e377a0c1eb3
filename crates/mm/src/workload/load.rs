// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading workloads: shipped ones by name, others from files, with errors that name file,
//! line and field.

use super::spec::{KernelSpec, Process, Workload};
use ample_kit::names::meant;
use ample_pfn::{PageClass, is_movable};
use std::path::Path;

/// Largest file of a workload.
const MOST_BYTES: u64 = 1 << 20;

macro_rules! shipped {
    ($($name:literal)+) => {
        [$((
            $name,
            include_str!(concat!("../../../../experiments/workloads/", $name, ".toml")),
        )),+]
    };
}

/// The shipped workloads: name and text.
const SHIPPED: [(&str, &str); 13] = shipped!(
    "web" "cache-a" "cache-b" "ci" "web-day" "storm" "thrash" "pinning" "swapping" "steps" "writing"
    "fragmenter-full" "fragmenter-partial"
);

/// Names of the workloads that need no file.
pub fn shipped_workloads() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Why a workload could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// Neither a shipped name nor a file.
    #[error(
        "no workload {name:?}: shipped are {}; or give the path of a .toml file{}",
        shipped_workloads().collect::<Vec<_>>().join(", "),
        meant(name, shipped_workloads())
    )]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file could not be read.
    #[error("{file}: {source}")]
    Io {
        /// Path of the workload's file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not TOML, an unknown field, or a value of a wrong type.
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// Path of the workload's file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong, with the field.
        message: String,
    },
    /// A value that makes no sense.
    #[error("{file}:{line}: {field}: {message}")]
    Value {
        /// Path of the workload's file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The field, such as `kernel.level_ratio`.
        field: String,
        /// What is wrong and what would be right.
        message: String,
    },
}

impl Workload {
    /// A shipped workload by name, or one from a file.
    ///
    /// # Errors
    /// [`WorkloadError`], naming file, line and field.
    pub fn load(name_or_path: &str) -> Result<Workload, WorkloadError> {
        if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
            return Workload::parse(text, &format!("workloads/{name}.toml"));
        }
        let is_path = name_or_path.contains(['/', '.']);
        if !is_path {
            return Err(WorkloadError::Unknown {
                name: name_or_path.into(),
            });
        }
        let text =
            ample_kit::files::read_text(Path::new(name_or_path), MOST_BYTES).map_err(|source| {
                WorkloadError::Io {
                    file: name_or_path.into(),
                    source,
                }
            })?;
        Workload::parse(&text, name_or_path)
    }

    /// Parses and checks the text of a workload; `file` is for messages.
    ///
    /// # Errors
    /// [`WorkloadError`], naming file, line and field.
    pub fn parse(text: &str, file: &str) -> Result<Workload, WorkloadError> {
        let workload: Workload = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            WorkloadError::Syntax {
                file: file.into(),
                line: text.get(..at).unwrap_or("").matches('\n').count() + 1,
                message: error.message().replace('\n', " "),
            }
        })?;
        match workload.find_fault() {
            None => Ok(workload),
            Some(fault) => Err(WorkloadError::Value {
                file: file.into(),
                line: line_of(text, &fault),
                field: format!("{}.{}", fault.table, fault.key),
                message: fault.message,
            }),
        }
    }

    fn find_fault(&self) -> Option<Fault> {
        let mut processes = self.process.iter().enumerate();
        let mut kernel = self.kernel.iter().enumerate();
        (processes.find_map(|(index, p)| p.find_fault(index)))
            .or_else(|| kernel.find_map(|(index, k)| k.find_fault(index)))
            .or_else(|| self.find_fault_in_tables())
            .or_else(|| self.find_fault_in_sums())
    }

    fn find_fault_in_tables(&self) -> Option<Fault> {
        let (c, h, s) = (&self.cache, &self.huge, &self.swap);
        let tables: [(&str, &[(&str, f64)]); 5] = [
            (
                "cache",
                &[
                    ("read_per_hour", c.read_per_hour),
                    ("drop_per_hour", c.drop_per_hour),
                    ("reuse_ratio", c.reuse_ratio),
                    ("boot_ratio", c.boot_ratio),
                    ("refault_ratio", c.refault_ratio),
                    ("write_ratio", c.write_ratio),
                    ("written_back_per_hour", c.written_back_per_hour),
                ],
            ),
            (
                "swap",
                &[
                    ("size_ratio", s.size_ratio),
                    ("reclaim_ratio", s.reclaim_ratio),
                    ("wanted_per_hour", s.wanted_per_hour),
                ],
            ),
            (
                "pins",
                &[
                    ("level_ratio", self.pins.level_ratio),
                    ("start_ratio", self.pins.start_ratio),
                ],
            ),
            (
                "deploy",
                &[
                    ("read_ratio", self.deploy.read_ratio),
                    ("every_s", self.deploy.every_s),
                ],
            ),
            (
                "huge",
                &[
                    ("hugetlb_2m_ratio", h.hugetlb_2m_ratio),
                    ("hugetlb_1g_ratio", h.hugetlb_1g_ratio),
                    ("stopped_ratio", h.stopped_ratio),
                ],
            ),
        ];
        let mut tables = tables.into_iter();
        tables.find_map(|(table, numbers)| out_of_range(table, 0, numbers))
    }

    fn find_fault_in_sums(&self) -> Option<Fault> {
        let count: u64 = self.process.iter().map(|p| u64::from(p.count)).sum();
        if count > MOST_PROCESSES {
            let message = "all processes may be 100000 at most";
            return Some(Fault::new("process", 0, "count", message));
        }
        let pinned = self.pins.level_ratio > 0.0;
        if pinned && (count == 0 || !(1.0..=MOST).contains(&self.pins.hold_s)) {
            let message = "must be 1 to 10000000, and pins need a process";
            return Some(Fault::new("pins", 0, "hold_s", message));
        }
        let started = self.pins.start_ratio;
        let holders = self.process.first().map_or(0.0, |p| p.memory_ratio);
        if started > holders {
            let message = format!(
                "the first process group has {holders} of memory and cannot pin more than that"
            );
            return Some(Fault::new("pins", 0, "start_ratio", &message));
        }
        let demand: f64 = self.process.iter().map(|p| p.memory_ratio).sum::<f64>()
            + self.kernel.iter().map(|k| k.level_ratio).sum::<f64>();
        let most = 0.97 + self.swap.size_ratio;
        (demand > most).then(|| {
            let message =
                format!("all levels add up to {demand:.2} of memory; at most {most:.2} fits");
            Fault::new("process", 0, "memory_ratio", &message)
        })
    }
}

impl Process {
    fn find_fault(&self, index: usize) -> Option<Fault> {
        let at = |key, message: &str| Some(Fault::new("process", index, key, message));
        if self.count == 0 {
            return at("count", "must be at least 1");
        }
        if self.threads > 100_000 {
            return at("threads", "must be at most 100000");
        }
        let numbers = [
            ("memory_ratio", self.memory_ratio),
            ("huge_ratio", self.huge_ratio),
            ("grow_s", self.grow_s),
            ("churn_per_hour", self.churn_per_hour),
            ("restart_s", self.restart_s),
        ];
        out_of_range("process", index, &numbers)
    }
}

impl KernelSpec {
    fn find_fault(&self, index: usize) -> Option<Fault> {
        let at = |key, message: &str| Some(Fault::new("kernel", index, key, message));
        let class = PageClass::from_name(&self.class);
        if class.is_none_or(|class| is_movable(class) || class.is_free()) {
            return at(
                "class",
                "must be a kernel page class, such as network or slab",
            );
        }
        if self.order > 10 {
            return at("order", "must be 0 to 10");
        }
        if self.single_page_fallback && (self.order == 0 || self.atomic) {
            let message = "is for blocks of order 1 and more that are not atomic";
            return at("single_page_fallback", message);
        }
        let numbers = [
            ("level_ratio", self.level_ratio),
            ("burst_ratio", self.burst_ratio),
            ("boot_ratio", self.boot_ratio),
            ("wave_ratio", self.wave_ratio),
            ("churn_per_hour", self.churn_per_hour),
            ("trend_per_hour", self.trend_per_hour),
            ("wave_s", self.wave_s),
            ("burst_every_s", self.burst_every_s),
            ("burst_s", self.burst_s),
            ("grow_s", self.grow_s),
        ];
        out_of_range("kernel", index, &numbers)
    }
}

/// A wrong value and where it is.
struct Fault {
    table: String,
    index: usize,
    key: String,
    message: String,
}

impl Fault {
    fn new(table: &str, index: usize, key: &str, message: &str) -> Fault {
        Fault {
            table: table.into(),
            index,
            key: key.into(),
            message: message.into(),
        }
    }
}

/// Processes of all groups together; each has three pools of pages.
const MOST_PROCESSES: u64 = 100_000;
/// Largest time in seconds and largest rate that a workload may name.
const MOST: f64 = 1e7;

/// The first number that no workload can have: a ratio is a share, 0 to 1; a time or a rate is at
/// most [`MOST`].
fn out_of_range(table: &str, index: usize, numbers: &[(&str, f64)]) -> Option<Fault> {
    numbers.iter().find_map(|&(key, value)| {
        let (most, message) = match key.ends_with("_ratio") {
            true => (1.0, "must be a share, 0 to 1"),
            false => (MOST, "must be 0 to 10000000"),
        };
        let bad = !(0.0..=most).contains(&value);
        bad.then(|| Fault::new(table, index, key, message))
    })
}

/// Line of a field, from 1: the key in the index-th table of that name, or the table itself
/// when the key is left to its default.
fn line_of(text: &str, fault: &Fault) -> usize {
    let headers = [format!("[[{}]]", fault.table), format!("[{}]", fault.table)];
    let mut seen = 0;
    let mut table_line = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if headers.iter().any(|header| line.starts_with(header)) {
            if table_line.is_some() {
                break;
            }
            if seen == fault.index {
                table_line = Some(number + 1);
            }
            seen += 1;
        } else if table_line.is_some() {
            if line.starts_with('[') {
                break;
            }
            let key = line.split('=').next().unwrap_or("").trim();
            if key == fault.key {
                return number + 1;
            }
        }
    }
    table_line.unwrap_or(1)
}
