// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding scans and reading them: one host each, as a table of metrics.

use crate::cmd::scan::rows::{MetricRow, rows};
use crate::cmd::scan::view::View;
use ample_host::snapshot;
use ample_pfn::{Definition, MetricsBuilder, SizeList};
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One scan of one host.
#[derive(Clone, Debug, Default)]
pub struct HostScan {
    /// Host name.
    pub hostname: Option<String>,
    /// Start of the scan.
    pub unix_time_seconds: Option<u64>,
    /// Uptime of the machine.
    pub uptime_seconds: Option<u64>,
    /// Values of the whole machine.
    pub rows: Vec<MetricRow>,
}

impl HostScan {
    /// A value as an interval: smallest and largest that fit the data.
    pub fn interval(
        &self,
        metric: &str,
        definition: Option<Definition>,
        size_bytes: Option<u64>,
    ) -> Option<(f64, f64)> {
        let row = self.rows.iter().find(|row| {
            row.metric == metric && row.definition == definition && row.size_bytes == size_bytes
        })?;
        Some((row.low?, row.high?))
    }

    /// A value that is exact.
    pub fn exact(&self, metric: &str, size_bytes: Option<u64>) -> Option<f64> {
        self.interval(metric, None, size_bytes).map(|value| value.0)
    }

