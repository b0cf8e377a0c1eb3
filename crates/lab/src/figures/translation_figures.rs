// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of the translation simulator, from the JSON of the experiments (the schema says which).

use ample_report::{Bar, BarChart, BarGroup, LineChart, Series, Unit};
use serde_json::Value;

/// The figure of a result that has one, as a bare `<svg>`.
pub fn figure(result: &Value) -> Option<String> {
    Some(match result["schema"].as_str()? {
        "ample.sim.chase/1" => chase(result)?.to_svg(),
        "ample.sim.footprint/1" => footprint(result)?.to_svg(),
        "ample.sim.fig10/2" => fig10(result)?.to_svg(),
        "ample.sim.exactness/1" => exactness(result)?.to_svg(),
        _ => return None,
    })
}

/// Gains over stock Linux by workload and fragmentation, one bar a policy.
fn fig10(result: &Value) -> Option<BarChart> {
    let gains = result["gains"].as_array()?;
    let mut series: Vec<String> = Vec::new();
    let mut groups: Vec<BarGroup> = Vec::new();
    for gain in gains {
        let policy = gain["policy"].as_str()?;
        if !series.iter().any(|name| name == policy) {
            series.push(policy.to_string());
        }
        let label = format!(
            "{}, {}",
            gain["workload"].as_str()?,
            gain["fragmentation"].as_str()?
        );
        if groups.last().is_none_or(|group| group.label != label) {
            groups.push(BarGroup {
                label,
                bars: Vec::new(),
            });
        }
        groups.last_mut()?.bars.push(fig10_bar(gain)?);
    }
    Some(BarChart {
        title: "Speed over stock Linux on a fragmented server".into(),
        series,
        groups,
        unit: Unit::Percent,
        max: None,
    })
}

/// A gain with its spread over seeds, and the paper's where that is one value and no range.
fn fig10_bar(gain: &Value) -> Option<Bar> {
    let spread = &gain["gain"];
    let paper = &gain["paper"];
    Some(Bar {
        value: spread["mean"].as_f64(),
        spread: Some((spread["min"].as_f64()?, spread["max"].as_f64()?)),
        paper: paper[0].as_f64().filter(|_| paper[0] == paper[1]),
    })
}

/// Misses of uniform random accesses by pages over entries: each TLB's, and 1 − E/W.
fn exactness(result: &Value) -> Option<LineChart> {
    let mut law: Vec<(f64, f64)> = Vec::new();
    let mut series: Vec<Series> = Vec::new();
    for row in result["rows"].as_array()? {
        let Some(ratio) = row["pages_per_entry"].as_f64() else {
            continue;
        };
        law.push((ratio.log2(), row["expected"].as_f64()?));
        let point = (ratio.log2(), row["here"].as_f64()?);
        let name = row["case"].as_str()?.rsplit_once(", ")?.0;
        match series.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => series.push(Series {
                name: name.into(),
                points: vec![point],
                band: Vec::new(),
            }),
        }
    }
    law.sort_by(|a, b| a.0.total_cmp(&b.0));
    law.dedup();
    series.push(Series {
        name: "1 − E/W".into(),
        points: law,
        band: Vec::new(),
    });
    Some(LineChart {
        title: "Misses of uniform random accesses by log2 of pages over entries".into(),
        series,
        x_unit: Unit::Plain,
        y_unit: Unit::Percent,
        y_max: Some(1.0),
    })
}

fn log2_bytes(point: &Value) -> Option<f64> {
    Some(point["footprint_bytes"].as_f64()?.log2())
}

