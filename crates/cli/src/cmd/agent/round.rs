// SPDX-License-Identifier: MIT OR Apache-2.0
//! One scan of the agent, from the pages to the files.

use super::clock::now;
use super::contiguitas;
use super::delivery::Delivery;
use crate::cmd::exposition::Exposition;
use crate::cmd::scan::openmetrics;
use crate::cmd::scan::view::View;
use crate::cmd::write_file;
use ample_fleet::Labels;
use ample_fleet::agent::{LastScan, Schedule, Served, Spool, Usage};
use ample_host::{ScanOptions, scan_live};
use ample_pfn::{MetricsBuilder, SizeList};
use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

/// A place that takes files slowly does not hold up the next scan.
const LONGEST_DELIVERY: Duration = Duration::from_secs(60);

/// What has happened since the agent was started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    scans: u64,
    scan_failures: u64,
    dropped: u64,
    delivered: u64,
    delivery_failures: u64,
    last_scan: Option<Duration>,
    /// When the next scan will begin, since 1970; none after `--once`.
    pub(super) next_scan: Option<Duration>,
}

/// The agent between two scans.
pub(super) struct Agent {
    pub(super) options: ScanOptions,
    pub(super) labels: Labels,
    pub(super) spool: Spool,
    pub(super) deliver: Option<Delivery>,
    pub(super) textfile: Option<PathBuf>,
    /// None after `--once`.
    pub(super) schedule: Option<Schedule>,
    /// What the last scan cost.
    pub(super) last: Option<LastScan>,
    /// Scans of which it was said that they could not be delivered.
    pub(super) told: HashSet<String>,
    /// What a collector gets.
    pub(super) page: Served,
    /// The families of the last scan that succeeded.
    pub(super) scan: Exposition,
    pub(super) counts: Counts,
}

/// How a scan went.
pub(super) struct Round {
    /// Why there is no scan.
    pub(super) failed: Option<anyhow::Error>,
    /// What could not be delivered or shown: it is tried again after the next scan.
    pub(super) delayed: Vec<anyhow::Error>,
}

impl Agent {
    /// Scans, keeps the scan, delivers and publishes. The next scan waits for this one's share of
    /// a processor; publishing is some microseconds and not counted.
    ///
    /// # Errors
    /// When the clock is wrong; what else fails is in the answer.
    pub(super) fn round(&mut self) -> Result<Round> {
        let (began, before) = (now()?, cpu());
        // Before the scan as well: one that ends the process has used a processor too.
        let known = self.spool.last().map_or(Duration::ZERO, |last| last.cpu);
        let remembered = self.spool.remember(LastScan { began, cpu: known });
        let failed = remembered.and_then(|()| self.scan(began)).err();
        match failed {
            None => {
                self.counts.scans += 1;
                self.counts.last_scan = Some(began);
            }
            Some(_) => self.counts.scan_failures += 1,
        }
        let mut delayed = self.deliver();
        let last = LastScan {
            began,
            cpu: cpu().saturating_sub(before),
        };
        delayed.extend(self.spool.remember(last).err());
        self.last = Some(last);
        let ended = now()?;
        let next = |schedule: Schedule| schedule.next(ended, self.last);
        self.counts.next_scan = self.schedule.map(next);
        delayed.extend(self.publish().err());
        Ok(Round { failed, delayed })
    }

    /// Hands the scans in the spool on, and what to say of those that stay there: of one that a
    /// round before could not move either, nothing.
    fn deliver(&mut self) -> Vec<anyhow::Error> {
        let Some(to) = &self.deliver else {
            return Vec::new();
        };
        let put = |name: &str, bytes: &[u8]| to.put(name, bytes);
        // A directory may have become the spool since the start, by a link or a mount.
        let delivered = to
            .apart_from(&self.spool)
            .and_then(|()| self.spool.deliver(LONGEST_DELIVERY, &put));
        let mut delivered = match delivered {
            Ok(delivered) => delivered,
            Err(error) => {
                self.counts.delivery_failures += 1;
                return vec![error.context("the scans stay in the spool")];
            }
        };
        self.counts.delivered += delivered.moved;
        self.counts.delivery_failures += delivered.kept.len() as u64;
        if delivered.given_up
            && let Some((_, error)) = delivered.kept.pop()
        {
            let told = "the scans stay in the spool, too many in a row could not be moved";
            return vec![error.context(told)];
        }
        let before = std::mem::take(&mut self.told);
        let mut new = Vec::new();
        for (name, error) in delivered.kept {
            if !before.contains(&name) {
                new.push(error.context("a scan has to stay in the spool"));
            }
            self.told.insert(name);
        }
        new
    }

    /// Scans and puts the scan into the spool.
    fn scan(&mut self, began: Duration) -> Result<()> {
        let mut scan = scan_live(&self.options)?;
        // That of a saved tree bears none: it is what the agent saw at that moment.
        scan.meta.unix_time_seconds = Some(began.as_secs());
        let Ok(builder) = MetricsBuilder::collect(&mut scan, &SizeList::standard());
        self.scan = Exposition::default();
        openmetrics::families(&View::new(&scan, &builder), &mut self.scan);
        drop(builder);
        let host = scan.meta.hostname.clone().unwrap_or_default();
        let rows = ample_fleet::rows(&mut scan, &self.labels);
        drop(scan);
        let bytes = ample_fleet::encode(&[rows])?;
        self.counts.dropped += self.spool.store(&host, began, &bytes)?;
        Ok(())
    }

