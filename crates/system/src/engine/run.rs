// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest with a migration engine, booted, served and reported.

use super::alias::PluginLink;
use super::device::{EngineCounts, EngineDevice, EngineError};
use super::server::EngineServer;
use super::shared::SharedMemory;
use crate::emulator::{EmulatorProcess, compile, version};
use crate::guest::{CONSOLE, Guest};
use crate::report::{failures, objects};
use crate::scratch::Scratch;
use ample_migration::protocol::Design;
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The sources of the plugin: name and text.
const PLUGIN: [(&str, &str); 3] = [
    (
        "ample_engine.c",
        include_str!("../../plugin/ample_engine.c"),
    ),
    ("alias.h", include_str!("../../plugin/alias.h")),
    ("qemu.h", include_str!("../../plugin/qemu.h")),
];
/// Before this version a CPU of the emulator may go on in code that another has patched.
const LEAST_VERSION: u32 = 10;
/// How long the engine waits for a doorbell before it looks whether the guest still runs.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the emulator may take to end after it has closed its memory.
const PARTING: Duration = Duration::from_secs(5);
/// Time between two calls of the progress function.
const REPORT_EVERY: Duration = Duration::from_millis(100);
const PAGE_BYTES: u64 = 4096;

/// What to boot, and with what engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// What to boot.
    pub guest: Guest,
    /// Whether pages under migration may be cached. The guest's CPUs have no caches: the design
    /// decides only what the engine's parties tell each other.
    pub design: Design,
    /// Entries of the engine's table.
    pub table_entries: u8,
    /// Most wall time.
    pub limit: Duration,
    /// Where the guest's console is written; None: it is kept for the report only.
    pub console: Option<PathBuf>,
}

/// What the engine of a guest has done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EngineRun {
    /// `ample.system.engine/1`.
    pub schema: &'static str,
    /// Path of the kernel.
    pub kernel: String,
    /// What was added to its command line.
    pub append: String,
    /// Bytes of the guest's memory.
    pub memory_bytes: u64,
    /// Virtual CPUs.
    pub cpus: usize,
    /// Cacheable or not.
    pub design: Design,
    /// Entries of the engine's table.
    pub table_entries: u8,
    /// What the engine has done.
    #[serde(flatten)]
    pub counts: EngineCounts,
    /// Entries of the table in use at the end.
    pub entries_left: usize,
    /// From the start of the emulator to its end.
    pub wall_s: f64,
    /// Pages moved in a second of it.
    pub moves_per_s: f64,
    /// Whether the guest powered off by itself: not stopped by hand, by the limit or by a panic.
    pub ended_by_itself: bool,
    /// Objects that the guest printed on its console on lines that begin with `@@ `.
    pub guest: Vec<serde_json::Value>,
    /// What the guest said was not as it should be, on lines that begin with `@@ FAIL `.
    pub failures: Vec<String>,
    /// What the guest has written on its console.
    #[serde(skip)]
    pub console: String,
}

/// What to tell before a guest with so much memory is booted: an emulator has a limited number of
/// mappings, and each page that has moved can take two.
pub fn mapping_warning(memory_bytes: u64) -> Option<String> {
    let told = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?;
    let most: u64 = told.trim().parse().ok()?;
    let pages = memory_bytes / PAGE_BYTES;
    (pages > most).then(|| {
        format!(
            "the guest has {pages} pages, and the emulator may have {most} mappings: when some \
             {} pages lie elsewhere than at the start the run ends (sysctl vm.max_map_count={} \
             allows all of them)",
            most / 2,
            2 * pages
        )
    })
}

/// Boots a guest with a migration engine and serves it until it ends, a stop is asked for or the
/// limit is over. `progress` is called ten times a second.
///
/// # Errors
/// If something that is needed is missing, the emulator ends with an error, the guest's driver
/// breaks the layout of the shared memory, or pages cannot be made one.
pub fn run_engine(
    options: &EngineOptions,
    stop: impl Fn() -> bool,
    mut progress: impl FnMut(&EngineCounts),
) -> Result<EngineRun> {
    let guest = &options.guest;
    guest.check()?;
    let found = version()?;
    ensure!(
        found >= LEAST_VERSION,
        "CPUs in parallel need qemu-system-x86_64 {LEAST_VERSION} or later; this one says {found} \
         (make qemu installs one)"
    );
    let scratch = Scratch::new()?;
    let plugin = compile(&scratch.0, &PLUGIN, "libample_engine.so")?;
    let mut served = Served::new(options, &scratch.0, &plugin)?;
    let (started, mut reported) = (Instant::now(), Instant::now());
    let status = loop {
        if let Some(status) = served.step()? {
            break Some(status);
        }
        if stop() || started.elapsed() > options.limit {
            break None;
        }
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            progress(served.device.counts());
        }
    };
    let wall_s = started.elapsed().as_secs_f64();
    let console = served.emulator.console();
    if let Some(status) = status.filter(|status| !status.success()) {
        bail!(
            "the emulator ended with {status}: {}",
            served.emulator.said()
        );
    }
    let header = guest.header();
    let counts = served.device.counts().clone();
    Ok(EngineRun {
        schema: "ample.system.engine/1",
        kernel: header.kernel,
        append: header.append,
        memory_bytes: header.memory_bytes,
        cpus: header.cpus,
        design: options.design,
        table_entries: options.table_entries,
        entries_left: served.device.entries(),
        wall_s,
        moves_per_s: counts.moved as f64 / wall_s.max(1e-9),
        counts,
        ended_by_itself: status.is_some() && !console.contains("Kernel panic - not syncing"),
        guest: objects(&console),
        failures: failures(&console),
        console,
    })
}

