// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest under QEMU's system emulation, recorded by the plugin: how it is started, where its
//! memory lies, and how it ends.

use crate::emulator::{EmulatorProcess, compile};
use crate::file::FileHeader;
use crate::names::GuestMemory;
use crate::ring::Ring;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
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
/// In the guest's directory: its memory, and what it writes on its console.
pub(crate) const RAM: &str = "ram";
pub(crate) const CONSOLE: &str = "console.log";
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

impl GuestError {
    pub(crate) fn tool(what: &str, source: io::Error) -> Self {
        GuestError::Tool {
            what: what.to_owned(),
            source,
            hint: "a whole machine needs qemu-system-x86_64 9.2 or later with plugins; make qemu \
                   installs it",
        }
    }
}

impl Guest {
    /// Whether it can be started.
    pub(crate) fn check(&self) -> Result<(), GuestError> {
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
            let told = format!("{} CPUs; 1 to {CPUS} are possible", self.cpus);
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

    /// The emulator's arguments under a recorder, `directory` with the guest's memory and rings.
    fn arguments(&self, directory: &Path, plugin: &Path) -> Vec<String> {
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
        ]
        .map(String::from)
        .into();
        let verify = if self.verify { ",verify=1" } else { "" };
        let plugin = format!(
            "{},dir={},low={}{verify}",
            plugin.display(),
            directory.display(),
            self.low_bytes()
        );
        let (console, words) = (
            directory.join(CONSOLE),
            "nokaslr norandmaps no_timer_check clocksource=tsc",
        );
        arguments.extend(self.machine(directory, &console, &plugin, "pc,hpet=off", words));
        arguments.extend(self.emulator.iter().cloned());
        arguments
    }

    /// The arguments that every guest has: memory in a shared file of `directory`, CPUs, a console,
    /// a plugin and a kernel, which gets `words` on its command line before its own.
    pub(crate) fn machine(
        &self,
        directory: &Path,
        console: &Path,
        plugin: &str,
        machine: &str,
        words: &str,
    ) -> Vec<String> {
        let mut arguments: Vec<String> = ["-display", "none", "-no-reboot", "-nodefaults"]
            .map(String::from)
            .into();
        let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
        let (size, file) = (self.memory_bytes, directory.join(RAM));
        add("-machine", format!("{machine},memory-backend=ram"));
        add("-m", format!("{size}B"));
        add(
            "-object",
            format!(
                "memory-backend-file,id=ram,share=on,size={size}B,mem-path={}",
                file.display()
            ),
        );
        add("-smp", self.cpus.to_string());
        add("-serial", format!("file:{}", console.display()));
        add("-plugin", plugin.to_owned());
        add("-kernel", self.kernel.display().to_string());
        if let Some(initrd) = &self.initrd {
            add("-initrd", initrd.display().to_string());
        }
        add(
            "-append",
            format!("console=ttyS0 panic=-1 {words} {}", self.append),
        );
        arguments
    }
}

/// A guest that runs under the recorder.
#[derive(Debug)]
pub struct Running {
    emulator: EmulatorProcess,
    directory: PathBuf,
    /// One ring a CPU.
    pub rings: Vec<Ring>,
}

/// Builds the recorder into `directory`; returns its path.
///
/// # Errors
/// If there is no compiler or it fails.
pub fn build_plugin(directory: &Path) -> Result<PathBuf, GuestError> {
    compile(directory, &PLUGIN, "libample_system.so")
}

impl Running {
    /// Starts a guest with its memory, rings and console in `directory`, which should lie in a
    /// memory file system.
    ///
    /// # Errors
    /// If something that it needs is missing, or the emulator cannot be started.
    pub fn start(guest: &Guest, directory: &Path, plugin: &Path) -> Result<Self, GuestError> {
        guest.check()?;
        let ring = |cpu| Ring::create(&directory.join(format!("ring.{cpu}")), RING_WORDS);
        let rings: io::Result<Vec<Ring>> = (0..guest.cpus).map(ring).collect();
        let rings = rings.map_err(|e| GuestError::tool("making the guest's rings", e))?;
        let arguments = guest.arguments(directory, plugin);
        let console = directory.join(CONSOLE);
        Ok(Running {
            emulator: EmulatorProcess::start(guest, directory, console, &arguments)?,
            directory: directory.to_owned(),
            rings,
        })
    }

    /// The guest's memory.
    ///
    /// # Errors
    /// If its file cannot be opened.
    pub fn memory(&self, guest: &Guest) -> io::Result<GuestMemory> {
        GuestMemory::open(&self.directory.join(RAM), guest.low_bytes())
    }

    /// How the emulator has ended; None while it runs.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.emulator.ended()
    }

    /// What the emulator itself has said.
    pub fn said(&self) -> String {
        self.emulator.said()
    }

    /// What the guest has written on its console.
    pub fn console(&self) -> String {
        self.emulator.console()
    }
}
