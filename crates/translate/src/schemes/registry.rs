// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of all schemes, and how one is asked for: its name, and its parameters behind colons
//! (`rmm:ranges=64`).

use super::scheme::Scheme;
use super::{colt, paging, perforated, rmm, segment};
use crate::error::ConfigError;
use std::ops::RangeInclusive;

/// A registered scheme.
pub struct SchemeEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub what: &'static str,
    /// The numbers that it takes.
    pub parameters: &'static [SchemeParameter],
    /// Makes one with these.
    pub make: fn(&SchemeValues) -> Box<dyn Scheme>,
}

/// A number that a scheme takes.
pub struct SchemeParameter {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line, with its unit.
    pub what: &'static str,
    /// Its value if none is given.
    pub default: u64,
    /// The values that make sense.
    pub range: RangeInclusive<u64>,
}

/// A value for each parameter of a scheme.
pub struct SchemeValues(Vec<(&'static str, u64)>);

impl SchemeValues {
    /// The value of a parameter.
    ///
    /// # Panics
    /// If the scheme's entry does not list it.
    pub fn get(&self, name: &str) -> u64 {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.expect("a parameter of the entry").1
    }
}

impl SchemeEntry {
    /// The values if nothing is given.
    pub fn defaults(&self) -> SchemeValues {
        SchemeValues(
            self.parameters
                .iter()
                .map(|p| (p.name, p.default))
                .collect(),
        )
    }

    /// Those values with `settings` (`ranges=64:…`) in place of some.
    ///
    /// # Errors
    /// If a setting is none of the scheme's parameters or out of its range.
    fn values(&self, settings: &str) -> Result<SchemeValues, ConfigError> {
        let mut values = self.defaults();
        for setting in settings.split(':').filter(|text| !text.is_empty()) {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            let at = self.parameters.iter().position(|p| p.name == key);
            let value: Option<u64> = value.parse().ok();
            match at.zip(value) {
                Some((at, value)) if self.parameters[at].range.contains(&value) => {
                    values.0[at].1 = value;
                }
                _ => return Err(self.refused(setting)),
            }
        }
        Ok(values)
    }

    fn refused(&self, setting: &str) -> ConfigError {
        let one = |p: &SchemeParameter| {
            let (least, most) = (p.range.start(), p.range.end());
            format!("{} from {least} to {most}", p.name)
        };
        let all: Vec<String> = self.parameters.iter().map(one).collect();
        let takes = match all.is_empty() {
            true => "no parameters".into(),
            false => all.join(", "),
        };
        ConfigError::Invalid(format!(
            "scheme {} takes {takes}; not '{setting}'",
            self.name
        ))
    }
}

/// All schemes. A new one is a file in `schemes/` and an entry here.
pub const REGISTRY: &[SchemeEntry] = &[
    SchemeEntry {
        name: "paging",
        what: "page tables and TLBs as they are",
        parameters: &[],
        make: |_| paging::paging(),
    },
    SchemeEntry {
        name: "segment",
        what: "a direct segment beside the D-TLB",
        parameters: &[],
        make: |_| segment::segment(),
    },
    SchemeEntry {
        name: "perforated",
        what: "2 MB pages with 4 KB holes",
        parameters: &[],
        make: |_| perforated::perforated(),
    },
    SchemeEntry {
        name: "perforated-parallel",
        what: "perforated pages, the bitmap asked together with the page",
        parameters: &[],
        make: |_| perforated::perforated_parallel(),
    },
    SchemeEntry {
        name: "perforated-apart",
        what: "perforated pages, bitmaps in an array of their own",
        parameters: &[],
        make: |_| perforated::perforated_apart(),
    },
    SchemeEntry {
        name: "perforated-keep",
        what: "perforated pages, 4 KB translations kept once a bitmap has confirmed them",
        parameters: &[],
        make: |_| perforated::perforated_keep(),
    },
    SchemeEntry {
        name: "perforated-keep-apart",
        what: "perforated pages, both of these",
        parameters: &[],
        make: |_| perforated::perforated_keep_apart(),
    },
    SchemeEntry {
        name: "colt",
        what: "coalesced L2 TLB entries",
        parameters: &[],
        make: |_| colt::colt(),
    },
    SchemeEntry {
        name: "rmm",
        what: "redundant memory mappings: a range TLB",
        parameters: &[SchemeParameter {
            name: "ranges",
            what: "entries of the range TLB",
            default: rmm::RANGES,
            range: 1..=4096,
        }],
        make: |values| rmm::rmm(values.get("ranges")),
    },
];

/// The name in what asks for a scheme: without its parameters.
pub fn base_name(asked: &str) -> &str {
    asked.split(':').next().unwrap_or(asked)
}

/// Makes the scheme that is asked for: `NAME` or `NAME:PARAMETER=VALUE:…`.
///
/// # Errors
/// If there is none of the name; the message lists those that exist. If it has no such parameter,
/// or the value is out of its range: what it takes.
pub fn by_name(asked: &str) -> Result<Box<dyn Scheme>, ConfigError> {
    let name = base_name(asked);
    let found = REGISTRY.iter().find(|entry| entry.name == name);
    let entry = found.ok_or_else(|| ConfigError::Unknown {
        what: "scheme",
        name: name.to_owned(),
        known: REGISTRY.iter().map(|entry| entry.name).collect(),
    })?;
    Ok((entry.make)(&entry.values(&asked[name.len()..])?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemes::victim;

    #[test]
    fn a_scheme_that_is_moved_here_is_made_as_the_guide_says() {
        let entry = SchemeEntry {
            name: "victim",
            what: "a victim buffer behind the L2 TLB",
            parameters: &[SchemeParameter {
                name: "entries",
                what: "walks whose results it keeps",
                default: 8,
                range: 1..=1024,
            }],
            make: |values| victim::victim(values.get("entries")),
        };
        let made = (entry.make)(&entry.values(":entries=16").expect("in its range"));
        assert_eq!(made.name(), entry.name);
        assert!(entry.values(":entries=0").is_err());
    }

    #[test]
    fn parameters_are_checked() {
        for asked in ["rmm", "rmm:ranges=1", "rmm:ranges=4096", "colt"] {
            assert_eq!(by_name(asked).expect(asked).name(), base_name(asked));
        }
        let refused = |asked| by_name(asked).err().expect(asked).to_string();
        for asked in [
            "rmm:ranges=0",
            "rmm:ranges=4097",
            "rmm:ranges",
            "rmm:ways=4",
            "rmm:ranges=x",
        ] {
            assert!(
                refused(asked).contains("takes ranges from 1 to 4096"),
                "{asked}"
            );
        }
        assert!(refused("colt:ranges=4").contains("takes no parameters"));
        assert!(refused("rm:ranges=4").contains("known: paging"));
    }
}
