// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the first third of a recorded kernel predicts of the rest: the fit behind
//! `ample whatif --record`, checked on recordings.

use super::recorded_kernel::{policy_of, recordings};
use crate::experiment::{Experiment, Outcome, Progress};
use crate::needs::source_tree;
use crate::progress::Steps;
use crate::stop;
use crate::whatif::recording::{ends, likely_pages, unmovable_2m_ratio};
use ample_host::{Scan, snapshot};
use ample_kit::statistics::MedianRange;
use ample_mm::replay::{KernelReplay, ReplayOptions, Start};
use ample_pfn::{BASE_PAGE_BYTES, Definition, MAX_PAGE_ORDER, Mobility, PageClass, is_movable};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which recordings, and how much of each is seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForesightParams {
    /// Folder of the recordings (`kernel/scripts/course.sh`), relative to the source tree: of each
    /// `NAME.start.snap`, `NAME.third.snap`, `NAME.end.snap` and the events of its first third,
    /// `NAME.trace.zst`; `NAME.json`, which may hold where the border was at each snapshot. A name
    /// that begins with `ample-` is of the kernel with Contiguitas.
    pub folder: PathBuf,
    /// Runs of the model for each recording.
    pub seeds: u64,
}

/// One recording. Ratios are of 2 MB blocks with an unmovable page (K).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForesightRow {
    /// File name without endings.
    pub recording: String,
    /// Seconds that the load was fitted to.
    pub seen_s: f64,
    /// Seconds predicted.
    pub predicted_s: f64,
    /// Found at the end of what was seen: what a prediction that nothing changes would say.
    pub seen_end_ratio: f64,
    /// Predicted for the end of the recording.
    pub predicted_end_ratio: MedianRange,
    /// Found there.
    pub found_end_ratio: f64,
    /// Points between the median predicted and what was found.
    pub missed_by_points: f64,
    /// Points by which "nothing changes" misses.
    pub unchanged_misses_by_points: f64,
    /// Where the border was at the end of what was seen; absent under stock Linux, as are all that
    /// follow.
    pub seen_border_bytes: Option<BorderBounds>,
    /// Predicted for the end of the recording.
    pub predicted_border_bytes: Option<MedianRange>,
    /// Where it was there.
    pub found_border_bytes: Option<BorderBounds>,
    /// By how much the median predicted misses it.
    pub border_missed_by_ratio: Option<BorderMiss>,
}

/// Where the border between kernel memory and the rest can lie, in bytes from the beginning of
/// memory. Pages tell it up to free blocks between the two; where the recording holds it, both
/// bounds are the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BorderBounds {
    /// After the last block of 4 MB with kernel memory.
    pub least: u64,
    /// Before the first one behind it with memory that moves.
    pub most: u64,
}

/// Distance of a prediction from a border ÷ that border.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BorderMiss {
    /// With the border where it is nearest to the prediction.
    pub least: f64,
    /// With the border where it is farthest.
    pub most: f64,
}

impl BorderBounds {
    /// Where the pages of a machine allow the border to be; `None` where kernel memory reaches into
    /// the upper half, as without a border. A page is kernel memory if all definitions call it
    /// unmovable; pages without a flag may be free.
    fn of(scan: &Scan) -> Option<BorderBounds> {
        let sure = |class: PageClass| {
            let mut all = Definition::ALL.into_iter();
            all.all(|definition| class.verdict(definition) == Mobility::Unmovable)
        };
        let (span, block) = (scan.pages.span(), 1u64 << MAX_PAGE_ORDER);
        let kernel = scan.pages.iter().filter(|&(_, class)| sure(class)).last()?;
        let least = kernel.0.end.0.next_multiple_of(block);
        let mut behind = scan.pages.iter().filter(|(range, _)| range.end.0 > least);
        let moves = behind.find(|&(_, class)| is_movable(class));
        let most = moves
            .map_or(span.end, |(range, _)| range.start)
            .0
            .max(least)
            / block
            * block;
        let first = span.start.0 / block * block;
        let bytes = |pfn: u64| (pfn - first) * BASE_PAGE_BYTES;
        let is_low = least - first <= (span.end.0 - first) / 2;
        is_low.then(|| BorderBounds {
            least: bytes(least),
            most: bytes(most),
        })
    }

