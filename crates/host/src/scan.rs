// SPDX-License-Identifier: MIT OR Apache-2.0
//! One reading of one machine.

use crate::proc::processor_time_ns;
use crate::{
    HostError, Owners, PageRuns, PageblockRun, ProcfsReader, Reader, Root, RunEncoder, System, Who,
    ZoneCounters,
};
use ample_pfn::{
    Coverage, Layout, MetricsBuilder, PAGEBLOCK_ORDER, PAGES_PER_PAGEBLOCK, PageClass, PageSource,
    Pfn, PfnRange,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Which reader to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReaderChoice {
    /// The best one that works here.
    #[default]
    Auto,
    /// `/proc/kpageflags`.
    Procfs,
    /// BPF, or an error that says why not.
    Bpf,
}

/// How to scan.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// The machine, or a saved `/proc` tree.
    pub root: Root,
    /// How page states are read.
    pub reader: ReaderChoice,
    /// Also read page_owner, which makes definition O and sources known. Slow: seconds.
    pub owners: bool,
    /// Also follow the kernel's structures to the owners of unmovable pages.
    pub who: bool,
    /// Called now and then while pages are read, with the pages done and the pages of memory.
    pub progress: Option<fn(u64, u64)>,
}

impl Default for ScanOptions {
    fn default() -> ScanOptions {
        ScanOptions {
            root: Root::live(),
            reader: ReaderChoice::Auto,
            owners: false,
            who: false,
            progress: None,
        }
    }
}

/// Everything about a scan but its pages. Stored in snapshots as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanMeta {
    /// Name of the reader.
    pub reader: String,
    /// What the reader could tell.
    pub coverage: Coverage,
    /// What a user should know about this reading.
    pub notes: Vec<String>,
    /// Kernel release.
    pub kernel: String,
    /// Host name, if known.
    pub hostname: Option<String>,
    /// When the scan began, in seconds since 1970; `None` for a saved tree.
    pub unix_time_seconds: Option<u64>,
    /// Uptime of the machine, if known.
    pub uptime_seconds: Option<u64>,
    /// How long the scan took.
    pub duration_ns: u64,
    /// Processor time that this process spent on it, kernel included.
    pub cpu_ns: u64,
    /// Migratetypes of the pageblocks with memory, where the reader saw them.
    #[serde(default)]
    pub pageblocks: Option<Vec<PageblockRun>>,
    /// Who holds the unmovable pages, where that was asked for and seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
    /// Counters of each zone: watermarks, free lists, per-CPU lists.
    pub zones: Vec<ZoneCounters>,
    /// meminfo and vmstat, by the kernel's own names.
    pub counters: BTreeMap<String, u64>,
}

/// One reading of one machine: the class of every frame, and what the kernel counts.
///
/// It is a [`PageSource`]: hand it to a `MetricsBuilder`, or expand it with
/// [`PageRuns::expand`] for a model that wants one class a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// Everything but the pages.
    pub meta: ScanMeta,
    /// Nodes and zones.
    pub layout: Layout,
    /// The class of every frame of the layout's span.
    pub pages: PageRuns,
}

/// Pages handed out at a time when a scan is replayed.
const REPLAY_CHUNK_PAGES: usize = 1 << 15;

impl PageSource for Scan {
    type Error = Infallible;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn for_each_chunk(
        &mut self,
        sink: &mut dyn FnMut(Pfn, &[PageClass]),
    ) -> Result<(), Infallible> {
        let mut chunk: Vec<PageClass> = Vec::with_capacity(REPLAY_CHUNK_PAGES);
        let mut start = self.pages.span().start;
        for (range, class) in self.pages.iter() {
            let mut left = range.pages() as usize;
            while left > 0 {
                let take = left.min(REPLAY_CHUNK_PAGES - chunk.len());
                chunk.resize(chunk.len() + take, class);
                left -= take;
                if chunk.len() == REPLAY_CHUNK_PAGES {
                    sink(start, &chunk);
                    start = Pfn(start.0 + chunk.len() as u64);
                    chunk.clear();
                }
            }
        }
        sink(start, &chunk);
        Ok(())
    }

    fn tally(&mut self, builder: &mut MetricsBuilder) -> Result<(), Infallible> {
        for (range, class) in self.pages.iter() {
            builder.push_run(range, class);
        }
        Ok(())
    }
}

/// Reads all pages of a machine.
///
/// # Errors
/// [`HostError`] when no reader works, with the file and the reason; without root that is
/// [`HostError::is_permission`].
pub fn scan_live(options: &ScanOptions) -> Result<Scan, HostError> {
    let started = (Instant::now(), processor_time_ns());
    let system = System::read(&options.root)?;
    let mut notes = Vec::new();
    let mut reader = open(options, &system, &mut notes)?;
    let mut owners = options
        .owners
        .then(|| Owners::open(&options.root))
        .transpose()?;
    let mut refused = options.who.then(|| reader.keep_owners()).transpose().err();
    if options.who && (options.owners || refused.is_some()) {
        owners = owners.or_else(|| Owners::open(&options.root).ok());
        if let Some(owners) = &mut owners {
            owners.keep(system.uptime_seconds.unwrap_or(0));
            refused = None;
        }
    }
    let coverage_with_owners = owners.is_some().then(Coverage::exact);
    if owners.is_some() {
        notes.push("owners are those that page_owner recorded".to_string());
    }
    let memory_pages = system.ram.iter().map(|range| range.pages()).sum();
    let pages = read_pages(reader.as_mut(), &mut owners, &|done| {
        if let Some(progress) = options.progress {
            progress(done, memory_pages);
        }
    })?;
    let pageblocks = reader.pageblocks().unwrap_or_else(|error| {
        notes.push(format!("no migratetypes of pageblocks: {error}"));
        None
    });
    let recorded = owners.as_ref().and_then(|owners| owners.who(&pages));
    let who = match recorded {
        Some(recorded) => Some(recorded),
        None => reader.who(&pages).unwrap_or_else(|error| {
            refused = Some(error);
            None
        }),
    };
    notes.extend(refused.map(|error| format!("no owners: {error}")));
    notes.extend(reader.notes());
    let live = options.root.is_live();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .map(|time| time.as_secs());
    Ok(Scan {
        meta: ScanMeta {
            reader: reader.name().to_string(),
            coverage: coverage_with_owners.unwrap_or_else(|| reader.coverage()),
            notes,
            kernel: system.kernel,
            hostname: system.hostname,
            unix_time_seconds: now.filter(|_| live),
            uptime_seconds: system.uptime_seconds,
            duration_ns: started.0.elapsed().as_nanos() as u64,
            cpu_ns: processor_time_ns().saturating_sub(started.1),
            pageblocks: pageblocks.map(|runs| initialised(&runs, &pages)),
            who,
            zones: system.zones,
            counters: system.counters,
        },
        layout: system.layout,
        pages,
    })
}

