// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real, unmodified programs: QEMU's user-mode emulator runs them, a plugin of ours sends every
//! access over a socket, and they arrive here as ordinary [`Access`] records, live.

use crate::access::address_map::AddressMap;
use crate::{Access, AccessKind, Backing, Consumer, MapChange, Region};
use std::io::{self, BufReader, ErrorKind, Read};
use std::ops::Range;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use thiserror::Error;

const PLUGIN_SOURCE: &str = include_str!("../../plugin/ample_plugin.c");
const RECORD: usize = 16;
const BATCH: usize = 4096;

/// Why a program could not be recorded.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// There is no such program.
    #[error("there is no program {0}; give its path, or the name of one on PATH")]
    NoProgram(String),
    /// A tool is missing or failed.
    #[error("{what} failed ({hint})")]
    Tool {
        /// What was tried.
        what: String,
        /// What the system answered.
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

/// The file of a program: the emulator does not look along PATH itself.
fn found(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).is_file().then(|| program.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// A program being recorded.
pub struct Capture {
    child: Child,
    stream: BufReader<UnixStream>,
    socket: PathBuf,
    map: AddressMap,
    records: u64,
    /// Where the change of the address space starts whose second record comes next.
    start: u64,
}

/// Rights and kind of a mapping as the plugin sends them.
mod rights {
    pub const ANY: u16 = 7;
    pub const EXECUTE: u16 = 4;
    pub const ANONYMOUS: u16 = 8;
    pub const STACK: u16 = 16;
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
        let program = match command.first() {
            Some(program) => {
                found(program).ok_or_else(|| CaptureError::NoProgram(program.clone()))?
            }
            None => return Err(tool("starting a program", ErrorKind::InvalidInput.into())),
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
            .arg(program)
            .args(&command[1..])
            // Standard output is for what we say of the program.
            .stdout(io::stderr())
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
            map: AddressMap::default(),
            records: 0,
            start: 0,
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
        while accesses < budget {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            let whole = filled / RECORD * RECORD;
            block.clear();
            let mut more = true;
            for record in bytes[..whole].chunks_exact(RECORD) {
                self.records += 1;
                if let Some(access) = access_of(record) {
                    block.push(access);
                    continue;
                }
                // What came before a change has happened before it.
                let change = self.change(record)?;
                let Some((change, range)) = change else {
                    continue;
                };
                more = more && hand_over(consumer, &mut block, budget, &mut accesses);
                consumer.remap(change, range);
            }
            more = more && hand_over(consumer, &mut block, budget, &mut accesses);
            bytes.copy_within(whole..filled, 0);
            filled -= whole;
            if !more {
                break;
            }
        }
        Ok(accesses)
    }

    /// Follows a change of the address space; None after the first of its two records.
    fn change(&mut self, record: &[u8]) -> Result<Option<(MapChange, Range<u64>)>, CaptureError> {
        let (number, given) = fields(record);
        let range = self.start..self.start.saturating_add(number);
        let change = match record[10] {
            3 => {
                self.start = number;
                return Ok(None);
            }
            4 if given & rights::ANY == 0 => {
                self.map.unmap(&range);
                MapChange::Mapped
            }
            4 => {
                self.map.map(&range, backing_of(given));
                MapChange::Mapped
            }
            5 => {
                self.map.unmap(&range);
                MapChange::Unmapped
            }
            6 => {
                let executable = given & rights::EXECUTE != 0;
                self.map
                    .protect(&range, given & rights::ANY != 0, executable);
                MapChange::Protected
            }
            kind => {
                return Err(CaptureError::Protocol {
                    at: self.records,
                    kind,
                });
            }
        };
        Ok(Some((change, range)))
    }

    /// The address space as far as the program has mapped it itself (not the loader's part).
    pub fn regions(&self) -> Vec<Region> {
        self.map.regions()
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

/// The two numbers of a record: an address or a length, and a gap or rights.
fn fields(record: &[u8]) -> (u64, u16) {
    let number = u64::from_le_bytes(record[..8].try_into().expect("8 bytes"));
    (number, u16::from_le_bytes([record[8], record[9]]))
}

/// The access of a record; None if it stands for something else.
fn access_of(record: &[u8]) -> Option<Access> {
    let kind = [AccessKind::Load, AccessKind::Store, AccessKind::Fetch]
        .get(record[10] as usize)
        .copied()?;
    let (va, gap) = fields(record);
    Some(Access {
        va,
        gap,
        dep: 0,
        kind,
        bytes: 1 << record[11].min(6),
        thread: record[12],
        joined: record[14] != 0,
    })
}

fn backing_of(given: u16) -> Backing {
    if given & rights::EXECUTE != 0 {
        Backing::Code
    } else if given & rights::STACK != 0 {
        Backing::Stack
    } else if given & rights::ANONYMOUS != 0 {
        Backing::Anonymous
    } else {
        Backing::File
    }
}

/// Gives the consumer what has gathered, as far as the budget goes; false: no more.
fn hand_over(
    consumer: &mut dyn Consumer,
    block: &mut Vec<Access>,
    budget: u64,
    accesses: &mut u64,
) -> bool {
    let take = (budget - *accesses).min(block.len() as u64) as usize;
    *accesses += take as u64;
    let more = take == 0 || consumer.consume(&block[..take]);
    block.clear();
    more && *accesses < budget
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a round of eight instructions three load and store; each of these was counted twice.
    const ROUNDS: &str = "
        .globl _start
        _start:
            lea place(%rip), %rbx
            mov $1000, %ecx
        1:  incl (%rbx)
            lock xaddq %rdx, (%rbx)
            mov (%rbx), %rdx
            lea (%rbx), %rsi
            lea 8(%rbx), %rdi
            movsb
            dec %ecx
            jnz 1b
            movl $0, 16(%rbx)
            mov $60, %eax
            xor %edi, %edi
            syscall
        .bss
        place: .space 64
    ";

    /// Records a command; `None` without gcc and a qemu-x86_64 with plugins (Debian 13's has none).
    fn recorded(name: &str, command: &dyn Fn(&Path) -> String) -> Option<(Vec<Access>, usize)> {
        let says = |tool: &str, what: &str| {
            let help = Command::new(tool).arg("--help").output();
            help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains(what))
        };
        if !says("gcc", "-shared") || !says("qemu-x86_64", "-plugin") {
            eprintln!("skipped: gcc or qemu-x86_64 with plugins is not installed");
            return None;
        }
        let directory = std::env::temp_dir().join(format!("ample-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let plugin = build_plugin(&directory).unwrap();
        let command = [command(&directory)];
        let mut capture = Capture::start(&command, &plugin, &directory).unwrap();
        let mut all = Vec::new();
        let mut keep = |block: &[Access]| {
            all.extend_from_slice(block);
            true
        };
        let accesses = capture.run(&mut keep, u64::MAX).unwrap();
        let regions = capture.regions().len();
        capture.finish(false);
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(accesses, all.len() as u64);
        Some((all, regions))
    }

    #[test]
    fn a_real_program_is_recorded() {
        let Some((all, regions)) = recorded("true", &|_| "/bin/true".to_owned()) else {
            return;
        };
        let mut kinds = [0u64; 3];
        all.iter().for_each(|a| kinds[a.kind as usize] += 1);
        assert!(regions > 0 && all.len() > 1000, "{regions} {}", all.len());
        assert!(kinds.iter().all(|&k| k > 100), "{kinds:?}");
    }

    #[test]
    fn instructions_that_load_and_store_are_counted_once() {
        let build = |directory: &Path| {
            let (source, program) = (directory.join("rounds.s"), directory.join("rounds"));
            std::fs::write(&source, ROUNDS).unwrap();
            let built = Command::new("gcc")
                .args(["-nostdlib", "-static", "-o"])
                .args([&program, &source])
                .status();
            assert!(built.unwrap().success());
            program.to_str().unwrap().to_owned()
        };
        let Some((all, _)) = recorded("rounds", &build) else {
            return;
        };
        let data = all.iter().filter(|a| a.kind != AccessKind::Fetch).count();
        let instructions: u64 = all.iter().map(Access::instructions).sum();
        // What lies behind the last access is in no record.
        assert_eq!((data, instructions), (7 * 1000 + 1, 2 + 8 * 1000 + 1));
    }
}