    /// The border at frame `pfn`.
    fn at(scan: &Scan, pfn: u64) -> BorderBounds {
        let block = 1u64 << MAX_PAGE_ORDER;
        let first = scan.pages.span().start.0 / block * block;
        let bytes = pfn.saturating_sub(first) * BASE_PAGE_BYTES;
        BorderBounds {
            least: bytes,
            most: bytes,
        }
    }

    /// How far `predicted_bytes` is from it.
    fn missed_by(self, predicted_bytes: f64) -> BorderMiss {
        let (least, most) = (self.least as f64, self.most as f64);
        let miss = |border: f64| (predicted_bytes - border).abs() / border;
        BorderMiss {
            least: miss(predicted_bytes.clamp(least, most)),
            most: miss(least).max(miss(most)),
        }
    }
}

/// What was predicted and found, by recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForesightReport {
    /// What was run.
    pub parameters: ForesightParams,
    /// Recordings by name.
    pub rows: Vec<ForesightRow>,
}

/// The prediction of recorded kernels.
pub struct Foresight;

impl Experiment for Foresight {
    type Parameters = ForesightParams;
    type Outcome = ForesightReport;

    fn run(parameters: &ForesightParams, progress: Progress<'_>) -> Result<ForesightReport> {
        let root = source_tree().context("not in the source tree")?;
        let names = recordings(&root.join(&parameters.folder), ".third.snap")?;
        let steps = Steps::new(progress, names.len());
        let mut rows = Vec::new();
        for name in &names {
            let row = stop::until_stopped(|| row(parameters, name));
            rows.extend(row.transpose()?);
            steps.step();
        }
        Ok(ForesightReport {
            parameters: parameters.clone(),
            rows,
        })
    }
}

fn row(parameters: &ForesightParams, path: &str) -> Result<ForesightRow> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let moment = |moment: &str| snapshot::read(Path::new(&format!("{path}.{moment}.snap")));
    let events = format!("{path}.trace.zst");
    let replay = KernelReplay::open(Path::new(&events), ReplayOptions::default())?;
    let start = moment("start")?;
    let observed = replay.observed(&Start::new(start.layout.clone(), likely_pages(&start))?)?;
    let (mut third, mut end) = (moment("third")?, moment("end")?);
    let predicted_s = seconds_between(&third, &end)?;
    let ends = ends(
        &third,
        &likely_pages(&third),
        &observed.fit(name),
        policy_of(name),
        predicted_s,
        parameters.seeds,
    )?;
    let ratios = ends.iter().map(|end| end.unmovable_2m_ratio_k).collect();
    let predicted = MedianRange::of(ratios).context("seeds is 0; give at least 1")?;
    let borders = ends.iter().filter_map(|end| end.low_region_bytes);
    let border = MedianRange::of(borders.map(|bytes| bytes as f64).collect());
    let text = std::fs::read_to_string(format!("{path}.json")).unwrap_or_default();
    let bounds = |scan, moment| {
        let told = recorded_border(&text, moment);
        let told = told.map_or_else(
            || BorderBounds::of(scan),
            |pfn| Some(BorderBounds::at(scan, pfn)),
        );
        border.and(told)
    };
    let (seen_border, found_border) = (bounds(&third, "third"), bounds(&end, "end"));
    let before = unmovable_2m_ratio(&mut third);
    let found = unmovable_2m_ratio(&mut end);
    Ok(ForesightRow {
        recording: name.to_string(),
        seen_s: observed.seconds,
        predicted_s,
        seen_end_ratio: before,
        predicted_end_ratio: predicted,
        found_end_ratio: found,
        missed_by_points: 100.0 * (predicted.median - found).abs(),
        unchanged_misses_by_points: 100.0 * (before - found).abs(),
        seen_border_bytes: seen_border,
        predicted_border_bytes: border,
        found_border_bytes: found_border,
        border_missed_by_ratio: found_border
            .zip(border)
            .map(|(found, predicted)| found.missed_by(predicted.median)),
    })
}

