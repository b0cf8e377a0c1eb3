// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects listed, copied and written: what the store does wrong is named, bounded in time, and
//! never another object in silence.

mod s3;
mod tls;

use ample_store::{ObjectStore, StoreAccess, StoreAddress, StoredObject};
use anyhow::Result;
use s3::{Fault, S3};
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(1);

fn access(store: &S3) -> StoreAccess {
    let variables = store.environment();
    StoreAccess::new(
        PATIENCE,
        variables.map(|(name, value)| (name.to_string(), value)),
    )
}

fn open(store: &S3, address: &str) -> Result<(ObjectStore, String)> {
    let address = StoreAddress::parse(address)?;
    let own = ObjectStore::open(&address.bucket, &access(store))?;
    Ok((own, address.key))
}

fn keys(store: &S3, address: &str) -> Result<Vec<String>> {
    let (own, key) = open(store, address)?;
    let keys = own.list(&key)?.into_iter().map(|object| object.key);
    Ok(keys.collect())
}

/// All objects of an address: bytes, or why there are none.
fn copied(
    store: &S3,
    address: &str,
    folder: &Path,
) -> Result<Vec<(StoredObject, Result<Vec<u8>>)>> {
    let (own, key) = open(store, address)?;
    let objects = own.list(&key)?;
    let files = own.copy(&objects, folder, &|_| ())?;
    let bytes = files.into_iter().map(|file| Ok(std::fs::read(file?)?));
    Ok(objects.into_iter().zip(bytes).collect())
}

/// Six objects.
fn filled() -> S3 {
    let store = S3::start();
    for host in 0..6 {
        store.put(&format!("a/host{host}.snap"), content(host));
    }
    store
}

fn content(host: usize) -> Vec<u8> {
    (0..1000 + host).map(|at| (at * at + host) as u8).collect()
}

#[test]
fn a_store_is_listed_page_by_page_and_by_pattern() {
    let store = filled();
    store.put("a/.hidden.snap", b"no".to_vec());
    store.put("ab/host9.snap", content(9));
    store.put("ab/", Vec::new());
    let six: Vec<String> = (0..6).map(|host| format!("a/host{host}.snap")).collect();
    let nine = "ab/host9.snap".to_string();
    let all = [&six[..], std::slice::from_ref(&nine)].concat();
    for (address, wanted) in [
        ("s3://scans/a", &six[..]),
        ("s3://scans/a/", &six[..]),
        ("s3://scans/a/host[1-3]*", &six[1..4]),
        ("s3://scans/a/host2.snap", &six[2..3]),
        ("s3://scans/*/host9.snap", &all[6..]),
        ("s3://scans/**/*", &all[..]),
        ("s3://scans", &all[..]),
        ("s3://scans/b", &[]),
        ("s3://scans/a/host", &[]),
    ] {
        assert_eq!(keys(&store, address).unwrap(), wanted, "{address}");
    }
}

#[test]
fn an_object_that_comes_wrong_is_named_and_counts_nowhere() {
    let store = filled();
    for (fault, word) in [
        (Fault::Silent("host2"), "no answer in time"),
        (Fault::Trickle("host2"), "no answer in time"),
        (Fault::Truncated("host2"), ""),
        (Fault::Shorter("host2"), "501 bytes came of 1002"),
        (Fault::Gone("host2"), "not found"),
        (Fault::Newer("host2"), "changed since"),
    ] {
        store.fail(std::slice::from_ref(&fault));
        let folder = tempfile::tempdir().unwrap();
        let all = copied(&store, "s3://scans/a", folder.path()).unwrap();
        assert_eq!(all.len(), 6, "{fault:?}");
        for (host, (object, bytes)) in all.into_iter().enumerate() {
            assert_eq!(object.unix_time_seconds, Some(s3::MODIFIED_SECONDS));
            match (host, bytes) {
                (2, bytes) => {
                    let told = format!("{:#}", bytes.unwrap_err());
                    println!("{fault:?}: {}: {told}", object.address);
                    assert!(told.contains(word), "{fault:?}: {told}");
                    // Whoever reads a message must not be able to ask the store.
                    assert!(
                        !told.contains("Signature") && !told.contains("X-Amz"),
                        "{told}"
                    );
                }
                (host, bytes) => assert_eq!(bytes.unwrap(), content(host), "{fault:?}"),
            }
        }
    }
}

#[test]
fn a_store_that_fails_altogether_is_an_error() {
    let store = filled();
    for copy in 0..20 {
        store.put(&format!("a/x{copy:02}.snap"), content(copy));
    }
    for (fault, word) in [
        (Fault::Silent(""), "cannot list s3://scans"),
        (Fault::Status(503), "cannot list s3://scans"),
        (Fault::Status(403), "the store refuses"),
        (Fault::Status(301), "is AWS_REGION right?"),
        (Fault::Garbage, "a list that cannot be read"),
        (Fault::Circle, "go in a circle"),
        (Fault::Endless(0), "the list has no end"),
        (Fault::Endless(3), "the list has no end"),
        (
            Fault::Silent("x"),
            "could not be read, the last one s3://scans/a/x",
        ),
        (
            Fault::Truncated("x"),
            "could not be read, the last one s3://scans/a/x",
        ),
    ] {
        store.fail(std::slice::from_ref(&fault));
        let folder = tempfile::tempdir().unwrap();
        let told = copied(&store, "s3://scans/a", folder.path()).unwrap_err();
        let told = format!("{told:#}");
        assert!(told.contains(word), "{fault:?}: {told}");
        assert!(
            !told.contains("Signature") && !told.contains("X-Amz"),
            "{told}"
        );
    }
}

