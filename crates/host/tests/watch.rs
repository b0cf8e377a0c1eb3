// SPDX-License-Identifier: MIT OR Apache-2.0
//! The watch on the machine that runs the tests. Skips, with the reason, where it cannot run.
#![cfg(feature = "bpf")]

use ample_host::SpoilWatch;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::write;
use rustix::pipe::{fcntl_setpipe_size, pipe};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const PIPE_BYTES: usize = 1 << 20;
const MOST_PIPES: u64 = 1500;
/// Free memory that the test asks for: it fills at most half of it.
const FREE_BYTES: u64 = 4 << 30;

fn free_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemFree:"));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kb.unwrap_or(0) << 10
}

/// A pipe filled with a megabyte: 256 unmovable pages.
fn full_pipe() -> Option<(OwnedFd, OwnedFd)> {
    let (read, write_end) = pipe().ok()?;
    fcntl_setpipe_size(&write_end, PIPE_BYTES).ok()?;
    fcntl_setfl(&write_end, OFlags::NONBLOCK).ok()?;
    let bytes = [7u8; 1 << 16];
    while write(&write_end, &bytes).is_ok() {}
    Some((read, write_end))
}

#[test]
fn who_fills_pipes_is_found() {
    let mut watch = match SpoilWatch::start() {
        Ok(watch) => watch,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    if free_bytes() < FREE_BYTES {
        return eprintln!("skipped: less than 4 GB are free");
    }
    let limit = Rlimit {
        current: Some(2 * MOST_PIPES + 100),
        maximum: Some(2 * MOST_PIPES + 100),
    };
    if setrlimit(Resource::Nofile, limit).is_err() {
        return eprintln!("skipped: the limit of open files cannot be raised");
    }
    let started = Instant::now();
    let mut pipes = Vec::new();
    let found = |watch: &SpoilWatch| {
        let sites = watch.ranked();
        let own = sites.into_iter().find(|site| {
            let writes = |name: &String| name.ends_with("pipe_write");
            site.stack.iter().any(writes) && !site.blocks.is_empty()
        });
        own.cloned()
    };
    // Blocks that are spoiled already fill up first.
    while pipes.len() < MOST_PIPES as usize && found(&watch).is_none() {
        for _ in 0..50 {
            pipes.extend(full_pipe());
        }
        watch.poll(Duration::from_millis(20)).unwrap();
        assert!(started.elapsed() < Duration::from_secs(120));
    }
    let site = found(&watch).expect("a clean block gets a page of a pipe");
    assert!(site.caller.ends_with("pipe_write"), "{site:?}");
    // The thread of the test has its name.
    assert!(site.process.starts_with("who_fills_pipes"), "{site:?}");
    watch.rescan().unwrap();
    let held = watch.still_spoiled(&site);
    assert!(held > 0, "the pages are still there: {site:?}");
    drop(pipes);
    assert_eq!(watch.lost(), 0);
}
