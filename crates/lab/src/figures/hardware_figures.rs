// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of the migration hardware, from the JSON of the experiments (the schema says which).

use ample_report::{
    Bar, BarChart, BarGroup, LineCell, LineChart, LinePlace, MIGRATION_LEGEND, MigrationFrame,
    Page, Section, Series, Unit, migration_frame,
};
use serde_json::Value;

/// The pictures of a result that has many: a page of their own.
pub fn page(title: &str, result: &Value) -> Option<String> {
    match result["schema"].as_str()? {
        "ample.hw-steps/1" => steps(title, result),
        _ => None,
    }
}

/// The figure of a result, if its kind has one, as a bare `<svg>`.
pub fn figure(title: &str, result: &Value) -> Option<String> {
    match result["schema"].as_str()? {
        "ample.hw-unavailable/1" => unavailable(title, result),
        "ample.hw-traffic/1" => by_way(title, &result["points"], "rate_per_s", "loss"),
        "ample.hw-sweep/1" => by_way(title, &result["variants"], "what", "copy_ns"),
        "ample.hw-losses/1" => by_way(title, &result["losses"], "rate_per_s", "loss"),
        "ample.hw-migration/1" => migration(title, result),
        "ample.hw-hugepages/1" => hugepages(title, result),
        "ample.hw-defrag/1" => defrag(title, result),
        _ => None,
    }
}

/// Figure 13: one line a quantity, over the number of remote TLBs.
fn unavailable(title: &str, result: &Value) -> Option<String> {
    let points = result["points"].as_array()?;
    let line = |name: &str, key: &str| {
        let point = |p: &Value| Some((p["remote_tlbs"].as_f64()?, p[key].as_f64()?));
        Series {
            name: name.into(),
            points: points.iter().filter_map(point).collect(),
            band: vec![],
        }
    };
    let chart = LineChart {
        title: title.into(),
        series: vec![
            line(
                "software: unavailable, cycles",
                "software_unavailable_cycles",
            ),
            line("of it the copy", "software_copy_cycles"),
            line("hardware: unavailable", "hardware_unavailable_cycles"),
        ],
        x_unit: Unit::Plain,
        y_unit: Unit::Count,
        y_max: None,
    };
    Some(chart.to_svg())
}

fn label(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        number => number.as_f64().map(|n| Unit::Count.format(n)),
    }
}

/// Bars put into groups by a name, one of each series in a group.
pub struct Bars {
    chart: BarChart,
}

impl Bars {
    /// No bars yet.
    pub fn new(title: &str, unit: Unit) -> Self {
        Self {
            chart: BarChart {
                title: title.into(),
                series: Vec::new(),
                groups: Vec::new(),
                unit,
                max: None,
            },
        }
    }

    /// Puts a bar; groups and series appear in the order of their first bar.
    pub fn put(&mut self, group: &str, series: &str, bar: Bar) {
        let chart = &mut self.chart;
        let place = chart.series.iter().position(|name| name == series);
        let place = place.unwrap_or_else(|| {
            chart.series.push(series.into());
            chart
                .groups
                .iter_mut()
                .for_each(|g| g.bars.push(Bar::default()));
            chart.series.len() - 1
        });
        let known = chart.groups.iter().position(|g| g.label == group);
        let known = known.unwrap_or_else(|| {
            chart.groups.push(BarGroup {
                label: group.into(),
                bars: vec![Bar::default(); chart.series.len()],
            });
            chart.groups.len() - 1
        });
        chart.groups[known].bars[place] = bar;
    }

    /// The chart; `None` without a bar.
    pub fn svg(self) -> Option<String> {
        (!self.chart.groups.is_empty()).then(|| self.chart.to_svg())
    }
}

/// One group of bars for each value of `group` (and server), one bar a mover.
fn by_way(title: &str, rows: &Value, group: &str, value: &str) -> Option<String> {
    let unit = if value == "loss" {
        Unit::Percent
    } else {
        Unit::Count
    };
    let mut bars = Bars::new(title, unit);
    for row in rows.as_array()? {
        let mut name = label(&row[group])?;
        if let Some(service) = row["service"].as_str() {
            name = format!("{service} {name}");
        }
        let height = row[value].as_f64();
        let half = row[format!("{value}_ci95")].as_f64();
        let bar = Bar {
            value: height,
            spread: height
                .zip(half)
                .map(|(mean, half)| (mean - half, mean + half)),
            paper: row[format!("paper_{value}")].as_f64(),
        };
        bars.put(&name, row["way"].as_str()?, bar);
    }
    bars.svg()
}

