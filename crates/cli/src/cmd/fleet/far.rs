// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sources in an object store: copied to this machine first, then read like other files.

use super::interrupt;
use ample_fleet::{FilesProgress, Sources, Unusable, whole_table};
use ample_store::{ObjectStore, SCHEME, StoreAccess, StoreAddress, StoredObject, plain};
use anyhow::{Result, ensure};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where objects lie in the workspace.
const FOLDER: &str = "from-store";

/// Objects on this machine.
#[derive(Default)]
struct Copied {
    /// The address of each file.
    files: BTreeMap<PathBuf, String>,
    unusable: Vec<Unusable>,
}

/// Makes all sources ready, those in a store too; these are below the workspace until it goes.
///
/// # Errors
/// As [`Sources::gather`], and when a store does not answer, or a source names no object.
pub fn gather(
    sources: &[PathBuf],
    patience: Duration,
    workspace: &Path,
    progress: FilesProgress<'_>,
) -> Result<Sources> {
    let far = |source: &&PathBuf| source.to_str().is_some_and(|text| text.starts_with(SCHEME));
    let (far, near): (Vec<&PathBuf>, Vec<&PathBuf>) = sources.iter().partition(far);
    if far.is_empty() {
        return Sources::gather(sources, workspace, progress);
    }
    let folder = workspace.join(FOLDER);
    interrupt::remove_at_end(&folder)?;
    let copied = copy(&far, patience, &folder, progress)?;
    let all: Vec<PathBuf> = (near.into_iter().chain(copied.files.keys()).cloned()).collect();
    let mut found = Sources::gather(&all, workspace, progress)?;
    check_large(&mut found, &copied);
    for unusable in &mut found.unusable {
        if let Some(address) = copied.files.get(&unusable.file) {
            unusable.file = address.into();
        }
    }
    found.read += copied.unusable.len();
    found.unusable.extend(copied.unusable);
    // What was small is in another file by now.
    let kept: HashSet<&PathBuf> = found.files.iter().collect();
    for file in copied.files.keys().filter(|file| !kept.contains(file)) {
        fs::remove_file(file)?;
    }
    if folder.exists() && !kept.iter().any(|file| file.starts_with(&folder)) {
        fs::remove_dir_all(&folder)?;
    }
    Ok(found)
}

/// Nobody else has read a large table to its end since it came over a network.
fn check_large(found: &mut Sources, copied: &Copied) {
    for file in std::mem::take(&mut found.files) {
        let checked = match copied.files.contains_key(&file) {
            true => whole_table(&file),
            false => Ok(()),
        };
        match checked {
            Ok(()) => found.files.push(file),
            Err(error) => {
                let reason = format!("{error:#}");
                found.unusable.push(Unusable { file, reason });
            }
        }
    }
}

/// Copies everything that the addresses name, each object once.
fn copy(
    addresses: &[&PathBuf],
    patience: Duration,
    folder: &Path,
    progress: FilesProgress<'_>,
) -> Result<Copied> {
    let access = StoreAccess::of_environment(patience);
    let mut buckets: BTreeMap<String, (ObjectStore, Vec<StoredObject>)> = BTreeMap::new();
    for text in addresses.iter().filter_map(|address| address.to_str()) {
        let address = StoreAddress::parse(text)?;
        let (store, objects) = match buckets.remove(&address.bucket) {
            Some(known) => known,
            None => (ObjectStore::open(&address.bucket, &access)?, Vec::new()),
        };
        let listed = store.list(&address.key)?;
        ensure!(!listed.is_empty(), "nothing at {}", plain(text));
        let objects = [objects, listed].concat();
        buckets.insert(address.bucket, (store, objects));
    }
    let mut copied = Copied::default();
    for (bucket, (store, mut objects)) in buckets {
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        objects.dedup_by(|a, b| a.key == b.key);
        let told = |done| progress(done, objects.len());
        let files = store.copy(&objects, &folder.join(bucket), &told)?;
        for (object, file) in objects.iter().zip(files) {
            let address = object.address.clone();
            match file {
                Ok(file) => drop(copied.files.insert(file, address)),
                Err(error) => copied.unusable.push(Unusable {
                    file: address.into(),
                    reason: format!("{error:#}"),
                }),
            }
        }
    }
    Ok(copied)
}
