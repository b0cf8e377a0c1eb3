// SPDX-License-Identifier: MIT OR Apache-2.0
//! Translation hardware of machines that exist or are described in a paper: the table `mmu` of
//! the files in `experiments/machines/`. Their comments give the sources, and say which values no
//! vendor publishes and are a choice.

use crate::config::MmuConfig;
use crate::error::ConfigError;
use serde::Deserialize;

macro_rules! machine {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../experiments/machines/", $name, ".toml")),
        )
    };
}

/// Names and files of the machines.
pub const PRESETS: &[(&str, &str)] = &[
    machine!("directseg-sandybridge"),
    machine!("perforated-skylake"),
    machine!("contiguitas-table1"),
    machine!("skylake"),
    machine!("sapphire-rapids"),
    machine!("champsim-default"),
    machine!("zen4"),
];

/// The file of a machine; other tables than `mmu` describe its cores and memory.
///
/// # Errors
/// If there is none of that name; the message lists those that exist.
pub fn file(name: &str) -> Result<&'static str, ConfigError> {
    let found = PRESETS.iter().find(|(known, _)| *known == name);
    found
        .map(|&(_, text)| text)
        .ok_or_else(|| ConfigError::Unknown {
            what: "preset",
            name: name.to_owned(),
            known: PRESETS.iter().map(|(known, _)| *known).collect(),
        })
}

/// The translation hardware of a machine.
///
/// # Errors
/// As [`file()`].
pub fn by_name(name: &str) -> Result<MmuConfig, ConfigError> {
    /// The part of a file that is read here.
    #[derive(Deserialize)]
    struct MachineFile {
        mmu: MmuConfig,
    }
    let parsed: MachineFile = toml::from_str(file(name)?)
        .map_err(|e| ConfigError::Invalid(format!("machine {name}: {e}")))?;
    Ok(parsed.mmu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_describes_hardware_that_can_be_built() {
        for (name, _) in PRESETS {
            by_name(name).unwrap().check().unwrap();
        }
    }

    #[test]
    fn an_unknown_name_lists_those_that_exist() {
        let error = by_name("zen5").unwrap_err().to_string();
        assert!(error.contains("zen5") && error.contains("zen4"), "{error}");
    }
}
