// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real, unmodified programs: QEMU's user-mode emulator runs them, a plugin of ours sends every
//! access over a socket, and they arrive here as ordinary [`Access`] records, live.

use crate::{Access, Backing, Consumer, Kind, Region};
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use thiserror::Error;

const PLUGIN_SOURCE: &str = include_str!("../plugin/ample_plugin.c");
const RECORD: usize = 16;
const BATCH: usize = 4096;

/// Why a program could not be recorded.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// A tool is missing or failed.
    #[error("{what}: {source}; {hint}")]
    Tool {
        /// What was tried.
        what: String,
        /// Cause.
        source: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// The stream from the plugin is not what it should be.
    #[error("record {at} from the plugin has the unknown kind {kind}")]
    Protocol {
        /// Number of the record.
        at: u64,
        /// What was found.
        kind: u8,
    },
}

/// Builds the plugin into `directory` with the system's C compiler; returns its path.
///
/// # Errors
/// If there is no compiler or it fails.
pub fn build_plugin(directory: &Path) -> Result<PathBuf, CaptureError> {
    let tool = |what: &str, source: io::Error| CaptureError::Tool {
        what: what.to_owned(),
        source,
        hint: "recording programs needs gcc (on Debian: apt-get install gcc libc6-dev)",
    };
    let source = directory.join("ample_plugin.c");
    let library = directory.join("libample_plugin.so");
    std::fs::write(&source, PLUGIN_SOURCE).map_err(|e| tool("writing the plugin", e))?;
    let status = Command::new("gcc")
        .args(["-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-o"])
        .arg(&library)
        .arg(&source)
        .arg("-lpthread")
        .status()
        .map_err(|e| tool("building the plugin", e))?;
    if !status.success() {
        return Err(tool(
            "building the plugin",
            io::Error::other(format!("gcc: {status}")),
        ));
    }
    Ok(library)
}

/// A program being recorded.
pub struct Capture {
    child: Child,
    stream: BufReader<UnixStream>,
    socket: PathBuf,
    regions: Vec<Region>,
    records: u64,
}

impl Capture {
    /// Starts `command` under the emulator with the plugin at `plugin`.
    ///
    /// # Errors
    /// If the emulator cannot be started or does not load the plugin within a minute.
    pub fn start(
        command: &[String],
        plugin: &Path,
        directory: &Path,
    ) -> Result<Self, CaptureError> {
        let tool = |what: &str, source: io::Error| CaptureError::Tool {
            what: what.to_owned(),
            source,
            hint: "recording programs needs qemu-x86_64 with plugins (on Debian: \
                   apt-get install qemu-user) and a program built for x86-64",
        };
        let socket = directory.join("accesses.sock");
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).map_err(|e| tool("making a socket", e))?;
        listener
            .set_nonblocking(true)
            .map_err(|e| tool("making a socket", e))?;
        let argument = format!("{},socket={}", plugin.display(), socket.display());
        let mut child = Command::new("qemu-x86_64")
            .args(["-plugin", &argument])
            .args(command)
            .spawn()
            .map_err(|e| tool("starting qemu-x86_64", e))?;
        let deadline = Instant::now() + Duration::from_secs(60);
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(tool("waiting for the plugin", e)),
            }
            if let Ok(Some(status)) = child.try_wait() {
                let cause = io::Error::other(format!("it ended with {status}"));
                return Err(tool("running qemu-x86_64", cause));
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                return Err(tool("waiting for the plugin", ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        stream
            .set_nonblocking(false)
            .map_err(|e| tool("waiting for the plugin", e))?;
        let stream = BufReader::with_capacity(1 << 20, stream);
        Ok(Capture {
            child,
            stream,
            socket,
            regions: Vec::new(),
            records: 0,
        })
    }

    /// Hands accesses to `consumer` until the program ends, `budget` is spent or the consumer
    /// stops; returns how many. After that the program, if it still runs, is undisturbed.
    ///
    /// # Errors
    /// If the stream breaks the protocol.
    pub fn run(&mut self, consumer: &mut dyn Consumer, budget: u64) -> Result<u64, CaptureError> {
        let mut block = Vec::with_capacity(BATCH);
        let mut bytes = vec![0u8; RECORD * BATCH];
        let mut filled = 0;
        let mut accesses = 0u64;
        let mut mapped = 0;
        loop {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            let whole = filled / RECORD * RECORD;
            block.clear();
            for record in bytes[..whole].chunks_exact(RECORD) {
                let va = u64::from_le_bytes(record[..8].try_into().expect("8 bytes"));
                let gap = u16::from_le_bytes([record[8], record[9]]);
                let size = 1u8 << record[11].min(6);
                let thread = record[12];
                self.records += 1;
                let kind = match record[10] {
                    0 => Kind::Load,
                    1 => Kind::Store,
                    2 => Kind::Fetch,
                    3 => {
                        mapped = va;
                        continue;
                    }
                    4 => {
                        self.add_region(mapped, va);
                        continue;
                    }
                    kind => {
                        return Err(CaptureError::Protocol {
                            at: self.records,
                            kind,
                        });
                    }
                };
                block.push(Access {
                    va,
                    gap,
                    dep: 0,
                    kind,
                    bytes: size,
                    thread,
                });
            }
            bytes.copy_within(whole..filled, 0);
            filled -= whole;
            let take = (budget - accesses).min(block.len() as u64) as usize;
            accesses += take as u64;
            if take > 0 && !consumer.consume(&block[..take]) || accesses == budget {
                break;
            }
        }
        Ok(accesses)
    }

    /// Joins a mapping of the program to the list of regions.
    fn add_region(&mut self, base: u64, bytes: u64) {
        let (mut start, mut end) = (base & !0xfff, (base + bytes).next_multiple_of(4096));
        self.regions.retain(|r| {
            let apart = r.end() < start || r.base > end;
            if !apart {
                start = start.min(r.base);
                end = end.max(r.end());
            }
            apart
        });
        self.regions.push(Region {
            name: "mapped".into(),
            base: start,
            bytes: end - start,
            backing: Backing::Anonymous,
        });
    }

    /// The address space as far as the program has mapped it itself (not the loader's part).
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Waits for the program to end, or ends it.
    pub fn finish(mut self, kill: bool) {
        drop(self.stream);
        if kill {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs gcc and qemu-x86_64; without them there is nothing to test.
    #[test]
    fn a_real_program_is_recorded() {
        let installed = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
        if !installed("gcc") || !installed("qemu-x86_64") {
            eprintln!("skipped: gcc or qemu-x86_64 is not installed");
            return;
        }
        let directory = std::env::temp_dir().join(format!("ample-capture-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let plugin = build_plugin(&directory).unwrap();
        let command = ["/bin/true".to_owned()];
        let mut capture = Capture::start(&command, &plugin, &directory).unwrap();
        let mut kinds = [0u64; 3];
        let mut count = |block: &[Access]| {
            block.iter().for_each(|a| kinds[a.kind as usize] += 1);
            true
        };
        let accesses = capture.run(&mut count, u64::MAX).unwrap();
        assert!(!capture.regions().is_empty());
        capture.finish(false);
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(
            accesses > 1000 && kinds.iter().all(|&k| k > 100),
            "{kinds:?}"
        );
    }
}