/// A guest, its engine, and what lies between them.
struct Served {
    emulator: EmulatorProcess,
    device: EngineDevice,
    shared: SharedMemory,
    server: EngineServer,
    plugins: UnixListener,
    plugin: Option<PluginLink>,
}

impl Served {
    /// Starts the emulator, which finds all that it connects to.
    fn new(options: &EngineOptions, directory: &Path, plugin: &Path) -> Result<Self> {
        let guest = &options.guest;
        let (design, entries) = (options.design, options.table_entries);
        let making = || format!("making the engine in {}", directory.display());
        let shared = SharedMemory::create(
            &directory.join("engine"),
            design,
            entries,
            guest.memory_bytes,
        )
        .with_context(making)?;
        let server = EngineServer::bind(&directory.join("engine.sock")).with_context(making)?;
        let plugins = UnixListener::bind(directory.join("alias.sock")).with_context(making)?;
        plugins.set_nonblocking(true).with_context(making)?;
        let console = match &options.console {
            Some(path) => std::path::absolute(path)?,
            None => directory.join(CONSOLE),
        };
        let arguments = arguments(guest, directory, plugin, &console);
        let memory = (guest.memory_bytes, guest.low_bytes());
        Ok(Served {
            emulator: EmulatorProcess::start(guest, directory, console, &arguments)?,
            device: EngineDevice::new(design, entries, memory, guest.cpus as u8),
            shared,
            server,
            plugins,
            plugin: None,
        })
    }

    /// Serves what there is, then waits a little; how the emulator has ended, once it has.
    fn step(&mut self) -> Result<Option<ExitStatus>> {
        let ended = self.emulator.ended().context("waiting for the emulator")?;
        if ended.is_some() {
            return Ok(ended);
        }
        let connected = self.server.accept(&self.shared);
        let connected = connected.context("giving the emulator its device")?;
        let Some(plugin) = self.plugin.as_mut().filter(|_| connected) else {
            match self.plugins.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    self.plugin = Some(PluginLink::new(stream));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("waiting for the plugin"),
            }
            std::thread::sleep(Duration::from_millis(1));
            return Ok(None);
        };
        match self.device.serve(&mut self.shared, plugin) {
            Ok(true) => self.server.interrupt().context("interrupting the guest")?,
            Ok(false) => self.server.wait(PAUSE).context("waiting for the guest")?,
            Err(error) => return self.parted(error),
        }
        Ok(None)
    }

    /// An emulator that ends closes its connections a little before it is gone.
    fn parted(&mut self, error: EngineError) -> Result<Option<ExitStatus>> {
        let closed = match &error {
            EngineError::Alias { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionReset
            ),
            EngineError::Shared(_) => false,
        };
        let since = Instant::now();
        while closed && since.elapsed() < PARTING {
            let ended = self.emulator.ended().context("waiting for the emulator")?;
            if ended.is_some() {
                return Ok(ended);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(error.into())
    }
}

/// The emulator's arguments, with CPUs in parallel and the engine's two ends in `directory`.
fn arguments(guest: &Guest, directory: &Path, plugin: &Path, console: &Path) -> Vec<String> {
    let socket = directory.join("engine.sock");
    let device = format!("socket,path={},id=engine", socket.display());
    let mut arguments: Vec<String> = [
        "-accel",
        "tcg,thread=multi,tb-size=256",
        "-cpu",
        "max,-erms,-fsrm",
        "-chardev",
        &device,
        "-device",
        "ivshmem-doorbell,vectors=1,chardev=engine",
    ]
    .map(String::from)
    .into();
    let plugin = format!(
        "{},dir={},low={}",
        plugin.display(),
        directory.display(),
        guest.low_bytes()
    );
    let words = "nokaslr no_timer_check clocksource=hpet";
    arguments.extend(guest.machine(directory, console, &plugin, "pc", words));
    arguments.extend(guest.emulator.iter().cloned());
    arguments
}
