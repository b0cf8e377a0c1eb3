// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running program under the allocator, whatever it was started with: its memory holds a place
//! for requests ([`ample_malloc::watch::control`]), which is written through `/proc/PID/mem`. That
//! takes the right to trace the process (ptrace(2)).

use ample_malloc::watch::control::{AskedFor, Control, MAGIC};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

/// Most of one mapping that is searched, in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// How long a program has for an answer, in pauses of [`PAUSE`].
const PAUSES: usize = 250;
const PAUSE: Duration = Duration::from_millis(20);

/// A process with its place for requests.
pub struct Attached {
    pid: String,
    memory: File,
    control: u64,
}

/// The writable private mappings of files, as first byte and length, from `/proc/PID/maps`.
fn data_mappings(maps: &str) -> impl Iterator<Item = (u64, u64)> {
    maps.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (first, end) = fields.next()?.split_once('-')?;
        let is_data = fields.next()? == "rw-p" && fields.nth(3)?.starts_with('/');
        let first = u64::from_str_radix(first, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        is_data.then(|| (first, end.saturating_sub(first).min(MOST_BYTES)))
    })
}

impl Attached {
    /// Finds the place for requests of a process.
    ///
    /// # Errors
    /// When there is no such process, it does not run under the allocator or may not be traced.
    pub fn to(pid: &str) -> Result<Attached, String> {
        pid.parse::<u32>()
            .map_err(|_| format!("\"{pid}\" is no process id"))?;
        let problem = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => format!(
                "process {pid} may not be traced: that takes its user with \
                 kernel.yama.ptrace_scope=0, or root"
            ),
            std::io::ErrorKind::NotFound => format!("there is no process {pid}"),
            _ => format!("process {pid}: {error}"),
        };
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(problem)?;
        let memory = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"))
            .map_err(problem)?;
        for (first, len) in data_mappings(&maps) {
            let mut bytes = vec![0; len as usize];
            if memory.read_exact_at(&mut bytes, first).is_err() {
                continue;
            }
            let (blocks, _) = bytes.as_chunks::<{ MAGIC.len() }>();
            if let Some(at) = blocks.iter().position(|block| *block == MAGIC) {
                return Ok(Attached {
                    pid: pid.to_string(),
                    memory,
                    control: first + (at * MAGIC.len()) as u64,
                });
            }
        }
        Err(format!("process {pid} does not run under ample-malloc"))
    }

    fn fail(&self, error: std::io::Error) -> String {
        format!("process {}: {error}", self.pid)
    }

    fn read<const BYTES: usize>(&self, at: u64) -> Result<[u8; BYTES], String> {
        let mut bytes = [0; BYTES];
        self.memory
            .read_exact_at(&mut bytes, at)
            .map_err(|error| self.fail(error))?;
        Ok(bytes)
    }

    fn field(&self, offset: usize) -> u64 {
        self.control + offset as u64
    }

    fn pointed_to(&self, offset: usize) -> Result<u64, String> {
        Ok(u64::from_ne_bytes(self.read(self.field(offset))?))
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), String> {
        self.memory
            .write_all_at(bytes, at)
            .map_err(|error| self.fail(error))
    }

    fn write_field(&self, offset: usize, bytes: &[u8]) -> Result<(), String> {
        self.write(self.field(offset), bytes)
    }

    /// Mean bytes between the samples that the program takes; 0 if it takes none.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn mean_bytes(&self) -> Result<u64, String> {
        let mean = self.pointed_to(offset_of!(Control, mean))?;
        Ok(u64::from_ne_bytes(self.read(mean)?))
    }

    /// Begins to sample one byte in `mean_bytes`.
    ///
    /// # Errors
    /// As [`Attached::ask`].
    pub fn start(&self, mean_bytes: u64) -> Result<(), String> {
        self.write_field(offset_of!(Control, value), &mean_bytes.to_ne_bytes())?;
        self.request(AskedFor::Start)
    }

    /// Ends the sampling.
    ///
    /// # Errors
    /// As [`Attached::ask`].
    pub fn stop(&self) -> Result<(), String> {
        self.request(AskedFor::Stop)
    }

    /// Statistics or a profile, as text.
    ///
    /// # Errors
    /// When the program does not answer, refuses or has ended.
    pub fn ask(&self, kind: AskedFor) -> Result<String, String> {
        let root = PathBuf::from(format!("/proc/{}/root", self.pid));
        let name = format!("/tmp/ample-malloc.{}.{}", self.pid, std::process::id());
        let path = root.join(&name[1..]);
        let shown = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        options.open(&path).map_err(shown)?;
        let owner = std::fs::metadata(format!("/proc/{}", self.pid))
            .and_then(|of| std::os::unix::fs::chown(&path, Some(of.uid()), Some(of.gid())))
            .map_err(shown);
        let mut bytes = name.into_bytes();
        bytes.push(0);
        let text = owner
            .and_then(|()| self.write_field(offset_of!(Control, path), &bytes))
            .and_then(|()| self.request(kind))
            .and_then(|()| std::fs::read_to_string(&path).map_err(shown));
        let _ = std::fs::remove_file(&path);
        text
    }

    /// Asks, and waits until it was served.
    fn request(&self, kind: AskedFor) -> Result<(), String> {
        let request = offset_of!(Control, request);
        let fast = self.pointed_to(offset_of!(Control, fast))?;
        self.write_field(request, &(kind as u32).to_ne_bytes())?;
        for _ in 0..PAUSES {
            let now = u32::from_ne_bytes(self.read(self.field(request))?);
            if now == AskedFor::None as u32 {
                return Ok(());
            }
            if now == AskedFor::Refused as u32 {
                return Err(format!(
                    "process {} runs under a filter of system calls, or may not write to /tmp",
                    self.pid
                ));
            }
            if now == kind as u32 {
                // Every call is a slow one until it is served. Again: the program may write too.
                self.write(fast, &0u64.to_ne_bytes())?;
            }
            std::thread::sleep(PAUSE);
        }
        // The next slow call turns the fast path on again.
        let wake = (AskedFor::Wake as u32).to_ne_bytes();
        self.write_field(request, &wake)?;
        Err(format!(
            "process {} did not allocate for 5 s, and an idle one answers only if it was started \
             by ample-malloc run or with socket=",
            self.pid
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_writable_data_of_files_is_searched() {
        let maps = "\
            1000-3000 r--p 00000000 08:01 7 /usr/lib/libample_malloc.so\n\
            3000-5000 rw-p 00002000 08:01 7 /usr/lib/libample malloc.so\n\
            5000-6000 rw-p 00000000 00:00 0 \n\
            6000-7000 rw-s 00000000 00:01 9 /dev/shm/x\n\
            7000-8000 rw-p 00000000 00:00 0 [heap]\n\
            nonsense\n";
        let found: Vec<(u64, u64)> = data_mappings(maps).collect();
        assert_eq!(found, [(0x3000, 0x2000)]);
        assert!(Attached::to("x").is_err() && Attached::to("4294967295").is_err());
    }

    #[test]
    fn a_process_without_the_allocator_is_told_apart() {
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .expect("sleep");
        let error = Attached::to(&child.id().to_string()).err();
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert!(error.is_some_and(|text| text.contains("does not run under")));
    }
}
