// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/proc/buddyinfo`, `/proc/meminfo`, `/proc/vmstat`: plain tables.

use crate::HostError;
use std::collections::BTreeMap;
use std::path::Path;

/// One line of `/proc/buddyinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeBlocks {
    /// NUMA node.
    pub node: u32,
    /// Zone name.
    pub zone: String,
    /// Free blocks of order 0, 1, ….
    pub blocks: Vec<u64>,
}

/// Parses `/proc/buddyinfo`.
///
/// # Errors
/// [`HostError::Parse`] with the line.
pub fn buddyinfo(text: &str, path: &Path) -> Result<Vec<FreeBlocks>, HostError> {
    let mut rows = Vec::new();
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let bad = || HostError::parse(path, index + 1, "expected Node N, zone NAME COUNTS…");
        let (node, rest) = line
            .strip_prefix("Node ")
            .and_then(|rest| rest.split_once(", zone"))
            .ok_or_else(bad)?;
        let mut words = rest.split_whitespace();
        let zone = words.next().ok_or_else(bad)?.to_string();
        let blocks: Result<Vec<u64>, _> = words.map(str::parse).collect();
        rows.push(FreeBlocks {
            node: node.trim().parse().map_err(|_| bad())?,
            zone,
            blocks: blocks.map_err(|_| bad())?,
        });
    }
    Ok(rows)
}

/// Parses `key value` and `Key: value kB` lines; kB become bytes and the key gets `_bytes`.
/// Lines of any other shape are skipped.
pub fn key_values(text: &str) -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(key), Some(Ok(value))) = (words.next(), words.next().map(str::parse::<u64>))
        else {
            continue;
        };
        let key = key.trim_end_matches(':');
        match words.next() {
            Some("kB") => values.insert(format!("{key}_bytes"), value.saturating_mul(1024)),
            _ => values.insert(key.to_string(), value),
        };
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_lists_are_read_by_order() {
        let text = "Node 0, zone      DMA      0      1      3\nNode 1, zone   Normal 7 8 9 \n";
        let rows = buddyinfo(text, Path::new("b")).unwrap();
        assert_eq!(rows[0].blocks, [0, 1, 3]);
        assert_eq!((rows[1].node, rows[1].zone.as_str()), (1, "Normal"));
        let error = buddyinfo("Node 0, zone DMA 1 x\n", Path::new("b")).unwrap_err();
        assert!(error.to_string().starts_with("b:1:"), "{error}");
    }

    #[test]
    fn kilobytes_become_bytes() {
        let values = key_values("MemTotal:  24684084 kB\nHugePages_Total:  3\npgfault 12\njunk\n");
        assert_eq!(values["MemTotal_bytes"], 24_684_084 * 1024);
        assert_eq!(values["HugePages_Total"], 3);
        assert_eq!(values["pgfault"], 12);
        assert_eq!(values.len(), 3);
    }
}
