// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ample whatif --record`: this machine's own load.

use ample_host::Scan;
use ample_lab::whatif::recording::RecordedLoad;
use ample_mm::Workload;

/// A recorded machine.
pub(super) struct Recorded {
    /// Its pages at the end of the recording.
    pub(super) scan: Scan,
    /// What was fitted to the recording.
    pub(super) workload: Workload,
    /// Where the load comes from, and how well it predicts.
    pub(super) load: RecordedLoad,
}

/// Says what is missing.
#[cfg(not(feature = "bpf"))]
pub(super) fn record(_: std::time::Duration, _: &Workload) -> anyhow::Result<Recorded> {
    anyhow::bail!("recording needs the BPF programs; build with --features bpf (clang, libelf)")
}

#[cfg(feature = "bpf")]
pub(super) use bpf::record;

#[cfg(feature = "bpf")]
mod bpf {
    use super::Recorded;
    use crate::cmd::progress_bar;
    use ample_host::{
        ReaderChoice, Scan, ScanOptions, TrafficCounts, TrafficOrigin, TrafficRecorder, scan_live,
    };
    use ample_kit::statistics::MedianRange;
    use ample_lab::stop;
    use ample_lab::whatif::recording::{RecordedLoad, ends, unmovable_2m_ratio};
    use ample_lab::whatif::simulate::FEWEST_SEEDS;
    use ample_mm::workload::{PageStream, StreamOrigin, kernel_change_pages};
    use ample_mm::{Observed, PolicyKind, Workload};
    use ample_pfn::CLASS_COUNT;
    use ample_trace::pages::{Gfp, Task, Traced};
    use anyhow::{Result, ensure};
    use std::time::{Duration, Instant};

    /// Less shows no lifetimes of use.
    const SHORTEST: Duration = Duration::from_secs(10);
    /// Most values of the course that are kept: one a second, or fewer of a long recording.
    const MOST_VALUES: u32 = 3600;

    /// Records for `length`; what the load asks for at its end is that of `kind`.
    pub(in super::super) fn record(length: Duration, kind: &Workload) -> Result<Recorded> {
        ensure!(
            length >= SHORTEST,
            "--record {} s is too short; record at least {} s",
            length.as_secs_f64(),
            SHORTEST.as_secs()
        );
        let mut recording = Recording::start()?;
        recording.follow(length / 3, length)?;
        let early = recording.observed()?;
        let early_scan = scan()?;
        recording.follow(length, length)?;
        let observed = recording.observed()?;
        recording.warn();
        let mut scan = scan()?;
        let seconds = observed.seconds - early.seconds;
        tell!("recorded; checking what its first third predicts");
        let ends = ends(
            &early_scan,
            &early_scan.pages.expand(),
            &early.fit(&kind.name),
            running_policy(),
            seconds,
            FEWEST_SEEDS,
        )?;
        let ratios = ends.iter().map(|end| end.unmovable_2m_ratio_k).collect();
        let predicted_2m_ratio = MedianRange::of(ratios).expect("at least one seed");
        let load = RecordedLoad {
            seconds: observed.seconds,
            predicted_2m_ratio,
            found_2m_ratio: unmovable_2m_ratio(&mut scan),
        };
        let workload = Workload {
            huge: kind.huge.clone(),
            ..observed.fit(&kind.name)
        };
        Ok(Recorded {
            scan,
            workload,
            load,
        })
    }

    /// Contiguitas where the running kernel has a border (docs/kernel.md), else Linux.
    fn running_policy() -> PolicyKind {
        let border = std::fs::read_to_string("/sys/kernel/mm/contiguitas/node0/border_pfn");
        let pfn = border.ok().and_then(|text| text.trim().parse::<u64>().ok());
        match pfn.unwrap_or(0) {
            0 => PolicyKind::Linux,
            _ => PolicyKind::Contiguitas,
        }
    }

    struct Recording {
        recorder: TrafficRecorder,
        started: Instant,
        course: Vec<f64>,
    }

    impl Recording {
        fn start() -> Result<Recording> {
            Ok(Recording {
                recorder: TrafficRecorder::start()?,
                started: Instant::now(),
                course: Vec::new(),
            })
        }

        /// Counts on until the recording is `until` long of `length`, or Ctrl-C.
        fn follow(&mut self, until: Duration, length: Duration) -> Result<()> {
            let every = (length / MOST_VALUES).max(Duration::from_secs(1));
            let bar = progress_bar("recording");
            while self.started.elapsed() < until {
                ensure!(
                    !stop::requested(),
                    "stopped while recording: nothing is predicted"
                );
                let next = every * (self.course.len() as u32 + 1);
                let wait = next.min(until).saturating_sub(self.started.elapsed());
                std::thread::sleep(wait.min(Duration::from_millis(200)));
                if self.started.elapsed() >= next {
                    let streams = streams(&self.recorder.counts()?);
                    self.course.push(kernel_change_pages(&streams));
                }
                let share = self.started.elapsed().as_secs_f64() / length.as_secs_f64();
                bar.set_position((share * 1000.0) as u64);
            }
            bar.finish_and_clear();
            Ok(())
        }

        fn observed(&mut self) -> Result<Observed> {
            let mut before_pages = [0; CLASS_COUNT];
            for (range, class) in self.recorder.scan().pages.iter() {
                before_pages[class as usize] += range.pages();
            }
            Ok(Observed {
                seconds: self.started.elapsed().as_secs_f64(),
                before_pages,
                streams: streams(&self.recorder.counts()?),
                kernel_change_pages: self.course.clone(),
            })
        }

        fn warn(&mut self) {
            let lost = self.recorder.lost();
            if lost > 0 {
                tell!(
                    "ample: warning: {lost} followed allocations were not counted, because there \
                     were too many kinds of requests"
                );
            }
        }
    }

    fn scan() -> Result<Scan> {
        Ok(scan_live(&ScanOptions {
            reader: ReaderChoice::Bpf,
            ..ScanOptions::default()
        })?)
    }

    fn streams(counts: &[TrafficCounts]) -> Vec<PageStream> {
        counts
            .iter()
            .map(|counts| PageStream {
                origin: match &counts.origin {
                    TrafficOrigin::Before(class) => StreamOrigin::Before(*class),
                    TrafficOrigin::Request {
                        gfp,
                        order,
                        migratetype,
                    } => StreamOrigin::Request(Traced {
                        order: *order,
                        migratetype: *migratetype,
                        gfp: Gfp::parse(gfp.as_bytes()),
                        task: Task::Other,
                    }),
                },
                allocated_pages: counts.allocated_pages,
                freed_pages: counts.freed_pages,
                lifetimes_pages: counts.lifetimes_pages,
            })
            .collect()
    }
}
