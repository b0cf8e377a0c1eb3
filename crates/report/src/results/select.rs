// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selectors, `id[column=text,column=text].column`, and texts that hold figures by selector.

use super::record::ResultRecord;
use super::tree::Results;

/// Marks of a figure in a Markdown text: `<!--= SELECTOR -->39.3<!--/-->`.
const OPEN: &str = "<!--= ";
const OPEN_END: &str = " -->";
const CLOSE: &str = "<!--/-->";

impl Results {
    /// The value of one cell, without its spread and unit.
    ///
    /// # Errors
    /// Says which part of the selector fits nothing, or more than one row.
    pub fn value(&self, selector: &str) -> Result<String, String> {
        let wrong = |what: &str| format!("{selector}: {what}");
        let (head, column) = selector
            .rsplit_once('.')
            .ok_or_else(|| wrong("no column"))?;
        let (id, conditions) = match head.split_once('[') {
            Some((id, rest)) => {
                let rest = rest
                    .strip_suffix(']')
                    .ok_or_else(|| wrong("no closing bracket"))?;
                (id, rest)
            }
            None => (head, ""),
        };
        let record = self.record(id).ok_or_else(|| wrong("no such result"))?;
        let column = record
            .column(column)
            .ok_or_else(|| wrong("no such column"))?;
        let conditions = parse_conditions(record, conditions).map_err(|what| wrong(&what))?;
        let mut rows = record.rows.iter().filter(|row| {
            conditions
                .iter()
                .all(|(at, text)| row[*at].full(record.columns[*at].digits) == *text)
        });
        let row = rows.next().ok_or_else(|| wrong("no such row"))?;
        if rows.next().is_some() {
            return Err(wrong("more than one row"));
        }
        Ok(row[column].brief(record.columns[column].digits))
    }

    /// A sentence in which every `{selector}` is replaced by its value.
    ///
    /// # Errors
    /// The first selector that fits nothing.
    pub fn sentence(&self, template: &str) -> Result<String, String> {
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (selector, after) = after.split_once('}').ok_or("a brace is not closed")?;
            text.push_str(before);
            text.push_str(&self.value(selector)?);
            rest = after;
        }
        text.push_str(rest);
        Ok(text)
    }

    /// A Markdown text with its marked figures brought up to date.
    ///
    /// # Errors
    /// The first selector that fits nothing, or a mark that is not closed.
    pub fn fill(&self, markdown: &str) -> Result<String, String> {
        let mut text = String::new();
        let mut rest = markdown;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let marks = after
                .split_once(OPEN_END)
                .and_then(|(selector, after)| Some((selector, after.split_once(CLOSE)?)));
            let (selector, (_, after)) = marks.ok_or("the mark of a figure is not closed")?;
            let value = self.value(selector)?;
            text.push_str(&format!("{before}{OPEN}{selector}{OPEN_END}{value}{CLOSE}"));
            rest = after;
        }
        text.push_str(rest);
        Ok(text)
    }
}

/// `a=x,b=y` as pairs of column and text. A comma that no column name follows belongs to the text.
fn parse_conditions(record: &ResultRecord, text: &str) -> Result<Vec<(usize, String)>, String> {
    let mut conditions: Vec<(usize, String)> = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let named = part.split_once('=');
        let named = named.and_then(|(key, value)| Some((record.column(key)?, value)));
        match (named, conditions.last_mut()) {
            (Some((column, value)), _) => conditions.push((column, value.to_string())),
            (None, Some((_, value))) => value.push_str(&format!(",{part}")),
            (None, None) => return Err(format!("no such column in {part:?}")),
        }
    }
    Ok(conditions)
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::example;
    use super::*;

    fn results() -> Results {
        let mut record = example();
        record.rows.push(record.rows[0].clone());
        record.rows[2][0] = super::super::cell::Cell::Text("c, with a comma".into());
        Results::for_test(vec![record])
    }

    #[test]
    fn a_selector_names_one_cell() {
        let results = results();
        assert_eq!(results.value("x[who=a].share"), Ok("1.0".into()));
        assert_eq!(
            results.value("x[who=c, with a comma].share"),
            Ok("1.0".into())
        );
        for wrong in [
            "x",
            "y.share",
            "x.share",
            "x[who=z].share",
            "x[who=a].gone",
            "x[who=a.share",
        ] {
            assert!(results.value(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn marked_figures_follow_the_data() {
        let old = "is <!--= x[who=b].share -->12<!--/--> % today";
        let new = "is <!--= x[who=b].share -->40.0<!--/--> % today";
        assert_eq!(results().fill(old).as_deref(), Ok(new));
        assert_eq!(results().fill(new).as_deref(), Ok(new));
        assert!(results().fill("<!--= x[who=b].share -->12").is_err());
    }
}