/// The pageblocks without those that lie in memory not initialised yet: these have no type.
fn initialised(runs: &[PageblockRun], pages: &PageRuns) -> Vec<PageblockRun> {
    let unset: Vec<PfnRange> = pages
        .iter()
        .filter(|(_, class)| *class == PageClass::Uninitialised)
        .map(|(range, _)| range.inner_blocks(PAGEBLOCK_ORDER))
        .filter(|range| !range.is_empty())
        .collect();
    let mut kept = Vec::new();
    let mut keep = |run: &PageblockRun, from: u64, to: u64| {
        if from < to {
            let blocks = (to - from) / PAGES_PER_PAGEBLOCK;
            kept.push(PageblockRun {
                start_pfn: from,
                blocks,
                ..*run
            });
        }
    };
    for run in runs {
        let (mut next, end) = (
            run.start_pfn,
            run.start_pfn + run.blocks * PAGES_PER_PAGEBLOCK,
        );
        let first = unset.partition_point(|gap| gap.end.0 <= next);
        for gap in unset[first..].iter().take_while(|gap| gap.start.0 < end) {
            keep(run, next, gap.start.0);
            next = gap.end.0.min(end);
        }
        keep(run, next, end);
    }
    kept
}

/// Reads all pages, with their owners beside them where these are wanted.
fn read_pages(
    reader: &mut dyn Reader,
    owners: &mut Option<Owners>,
    progress: &dyn Fn(u64),
) -> Result<PageRuns, HostError> {
    let mut encoder = RunEncoder::new(reader.layout());
    let mut refined: Vec<PageClass> = Vec::new();
    let (mut done, mut failed) = (0, Ok(()));
    reader.for_each_chunk(&mut |pfn, classes| {
        match owners {
            None => encoder.push(pfn, classes),
            Some(owners) => {
                refined.clear();
                refined.extend_from_slice(classes);
                if failed.is_ok() {
                    failed = owners.refine(pfn, &mut refined);
                }
                encoder.push(pfn, &refined);
            }
        }
        done += classes.len() as u64;
        progress(done);
    })?;
    failed?;
    Ok(encoder.finish())
}

/// Opens the chosen reader; a reader that was passed over leaves a note.
pub(crate) fn open(
    options: &ScanOptions,
    system: &System,
    notes: &mut Vec<String>,
) -> Result<Box<dyn Reader>, HostError> {
    let procfs = || -> Result<Box<dyn Reader>, HostError> {
        Ok(Box::new(ProcfsReader::open(&options.root, system)?))
    };
    match options.reader {
        ReaderChoice::Procfs => procfs(),
        ReaderChoice::Bpf => open_bpf(options, system),
        ReaderChoice::Auto if !options.root.is_live() => procfs(),
        ReaderChoice::Auto => open_bpf(options, system).or_else(|error| {
            let reader = procfs()?;
            notes.push(format!("{error}; /proc/kpageflags was read instead"));
            Ok(reader)
        }),
    }
}

#[cfg(feature = "bpf")]
fn open_bpf(options: &ScanOptions, system: &System) -> Result<Box<dyn Reader>, HostError> {
    Ok(Box::new(crate::BpfReader::open(&options.root, system)?))
}

#[cfg(not(feature = "bpf"))]
fn open_bpf(_: &ScanOptions, _: &System) -> Result<Box<dyn Reader>, HostError> {
    Err(HostError::Bpf("not in this build (feature `bpf`)".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_pfn::MigrateType;

    #[test]
    fn pageblocks_that_were_never_initialised_have_no_type() {
        let layout = Layout::single(Pfn(0), 6 * 512);
        let mut encoder = RunEncoder::new(&layout);
        encoder.push(Pfn(0), &[PageClass::Anon; 512]);
        encoder.push(Pfn(512), &[PageClass::Uninitialised; 2 * 512]);
        encoder.push(Pfn(3 * 512), &[PageClass::Reserved; 3]);
        encoder.push(Pfn(3 * 512 + 3), &[PageClass::Uninitialised; 2 * 512]);
        let run = |start: u64, blocks| PageblockRun {
            start_pfn: start * 512,
            blocks,
            migratetype: MigrateType::Unmovable,
        };
        let kept = initialised(&[run(0, 2), run(2, 4)], &encoder.finish());
        // Block 3 holds reserved pages; of block 5 only a part is uninitialised.
        assert_eq!(kept, [run(0, 1), run(3, 1), run(5, 1)]);
    }
}
