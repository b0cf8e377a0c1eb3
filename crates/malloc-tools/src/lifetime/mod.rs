// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does it pay to predict by the place in the code how long an object will live, and to keep the
//! short-lived apart? A predictor is trained on a recorded run of a program and judged on another
//! run with another input, whose allocations go into the shipped size classes and page heap.

mod apart;
mod predict;
mod recording;

use ample_kit::files;
use apart::{Apart, ApartRow};
use predict::{Learned, Predictor, Quality};
use recording::AllocationRun;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

/// Largest recording that is read.
const MOST_BYTES: u64 = 4 << 30;

/// What is learned, and from how much.
#[derive(Clone, Copy, Debug)]
pub struct LifetimePlan {
    /// At most so many calls of each recording.
    pub calls: usize,
    /// An object is short-lived if it is freed before the program has allocated this much more, in
    /// percent of the highest memory in use in training.
    pub short_percent: usize,
    /// A place makes short-lived objects if at least so much of its memory was, in percent.
    pub sure_percent: usize,
}

/// One way to place the objects of a program.
#[derive(Serialize)]
struct WayRow<'a> {
    program: &'a str,
    predictor: &'static str,
    apart: &'static str,
    #[serde(flatten)]
    quality: Quality,
    #[serde(flatten)]
    memory: ApartRow,
}

/// The ways that are compared: who predicts, and what is kept apart.
const WAYS: [(Predictor, Apart); 6] = [
    (Predictor::None, Apart::Nothing),
    (Predictor::Size, Apart::Hugepages),
    (Predictor::Site, Apart::Spans),
    (Predictor::Site, Apart::Hugepages),
    (Predictor::Oracle, Apart::Spans),
    (Predictor::Oracle, Apart::Hugepages),
];

fn read(folder: &Path, name: &str, calls: usize) -> Result<AllocationRun, String> {
    let path = folder.join(name);
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = files::open(&path, MOST_BYTES).map_err(told)?;
    AllocationRun::read(file, calls).map_err(told)
}

/// The programs of which the folder has both runs, in order of their names.
fn programs(folder: &Path) -> Result<Vec<String>, String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).map_err(told)? {
        let name = entry.map_err(told)?.file_name();
        names.insert(name.to_string_lossy().into_owned());
    }
    let both = |name: &String| {
        let program = name.strip_suffix(".train")?;
        let other = format!("{program}.judge");
        names.contains(&other).then(|| program.to_string())
    };
    Ok(names.iter().filter_map(both).collect())
}

/// All programs of a folder, as one JSON object, schema `ample.malloc-lifetimes/1`.
///
/// # Errors
/// If the folder holds no recordings, or one cannot be read.
pub fn json(folder: &Path, plan: LifetimePlan) -> Result<String, String> {
    let mut rows = Vec::new();
    let programs = programs(folder)?;
    if programs.is_empty() {
        return Err(format!(
            "{}: no recordings; bench/malloc/lifetimes.py makes them",
            folder.display()
        ));
    }
    for program in &programs {
        let train = read(folder, &format!("{program}.train"), plan.calls)?;
        let short_bytes = train
            .peak_live_bytes()
            .saturating_mul(plan.short_percent as u64)
            / 100;
        let learned = Learned::from(&train, short_bytes, plan.sure_percent as u64);
        drop(train);
        let judge = read(folder, &format!("{program}.judge"), plan.calls)?;
        for (predictor, apart) in WAYS {
            let short = learned.predict(&judge, predictor);
            rows.push(WayRow {
                program,
                predictor: predictor.name(),
                apart: apart.name(),
                quality: learned.quality(&judge, &short),
                memory: apart::replay(&judge, &short, apart),
            });
        }
    }
    let schema = "ample.malloc-lifetimes/1";
    Ok(json!({"schema": schema, "rows": rows}).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_kit::random::SplitMix64;

    /// A program of two places that ask for the same size: one keeps what it gets, the other frees
    /// it 5000 of its objects later; then nine in ten of what is kept are freed.
    fn program(seed: u64, objects: u64) -> Vec<u8> {
        let mut random = SplitMix64::new(seed);
        let mut bytes = Vec::new();
        let (mut kept, mut passing) = (Vec::new(), std::collections::VecDeque::new());
        let mut time_ns = 1;
        let mut call = |address: u64, size: u64, site: u32| {
            time_ns += 20_000;
            bytes.extend(recording::encoded(time_ns, address, size, site));
        };
        for number in 1..=objects {
            let address = number << 12;
            if random.below(5) < 3 {
                call(address, 200, 1);
                kept.push(address);
            } else {
                call(address, 200, 2);
                passing.push_back(address);
            }
            if passing.len() > 5000
                && let Some(address) = passing.pop_front()
            {
                call(address, 0, 0);
            }
        }
        for address in kept {
            if random.below(10) != 0 {
                call(address, 0, 0);
            }
        }
        bytes
    }

    #[test]
    fn what_a_place_did_in_training_keeps_its_objects_apart() {
        let folder = std::env::temp_dir().join(format!("ample-lifetime-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("toy.train"), program(1, 300_000)).unwrap();
        std::fs::write(folder.join("toy.judge"), program(2, 400_000)).unwrap();
        std::fs::write(folder.join("alone.train"), b"").unwrap();
        let plan = LifetimePlan {
            calls: usize::MAX,
            short_percent: 25,
            sure_percent: 95,
        };
        let text = json(&folder, plan).unwrap();
        assert_eq!(text, json(&folder, plan).unwrap(), "the same bytes again");
        assert!(json(&folder.join("none"), plan).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["rows"].as_array().unwrap().len(), WAYS.len());
        let [none, size, site] = [0, 1, 3].map(|way| &value["rows"][way]);
        assert_eq!(size["recall"], 0.0, "one size has both kinds: {size}");
        assert!(size["precision"].is_null(), "nothing is called short-lived");
        let number = |row: &serde_json::Value, key: &str| row[key].as_f64().unwrap();
        assert!(number(site, "recall") > 0.8, "{site}");
        assert!(number(site, "precision") > 0.95, "{site}");
        let held = [none, site].map(|row| number(row, "mean_backed"));
        assert!(held[1] <= held[0] * 1.05, "{text}");
    }
}
