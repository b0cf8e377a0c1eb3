// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dates of the Gregorian calendar, in universal time.

const DAY: i64 = 86_400;

/// Days since 1 January 1970 of a date, by counting the days of 400-year cycles that begin in
/// March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (cycle, year) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    cycle * 146_097 + year * 365 + year / 4 - year / 100 + day_of_year - 719_468
}

/// The date of a day since 1 January 1970: `2026-11-23`.
pub fn date(day: i64) -> String {
    let mut year = 1970 + day.div_euclid(366);
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    let month = (1..=12).rev().find(|&month| days(year, month, 1) <= day);
    let month = month.unwrap_or(1);
    format!("{year:04}-{month:02}-{:02}", day - days(year, month, 1) + 1)
}

/// A date as the second at which it begins.
///
/// # Errors
/// When the text is no date.
pub fn parse_date(text: &str) -> Result<i64, String> {
    let wrong = || "a date such as 2026-11-23".to_string();
    let parts: Vec<i64> = (text.split('-'))
        .map(|part| part.parse().map_err(|_| wrong()))
        .collect::<Result<_, _>>()?;
    let &[year @ 1970..=9999, month @ 1..=12, day @ 1..=31] = parts.as_slice() else {
        return Err(wrong());
    };
    let at = days(year, month, day);
    match date(at) == text {
        true => Ok(at * DAY),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_agree_over_four_centuries() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(20_780), "2026-11-23");
        let mut before = String::new();
        for day in 0..146_097 {
            let text = date(day);
            assert_eq!(parse_date(&text), Ok(day * DAY));
            assert!(text > before, "{text} after {before}");
            before = text;
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "2026-02-30",
            "2026-13-01",
            "23.11.2026",
            "2026-1-1",
            "",
            "1969-12-31",
        ] {
            assert!(parse_date(text).is_err(), "{text}");
        }
    }
}
