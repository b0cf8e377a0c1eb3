// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--fail-if EXPR`: a threshold that turns into exit code 1.

use super::rows::rows;
use super::view::View;
use ample_pfn::{Definition, format_bytes, parse_bytes};
use std::str::FromStr;

/// `METRIC[.DEFINITION][@SIZE] OP NUMBER`.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    metric: &'static str,
    definition: Definition,
    size_bytes: u64,
    operator: Operator,
    limit: f64,
}

/// Metrics of the long table: whether they are by definition, and by block size.
const METRICS: [(&str, bool, bool); 6] = [
    ("unmovable_ratio", true, true),
    ("unmovable_page_ratio", true, false),
    ("potential_ratio", true, true),
    ("free_contiguity_ratio", false, true),
    ("free_blocks", false, true),
    ("internal_fragmentation_ratio", true, false),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Two-character operators first: `>` would match them too.
const OPERATORS: [(&str, Operator); 4] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    (">", Operator::Above),
    ("<", Operator::Below),
];

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let (sign, operator) = OPERATORS
            .into_iter()
            .find(|(sign, _)| text.contains(sign))
            .ok_or("no >, >=, < or <= in it; for example unmovable_ratio@2M>0.3")?;
        let (left, right) = text.split_once(sign).expect("found above");
        let limit: f64 = right
            .trim()
            .parse()
            .map_err(|_| format!("{right:?} is no number"))?;
        if !limit.is_finite() {
            return Err(format!("{right:?} is no finite number"));
        }
        let (name, size) = match left.split_once('@') {
            Some((name, size)) => (name, parse_bytes(size).map_err(|error| error.to_string())?),
            None => (left, 2 << 20),
        };
        let (name, letter) = name.trim().split_once('.').unwrap_or((name.trim(), "K"));
        let definition = Definition::from_name(letter)
            .ok_or_else(|| format!("{letter:?} is no definition; use K, P or O"))?;
        let known = METRICS.map(|row| row.0);
        let metric = (known.into_iter().find(|metric| *metric == name))
            .ok_or_else(|| format!("unknown metric {name:?}; there are {}", known.join(", ")))?;
        Ok(Threshold {
            metric,
            definition,
            size_bytes: size,
            operator,
            limit,
        })
    }
}

impl Threshold {
    /// Whether the scan crosses the threshold, with a sentence that says why. Of an interval the
    /// end that crosses sooner counts: a threshold that may be crossed is.
    ///
    /// # Errors
    /// When the scan has no such value.
    pub fn check(&self, view: &View) -> Result<Option<String>, String> {
        let (low, high) = self.value(view).ok_or_else(|| self.absent())?;
        let (crossed, value) = match self.operator {
            Operator::Above => (high > self.limit, high),
            Operator::AtLeast => (high >= self.limit, high),
            Operator::Below => (low < self.limit, low),
            Operator::AtMost => (low <= self.limit, low),
        };
        Ok(crossed.then(|| format!("{} is {value:.4}, limit {}", self.name(), self.limit)))
    }

    fn name(&self) -> String {
        let found = METRICS.into_iter().find(|row| row.0 == self.metric);
        let (name, by_definition, by_size) = found.expect("taken from the list");
        let definition = match by_definition {
            true => format!(".{}", self.definition.name()),
            false => String::new(),
        };
        match by_size {
            true => format!("{name}{definition}@{}", format_bytes(self.size_bytes)),
            false => name.to_string() + &definition,
        }
    }

    fn absent(&self) -> String {
        format!(
            "--fail-if: this scan has no {} (see --sizes and the notes)",
            self.name()
        )
    }

    fn value(&self, view: &View) -> Option<(f64, f64)> {
        let row = rows(view).into_iter().find(|row| {
            row.of_machine()
                && row.metric == self.metric
                && row.definition.is_none_or(|own| own == self.definition)
                && row.size_bytes.is_none_or(|own| own == self.size_bytes)
        })?;
        Some((row.low?, row.high?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_host::ZoneCounters;
    use ample_pfn::SizeList;

    #[test]
    fn expressions_parse_or_say_what_is_wrong() {
        let threshold: Threshold = "unmovable_ratio@2M>0.3".parse().unwrap();
        assert_eq!(threshold.name(), "unmovable_ratio.K@2M");
        let threshold: Threshold = " potential_ratio.P@1G <= 0.5".parse().unwrap();
        assert_eq!(threshold.operator, Operator::AtMost);
        assert_eq!(threshold.name(), "potential_ratio.P@1G");
        let error = |text: &str| text.parse::<Threshold>().unwrap_err();
        assert!(error("unmovable_ratio=1").contains("unmovable_ratio@2M>0.3"));
        assert!(error("foo>1").contains("there are unmovable_ratio"));
        assert!(error("unmovable_ratio.X>1").contains("K, P or O"));
        assert!(error("unmovable_ratio>x").contains("no number"));
        assert!(error("unmovable_ratio@2X>1").contains("2X"));
        assert!(error("unmovable_ratio>NaN").contains("finite"));
    }

    #[test]
    fn thresholds_cross_or_are_absent() {
        let zone = ZoneCounters {
            free_blocks: vec![512, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            ..Default::default()
        };
        let view = View::of_free_lists(vec![zone], "6.12".into(), &SizeList::standard());
        let check = |text: &str| text.parse::<Threshold>().unwrap().check(&view);
        assert_eq!(check("free_contiguity_ratio@2M<0.5"), Ok(None));
        assert!(
            check("free_contiguity_ratio@2M<=0.5")
                .unwrap()
                .unwrap()
                .contains("0.5")
        );
        assert!(
            check("unmovable_ratio>0.5")
                .unwrap_err()
                .contains("no unmovable_ratio.K@2M")
        );
        assert!(check("free_blocks@1G<1").is_err());
    }
}