/// One migration: the copy by where the page is, for each engine.
fn migration(title: &str, result: &Value) -> Option<String> {
    let mut bars = Bars::new(&format!("{title} (copy, ns)"), Unit::Count);
    for row in result["engines"].as_array()? {
        let copy = &row["copy_ns"];
        let bar = Bar {
            value: copy["median"].as_f64(),
            spread: copy["min"].as_f64().zip(copy["max"].as_f64()),
            paper: row["paper_ns"].as_f64(),
        };
        bars.put(row["what"].as_str()?, row["place"].as_str()?, bar);
    }
    bars.svg()
}

/// Gain of 2 MB pages by what requests are like and the size of what is looked up in.
fn hugepages(title: &str, result: &Value) -> Option<String> {
    let mut bars = Bars::new(title, Unit::Percent);
    for row in result["rows"].as_array()? {
        let (gain, half) = (row["gain"].as_f64(), row["gain_ci95"].as_f64());
        let bar = Bar {
            value: gain,
            spread: gain
                .zip(half)
                .map(|(mean, half)| (mean - half, mean + half)),
            paper: row["paper_gain"].as_f64(),
        };
        let series = format!(
            "{} GB, {} migrations/s",
            row["table_gb"],
            label(&row["rate_per_s"])?
        );
        bars.put(row["server"].as_str()?, &series, bar);
    }
    bars.svg()
}

/// Share of the unmovable region given back.
fn defrag(title: &str, result: &Value) -> Option<String> {
    let mut bars = Bars::new(title, Unit::Percent);
    for row in result["rows"].as_array()? {
        let workload = row["workload"].as_str()?;
        for (series, key, paper) in [
            (
                "perfect packing",
                "recovered_ratio",
                "paper_recovered_ratio",
            ),
            ("contiguitas-hw, simulated", "hw_recovered_ratio", ""),
        ] {
            let spread = &row[key];
            let bar = Bar {
                value: spread["mean"].as_f64(),
                spread: spread["min"].as_f64().zip(spread["max"].as_f64()),
                paper: row[paper].as_f64(),
            };
            bars.put(workload, series, bar);
        }
    }
    bars.svg()
}

/// Each moment of one migration, both designs, as a self-contained page.
fn steps(title: &str, result: &Value) -> Option<String> {
    let mut page = Page::new(title, MIGRATION_LEGEND);
    for film in result["films"].as_array()? {
        let design = film["design"].as_str()?;
        let mut section = Section::new(design, &format!("The {design} design"));
        for frame in film["frames"].as_array()? {
            let accesses = &frame["accesses"];
            let caption = format!("accesses to the page so far: {accesses}");
            section = section.figure(&migration_frame(&moment(frame)?), &caption);
        }
        page.push(section);
    }
    Some(page.to_html())
}

fn moment(frame: &Value) -> Option<MigrationFrame> {
    let page = &frame["page"];
    let now = page["pte_is_destination"].as_bool()?;
    let side = |destination| match destination {
        true => LinePlace::Destination,
        false => LinePlace::Source,
    };
    let stale = page["stale_tlbs"].as_array()?;
    let devices = ["NIC", "IOTLB"];
    let name = |i: usize| match i + devices.len() < stale.len() {
        true => format!("core {i}"),
        false => devices[i + devices.len() - stale.len()].into(),
    };
    let tlb = |(i, stale): (usize, &Value)| Some((name(i), side(now != stale.as_bool()?)));
    let line = |line: &Value| {
        Some(LineCell {
            place: match line["place"].as_str()? {
                "source" => LinePlace::Source,
                "destination" => LinePlace::Destination,
                _ => LinePlace::OnItsWay,
            },
            cached_as: match (&line["cached_as_source"], &line["cached_as_destination"]) {
                (Value::Bool(true), _) => Some(LinePlace::Source),
                (_, Value::Bool(true)) => Some(LinePlace::Destination),
                _ => None,
            },
        })
    };
    Some(MigrationFrame {
        caption: format!(
            "{} ns: {}",
            frame["time_ns"].as_f64()?.round(),
            frame["caption"].as_str()?
        ),
        tlbs: stale.iter().enumerate().map(tlb).collect::<Option<_>>()?,
        lines: page["lines"]
            .as_array()?
            .iter()
            .map(line)
            .collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bars_stand_in_their_groups_with_the_paper_beside() {
        let result = json!({"schema": "ample.hw-losses/1", "losses": [
            {"service": "nginx", "way": "cacheable", "rate_per_s": 100.0, "loss": 0.0001,
             "loss_ci95": 0.0001, "paper_loss": 0.0},
            {"service": "nginx", "way": "software", "rate_per_s": 100.0, "loss": 0.001,
             "loss_ci95": 0.0001, "paper_loss": null},
        ]});
        let svg = figure("losses", &result).expect("has a figure");
        assert!(
            svg.starts_with("<svg") && svg.contains("nginx 100"),
            "{svg}"
        );
        assert!(svg.contains("cacheable") && svg.contains("software"));
        assert_eq!(figure("none", &json!({"schema": "ample.walks/1"})), None);
    }
}
