// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bars of the translation simulator's experiments, from their JSON (the schema says which).

use super::hardware_figures::Bars;
use ample_report::{Bar, LineChart, Series, Unit};
use serde_json::Value;

/// The figure of a result, as a bare `<svg>`.
pub fn figure(result: &Value) -> Option<String> {
    match result["schema"].as_str()? {
        "ample.sim.directseg/1" => directseg(result),
        "ample.sim.walks/1" => walks(result),
        "ample.sim.speedup/1" => speedup(result),
        "ample.sim.perforated/1" => perforated(result),
        "ample.sim.fragmentation/1" => fragmentation(result),
        "ample.sim.segments/1" => segments(result),
        "ample.sim.live/1" => live(result),
        "ample.sim.simulator-speed/1" => simulator_speed(result),
        _ => None,
    }
}

fn percent(value: &Value) -> Option<f64> {
    Some(value.as_f64()? / 100.0)
}

fn plain(value: Option<f64>) -> Bar {
    Bar {
        value,
        ..Bar::default()
    }
}

/// Table 4 and figure 4: cycles on D-TLB misses, the paper's as marks.
fn directseg(result: &Value) -> Option<String> {
    let mut bars = Bars::new("Cycles on D-TLB misses", Unit::Percent);
    for row in result["rows"].as_array()? {
        let program = row["program"].as_str()?;
        for (at, name) in ["4 KB", "2 MB", "1 GB"].into_iter().enumerate() {
            let low = percent(&row["dtlb_percent_min"][at]);
            let bar = Bar {
                value: percent(&row["dtlb_percent"][at]),
                spread: low.zip(percent(&row["dtlb_percent_max"][at])),
                paper: percent(&row["paper_dtlb_percent"][at]),
            };
            bars.put(program, name, bar);
        }
        bars.put(program, "segment", plain(percent(&row["segment_percent"])));
    }
    bars.svg()
}

/// Figure 3 of Contiguitas: walk cycles for data and for instructions.
fn walks(result: &Value) -> Option<String> {
    let mut bars = Bars::new("Cycles in page walks", Unit::Percent);
    for row in result["bars"].as_array()? {
        let program = row["program"].as_str()?;
        let mix = row["mix"].as_str()?;
        for (what, key) in [("data", "data_percent"), ("code", "instruction_percent")] {
            bars.put(
                &format!("{program}, {what}"),
                mix,
                plain(percent(&row[key])),
            );
        }
    }
    bars.svg()
}

/// Speed over 4 KB pages by the share of 2 MB pages, one line a program.
fn speedup(result: &Value) -> Option<String> {
    let mut series = Vec::new();
    for table in result["tables"].as_array()? {
        let point = |p: &Value| {
            let small = p["share_1g"].as_f64()? == 0.0;
            let gain = p["speedup"].as_f64()? - 1.0;
            small.then_some((p["share_2m_of_rest"].as_f64()?, gain))
        };
        series.push(Series {
            name: table["program"].as_str()?.into(),
            points: table["points"]
                .as_array()?
                .iter()
                .filter_map(point)
                .collect(),
            band: Vec::new(),
        });
    }
    let chart = LineChart {
        title: "Speed gained over 4 KB pages by the share of memory in 2 MB pages".into(),
        series,
        x_unit: Unit::Percent,
        y_unit: Unit::Percent,
        y_max: None,
    };
    Some(chart.to_svg())
}

