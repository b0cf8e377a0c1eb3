// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading workloads: shipped ones by name, others from files, with errors that name file,
//! line and field.

use super::spec::Workload;
use ample_pfn::{PageClass, is_movable};

/// The shipped workloads: name and text.
const SHIPPED: [(&str, &str); 9] = [
    (
        "web",
        include_str!("../../../../experiments/workloads/web.toml"),
    ),
    (
        "cache-a",
        include_str!("../../../../experiments/workloads/cache-a.toml"),
    ),
    (
        "cache-b",
        include_str!("../../../../experiments/workloads/cache-b.toml"),
    ),
    (
        "ci",
        include_str!("../../../../experiments/workloads/ci.toml"),
    ),
    (
        "web-day",
        include_str!("../../../../experiments/workloads/web-day.toml"),
    ),
    (
        "storm",
        include_str!("../../../../experiments/workloads/storm.toml"),
    ),
    (
        "thrash",
        include_str!("../../../../experiments/workloads/thrash.toml"),
    ),
    (
        "fragmenter-full",
        include_str!("../../../../experiments/workloads/fragmenter-full.toml"),
    ),
    (
        "fragmenter-partial",
        include_str!("../../../../experiments/workloads/fragmenter-partial.toml"),
    ),
];

/// Names of the workloads that need no file.
pub fn shipped_workloads() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Why a workload could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// Neither a shipped name nor a file.
    #[error("no workload {name:?}: shipped are {known}; or give the path of a .toml file")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Shipped names.
        known: String,
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
            let known: Vec<&str> = shipped_workloads().collect();
            return Err(WorkloadError::Unknown {
                name: name_or_path.into(),
                known: known.join(", "),
            });
        }
        let text = std::fs::read_to_string(name_or_path).map_err(|source| WorkloadError::Io {
            file: name_or_path.into(),
            source,
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
        let mut processes = 0u64;
        for (index, p) in self.process.iter().enumerate() {
            processes += u64::from(p.count);
            let at = |key, message: &str| Some(Fault::new("process", index, key, message));
            if p.count == 0 || processes > MOST_PROCESSES {
                return at(
                    "count",
                    "must be at least 1, and all processes at most 100000",
                );
            }
            if !share(p.memory_ratio) {
                return at("memory_ratio", "must be a share of memory, 0 to 1");
            }
            if !share(p.huge_ratio) {
                return at("huge_ratio", "must be a share, 0 to 1");
            }
            if let Some(key) = first_bad(&[
                ("grow_s", p.grow_s),
                ("churn_per_hour", p.churn_per_hour),
                ("restart_s", p.restart_s),
            ]) {
                return at(key, "must be 0 to 10000000");
            }
            if p.threads > 100_000 {
                return at("threads", "must be at most 100000");
            }
        }
        for (index, k) in self.kernel.iter().enumerate() {
            let at = |key, message: &str| Some(Fault::new("kernel", index, key, message));
            match PageClass::from_name(&k.class) {
                Some(class) if !is_movable(class) && !class.is_free() => {}
                _ => {
                    return at(
                        "class",
                        "must be a kernel page class, such as network or slab",
                    );
                }
            }
            let shares = [
                ("level_ratio", k.level_ratio),
                ("burst_ratio", k.burst_ratio),
                ("boot_ratio", k.boot_ratio),
            ];
            if let Some((key, _)) = shares.iter().find(|(_, value)| !share(*value)) {
                return at(key, "must be a share of memory, 0 to 1");
            }
            if k.order > 10 {
                return at("order", "must be 0 to 10");
            }
            if k.single_page_fallback && (k.order == 0 || k.atomic) {
                let message = "is for blocks of order 1 and more that are not atomic";
                return at("single_page_fallback", message);
            }
            if !share(k.wave_ratio) {
                return at("wave_ratio", "must be a share, 0 to 1");
            }
            if let Some(key) = first_bad(&[
                ("churn_per_hour", k.churn_per_hour),
                ("wave_s", k.wave_s),
                ("burst_every_s", k.burst_every_s),
                ("burst_s", k.burst_s),
                ("grow_s", k.grow_s),
            ]) {
                return at(key, "must be 0 to 10000000");
            }
        }
        self.find_fault_in_tables()
    }

    fn find_fault_in_tables(&self) -> Option<Fault> {
        let c = &self.cache;
        let rates = [
            ("read_per_hour", c.read_per_hour),
            ("drop_per_hour", c.drop_per_hour),
        ];
        if let Some(key) = first_bad(&rates) {
            let message = "must be 0 to 10000000";
            return Some(Fault::new("cache", 0, key, message));
        }
        let shares = [
            ("cache", "reuse_ratio", c.reuse_ratio),
            ("cache", "boot_ratio", c.boot_ratio),
            ("cache", "refault_ratio", c.refault_ratio),
            ("pins", "level_ratio", self.pins.level_ratio),
            ("deploy", "read_ratio", self.deploy.read_ratio),
            ("huge", "hugetlb_2m_ratio", self.huge.hugetlb_2m_ratio),
            ("huge", "hugetlb_1g_ratio", self.huge.hugetlb_1g_ratio),
            ("huge", "stopped_ratio", self.huge.stopped_ratio),
        ];
        if let Some((table, key, _)) = shares.iter().find(|(_, _, value)| !share(*value)) {
            return Some(Fault::new(table, 0, key, "must be a share, 0 to 1"));
        }
        if first_bad(&[("every_s", self.deploy.every_s)]).is_some() {
            return Some(Fault::new("deploy", 0, "every_s", "must be 0 to 10000000"));
        }
        let pinned = self.pins.level_ratio > 0.0;
        if pinned && (self.process.is_empty() || !(1.0..=MOST).contains(&self.pins.hold_s)) {
            let message = "must be 1 to 10000000, and pins need a process";
            return Some(Fault::new("pins", 0, "hold_s", message));
        }
        let demand: f64 = self.process.iter().map(|p| p.memory_ratio).sum::<f64>()
            + self.kernel.iter().map(|k| k.level_ratio).sum::<f64>();
        (demand > 0.97).then(|| {
            let message = format!("all levels add up to {demand:.2} of memory; at most 0.97 fits");
            Fault::new("process", 0, "memory_ratio", &message)
        })
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

fn share(value: f64) -> bool {
    (0.0..=1.0).contains(&value)
}

/// Processes of all groups together; each has three pools of pages.
const MOST_PROCESSES: u64 = 100_000;
/// Largest time in seconds and largest rate that a workload may name.
const MOST: f64 = 1e7;

fn first_bad<'a>(values: &[(&'a str, f64)]) -> Option<&'a str> {
    let bad = |value: f64| !(0.0..=MOST).contains(&value);
    values
        .iter()
        .find(|(_, value)| bad(*value))
        .map(|(key, _)| *key)
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