    /// Unmovable pages of each source.
    pub fn sources(&self) -> impl Iterator<Item = (&str, f64)> {
        let rows = self.rows.iter().filter(|row| row.metric == "source_pages");
        rows.filter_map(|row| Some((row.kind.as_deref()?, row.low?)))
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Readable scans, in the order of their files.
    pub hosts: Vec<HostScan>,
    /// Files that could not be used, and why.
    pub skipped: Vec<(PathBuf, String)>,
    /// Scans of a host that was scanned again later.
    pub superseded: usize,
}

/// Reads all scans below `paths`: files, or directories with files (not deeper).
///
/// # Errors
/// When a path does not exist or a directory cannot be listed.
pub fn read_all(
    paths: &[PathBuf],
    sizes: &SizeList,
    every_scan: bool,
    progress: &dyn Fn(usize, usize),
) -> anyhow::Result<Found> {
    let files = list(paths)?;
    let mut found = Found::default();
    for (index, file) in files.iter().enumerate() {
        match read(file, sizes) {
            Ok(hosts) => found.hosts.extend(hosts),
            Err(error) => found.skipped.push((file.clone(), format!("{error:#}"))),
        }
        progress(index + 1, files.len());
    }
    if !every_scan {
        found.superseded = keep_latest(&mut found.hosts);
    }
    Ok(found)
}

fn list(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let about = || format!("cannot read {}", path.display());
        if !std::fs::metadata(path).with_context(about)?.is_dir() {
            files.push(path.clone());
            continue;
        }
        for entry in std::fs::read_dir(path).with_context(about)? {
            let entry = entry.with_context(about)?.path();
            if entry.is_file() {
                files.push(entry);
            }
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// Keeps the latest scan of each host name; how many others there were. Scans without a name all
/// stay.
fn keep_latest(hosts: &mut Vec<HostScan>) -> usize {
    let mut latest: BTreeMap<String, (Option<u64>, usize)> = BTreeMap::new();
    for (index, host) in hosts.iter().enumerate() {
        if let Some(name) = &host.hostname {
            let best = latest.entry(name.clone()).or_insert((None, index));
            if host.unix_time_seconds >= best.0 {
                *best = (host.unix_time_seconds, index);
            }
        }
    }
    let before = hosts.len();
    let mut index = 0;
    hosts.retain(|host| {
        let stays = host
            .hostname
            .as_ref()
            .is_none_or(|name| latest[name].1 == index);
        index += 1;
        stays
    });
    before - hosts.len()
}

fn read(file: &Path, sizes: &SizeList) -> anyhow::Result<Vec<HostScan>> {
    if file
        .extension()
        .is_some_and(|extension| extension == "parquet")
    {
        return read_parquet(file);
    }
    let mut scan = snapshot::read(file)?;
    let Ok(builder) = MetricsBuilder::collect(&mut scan, sizes);
    let view = View::new(&scan, &builder);
    Ok(vec![check(HostScan {
        rows: rows(&view)
            .into_iter()
            .filter(MetricRow::of_machine)
            .collect(),
        hostname: view.hostname,
        unix_time_seconds: view.unix_time_seconds,
        uptime_seconds: view.uptime_seconds,
    })?])
}

#[cfg(not(feature = "parquet"))]
fn read_parquet(_file: &Path) -> anyhow::Result<Vec<HostScan>> {
    bail!("this build reads snapshots only; build with the feature `parquet` for Parquet files")
}

/// The long tables of `ample scan --format parquet`, of one host or of many in one file.
#[cfg(feature = "parquet")]
fn read_parquet(file: &Path) -> anyhow::Result<Vec<HostScan>> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    let reader = SerializedFileReader::new(std::fs::File::open(file)?)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    const COLUMNS: &str = "hostname unix_time_seconds uptime_seconds node zone metric definition \
                           size_bytes kind low high";
    let find = |name: &str| {
        let found = (0..schema.num_columns()).find(|&at| schema.column(at).name() == name);
        found.with_context(|| format!("no column `{name}`: not from ample scan --format parquet"))
    };
    let at: Vec<usize> = COLUMNS.split(' ').map(find).collect::<Result<_, _>>()?;
    let mut hosts: Vec<HostScan> = Vec::new();
    for row in reader.get_row_iter(None)? {
        let row = row?;
        let text = |column: usize| row.get_string(at[column]).ok().cloned();
        let number = |column: usize| u64::try_from(row.get_long(at[column]).ok()?).ok();
        let found = HostScan {
            hostname: text(0),
            unix_time_seconds: number(1),
            uptime_seconds: number(2),
            rows: Vec::new(),
        };
        let value = MetricRow {
            node: number(3).map(|node| node as u32),
            zone: text(4),
            metric: text(5).unwrap_or_default().into(),
            definition: text(6).and_then(|letter| Definition::from_name(&letter)),
            size_bytes: number(7),
            kind: text(8),
            low: row.get_double(at[9]).ok(),
            high: row.get_double(at[10]).ok(),
        };
        if !value.of_machine() {
            continue;
        }
        let same = |host: &HostScan| {
            (&host.hostname, host.unix_time_seconds) == (&found.hostname, found.unix_time_seconds)
        };
        if !hosts.last().is_some_and(same) {
            hosts.push(found);
        }
        if let Some(host) = hosts.last_mut() {
            host.rows.push(value);
        }
    }
    if hosts.is_empty() {
        bail!("holds no scan");
    }
    hosts.into_iter().map(check).collect()
}

fn check(host: HostScan) -> anyhow::Result<HostScan> {
    let memory = host.exact("memory_bytes", None).unwrap_or(0.0);
    if !memory.is_finite() || memory <= 0.0 {
        bail!("holds no memory size: not a scan of all pages");
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: Option<&str>, time: Option<u64>) -> HostScan {
        HostScan {
            hostname: name.map(Into::into),
            unix_time_seconds: time,
            ..HostScan::default()
        }
    }

    #[test]
    fn the_latest_scan_of_a_host_counts() {
        let mut hosts = vec![
            host(Some("a"), Some(5)),
            host(Some("b"), None),
            host(Some("a"), Some(9)),
            host(None, Some(1)),
            host(Some("a"), Some(7)),
            host(None, Some(1)),
        ];
        assert_eq!(keep_latest(&mut hosts), 2);
        let left: Vec<_> = hosts
            .iter()
            .map(|host| (host.hostname.as_deref(), host.unix_time_seconds))
            .collect();
        assert_eq!(
            left,
            [
                (Some("b"), None),
                (Some("a"), Some(9)),
                (None, Some(1)),
                (None, Some(1))
            ]
        );
    }
}
