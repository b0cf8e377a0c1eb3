// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest under QEMU's system emulation, recorded by the plugin: how it is started, where its
//! memory lies, and how it ends.

use crate::file::FileHeader;
use crate::names::GuestMemory;
use crate::ring::Ring;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use thiserror::Error;

/// The sources of the plugin: name and text.
const PLUGIN: [(&str, &str); 7] = [
    ("ample_system.c", include_str!("../plugin/ample_system.c")),
    ("decode.h", include_str!("../plugin/decode.h")),
    ("flags.h", include_str!("../plugin/flags.h")),
    ("qemu.h", include_str!("../plugin/qemu.h")),
    ("registers.h", include_str!("../plugin/registers.h")),
    ("ring.h", include_str!("../plugin/ring.h")),
    ("tables.h", include_str!("../plugin/tables.h")),
];
const EMULATOR: &str = "qemu-system-x86_64";
/// Words of a CPU's ring: 8 MiB.
const RING_WORDS: u64 = 1 << 20;
/// Where the emulated PC stops putting memory below 4 GB, and the size from which it does so early
/// (QEMU's default machine, `pc`): the rest begins at 4 GB.
const LOW_MOST: u64 = 0xe000_0000;
const LOW_SPLIT: u64 = 0xc000_0000;
/// Most CPUs that the plugin keeps apart.
pub const CPUS: usize = 16;

/// What to boot.
#[derive(Clone, Debug)]
pub struct Guest {
    /// A bzImage.
    pub kernel: PathBuf,
    /// What it unpacks as its first file system.
    pub initrd: Option<PathBuf>,
    /// Its System.map, by which processes are named.
    pub symbols: Option<PathBuf>,
    /// What is added to its command line.
    pub append: String,
    /// Size of its memory, whole 2 MiB.
    pub memory_bytes: u64,
    /// Virtual CPUs, 1 to [`CPUS`].
    pub cpus: usize,
    /// Compare each physical address with the emulator's own (slower).
    pub verify: bool,
    /// Further arguments of the emulator.
    pub emulator: Vec<String>,
}

/// Why a guest could not be started.
#[derive(Debug, Error)]
pub enum GuestError {
    /// A file that is asked for does not exist.
    #[error("there is no {what} at {path}")]
    Missing {
        /// What it should be.
        what: &'static str,
        /// Where it should be.
        path: String,
    },
    /// A number makes no sense.
    #[error("{0}")]
    Invalid(String),
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
}

impl Guest {
    fn check(&self) -> Result<(), GuestError> {
        let files = [
            Some(("kernel", &self.kernel)),
            self.initrd.as_ref().map(|i| ("initrd", i)),
        ];
        for (what, path) in files.into_iter().flatten() {
            if !path.is_file() {
                let path = path.display().to_string();
                return Err(GuestError::Missing { what, path });
            }
        }
        if !(1..=CPUS).contains(&self.cpus) {
            let told = format!("{} CPUs; 1 to {CPUS} can be recorded", self.cpus);
            return Err(GuestError::Invalid(told));
        }
        if !(64 << 20..=1 << 40).contains(&self.memory_bytes)
            || !self.memory_bytes.is_multiple_of(2 << 20)
        {
            let told = format!(
                "{} bytes of memory; give 64M to 1T in whole 2 MiB",
                self.memory_bytes
            );
            return Err(GuestError::Invalid(told));
        }
        Ok(())
    }

    /// What a recording says of it.
    pub fn header(&self) -> FileHeader {
        FileHeader {
            kernel: self.kernel.display().to_string(),
            append: self.append.clone(),
            memory_bytes: self.memory_bytes,
            cpus: self.cpus,
        }
    }

    /// Bytes of its memory that lie below 4 GB.
    pub fn low_bytes(&self) -> u64 {
        match self.memory_bytes < LOW_MOST {
            true => self.memory_bytes,
            false => LOW_SPLIT,
        }
    }

    /// Whether a physical address is memory; else it is a device's.
    pub fn is_memory(&self, pa: u64) -> bool {
        let low = self.low_bytes();
        pa < low || (1 << 32..(1 << 32) + self.memory_bytes - low).contains(&pa)
    }

