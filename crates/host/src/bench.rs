// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a scan costs beside the floor: a bare read loop over `/proc/kpageflags`.

use crate::{HostError, ReaderChoice, Root, ScanOptions, System, scan_live};
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Chunk of the bare loop; the time hardly depends on it between 4 KB and 4 MB.
const BARE_CHUNK_BYTES: usize = 64 << 10;

/// Times of interleaved rounds, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct ReaderTimes {
    /// Pages of memory that each round looked at.
    pub pages: u64,
    /// `pread` of all flags of all memory, nothing done with them.
    pub bare_ns: Vec<u64>,
    /// A whole scan with the procfs reader: text files, flags, classes, run-length coding.
    pub procfs_ns: Vec<u64>,
    /// A whole scan with the BPF reader, loading the program included.
    pub bpf_ns: Vec<u64>,
    /// Why there are no times of the BPF reader.
    pub bpf_error: Option<String>,
}

/// Runs each reader and the bare loop in turn, `rounds` times after one round of warm-up.
///
/// # Errors
/// When `/proc/kpageflags` cannot be read.
pub fn bench_readers(rounds: usize) -> Result<ReaderTimes, HostError> {
    let root = Root::live();
    let system = System::read(&root)?;
    let mut times = ReaderTimes {
        pages: system.ram.iter().map(|range| range.pages()).sum(),
        ..ReaderTimes::default()
    };
    let timed = |reader| {
        let started = Instant::now();
        scan_live(&ScanOptions {
            root: Root::live(),
            reader,
            ..ScanOptions::default()
        })?;
        Ok::<u64, HostError>(started.elapsed().as_nanos() as u64)
    };
    for round in 0..=rounds {
        let bare = bare_loop(&root, &system)?;
        let procfs = timed(ReaderChoice::Procfs)?;
        let bpf = timed(ReaderChoice::Bpf);
        if round == 0 {
            continue;
        }
        times.bare_ns.push(bare);
        times.procfs_ns.push(procfs);
        match bpf {
            Ok(bpf) => times.bpf_ns.push(bpf),
            Err(error) => times.bpf_error = Some(error.to_string()),
        }
    }
    Ok(times)
}

fn bare_loop(root: &Root, system: &System) -> Result<u64, HostError> {
    let started = Instant::now();
    let file = root.open("proc/kpageflags")?;
    let mut chunk = vec![0u8; BARE_CHUNK_BYTES];
    for range in &system.ram {
        let (mut at, end) = (range.start.0 * 8, range.end.0 * 8);
        while at < end {
            let want = chunk.len().min((end - at) as usize);
            let read = file
                .read_at(&mut chunk[..want], at)
                .map_err(|error| HostError::io(&root.path("proc/kpageflags"), error))?;
            if read == 0 {
                break;
            }
            at += read as u64;
        }
    }
    Ok(started.elapsed().as_nanos() as u64)
}