    /// How long it is until the next scan; `None` when that is due.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        let left = self.counts.next_scan?.checked_sub(now);
        left.filter(|left| !left.is_zero())
    }

    /// Shows the border as it is now beside the last scan, and the next one by the clock as it is:
    /// where that was set back, the scan does not wait until the time comes again. Shows nothing
    /// without either.
    ///
    /// # Errors
    /// As of [`Agent::publish`].
    pub(super) fn look(&mut self, now: Duration) -> Result<()> {
        let again = self.schedule.map(|own| own.next(now, self.last));
        let sooner = again.filter(|again| self.counts.next_scan.is_some_and(|next| *again < next));
        if sooner.is_some() {
            self.counts.next_scan = sooner;
        }
        if sooner.is_none() && contiguitas::nodes(&self.options.root).is_empty() {
            return Ok(());
        }
        self.publish()
    }

    /// Shows the counts beside the last scan. The text file stays as it is until this agent has
    /// tried to scan: what is in it may be of the one before.
    ///
    /// # Errors
    /// When the spool cannot be read or the text file not be written.
    pub(super) fn publish(&self) -> Result<()> {
        let mut out = self.scan.clone();
        contiguitas::families(&self.options.root, &mut out);
        self.counts.families(self.spool.usage()?, &mut out);
        let tried = self.counts.scans + self.counts.scan_failures > 0;
        if let Some(path) = self.textfile.as_ref().filter(|_| tried) {
            write_file(path, out.plain()).context("the metrics are as they were")?;
        }
        self.page.set(out.end());
        Ok(())
    }
}

impl Counts {
    fn families(&self, spool: Usage, out: &mut Exposition) {
        let counters = [
            ("scans", self.scans, "Scans that were kept."),
            ("scan_failures", self.scan_failures, "Scans that failed."),
            (
                "dropped_scans",
                self.dropped,
                "Scans that a full spool has lost.",
            ),
            (
                "delivered_scans",
                self.delivered,
                "Scans that left the spool.",
            ),
            (
                "delivery_failures",
                self.delivery_failures,
                "Scans that a round could not deliver.",
            ),
        ];
        for (name, value, help) in counters {
            out.counter(&format!("agent_{name}"), help);
            out.sample(&[], Some(value as f64));
        }
        out.counter("agent_cpu_seconds", "Processor time of the agent.");
        out.sample(&[], Some(cpu().as_secs_f64()));
        let gauges = [
            (
                "spool_files",
                Some(spool.files as f64),
                "Scans in the spool.",
            ),
            (
                "spool_bytes",
                Some(spool.bytes as f64),
                "Size of the spool.",
            ),
            (
                "last_scan_timestamp_seconds",
                self.last_scan.map(|time| time.as_secs_f64()),
                "Start of the last scan that was kept.",
            ),
            (
                "next_scan_timestamp_seconds",
                self.next_scan.map(|time| time.as_secs_f64()),
                "Start of the next scan.",
            ),
        ];
        for (name, value, help) in gauges {
            out.gauge(&format!("agent_{name}"), help);
            out.sample(&[], value);
        }
    }
}

/// Processor time of this process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ample_host::Root;
    use std::path::Path;

    /// An agent of a saved tree that has scanned once.
    pub(crate) fn agent(host: &Path) -> Agent {
        Agent {
            options: ScanOptions {
                root: Root::offline(host),
                ..ScanOptions::default()
            },
            labels: Labels::default(),
            spool: Spool::open(&host.join("spool"), 1 << 20).unwrap(),
            deliver: None,
            textfile: None,
            schedule: None,
            last: None,
            told: HashSet::new(),
            page: Served::default(),
            scan: Exposition::default(),
            counts: Counts {
                scans: 1,
                ..Counts::default()
            },
        }
    }

    #[test]
    fn what_cannot_be_delivered_is_counted_each_time_and_told_once() {
        let host = tempfile::tempdir().unwrap();
        let mut agent = agent(host.path());
        agent.deliver = Some(Delivery::Directory(host.path().to_path_buf()));
        let time = Duration::from_nanos(2);
        std::fs::create_dir(host.path().join("spool/scan-a-1.parquet")).unwrap();
        for (round, told) in [(1, 1), (2, 0)] {
            agent.spool.store("a", time, b"scan").unwrap();
            let said = agent.deliver();
            assert_eq!(said.len(), told, "{said:?}");
            let counts = (agent.counts.delivered, agent.counts.delivery_failures);
            assert_eq!(counts, (round, round));
        }
        agent.deliver = Some(Delivery::Directory(host.path().join("none")));
        for nanoseconds in 3..30 {
            let time = Duration::from_nanos(nanoseconds);
            agent.spool.store("a", time, b"scan").unwrap();
        }
        for round in 1..=2 {
            let said = agent.deliver();
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(format!("{:#}", said[0]).contains("in a row"), "{said:?}");
            // The folder that is no scan, and three scans.
            assert_eq!(agent.counts.delivery_failures, 2 + 4 * round);
        }
    }

    #[test]
    fn pressure_between_two_scans_is_shown() {
        let host = tempfile::tempdir().unwrap();
        let node = host.path().join("sys/kernel/mm/contiguitas/node0");
        let textfile = host.path().join("ample.prom");
        let mut agent = agent(host.path());
        agent.textfile = Some(textfile.clone());
        agent.look(Duration::ZERO).unwrap();
        assert!(!textfile.exists(), "there is no border to look at");
        std::fs::create_dir_all(&node).unwrap();
        for (basis_points, shown) in [("0", "0"), ("2500", "0.25")] {
            std::fs::write(node.join("pressure_unmovable_bp"), basis_points).unwrap();
            agent.look(Duration::ZERO).unwrap();
            let text = std::fs::read_to_string(&textfile).unwrap();
            let labels = r#"{node="0",side="unmovable"}"#;
            let line = format!("ample_contiguitas_pressure_ratio{labels} {shown}");
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
    }
}