/// Share of ideal by holes, of used holes in the largest share of regions: lines of one program,
/// bars of several.
fn perforated(result: &Value) -> Option<String> {
    let points = result["points"].as_array()?;
    let share = |p: &Value| p["fragmented_share"].as_f64().unwrap_or(0.0);
    let most = points.iter().map(share).fold(0.0, f64::max);
    let shown = |p: &&Value| p["used"] == true && share(p) > most - 0.05;
    let shown: Vec<&Value> = points.iter().filter(shown).collect();
    let lie = |p: &Value| match p["clustered"] == true {
        true => "clustered",
        false => "dispersed",
    };
    let on = |p: &Value| match p["virtualised"] == true {
        true => "virtual",
        false => "native",
    };
    let title = "Speed of perforated pages, share of ideal 2 MB pages, by holes a region";
    let one = shown.iter().all(|p| p["program"] == shown[0]["program"]);
    if !one {
        let mut bars = Bars::new(title, Unit::Percent);
        for p in shown.iter().filter(|p| p["virtualised"] == false) {
            let holes = p["holes_per_region"].as_f64()?;
            let series = format!("{holes:.0} {}", lie(p));
            bars.put(
                p["program"].as_str()?,
                &series,
                plain(p["of_ideal"].as_f64()),
            );
        }
        return bars.svg();
    }
    let mut series: Vec<Series> = Vec::new();
    for p in shown {
        let name = format!("{}, {}", lie(p), on(p));
        let point = (p["holes_per_region"].as_f64()?, p["of_ideal"].as_f64()?);
        match series.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => series.push(Series {
                name,
                points: vec![point],
                band: Vec::new(),
            }),
        }
    }
    let chart = LineChart {
        title: title.into(),
        series,
        x_unit: Unit::Plain,
        y_unit: Unit::Percent,
        y_max: None,
    };
    Some(chart.to_svg())
}

/// The columns of the experiment on real fragmentation.
const WAYS: [(&str, &str); 7] = [
    ("small_of_ideal", "4 KB"),
    ("conventional_of_ideal", "2 MB + 4 KB"),
    ("gtsm_of_ideal", "GTSM"),
    ("colt_of_ideal", "CoLT"),
    ("rmm_of_ideal", "RMM"),
    ("perforated_of_ideal", "perforated"),
    ("segment_of_ideal", "segment"),
];

/// Share of ideal by program, mean and range over sources and seeds.
fn fragmentation(result: &Value) -> Option<String> {
    let title = "Speed on real fragmentation, share of ideal (* on a virtual machine)";
    let mut bars = Bars::new(title, Unit::Percent);
    let rows = result["rows"].as_array()?;
    for first in rows {
        let (program, virtualised) = (&first["program"], &first["virtualised"]);
        let group = match virtualised == true {
            true => format!("{}*", program.as_str()?),
            false => program.as_str()?.into(),
        };
        for (key, name) in WAYS {
            let same = |r: &&Value| r["program"] == *program && r["virtualised"] == *virtualised;
            let values: Vec<f64> = rows
                .iter()
                .filter(same)
                .filter_map(|r| r[key].as_f64())
                .collect();
            if values.is_empty() {
                continue;
            }
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(0.0, f64::max);
            let bar = Bar {
                value: Some(values.iter().sum::<f64>() / values.len() as f64),
                spread: Some((low, high)),
                paper: None,
            };
            bars.put(&group, name, bar);
        }
    }
    bars.svg()
}

/// Section 3.3: walks of program and kernel by how each is mapped, the paper's as marks.
fn segments(result: &Value) -> Option<String> {
    let title = "Cycles on D-TLB misses of program and kernel (program / direct map in)";
    let mut bars = Bars::new(title, Unit::Percent);
    for row in result["kernel"].as_array()? {
        let (user, kernel) = (row["user"].as_str()?, row["kernel"].as_str()?);
        let group = format!("{user} / {kernel}");
        let paged = user == "4 KB" && kernel != "segment";
        let paper = |key: &str| percent(&result[key]).filter(|_| paged);
        let bar = |key: &str, paper| Bar {
            value: percent(&row[key]),
            paper,
            ..Bar::default()
        };
        let own = bar("user_percent", paper("paper_user_percent"));
        bars.put(&group, "program", own);
        let kernel = bar("kernel_percent", paper("paper_kernel_percent"));
        bars.put(&group, "kernel", kernel);
    }
    bars.svg()
}

