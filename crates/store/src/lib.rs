// SPDX-License-Identifier: MIT OR Apache-2.0
//! Object stores that speak S3: listed, copied from and written to within bounds of time and size.
//!
//! A store is told nothing but what it is asked for, and believed in nothing that can be checked:
//! an object has the size and the version that the list gave it, or it does not count. Where the
//! store is, and as whom it is asked, is in the environment (`AWS_ENDPOINT_URL`, `AWS_REGION`,
//! `AWS_ACCESS_KEY_ID`, …), as for other programs. Requests are signed in their address, so that
//! no address of a request is part of a message.
//!
//! `rusty-s3` signs requests and reads lists, and does no input or output; the requests are
//! `ureq`'s, whose time and size are bounded here. The crate `object_store`, whose core comes with
//! the engine for SQL, would bring an asynchronous HTTP client and its runtime for the same, into
//! the agent too, which has neither and must stay below 64 MB.

mod access;
mod address;
mod copy;
mod request;

use anyhow::{Context, Result, ensure};
use request::Requests;
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::actions::list_objects_v2::ListObjectsContent;
use std::collections::HashSet;
use std::time::Duration;

pub use access::StoreAccess;
pub use address::{SCHEME, StoreAddress, plain};
use address::{fits, fixed_part, pattern};
pub use request::Absent;

/// An answer that takes longer is none.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// No list is longer, and no page of one larger.
const LONGEST_LIST: usize = 2_000_000;
const LARGEST_PAGE_BYTES: u64 = 16 << 20;
/// No list has more pages, or so many in a row that name no file: a page has a thousand names, as a
/// rule.
const MOST_PAGES: usize = 20_000;
const MOST_EMPTY_PAGES: usize = 100;

/// An object as the list of its store names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// `s3://BUCKET/KEY`.
    pub address: String,
    /// Name within the bucket.
    pub key: String,
    /// Size as the list says, which it has to have.
    pub bytes: u64,
    /// When it was written, in seconds since 1970, if the list says so.
    pub unix_time_seconds: Option<u64>,
    version: Option<String>,
}

/// One bucket of a store, and how it is asked.
#[derive(Debug)]
pub struct ObjectStore {
    requests: Requests,
}

impl ObjectStore {
    /// The bucket of an address; no request is sent yet.
    ///
    /// # Errors
    /// When the variables say something that cannot be.
    pub fn open(bucket: &str, access: &StoreAccess) -> Result<ObjectStore> {
        let requests = Requests::new(bucket, access);
        let requests = requests.with_context(|| format!("cannot use {SCHEME}{bucket}"))?;
        Ok(ObjectStore { requests })
    }

    fn name(&self) -> String {
        format!("{SCHEME}{}", self.requests.bucket())
    }

    /// All objects of an address: the one with that key, those whose keys begin with it and a `/`,
    /// or those whose keys fit the pattern (`*` and `?` within a part of a key, `**` beyond).
    /// Sorted by key; hidden ones (a part that begins with a dot) are left out.
    ///
    /// # Errors
    /// When the store does not answer in time, or its list cannot be.
    pub fn list(&self, key: &str) -> Result<Vec<StoredObject>> {
        let pattern = pattern(key)?;
        let fixed = fixed_part(key);
        let below = match fixed {
            "" => String::new(),
            fixed => format!("{fixed}/"),
        };
        let about = || format!("cannot list {}/{fixed}", self.name());
        let mut found = self.pages(&below).with_context(about)?;
        if found.is_empty() && !fixed.is_empty() && pattern.is_none() {
            // An object comes before all whose keys begin with its own.
            let own = self.page(fixed, None).with_context(about)?.0;
            found.extend(own.into_iter().filter(|object| object.key == fixed));
        }
        found.retain(|object| {
            let own = object.key.strip_prefix(&below).unwrap_or_default();
            !own.split('/').any(|part| part.starts_with('.'))
                && (pattern.as_ref()).is_none_or(|pattern| fits(pattern, &object.key))
        });
        found.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(found)
    }

