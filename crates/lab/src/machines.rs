// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines by name or file: the presets, and those that a user describes.
//!
//! Wherever a machine is named, the name of a preset or the path of a TOML file of the same form
//! will do. What cannot be built is refused with file, line, field and what would be valid.
//! An experiment names its machine by a [`MachineChoice`].

use crate::files;
use ample_kit::names::meant;
use ample_machine::MachineConfig;
use ample_translate::presets::{self, PRESETS};
use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Most bytes of the file of a machine.
const MOST_BYTES: u64 = 1 << 20;

/// The name that stands for the preset of the processor that a run is on, where an experiment knows
/// one.
pub(crate) const AUTO: &str = "auto";

/// The parts of a machine: keys that begin with them are fields of it.
const PARTS: [&str; 3] = ["core", "memory", "mmu"];

/// A machine as the parameters of an experiment name it: a preset or a file, and fields of it that
/// are changed. In a file it is the name alone where nothing is changed, else a table. As text it
/// is the name, followed by the changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenChoice", into = "WrittenChoice")]
pub struct MachineChoice {
    /// Name of a preset, or path of a file.
    pub from: String,
    /// Values of its fields, by dotted key as in [`changed`].
    pub set: BTreeMap<String, toml::Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a machine is a name, or a table of `from` and `set`"
)]
enum WrittenChoice {
    Name(String),
    Changed(ChangedChoice),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangedChoice {
    from: String,
    set: BTreeMap<String, toml::Value>,
}

impl From<WrittenChoice> for MachineChoice {
    fn from(written: WrittenChoice) -> Self {
        let (from, set) = match written {
            WrittenChoice::Name(name) => (name, BTreeMap::new()),
            WrittenChoice::Changed(changed) => (changed.from, changed.set),
        };
        MachineChoice { from, set }
    }
}

impl From<MachineChoice> for WrittenChoice {
    fn from(choice: MachineChoice) -> Self {
        let MachineChoice { from, set } = choice;
        match set.is_empty() {
            true => WrittenChoice::Name(from),
            false => WrittenChoice::Changed(ChangedChoice { from, set }),
        }
    }
}

impl From<&str> for MachineChoice {
    fn from(name: &str) -> Self {
        WrittenChoice::Name(name.to_owned()).into()
    }
}

impl fmt::Display for MachineChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.from)?;
        let mut fields = self.set.iter();
        fields.try_for_each(|(key, value)| write!(out, ", {key}={value}"))
    }
}

impl MachineChoice {
    /// The machine.
    ///
    /// # Errors
    /// As [`changed`].
    pub fn read(&self) -> Result<MachineConfig> {
        let set: Vec<_> = self.set.clone().into_iter().collect();
        changed(&self.from, &set)
    }
}

/// Settings of an experiment of which some may be fields of its machine: those are put together
/// into one setting of the parameter `machine`. A key is a field of the machine if it begins with
/// `machine.`, or with `core`, `memory` or `mmu` where no parameter has this name.
///
/// # Errors
/// If the experiment has no machine, or the machine cannot be built.
pub fn settings_of(
    experiment: &str,
    parameters: &impl Serialize,
    set: &[(String, toml::Value)],
) -> Result<Vec<(String, toml::Value)>> {
    let table = toml::Table::try_from(parameters).context("writing the parameters as TOML")?;
    let field = |key: &str| {
        let first = key.split('.').next().unwrap_or_default();
        let own = PARTS.contains(&first) && !table.contains_key(first);
        let plain = own.then(|| key.to_owned());
        key.strip_prefix("machine.").map(str::to_owned).or(plain)
    };
    let machine = |key: &str| key == "machine" || field(key).is_some();
    if !set.iter().any(|(key, _)| machine(key)) {
        return Ok(set.to_vec());
    }
    let Some(named) = table.get("machine") else {
        let all = set.iter().filter(|(key, _)| machine(key));
        let keys: Vec<_> = all.map(|(key, _)| key.as_str()).collect();
        bail!(
            "{} cannot be set: {experiment} has no machine; its parameters are {}",
            keys.join(", "),
            table.keys().cloned().collect::<Vec<_>>().join(", ")
        );
    };
    let mut choice: MachineChoice = named.clone().try_into()?;
    let mut others = Vec::new();
    for (key, value) in set {
        match field(key) {
            Some(key) => {
                choice.set.insert(key, value.clone());
            }
            None if key == "machine" => {
                let other: MachineChoice = value.clone().try_into()?;
                choice.from = other.from;
                choice.set.extend(other.set);
            }
            None => others.push((key.clone(), value.clone())),
        }
    }
    // Which machine `auto` stands for is known later.
    if choice.from != AUTO {
        choice.read()?;
    }
    others.push(("machine".into(), toml::Value::try_from(choice)?));
    Ok(others)
}

