// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where scans are delivered to: a directory that hosts share, or an object store.

use ample_fleet::agent::{Spool, write_whole};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// A place for the scans of many hosts.
#[derive(Debug)]
pub(super) enum Delivery {
    /// A directory, on any file system.
    Directory(PathBuf),
    /// A bucket, and what the keys begin with.
    #[cfg(feature = "fleet")]
    Store(Box<ample_store::ObjectStore>, String),
}

impl Delivery {
    /// The place that `to` names: `s3://BUCKET/KEY`, or a directory. Nothing is asked of it yet.
    ///
    /// # Errors
    /// When the address cannot be, or this build knows no object store.
    pub(super) fn parse(to: &Path) -> Result<Delivery> {
        match to.to_str() {
            Some(text) if text.contains("://") => store(text),
            _ => Ok(Delivery::Directory(to.to_path_buf())),
        }
    }

    /// That what is delivered leaves the spool.
    ///
    /// # Errors
    /// When the place is the spool, by whatever name, or lies in it.
    pub(super) fn apart_from(&self, spool: &Spool) -> Result<()> {
        match self {
            Delivery::Directory(directory) => spool.apart_from(directory),
            #[cfg(feature = "fleet")]
            Delivery::Store(..) => Ok(()),
        }
    }

    /// Writes a whole file there, or nothing.
    ///
    /// # Errors
    /// When it is not there, full, or does not answer in time.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        match self {
            Delivery::Directory(directory) => write_whole(directory, name, bytes),
            #[cfg(feature = "fleet")]
            Delivery::Store(store, key) if key.is_empty() => store.put(name, bytes),
            #[cfg(feature = "fleet")]
            Delivery::Store(store, key) => store.put(&format!("{key}/{name}"), bytes),
        }
    }
}

#[cfg(feature = "fleet")]
fn store(text: &str) -> Result<Delivery> {
    use ample_store::{ObjectStore, PATIENCE, StoreAccess, StoreAddress};
    let address = StoreAddress::parse(text)?;
    let store = ObjectStore::open(&address.bucket, &StoreAccess::of_environment(PATIENCE))?;
    Ok(Delivery::Store(Box::new(store), address.key))
}

#[cfg(not(feature = "fleet"))]
fn store(text: &str) -> Result<Delivery> {
    anyhow::bail!("`{text}`: this build delivers to directories only (feature fleet is missing)")
}