    fn pages(&self, prefix: &str) -> Result<Vec<StoredObject>> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        let mut token: Option<String> = None;
        let mut passed = Passed::default();
        loop {
            let (page, next) = self.page(prefix, token.as_deref())?;
            passed.page(page.len())?;
            for object in page {
                ensure!(
                    seen.insert(object.key.clone()),
                    "the list names {} twice: its pages go in a circle",
                    plain(&object.key)
                );
                found.push(object);
            }
            ensure!(
                found.len() <= LONGEST_LIST,
                "more than {LONGEST_LIST} objects"
            );
            if next.is_none() {
                return Ok(found);
            }
            ensure!(next != token, "its pages go in a circle");
            token = next;
        }
    }

    /// A page of a list, and where the next one begins.
    fn page(
        &self,
        prefix: &str,
        from: Option<&str>,
    ) -> Result<(Vec<StoredObject>, Option<String>)> {
        let bytes = self.requests.list(prefix, from, LARGEST_PAGE_BYTES)?;
        page_of(self.requests.bucket(), &bytes)
    }

    /// Writes an object; the store refuses bytes whose sum is another than what was sent.
    ///
    /// # Errors
    /// When the store does not take it in time.
    pub fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let done = self.requests.put(key, bytes);
        done.with_context(|| format!("cannot write {}/{}", self.name(), plain(key)))
    }
}

/// Pages of a list so far: each may name another one after it, without end.
#[derive(Default)]
struct Passed {
    pages: usize,
    /// The last ones, without a file.
    empty: usize,
}

impl Passed {
    fn page(&mut self, files: usize) -> Result<()> {
        self.pages += 1;
        self.empty = match files {
            0 => self.empty + 1,
            _ => 0,
        };
        ensure!(
            self.empty <= MOST_EMPTY_PAGES,
            "more than {MOST_EMPTY_PAGES} pages in a row that name no file: the list has no end"
        );
        ensure!(
            self.pages <= MOST_PAGES,
            "more than {MOST_PAGES} pages: the list has no end"
        );
        Ok(())
    }
}

/// A page of a list as a store sends it: the objects of this bucket, and where the next page
/// begins.
///
/// # Errors
/// When it is no list, or names an object without a size.
pub fn page_of(bucket: &str, bytes: &[u8]) -> Result<(Vec<StoredObject>, Option<String>)> {
    let text = std::str::from_utf8(bytes).context("a list that is no text")?;
    let page = ListObjectsV2::parse_response(text).context("a list that cannot be read")?;
    // Where a folder is made by hand, an empty object stands for it.
    let files = (page.contents.into_iter()).filter(|own| !own.key.ends_with('/'));
    let objects: Result<_> = files.map(|own| object(bucket, own)).collect();
    Ok((objects?, page.next_continuation_token))
}

fn object(bucket: &str, own: ListObjectsContent) -> Result<StoredObject> {
    let time = own.last_modified.as_deref().map(str::parse);
    let time = time.and_then(|time: Result<jiff::Timestamp, _>| time.ok());
    Ok(StoredObject {
        address: format!("{SCHEME}{bucket}/{}", own.key),
        bytes: (own.size).with_context(|| format!("no size of {}", plain(&own.key)))?,
        unix_time_seconds: time.and_then(|time| u64::try_from(time.as_second()).ok()),
        version: own.etag,
        key: own.key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_so_many_pages_and_so_many_empty_ones_in_a_row() {
        let refused_at = |files: &dyn Fn(usize) -> usize| {
            let mut passed = Passed::default();
            (1..100_000).find(|&page| passed.page(files(page)).is_err())
        };
        assert_eq!(refused_at(&|_| 0), Some(MOST_EMPTY_PAGES + 1));
        assert_eq!(refused_at(&|_| 1), Some(MOST_PAGES + 1));
        // A page with a file now and then is a list, up to its length.
        let rare = |page| usize::from(page % MOST_EMPTY_PAGES == 0);
        assert_eq!(refused_at(&rare), Some(MOST_PAGES + 1));
    }
}