/// The machine of a preset's name or of a file.
///
/// # Errors
/// If there is neither, or the file describes no machine that can be built.
pub fn named(name: &str) -> Result<MachineConfig> {
    changed(name, &[])
}

/// A machine with some fields changed by dotted key, as `KEY=VALUE` on a command line: places in
/// lists are numbers from 0 (`mmu.l2.0.geometry.ways`).
///
/// # Errors
/// As [`named`]; also if there is no such field or no machine can have the value.
pub fn changed(name: &str, set: &[(String, toml::Value)]) -> Result<MachineConfig> {
    let text = text(name)?;
    let machine = read(name, &text)?;
    let machine = files::changed(machine, set).map_err(|error| located(&error))?;
    if let Err(bad) = machine.check() {
        let was_set = |(key, _): &&(String, toml::Value)| {
            bad.field == *key || bad.field.starts_with(&format!("{key}."))
        };
        match set.iter().rev().find(was_set) {
            Some((key, value)) => bail!("setting {key}={value}: {bad}"),
            None => bail!("{name}: line {}: {bad}", line_of(&text, &bad.field)),
        }
    }
    Ok(machine)
}

/// The TOML text of a machine: of a preset, or of the file of this path.
///
/// # Errors
/// If there is no such preset, with the nearest name, and no such file; if the file is too long.
pub fn text(name: &str) -> Result<String> {
    if let Ok(text) = presets::file(name) {
        return Ok(text.to_owned());
    }
    let path = Path::new(name);
    let file_like = name.contains('/') || name.ends_with(".toml");
    if !file_like && !path.exists() {
        let names = || PRESETS.iter().map(|(known, _)| *known);
        let known: Vec<_> = names().collect();
        bail!(
            "there is no preset named '{name}'; known: {}; or give a TOML file{}",
            known.join(", "),
            meant(name, names())
        );
    }
    ample_kit::files::read_text(path, MOST_BYTES)
        .with_context(|| format!("cannot read the machine {name}"))
}

/// Reads the description of a machine; values are not checked yet.
fn read(file: &str, text: &str) -> Result<MachineConfig> {
    toml::from_str(text).map_err(|error| {
        let told = error.to_string();
        anyhow!(
            "{file}: {}{}",
            told.trim_end(),
            meant_field(error.message())
        )
    })
}

/// Of "unknown field `x`, expected one of `y`, `z`": the expected name that is nearest.
fn meant_field(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let Some(typed) = names.next().filter(|_| message.starts_with("unknown ")) else {
        return String::new();
    };
    meant(typed, names)
}

/// The error of a setting in one line, with the name that may have been meant if it names none.
fn located(error: &anyhow::Error) -> anyhow::Error {
    let told = format!("{error:#}").trim_end().replace('\n', " ");
    if told.contains("did you mean") {
        return anyhow!("{told}");
    }
    let cause = error.root_cause().to_string();
    anyhow!("{told}{}", meant_field(cause.trim()))
}