    /// The emulator's arguments, `directory` with the guest's memory and rings.
    fn arguments(&self, directory: &Path, plugin: &Path) -> Vec<String> {
        let at = |name: &str| directory.join(name).display().to_string();
        let verify = if self.verify { ",verify=1" } else { "" };
        // The guest's clock counts instructions, and nothing of the host's time or chance gets in.
        let mut arguments: Vec<String> = [
            "-icount",
            "shift=0,sleep=off",
            "-cpu",
            "max,-erms,-fsrm,-la57,-rdrand,-rdseed",
            "-rtc",
            "base=2026-01-01,clock=vm",
            "-seed",
            "1",
            "-display",
            "none",
            "-no-reboot",
            "-nodefaults",
        ]
        .map(String::from)
        .into();
        let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
        let size = self.memory_bytes;
        add("-machine", "pc,memory-backend=ram,hpet=off".into());
        add("-m", format!("{size}B"));
        add(
            "-object",
            format!(
                "memory-backend-file,id=ram,share=on,size={size}B,mem-path={}",
                at("ram")
            ),
        );
        add("-smp", self.cpus.to_string());
        add("-serial", format!("file:{}", at("console.log")));
        add(
            "-plugin",
            format!(
                "{},dir={},low={}{verify}",
                plugin.display(),
                directory.display(),
                self.low_bytes()
            ),
        );
        add("-kernel", self.kernel.display().to_string());
        if let Some(initrd) = &self.initrd {
            add("-initrd", initrd.display().to_string());
        }
        add(
            "-append",
            format!(
                "console=ttyS0 panic=-1 nokaslr norandmaps no_timer_check clocksource=tsc {}",
                self.append
            ),
        );
        arguments.extend(self.emulator.iter().cloned());
        arguments
    }
}

/// A guest that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    directory: PathBuf,
    /// One ring a CPU.
    pub rings: Vec<Ring>,
}

/// Builds the plugin into `directory`; returns its path.
///
/// # Errors
/// If there is no compiler or it fails.
pub fn build_plugin(directory: &Path) -> Result<PathBuf, GuestError> {
    let hint = "watching a machine needs gcc (on Debian: apt-get install gcc libc6-dev)";
    let tool = |what: &str, source: io::Error| GuestError::Tool {
        what: what.to_owned(),
        source,
        hint,
    };
    for (name, text) in PLUGIN {
        std::fs::write(directory.join(name), text).map_err(|e| tool("writing the plugin", e))?;
    }
    let library = directory.join("libample_system.so");
    let status = Command::new("gcc")
        .args(["-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-o"])
        .arg(&library)
        .arg(directory.join(PLUGIN[0].0))
        .status()
        .map_err(|e| tool("building the plugin", e))?;
    match status.success() {
        true => Ok(library),
        false => Err(tool(
            "building the plugin",
            io::Error::other(format!("gcc: {status}")),
        )),
    }
}

impl Running {
    /// Starts a guest with its memory, rings and console in `directory`, which should lie in a
    /// memory file system.
    ///
    /// # Errors
    /// If something that it needs is missing, or the emulator cannot be started.
    pub fn start(guest: &Guest, directory: &Path, plugin: &Path) -> Result<Self, GuestError> {
        guest.check()?;
        let tool = |what: &str, source: io::Error| GuestError::Tool {
            what: what.to_owned(),
            source,
            hint: "watching a machine needs qemu-system-x86_64 9.2 or later with plugins; \
                   make qemu installs it",
        };
        let made = |source| tool("making the guest's memory and rings", source);
        let ram = File::create_new(directory.join("ram")).map_err(made)?;
        ram.set_len(guest.memory_bytes).map_err(made)?;
        let ring = |cpu| Ring::create(&directory.join(format!("ring.{cpu}")), RING_WORDS);
        let rings: io::Result<Vec<Ring>> = (0..guest.cpus).map(ring).collect();
        let rings = rings.map_err(made)?;
        let log = File::create(directory.join("emulator.log")).map_err(made)?;
        let child = Command::new(EMULATOR)
            .args(guest.arguments(directory, plugin))
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(made)?)
            .stderr(log)
            .spawn()
            .map_err(|e| tool("starting qemu-system-x86_64", e))?;
        Ok(Running {
            child,
            directory: directory.to_owned(),
            rings,
        })
    }

    /// The guest's memory.
    ///
    /// # Errors
    /// If its file cannot be opened.
    pub fn memory(&self, guest: &Guest) -> io::Result<GuestMemory> {
        GuestMemory::open(&self.directory.join("ram"), guest.low_bytes())
    }

    /// How the emulator has ended; None while it runs.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// What the emulator itself has said.
    pub fn said(&self) -> String {
        let said = std::fs::read_to_string(self.directory.join("emulator.log"));
        said.unwrap_or_default().trim().to_owned()
    }

    /// What the guest has written on its console.
    pub fn console(&self) -> String {
        let bytes = std::fs::read(self.directory.join("console.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
