// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text format of OpenMetrics.

use std::fmt::Write;

/// A text of families and their samples.
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    text: String,
    /// What the lines of samples begin with.
    name: String,
}

impl Exposition {
    /// Starts a family of gauges.
    pub fn gauge(&mut self, name: &str, help: &str) {
        self.family(name, "gauge", help);
    }

    /// Starts a family of counters.
    pub fn counter(&mut self, name: &str, help: &str) {
        self.family(name, "counter", help);
        self.name.push_str("_total");
    }

    /// The unit is what follows the last underscore, where it is one.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let family = format!("ample_{name}");
        let _ = writeln!(self.text, "# TYPE {family} {kind}");
        let unit = name.rsplit('_').next();
        if let Some(unit) = unit.filter(|unit| ["bytes", "ratio", "seconds"].contains(unit)) {
            let _ = writeln!(self.text, "# UNIT {family} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {family} {help}");
        self.name = family;
    }

    /// One sample; absent values leave no line.
    pub fn sample(&mut self, labels: &[(&'static str, String)], value: Option<f64>) {
        let Some(value) = value else { return };
        let labels = labels.iter();
        let labels: Vec<String> = labels
            .map(|(key, value)| format!("{key}=\"{}\"", escape(value)))
            .collect();
        let braces = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.text, "{}{braces} {value}", self.name);
    }

    /// The text, with its last line.
    pub fn end(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