/// Measured latencies with their spread, and the model's beside.
fn chase(result: &Value) -> Option<LineChart> {
    let mut series = Vec::new();
    for curve in result["curves"].as_array()? {
        let name = match curve["backing"].as_str()? {
            "small" => "4 KB",
            "thp" => "2 MB",
            _ => "1 GB",
        };
        let points = curve["points"].as_array()?;
        let line = |field: &str| -> Vec<(f64, f64)> {
            let point = |p: &Value| Some((log2_bytes(p)?, p[field].as_f64()?));
            points.iter().filter_map(point).collect()
        };
        let band = |p: &Value| {
            Some((
                p["measured_min_ns"].as_f64()?,
                p["measured_max_ns"].as_f64()?,
            ))
        };
        series.push(Series {
            name: format!("{name} measured"),
            points: line("measured_ns"),
            band: points.iter().filter_map(band).collect(),
        });
        series.push(Series {
            name: format!("{name} model"),
            points: line("model_ns"),
            band: Vec::new(),
        });
    }
    Some(LineChart {
        title: "Latency of dependent random loads, ns, by footprint".into(),
        series,
        x_unit: Unit::Log2Bytes,
        y_unit: Unit::Plain,
        y_max: None,
    })
}

/// Direct Segments, figure 5.
fn footprint(result: &Value) -> Option<LineChart> {
    let points = result["points"].as_array()?;
    let share = |p: &Value, percent: Option<f64>| Some((log2_bytes(p)?, percent? / 100.0));
    let mut series = Vec::new();
    for (index, name) in ["4 KB", "2 MB", "1 GB"].into_iter().enumerate() {
        let point = |p: &Value| share(p, p["dtlb_percent"][index].as_f64());
        series.push(Series {
            name: name.into(),
            points: points.iter().filter_map(point).collect(),
            band: Vec::new(),
        });
    }
    let point = |p: &Value| share(p, p["segment_percent"].as_f64());
    series.push(Series {
        name: "segment".into(),
        points: points.iter().filter_map(point).collect(),
        band: Vec::new(),
    });
    Some(LineChart {
        title: "Cycles on D-TLB misses of GUPS by footprint".into(),
        series,
        x_unit: Unit::Log2Bytes,
        y_unit: Unit::Percent,
        y_max: Some(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_with_curves_have_a_figure() {
        let point = |footprint_bytes: u64| {
            serde_json::json!({"footprint_bytes": footprint_bytes, "measured_ns": 5.0,
                "measured_min_ns": 4.0, "measured_max_ns": 6.0, "model_ns": 5.5,
                "dtlb_percent": [50.0, 1.0, 0.0], "segment_percent": 0.0})
        };
        let points = [point(1 << 16), point(1 << 20)];
        let chase = serde_json::json!({"schema": "ample.sim.chase/1",
            "curves": [{"backing": "thp", "points": points}]});
        assert!(figure(&chase).unwrap().contains("2 MB model"));
        let footprint = serde_json::json!({"schema": "ample.sim.footprint/1", "points": points});
        assert!(figure(&footprint).unwrap().contains("64K"));
        let gains: Vec<Value> = ["contiguitas", "contiguitas-hw"]
            .iter()
            .map(|policy| {
                serde_json::json!({"workload": "web", "policy": policy,
                    "fragmentation": "full", "paper": [0.18, 0.18],
                    "gain": {"mean": 0.1, "min": 0.05, "max": 0.2, "sd": 0.1, "n": 3}})
            })
            .collect();
        let fig10 = serde_json::json!({"schema": "ample.sim.fig10/2", "gains": gains});
        let svg = figure(&fig10).expect("a figure");
        assert!(svg.contains("web, full") && svg.contains("contiguitas-hw"));
        assert!(figure(&serde_json::json!({"schema": "ample.sim.walks/1"})).is_none());
        let row = |pages: f64| {
            serde_json::json!({"case": format!("64 entries, 4 ways, {} pages", 64.0 * pages),
                "pages_per_entry": pages, "expected": 1.0 - 1.0 / pages, "here": 0.5})
        };
        let exactness = serde_json::json!({"schema": "ample.sim.exactness/1",
            "rows": [row(2.0), row(4.0), {"case": "a walk", "pages_per_entry": null}]});
        let svg = figure(&exactness).expect("a figure");
        assert!(svg.contains("64 entries, 4 ways<") && svg.contains("1 − E/W"));
    }
}
