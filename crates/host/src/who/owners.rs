// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owners by number.

use super::OwnerKind;
use std::collections::HashMap;

/// Index of an owner.
pub type OwnerId = u32;

/// What tells one owner from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerName {
    pub kind: OwnerKind,
    pub name: String,
    pub cgroup: Option<String>,
}

impl OwnerName {
    pub fn new(kind: OwnerKind, name: impl Into<String>) -> OwnerName {
        OwnerName {
            kind,
            name: name.into(),
            cgroup: None,
        }
    }
}

/// The owners met so far.
#[derive(Debug, Default)]
pub struct OwnerList {
    owners: Vec<(OwnerName, Option<u64>)>,
    ids: HashMap<OwnerName, OwnerId>,
}

impl OwnerList {
    /// The index of an owner, who is added when new.
    pub fn id(&mut self, owner: OwnerName) -> OwnerId {
        let next = self.owners.len() as OwnerId;
        let owners = &mut self.owners;
        *self.ids.entry(owner).or_insert_with_key(|owner| {
            owners.push((owner.clone(), None));
            next
        })
    }

    /// Takes note of how long an owner has existed; the oldest counts.
    pub fn age(&mut self, owner: OwnerId, seconds: u64) {
        let age = &mut self.owners[owner as usize].1;
        *age = Some(age.map_or(seconds, |known| known.max(seconds)));
    }

    /// The owners with their ages, by index.
    pub fn owners(&self) -> &[(OwnerName, Option<u64>)] {
        &self.owners
    }
}
