// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which processor this is and what caches it says it has: enough to choose a model of it.

use crate::{HostError, Root};
use ample_pfn::parse_bytes;
use serde::{Deserialize, Serialize};

/// The first processor of a machine, as `/proc/cpuinfo` and sysfs describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processor {
    /// CPUID vendor string (`GenuineIntel`, `AuthenticAMD`).
    pub vendor: String,
    /// CPUID family, extended part included.
    pub family: u32,
    /// CPUID model, extended part included.
    pub model: u32,
    /// Marketing name.
    pub name: String,
    /// Whether it runs under a hypervisor, so that translation is two-dimensional.
    pub virtualised: bool,
    /// Data and unified caches from the first level up; empty if sysfs does not list them.
    pub caches: Vec<CacheShape>,
}

/// One cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheShape {
    /// Level, from 1.
    pub level: u32,
    /// Capacity in bytes.
    pub bytes: u64,
    /// Lines in a set.
    pub ways: u32,
}

impl Processor {
    /// Reads `proc/cpuinfo` and `sys/devices/system/cpu/cpu0/cache` below `root`.
    ///
    /// # Errors
    /// If cpuinfo cannot be read. Fields it does not have stay empty or 0.
    pub fn read(root: &Root) -> Result<Processor, HostError> {
        let mut processor = Processor::parse(&root.read("proc/cpuinfo")?);
        for index in 0..16 {
            let field = |name: &str| {
                let path = format!("sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
                root.read(&path).ok().map(|text| text.trim().to_owned())
            };
            let Some(kind) = field("type") else { break };
            let shape = || {
                Some(CacheShape {
                    level: field("level")?.parse().ok()?,
                    bytes: parse_bytes(&field("size")?).ok()?,
                    ways: field("ways_of_associativity")?.parse().ok()?,
                })
            };
            if kind != "Instruction" {
                processor.caches.extend(shape());
            }
        }
        Ok(processor)
    }

    /// The first processor in the text of cpuinfo.
    fn parse(text: &str) -> Processor {
        let first = text.split("\n\n").next().unwrap_or("");
        let mut processor = Processor::default();
        for (key, value) in first.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match key.trim() {
                "vendor_id" => processor.vendor = value.to_owned(),
                "cpu family" => processor.family = value.parse().unwrap_or(0),
                "model" => processor.model = value.parse().unwrap_or(0),
                "model name" => processor.name = value.to_owned(),
                "flags" => {
                    processor.virtualised = value.split(' ').any(|flag| flag == "hypervisor");
                }
                _ => {}
            }
        }
        processor
    }

    /// Bytes of the cache of a level; None if it is not known.
    pub fn cache_bytes(&self, level: u32) -> Option<u64> {
        let cache = self.caches.iter().find(|cache| cache.level == level);
        cache.map(|cache| cache.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_saved_tree() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let one = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n\
                   model name\t: A Processor\nflags\t\t: fpu hypervisor lm\n";
        write(
            "proc/cpuinfo",
            &format!("{one}\nprocessor\t: 1\nmodel\t\t: 9\n"),
        );
        for (index, kind, level, size, ways) in [
            (0, "Data", 1, "48K", 12),
            (1, "Instruction", 1, "32K", 8),
            (2, "Unified", 2, "2048K", 16),
            (3, "Unified", 3, "266240K", 20),
        ] {
            let base = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
            write(&format!("{base}/type"), kind);
            write(&format!("{base}/level"), &format!("{level}\n"));
            write(&format!("{base}/size"), size);
            write(
                &format!("{base}/ways_of_associativity"),
                &format!("{ways}\n"),
            );
        }
        let processor = Processor::read(&Root::offline(dir.path())).unwrap();
        assert_eq!((processor.family, processor.model), (6, 207));
        assert!(processor.virtualised);
        assert_eq!(processor.caches.len(), 3);
        assert_eq!(processor.cache_bytes(3), Some(260 << 20));
        assert_eq!(processor.cache_bytes(4), None);
    }

    #[test]
    fn text_without_the_fields_gives_an_empty_description() {
        assert_eq!(
            Processor::parse("processor : 0\nBogoMIPS : 50"),
            Processor::default()
        );
    }
}
