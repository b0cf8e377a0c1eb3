// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text format of OpenMetrics, and Prometheus's older one.

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

    /// The same in Prometheus's text format 0.0.4, which collectors of text files read: there the
    /// family of a counter is named as its samples are, else they have neither type nor help.
    pub fn plain(&self) -> String {
        let mut plain = String::with_capacity(self.text.len());
        let mut counter = None;
        for line in self.text.lines() {
            let mut words = line.splitn(4, ' ');
            match (words.next(), words.next(), words.next(), words.next()) {
                (Some("#"), Some("UNIT"), ..) => continue,
                (Some("#"), Some(what), Some(family), Some(rest)) => {
                    if what == "TYPE" {
                        counter = (rest == "counter").then_some(family);
                    }
                    let total = match counter == Some(family) {
                        true => "_total",
                        false => "",
                    };
                    let _ = writeln!(plain, "# {what} {family}{total} {rest}");
                }
                _ => {
                    let _ = writeln!(plain, "{line}");
                }
            }
        }
        plain
    }
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_names_a_counter_as_its_samples() {
        let mut out = Exposition::default();
        out.gauge("free_bytes", "Free memory.");
        out.sample(&[("node", "0 1".into())], Some(7.0));
        out.counter("cpu_seconds", "Time of a processor.");
        out.sample(&[], Some(1.5));
        let plain = "# TYPE ample_free_bytes gauge\n# HELP ample_free_bytes Free memory.\n\
            ample_free_bytes{node=\"0 1\"} 7\n# TYPE ample_cpu_seconds_total counter\n\
            # HELP ample_cpu_seconds_total Time of a processor.\nample_cpu_seconds_total 1.5\n";
        assert_eq!(out.plain(), plain);
        let text = out.end();
        assert!(
            text.contains("# TYPE ample_cpu_seconds counter\n# UNIT ample_cpu_seconds seconds")
        );
        assert!(text.ends_with("\nample_cpu_seconds_total 1.5\n# EOF\n"));
    }
}
