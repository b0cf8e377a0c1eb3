// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watching who spoils pageblocks on the machine that runs.

use crate::bpf::EventPrograms;
use crate::spoiling::{SpoilSite, SpoilSites, spoiled_blocks};
use crate::{BpfReader, HostError, ReaderChoice, Root, Scan, ScanOptions, System, scan_live};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A new scan tells which blocks are clean again; at least this long after the last.
const RESCAN_AFTER: Duration = Duration::from_secs(60);
/// And at least this many times as long after it as it took, so that scans cost half a per cent.
const RESCAN_SPACING: u32 = 200;

/// A running watch: a scan, the tracepoints, and what they told since.
pub struct SpoilWatch {
    programs: EventPrograms,
    sites: SpoilSites,
    /// Blocks that hold something unmovable, at the last scan.
    spoiled: Vec<bool>,
    clean_at_start: u64,
    scanned: Instant,
    scan_took: Duration,
}

impl SpoilWatch {
    /// Scans the machine and begins to record.
    ///
    /// # Errors
    /// [`HostError`] when the BPF programs cannot be used here.
    pub fn start() -> Result<SpoilWatch, HostError> {
        let root = Root::live();
        let system = System::read(&root)?;
        let memory_map = BpfReader::open(&root, &system)?.memory_map();
        let sites = SpoilSites::of_running_kernel()?;
        let (scan, scan_took) = scan()?;
        let spoiled = spoiled_blocks(&scan);
        let mut programs = EventPrograms::start(memory_map, scan.pages.span().end.0)?;
        programs.mark(&spoiled)?;
        Ok(SpoilWatch {
            programs,
            sites,
            clean_at_start: spoiled.iter().filter(|&&spoiled| !spoiled).count() as u64,
            spoiled,
            scanned: Instant::now(),
            scan_took,
        })
    }

    /// Waits at most this long for events and counts them; scans again when it is time to.
    ///
    /// # Errors
    /// [`HostError`] when the events or the pages cannot be read.
    pub fn poll(&mut self, wait: Duration) -> Result<(), HostError> {
        for event in self.programs.poll(wait)? {
            self.sites.add(&event);
        }
        if self.scanned.elapsed() > RESCAN_AFTER.max(self.scan_took * RESCAN_SPACING) {
            self.rescan()?;
        }
        Ok(())
    }

    /// Looks which blocks are spoiled now, and has clean ones watched again.
    ///
    /// # Errors
    /// [`HostError`] when the pages cannot be read.
    pub fn rescan(&mut self) -> Result<(), HostError> {
        let (scan, took) = scan()?;
        // Memory that was added since has no entry in the table of blocks.
        let mut spoiled = spoiled_blocks(&scan);
        spoiled.resize(self.spoiled.len(), true);
        self.spoiled = spoiled;
        self.programs.mark(&self.spoiled)?;
        (self.scanned, self.scan_took) = (Instant::now(), took);
        Ok(())
    }

    /// The sites, worst first.
    pub fn ranked(&self) -> Vec<&SpoilSite> {
        self.sites.ranked()
    }

    /// How many of the blocks that `site` spoiled hold something unmovable at the last scan.
    pub fn still_spoiled(&self, site: &SpoilSite) -> u64 {
        let blocks: BTreeSet<u32> = site.blocks.iter().copied().collect();
        let spoiled = |block: &u32| self.spoiled.get(*block as usize) == Some(&true);
        blocks.into_iter().filter(spoiled).count() as u64
    }

    /// Pageblocks of whole memory that nothing unmovable was in when the watch began.
    pub fn clean_at_start(&self) -> u64 {
        self.clean_at_start
    }

    /// Has the kernel time the programs from now on, which makes them slower.
    ///
    /// # Errors
    /// [`HostError::Bpf`] when the kernel cannot.
    pub fn time(&mut self) -> Result<(), HostError> {
        self.programs.time()
    }

    /// Runs of the programs since they are timed, and nanoseconds of processor time for all of
    /// them together.
    ///
    /// # Errors
    /// [`HostError::Bpf`] when the kernel does not tell.
    pub fn cost(&self) -> Result<(u64, u64), HostError> {
        self.programs.cost()
    }

    /// Events for which the kernel had no room.
    pub fn lost(&mut self) -> u64 {
        self.programs.lost()
    }
}

fn scan() -> Result<(Scan, Duration), HostError> {
    let started = Instant::now();
    let scan = scan_live(&ScanOptions {
        reader: ReaderChoice::Bpf,
        ..ScanOptions::default()
    })?;
    Ok((scan, started.elapsed()))
}
