// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/proc/iomem`: which physical addresses are memory.

use crate::HostError;
use ample_pfn::{BASE_PAGE_BYTES, Pfn, PfnRange};
use std::path::Path;

/// Whole frames of `System RAM`, ascending. A frame that is only partly memory is left out, as
/// the kernel leaves it out.
///
/// Without `CAP_SYS_ADMIN` the kernel prints every address as 0; that reads as no memory.
///
/// # Errors
/// [`HostError::Parse`] with the line; [`HostError::NoMemory`] when no line describes memory.
pub fn system_ram(text: &str, path: &Path) -> Result<Vec<PfnRange>, HostError> {
    let mut ranges = Vec::new();
    let mut hidden = false;
    for (index, line) in text.lines().enumerate() {
        // Nested lines are indented; they lie inside a range of the first level.
        if line.starts_with(' ') || line.trim().is_empty() {
            continue;
        }
        let bad = || HostError::parse(path, index + 1, "expected START-END : NAME");
        let (span, name) = line.split_once(" : ").ok_or_else(bad)?;
        let (start, end) = span.split_once('-').ok_or_else(bad)?;
        let hex = |text: &str| u64::from_str_radix(text.trim(), 16).map_err(|_| bad());
        let (start, last) = (hex(start)?, hex(end)?);
        if !name.starts_with("System RAM") {
            continue;
        }
        if (start, last) == (0, 0) {
            hidden = true;
            continue;
        }
        let end = last
            .checked_add(1)
            .filter(|&end| end > start)
            .ok_or_else(bad)?;
        let first_frame = start.div_ceil(BASE_PAGE_BYTES);
        let range = PfnRange::new(Pfn(first_frame), Pfn(end / BASE_PAGE_BYTES));
        if !range.is_empty() {
            ranges.push(range);
        }
    }
    ranges.sort_by_key(|range| range.start);
    if ranges.is_empty() {
        let what = if hidden {
            "the kernel hides physical addresses from this user; run as root (CAP_SYS_ADMIN)"
        } else {
            "no line says System RAM, so nothing tells memory from holes"
        };
        return Err(HostError::NoMemory {
            path: path.to_path_buf(),
            what: what.into(),
        });
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<PfnRange>, HostError> {
        system_ram(text, Path::new("proc/iomem"))
    }

    #[test]
    fn partial_frames_and_nested_lines_are_left_out() {
        let text = "00000000-00000fff : Reserved\n00001000-0009fbff : System RAM\n\
                    00100000-bfffffff : System RAM\n  01000000-0220bb07 : Kernel code\n";
        let ranges = parse(text).unwrap();
        assert_eq!(ranges[0], PfnRange::new(Pfn(1), Pfn(0x9f)));
        assert_eq!(ranges[1], PfnRange::new(Pfn(0x100), Pfn(0xc0000)));
    }

    #[test]
    fn hidden_addresses_ask_for_root() {
        let error = parse("00000000-00000000 : System RAM\n").unwrap_err();
        assert!(error.is_permission());
        assert!(error.to_string().contains("root"), "{error}");
    }

    #[test]
    fn broken_lines_are_named() {
        let error = parse("00001000-00001fff : System RAM\nzzz : System RAM\n").unwrap_err();
        assert!(error.to_string().contains("proc/iomem:2:"), "{error}");
        let error = parse("2000-1000 : System RAM\n").unwrap_err();
        assert!(error.to_string().contains(":1:"), "{error}");
        let error = parse("0-ffffffffffffffff : System RAM\n").unwrap_err();
        assert!(error.to_string().contains(":1:"), "{error}");
    }
}
