// SPDX-License-Identifier: MIT OR Apache-2.0
//! The questions: SQL files that run unchanged on every engine, in the order of their names. Each
//! result is a table with the file's name (without number) that later files may use; a file named
//! `.view.sql` is a view instead, which is not kept.

/// One SQL file.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Name of the resulting table.
    pub name: &'static str,
    /// The text of the file.
    pub sql: &'static str,
    /// Whether it is a view.
    pub view: bool,
}

/// A table.
macro_rules! table {
    ($number:literal, $name:literal) => {
        Query {
            name: $name,
            sql: include_str!(concat!("../queries/", $number, "_", $name, ".sql")),
            view: false,
        }
    };
}

/// A view.
macro_rules! view {
    ($number:literal, $name:literal) => {
        Query {
            name: $name,
            sql: include_str!(concat!("../queries/", $number, "_", $name, ".view.sql")),
            view: true,
        }
    };
}

/// All of them, in order.
pub const QUERIES: [Query; 28] = [
    view!("10", "checked"),
    table!("20", "problems"),
    view!("30", "good"),
    table!("35", "each_scan"),
    table!("40", "machines"),
    table!("41", "scans_in_all"),
    table!("42", "memory"),
    table!("43", "boots"),
    table!("44", "silent"),
    table!("45", "sizes"),
    table!("46", "misfits"),
    table!("48", "several"),
    table!("50", "blocks"),
    table!("52", "host_sources"),
    view!("55", "ends"),
    table!("60", "free_contiguity"),
    table!("61", "unmovable"),
    table!("62", "potential"),
    table!("63", "sources"),
    table!("64", "uptime"),
    table!("65", "groups"),
    table!("66", "internal_free"),
    table!("67", "source_shares"),
    table!("70", "worst"),
    table!("71", "worst_sources"),
    table!("80", "days"),
    table!("81", "drift"),
    table!("82", "day_hosts"),
];

/// What the questions depend on: the one row of the table `parameters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Scans of more than a day after this time, in seconds since 1970, are in the future.
    pub now_seconds: i64,
    /// Hosts with less free memory do not count for free contiguity.
    pub min_free_bytes: i64,
    /// How many of the worst hosts are named.
    pub worst_hosts: i64,
    /// Drift begins here, in seconds since 1970.
    pub from_seconds: i64,
    /// Drift ends here.
    pub to_seconds: i64,
}

impl Parameters {
    /// Names and values of the columns.
    pub fn columns(&self) -> [(&'static str, i64); 5] {
        [
            ("now_seconds", self.now_seconds),
            ("min_free_bytes", self.min_free_bytes),
            ("worst_hosts", self.worst_hosts),
            ("from_seconds", self.from_seconds),
            ("to_seconds", self.to_seconds),
        ]
    }
}