/// Accesses a second that reach the model, by program.
fn live(result: &Value) -> Option<String> {
    let mut bars = Bars::new("Accesses a second through the live model", Unit::Count);
    for row in result["rows"].as_array()? {
        let size = match row["page_bytes"].as_u64()? {
            4096 => "4 KB pages",
            _ => "2 MB pages",
        };
        let low = row["accesses_per_s_min"].as_f64();
        let bar = Bar {
            value: row["accesses_per_s"].as_f64(),
            spread: low.zip(row["accesses_per_s_max"].as_f64()),
            paper: None,
        };
        bars.put(row["program"].as_str()?, size, bar);
    }
    bars.svg()
}

/// Accesses or instructions a second, the bars of the project as marks.
fn simulator_speed(result: &Value) -> Option<String> {
    let title = "Speed of the simulator a second of processor time (mark: the project's bar)";
    let mut bars = Bars::new(title, Unit::Count);
    for row in result["rows"].as_array()? {
        let low = row["per_s_min"].as_f64();
        let bar = Bar {
            value: row["per_s"].as_f64(),
            spread: low.zip(row["per_s_max"].as_f64()),
            paper: row["bar_per_s"].as_f64(),
        };
        let what = match row["timed"] == true {
            true => "timed, instructions",
            false => "functional, accesses",
        };
        bars.put(row["program"].as_str()?, what, bar);
    }
    bars.svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_experiment_of_translation_has_a_figure() {
        let point = |holes: u32, clustered: bool| {
            json!({"program": "gups", "fragmented_share": 1.0, "holes_per_region": holes,
                "clustered": clustered, "used": true, "virtualised": false, "of_ideal": 0.9})
        };
        let row = |virtualised: bool| {
            json!({"program": "mcf", "virtualised": virtualised, "small_of_ideal": 0.5,
                "perforated_of_ideal": 0.95, "segment_of_ideal": null})
        };
        let results = [
            (
                "directseg",
                json!({"rows": [{"program": "cg", "dtlb_percent": [30.0, 1.0, 9.0],
                    "dtlb_percent_min": [29.0, 1.0, 8.0], "dtlb_percent_max": [31.0, 1.0, 9.0],
                    "paper_dtlb_percent": [30.2, 1.4, 7.1], "segment_percent": 0.0}]}),
                "cg",
            ),
            (
                "walks",
                json!({"bars": [{"program": "web", "mix": "4 KB", "data_percent": 20.0,
                    "instruction_percent": 4.0}]}),
                "web, code",
            ),
            (
                "speedup",
                json!({"tables": [{"program": "web", "points": [
                    {"share_1g": 0.0, "share_2m_of_rest": 0.0, "speedup": 1.0},
                    {"share_1g": 0.0, "share_2m_of_rest": 1.0, "speedup": 1.2}]}]}),
                "web",
            ),
            (
                "perforated",
                json!({"points": [point(1, true), point(32, true), point(1, false)]}),
                "dispersed, native",
            ),
            (
                "fragmentation",
                json!({"rows": [row(false), row(true)]}),
                "mcf*",
            ),
            (
                "segments",
                json!({"paper_user_percent": 10.3, "paper_kernel_percent": 3.2, "kernel": [
                    {"user": "4 KB", "kernel": "2 MB", "user_percent": 10.0,
                        "kernel_percent": 3.0}]}),
                "4 KB / 2 MB",
            ),
            (
                "live",
                json!({"rows": [{"program": "redis", "page_bytes": 4096, "accesses_per_s": 3e6,
                    "accesses_per_s_min": 2.9e6, "accesses_per_s_max": 3.1e6}]}),
                "redis",
            ),
        ];
        let row = json!({"program": "gups", "timed": true, "per_s": 1e7, "per_s_min": 9e6,
            "per_s_max": 1.1e7, "bar_per_s": 1e7});
        let speed = json!({"rows": [row]});
        let results = results
            .into_iter()
            .chain([("simulator-speed", speed, "timed")]);
        for (name, mut result, label) in results {
            result["schema"] = format!("ample.sim.{name}/1").into();
            let svg = figure(&result).unwrap_or_else(|| panic!("{name} has no figure"));
            assert!(svg.contains(label), "{name}: {svg}");
        }
    }
}