#[test]
fn a_large_object_comes_in_parts() {
    let store = S3::start();
    let large: Vec<u8> = (0..9u32 << 20).map(|at| (at ^ (at >> 9)) as u8).collect();
    store.put("a/large.parquet", large.clone());
    let folder = tempfile::tempdir().unwrap();
    let all = copied(&store, "s3://scans/a", folder.path()).unwrap();
    let [(object, Ok(bytes))] = &all[..] else {
        panic!("{} objects", all.len())
    };
    assert!(*bytes == large, "{} bytes of {}", bytes.len(), large.len());
    assert_eq!(object.unix_time_seconds, Some(1_793_491_200));
    let parts = store
        .requests()
        .into_iter()
        .filter(|line| line.contains("large.parquet"));
    assert_eq!(parts.count(), 3);
    store.fail(&[Fault::Whole]);
    let all = copied(&store, "s3://scans/a", folder.path()).unwrap();
    let told = format!("{:#}", all[0].1.as_ref().unwrap_err());
    assert!(told.contains("the store ignores Range"), "{told}");
}

#[test]
fn a_store_that_fails_here_and_there_is_given_up_where_that_is_no_small_share() {
    let store = S3::start();
    for number in 0..20 {
        let kind = if number % 8 == 0 { "good" } else { "bad" };
        store.put(&format!("a/{number:02}-{kind}.snap"), content(number));
    }
    store.fail(&[Fault::Broken("bad")]);
    let folder = tempfile::tempdir().unwrap();
    let told = copied(&store, "s3://scans/a", folder.path()).unwrap_err();
    let told = told.to_string();
    assert!(told.contains("8 of 20 objects could not be read"), "{told}");
    // Of a hundred, eight are a small share: they are named, and the others count.
    for number in 20..100 {
        let kind = if number % 10 == 0 { "flaw" } else { "good" };
        store.put(&format!("a/{number:02}-{kind}.snap"), content(number));
    }
    store.fail(&[Fault::Broken("flaw")]);
    let all = copied(&store, "s3://scans/a", folder.path()).unwrap();
    assert_eq!(all.iter().filter(|(_, bytes)| bytes.is_err()).count(), 8);
}

#[test]
fn names_that_a_store_chooses_are_told_without_control_characters() {
    let store = filled();
    let (own, _) = open(&store, "s3://scans").unwrap();
    store.fail(&[Fault::Status(500)]);
    let told = own.put("a\u{9b}31m\nb", b"x").unwrap_err().to_string();
    assert_eq!(told, "cannot write s3://scans/a\u{fffd}31m\u{fffd}b");
    let list = "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
        <Contents><Key>a\u{9b}31m</Key></Contents><IsTruncated>false</IsTruncated>\
        </ListBucketResult>";
    let told = ample_store::page_of("scans", list.as_bytes()).unwrap_err();
    assert_eq!(told.to_string(), "no size of a\u{fffd}31m");
}

/// The protocol has no sum of what is read: whoever reads a table or a snapshot compares its own.
#[test]
fn a_changed_byte_is_for_the_reader_to_notice() {
    let store = filled();
    store.fail(&[Fault::Flipped("host2")]);
    let folder = tempfile::tempdir().unwrap();
    let all = copied(&store, "s3://scans/a", folder.path()).unwrap();
    let bytes = all[2].1.as_ref().unwrap();
    let changed = bytes
        .iter()
        .zip(content(2))
        .filter(|(own, other)| *own != other);
    assert_eq!((bytes.len(), changed.count()), (content(2).len(), 1));
}

#[test]
fn what_is_written_is_there_and_what_is_refused_is_told() {
    let store = S3::start();
    let (own, key) = open(&store, "s3://scans/2026/a b").unwrap();
    own.put(&format!("{key}/host1.snap"), &content(1)).unwrap();
    assert_eq!(store.objects()["2026/a b/host1.snap"], content(1));
    for fault in [Fault::Status(503), Fault::Silent("2026")] {
        store.fail(&[fault]);
        let told = own.put("2026/x", b"x").unwrap_err().to_string();
        assert_eq!(told, "cannot write s3://scans/2026/x");
    }
    assert_eq!(store.objects().len(), 1);
}

#[test]
fn what_the_variables_do_not_say_is_said() {
    let open = |variables: &[(&str, &str)]| {
        let pairs = variables
            .iter()
            .map(|&(name, value)| (name.to_string(), value.to_string()));
        let opened = ObjectStore::open("scans", &StoreAccess::new(PATIENCE, pairs));
        opened.map(drop).map_err(|error| format!("{error:#}"))
    };
    let key = ("AWS_ACCESS_KEY_ID", "name");
    let secret = ("AWS_SECRET_ACCESS_KEY", "hush");
    let http = ("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    assert_eq!(open(&[key, secret]), Ok(()));
    assert_eq!(
        open(&[http, key, secret, ("AWS_ALLOW_HTTP", "true")]),
        Ok(())
    );
    assert_eq!(open(&[("AWS_SKIP_SIGNATURE", "true")]), Ok(()));
    for (variables, word) in [
        (vec![key], "AWS_SECRET_ACCESS_KEY"),
        (vec![http, key, secret], "AWS_ALLOW_HTTP"),
        (
            vec![("AWS_ENDPOINT_URL", "here"), key, secret],
            "AWS_ENDPOINT_URL",
        ),
        (
            vec![("AWS_ENDPOINT_URL", "file:///etc"), key, secret],
            "https://",
        ),
    ] {
        let told = open(&variables).unwrap_err();
        assert!(told.contains(word) && !told.contains("hush"), "{told}");
    }
    let access = StoreAccess::new(PATIENCE, [("AWS_SECRET_ACCESS_KEY".into(), "hush".into())]);
    assert!(!format!("{access:?}").contains("hush"));
}