/// The frame that the border was at when the snapshot of that name was taken, if the recording,
/// one object a line, tells it; 0 stands for a kernel without one.
fn recorded_border(text: &str, moment: &str) -> Option<u64> {
    let objects = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let mut snapshots = objects.filter(|object: &serde_json::Value| {
        object["what"] == "snapshot" && object["name"] == moment
    });
    let pfn = snapshots.next()?["border_pfn"].as_u64()?;
    (pfn > 0).then_some(pfn)
}

fn seconds_between(earlier: &Scan, later: &Scan) -> Result<f64> {
    let uptime = |scan: &Scan| {
        scan.meta
            .uptime_seconds
            .context("a snapshot without uptime")
    };
    Ok(uptime(later)?.saturating_sub(uptime(earlier)?) as f64)
}

impl Outcome for ForesightReport {
    const SCHEMA: &'static str = "ample.foresight/1";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whatif::recording::watermarks;
    use ample_mm::Marks;

    /// With 0.1 % of memory in reserve instead of the guest's own watermarks 67.8 % were predicted.
    #[test]
    fn a_kernel_that_grows_is_predicted_with_the_reserve_that_it_keeps() {
        let root = source_tree().expect("the source tree");
        let path = root.join("kernel/tests/courses/stock-1g-leak-1");
        let path = path.to_str().expect("text");
        let third = snapshot::read(Path::new(&format!("{path}.third.snap"))).expect("a snapshot");
        let marks = Marks {
            min: 5632,
            low: 7040,
            high: 8448,
        };
        assert_eq!(watermarks(&third), Some(marks));
        let parameters = ForesightParams {
            folder: PathBuf::new(),
            seeds: 1,
        };
        let row = row(&parameters, path).expect("a row");
        assert!(row.unchanged_misses_by_points > 12.0, "{row:?}");
        assert!(row.missed_by_points < 3.0, "{row:?}");
    }

    fn recorded(name: &str) -> Scan {
        let root = source_tree().expect("the tree");
        let path = root.join("kernel/tests/courses").join(name);
        snapshot::read(&path).expect("a snapshot of the tree")
    }

    #[test]
    fn pages_tell_where_the_border_is() {
        const MB: u64 = 1 << 20;
        let bounds = |name: &str| BorderBounds::of(&recorded(name));
        let root = source_tree().expect("the tree");
        let path = root.join("kernel/tests/courses/ample-1g-leak-1.json");
        let told = std::fs::read_to_string(path).expect("a file of the tree");
        let border = |moment| recorded_border(&told, moment).expect("a border") << 12;
        let roomy = bounds("ample-1g-leak-1.third.snap").expect("a border");
        assert!((roomy.least..=roomy.most).contains(&border("third")));
        // Under a load that goes on, the border was read after the pages, and had moved.
        let full = bounds("ample-1g-leak-1.end.snap").expect("a border");
        assert_eq!((full.least, full.most), (372 * MB, 372 * MB));
        assert_eq!(border("end"), 400 * MB);
        assert_eq!(bounds("stock-1g-leak-1.end.snap"), None);
    }

    #[test]
    fn a_recorded_border_needs_no_guess() {
        let line = |pfn: &str| format!("{{\"what\": \"snapshot\", \"name\": \"end\"{pfn}}}\n");
        let text = format!("not JSON\n{}", line(", \"border_pfn\": 40960"));
        assert_eq!(recorded_border(&text, "end"), Some(40960));
        assert_eq!(recorded_border(&text, "third"), None);
        assert_eq!(recorded_border(&line(""), "end"), None);
        assert_eq!(recorded_border(&line(", \"border_pfn\": 0"), "end"), None);
        let scan = recorded("ample-1g-leak-1.third.snap");
        let BorderBounds { least, most } = BorderBounds::at(&scan, 40960);
        assert_eq!((least, most), (160 << 20, 160 << 20));
    }

    #[test]
    fn a_miss_is_known_as_well_as_the_border() {
        let border = BorderBounds {
            least: 100,
            most: 125,
        };
        let miss = |predicted: f64| {
            let BorderMiss { least, most } = border.missed_by(predicted);
            [least, most]
        };
        assert_eq!(miss(110.0), [0.0, 0.12]);
        assert_eq!(miss(150.0), [0.2, 0.5]);
        assert_eq!(miss(50.0), [0.5, 0.6]);
    }
}