/// The line, from 1, of a field of a file: that of the deepest part of its path that is there.
fn line_of(text: &str, field: &str) -> usize {
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    let Ok(root) = DeTable::parse(text) else {
        return 1;
    };
    let mut at = root.span().start;
    let mut parts = field.split('.');
    let first = parts.next().unwrap_or_default();
    let mut value = match root.get_ref().get(first) {
        Some(value) => value,
        None => return line(at),
    };
    at = value.span().start;
    for part in parts {
        let inner = match value.get_ref() {
            DeValue::Table(table) => table.get(part),
            DeValue::Array(list) => part.parse::<usize>().ok().and_then(|at| list.get(at)),
            _ => None,
        };
        let Some(inner) = inner else { break };
        value = inner;
        at = value.span().start;
    }
    line(at)
}

/// What `ample trace machines` lists: the names of the presets, each with what its file says
/// first.
pub fn list() -> Vec<(&'static str, String)> {
    let about = |text: &str| {
        let lines = text.lines().skip_while(|line| line.starts_with("# SPDX"));
        let lines = lines.take_while(|line| line.starts_with('#'));
        let words = lines.map(|line| line.trim_start_matches('#').trim());
        let all = words.collect::<Vec<_>>().join(" ");
        all.split_inclusive(". ")
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    PRESETS
        .iter()
        .map(|(name, text)| (*name, about(text)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ample_translate::{PageSize, PwcKind, Replacement};

    fn with(change: &str, to: &str) -> String {
        let text = presets::file("skylake").expect("a preset");
        assert!(text.contains(change), "{change}");
        text.replacen(change, to, 1)
    }

    fn refused(text: &str) -> String {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("my.toml");
        std::fs::write(&path, text).expect("written");
        let told = format!("{:#}", named(path.to_str().expect("text")).unwrap_err());
        assert!(told.contains("my.toml"), "{told}");
        told
    }

    #[test]
    fn a_file_is_a_machine_and_settings_change_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("my.toml");
        std::fs::write(&path, text("zen4").expect("a preset")).expect("written");
        let name = path.to_str().expect("text");
        assert_eq!(named(name).expect("read"), named("zen4").expect("a preset"));
        let set = [
            "mmu.l2.0.geometry.ways=16",
            "memory.mshrs=9",
            "mmu.pwc=absent",
            "memory.dram.limits={}",
            "mmu.l2.0.pieces.1g=2m",
            "mmu.l2.0.geometry.replacement=srrip",
            "mmu.host_pwc=absent",
            "mmu.host_pwc_cycles=3",
        ];
        let set: Vec<_> = set
            .iter()
            .map(|s| files::setting(s).expect("set"))
            .collect();
        let machine = changed(name, &set).expect("changed");
        assert_eq!(machine.mmu.l2[0].geometry.ways, 16);
        assert_eq!(machine.memory.mshrs, 9);
        assert_eq!(machine.mmu.pwc, PwcKind::Absent);
        assert_eq!(machine.memory.dram.limits, Some(Default::default()));
        let l2 = &machine.mmu.l2[0];
        assert_eq!(l2.pieces, [(PageSize::G1, PageSize::M2)].into());
        assert_eq!(l2.geometry.replacement, Replacement::Srrip);
        assert_eq!(machine.mmu.host_pwc(), &PwcKind::Absent);
        assert_eq!(machine.mmu.host_pwc_cycles(), 3);
    }

    #[test]
    fn errors_give_file_line_field_and_what_is_valid() {
        let line = |text: &str, part: &str| {
            let at = text
                .lines()
                .position(|line| line.contains(part))
                .expect("there");
            format!("line {}", at + 1)
        };
        let zero = with("walkers = ", "walkers = 0 # ");
        let told = refused(&zero);
        assert!(told.contains(&line(&zero, "walkers =")), "{told}");
        assert!(told.contains("mmu.walkers: 0; valid: 1 to"), "{told}");
        let extra = with("memory_bytes =", "memory_byte = 5\nmemory_bytes =");
        assert!(refused(&extra).contains("did you mean memory_bytes?"));
        let typed = with("walkers =", "wakers =");
        let told = refused(&typed);
        assert!(told.contains(&line(&typed, "wakers =")), "{told}");
        assert!(told.contains("did you mean walkers?"), "{told}");
        let wrong = with("mshrs = ", "mshrs = \"many\" # ");
        assert!(refused(&wrong).contains(&line(&wrong, "mshrs")));
        assert!(refused("").contains("missing field"));
        assert!(refused("\u{0}").contains("line 1"));
    }

    #[test]
    fn settings_and_names_that_do_not_exist_are_refused() {
        let wrong = |text: &str| {
            let set = [files::setting(text).expect("a setting")];
            format!("{:#}", changed("skylake", &set).unwrap_err())
        };
        assert!(wrong("mmu.l2.0.geometry.ways=5").contains("setting mmu.l2.0.geometry.ways=5"));
        assert!(wrong("mmu.l2.0.geometry.ways=5").contains("valid: "));
        let piece = wrong("mmu.l2.0.pieces.1g=4k");
        assert!(piece.contains("1g pages are held by array 1"), "{piece}");
        assert!(wrong("mmu.l2.0.pieces.4m=4k").contains("4m"));
        assert!(wrong("mmu.l2.7.geometry.ways=5").contains("the places 0 to"));
        let told = wrong("mmu.waklers=5");
        assert_eq!(told.matches("did you mean walkers?").count(), 1, "{told}");
        assert!(!told.contains('\n'), "{told}");
        assert!(wrong("mmu.l2_tlb.ways=5").contains("there is no l2_tlb"));
        let near = format!("{:#}", named("skylak").unwrap_err());
        assert!(near.contains("did you mean skylake?"), "{near}");
        assert!(format!("{:#}", named("/none.toml").unwrap_err()).contains("/none.toml"));
    }

    #[test]
    fn settings_of_an_experiment_find_their_way_into_its_machine() {
        #[derive(Serialize)]
        struct Parameters {
            machine: MachineChoice,
            memory_bytes: u64,
        }
        let parameters = Parameters {
            machine: "skylake".into(),
            memory_bytes: 5,
        };
        let of = |texts: &[&str]| {
            let set: Vec<_> = texts
                .iter()
                .map(|s| files::setting(s).expect("set"))
                .collect();
            settings_of("x", &parameters, &set)
        };
        let plain = of(&["memory_bytes=7"]).expect("a parameter");
        assert_eq!(plain, [("memory_bytes".to_owned(), 7.into())]);
        let set = [
            "mmu.walkers=3",
            "machine.memory_bytes=2147483648",
            "memory_bytes=7",
            "machine=zen4",
        ];
        let set = of(&set).expect("fields");
        assert_eq!(set[0], plain[0]);
        let choice: MachineChoice = set[1].1.clone().try_into().expect("a machine");
        let told = "zen4, memory_bytes=2147483648, mmu.walkers=3";
        assert_eq!(choice.to_string(), told);
        let machine = choice.read().expect("a machine");
        assert_eq!((machine.mmu.walkers, machine.memory_bytes), (3, 2 << 30));
        let text = serde_json::to_string(&parameters.machine).expect("written");
        assert_eq!(text, "\"skylake\"", "a name alone is written as before");
        let bare = of(&["name=x"]).expect("left for the parameters to refuse");
        assert_eq!(bare[0].0, "name");
        let none = settings_of("x", &toml::Table::new(), &set).unwrap_err();
        assert!(none.to_string().contains("x has no machine"), "{none}");
        assert!(of(&["machine={from=\"zen4\", sets={}}"]).is_err());
    }

    #[test]
    fn the_parts_of_a_machine_are_all_its_tables() {
        let machine = named("skylake").expect("a preset");
        let table = toml::Table::try_from(machine).expect("written");
        let parts = table.iter().filter(|(_, value)| value.is_table());
        let parts: Vec<_> = parts.map(|(key, _)| key.as_str()).collect();
        assert_eq!(parts, PARTS);
    }

    #[test]
    fn every_preset_is_listed_with_what_it_is() {
        for (name, about) in list() {
            assert!(about.len() > 10, "{name}: {about}");
        }
    }
}
