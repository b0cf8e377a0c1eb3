// SPDX-License-Identifier: MIT OR Apache-2.0
//! The snapshot of the RustSec advisory database that `cargo deny` reads in CI.
//!
//! `ample-advisories take CLONE FILE` makes the snapshot from a clone of the database (the facts
//! that decide, a line an advisory); `ample-advisories unpack FILE FOLDER` makes it a database
//! again, in the form that `cargo deny` opens.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use toml::{Table, Value};

/// The folder that cargo-deny looks for: the last part of the database's address and its hash.
const DATABASE: &str = "advisory-db-3157b0e258782691";
const HEAD: &str = "\
# SPDX-License-Identifier: MIT OR Apache-2.0
# Advisories of the RustSec database (https://github.com/rustsec/advisory-db, public domain): what
# decides if a version is affected. Made by `make advisories`; `make deny` reads it.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["take", clone, file] => take(Path::new(clone), Path::new(file)),
        ["unpack", file, folder] => unpack(Path::new(file), Path::new(folder)),
        _ => Err("usage: ample-advisories take CLONE FILE | unpack FILE FOLDER".to_string()),
    };
    match result {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ample-advisories: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the snapshot `file` of the database in `clone`; withdrawn advisories are left out.
fn take(clone: &Path, file: &Path) -> Result<String, String> {
    let taken = git(clone, &["show", "-s", "--format=%cs", "HEAD"])?;
    let mut lines = Vec::new();
    for path in advisory_files(&clone.join("crates"))? {
        let text = read(&path)?;
        let front = text
            .strip_prefix("```toml")
            .and_then(|rest| rest.split_once("\n```"))
            .ok_or_else(|| format!("{}: no front matter", path.display()))?
            .0;
        let advisory: Table = front
            .parse()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        lines.extend(snapshot_line(&advisory));
    }
    lines.sort();
    let text = format!(
        "{HEAD}taken = \"{taken}\"\n\n[advisories]\n{}\n",
        lines.join("\n")
    );
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(format!(
        "{}: {} advisories of {taken}",
        file.display(),
        lines.len()
    ))
}

/// `RUSTSEC-… = { package = …, … }`; `None` for a withdrawn advisory and a template.
fn snapshot_line(advisory: &Table) -> Option<String> {
    let about = advisory.get("advisory")?.as_table()?;
    let id = about.get("id")?.as_str()?;
    if about.contains_key("withdrawn") || id == "RUSTSEC-0000-0000" {
        return None;
    }
    let versions = advisory.get("versions").and_then(Value::as_table);
    let facts = ["package", "date", "informational"]
        .into_iter()
        .filter_map(|key| Some((key, about.get(key)?)));
    let versions = ["patched", "unaffected"]
        .into_iter()
        .filter_map(|key| Some((key, versions?.get(key)?)));
    let pairs: Vec<String> = facts
        .chain(versions)
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    Some(format!("{id} = {{ {} }}", pairs.join(", ")))
}

/// Makes the database `folder`/advisory-db-… of the snapshot `file`.
fn unpack(file: &Path, folder: &Path) -> Result<String, String> {
    let snapshot: Table = read(file)?
        .parse()
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let taken = snapshot.get("taken").and_then(Value::as_str).unwrap_or("");
    let advisories = snapshot
        .get("advisories")
        .and_then(Value::as_table)
        .ok_or("no [advisories]")?;
    let database = folder.join(DATABASE);
    if database.exists() {
        fs::remove_dir_all(&database).map_err(|error| error.to_string())?;
    }
    for (id, facts) in advisories {
        let facts = facts.as_table().ok_or_else(|| format!("{id}: no table"))?;
        let (path, text) = advisory_page(id, facts)?;
        let path = database.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).map_err(|e| e.to_string())?;
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    // cargo-deny asks when the database was fetched.
    git(&database, &["init", "--quiet"])?;
    fs::write(database.join(".git/FETCH_HEAD"), "").map_err(|error| error.to_string())?;
    Ok(format!("{} advisories, as of {taken}", advisories.len()))
}

/// Where the page of an advisory lies, and its text.
fn advisory_page(id: &str, facts: &Table) -> Result<(PathBuf, String), String> {
    let package = facts.get("package").and_then(Value::as_str);
    let package = package.ok_or_else(|| format!("{id}: no package"))?;
    let mut about = Table::from_iter([("id".to_string(), Value::from(id))]);
    let mut versions = Table::new();
    for (key, value) in facts {
        let table = match key.as_str() {
            "patched" | "unaffected" => &mut versions,
            _ => &mut about,
        };
        table.insert(key.clone(), value.clone());
    }
    versions
        .entry("patched")
        .or_insert(Value::Array(Vec::new()));
    let front = Table::from_iter([
        ("advisory".to_string(), Value::Table(about)),
        ("versions".to_string(), Value::Table(versions)),
    ]);
    let text = format!(
        "```toml\n{front}```\n\n# {package}: {id}\n\nSee https://rustsec.org/advisories/{id}.html\n"
    );
    Ok((
        Path::new("crates").join(package).join(format!("{id}.md")),
        text,
    ))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The `.md` files two levels below `crates`.
fn advisory_files(crates: &Path) -> Result<Vec<PathBuf>, String> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>, String> {
        let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect())
    };
    let mut files = Vec::new();
    for folder in list(crates)?.iter().filter(|path| path.is_dir()) {
        files.extend(
            list(folder)?
                .into_iter()
                .filter(|path| path.extension().is_some_and(|extension| extension == "md")),
        );
    }
    Ok(files)
}

/// What git prints in `folder`.
fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advisory_survives_the_snapshot() {
        let original: Table = "
            [advisory]
            id = \"RUSTSEC-2099-0001\"
            package = \"thing\"
            date = \"2099-01-02\"
            informational = \"unsound\"
            [versions]
            patched = [\">= 1.2.3\"]
            unaffected = [\"< 1.0.0\"]"
            .parse()
            .expect("TOML");
        let line = snapshot_line(&original).expect("it is not withdrawn");
        let snapshot: Table = line.parse().expect("a line of TOML");
        let facts = snapshot["RUSTSEC-2099-0001"].as_table().expect("facts");
        let (path, text) = advisory_page("RUSTSEC-2099-0001", facts).expect("a page");
        assert_eq!(path, Path::new("crates/thing/RUSTSEC-2099-0001.md"));
        let front = text
            .split("```")
            .nth(1)
            .and_then(|t| t.strip_prefix("toml\n"));
        assert_eq!(front.expect("front matter").parse::<Table>(), Ok(original));
    }

    #[test]
    fn a_withdrawn_advisory_is_left_out() {
        let withdrawn: Table =
            "[advisory]\nid = \"RUSTSEC-2099-0002\"\npackage = \"x\"\nwithdrawn = \"2099-01-03\""
                .parse()
                .expect("TOML");
        assert_eq!(snapshot_line(&withdrawn), None);
    }
}
