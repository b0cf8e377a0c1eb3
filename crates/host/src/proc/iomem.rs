// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which physical addresses are memory: `/proc/iomem`, or what the firmware said at boot.

use crate::{HostError, Root};
use ample_pfn::{BASE_PAGE_BYTES, Pfn, PfnRange};
use std::path::Path;

/// Entries of a firmware's map; real ones have dozens.
const MOST_ENTRIES: usize = 10_000;

/// Memory of a machine, as [`system_ram`] gives it. Where the kernel hides the addresses of
/// `/proc/iomem`, the firmware's map tells (`/sys/firmware/memmap`, `drivers/firmware/memmap.c`):
/// everybody may read it, so that a scan needs no more than the BPF reader does. It must name the
/// `present_pages` of the zones at least: memory that drivers add (virtio-mem) is not in it.
///
/// # Errors
/// As [`system_ram`], where there is no such map either, or it lacks memory.
pub(crate) fn memory(root: &Root, present_pages: u64) -> Result<Vec<PfnRange>, HostError> {
    let hidden = match system_ram(&root.read("proc/iomem")?, &root.path("proc/iomem")) {
        Err(error @ HostError::NoMemory { .. }) => error,
        told => return told,
    };
    let ranges = firmware_ram(root)?;
    if ranges.is_empty() {
        return Err(hidden);
    }
    let named: u64 = ranges.iter().map(|range| range.pages()).sum();
    if named < present_pages {
        return Err(HostError::NoMemory {
            path: root.path("sys/firmware/memmap"),
            what: format!(
                "lacks {} of {present_pages} pages, which were added later; start this process \
                 again, as root or with CAP_SYS_ADMIN",
                present_pages - named
            ),
        });
    }
    Ok(ranges)
}

/// Whole frames of `System RAM` by the firmware's map, ascending; none where there is no map. Frame
/// 0 is left out as the kernel does (`trim_bios_range`, `arch/x86/kernel/e820.c`).
pub(crate) fn firmware_ram(root: &Root) -> Result<Vec<PfnRange>, HostError> {
    let mut ranges = Vec::new();
    for entry in 0..MOST_ENTRIES {
        let file = |name| format!("sys/firmware/memmap/{entry}/{name}");
        let Ok(kind) = root.read(&file("type")) else {
            break;
        };
        let address = |name| {
            let text = root.read(&file(name))?;
            let digits = text.trim().strip_prefix("0x");
            let value = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            value.ok_or_else(|| HostError::parse(&root.path(&file(name)), 1, "expected 0xADDRESS"))
        };
        let (start, last) = (address("start")?, address("end")?);
        if kind.trim() != "System RAM" {
            continue;
        }
        let range = whole_frames(start, last).ok_or_else(|| {
            HostError::parse(&root.path(&file("end")), 1, "ends before it starts")
        })?;
        let range = PfnRange::new(range.start.max(Pfn(1)), range.end);
        if !range.is_empty() {
            ranges.push(range);
        }
    }
    ranges.sort_by_key(|range| range.start);
    Ok(ranges)
}

/// The frames that lie wholly between two addresses, the last one included; `None` if they are the
/// wrong way round or end at the end of all addresses.
fn whole_frames(start: u64, last: u64) -> Option<PfnRange> {
    let end = last.checked_add(1).filter(|&end| end > start)?;
    let first = start.div_ceil(BASE_PAGE_BYTES);
    Some(PfnRange::new(Pfn(first), Pfn(end / BASE_PAGE_BYTES)))
}

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
        let range = whole_frames(start, last).ok_or_else(bad)?;
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

    /// A tree with hidden addresses and a firmware's map of these entries.
    fn hidden_tree(entries: &[[&str; 3]]) -> (tempfile::TempDir, Root) {
        let tree = tempfile::tempdir().unwrap();
        let write = |name: String, text: &str| {
            let path = tree.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        };
        write("proc/iomem".into(), "00000000-00000000 : System RAM");
        for (entry, values) in entries.iter().enumerate() {
            for (name, value) in ["start", "end", "type"].iter().zip(values) {
                write(format!("sys/firmware/memmap/{entry}/{name}"), value);
            }
        }
        let root = Root::offline(tree.path());
        (tree, root)
    }

    #[test]
    fn where_addresses_are_hidden_the_firmware_tells() {
        let (_tree, root) = hidden_tree(&[
            ["0x100000", "0xbfffffff", "System RAM"],
            ["0x0", "0x9fbff", "System RAM"],
            ["0x9fc00", "0xfffff", "Reserved"],
            ["0xc0000000", "0xc0000ffe", "System RAM"],
        ]);
        let expected = [
            PfnRange::new(Pfn(1), Pfn(0x9f)),
            PfnRange::new(Pfn(0x100), Pfn(0xc0000)),
        ];
        let pages = 0xc0000 - 0x100 + 0x9f - 1;
        assert_eq!(memory(&root, pages).unwrap(), expected);
        let error = memory(&root, pages + 512).unwrap_err();
        assert!(error.to_string().contains("lacks 512 of"), "{error}");
        assert!(memory(&hidden_tree(&[]).1, 0).unwrap_err().is_permission());
        for bad in [
            ["9", "0x1fff", "System RAM"],
            ["0x2000", "0x1fff", "System RAM"],
        ] {
            let (_tree, root) = hidden_tree(&[["0x0", "0xfff", "Reserved"], bad]);
            let error = memory(&root, 0).unwrap_err().to_string();
            assert!(error.contains("memmap/1/"), "{error}");
        }
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
